import { DatabaseSync } from "node:sqlite";
import type { KeyTemplate } from "../views/key_template.ts";
import { textOf } from "../views/parameter_type.ts";
import type { Views } from "../views/view.ts";
import { ViewMapping } from "../views/view_mapping.ts";
import { sqliteFollowSchema, sqliteSchema } from "../base/schema.ts";
import { otherRowOf, uniqueKeysOf } from "./unique_keys.ts";
import { quoted, quotedNames, type TableNames } from "../base/table.ts";

/** The beginning of every trigger's name. */
const TRIGGER = "leased_change_";
const NOTE = "INSERT INTO leased_changes (key)";

/** A table whose changes are noted. */
interface NotedTable {
  readonly table: string;
  /** The condition of its triggers, with WHEN; "": none. */
  readonly when: string;
  /** Each returns the expression of a key that a row concerns: bytes; or text, for all keys that begin with it. */
  readonly keys: readonly ((row: string) => string)[];
  /** Expressions of texts that all its keys begin with. */
  readonly prefixes: readonly string[];
}

/** Returns the statements after which an origin may follow the changes of an SQLite file. */
export function followSchema(database: DatabaseSync, names: TableNames, views: Views): string {
  const made = triggersOf(database, names, views);
  const found = triggersIn(database);
  const drops = [...found].filter(([name, sql]) => made.get(name) !== sql);
  const creates = [...made].filter(([name, sql]) => found.get(name) !== sql);
  return sqliteFollowSchema() +
    drops.map(([name]) => `DROP TRIGGER ${quoted(name)};\n`).join("") +
    creates.map(([, sql]) => `${sql};\n`).join("");
}

/** `followSchema` of a file that may lack the table of rows, or be missing. */
export function followSchemaOf(path: string, names: TableNames, views: Views): string {
  const database = exists(path)
    ? new DatabaseSync(path, { readOnly: true })
    : new DatabaseSync(":memory:");
  try {
    return followSchema(database, names, views);
  } finally {
    database.close();
  }
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Returns the names of triggers that are missing or differ. */
export function missingTriggers(
  database: DatabaseSync,
  names: TableNames,
  views: Views,
): string[] {
  const found = triggersIn(database);
  return [...triggersOf(database, names, views)]
    .filter(([name, sql]) => found.get(name) !== sql)
    .map(([name]) => name);
}

function triggersIn(database: DatabaseSync): Map<string, string> {
  const rows = database.prepare(
    "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND substr(name, 1, ?) = ?",
  ).all(TRIGGER.length, TRIGGER);
  return new Map(rows.map(({ name, sql }) => [name as string, sql as string]));
}

/** Returns the statements by the triggers' names. */
function triggersOf(
  database: DatabaseSync,
  names: TableNames,
  views: Views,
): Map<string, string> {
  const mapping = new ViewMapping(views, firstSpelling());
  return new Map([
    ...triggersOfRows(database, names),
    ...mapping.tables.flatMap((table) => {
      const templates = mapping.templatesOf(table);
      return triggersFor(database, {
        table,
        when: "",
        keys: templates.map((template) => (row) => keyIn(template, row)),
        prefixes: templates.map(({ prefix }) => quote(prefix)),
      });
    }),
  ]);
}

/** SQLite takes `Price` and `price` for one table. Returns the spelling of each that was asked for first. */
function firstSpelling(): (table: string) => string {
  const spellings = new Map<string, string>();
  return (table) => {
    const folded = table.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
    const first = spellings.get(folded) ?? table;
    spellings.set(folded, first);
    return first;
  };
}

/** The table of rows: the origin's own writes are deleted by the origin before they are committed. */
function triggersOfRows(database: DatabaseSync, names: TableNames): [string, string][] {
  const { key } = quotedNames(names);
  const noted: NotedTable = {
    table: names.table,
    when: "WHEN (SELECT own FROM leased_follow) = 0",
    keys: [(row) => `CAST(${row}.${key} AS BLOB)`],
    prefixes: ["''"],
  };
  const isMade = database.prepare("SELECT count(*) AS count FROM pragma_table_info(?)")
    .get(names.table)!["count"] !== 0;
  if (isMade) return triggersFor(database, noted);
  const planned = new DatabaseSync(":memory:");
  try {
    planned.exec(sqliteSchema(names));
    return triggersFor(planned, noted);
  } finally {
    planned.close();
  }
}

function triggersFor(database: DatabaseSync, noted: NotedTable): [string, string][] {
  const trigger = (kind: string, event: string, notes: readonly string[]): [string, string] => {
    const name = `${TRIGGER}${kind}_${noted.table}`;
    const head = ["CREATE TRIGGER", quoted(name), event, "ON", quoted(noted.table), noted.when];
    return [name, [...head, "BEGIN", ...notes, "END"].filter(Boolean).join(" ")];
  };
  const changed = (row: string): string[] =>
    noted.keys.map((keyOf) => `${NOTE} VALUES (${keyOf(row)});`);
  return [
    trigger("replacing", "BEFORE INSERT", replacedRows(database, noted, false)),
    trigger("moving", "BEFORE UPDATE", replacedRows(database, noted, true)),
    trigger("inserted", "AFTER INSERT", changed("NEW")),
    trigger("updated", "AFTER UPDATE", [...changed("OLD"), ...changed("NEW")]),
    trigger("deleted", "AFTER DELETE", changed("OLD")),
  ].filter(([, sql]) => !sql.endsWith("BEGIN END"));
}

/** Returns the notes of rows that REPLACE would remove: SQLite fires no trigger for them. */
function replacedRows(
  database: DatabaseSync,
  { table, keys, prefixes }: NotedTable,
  isUpdate: boolean,
): string[] {
  return uniqueKeysOf(database, table).flatMap((unique) => {
    // A key over expressions: nothing is known of the row.
    if (unique.columns === null) return prefixes.map((prefix) => `${NOTE} VALUES (${prefix});`);
    const from = `FROM ${quoted(table)} AS gone WHERE ${otherRowOf(unique, "gone", isUpdate)};`;
    return keys.map((keyOf) => `${NOTE} SELECT ${keyOf("gone")} ${from}`);
  });
}

/** Returns the expression of a key: bytes; or text, for all keys that begin with it. */
function keyIn({ texts, names, isPrefix }: KeyTemplate, row: string): string {
  const parts = [quote(texts[0]!)];
  const cases: string[] = [];
  for (const [index, name] of names.entries()) {
    const column = `${row}.${quoted(name)}`;
    cases.push(`WHEN ${column} IS NULL THEN ${parts.join(" || ")}`);
    parts.push(column, quote(texts[index + 1]!));
  }
  const all = parts.filter((part, index) => index === 0 || part !== "''").join(" || ");
  const key = isPrefix ? `CAST(${all} AS TEXT)` : `CAST(${all} AS BLOB)`;
  return cases.length === 0 ? key : `CASE ${cases.join(" ")} ELSE ${key} END`;
}

/** @param text UTF-8, a character a byte. */
function quote(text: string): string {
  return `'${textOf(text)!.replaceAll("'", "''")}'`;
}
