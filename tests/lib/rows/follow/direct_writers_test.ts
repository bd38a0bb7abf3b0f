// Programs that write to the table directly, at full speed, beside clients that read through the origin.
import { assertEquals, assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { Session } from "../../../../lib/databases/postgres/session.ts";
import { type TestDatabase, testDatabases } from "../../../support/servers/databases.ts";
import { runInit, startNode, startOrigin } from "../../../support/servers/origin_process.ts";
import { type Client, type ServerProcess, until } from "../../../support/servers/server_process.ts";

const KEYS = ["k0", "k1", "k2", "k3"];
const PERIODS = 3;
/** Direct writes between two moments of rest. */
const WRITES = 400;
const READERS = 3;
const SHORT_MEMBER = ["--member-time", "300"];

/** Another program with a connection of its own. */
interface Writer extends AsyncDisposable {
  write(key: string, value: string): Promise<void>;
  /** Gives every row this value, and many new ones, in one transaction. */
  flood(value: string): Promise<void>;
}

async function openWriter({ url }: TestDatabase): Promise<Writer> {
  if (url.startsWith("sqlite:")) {
    const file = new DatabaseSync(url.slice("sqlite:".length), { timeout: 10_000 });
    const put = file.prepare(
      "INSERT INTO kv (key, value) VALUES (CAST(? AS BLOB), CAST(? AS BLOB)) " +
        "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    );
    return {
      write: async (key, value) => {
        put.run(key, value);
        // Readers of this process go on.
        await new Promise((resolve) => setTimeout(resolve, 0));
      },
      flood: (value) => {
        file.prepare(
          "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) " +
            "INSERT INTO kv (key, value) SELECT CAST(k AS BLOB), CAST(? AS BLOB) FROM " +
            "(SELECT 'r' || i AS k FROM n UNION ALL SELECT key FROM kv) WHERE true " +
            "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        ).run(value);
        return Promise.resolve();
      },
      [Symbol.asyncDispose]: () => Promise.resolve(file.close()),
    };
  }
  const session = await Session.open({ url, timeoutMs: 10_000 });
  return {
    write: async (key, value) => {
      await session.query(
        "INSERT INTO kv (key, value) VALUES ($1::text::bytea, $2::text::bytea) " +
          "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [key, value],
      );
    },
    flood: async (value) => {
      await session.query(
        "INSERT INTO kv (key, value) SELECT k, $1::text::bytea FROM (SELECT ('r' || i)::bytea AS k " +
          "FROM generate_series(1, 30000) AS i UNION ALL SELECT key FROM kv) AS all_keys " +
          "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [value],
      );
    },
    [Symbol.asyncDispose]: () => session.close(),
  };
}

/** The errors of a server whose time to serve rows is over: on a busy machine it may be, for a moment. */
const AWAY = /^SERVER_ERROR (?:rows are not available: no confirmation from|no membership of) /;

/** Asks again while the server has no right to serve rows. @returns The reply, up to `end`. */
async function ask(client: Client, request: string, end: string): Promise<string> {
  let reply = "";
  await until(async () => {
    await client.send(`${request}\r\n`);
    // An error is the whole reply.
    reply = await client.until(new RegExp(`^SERVER_ERROR [^\\n]*\\n|${end}\r\n`));
    return !AWAY.test(reply);
  });
  return reply;
}

async function read(client: Client, key: string): Promise<string> {
  const reply = await ask(client, `get ${key}`, "END");
  assertMatch(reply, /^(?:VALUE [^]*)?END\r\n$/);
  const [, value = ""] = reply.split("\r\n");
  return value;
}

/** Waits until everything that was written before is applied. */
async function follow(client: Client): Promise<void> {
  assertEquals(await ask(client, "follow wait now 60000", "OK"), "OK\r\n");
}

/** Reads without a pause until `isOver`. */
async function readOn(origin: ServerProcess, isOver: () => boolean): Promise<void> {
  using client = await origin.connect();
  while (!isOver()) for (const key of KEYS) await read(client, key);
}

/** Writes while others read at these servers. @returns The last value of each key. */
async function writeBesideReaders(
  servers: readonly ServerProcess[],
  writer: Writer,
  from: number,
): Promise<Map<string, string>> {
  let isOver = false;
  const readers = Array.from(
    { length: READERS },
    (_, index) => readOn(servers[index % servers.length]!, () => isOver),
  );
  const last = new Map<string, string>();
  try {
    for (let n = from; n < from + WRITES; n++) {
      const key = KEYS[n % KEYS.length]!;
      await writer.write(key, `v${n}`);
      last.set(key, `v${n}`);
    }
  } finally {
    isOver = true;
  }
  await Promise.all(readers);
  return last;
}

/** Returns the keys whose value is not the last one. */
async function staleKeys(client: Client, last: ReadonlyMap<string, string>): Promise<string[]> {
  const stale: string[] = [];
  for (const [key, value] of last) if (await read(client, key) !== value) stale.push(key);
  return stale;
}

testDatabases(
  "after each wait, every value is the last one of direct writers",
  async (database) => {
    assertEquals((await runInit(database, ["--follow", "--run"])).code, 0);
    for (let period = 0; period < PERIODS; period++) {
      await using origin = await startOrigin(database, ["--follow", ...SHORT_MEMBER]);
      await using writer = await openWriter(database);
      const last = await writeBesideReaders([origin], writer, period * WRITES);
      using client = await origin.connect();
      await follow(client);
      assertEquals(await staleKeys(client, last), []);
      // One read after another, with a wait for each write.
      for (let n = 0; n < KEYS.length; n++) {
        await writer.write("k0", `w${n}`);
        await follow(client);
        assertEquals(await read(client, "k0"), `w${n}`);
      }
      origin.signal("SIGKILL");
      await origin.ended();
    }
  },
);

testDatabases(
  "the check finds the stale values of an origin that does not follow",
  async (database) => {
    await using origin = await startOrigin(database);
    await using writer = await openWriter(database);
    using client = await origin.connect();
    // A row that a reader has found absent would stay so.
    for (const key of KEYS) await writer.write(key, "first");
    const last = await writeBesideReaders([origin], writer, 0);
    // Each value is in the cache when the next one is written, however busy the machine is.
    for (const key of last.keys()) await until(async () => await read(client, key) !== "");
    for (const key of KEYS) await writer.write(key, "late");
    const late = new Map(KEYS.map((key) => [key, "late"]));
    assertEquals(await staleKeys(client, late), KEYS);
  },
);

testDatabases(
  "after each wait, every value at two nodes is the last one of direct writers",
  async (database) => {
    assertEquals((await runInit(database, ["--follow", "--run"])).code, 0);
    await using origin = await startOrigin(database, ["--follow", ...SHORT_MEMBER]);
    await using one = await startNode([origin]);
    await using two = await startNode([origin]);
    await using writer = await openWriter(database);
    using a = await one.connect();
    using b = await two.connect();
    for (let period = 0; period < PERIODS; period++) {
      const last = await writeBesideReaders([one, two], writer, period * WRITES);
      await follow(a);
      assertEquals([await staleKeys(a, last), await staleKeys(b, last)], [[], []]);
      for (let n = 0; n < KEYS.length; n++) {
        await writer.write("k0", `w${period}-${n}`);
        await follow(b);
        for (const client of [a, b]) assertEquals(await read(client, "k0"), `w${period}-${n}`);
      }
    }
  },
);

testDatabases(
  "direct writes are applied without nodes that are stopped or end",
  async (database) => {
    assertEquals((await runInit(database, ["--follow", "--run"])).code, 0);
    await using origin = await startOrigin(database, ["--follow", ...SHORT_MEMBER]);
    await using one = await startNode([origin]);
    await using two = await startNode([origin]);
    await using writer = await openWriter(database);
    using a = await one.connect();
    using b = await two.connect();
    using waiter = await origin.connect();
    await writer.write("k0", "first");
    await follow(waiter);
    for (const client of [a, b]) assertEquals(await read(client, "k0"), "first");
    one.signal("SIGSTOP");
    await writer.write("k0", "second");
    await follow(waiter);
    assertEquals(await read(b, "k0"), "second");
    // Its membership is over: nothing old, with the first request that it reads.
    await a.send("get k0\r\n");
    one.signal("SIGCONT");
    assertMatch(
      await a.until("\r\n"),
      /^(VALUE k0 0 6|SERVER_ERROR rows are not available: .* origin 127.*)\r\n$/,
    );
    two.signal("SIGKILL");
    await two.ended();
    await writer.write("k0", "third");
    await follow(waiter);
    assertEquals(await read(waiter, "k0"), "third");
  },
);

testDatabases("a flood of direct writes removes all rows from nodes", async (database) => {
  assertEquals((await runInit(database, ["--follow", "--run"])).code, 0);
  // A busy machine does not end this membership.
  const args = ["--follow", "--rows", "k", "--member-time", "600000"];
  await using origin = await startOrigin(database, args);
  await using node = await startNode([origin], ["--rows", "k"]);
  await using writer = await openWriter(database);
  using client = await node.connect();
  await client.ask("set item 0 0 1\r\n1\r\n", "STORED\r\n");
  for (const key of KEYS) await writer.write(key, "old");
  await follow(client);
  for (const key of KEYS) assertEquals(await read(client, key), "old");
  await writer.flood("new");
  await follow(client);
  for (const key of KEYS) assertEquals(await read(client, key), "new");
  // The membership goes on, and so do ordinary items.
  await client.ask("get item\r\n", "VALUE item 0 1\r\n1\r\nEND\r\n");
  await client.send("stats rows\r\n");
  assertMatch(await client.until("END\r\n"), /STAT node_joins 1\r\n/);
  using other = await origin.connect();
  await other.send("stats rows\r\n");
  assertMatch(await other.until("END\r\n"), /STAT follow_floods [1-9]/);
});
