import type { DatabaseSync } from "node:sqlite";
import { quoted } from "./table.ts";

/** Names of the row number, of which a column may hide some. */
const ROW_NUMBERS = ["rowid", "_rowid_", "oid"];

/** A key that no two rows of a table share. */
export interface UniqueKey {
  /** Null: it has expressions. */
  readonly columns: readonly UniqueColumn[] | null;
  /** What tells a row from others: the row number, or the columns of the primary key; none: nothing can. */
  readonly identity: readonly string[];
}

interface UniqueColumn {
  readonly name: string;
  /** By which its values are compared; null: the column's own. */
  readonly collation: string | null;
  /** SQL expression that stands for NULL where REPLACE meets NOT NULL; null: none. */
  readonly inPlaceOfNull: string | null;
}

/** Returns the unique keys of a table, the row number among them. */
export function uniqueKeysOf(database: DatabaseSync, table: string): UniqueKey[] {
  const columns = database.prepare(
    'SELECT name, "notnull" AS is_set, dflt_value FROM pragma_table_xinfo(?)',
  ).all(table);
  const defaults = new Map(
    columns.filter(({ is_set }) => is_set !== 0)
      .map(({ name, dflt_value }) => [name as string, dflt_value as string | null]),
  );
  const rowNumber = rowNumberOf(database, table, columns.map(({ name }) => name as string));
  const identity = rowNumber === null ? [] : [rowNumber];
  const indexes = database.prepare(
    'SELECT name FROM pragma_index_list(?) WHERE "unique" = 1 ORDER BY name',
  ).all(table).map(({ name }) => {
    const parts = database.prepare(
      "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno",
    ).all(name as string);
    const isPlain = parts.every((part) => part["name"] !== null);
    return {
      identity,
      columns: isPlain
        ? parts.map((part) => ({
          name: part["name"] as string,
          collation: part["coll"] as string,
          inPlaceOfNull: defaults.get(part["name"] as string) ?? null,
        }))
        : null,
    };
  });
  const numbers = identity.map((name) => ({
    identity,
    columns: [{ name, collation: null, inPlaceOfNull: null }],
  }));
  return [...numbers, ...indexes];
}

/** Returns a name of the row number; null: the table has none, or its columns hide it. */
function rowNumberOf(
  database: DatabaseSync,
  table: string,
  columns: readonly string[],
): string | null {
  const hasNone = database.prepare(
    "SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'",
  ).get(table)?.["wr"];
  if (hasNone !== 0) return null;
  const hidden = new Set(columns.map((name) => name.toLowerCase()));
  return ROW_NUMBERS.find((name) => !hidden.has(name)) ?? null;
}

/**
 * Returns the condition under which a row of a table has the key of the row NEW; while OLD is updated, another row than
 * that one.
 */
export function otherRowOf(
  { columns, identity }: UniqueKey,
  row: string,
  isUpdate: boolean,
): string {
  const same = columns!.map(({ name, collation, inPlaceOfNull }) => {
    const column = quoted(name);
    const value = inPlaceOfNull === null
      ? `NEW.${column}`
      : `coalesce(NEW.${column}, ${inPlaceOfNull})`;
    return `${row}.${column} = ${value}${
      collation === null ? "" : ` COLLATE ${quoted(collation)}`
    }`;
  });
  const other = isUpdate
    ? identity.map((name) => `${row}.${quoted(name)} <> OLD.${quoted(name)}`)
    : [];
  return [...same, ...other].join(" AND ");
}
