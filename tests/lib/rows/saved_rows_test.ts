import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { randomFrom } from "../../support/random.ts";
import { roundsOf } from "../../support/rounds.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import {
  sharedPostgres,
  type TestDatabase,
  testDatabases,
} from "../../support/servers/databases.ts";
import { runInit, startNode, startOrigin } from "../../support/servers/origin_process.ts";
import {
  type Client,
  leastPermissions,
  ServerProcess,
  until,
} from "../../support/servers/server_process.ts";
import { read, Shop, VIEWS } from "../databases/views/shop.ts";

// Origins that restart with --snapshot: rows come back only where they are those of the database.

const KEPT = "the rows of the snapshot are kept";
const REMOVED = "the rows of the snapshot are removed";
const SHORT_MEMBER = ["--member-time", "300"];

/** A database, and a folder with the snapshot of its origin. */
class Setting implements Disposable {
  readonly folder = Deno.makeTempDirSync();
  readonly file = `${this.folder}/items`;

  constructor(readonly database: TestDatabase) {}

  /** Starts the origin that has the snapshot. */
  start(...args: readonly string[]): Promise<ServerProcess> {
    return this.startOther("--snapshot", this.file, "-vvv", ...args);
  }

  /** Starts another origin before the same database. */
  startOther(...args: readonly string[]): Promise<ServerProcess> {
    const { url, folder } = this.database;
    const folders = folder === "" ? this.folder : `${folder},${this.folder}`;
    return startOrigin({ url, folder: folders }, [...SHORT_MEMBER, ...args]);
  }

  /** Executes SQL as another program does. */
  async write(key: string, value: string): Promise<void> {
    const { url } = this.database;
    if (!url.startsWith("sqlite:")) {
      const sql = `UPDATE kv SET value = '${value}'::bytea WHERE key = '${key}'::bytea`;
      await (await sharedPostgres()).execute(sql, url);
      return;
    }
    using file = new DatabaseSync(url.slice("sqlite:".length));
    file.exec("PRAGMA busy_timeout = 5000");
    file.prepare("UPDATE kv SET value = CAST(? AS BLOB) WHERE key = CAST(? AS BLOB)")
      .run(value, key);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.folder, { recursive: true });
  }
}

async function set(client: Client, key: string, value: string): Promise<void> {
  await client.ask(`set ${key} 7 0 ${value.length}\r\n${value}\r\n`, "STORED\r\n");
}

async function expect(client: Client, key: string, value: string): Promise<void> {
  await client.ask(`get ${key}\r\n`, `VALUE ${key} 7 ${value.length}\r\n${value}\r\nEND\r\n`);
}

/** How many rows the origin has read from its database. */
async function reads(client: Client): Promise<number> {
  await client.send("stats rows\r\n");
  const stats = await client.until("END\r\n");
  const counts = [...stats.matchAll(/STAT gets_(?:un)?cacheable (\d+)/g)];
  assertEquals(counts.length, 2, stats);
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** Reads a key until the cache keeps it. */
async function untilCached(client: Client, key: string): Promise<void> {
  await until(async () => {
    await read(client, key);
    const before = await reads(client);
    await read(client, key);
    return await reads(client) === before;
  });
}

/** Stores rows, reads them into the cache, and stops the origin. */
async function fill(setting: Setting, ...args: readonly string[]): Promise<void> {
  await using origin = await setting.start(...args);
  using client = await origin.connect();
  for (const key of ["a", "b"]) {
    await set(client, key, "one");
    await expect(client, key, "one");
  }
  await client.ask("get none\r\n", "END\r\n");
  const { code, stderr } = await origin.stop();
  assertEquals(code, 0, stderr);
}

testDatabases("rows come back after a restart, and are written as before", async (database) => {
  using setting = new Setting(database);
  await fill(setting);
  {
    await using origin = await setting.start("-t", "2");
    await origin.line(KEPT);
    using client = await origin.connect();
    for (const key of ["a", "b"]) await expect(client, key, "one");
    await client.ask("gets a\r\n", "VALUE a 7 3 1\r\none\r\nEND\r\n");
    assertEquals(await reads(client), 0);
    await client.ask("get none\r\n", "END\r\n");
    assertEquals(await reads(client), 1);
    await set(client, "a", "two");
    await expect(client, "a", "two");
    await origin.stop();
  }
  await using origin = await setting.start("-n", "100");
  await origin.line(KEPT);
  using client = await origin.connect();
  await expect(client, "a", "two");
  await expect(client, "b", "one");
  assertEquals(await reads(client), 0);
  const { stderr } = await origin.stop();
  assertStringIncludes(stderr, "store check passed");
});

for (const signal of ["SIGTERM", "SIGKILL"] as const) {
  testDatabases(
    `rows do not come back after another origin, ended by ${signal}`,
    async (database) => {
      using setting = new Setting(database);
      await fill(setting);
      {
        await using other = await setting.startOther();
        using client = await other.connect();
        await set(client, "a", "two");
        other.signal(signal);
        await other.ended();
      }
      await using origin = await setting.start();
      await origin.line(`${REMOVED}: another origin was active since`);
      using client = await origin.connect();
      await expect(client, "a", "two");
      await expect(client, "b", "one");
      await origin.stop();
    },
  );
}

testDatabases("an origin that is replaced saves no rows", async (database) => {
  using setting = new Setting(database);
  await using origin = await setting.start("--rows", "a");
  {
    using client = await origin.connect();
    await set(client, "a", "one");
    await expect(client, "a", "one");
    await client.ask("set plain 7 0 3\r\none\r\n", "STORED\r\n");
  }
  const backend = await database.open();
  origin.signal("SIGSTOP");
  const { epoch } = await backend.takeOver();
  assertEquals(await backend.noteMark("other", epoch), true);
  origin.signal("SIGTERM");
  origin.signal("SIGCONT");
  await origin.ended();
  await backend.close();
  await using next = await setting.start("--rows", "a");
  using client = await next.connect();
  await expect(client, "a", "one");
  assertEquals(await reads(client), 1);
  await next.stop();
});

testDatabases(
  "rows of other options do not come back, and no item becomes a row",
  async (database) => {
    using setting = new Setting(database);
    await fill(setting, "--rows", "a", "--rows", "none");
    {
      await using origin = await setting.start("--rows", "b");
      using client = await origin.connect();
      // It was an item of the cache alone, and the table has no such row.
      await client.ask("get b\r\n", "END\r\n");
      await client.ask("get a\r\n", "END\r\n");
      await set(client, "b", "row");
      await expect(client, "b", "row");
      await origin.stop();
    }
    const [read, ...others] = leastPermissions("portable");
    await using plain = await ServerProcess.start({
      io: "portable",
      permissions: [`${read},${setting.folder}`, `--allow-write=${setting.folder}`, ...others],
      args: ["--snapshot", setting.file],
    });
    using client = await plain.connect();
    await client.ask("get b\r\n", "END\r\n");
    await plain.stop();
  },
);

testDatabases("rows that are followed come back after the log was applied", async (database) => {
  using setting = new Setting(database);
  const { code, stderr } = await runInit(database, ["--follow", "--run"]);
  assertEquals(code, 0, stderr);
  await fill(setting, "--follow");
  await setting.write("a", "two");
  {
    await using origin = await setting.start("--follow");
    await origin.line(KEPT);
    using client = await origin.connect();
    await expect(client, "a", "two");
    await origin.stop();
  }
  // Nobody has deleted what others have changed meanwhile.
  await using origin = await setting.start();
  using client = await origin.connect();
  await expect(client, "a", "two");
  await expect(client, "b", "one");
  assertEquals(await reads(client), 2);
  await origin.stop();
});

testDatabases("rows do not come back before a database that was restored", async (database) => {
  using setting = new Setting(database);
  await fill(setting);
  const path = database.url.slice("sqlite:".length);
  await Deno.copyFile(path, `${path}.copy`);
  {
    await using origin = await setting.start();
    using client = await origin.connect();
    await set(client, "a", "two");
    await expect(client, "a", "two");
    await origin.stop();
  }
  for (const suffix of ["-wal", "-shm"]) await Deno.remove(path + suffix).catch(() => {});
  await Deno.copyFile(`${path}.copy`, path);
  await using origin = await setting.start();
  await origin.line(REMOVED);
  using client = await origin.connect();
  await expect(client, "a", "one");
  await origin.stop();
}, ["SQLite"]);

testDatabases("a node comes back without rows, and with its other items", async (database) => {
  using setting = new Setting(database);
  await using origin = await setting.startOther("--rows", "a");
  using writer = await origin.connect();
  await set(writer, "a", "one");
  const args = ["--rows", "a", "--snapshot", setting.file, "-vvv"];
  {
    await using node = await startNode([origin], args, setting.folder);
    using client = await node.connect();
    await expect(client, "a", "one");
    await set(client, "plain", "one");
    await node.stop();
  }
  await set(writer, "a", "two");
  await using node = await startNode([origin], args, setting.folder);
  await node.line("loaded: 1 items");
  using client = await node.connect();
  await expect(client, "a", "two");
  await expect(client, "plain", "one");
  await node.stop();
}, ["SQLite"]);

testDatabases("rows are not saved when the database notes no mark", async (database) => {
  using setting = new Setting(database);
  {
    await using origin = await setting.start("--rows", "a");
    using client = await origin.connect();
    await set(client, "a", "one");
    await expect(client, "a", "one");
    await set(client, "plain", "one");
    await Deno.remove(database.url.slice("sqlite:".length));
    const { stderr } = await origin.stop();
    assertStringIncludes(
      stderr,
      "the rows are not saved: the database has noted no mark: the file",
    );
  }
  const [read, ...others] = leastPermissions("portable");
  await using plain = await ServerProcess.start({
    io: "portable",
    permissions: [`${read},${setting.folder}`, `--allow-write=${setting.folder}`, ...others],
    args: ["--snapshot", setting.file],
  });
  using client = await plain.connect();
  await client.ask("get a\r\n", "END\r\n");
  await expect(client, "plain", "one");
  await plain.stop();
}, ["SQLite"]);

testDatabases(
  "views do not come back: the next file of views may say otherwise",
  async (database) => {
    await using shop = await Shop.open(database);
    const args = ["--snapshot", `${shop.path}.items`];
    for (const [column, value] of [["id", "2"], ["code", "c"]]) {
      const views = VIEWS.replace("SELECT id FROM", `SELECT ${column} FROM`);
      await Deno.writeTextFile(shop.path, views);
      for (let start = 0; start < 2; start++) {
        await using origin = await shop.start(args);
        using client = await origin.connect();
        assertEquals(await read(client, "name:Chess"), value);
        await untilCached(client, "name:Chess");
        const { code, stderr } = await origin.stop();
        assertEquals(code, 0, stderr);
      }
    }
  },
);

const KEYS = ["k0", "k1", "k2", "k3", "k4"];
/** What happens while the origin is down. */
const EVENTS = [
  "nothing",
  "nothing",
  "other",
  "other killed",
  "direct",
  "other and direct",
] as const;

/** Restarts of an origin in one test: each costs seconds on a busy machine, and a test has a limit. */
const RESTARTS = 2;

/** Restarts an origin; between, others write. Every read must find the last value. */
async function torture(database: TestDatabase, seed: number, follows: boolean): Promise<void> {
  using setting = new Setting(database);
  const random = randomFrom(seed);
  const pick = <Value>(values: readonly Value[]): Value =>
    values[Math.floor(random() * values.length)]!;
  const follow = follows ? ["--follow"] : [];
  if (follows) assertEquals((await runInit(database, ["--follow", "--run"])).code, 0);
  const values = new Map<string, string>();
  let version = 0;
  const write = async (client: Client): Promise<void> => {
    const key = pick(KEYS);
    const value = `${key}-${++version}`;
    await set(client, key, value);
    values.set(key, value);
  };
  const verify = async (client: Client): Promise<void> => {
    for (const [key, value] of values) await expect(client, key, value);
  };
  for (let restarts = 0;; restarts++) {
    {
      await using origin = await setting.start(...follow, "-t", pick(["1", "2"]));
      using client = await origin.connect();
      await verify(client);
      if (restarts === RESTARTS) return;
      for (let writes = 0; writes < 5; writes++) await write(client);
      if (random() < 0.8) await verify(client);
      origin.signal(random() < 0.85 ? "SIGTERM" : "SIGKILL");
      const { stderr } = await origin.ended();
      assertMatch(stderr, /listens on/);
    }
    const event = pick(EVENTS);
    if (event.startsWith("other")) {
      await using other = await setting.startOther(...random() < 0.5 ? follow : []);
      using client = await other.connect();
      for (let writes = 0; writes < 2; writes++) await write(client);
      other.signal(event === "other killed" ? "SIGKILL" : "SIGTERM");
      await other.ended();
    }
    if (event.endsWith("direct") && follows) {
      const [key] = pick([...values]);
      values.set(key, `${key}-direct${++version}`);
      await setting.write(key, values.get(key)!);
    }
  }
}

for (const follows of [false, true]) {
  const name = follows ? "other origins and direct writers" : "other origins";
  for (let run = 1; run <= roundsOf(1); run++) {
    testDatabases(
      `no row is old after restarts, with ${name} between, run ${run}`,
      (database) => withSeed(drawSeed(), (seed) => torture(database, seed, follows)),
    );
  }
}
