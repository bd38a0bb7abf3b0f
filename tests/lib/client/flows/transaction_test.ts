// What a transaction that fails proves of its outcome, and what `put` makes of it.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import postgres from "npm:postgres@3.4.9";
import {
  Cache,
  OutcomeUnknownError,
  RolledBackError,
  transaction,
} from "../../../../lib/client/mod.ts";
import { provesRollback } from "../../../../lib/client/commits/transaction.ts";
import { createDatabase } from "../../../support/servers/databases.ts";
import { HAS_POSTGRES } from "../../../support/servers/postgres.ts";
import { needs } from "../../../support/needs/needs.ts";
import { startLeased } from "../servers.ts";

/** Answers to statements by their names; an Error is thrown, and what is missing is done. */
type Answers = Readonly<Record<string, unknown>>;

function withCode(code: string): Error & { code: string } {
  return Object.assign(new Error(code), { code });
}

/** Runs a transaction. @returns Its statements, its error, and whether that proves the rollback. */
async function play(
  answers: Answers,
  fn: () => unknown = () => "done",
): Promise<readonly [asked: string[], error: unknown, isProven: boolean]> {
  const asked: string[] = [];
  const commit = transaction((sql) => {
    asked.push(sql);
    if (answers[sql] instanceof Error) throw answers[sql];
    return Promise.resolve(answers[sql]);
  }, fn);
  try {
    assertEquals(await commit(), "done");
    return [asked, undefined, false];
  } catch (error) {
    return [asked, error, provesRollback(error)];
  }
}

Deno.test("a transaction is ended by its own statements, and proves what their answers prove", async () => {
  const failure = new Error("UNIQUE");
  const fail = (): never => {
    throw failure;
  };
  const lost = withCode("08006");
  assertEquals(await play({}), [["BEGIN", "COMMIT"], undefined, false]);
  assertEquals(await play({ BEGIN: lost }), [["BEGIN"], lost, true]);
  assertEquals(await play({}, fail), [["BEGIN", "ROLLBACK"], failure, true]);
  const unanswered = new Error("UNIQUE, and then the connection is lost");
  const failing = (): never => {
    throw unanswered;
  };
  assertEquals(await play({ ROLLBACK: lost }, failing), [["BEGIN", "ROLLBACK"], unanswered, false]);
  for (const code of ["40001", "40P01", "23505"]) {
    const refused = withCode(code);
    assertEquals(await play({ COMMIT: refused }), [["BEGIN", "COMMIT"], refused, true]);
  }
  for (const code of ["08006", "57P01", "40003", "", "ECONNRESET"]) {
    const unknown = withCode(code);
    assertEquals(await play({ COMMIT: unknown }), [["BEGIN", "COMMIT"], unknown, false]);
  }
  // SQLite has no transaction any more after a COMMIT that took effect.
  for (const code of ["ERR_SQLITE_ERROR", "SQLITE_BUSY"]) {
    const busy = withCode(code);
    const ended = { COMMIT: withCode(code), ROLLBACK: new Error("no transaction is active") };
    assertEquals(await play({ COMMIT: busy }), [["BEGIN", "COMMIT", "ROLLBACK"], busy, true]);
    assertEquals((await play(ended))[2], false);
  }
  // PostgreSQL, which says so, commits nothing without COMMIT.
  const begun = { command: "BEGIN" };
  assertEquals(await play({ BEGIN: begun, ROLLBACK: lost }, failing), [
    ["BEGIN", "ROLLBACK"],
    unanswered,
    true,
  ]);
  assertEquals((await play({ BEGIN: [{ command: "BEGIN" }], ROLLBACK: lost }, failing))[2], false);
  assertEquals((await play({ BEGIN: begun, COMMIT: lost }))[2], false);
  const [, error, isProven] = await play({ COMMIT: { command: "ROLLBACK" } });
  assert(error instanceof Error && /a statement before COMMIT had failed/.test(error.message));
  assertEquals(isProven, true);
  // What is no object carries no proof of its own.
  const [, wrapped] = await play({}, () => Promise.reject("a text"));
  assert(wrapped instanceof RolledBackError && wrapped.cause === "a text");
  assertEquals(provesRollback("a text"), false);
});

Deno.test("a transaction reads codes of drivers and of query builders; SQLite says that it has ended one", async () => {
  const mysql = (code: string, sqlState: string): Error =>
    Object.assign(new Error(code), { code, sqlState });
  const wrapped = (cause: unknown): Error => new Error("Failed query: COMMIT", { cause });
  const deep = (levels: number): Error =>
    levels === 0 ? withCode("40001") : wrapped(deep(levels - 1));
  const endless = new Error("endless");
  endless.cause = endless;
  const committed: readonly (readonly [Error, isProven: boolean])[] = [
    [mysql("ER_LOCK_DEADLOCK", "40001"), true],
    [mysql("ER_TRANSACTION_ROLLBACK_DURING_COMMIT", "40000"), true],
    [mysql("ER_QUERY_INTERRUPTED", "70100"), false],
    [mysql("ER_ERROR_DURING_COMMIT", "HY000"), false],
    [mysql("", "40003"), false],
    [wrapped(withCode("23505")), true],
    [wrapped(mysql("ER_LOCK_DEADLOCK", "40001")), true],
    [wrapped(withCode("08006")), false],
    [wrapped("40001"), false],
    [wrapped(null), false],
    [deep(4), true],
    [deep(5), false],
    [endless, false],
    [Object.assign(new Error(""), { code: 40001 }), false],
  ];
  for (const [error, isProven] of committed) {
    assertEquals(await play({ COMMIT: error }), [["BEGIN", "COMMIT"], error, isProven]);
  }
  const none = "no transaction is active";
  const sqlite = (message: string, code = "SQLITE_ERROR"): Error =>
    Object.assign(new Error(message), { code });
  // SQLite rolls back by itself when its disk is full.
  const full = sqlite("database or disk is full", "SQLITE_FULL");
  const fail = (): never => {
    throw full;
  };
  const answers: readonly (readonly [Error, isProven: boolean])[] = [
    [sqlite(`cannot rollback - ${none}`), true],
    [sqlite(`ROLLBACK - cannot rollback - ${none}`, "ERR_SQLITE_ERROR"), true],
    [wrapped(sqlite(`cannot rollback - ${none}`)), true],
    [sqlite(`cannot rollback - ${none}`, "25P01"), false],
    [sqlite("disk I/O error", "SQLITE_IOERR"), false],
  ];
  for (const [answer, isProven] of answers) {
    assertEquals(await play({ ROLLBACK: answer }, fail), [["BEGIN", "ROLLBACK"], full, isProven]);
  }
  // The proof of one transaction is none for another one that throws the same object.
  assertEquals((await play({}, fail))[2], true);
  assertEquals((await play({ ROLLBACK: withCode("08006") }, fail))[2], false);
  const refused = withCode("40001");
  assertEquals((await play({ COMMIT: refused }))[2], true);
  refused.code = "08006";
  assertEquals((await play({ COMMIT: refused }))[2], false);
  const over = sqlite(`cannot commit - ${none}`);
  assertEquals(await play({ COMMIT: over }), [["BEGIN", "COMMIT"], over, true]);
});

Deno.test("put with tokens: an ordinary error of a transaction leaves no token out", async () => {
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`);
  const tokens = { form: "tokens" } as const;
  using database = new DatabaseSync(":memory:");
  database.exec("CREATE TABLE seat (id INTEGER PRIMARY KEY, row INTEGER)");
  const book = (): void => database.exec("INSERT INTO seat VALUES (1, 1)");
  const commit = transaction((sql) => database.exec(sql), book);
  await cache.put("seats", commit, tokens);
  const failure = await assertRejects(() => cache.put("seats", commit, tokens), Error, "UNIQUE");
  assert(!(failure instanceof OutcomeUnknownError));
  assertEquals(await cache.set("seats", 1), true, "the token is released");
  // A deferred foreign key fails the COMMIT, which leaves the transaction open.
  database.exec(
    "PRAGMA foreign_keys = on; CREATE TABLE guest (seat REFERENCES seat DEFERRABLE INITIALLY DEFERRED)",
  );
  const seat = transaction(
    (sql) => database.exec(sql),
    () => database.exec("INSERT INTO guest VALUES (9)"),
  );
  await assertRejects(() => cache.put("seats", seat, tokens), Error, "FOREIGN KEY");
  assertEquals(await cache.set("seats", 1), true);
  await cache.put("seats", commit, tokens).catch(() => {});
  assertEquals(database.prepare("SELECT count(*) AS count FROM guest").get()!["count"], 0);
  // Without the proof, the token stays.
  const plain = cache.put("seats", book, tokens);
  await assertRejects(() => plain, OutcomeUnknownError);
  assertEquals(await cache.set("seats", 1), false);
});

Deno.test("transactions of PostgreSQL prove their outcome by postgres.js", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  await using made = await createDatabase("PostgreSQL");
  const sql = postgres(made.url, { max: 2, onnotice: () => {} });
  try {
    await sql`CREATE TABLE seat (id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)`;
    await sql`INSERT INTO seat VALUES (1)`;
    const outcomeOf = async (
      fn: (reserved: postgres.ReservedSql) => Promise<unknown>,
    ): Promise<readonly [error: string, isProven: boolean]> => {
      const reserved = await sql.reserve();
      try {
        await transaction((text) => reserved.unsafe(text), () => fn(reserved))();
        return ["", false];
      } catch (error) {
        return [(error as { code?: string }).code ?? String(error), provesRollback(error)];
      } finally {
        reserved.release();
      }
    };
    assertEquals(await outcomeOf((tx) => tx`INSERT INTO seat VALUES (2)`), ["", false]);
    assertEquals(await outcomeOf((tx) => tx`SELECT 1 / 0`), ["22012", true]);
    // The constraint is looked at by COMMIT.
    assertEquals(await outcomeOf((tx) => tx`INSERT INTO seat VALUES (1)`), ["23505", true]);
    const swallowed = await outcomeOf((tx) => tx`SELECT 1 / 0`.catch(() => {}));
    assertEquals(swallowed[1], true);
    const [seats] = await sql`SELECT string_agg(id::text, ' ' ORDER BY id) AS ids FROM seat`;
    assertEquals(seats!["ids"], "1 2");
  } finally {
    await sql.end({ timeout: 5 });
  }
});

Deno.test("before SQLite nobody else's statement comes into a transaction", async () => {
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`);
  using database = new DatabaseSync(":memory:");
  database.exec("CREATE TABLE seat (id INTEGER PRIMARY KEY, name TEXT)");
  const execute = (sql: string): void => database.exec(sql);
  const failing = transaction(execute, () => {
    database.exec("INSERT INTO seat VALUES (1, 'undone')");
    throw new Error("no seats");
  })();
  // A step of the application that has the same connection, and comes while the transaction could wait.
  database.exec("INSERT INTO seat VALUES (2, 'of another request')");
  await assertRejects(() => failing, Error, "no seats");
  const names = (): unknown[] =>
    database.prepare("SELECT name FROM seat ORDER BY id").all().map(({ name }) => name);
  assertEquals(names(), ["of another request"]);
  for (const form of ["leases", "tokens"] as const) {
    await Promise.all([3, 4, 5].map((number) =>
      cache.put(
        "seats",
        transaction(execute, () => database.exec(`INSERT INTO seat VALUES (NULL, '${number}')`)),
        { form, limitMs: 20_000 },
      )
    ));
  }
  assertEquals(names().length, 7);
});
