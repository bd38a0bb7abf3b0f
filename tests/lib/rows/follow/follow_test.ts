import { assertEquals, assertMatch } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import {
  sharedPostgres,
  type TestDatabase,
  testDatabases,
} from "../../../support/servers/databases.ts";
import {
  launchOrigin,
  runInit,
  startNode,
  startOrigin,
} from "../../../support/servers/origin_process.ts";

import { Session } from "../../../../lib/databases/postgres/session.ts";
import { oldestWriter } from "../../../../lib/databases/postgres/slot.ts";
import { until } from "../../../support/servers/server_process.ts";

const FOLLOW = ["--follow"];
const WAIT = "follow wait now 30000\r\n";

/** Executes SQL as another program does. */
async function write(database: TestDatabase, sql: string): Promise<void> {
  if (!database.url.startsWith("sqlite:")) {
    await (await sharedPostgres()).execute(sql, database.url);
    return;
  }
  using file = new DatabaseSync(database.url.slice("sqlite:".length));
  file.exec(`PRAGMA busy_timeout = 5000; ${sql}`);
}

async function prepare(database: TestDatabase): Promise<void> {
  const { code, stderr } = await runInit(database, ["--follow", "--run"]);
  assertEquals(code, 0, stderr);
}

/** A value as the database's SQL writes it. */
const bytes = (text: string): string => `CAST('${text}' AS ${"BLOB"})`;

function literal({ url }: TestDatabase, text: string): string {
  return url.startsWith("sqlite:") ? bytes(text) : `'${text}'::bytea`;
}

testDatabases("changes of other programs delete what the origin caches", async (database) => {
  await prepare(database);
  await using origin = await startOrigin(database, FOLLOW);
  using client = await origin.connect();
  const of = (text: string): string => literal(database, text);
  await client.ask("set k 0 0 3\r\none\r\nget k\r\n", "STORED\r\nVALUE k 0 3\r\none\r\nEND\r\n");
  await client.ask("get new\r\n", "END\r\n");
  await write(
    database,
    `UPDATE kv SET value = ${of("two")} WHERE key = ${of("k")};` +
      `INSERT INTO kv (key, value) VALUES (${of("new")}, ${of("old")})`,
  );
  await client.ask(WAIT, "OK\r\n");
  await client.ask("get k new\r\n", "VALUE k 0 3\r\ntwo\r\nVALUE new 0 3\r\nold\r\nEND\r\n");
  // A key that changes concerns the old row and the new one.
  await client.ask("get moved\r\n", "END\r\n");
  await write(database, `UPDATE kv SET key = ${of("moved")} WHERE key = ${of("k")}`);
  await client.ask(WAIT, "OK\r\n");
  await client.ask("get k moved\r\n", "VALUE moved 0 3\r\ntwo\r\nEND\r\n");
  await write(database, `DELETE FROM kv WHERE key = ${of("moved")}`);
  await client.ask(WAIT, "OK\r\n");
  await client.ask("get moved\r\n", "END\r\n");
  await client.send("stats rows\r\n");
  assertMatch(await client.until("END\r\n"), /STAT follow_lag_bytes 0\r\n/);
});

testDatabases(
  "a stop ends the log without an error at the server",
  async (database) => {
    await prepare(database);
    const postgres = await sharedPostgres();
    const before = (await postgres.logged()).length;
    await using origin = await startOrigin(database, FOLLOW);
    using client = await origin.connect();
    await client.ask(WAIT, "OK\r\n");
    await origin.stop();
    const logged = (await postgres.logged()).slice(before);
    assertEquals(logged.filter((line) => line.includes("standby message")), []);
  },
  ["PostgreSQL"],
);

testDatabases("a flood of changes empties everything", async (database) => {
  await prepare(database);
  await using origin = await startOrigin(database, FOLLOW);
  using client = await origin.connect();
  const of = (text: string): string => literal(database, text);
  await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  await client.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
  const isFile = database.url.startsWith("sqlite:");
  const rows = isFile
    ? "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) " +
      "INSERT INTO kv (key, value) SELECT CAST('r' || i AS BLOB), CAST('x' AS BLOB) FROM n"
    : "INSERT INTO kv (key, value) SELECT ('r' || i)::bytea, 'x' FROM generate_series(1, 30000) AS i";
  await write(database, `${rows}; UPDATE kv SET value = ${of("two")} WHERE key = ${of("k")}`);
  await client.ask(WAIT, "OK\r\n");
  await client.ask("get k\r\n", "VALUE k 0 3\r\ntwo\r\nEND\r\n");
  await client.send("stats rows\r\n");
  assertMatch(await client.until("END\r\n"), /STAT follow_floods [1-9]/);
});

testDatabases("a table of rows that is truncated empties everything", async (database) => {
  await prepare(database);
  await using origin = await startOrigin(database, FOLLOW);
  using client = await origin.connect();
  await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  await client.ask(WAIT, "OK\r\n");
  await client.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
  await write(database, database.url.startsWith("sqlite:") ? "DELETE FROM kv" : "TRUNCATE kv");
  await client.ask(WAIT, "OK\r\n");
  await client.ask("get k\r\n", "END\r\n");
});

testDatabases("a locked row is voided, and stays locked", async (database) => {
  await prepare(database);
  await using origin = await startOrigin(database, FOLLOW);
  using client = await origin.connect();
  using other = await origin.connect();
  const of = (text: string): string => literal(database, text);
  await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
  // PostgreSQL's log has the write, too: its deletion would end the read that `lock` waits for.
  await client.ask(WAIT, "OK\r\n");
  // The write before may hold the row a moment longer than its reply takes.
  await until(async () => {
    await client.send("lock k\r\n");
    return await client.until("\r\n") === "OK\r\n";
  });
  await write(database, `UPDATE kv SET value = ${of("two")} WHERE key = ${of("k")}`);
  await client.ask(WAIT, "OK\r\n");
  await client.ask("get k\r\n", "VALUE k 0 3\r\ntwo\r\nEND\r\n");
  await other.ask("set k 0 0 1\r\nx\r\n", "LOCKED\r\n");
});

testDatabases("follow wait is refused without --follow", async (database) => {
  await using origin = await startOrigin(database);
  using client = await origin.connect();
  await client.ask(
    WAIT,
    "SERVER_ERROR the server does not follow the log: no --follow\r\n",
  );
}, ["SQLite"]);

testDatabases(
  "follow wait refuses what is no position, and ends after its time",
  async (database) => {
    await prepare(database);
    await using origin = await startOrigin(database, FOLLOW);
    using client = await origin.connect();
    await client.ask("follow wait 0/0 0\r\n", "OK\r\n");
    await client.ask("follow wait FFFFFF/0 10\r\n", "TIMEOUT\r\n");
    await client.ask("follow wait x/y 10\r\n", "CLIENT_ERROR bad command line format\r\n");
    await client.ask("follow wait now 99999999\r\n", "CLIENT_ERROR bad command line format\r\n");
  },
);

testDatabases(
  "a slot that is dropped empties everything, and the log goes on",
  async (database) => {
    await prepare(database);
    await using origin = await startOrigin(database, FOLLOW);
    await using node = await startNode([origin]);
    using client = await origin.connect();
    using reader = await node.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    await client.ask(WAIT, "OK\r\n");
    for (const each of [client, reader]) {
      await each.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
    }
    // As a server does whose slot was removed: both statements before the origin is back.
    await until(async () => {
      try {
        await write(
          database,
          "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL;" +
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
        );
        return true;
      } catch {
        return false;
      }
    });
    await write(database, "UPDATE kv SET value = 'two'");
    await origin.line("does not exist; all cached rows are deleted");
    await client.ask(WAIT, "OK\r\n");
    for (const each of [client, reader]) {
      await each.ask("get k\r\n", "VALUE k 0 3\r\ntwo\r\nEND\r\n");
    }
  },
  ["PostgreSQL"],
);

testDatabases("a start without init --follow says what is missing", async (database) => {
  await assertRejectsStart(database, /init --follow --run/);
});

async function assertRejectsStart(database: TestDatabase, message: RegExp): Promise<void> {
  await using origin = launchOrigin(database, FOLLOW);
  const { code, stderr } = await origin.ended();
  assertMatch(stderr, message);
  assertEquals(/listens on/.test(stderr), false, stderr);
  assertEquals(code, 71, stderr);
}

testDatabases(
  "the user of docs/follow.md has the rights that --follow needs",
  async (database) => {
    await prepare(database);
    await write(
      database,
      "CREATE ROLE follower LOGIN REPLICATION; " +
        "GRANT SELECT, INSERT, UPDATE ON kv, leased_proxy TO follower; " +
        "GRANT SELECT, INSERT, DELETE ON leased_applied TO follower; " +
        "GRANT SELECT, INSERT, UPDATE, DELETE ON leased_follow TO follower",
    );
    const url = database.url.replace("postgres@", "follower@");
    await using origin = await startOrigin({ ...database, url }, FOLLOW);
    using client = await origin.connect();
    await client.ask("set k 0 0 3\r\none\r\nget k\r\n", "STORED\r\nVALUE k 0 3\r\none\r\nEND\r\n");
    await write(database, "UPDATE kv SET value = 'two'");
    await client.ask(WAIT, "OK\r\n");
    await client.ask("get k\r\n", "VALUE k 0 3\r\ntwo\r\nEND\r\n");
  },
  ["PostgreSQL"],
);

testDatabases(
  "a change that is in the log before others see it is applied when they do",
  async (database) => {
    await prepare(database);
    const server = await sharedPostgres();
    await using origin = await startOrigin(database, FOLLOW);
    using client = await origin.connect();
    await client.ask("set k 0 0 3\r\none\r\n", "STORED\r\n");
    await client.ask(WAIT, "OK\r\n");
    // The commit waits for a standby that does not exist.
    const setStandby = async (name: string): Promise<void> => {
      await server.execute(`ALTER SYSTEM SET synchronous_standby_names = '${name}'`, database.url);
      await server.execute("SELECT pg_reload_conf()", database.url);
    };
    await setStandby("nobody");
    const waits = async (sql: string): Promise<boolean> => {
      const all = "SELECT query FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
      return (await server.execute(all, database.url)).split("\n").includes(sql);
    };
    // The server does what the setting says some time after the reload.
    const probe = "SELECT pg_logical_emit_message(true, 'probe', '')";
    const commits: Promise<void>[] = [];
    await until(() => {
      commits.push(write(database, probe));
      return waits(probe);
    });
    const update = "UPDATE kv SET value = 'two'";
    commits.push(write(database, update));
    await until(() => waits(update));
    for (let reads = 0; reads < 100; reads++) {
      await client.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    await setStandby("");
    await Promise.all(commits);
    await client.ask(WAIT, "OK\r\n");
    await client.ask("get k\r\n", "VALUE k 0 3\r\ntwo\r\nEND\r\n");
  },
  ["PostgreSQL"],
);

testDatabases(
  "follow wait now covers commits that did not wait for the disk",
  async (database) => {
    await prepare(database);
    await using origin = await startOrigin(database, FOLLOW);
    using client = await origin.connect();
    await client.ask("set k 0 0 1\r\n0\r\n", "STORED\r\n");
    await using writer = await openSession(database.url);
    await writer.session.query("SET synchronous_commit = off");
    let old = 0;
    for (let round = 1; round <= 50; round++) {
      await client.ask(
        "get k\r\n",
        `VALUE k 0 ${String(round - 1).length}\r\n${round - 1}\r\nEND\r\n`,
      );
      await writer.session.query(`UPDATE kv SET value = '${round}'::bytea`);
      await client.ask(WAIT, "OK\r\n");
      await client.send("get k\r\n");
      if (!(await client.until(/END\r\n$/)).includes(`\r\n${round}\r\n`)) old++;
      await until(async () => {
        await client.send("get k\r\n");
        return (await client.until(/END\r\n$/)).includes(`\r\n${round}\r\n`);
      });
    }
    assertEquals(old, 0);
  },
  ["PostgreSQL"],
);

async function openSession(url: string): Promise<{ session: Session } & AsyncDisposable> {
  const session = await Session.open({ url, timeoutMs: 60_000 });
  return { session, [Symbol.asyncDispose]: () => session.close() };
}

testDatabases(
  "a start waits for a transaction that was open before, and names its process",
  async (database) => {
    await prepare(database);
    await using writer = await openSession(database.url);
    await writer.session.query("BEGIN; INSERT INTO kv (key, value) VALUES ('k', 'one')");
    await using origin = launchOrigin(database, [...FOLLOW, "--db-timeout", "500"]);
    const { pid } = writer.session.process;
    await origin.line(
      new RegExp(
        `from the end of a transaction on: the transaction of process ${pid}, open for \\d+ s`,
      ),
    );
    await writer.session.query("COMMIT");
    await origin.line("warning: max_slot_wal_keep_size is -1: PostgreSQL keeps its log");
    await origin.line(/leased \S+ listens on /);
    using client = await origin.connect();
    await client.ask("get k\r\n", "VALUE k 0 3\r\none\r\nEND\r\n");
  },
  ["PostgreSQL"],
);

testDatabases(
  "the oldest writer is named to a user who may not see its time, who is told what to grant",
  async ({ url }) => {
    const role = `asks${Date.now()}`;
    await (await sharedPostgres()).execute(`CREATE ROLE ${role} LOGIN`, url);
    const place = new URL(url);
    place.username = role;
    await using asker = await openSession(place.href);
    await using writer = await openSession(url);
    await writer.session.query("BEGIN; CREATE TABLE t ()");
    const found = async (): Promise<string> => `${await oldestWriter(asker.session)}`;
    assertMatch(
      await found(),
      new RegExp(
        `^the transaction of process ${writer.session.process.pid}, \\d+ transactions old ` +
          `\\(GRANT pg_read_all_stats TO ${role} shows the seconds\\): commit or end it`,
      ),
    );
    await (await sharedPostgres()).execute(`GRANT pg_read_all_stats TO ${role}`, url);
    assertMatch(await found(), / open for \d+ s: commit or end it/);
  },
  ["PostgreSQL"],
);
