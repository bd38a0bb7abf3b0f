import { RolledBackError } from "../errors.ts";

/** SQLSTATEs with which a COMMIT is refused: serialization, deadlock, and broken constraints. */
const REFUSED = /^(?:40001|40P01|23...)$/;
/** Codes of node:sqlite and better-sqlite3, whose calls end before the next one begins. */
const SQLITE = /^(?:ERR_SQLITE|SQLITE_)/;

/** Errors of transactions that were certainly rolled back. */
const proven = new WeakSet<object>();

/**
 * Returns the `commit` of a `put`: it runs `fn` in a transaction of its own, and proves by the database's answers that
 * an error has rolled it back. Without proof the outcome is unknown: with `form: "tokens"` the keys stay uncacheable.
 *
 * @param execute Executes a statement on the transaction's own connection: of `pg`, `(sql) => client.query(sql)`; of
 *   postgres.js, `(sql) => reserved.unsafe(sql)`; of mysql2, `(sql) => connection.query(sql)`; of node:sqlite and
 *   better-sqlite3, `(sql) => database.exec(sql)`.
 * @param fn Executes the statements of the transaction, on the same connection.
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
    try {
      await execute("BEGIN");
    } catch (error) {
      throw rolledBack(error);
    }
    let result: Result;
    try {
      result = await fn();
    } catch (error) {
      throw await isRolledBackNow(execute) ? rolledBack(error) : error;
    }
    let done: unknown;
    try {
      done = await execute("COMMIT");
    } catch (error) {
      const code = codeOf(error);
      // A COMMIT of others that has failed may still take effect, and their ROLLBACK is answered all the same.
      const isCertain = REFUSED.test(code) ||
        (SQLITE.test(code) && await isRolledBackNow(execute));
      throw isCertain ? rolledBack(error) : error;
    }
    // PostgreSQL's answer to the COMMIT of a transaction in which a statement has failed.
    if ((done as { command?: unknown } | undefined)?.command === "ROLLBACK") {
      throw rolledBack(new Error("the database rolled back: a statement before COMMIT had failed"));
    }
    return result;
  };
}

/** Whether an error says by itself that nothing was committed: a RolledBackError, or one of `transaction`. */
export function provesRollback(error: unknown): boolean {
  if (error instanceof RolledBackError) return true;
  return typeof error === "object" && error !== null && proven.has(error);
}

async function isRolledBackNow(execute: (sql: "ROLLBACK") => unknown): Promise<boolean> {
  try {
    await execute("ROLLBACK");
    return true;
  } catch {
    return false;
  }
}

/** Returns the error, with the proof; one that is no object is the cause of another. */
function rolledBack(error: unknown): unknown {
  const isObject = typeof error === "object" && error !== null;
  const thrown = isObject ? error : new RolledBackError(String(error), { cause: error });
  proven.add(thrown);
  return thrown;
}

function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : "";
}
