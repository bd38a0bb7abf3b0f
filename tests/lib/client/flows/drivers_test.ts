// Transactions by drivers of databases: what their errors prove, and what `put` makes of it.
import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import mysql from "npm:mysql2@3.24.6/promise";
import pg from "npm:pg@8.23.1";
import { Cache, OutcomeUnknownError, transaction } from "../../../../lib/client/mod.ts";
import { createDatabase } from "../../../support/servers/databases.ts";
import { HAS_MARIADB, MariadbServer } from "./mariadb.ts";
import { HAS_POSTGRES } from "../../../support/servers/postgres.ts";
import { until } from "../../../support/servers/server_process.ts";
import { needs } from "../../../support/needs/needs.ts";
import { startLeased } from "../servers.ts";

/** A connection of a driver. */
interface Driven {
  execute(sql: string): unknown;
  /** Ends its session at the database, from another one. */
  kill(): Promise<void>;
}

/** What became of a put: its result, or the code of the error; and whether its token stays out. */
type Ended = readonly [result: unknown, token: "released" | "stays out"];

/** Puts keys by transactions on one connection. */
async function putter(
  cache: Cache,
): Promise<(driven: Driven, fn: () => unknown) => Promise<Ended>> {
  let number = 0;
  const tokensOut: string[] = [];
  cache.on("tokensOut", ({ keys }) => tokensOut.push(...keys));
  await cache.set("ready", 1);
  return async ({ execute }, fn) => {
    const key = `k${number++}`;
    const result = await cache.put(key, transaction(execute, fn), { form: "tokens" })
      .catch((error) => error);
    const isUnknown = result instanceof OutcomeUnknownError;
    const isFree = await cache.set(key, 1);
    assertEquals([isUnknown, tokensOut.splice(0)], [!isFree, isFree ? [] : [key]]);
    if (isUnknown) await result.resolve();
    const cause = isUnknown ? result.cause : result;
    const told = cause instanceof Error
      ? (cause as { code?: string }).code ?? cause.message
      : cause;
    return [told, isFree ? "released" : "stays out"];
  };
}

async function withCache(body: (cache: Cache) => Promise<void>): Promise<void> {
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`, { replyMs: 20_000 });
  await body(cache);
}

const MINE = new Error("mine");

Deno.test("transactions of PostgreSQL by pg", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, () =>
  withCache(async (cache) => {
    await using made = await createDatabase("PostgreSQL");
    await using open = new AsyncDisposableStack();
    const connect = async (): Promise<Driven & { readonly client: pg.Client }> => {
      const client = new pg.Client(made.url);
      client.on("error", () => {});
      await client.connect();
      open.defer(() => client.end().catch(() => {}));
      const { rows: [{ pid }] } = await client.query("SELECT pg_backend_pid() AS pid");
      const kill = async (): Promise<void> => {
        await admin.query("SELECT pg_terminate_backend($1)", [pid]);
        await until(async () => {
          const { rows } = await admin.query("SELECT FROM pg_stat_activity WHERE pid = $1", [pid]);
          return rows.length === 0;
        });
      };
      return { client, execute: (sql) => client.query(sql), kill };
    };
    const admin = new pg.Client(made.url);
    await admin.connect();
    open.defer(() => admin.end());
    await admin.query(`
      CREATE TABLE seat (id integer PRIMARY KEY, n integer);
      INSERT INTO seat VALUES (1, 0), (2, 0);
      CREATE TABLE late (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED);
      INSERT INTO late VALUES (1);
      CREATE TABLE slow (id integer);
      CREATE FUNCTION nap() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(1000); RETURN NULL; END $$;
      CREATE CONSTRAINT TRIGGER nap AFTER INSERT ON slow DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION nap()`);
    const put = await putter(cache);
    const one = await connect();
    const run = (sql: string): Promise<unknown> => one.client.query(sql);
    assertEquals(await put(one, () => run("INSERT INTO seat VALUES (3)").then(() => 7)), [
      ...[7, "released"] as const,
    ]);
    assertEquals(await put(one, () => run("INSERT INTO seat VALUES (1)")), ["23505", "released"]);
    const mine = (): never => {
      throw MINE;
    };
    assertEquals(await put(one, () => run("INSERT INTO seat VALUES (4)").then(mine)), [
      ...["mine", "released"] as const,
    ]);
    assertEquals(await put(one, () => run("INSERT INTO late VALUES (1)")), ["23505", "released"]);
    const swallowed = await put(one, () => run("SELECT 1 / 0").catch(() => "swallowed"));
    assertEquals(swallowed, [
      "the database rolled back: a statement before COMMIT had failed",
      "released",
    ]);
    // Two transactions that each read what the other writes: the later COMMIT is refused.
    const other = await connect();
    for (const isLate of [true, false]) {
      const skewed = await put(one, async () => {
        for (const each of [one, other]) {
          if (each === other) await each.execute("BEGIN");
          await each.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE");
          await each.execute("SELECT sum(n) FROM seat");
        }
        await other.execute("UPDATE seat SET n = n + 1 WHERE id = 2");
        if (isLate) await run("UPDATE seat SET n = n + 1 WHERE id = 1");
        await other.execute("COMMIT");
        if (!isLate) await run("UPDATE seat SET n = n + 1 WHERE id = 1");
      });
      assertEquals(skewed, ["40001", "released"], `${isLate}`);
    }
    const lost = await connect();
    const dying = (): Promise<unknown> =>
      Promise.all([lost.execute("SELECT pg_sleep(1000)"), lost.kill()]);
    // Without COMMIT, PostgreSQL commits nothing.
    assertEquals(await put(lost, dying), ["57P01", "released"]);
    const early = await connect();
    const [, token] = await put(early, async () => {
      await early.execute("INSERT INTO seat VALUES (5)");
      await early.kill();
    });
    assertEquals(token, "stays out");
    const late = await connect();
    const committing = put(late, () => late.execute("INSERT INTO slow VALUES (1)"));
    await until(async () => {
      const { rows } = await admin.query(
        "SELECT FROM pg_stat_activity WHERE query = 'COMMIT' AND wait_event = 'PgSleep'",
      );
      return rows.length > 0;
    });
    await late.kill();
    assertEquals(await committing, ["57P01", "stays out"]);
    const { rows: [{ ids }] } = await admin.query(
      "SELECT string_agg(id::text, ' ' ORDER BY id) AS ids FROM seat",
    );
    assertEquals(ids, "1 2 3");
  }));

Deno.test("transactions of MariaDB by mysql2", {
  ...needs("mariadb", HAS_MARIADB),
}, () =>
  withCache(async (cache) => {
    await using server = await MariadbServer.start();
    await using open = new AsyncDisposableStack();
    const { socketPath } = server;
    const connect = async (): Promise<Driven> => {
      const connection = await mysql.createConnection({ socketPath, user: "root" });
      connection.on("error", () => {});
      open.defer(() => connection.destroy());
      await connection.query("CREATE DATABASE IF NOT EXISTS app");
      await connection.query("USE app");
      const { threadId } = connection;
      return {
        execute: (sql) => connection.query(sql),
        kill: async () => void await admin.execute(`KILL ${threadId}`),
      };
    };
    const admin = await connect();
    await admin.execute("CREATE TABLE seat (id INT PRIMARY KEY, n INT) ENGINE=InnoDB");
    await admin.execute("INSERT INTO seat VALUES (1, 0), (2, 0)");
    const put = await putter(cache);
    const one = await connect();
    const run = async (sql: string): Promise<void> => void await one.execute(sql);
    await run("SET innodb_lock_wait_timeout = 1");
    assertEquals(await put(one, () => run("INSERT INTO seat VALUES (3, 0)").then(() => 7)), [
      ...[7, "released"] as const,
    ]);
    assertEquals(await put(one, () => run("INSERT INTO seat VALUES (1, 0)")), [
      ...["ER_DUP_ENTRY", "released"] as const,
    ]);
    // The time-out ends the statement, and the error ends the transaction.
    const other = await connect();
    await other.execute("BEGIN");
    await other.execute("UPDATE seat SET n = 1 WHERE id = 1");
    const waiting = await put(one, async () => {
      await run("INSERT INTO seat VALUES (4, 0)");
      await run("UPDATE seat SET n = 2 WHERE id = 1");
    });
    assertEquals(waiting, ["ER_LOCK_WAIT_TIMEOUT", "released"]);
    // Each waits for the other; the one that has changed more rows goes on.
    await other.execute("INSERT INTO seat VALUES (20, 0), (21, 0), (22, 0)");
    await run("SET innodb_lock_wait_timeout = 1000");
    const deadlock = await put(one, async () => {
      await run("UPDATE seat SET n = 2 WHERE id = 2");
      const blocked = Promise.allSettled([other.execute("UPDATE seat SET n = 1 WHERE id = 2")]);
      await until(async () => {
        const [[row]] = await admin.execute(
          "SELECT count(*) AS count FROM information_schema.innodb_lock_waits",
        ) as [[{ count: number }]];
        return Number(row.count) > 0;
        // The server makes the table anew only for those who ask less often than each 0.1 s.
      }, 200);
      try {
        await run("UPDATE seat SET n = 2 WHERE id = 1");
      } finally {
        await blocked;
        await other.execute("ROLLBACK");
      }
    });
    assertEquals(deadlock, ["ER_LOCK_DEADLOCK", "released"]);
    // MySQL commits what a swallowed error has left.
    const swallowed = await put(one, async () => {
      await run("INSERT INTO seat VALUES (5, 0)");
      await run("INSERT INTO seat VALUES (1, 0)").catch(() => {});
      return "swallowed";
    });
    assertEquals(swallowed, ["swallowed", "released"]);
    const lost = await connect();
    const [, inside] = await put(
      lost,
      () => Promise.all([lost.execute("SELECT sleep(1000)"), lost.kill()]),
    );
    const early = await connect();
    const [, before] = await put(early, async () => {
      await early.execute("INSERT INTO seat VALUES (6, 0)");
      await early.kill();
    });
    assertEquals([inside, before], ["stays out", "stays out"]);
    const [[{ ids }]] = await admin.execute(
      "SELECT GROUP_CONCAT(id ORDER BY id SEPARATOR ' ') AS ids FROM seat",
    ) as [[{ ids: string }]];
    assertEquals(ids, "1 2 3 5");
  }));

Deno.test("transactions that SQLite has ended by itself are over", () =>
  withCache(async (cache) => {
    using database = new DatabaseSync(":memory:");
    database.exec("CREATE TABLE seat (id INTEGER PRIMARY KEY); INSERT INTO seat VALUES (1)");
    database.exec("CREATE TABLE page (bytes); PRAGMA max_page_count = 10");
    const put = await putter(cache);
    const driven: Driven = {
      execute: (sql) => database.exec(sql),
      kill: () => Promise.resolve(),
    };
    const code = "ERR_SQLITE_ERROR";
    const full = (): void => {
      database.exec("INSERT INTO seat VALUES (2)");
      database.exec("INSERT INTO page VALUES (zeroblob(1000000))");
    };
    assertEquals(await put(driven, full), [code, "released"]);
    assert(!database.isTransaction);
    const broken = (): void => database.exec("INSERT OR ROLLBACK INTO seat VALUES (1)");
    assertEquals(await put(driven, broken), [code, "released"]);
    // A swallowed error leaves COMMIT nothing to commit: put does not say that it did.
    const swallow = (): void => {
      try {
        broken();
      } catch {
        // As an application may.
      }
    };
    assertEquals(await put(driven, swallow), [code, "released"]);
    assertEquals(database.prepare("SELECT count(*) AS count FROM seat").get(), { count: 1 });
  }));
