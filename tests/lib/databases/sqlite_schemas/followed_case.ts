import { DatabaseSync, type SQLOutputValue } from "node:sqlite";
import { DEFAULT_TABLE, quoted } from "../../../../lib/databases/base/table.ts";
import { sqliteSchema } from "../../../../lib/databases/base/schema.ts";
import { followSchema } from "../../../../lib/databases/sqlite/triggers.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import type { Views } from "../../../../lib/databases/views/view.ts";

/** What an application sees of a statement. */
export interface Outcome {
  /** Rows, or the error. */
  readonly result: string;
  readonly changes: string;
  readonly lastRow: string;
}

/** Templates of keys by the table whose changes they concern. */
export type Changes = Readonly<Record<string, readonly string[]>>;

/** Returns views with these changes. */
export function viewsOf(changes: Changes): Views {
  const file: Record<string, unknown> = {};
  for (const [table, templates] of Object.entries(changes)) {
    for (const template of templates) {
      let count = 0;
      const keys = template.replaceAll(/\{\w+\}|\*$/g, () => `{x${count++}}`);
      const columns = Array.from({ length: count }, (_, index) => `{x${index}}`);
      const query = `SELECT ${columns.join(", ") || "1"}`;
      file[keys] = { query, changes: { [table]: template } };
    }
  }
  return parseViews(JSON.stringify(file), "views.jsonc", [""]);
}

/** Makes what `init --follow` makes, over a connection of its own. */
export function follow(path: string, views: Views): void {
  using database = new DatabaseSync(path);
  database.exec(`PRAGMA synchronous = OFF; BEGIN; ${sqliteSchema(DEFAULT_TABLE)}`);
  database.exec(`${followSchema(database, DEFAULT_TABLE, views)} COMMIT`);
}

/** Executes one statement. */
export function execute(database: DatabaseSync, sql: string): Outcome {
  return { result: resultOf(database, sql), ...countersOf(database) };
}

function resultOf(database: DatabaseSync, sql: string): string {
  try {
    const statement = database.prepare(sql);
    statement.setReadBigInts(true);
    const rows = statement.all() as Record<string, SQLOutputValue>[];
    return rows.map((row) => Object.entries(row).map(shown).join(", ")).join("; ");
  } catch (error) {
    return `error: ${(error as Error).message}`;
  }
}

function shown([name, value]: [string, SQLOutputValue]): string {
  return `${name}: ${
    value instanceof Uint8Array ? `x'${value.toHex()}'` : `${typeof value} ${value}`
  }`;
}

function countersOf(database: DatabaseSync): { changes: string; lastRow: string } {
  const statement = database.prepare("SELECT changes() AS changes, last_insert_rowid() AS last");
  statement.setReadBigInts(true);
  const { changes, last } = statement.get()!;
  return { changes: `${changes}`, lastRow: `${last}` };
}

/** Returns the rows of a table, in any order. */
export function rowsOf(database: DatabaseSync, table: string): string[] {
  return resultOf(database, `SELECT * FROM ${quoted(table)}`).split("; ").sort();
}

/** Returns the order in which a statement visits rows: a result may depend on it. */
export function planOf(database: DatabaseSync, sql: string): string {
  if (!/^(?:UPDATE|DELETE|INSERT.* SELECT)/.test(sql)) return "";
  const plan = resultOf(database, `EXPLAIN QUERY PLAN ${sql}`);
  return plan.match(/detail: .*?(?:$|;)/)?.[0].replaceAll("COVERING ", "") ?? "";
}

export function schemaVersionOf(database: DatabaseSync): unknown {
  return database.prepare("PRAGMA schema_version").get()!["schema_version"];
}

/** Columns that statements can write, unless all are asked for. */
export function columnsOf(database: DatabaseSync, table: string, all = false): string[] {
  return database.prepare(
    "SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0 OR ?",
  ).all(table, Number(all)).map(({ name }) => name as string);
}

/** Returns the names of the row number; none: the table has none, or columns hide them. */
export function rowNumbersOf(database: DatabaseSync, table: string): string[] {
  const { wr } = database.prepare("SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'")
    .get(table)!;
  const hidden = columnsOf(database, table, true).map((name) => name.toLowerCase());
  return wr === 0 ? ["rowid", "oid", "_rowid_"].filter((name) => !hidden.includes(name)) : [];
}
