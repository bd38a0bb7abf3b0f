import { DatabaseSync, type SQLOutputValue, type StatementSync } from "node:sqlite";
import { reasonOf } from "../../process/reason.ts";
import type { ViewResult } from "../views/view.ts";

/** Shortest text of a row in an array, with its comma: `{"":0},`. */
const ROW_BYTES_MIN = 7;
/** Longest text that the runtime can make. */
const BYTES_MAX = 2 ** 29;

/** A view's query, for a thread. Plain data. */
export interface ViewQuery {
  readonly sql: string;
  readonly parameters: readonly (string | bigint | null)[];
  readonly result: ViewResult;
  /** Most bytes of the value: no more rows are read than fit. */
  readonly bytesMax: number;
  /** Differs after a change of the schema: columns may have other names. */
  readonly generation: number;
}

/** The result of a query. Plain data. */
export interface QueryAnswer {
  /** The epoch of the origin that may write, read in the same snapshot. */
  readonly epoch: number;
  /** Null: there is no row, or a NULL for the result `raw`. */
  readonly text: string | null;
  /** Why this query has no result. */
  readonly problem?: string;
}

/** Executes queries of views over a connection of its own, which cannot write. */
export class ViewQueries implements Disposable {
  readonly #database: DatabaseSync;
  readonly #epoch: StatementSync;
  readonly #statements = new Map<string, StatementSync>();
  #generation = 0;

  /** @throws SQLite's error. */
  constructor(path: string) {
    this.#database = new DatabaseSync(path, { readOnly: true });
    this.#epoch = this.#database.prepare("SELECT epoch FROM leased_proxy");
  }

  /** @throws SQLite's error, which the query has not caused. */
  execute(query: ViewQuery): QueryAnswer {
    this.#database.exec("BEGIN");
    try {
      const epoch = this.readEpoch();
      try {
        return { epoch, text: this.#textOf(query) };
      } catch (error) {
        return { epoch, text: null, problem: reasonOf(error) };
      }
    } finally {
      this.#database.exec("COMMIT");
    }
  }

  readEpoch(): number {
    return (this.#epoch.get() as { epoch: number }).epoch;
  }

  /** Reads rows in one call: an error in the middle of `iterate` would look like the end. */
  #textOf({ sql, parameters, result, bytesMax, generation }: ViewQuery): string | null {
    if (result !== "array") {
      const row = this.#statement(sql, generation).get(...parameters) as Row | undefined;
      return row === undefined ? null : result === "raw" ? rawText(row) : jsonOf(row);
    }
    const rowsMax = Math.floor(Math.min(bytesMax, BYTES_MAX) / ROW_BYTES_MIN);
    const bounded = this.#statement(`${sql} LIMIT ${rowsMax + 1}`, generation);
    const rows = bounded.all(...parameters) as Row[];
    if (rows.length > rowsMax) throw new Error(`its result is too large: ${rowsMax} rows and more`);
    return `[${rows.map(jsonOf).join(",")}]`;
  }

  #statement(sql: string, generation: number): StatementSync {
    if (generation !== this.#generation) this.#statements.clear();
    this.#generation = generation;
    const before = this.#statements.get(sql);
    if (before !== undefined) return before;
    const statement = this.#database.prepare(sql);
    statement.setReadBigInts(true);
    this.#statements.set(sql, statement);
    return statement;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}

type Row = Record<string, SQLOutputValue>;

function rawText(row: Row): string | null {
  const [value] = Object.values(row);
  if (value === null || value === undefined) return null;
  return value instanceof Uint8Array ? hexOf(value) : `${value}`;
}

/** Returns JSON, in which integers keep all their digits. */
function jsonOf(value: SQLOutputValue | Row): string {
  if (typeof value === "bigint") return `${value}`;
  if (value instanceof Uint8Array) return JSON.stringify(hexOf(value));
  // As PostgreSQL writes infinity: JSON has no number for it.
  if (typeof value === "number" && !Number.isFinite(value)) return `"${value}"`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(([name, each]) =>
    `${JSON.stringify(name)}:${jsonOf(each)}`
  );
  return `{${members.join(",")}}`;
}

/** As PostgreSQL writes bytes. */
function hexOf(bytes: Uint8Array): string {
  return `\\x${bytes.toHex()}`;
}
