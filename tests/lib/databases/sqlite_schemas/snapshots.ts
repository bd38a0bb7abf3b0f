import type { DatabaseSync } from "node:sqlite";
import { quoted } from "../../../../lib/databases/base/table.ts";
import { typesOf } from "../../../../lib/databases/sqlite/parameters.ts";
import type { ParameterType } from "../../../../lib/databases/views/parameter_type.ts";
import { type Changes, columnsOf, rowNumbersOf, viewsOf } from "./followed_case.ts";

/** Notes in the order of their numbers, in hexadecimal; with `*` at its end: all keys that begin so. */
export const NOTES = "SELECT id, hex(key) || iif(typeof(key) = 'text', '*', '') AS note " +
  "FROM leased_changes WHERE id > ? ORDER BY id";

/** Rows of the tables of views by their contents, with the keys of views, as notes write them. */
export type Snapshot = ReadonlyMap<string, { count: number; readonly keys: readonly string[] }>;

/**
 * Returns the query of a snapshot of a table: contents, then the keys.
 *
 * @returns Null: the table, or a column of its keys, is not there.
 */
export function snapshotQuery(
  database: DatabaseSync,
  table: string,
  templates: readonly string[],
): string | null {
  const names = columnsOf(database, table, true);
  const needed = templates.flatMap((template) => namesIn(template));
  if (names.length === 0 || needed.some((name) => !names.includes(name))) return null;
  const numbers = rowNumbersOf(database, table).slice(0, 1);
  // quote() ends a text at its first NUL.
  const contents = [...names, ...numbers].map(quoted).map((name) =>
    `quote(t.${name}) || ' ' || hex(t.${name})`
  );
  const keys = viewsOf({ [table]: templates }).all.map((view, index) => {
    const { types } = typesOf(database, view);
    return `${keyOf(templates[index]!, types)} AS k${index}`;
  });
  return `SELECT ${contents.join(" || ',' || ")} AS contents, ${keys.join(", ")} FROM ${
    quoted(table)
  } AS t`;
}

/** Returns the rows of all tables of views; null: a table has changed its form. */
export function takeSnapshot(database: DatabaseSync, changes: Changes): Snapshot | null {
  const all = new Map<string, { count: number; keys: string[] }>();
  for (const [table, templates] of Object.entries(changes)) {
    const query = snapshotQuery(database, table, templates);
    if (query === null) return null;
    for (const { contents, ...keys } of database.prepare(query).all()) {
      const id = `${table}: ${contents}`;
      const found = all.get(id);
      if (found !== undefined) found.count++;
      else all.set(id, { count: 1, keys: Object.values(keys) as string[] });
    }
  }
  return all;
}

/** Returns keys of rows that are other than before, and that no note covers. */
export function missedKeys(before: Snapshot, after: Snapshot, notes: readonly string[]): string[] {
  const beginnings = notes.filter((note) => note.endsWith("*")).map((note) => note.slice(0, -1));
  const isCovered = (key: string): boolean =>
    notes.includes(key) || beginnings.some((each) => key.startsWith(each));
  const missed = [...new Set([...before.keys(), ...after.keys()])].flatMap((contents) => {
    const [old, now] = [before.get(contents), after.get(contents)];
    const keys = old?.count === now?.count ? [] : (old ?? now)!.keys;
    return keys.filter((key) => !isCovered(key)).map((key) => `${key} of ${contents}`);
  });
  return [...new Set(missed)];
}

function namesIn(template: string): string[] {
  return [...template.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
}

/** Returns the key of a row t. @param types Of its columns. */
function keyOf(template: string, types: readonly ParameterType[]): string {
  const texts = template.replace(/\*$/, "").split(/\{\w+\}/).map((text) => `hex('${text}')`);
  const end = texts.at(-1)! + (template.endsWith("*") ? " || '*'" : "");
  return namesIn(template).reduceRight((rest, name, index) => {
    const column = `t.${quoted(name)}`;
    const text = `CAST(${column} AS TEXT)`;
    const part = types[index] === "text without case" ? `lower(${text})` : text;
    const key = `iif(${column} IS NULL, '*', hex(${part}) || ${rest})`;
    return `${texts[index]} || ${key}`;
  }, end);
}
