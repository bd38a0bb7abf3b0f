import { DatabaseSync } from "node:sqlite";
import type { ParameterType } from "../views/parameter_type.ts";
import type { View } from "../views/view.ts";
import type { KeyColumns } from "../views/view_mapping.ts";
import { quoted } from "../base/table.ts";

const COLLATION = /\bcollate\s+["'`[]?(\w+)/gi;
/** Collations with one text, or one without case, for equal texts. */
const BINARY = "BINARY";
const NOCASE = "NOCASE";
/** In place of a collation: the table cannot be copied, as it calls functions of the application. */
export const UNKNOWN_COLLATION = "that this process does not know";

/** A column of a table. */
interface Column {
  /** As it is declared. */
  readonly declared: string;
  /** Null: equal values have more than one text. */
  readonly type: ParameterType | null;
}

/** What SQLite says of a view's parameters. */
export interface ViewTypes {
  readonly types: readonly ParameterType[];
  /** Types of the columns that changes name, by the names of both. */
  readonly columns: KeyColumns;
}

/** Returns the types of a view's parameters: those of the columns that its changes name. */
export function typesOf(
  database: DatabaseSync,
  view: View,
  complain: (text: string) => void = () => {},
): ViewTypes {
  const named = view.keys.names.map(() => new Set<ParameterType>());
  const found = new Map<string, Map<string, ParameterType>>();
  for (const { table, keys } of view.changes) {
    const columns = columnsOf(database, table);
    if (columns.size === 0) complain(`there is no table ${table}`);
    const used = new Map<string, ParameterType>();
    found.set(table, used);
    for (const template of columns.size === 0 ? [] : keys) {
      for (const [index, name] of template.names.entries()) {
        const column = columns.get(name);
        const parameter = view.keys.names[index]!;
        if (column === undefined) complain(`table ${table} has no column ${name}`);
        else if (column.type === null) {
          complain(
            `column ${name} of ${table} is ${column.declared}: must be an integer, or text whose ` +
              `collation is ${BINARY} or ${NOCASE}; or write * for {${parameter}} in changes`,
          );
        } else {
          named[index]!.add(column.type);
          used.set(name, column.type);
        }
      }
    }
  }
  const types = named.map(commonType);
  for (const [index, each] of named.entries()) {
    if (each.size > 0) checkCollations(view, types[index]!, view.keys.names[index]!, complain);
  }
  return { types, columns: found };
}

/** Of two types, both sides of a comparison become integers, or texts without case. */
function commonType(types: ReadonlySet<ParameterType>): ParameterType {
  return (["bigint", "text without case"] as const).find((type) => types.has(type)) ?? "text";
}

function checkCollations(
  { query }: View,
  type: ParameterType,
  name: string,
  complain: (text: string) => void,
): void {
  if (type === "bigint") return;
  const used = [...query.matchAll(COLLATION)].map(([, collation]) => collation!.toUpperCase());
  const fits = type === "text" ? [] : [BINARY, NOCASE];
  if (used.every((collation) => fits.includes(collation))) return;
  complain(
    `its query compares text by a collation, for which {${name}} has several texts: ` +
      `declare its column with COLLATE ${NOCASE}, or write * for {${name}} in changes`,
  );
}

/** Returns the columns of a table by name; empty: there is none. */
function columnsOf(database: DatabaseSync, table: string): Map<string, Column> {
  const rows = database.prepare("SELECT name, type FROM pragma_table_info(?)").all(table);
  const collationOf = collationsOf(database, table);
  return new Map(rows.map(({ name, type }) => {
    const declared = type as string;
    const collation = collationOf(name as string);
    const named = declared === "" ? "of no type" : declared;
    const about = collation === BINARY ? named : `${named} COLLATE ${collation}`;
    return [name as string, { declared: about, type: typeOf(declared, collation) }];
  }));
}

/** The rules of SQLite for declared types. */
function typeOf(declared: string, collation: string): ParameterType | null {
  if (/int/i.test(declared)) return "bigint";
  if (!/char|clob|text/i.test(declared)) return null;
  return collation === BINARY ? "text" : collation === NOCASE ? "text without case" : null;
}

/**
 * Returns the function that finds the collation of a column, in capitals, or UNKNOWN_COLLATION. Only an index has it,
 * so a copy of the table gets one of that column: the file is read only.
 */
export function collationsOf(
  database: DatabaseSync,
  table: string,
): (column: string) => string {
  const schema = database.prepare(
    "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE",
  ).get(table) as { name: string; sql: string } | undefined;
  if (schema === undefined || !/\bcollate\b/i.test(schema.sql)) return () => BINARY;
  return (column) => {
    const copy = new DatabaseSync(":memory:");
    try {
      copy.exec(
        `${schema.sql}; CREATE INDEX leased_index ON ${quoted(schema.name)} (${quoted(column)})`,
      );
      const found = copy.prepare("SELECT coll FROM pragma_index_xinfo('leased_index')").get();
      return (found!["coll"] as string).toUpperCase();
    } catch {
      return UNKNOWN_COLLATION;
    } finally {
      copy.close();
    }
  };
}
