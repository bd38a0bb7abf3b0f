import type { DatabaseSync } from "node:sqlite";
import { quoted } from "../base/table.ts";

/** Names of the row number, of which a column may hide some. */
const ROW_NUMBERS = ["rowid", "_rowid_", "oid"];

/** A key that no two rows of a table share. */
export interface UniqueKey {
  /** Null: it has expressions. */
  readonly columns: readonly UniqueColumn[] | null;
  /** The name of the row number, which tells a row from others; null: the table has none. */
  readonly rowNumber: string | null;
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
  const columns = columnsOf(database, table);
  const defaults = new Map(columns.map(({ name, inPlaceOfNull }) => [name, inPlaceOfNull]));
  const rowNumber = rowNumberOf(database, table, columns);
  const indexes = database.prepare(
    'SELECT name FROM pragma_index_list(?) WHERE "unique" = 1 ORDER BY name',
  ).all(table).map(({ name: index }) => {
    const parts = database.prepare(
      "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno",
    ).all(index as string).map(({ name, coll }) => ({
      name: name as string | null,
      collation: coll as string,
      inPlaceOfNull: defaults.get(name as string) ?? null,
    }));
    return { rowNumber, columns: parts.every(isColumn) ? parts : null };
  });
  if (rowNumber === null) return indexes;
  const number = { name: rowNumber, collation: null, inPlaceOfNull: null };
  return [{ rowNumber, columns: [number] }, ...indexes];
}

function isColumn<Part extends { readonly name: string | null }>(
  part: Part,
): part is Part & { readonly name: string } {
  return part.name !== null;
}

interface Column {
  readonly name: string;
  readonly isPrimary: boolean;
  readonly inPlaceOfNull: string | null;
}

function columnsOf(database: DatabaseSync, table: string): Column[] {
  const rows = database.prepare(
    'SELECT name, pk, iif("notnull", dflt_value, NULL) AS filling FROM pragma_table_xinfo(?)',
  ).all(table);
  return rows.map(({ name, pk, filling }) => ({
    name: name as string,
    isPrimary: pk !== 0,
    inPlaceOfNull: filling as string | null,
  }));
}

/** Returns a name of the row number; null: no statement can name it, or the table has none. */
function rowNumberOf(
  database: DatabaseSync,
  table: string,
  columns: readonly Column[],
): string | null {
  const hasNone = database.prepare(
    "SELECT wr FROM pragma_table_list(?) WHERE schema = 'main'",
  ).get(table)?.["wr"];
  if (hasNone !== 0) return null;
  const hidden = new Set(columns.map(({ name }) => name.toLowerCase()));
  const own = ROW_NUMBERS.find((name) => !hidden.has(name));
  if (own !== undefined) return own;
  // Columns hide all its names: only an INTEGER PRIMARY KEY, which has no index, still names it.
  const { count } = database.prepare(
    "SELECT count(*) AS count FROM pragma_index_list(?) WHERE origin = 'pk'",
  ).get(table)!;
  return count === 0 ? columns.find(({ isPrimary }) => isPrimary)?.name ?? null : null;
}

/**
 * Returns the condition under which a row of a table has the key of the row NEW; while OLD is updated, another row than
 * that one.
 */
export function otherRowOf(
  { columns, rowNumber }: UniqueKey,
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
  const other = isUpdate && rowNumber !== null
    ? [`${row}.${quoted(rowNumber)} <> OLD.${quoted(rowNumber)}`]
    : [];
  return [...same, ...other].join(" AND ");
}
