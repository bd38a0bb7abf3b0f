import { DatabaseSync, type SQLOutputValue, type StatementSync } from "node:sqlite";
import { reasonOf } from "../../process/reason.ts";
import { rowsMax, tooLarge } from "../base/found.ts";
import type { ViewResult } from "../views/view.ts";

/** Longest text that the runtime can make. */
const BYTES_MAX = 2 ** 29;
/** What the last column says: a text of the row has the character NUL, at which the runtime would cut it. */
const HAS_NUL = 1n;
/** What it says in the row behind the others: without that row, an error has ended them. */
const IS_END = 2n;
const NUL = "a text in its result has the character NUL";

/** A view's query, for a thread. Plain data. */
export interface ViewQuery {
  /** A SELECT without a LIMIT of its own. */
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
  readonly #readings = new Map<string, Reading>();
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

  #textOf(query: ViewQuery): string | null {
    if (query.result === "array") return this.#arrayOf(query);
    const { statement, names, mark } = this.#reading(query, 1);
    const row = statement.get(...query.parameters) as Row | undefined;
    if (row === undefined || row[mark] === IS_END) return null;
    if (row[mark] === HAS_NUL) throw new Error(NUL);
    const text = query.result === "raw" ? rawText(row, names) : jsonOf(row, names);
    if (text !== null && text.length > query.bytesMax) throw new Error(tooLarge(query.bytesMax));
    return text;
  }

  #arrayOf(query: ViewQuery): string {
    const bytesMax = Math.min(query.bytesMax, BYTES_MAX);
    const { statement, names, mark } = this.#reading(query, rowsMax(bytesMax) + 1);
    const texts: string[] = [];
    let bytes = 1;
    for (const row of statement.iterate(...query.parameters) as Iterable<Row>) {
      if (row[mark] === IS_END) return `[${texts.join(",")}]`;
      if (row[mark] === HAS_NUL) throw new Error(NUL);
      const text = jsonOf(row, names);
      texts.push(text);
      // A letter has a byte at least; the exact length is that of the whole text.
      bytes += text.length + 1;
      if (bytes > bytesMax) throw new Error(tooLarge(bytesMax));
    }
    // `iterate` hides the error that has ended it, and `all` throws it.
    statement.all(...query.parameters);
    throw new Error("its rows ended with an error that did not come again");
  }

  /** Returns the statement that reads a query's rows, and one behind them. */
  #reading({ sql, generation }: ViewQuery, limit: number): Reading {
    if (generation !== this.#generation) this.#readings.clear();
    this.#generation = generation;
    const before = this.#readings.get(sql);
    if (before !== undefined) return before;
    // The epoch was read before: by that the connection has learnt the schema of now.
    const names = this.#database.prepare(sql).columns().map(({ name }) => name);
    const mark = markBeside(names);
    const texts = names.map(quoted).map((name) =>
      `typeof(${name}) = 'text' AND instr(${name}, char(0))`
    );
    const statement = this.#database.prepare(
      `WITH result AS MATERIALIZED (${sql} LIMIT ${limit}) ` +
        `SELECT *, ${texts.join(" OR ")} AS ${mark} FROM result ` +
        `UNION ALL SELECT ${names.map(() => "NULL").join(", ")}, ${IS_END}`,
    );
    statement.setReadBigInts(true);
    const reading = { statement, names, mark };
    this.#readings.set(sql, reading);
    return reading;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}

type Row = Record<string, SQLOutputValue>;

/** How the rows of a query are read. */
interface Reading {
  readonly statement: StatementSync;
  /** The query's columns. */
  readonly names: readonly string[];
  /** The column behind them. */
  readonly mark: string;
}

/** Returns a name that no column has. */
function markBeside(names: readonly string[]): string {
  let mark = "mark";
  while (names.some((name) => name.toLowerCase() === mark)) mark += "_";
  return mark;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function rawText(row: Row, [name]: readonly string[]): string | null {
  const value = row[name!];
  if (value === null || value === undefined) return null;
  return value instanceof Uint8Array ? hexOf(value) : `${value}`;
}

/** Returns a row in JSON. */
function jsonOf(row: Row, names: readonly string[]): string {
  const members = names.map((name) => `${JSON.stringify(name)}:${jsonOfValue(row[name]!)}`);
  return `{${members.join(",")}}`;
}

/** Returns JSON, in which integers keep all their digits. */
function jsonOfValue(value: SQLOutputValue): string {
  if (typeof value === "bigint") return `${value}`;
  if (value instanceof Uint8Array) return JSON.stringify(hexOf(value));
  // As PostgreSQL writes infinity: JSON has no number for it.
  if (typeof value === "number" && !Number.isFinite(value)) return `"${value}"`;
  return JSON.stringify(value);
}

/** As PostgreSQL writes bytes. */
function hexOf(bytes: Uint8Array): string {
  return `\\x${bytes.toHex()}`;
}
