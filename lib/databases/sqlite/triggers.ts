import { DatabaseSync } from "node:sqlite";
import type { KeyTemplate } from "../views/key_template.ts";
import { type ParameterType, textOf } from "../views/parameter_type.ts";
import { mistakesOf, type View, type Views, ViewsError } from "../views/view.ts";
import { reasonOf } from "../../process/reason.ts";
import { sqliteFollowSchema, sqliteSchema } from "../base/schema.ts";
import { typesOf } from "./parameters.ts";
import { otherRowOf, uniqueKeysOf, unknownRowIf } from "./unique_keys.ts";
import { quoted, quotedNames, type TableNames } from "../base/table.ts";

/** The beginning of every trigger's name. */
const TRIGGER = "leased_change_";
/**
 * Those that NOCASE takes for small ones, in parts: older releases of SQLite cannot parse all calls inside each other,
 * and with such a trigger they cannot open the file.
 */
const LETTERS = ["ABCDEFG", "HIJKLMN", "OPQRSTU", "VWXYZ"];
const NOTE = "INSERT INTO leased_changes (key)";

/** A key that the changes of a table concern. */
interface NotedKey {
  /** Null: it is that of a row. */
  readonly view: View | null;
  /** Returns its expression: bytes; or text, for all keys that begin with it. */
  readonly of: (row: string) => string;
  /** Expression of a text that it begins with. */
  readonly prefix: string;
  /** The columns that are in it. */
  readonly names: readonly string[];
}

/** A table whose changes are noted. */
interface NotedTable {
  readonly table: string;
  /** The condition of its triggers, with WHEN; "": none. */
  readonly when: string;
  readonly keys: readonly NotedKey[];
}

/** A trigger that notes changes. */
interface Trigger {
  readonly name: string;
  /** Before its notes. */
  readonly head: string;
  /** Statements, and the views that they are for. */
  readonly notes: readonly { readonly view: View | null; readonly sql: string }[];
}

/** Returns the statements after which an origin may follow the changes of an SQLite file. */
export function followSchema(database: DatabaseSync, names: TableNames, views: Views): string {
  requireUtf8(database);
  requireColumns(database, views);
  requireForeignKeys(database, names, views);
  const made = new Map(
    triggersOf(database, names, views).map((trigger) => [trigger.name, statementOf(trigger)]),
  );
  const found = triggersIn(database);
  const drops = [...found].filter(([name, sql]) => made.get(name) !== sql);
  const creates = [...made].filter(([name, sql]) => found.get(name) !== sql);
  return sqliteFollowSchema() +
    drops.map(([name]) => `DROP TRIGGER ${quoted(name)};\n`).join("") +
    creates.map(([, sql]) => `${sql};\n`).join("");
}

/** Returns the statements that take away what `followSchema` has made. */
export function followEnd(database: DatabaseSync): string {
  const drops = [...triggersIn(database).keys()].map((name) => `DROP TRIGGER ${quoted(name)};\n`);
  return `${
    drops.join("")
  }DROP TABLE IF EXISTS leased_changes;\nDROP TABLE IF EXISTS leased_follow;\n`;
}

/** Checks that the keys that triggers note have the bytes that clients send. @throws Error */
export function requireUtf8(database: DatabaseSync): void {
  const encoding = encodingOf(database);
  if (encoding === "UTF-8") return;
  throw new Error(
    `the texts of the file are ${encoding}: to follow its changes they must be UTF-8; ` +
      "make a new file of it: sqlite3 old.db .dump | sqlite3 new.db",
  );
}

/** Returns the encoding of texts in a file: UTF-8, UTF-16le or UTF-16be. */
export function encodingOf(database: DatabaseSync): string {
  return database.prepare("PRAGMA encoding").get()!["encoding"] as string;
}

/** Checks that triggers name no column that is missing: every statement on the table would fail. @throws ViewsError */
function requireColumns(database: DatabaseSync, views: Views): void {
  const find = database.prepare("SELECT lower(name) AS name FROM pragma_table_xinfo(?)");
  const broken = views.all.flatMap((view) =>
    view.changes.flatMap(({ table, keys }) => {
      const found = new Set(find.all(table).map(({ name }) => name as string));
      // SQLite refuses a trigger on a table that is missing.
      if (found.size === 0) return [];
      const names = new Set(keys.flatMap(({ names }) => names));
      const missing = [...names].filter((name) => !found.has(name.toLowerCase()));
      return missing.map((name) => ({ view, reason: `table ${table} has no column ${name}` }));
    })
  );
  if (broken.length > 0) throw new ViewsError(views.path, mistakesOf(broken));
}

/**
 * Checks the foreign keys that name the tables. SQLite looks at those of children also when a row is inserted, as soon
 * as there are triggers. @throws Error
 */
function requireForeignKeys(database: DatabaseSync, names: TableNames, views: Views): void {
  const tables = views.all.flatMap(({ changes }) => changes.map(({ table }) => table));
  for (const table of new Set([names.table, ...tables])) {
    try {
      database.prepare(`EXPLAIN DELETE FROM ${quoted(table)}`);
    } catch (error) {
      const reason = reasonOf(error);
      if (!reason.startsWith("foreign key mismatch")) continue;
      throw new Error(
        `${reason}: no row of ${table} could be inserted any more; ` +
          "let the foreign key name a primary key or a unique one, or drop it",
      );
    }
  }
}

/** `followSchema` of a file that may lack the table of rows, or be missing. */
export function followSchemaOf(path: string, names: TableNames, views: Views): string {
  return ofFile(path, (database) => followSchema(database, names, views));
}

/** `followEnd` of a file that may be missing. */
export function followEndOf(path: string): string {
  return ofFile(path, followEnd);
}

function ofFile<Result>(path: string, ask: (database: DatabaseSync) => Result): Result {
  const database = exists(path)
    ? new DatabaseSync(path, { readOnly: true })
    : new DatabaseSync(":memory:");
  try {
    return ask(database);
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

/** Returns the name of a trigger of the table of rows that is missing or differs; null: none is. */
export function missingRowTrigger(database: DatabaseSync, names: TableNames): string | null {
  const found = triggersIn(database);
  const missing = triggersOfRows(database, names).find((trigger) =>
    found.get(trigger.name) !== statementOf(trigger)
  );
  return missing?.name ?? null;
}

/**
 * Returns the views whose changes are not all noted, with the name of a trigger that is missing, or lacks a note. One
 * that has also notes of others serves: it was made for another file, or SQLite has renamed a column in it.
 */
export function viewsWithoutTriggers(
  database: DatabaseSync,
  names: TableNames,
  views: Views,
): Map<View, string> {
  const found = triggersIn(database);
  const missing = new Map<View, string>();
  for (const { name, head, notes } of triggersOf(database, names, views)) {
    const sql = found.get(name) ?? "";
    for (const note of notes) {
      const isNoted = sql.startsWith(head) && sql.includes(` ${note.sql} `);
      if (isNoted || note.view === null || missing.has(note.view)) continue;
      missing.set(note.view, name);
    }
  }
  // In the order of their file.
  return new Map(
    views.all.flatMap((view) => missing.has(view) ? [[view, missing.get(view)!]] : []),
  );
}

function triggersIn(database: DatabaseSync): Map<string, string> {
  const rows = database.prepare(
    "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND substr(name, 1, ?) = ?",
  ).all(TRIGGER.length, TRIGGER);
  return new Map(rows.map(({ name, sql }) => [name as string, sql as string]));
}

function statementOf({ head, notes }: Trigger): string {
  return [head, ...notes.map(({ sql }) => sql), "END"].join(" ");
}

function triggersOf(database: DatabaseSync, names: TableNames, views: Views): Trigger[] {
  const spellingOf = firstSpelling();
  const keys = new Map<string, NotedKey[]>();
  for (const view of views.all) {
    const { types, columns } = typesOf(database, view);
    for (const { table, keys: templates } of view.changes) {
      const name = spellingOf(table);
      const noted = templates.map((template): NotedKey => ({
        view,
        of: (row) => keyIn(template, types, columns.get(table)!, row),
        prefix: quote(template.prefix),
        names: template.names,
      }));
      keys.set(name, [...keys.get(name) ?? [], ...noted]);
    }
  }
  return [
    ...triggersOfRows(database, names),
    ...[...keys].flatMap(([table, noted]) =>
      triggersFor(database, { table, when: "", keys: noted })
    ),
  ];
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
function triggersOfRows(database: DatabaseSync, names: TableNames): Trigger[] {
  const { key } = quotedNames(names);
  const noted: NotedTable = {
    table: names.table,
    when: "WHEN (SELECT own FROM leased_follow) = 0",
    keys: [{
      view: null,
      of: (row) => `CAST(${row}.${key} AS BLOB)`,
      prefix: "''",
      names: [names.key],
    }],
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

function triggersFor(database: DatabaseSync, noted: NotedTable): Trigger[] {
  const trigger = (kind: string, event: string, notes: Trigger["notes"]): Trigger => {
    const name = `${TRIGGER}${kind}_${noted.table}`;
    const head = ["CREATE TRIGGER", quoted(name), event, "ON", quoted(noted.table), noted.when];
    return { name, head: [...head, "BEGIN"].filter(Boolean).join(" "), notes };
  };
  const changed = (row: string): Trigger["notes"] =>
    noted.keys.map(({ view, of }) => ({ view, sql: `${NOTE} VALUES (${of(row)});` }));
  return [
    trigger("replacing", "BEFORE INSERT", replacedRows(database, noted, false)),
    trigger("moving", "BEFORE UPDATE", replacedRows(database, noted, true)),
    trigger("inserted", "AFTER INSERT", changed("NEW")),
    trigger("updated", "AFTER UPDATE", [...changed("OLD"), ...changed("NEW")]),
    trigger("deleted", "AFTER DELETE", changed("OLD")),
  ].filter(({ notes }) => notes.length > 0);
}

/** Returns the notes of rows that REPLACE would remove: SQLite fires no trigger for them. */
function replacedRows(
  database: DatabaseSync,
  { table, keys }: NotedTable,
  isUpdate: boolean,
): Trigger["notes"] {
  return uniqueKeysOf(database, table).flatMap((unique) => {
    // The row that comes instead has the others, and is noted.
    const lost = keys.filter(({ names }) =>
      !names.every((name) => unique.sameTexts.has(name.toLowerCase()))
    );
    const all = (rest: string): Trigger["notes"] =>
      lost.map(({ view, prefix }) => ({
        view,
        sql: `${NOTE} ${rest.replace("?", () => prefix)};`,
      }));
    // A key over expressions: nothing is known of the row.
    if (unique.columns === null) return all("VALUES (?)");
    const from = `FROM ${quoted(table)} AS gone WHERE ${otherRowOf(unique, "gone", isUpdate)};`;
    const unknown = unknownRowIf(unique);
    return [
      ...lost.map(({ view, of }) => ({ view, sql: `${NOTE} SELECT ${of("gone")} ${from}` })),
      ...unknown === null ? [] : all(`SELECT ? WHERE ${unknown}`),
    ];
  });
}

/** Returns the expression of a key: bytes; or text, for all keys that begin with it. */
function keyIn(
  { texts, names, isPrefix }: KeyTemplate,
  types: readonly ParameterType[],
  columns: ReadonlyMap<string, ParameterType>,
  row: string,
): string {
  const parts = [quote(texts[0]!)];
  const cases: string[] = [];
  for (const [index, name] of names.entries()) {
    const column = `${row}.${quoted(name)}`;
    cases.push(`WHEN ${column} IS NULL THEN ${parts.join(" || ")}`);
    parts.push(partOf(column, types[index]!, columns.get(name)), quote(texts[index + 1]!));
  }
  const all = parts.filter((part, index) => index === 0 || part !== "''").join(" || ");
  const key = isPrefix ? `CAST(${all} AS TEXT)` : `CAST(${all} AS BLOB)`;
  return cases.length === 0 ? key : `CASE ${cases.join(" ")} ELSE ${key} END`;
}

/**
 * Returns the expression of the text of a column in keys.
 *
 * @param type Of the parameter.
 * @param own Of the column; undefined: it is not known.
 */
function partOf(column: string, type: ParameterType, own: ParameterType | undefined): string {
  // Beside an integer, 07 is 7.
  if (type === "bigint") return own === "bigint" ? column : `CAST(${column} AS NUMERIC)`;
  if (type !== "text without case") return column;
  // Applications replace lower() by functions that fold more than NOCASE does.
  const folded = (text: string, letters: string): string =>
    [...letters].reduce(
      (each, letter) => `replace(${each}, '${letter}', '${letter.toLowerCase()}')`,
      text,
    );
  const [first, ...others] = LETTERS;
  const inner = `(SELECT ${folded(column, first!)} AS part)`;
  return others.reduce(
    (from, letters) => `(SELECT ${folded("part", letters)} AS part FROM ${from})`,
    inner,
  );
}

/** @param text UTF-8, a character a byte. */
function quote(text: string): string {
  return `'${textOf(text)!.replaceAll("'", "''")}'`;
}
