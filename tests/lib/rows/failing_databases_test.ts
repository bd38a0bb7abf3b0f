import { assertEquals, assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { Session } from "../../../lib/databases/postgres/session.ts";
import { pause } from "../../../lib/process/pause.ts";
import { createDatabase, sharedPostgres } from "../../support/servers/databases.ts";
import { HAS_POSTGRES, PostgresServer } from "../../support/servers/postgres.ts";
import { launchOrigin, startOrigin } from "../../support/servers/origin_process.ts";
import { Relay } from "../../support/servers/relay.ts";
import { type Client, until } from "../../support/servers/server_process.ts";
import { CAN_MOUNT, fillDisk, makeReadOnly, mountTinyDisk } from "../../support/tiny_disk.ts";
import { needs } from "../../support/needs/needs.ts";

// A database fails under a server that serves its rows: hits go on, errors name the reason, and nothing is lost.

const HIT = "VALUE hit 0 3\r\none\r\nEND\r\n";
const PATIENCE = ["--db-timeout", "1000"];
/** Hits go on before PostgreSQL, however slow the machine is. */
const PATIENT_HITS = ["--member-time", "60000"];

async function reply(client: Client, request: string): Promise<string> {
  await client.send(request);
  return await client.until("\r\n");
}

/** Writes a row, and reads it into the cache. */
async function cacheRow(client: Client): Promise<void> {
  await client.ask("set hit 0 0 3\r\none\r\n", "STORED\r\n");
  await client.ask("get hit\r\n", HIT);
}

/** Resolves when writes succeed again. */
async function untilWritten(client: Client): Promise<void> {
  await until(async () => await reply(client, "set later 0 0 1\r\n1\r\n") === "STORED\r\n");
}

Deno.test("SQLite: a full disk refuses writes by name; they succeed when there is room", {
  ...needs("mount", CAN_MOUNT),
}, async () => {
  await using database = await createDatabase("SQLite");
  const folder = `${database.folder}/disk`;
  using _disk = mountTinyDisk(folder, 1_000_000);
  await using server = await startOrigin({ url: `sqlite:${folder}/rows.db`, folder }, []);
  using client = await server.connect();
  await cacheRow(client);
  const ballast = fillDisk(folder);
  const large = `set large 0 0 99999\r\n${"x".repeat(99_999)}\r\n`;
  const full = `SERVER_ERROR ${folder}/rows.db: database or disk is full\r\n`;
  await client.ask(large, full);
  await client.ask("get hit\r\n", HIT);
  await client.ask("get large\r\n", "END\r\n");
  Deno.removeSync(ballast);
  await client.ask(large, "STORED\r\n");
  await server.stop();
});

Deno.test("SQLite: a file that is deleted under the server refuses writes, also of a new file", async () => {
  await using database = await createDatabase("SQLite");
  await using server = await startOrigin(database);
  using client = await server.connect();
  await cacheRow(client);
  const file = `${database.folder}/rows.db`;
  Deno.removeSync(file);
  const refused = `SERVER_ERROR ${file}: the file was deleted or replaced\r\n`;
  await client.ask("set hit 0 0 3\r\ntwo\r\n", refused);
  Deno.writeTextFileSync(file, "");
  await client.ask("delete hit\r\n", refused);
  await server.stop();
});

Deno.test("SQLite: a disk that is read only ends the start, and says why", {
  ...needs("mount", CAN_MOUNT),
}, async () => {
  await using database = await createDatabase("SQLite");
  const folder = `${database.folder}/disk`;
  using _disk = mountTinyDisk(folder, 1_000_000);
  const place = { url: `sqlite:${folder}/rows.db`, folder };
  for (const isNew of [true, false]) {
    if (!isNew) {
      await using server = await startOrigin(place);
      await server.stop();
    }
    using _readOnly = makeReadOnly(folder);
    const { code, stderr } = await launchOrigin(place).ended();
    assertEquals(code, 71);
    assertMatch(stderr, /cannot use the database \S+rows\.db: .* must be writable/);
  }
});

Deno.test("SQLite: a locked file refuses writes by name, and health says so; hits go on", async () => {
  await using database = await createDatabase("SQLite");
  await using server = await startOrigin(database, [...PATIENCE, "--metrics", "0"]);
  const [admin] = /http:\/\/[^/]+/.exec(await server.line("metrics are at http://"))!;
  const health = async (): Promise<string> => await (await fetch(`${admin}/health`)).text();
  using client = await server.connect();
  await cacheRow(client);
  const file = `${database.folder}/rows.db`;
  using other = new DatabaseSync(file);
  other.exec("BEGIN EXCLUSIVE");
  await until(async () =>
    (await health()).includes(`${file}: another process has locked the file`)
  );
  await client.ask("get hit\r\n", HIT);
  const locked = "another process has locked the file for 1000 ms";
  await client.ask("set hit 0 0 3\r\ntwo\r\n", `SERVER_ERROR ${file}: ${locked}\r\n`);
  await client.ask("get hit\r\n", HIT);
  other.exec("COMMIT");
  await untilWritten(client);
  await until(async () => !(await health()).includes("locked"));
  const metrics = await (await fetch(`${admin}/metrics`)).text();
  assertMatch(metrics, /^# HELP leased_rows_puts_committed_total writes: committed$/m);
  assertEquals(/^# HELP .*: $/m.exec(metrics), null, "a unit is no meaning");
  assertMatch(metrics, /^# TYPE leased_rows_database_write_seconds_total counter$/m);
  assertMatch(metrics, /^leased_rows_puts_failed_total [1-9]/m);
  await client.ask("get hit later\r\n", "VALUE hit 0 3\r\none\r\nVALUE later 0 1\r\n1\r\nEND\r\n");
  await server.stop();
});

Deno.test("PostgreSQL: a write whose session is terminated during its commit has an outcome", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const cluster = await PostgresServer.start();
  try {
    const url = await cluster.createDatabase();
    await using server = await startOrigin({ url, folder: "" }, PATIENT_HITS);
    using client = await server.connect();
    await cacheRow(client);
    // A commit that takes long.
    await cluster.execute(
      "CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM pg_sleep(60); " +
        "RETURN NULL; END$$; CREATE CONSTRAINT TRIGGER delay AFTER UPDATE ON kv DEFERRABLE " +
        "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION delay()",
      url,
    );
    for (const command of ["set hit 0 0 3\r\ntwo\r\n", "append hit 0 0 1\r\n!\r\n"]) {
      await client.send(command);
      const isSleeping = "wait_event = 'PgSleep' AND datname = current_database()";
      await until(async () =>
        await cluster.execute(
          `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE ${isSleeping}`,
          url,
        ) === "1"
      );
      assertEquals(await client.until("\r\n"), "SERVER_ERROR the database did not write it\r\n");
      await client.ask("get hit\r\n", HIT);
    }
    await cluster.execute("DROP TRIGGER delay ON kv", url);
    await client.ask("append hit 0 0 1\r\n!\r\n", "STORED\r\n");
    await client.ask("get hit\r\n", "VALUE hit 0 4\r\none!\r\nEND\r\n");
    await server.stop();
  } finally {
    await cluster.stop();
  }
});

Deno.test("PostgreSQL: a database that turns read only refuses writes, and health says so", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const cluster = await PostgresServer.start();
  try {
    const url = await cluster.createDatabase();
    await using server = await startOrigin({ url, folder: "" }, [
      ...PATIENT_HITS,
      "--metrics",
      "0",
    ]);
    const [admin] = /http:\/\/[^/]+/.exec(await server.line("metrics are at http://"))!;
    const health = async (): Promise<string> => await (await fetch(`${admin}/health`)).text();
    using client = await server.connect();
    await cacheRow(client);
    const setReadOnly = async (change: string): Promise<void> => {
      await cluster.execute(`ALTER SYSTEM ${change}`, url);
      await cluster.execute("SELECT pg_reload_conf()", url);
    };
    await setReadOnly("SET default_transaction_read_only = on");
    const refused = "the database is read only: set default_transaction_read_only to off";
    await until(async () => (await health()).includes(refused));
    for (const command of ["set hit 0 0 3\r\ntwo", "append hit 0 0 1\r\n!", "delete hit"]) {
      await client.ask(`${command}\r\n`, `SERVER_ERROR ${refused}\r\n`);
    }
    await client.ask("get hit absent\r\n", HIT);
    await setReadOnly("RESET default_transaction_read_only");
    await untilWritten(client);
    await until(async () => !(await health()).includes(refused));
    await client.ask("get hit\r\n", HIT);
    await server.stop();
  } finally {
    await cluster.stop();
  }
});

Deno.test("PostgreSQL: a full disk refuses writes and says so; they succeed when there is room", {
  ...(HAS_POSTGRES ? needs("mount", CAN_MOUNT) : needs("PostgreSQL", false)),
}, async () => {
  const place = await Deno.makeTempDir();
  await Deno.chmod(place, 0o755);
  const folder = `${place}/disk`;
  using disk = mountTinyDisk(folder, 100_000_000);
  const cluster = await PostgresServer.start({ folder });
  try {
    const url = await cluster.createDatabase();
    await using server = await startOrigin({ url, folder: "" }, PATIENT_HITS);
    using client = await server.connect();
    await cacheRow(client);
    const ballast = fillDisk(folder);
    // Bytes that PostgreSQL cannot compress.
    const digits = Array.from({ length: 99_999 }, () => Math.floor(Math.random() * 10)).join("");
    const large = `set large 0 0 99999\r\n${digits}\r\n`;
    assertMatch(await reply(client, large), /^SERVER_ERROR .*No space left on device/);
    await client.ask("get hit\r\n", HIT);
    await client.ask("get large\r\n", "END\r\n");
    Deno.removeSync(ballast);
    await client.ask(large, "STORED\r\n");
    await server.stop();
  } finally {
    await cluster.stop();
    disk[Symbol.dispose]();
    await Deno.remove(place, { recursive: true });
  }
});

Deno.test("PostgreSQL: the time of a write begins with its arrival, also behind one of its key", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const timeoutMs = 4000;
  const cluster = await PostgresServer.start();
  try {
    const url = await cluster.createDatabase();
    await using server = await startOrigin({ url, folder: "" }, [
      ...PATIENT_HITS,
      "--db-timeout",
      `${timeoutMs}`,
    ]);
    using first = await server.connect();
    using secondClient = await server.connect();
    using thirdClient = await server.connect();
    const second = { name: "second", client: secondClient };
    const third = { name: "third", client: thirdClient };
    await cacheRow(first);
    await thirdClient.ask("set other 0 0 1\r\n1\r\n", "STORED\r\n");
    const somebody = await Session.open({ url, timeoutMs: 60_000 });
    await somebody.query("BEGIN");
    await somebody.query("SELECT * FROM kv FOR UPDATE");
    const waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    await first.send("set hit 0 0 3\r\ntwo\r\n");
    await until(async () => await cluster.execute(waiting, url) === "1");
    const order: string[] = [];
    const ended = async ({ name, client }: { name: string; client: Client }): Promise<string> => {
      const line = await client.until("\r\n");
      order.push(name);
      return line;
    };
    await second.client.send("set hit 0 0 5\r\nthree\r\n");
    await pause(timeoutMs / 2);
    await third.client.send("set other 0 0 1\r\nx\r\n");
    assertMatch(await first.until("\r\n"), /^SERVER_ERROR canceling statement/);
    // Its time is over when the first one's is. If it began when the first one ended, the third would end before it.
    const ends = await Promise.all([ended(second), ended(third)]);
    assertEquals(order, ["second", "third"]);
    for (const end of ends) assertMatch(end, /^SERVER_ERROR canceling statement/);
    await somebody.query("ROLLBACK");
    await somebody.close();
    await first.ask("get hit\r\n", HIT);
    await first.ask("append hit 0 0 1\r\n!\r\n", "STORED\r\n");
    await first.ask("get hit\r\n", "VALUE hit 0 4\r\none!\r\nEND\r\n");
    await server.stop();
  } finally {
    await cluster.stop();
  }
});

Deno.test("PostgreSQL: sessions that are terminated, and a restart, are survived", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const cluster = await PostgresServer.start();
  try {
    const url = await cluster.createDatabase();
    await using server = await startOrigin({ url, folder: "" }, [...PATIENCE, ...PATIENT_HITS]);
    using client = await server.connect();
    await cacheRow(client);
    const others =
      "FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()";
    await cluster.execute(`SELECT pg_terminate_backend(pid) ${others}`, url);
    await client.ask("get hit\r\n", HIT);
    await untilWritten(client);
    await cluster.restart();
    await client.ask("get hit\r\n", HIT);
    await untilWritten(client);
    await client.ask("get later\r\n", "VALUE later 0 1\r\n1\r\nEND\r\n");
    await server.stop();
  } finally {
    await cluster.stop();
  }
});

Deno.test("PostgreSQL: a standby is refused until it is promoted; then writes go on", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const primary = await PostgresServer.start();
  const standby = await primary.startStandby();
  try {
    const url = await primary.createDatabase();
    using relay = new Relay(primary.port);
    const relayed = url.replace(`:${primary.port}`, `:${relay.port}`);
    await using server = await startOrigin({ url: relayed, folder: "" }, [
      ...PATIENCE,
      ...PATIENT_HITS,
    ]);
    using client = await server.connect();
    await cacheRow(client);
    const standbyUrl = url.replace(`:${primary.port}`, `:${standby.port}`);
    const rows = (): Promise<string> => standby.execute("SELECT count(*) FROM kv", standbyUrl);
    await until(() => rows().then((count) => count === "1", () => false));
    relay.target = standby.port;
    relay.cutAll();
    let refused = "";
    await until(async () => {
      refused = await reply(client, "set hit 0 0 3\r\ntwo\r\n");
      return refused.includes("standby");
    });
    assertMatch(refused, /^SERVER_ERROR .*the server is a standby: name the primary/);
    await standby.promote();
    await untilWritten(client);
    await client.ask("get later\r\n", "VALUE later 0 1\r\n1\r\nEND\r\n");
    assertEquals(await rows(), "2");
    await server.stop();
  } finally {
    await standby.stop();
    await primary.stop();
  }
});

Deno.test(
  "PostgreSQL: columns whose types change are written as they are, and health names one that is missing",
  {
    ...needs("PostgreSQL", HAS_POSTGRES),
  },
  async () => {
    await using database = await createDatabase("PostgreSQL");
    const server = await sharedPostgres();
    await using origin = await startOrigin(database, ["--admin", "127.0.0.1:0"]);
    const [admin] = /http:\/\/[^/]+/.exec(await origin.line("metrics are at http://"))!;
    const health = async (): Promise<string> => await (await fetch(`${admin}/health`)).text();
    using client = await origin.connect();
    const set = async (value: string): Promise<string> => {
      await client.send(`set k 0 0 ${value.length}\r\n${value}\r\n`);
      return await client.until(/(?:STORED|ERROR.*)\r\n$/);
    };
    await until(async () => await set("one") === "STORED\r\n");
    const alter = (sql: string): Promise<string> =>
      server.execute(`ALTER TABLE kv ${sql}`, database.url);
    await alter("ALTER COLUMN value TYPE text USING convert_from(value, 'UTF8')");
    await until(async () => await set("\\x41") === "STORED\r\n");
    await client.ask("get k\r\n", "VALUE k 0 4\r\n\\x41\r\nEND\r\n");
    assertEquals(await server.execute("SELECT value FROM kv", database.url), "\\x41");
    await alter("ALTER COLUMN value TYPE bytea USING convert_to(value, 'UTF8')");
    await until(async () => await set("\\x42") === "STORED\r\n");
    assertEquals(await server.execute("SELECT value FROM kv", database.url), "\\x5c783432");
    await alter("RENAME COLUMN value TO other");
    await until(async () => /table kv or one of its columns is missing/.test(await health()));
    assertMatch(await set("x"), /^SERVER_ERROR .*does not exist/);
    await alter("RENAME COLUMN other TO value");
    await until(async () => await set("three") === "STORED\r\n");
    await until(async () => !(await health()).includes("missing"));
  },
);
