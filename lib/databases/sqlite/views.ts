import { resultOf } from "../base/found.ts";
import { DatabaseSync, type SQLOutputValue, type StatementSync } from "node:sqlite";
import { reasonOf } from "../../process/reason.ts";
import { isCanonical, type ParameterType, textOf } from "../views/parameter_type.ts";
import {
  resultMistakes,
  type View,
  type ViewMistake,
  type Views,
  ViewsError,
  withParameters,
} from "../views/view.ts";
import type {
  Found,
  InspectedView,
  InspectedViews,
  PreparedViews,
  ViewKey,
} from "../base/backend.ts";
import { missingTriggers } from "./triggers.ts";
import type { TableNames } from "../base/table.ts";

/** The table without a page of its own: the schema itself. */
const SCHEMA = "sqlite_schema";
/** Virtual tables whose names a query has. */
const VIRTUAL_TABLES = "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage = 0 " +
  "AND instr(lower(?), lower(name)) > 0";
/** A table, or a whole index of it, in a line of a plan; and a result in the middle of a query. */
const SCAN = /^SCAN (?!CONSTANT ROW)([^\s(]+)(?: USING .*INDEX .*)?$/;
const MADE = /^(?:CO-ROUTINE|MATERIALIZE) (\S+)/;
const COLLATION = /\bcollate\b/i;

/** A view that is ready. */
interface Prepared extends InspectedView {
  readonly statement: StatementSync;
}

/** Views of an SQLite file: their queries, over a connection that cannot write. */
export class SqliteViews implements PreparedViews {
  readonly #database: DatabaseSync;
  readonly #epoch: StatementSync;
  readonly #views: Views;
  readonly #names: TableNames;
  readonly #nowUnixMs: () => number;
  #byView: ReadonlyMap<View, Prepared> = new Map();

  private constructor(
    database: DatabaseSync,
    views: Views,
    names: TableNames,
    nowUnixMs: () => number,
  ) {
    this.#database = database;
    this.#epoch = database.prepare("SELECT epoch FROM leased_proxy");
    this.#views = views;
    this.#names = names;
    this.#nowUnixMs = nowUnixMs;
    this.inspect();
  }

  /** @throws As `inspect`. */
  static prepare(
    path: string,
    views: Views,
    names: TableNames,
    nowUnixMs: () => number,
  ): SqliteViews {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      return new SqliteViews(database, views, names, nowUnixMs);
    } catch (error) {
      database.close();
      throw error;
    }
  }

  /**
   * Prepares the statements, and learns the types of their parameters.
   *
   * @throws ViewsError names what SQLite refuses, and triggers that are missing.
   */
  inspect(): void {
    const { inspected, mistakes } = inspectViews(this.#database, this.#views, this.#names);
    if (mistakes.length > 0) throw new ViewsError(this.#views.path, mistakes);
    this.#byView = new Map(inspected.map((each) => [each.view, each]));
  }

  readMany(keys: readonly ViewKey[]): Promise<readonly Found[]> {
    return Promise.resolve().then(() => {
      this.#database.exec("BEGIN");
      try {
        const { epoch } = this.#epoch.get() as { epoch: number };
        return keys.map((key) => this.#read(key, epoch));
      } finally {
        this.#database.exec("COMMIT");
      }
    });
  }

  #read({ view, values }: ViewKey, epoch: number): Found {
    const { statement, types } = this.#byView.get(view)!;
    const isAsked = values.every((value, index) => isCanonical(value, types[index]!));
    const nothing = resultOf(null, view, epoch, 0);
    if (!isAsked) return nothing;
    const parameters = values.map((value, index) =>
      types[index] === "bigint" ? BigInt(value) : textOf(value)
    );
    let text: string | null;
    try {
      text = view.result === "array"
        ? jsonOf(statement.all(...parameters) as Row[])
        : valueOf(statement.get(...parameters) as Row | undefined, view);
    } catch (error) {
      return { ...nothing, problem: `view ${view.name}: ${reasonOf(error)}` };
    }
    if (text === null) return nothing;
    return resultOf(new TextEncoder().encode(text), view, epoch, this.#nowUnixMs());
  }

  close(): Promise<void> {
    this.#database.close();
    return Promise.resolve();
  }
}

type Row = Record<string, SQLOutputValue>;

function valueOf(row: Row | undefined, { result }: View): string | null {
  if (row === undefined) return null;
  if (result === "object") return jsonOf(row);
  const [value] = Object.values(row);
  return value === null || value === undefined
    ? null
    : value instanceof Uint8Array
    ? hexOf(value)
    : `${value}`;
}

/** Returns JSON, in which integers keep all their digits. */
function jsonOf(value: SQLOutputValue | Row | Row[]): string {
  if (Array.isArray(value)) return `[${value.map(jsonOf).join(",")}]`;
  if (typeof value === "bigint") return `${value}`;
  if (value instanceof Uint8Array) return JSON.stringify(hexOf(value));
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

/** Asks SQLite of views. @throws SQLite's error. */
export function inspectSqliteViews(path: string, views: Views, names: TableNames): InspectedViews {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return inspectViews(database, views, names);
  } finally {
    database.close();
  }
}

function inspectViews(
  database: DatabaseSync,
  views: Views,
  names: TableNames,
): { inspected: Prepared[]; mistakes: ViewMistake[] } {
  const mistakes: ViewMistake[] = [];
  const inspected = views.all.map((view) => inspect(database, view, names, mistakes));
  if (mistakes.length === 0 && missingTriggers(database, names, views).length > 0) {
    const text = "the triggers of its tables are missing or old: " +
      "start `leased rows init --follow --views <file> --run`";
    mistakes.push({ line: views.all[0]!.line, text });
  }
  return { inspected: inspected.filter((each) => each !== null), mistakes };
}

function inspect(
  database: DatabaseSync,
  view: View,
  names: TableNames,
  mistakes: ViewMistake[],
): Prepared | null {
  const complain = (text: string): void => {
    mistakes.push({ line: view.line, text: `view ${view.name}: ${text}` });
  };
  const query = withParameters(view, (index) => `?${index + 1}`);
  let statement: StatementSync;
  let tables: string[];
  let scans: string[];
  try {
    statement = database.prepare(`SELECT * FROM (${query}\n)`);
    statement.setReadBigInts(true);
    tables = tablesOf(database, query);
    scans = scansOf(database, query);
  } catch (error) {
    complain(reasonOf(error));
    return null;
  }
  const results = database.prepare(query).columns().map(({ name }) => name);
  for (const text of resultMistakes(view, results)) complain(text);
  const types = typesOf(database, view, names, complain);
  const named = new Set(view.changes.map(({ table }) => table.toLowerCase()));
  for (const table of tables) {
    if (!named.has(table.toLowerCase())) {
      complain(`its query reads table ${table}, which changes must name`);
    }
  }
  return { view, statement, types, tables, scans };
}

/** Returns the types of the parameters: those of the columns that the view's changes name. */
function typesOf(
  database: DatabaseSync,
  view: View,
  names: TableNames,
  complain: (text: string) => void,
): ParameterType[] {
  const types = view.keys.names.map(() => new Set<ParameterType>());
  for (const { table, keys } of view.changes) {
    const columns = columnsOf(database, table);
    if (columns.size === 0) complain(`there is no table ${table}`);
    else if (table.toLowerCase() === names.table.toLowerCase()) {
      complain(`${table} is the table of rows: views are of other tables`);
    }
    for (const template of columns.size === 0 ? [] : keys) {
      for (const [index, name] of template.names.entries()) {
        const type = columns.get(name);
        if (type === undefined) complain(`table ${table} has no column ${name}`);
        else if (type === null) {
          complain(
            `column ${name} of ${table} must be an integer, or text with no collation of its own`,
          );
        } else types[index]!.add(type);
      }
    }
  }
  for (const [index, each] of types.entries()) {
    if (each.size > 1) {
      complain(`{${view.keys.names[index]}} is an integer in one table and text in another`);
    }
    if (each.has("text") && COLLATION.test(view.query)) {
      complain("its query compares text by a collation");
    }
  }
  return types.map(([type]) => type ?? "text");
}

/** Returns the tables that a query opens. */
function tablesOf(database: DatabaseSync, query: string): string[] {
  const rows = database.prepare(`EXPLAIN SELECT * FROM (${query}\n)`).all();
  const opens = (opcode: unknown): boolean => opcode === "OpenRead" || opcode === "ReopenIdx";
  const roots = rows.filter(({ opcode, p3 }) => opens(opcode) && p3 === 0);
  const find = database.prepare("SELECT tbl_name AS name FROM sqlite_schema WHERE rootpage = ?");
  const names = roots.map(({ p2 }) => (find.get(p2 as number)?.["name"] ?? SCHEMA) as string);
  // The plan does not name them.
  const virtual = rows.some(({ opcode }) => opcode === "VOpen")
    ? database.prepare(VIRTUAL_TABLES).all(query).map(({ name }) => name as string)
    : [];
  return [...new Set([...names, ...virtual])];
}

/** Returns the tables that a query reads as a whole. */
function scansOf(database: DatabaseSync, query: string): string[] {
  const rows = database.prepare(`EXPLAIN QUERY PLAN SELECT * FROM (${query}\n)`).all();
  const scans = rows.flatMap(({ detail }) => SCAN.exec(detail as string)?.[1] ?? []);
  const made = rows.flatMap(({ detail }) => MADE.exec(detail as string)?.[1] ?? []);
  return scans.filter((name) => !made.includes(name));
}

/** Returns the types of a table's columns by name; null: values of it have more than one text. */
function columnsOf(database: DatabaseSync, table: string): Map<string, ParameterType | null> {
  const rows = database.prepare("SELECT name, type FROM pragma_table_info(?)").all(table);
  const schema = database.prepare(
    "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE",
  ).get(table);
  const isLoose = COLLATION.test((schema?.["sql"] as string | undefined) ?? "");
  return new Map(rows.map(({ name, type }) => [name as string, typeOf(type as string, isLoose)]));
}

/** The rules of SQLite for declared types. */
function typeOf(declared: string, isLoose: boolean): ParameterType | null {
  if (/int/i.test(declared)) return "bigint";
  return /char|clob|text/i.test(declared) && !isLoose ? "text" : null;
}
