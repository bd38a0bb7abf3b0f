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
  /** Columns whose values have one text in rows with the same key, in lower case. */
  readonly sameTexts: ReadonlySet<string>;
}

interface UniqueColumn {
  readonly name: string;
  /** By which its values are compared; null: the column's own. */
  readonly collation: string | null;
  readonly inPlaceOfNull: Filling;
}

/**
 * What stands for NULL where REPLACE meets NOT NULL, in SQL; null: nothing. "unknown": an expression. A trigger must
 * not evaluate it: it may call functions that a connection lacks, or whose next result is another one.
 */
type Filling = string | "unknown" | null;

/** Returns the unique keys of a table, the row number among them. */
export function uniqueKeysOf(database: DatabaseSync, table: string): UniqueKey[] {
  const columns = columnsOf(database, table);
  const byName = new Map(columns.map((column) => [column.name, column]));
  const rowNumber = rowNumberOf(database, table, columns);
  const indexes = database.prepare(
    'SELECT name FROM pragma_index_list(?) WHERE "unique" = 1 ORDER BY name',
  ).all(table).map(({ name: index }): UniqueKey => {
    const parts = database.prepare(
      "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno",
    ).all(index as string).map(({ name, coll }) => ({
      name: name as string | null,
      collation: coll as string,
      inPlaceOfNull: byName.get(name as string)?.inPlaceOfNull ?? null,
    }));
    const same = parts.filter(({ name, collation }) =>
      collation === "BINARY" && name !== null && byName.get(name)!.isText
    );
    const sameTexts = new Set(same.map(({ name }) => name!.toLowerCase()));
    return { rowNumber, columns: parts.every(isColumn) ? parts : null, sameTexts };
  });
  if (rowNumber === null) return indexes;
  const number = { name: rowNumber, collation: null, inPlaceOfNull: null };
  const named = hasKeyIndex(database, table) ? [] : columns.filter(({ isPrimary }) => isPrimary);
  const sameTexts = new Set(named.map(({ name }) => name.toLowerCase()));
  return [{ rowNumber, columns: [number], sameTexts }, ...indexes];
}

function isColumn<Part extends { readonly name: string | null }>(
  part: Part,
): part is Part & { readonly name: string } {
  return part.name !== null;
}

interface Column {
  readonly name: string;
  readonly isPrimary: boolean;
  /** Whether its values are texts or bytes: equal ones have one text. */
  readonly isText: boolean;
  readonly inPlaceOfNull: Filling;
}

function columnsOf(database: DatabaseSync, table: string): Column[] {
  const rows = database.prepare(
    'SELECT name, type, pk, iif("notnull", dflt_value, NULL) AS filling FROM pragma_table_xinfo(?)',
  ).all(table);
  return rows.map(({ name, type, pk, filling }) => ({
    name: name as string,
    isPrimary: pk !== 0,
    isText: /char|clob|text/i.test(type as string) && !/int/i.test(type as string),
    inPlaceOfNull: filling === null ? null : fillingOf(filling as string),
  }));
}

const NUMBER = /^[+-]?\s*\.?\d[\w.+-]*$/;
const TEXT_OR_BYTES = /^[xX]?'(?:[^']|'')*'$/;
/** Words whose value changes, and words that are texts before SQLite 3.23. */
const NO_TEXT = /^(?:current_(?:time|date|timestamp)|true|false)$/i;
const ONE_WORD = /^[a-z_\u0080-\uffff][\w$\u0080-\uffff]*$/i;
const ONE_NAME = /^(?:\[[^\]]*\]|`(?:[^`]|``)*`|"(?:[^"]|"")*")$/;

/**
 * Returns a column's default as an expression that means the same anywhere. In a default, SQLite takes a word, and what
 * stands in double quotes, for a text; elsewhere it is the name of a column.
 */
function fillingOf(text: string): Filling {
  const literal = (content: string): string => `'${content.replaceAll("'", "''")}'`;
  if (/^null$/i.test(text)) return null;
  if (NO_TEXT.test(text)) return "unknown";
  if (NUMBER.test(text) || TEXT_OR_BYTES.test(text)) return text;
  if (ONE_WORD.test(text)) return literal(text);
  if (!ONE_NAME.test(text)) return "unknown";
  const quote = text[0]!;
  return literal(text.slice(1, -1).replaceAll(quote + quote, quote));
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
  // Columns hide all its names: only an INTEGER PRIMARY KEY still names it.
  if (hasKeyIndex(database, table)) return null;
  return columns.find(({ isPrimary }) => isPrimary)?.name ?? null;
}

/** Whether the primary key has an index. Otherwise it is the row number, or there is none. */
function hasKeyIndex(database: DatabaseSync, table: string): boolean {
  const { count } = database.prepare(
    "SELECT count(*) AS count FROM pragma_index_list(?) WHERE origin = 'pk'",
  ).get(table)!;
  return count !== 0;
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
    const value = inPlaceOfNull === null || inPlaceOfNull === "unknown"
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

/** Returns the condition under which nothing is known of a row with the key of the row NEW; null: never. */
export function unknownRowIf({ columns }: UniqueKey): string | null {
  const unknown = columns!.filter(({ inPlaceOfNull }) => inPlaceOfNull === "unknown");
  if (unknown.length === 0) return null;
  return unknown.map(({ name }) => `NEW.${quoted(name)} IS NULL`).join(" OR ");
}
