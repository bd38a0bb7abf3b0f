import { RolledBackError } from "../errors.ts";
import type { Awaitable } from "../values/awaitable.ts";

/** SQLSTATEs with which a COMMIT is refused: rolled back, serialization, deadlock, and broken constraints. */
const REFUSED = /^(?:4000[012]|40P01|23...)$/;
/** Codes of node:sqlite and better-sqlite3, whose calls end before the next one begins. */
const SQLITE = /^(?:ERR_SQLITE|SQLITE_)/;
/** SQLite has ended the transaction by itself, as on a full disk. */
const ENDED = /no transaction is active$/;
/** Query builders give the driver's error as the cause of theirs. */
const CAUSES_MAX = 5;

/** Errors of transactions that were certainly rolled back. */
const proven = new WeakSet<object>();

/**
 * Returns the `commit` of a `put`: it runs `fn` in a transaction of its own, and proves by the database's answers that
 * an error has rolled it back. Without proof the outcome is unknown: with `form: "tokens"` the keys stay uncacheable.
 *
 * @param execute Executes a statement on the transaction's own connection, never on a pool; unless the driver is
 *   synchronous, the promise settles with the database's answer. Of `pg`, `(sql) => client.query(sql)`; of postgres.js,
 *   `(sql) => reserved.unsafe(sql)`; of mysql2/promise, `(sql) => connection.query(sql)`; of node:sqlite and
 *   better-sqlite3, `(sql) => database.exec(sql)`.
 * @param fn Executes the statements of the transaction, on the same connection, and does not end it. Of node:sqlite and
 *   better-sqlite3 it must return no promise, unless nobody else uses the connection meanwhile.
 * @example
 * ```ts
 * const database = new DatabaseSync(":memory:");
 * database.exec("CREATE TABLE seat (id INTEGER PRIMARY KEY)");
 * const book = () => database.exec("INSERT INTO seat VALUES (1)");
 * const commit = transaction((sql) => database.exec(sql), book);
 * await cache.put("seats", commit, { form: "tokens" });
 * await cache.put("seats", commit, { form: "tokens" }); // throws Error
 * await cache.set("seats", "not uncacheable"); // true
 * ```
 */
export function transaction<Result>(
  execute: (sql: "BEGIN" | "COMMIT" | "ROLLBACK") => unknown,
  fn: () => Promise<Result> | Result,
): () => Promise<Result> {
  return async () => {
    let begun: unknown;
    let result: Result;
    try {
      begun = execute("BEGIN");
      if (isPromise(begun)) begun = await begun;
    } catch (error) {
      throw rolledBack(error);
    }
    try {
      const made = fn();
      // Of a driver that answers at once no step may wait: others have the same connection.
      result = isPromise(made) ? await made : made;
    } catch (error) {
      const failing = failureOfRollback(execute);
      const failure = isPromise(failing) ? await failing : failing;
      // PostgreSQL, by its answer, commits nothing without COMMIT, whatever becomes of the connection. MySQL may: after
      // a deadlock that `fn` has swallowed, each statement is a transaction.
      const isCertain = failure === undefined || isEnded(failure) || commandOf(begun) === "BEGIN";
      throw isCertain ? rolledBack(error) : unproven(error);
    }
    let done: unknown;
    try {
      done = execute("COMMIT");
      if (isPromise(done)) done = await done;
    } catch (error) {
      // A COMMIT of others that has failed may still take effect, and their ROLLBACK is answered all the same.
      let isCertain = hasCode(error, REFUSED) || isEnded(error);
      if (!isCertain && hasCode(error, SQLITE)) {
        const failing = failureOfRollback(execute);
        isCertain = (isPromise(failing) ? await failing : failing) === undefined;
      }
      throw isCertain ? rolledBack(error) : unproven(error);
    }
    // PostgreSQL's answer to the COMMIT of a transaction in which a statement has failed.
    if (commandOf(done) === "ROLLBACK") {
      throw rolledBack(new Error("the database rolled back: a statement before COMMIT had failed"));
    }
    return result;
  };
}

function isPromise<Value>(value: Promise<Value> | Value): value is Promise<Value> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/** Whether an error says by itself that nothing was committed: a RolledBackError, or one of `transaction`. */
export function provesRollback(error: unknown): boolean {
  if (error instanceof RolledBackError) return true;
  return typeof error === "object" && error !== null && proven.has(error);
}

/** Rolls back. @returns Why not; undefined: the database has answered that it did. */
function failureOfRollback(
  execute: (sql: "ROLLBACK") => unknown,
): Awaitable<object | undefined> {
  const failed = (cause: unknown): object => ({ cause });
  try {
    const done = execute("ROLLBACK");
    return isPromise(done) ? done.then(() => undefined, failed) : undefined;
  } catch (error) {
    return failed(error);
  }
}

/** Whether SQLite says that it has no transaction any more: nothing is committed later. */
function isEnded(error: unknown): boolean {
  return hasCode(error, SQLITE) &&
    causesOf(error).some(({ message }) => typeof message === "string" && ENDED.test(message));
}

/** Returns the error, with the proof; one that is no object is the cause of another. */
function rolledBack(error: unknown): unknown {
  const isObject = typeof error === "object" && error !== null;
  const thrown = isObject ? error : new RolledBackError(String(error), { cause: error });
  proven.add(thrown);
  return thrown;
}

/** Returns the error, without the proof that it may have from another transaction: an application has constants. */
function unproven(error: unknown): unknown {
  if (typeof error === "object" && error !== null) proven.delete(error);
  return error;
}

/** What databases tell of a failure: mysql2 and mariadb have names for `code`. */
interface Failure {
  readonly code?: unknown;
  readonly sqlState?: unknown;
  readonly message?: unknown;
  readonly cause?: unknown;
}

/** Whether an error, or one that it was made of, has such a code or SQLSTATE. */
function hasCode(error: unknown, expected: RegExp): boolean {
  const codes = causesOf(error).flatMap(({ code, sqlState }) => [code, sqlState]);
  return codes.some((code) => typeof code === "string" && expected.test(code));
}

/** Returns an error, its cause, and so on. */
function causesOf(error: unknown): Failure[] {
  const causes: Failure[] = [];
  for (let each = error; causes.length < CAUSES_MAX; each = (each as Failure).cause) {
    if (typeof each !== "object" || each === null) break;
    causes.push(each);
  }
  return causes;
}

/** Returns the statement that an answer of PostgreSQL names. */
function commandOf(answer: unknown): unknown {
  return (answer as { command?: unknown } | null | undefined)?.command;
}
