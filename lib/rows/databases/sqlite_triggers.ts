import { DatabaseSync } from "node:sqlite";
import type { KeyTemplate } from "../views/key_template.ts";
import { textOf } from "../views/parameter_type.ts";
import type { Views } from "../views/view.ts";
import { ViewMapping } from "../views/view_mapping.ts";
import { quoted } from "./table.ts";

/** What the names of triggers for views begin with. */
const TRIGGER = "leased_view_";

/** Returns the statements that make the triggers of all tables that views name, and remove others. */
export function viewTriggerSchema(database: DatabaseSync, views: Views): string {
  const made = triggersOf(database, views);
  const drops = triggersIn(database).keys();
  return [...drops].map((name) => `DROP TRIGGER ${quoted(name)};\n`).join("") +
    [...made.values()].map((sql) => `${sql};\n`).join("") +
    (missingTriggers(database, views).length > 0 ? "UPDATE leased_follow SET followed = 0;\n" : "");
}

/** `viewTriggerSchema` of a file; "" without views. */
export function triggerSchemaOf(path: string, views: Views): string {
  if (views.all.length === 0) return "";
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return viewTriggerSchema(database, views);
  } finally {
    database.close();
  }
}

/** Returns the names of triggers that are missing or differ. */
export function missingTriggers(database: DatabaseSync, views: Views): string[] {
  const found = triggersIn(database);
  return [...triggersOf(database, views)]
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
function triggersOf(database: DatabaseSync, views: Views): Map<string, string> {
  const mapping = new ViewMapping(views);
  const triggers = new Map<string, string>();
  for (const table of mapping.tables) {
    const templates = mapping.templatesOf(table);
    const notes = (row: string): string =>
      templates.map((template) => `${NOTE} VALUES (${keyIn(template, row)});`).join(" ");
    const add = (kind: string, event: string, body: string): void => {
      const name = `${TRIGGER}${kind}_${table}`;
      triggers.set(
        name,
        `CREATE TRIGGER ${quoted(name)} ${event} ON ${quoted(table)} BEGIN ${body} END`,
      );
    };
    const replaced = replacedRows(database, table, templates);
    if (replaced !== "") {
      add("replacing", "BEFORE INSERT", replaced);
      add("moving", "BEFORE UPDATE", replaced);
    }
    add("inserted", "AFTER INSERT", notes("NEW"));
    add("updated", "AFTER UPDATE", `${notes("OLD")} ${notes("NEW")}`);
    add("deleted", "AFTER DELETE", notes("OLD"));
  }
  return triggers;
}

const NOTE = "INSERT INTO leased_changes (key)";

/** Rows that REPLACE removes have no trigger of their own: those with the same primary or unique key. */
function replacedRows(
  database: DatabaseSync,
  table: string,
  templates: readonly KeyTemplate[],
): string {
  const primary = database.prepare(
    "SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk",
  ).all(table).map(({ name }) => name as string);
  const unique = database.prepare(
    "SELECT (SELECT json_group_array(column.name) FROM pragma_index_info(list.name) AS column) AS names " +
      'FROM pragma_index_list(?) AS list WHERE list."unique" = 1 ORDER BY list.name',
  ).all(table).map(({ names }) => JSON.parse(names as string) as (string | null)[]);
  const keys = new Map([primary, ...unique].map((names) => [names.join("\n"), names]));
  return [...keys.values()].filter((names) => names.length > 0).flatMap((names) =>
    templates.map((template) => {
      // A key over expressions: nothing is known of the row.
      if (names.includes(null)) return `${NOTE} VALUES (${quote(template.texts[0]!)});`;
      const same = names.map((name) => `gone.${quoted(name!)} = NEW.${quoted(name!)}`).join(
        " AND ",
      );
      return `${NOTE} SELECT ${keyIn(template, "gone")} FROM ${
        quoted(table)
      } AS gone WHERE ${same};`;
    })
  ).join(" ");
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
