import { canBeNamed, type CatalogColumn, type CatalogTable } from "../../databases/base/catalog.ts";

/** Longest beginning of keys, in characters: most of a key is left to the parameters. */
const PREFIX_LENGTH_MAX = 60;
/** What stands between two parameters: no integer, date, time or UUID has it. */
const BETWEEN = ",";

/** Rows of a table by the values of some of its columns. */
export interface RowsBy {
  readonly table: CatalogTable;
  /** In the order that they have in keys. */
  readonly columns: readonly CatalogColumn[];
  /** Whether there is at most one row: the value is an object instead of an array. */
  readonly isOne: boolean;
  /** The tables whose row the rows belong to, as SQL names them; empty: none, or not asked for. */
  readonly parents: readonly string[];
}

/** A view for a file. */
export interface SuggestedView extends RowsBy {
  /** The template of its keys. */
  readonly name: string;
  /** The template of the keys that a changed row concerns. */
  readonly changed: string;
  /** The columns of its query, as SQL names them. */
  readonly selected: readonly string[];
  /** The rest of its query. */
  readonly from: string;
}

/** Returns the rows that are asked for most: by the key of the table, and by each of its foreign keys. */
export function rowsOf(table: CatalogTable): RowsBy[] {
  const byKey = table.key.length === 0 ? [] : [rowsBy(table, table.key)];
  return [
    ...byKey,
    ...table.foreignKeys.map(({ columns, parent }) => rowsBy(table, columns, parent)),
  ];
}

/** Returns the rows of tables that belong to a row of this one. @param children The tables that refer to it. */
export function rowsBelongingTo(table: CatalogTable, children: readonly CatalogTable[]): RowsBy[] {
  return children.flatMap((child) =>
    child.foreignKeys.filter(({ parent }) => parent === table.sql)
      .map(({ columns, parent }) => rowsBy(child, columns, parent))
  );
}

function rowsBy(table: CatalogTable, columns: readonly CatalogColumn[], parent?: string): RowsBy {
  const names = new Set(columns.map(({ name }) => name));
  const isOne = names.size === table.key.length && table.key.every(({ name }) => names.has(name));
  const wanted = isOne ? table.key : columns;
  // A parameter ends where the text behind it appears first, and the last one takes the rest.
  const last = wanted.findLast(({ isFreeText }) => isFreeText);
  const ordered = last === undefined ? wanted : [...wanted.filter((each) => each !== last), last];
  return { table, columns: ordered, isOne, parents: parent === undefined ? [] : [parent] };
}

/** Returns each rows once, with all their parents. */
export function withoutTwice(all: readonly RowsBy[]): RowsBy[] {
  const groups = Map.groupBy(
    all,
    ({ table, columns }) => JSON.stringify([table.name, ...columns.map(({ name }) => name).sort()]),
  );
  return [...groups.values()].map((same) => ({
    ...same[0]!,
    parents: [...new Set(same.flatMap(({ parents }) => parents))],
  }));
}

/** Returns views of rows, whose keys begin differently. */
export function suggestedViews(all: readonly RowsBy[]): SuggestedView[] {
  const prefixes = new Set<string>();
  return all.map((rows) => {
    const { table, columns, isOne } = rows;
    const names = columns.map(({ name }) => name).join("_");
    const wanted = prefixOf(isOne ? table.label : `${table.label}_by_${names}`);
    let prefix = wanted;
    for (let number = 2; prefixes.has(prefix); number++) prefix = `${wanted}_${number}`;
    prefixes.add(prefix);
    return viewOf(rows, prefix);
  });
}

/** Returns the beginning of keys for a name, without what templates and keys cannot have. */
function prefixOf(name: string): string {
  const letters = [...name.replaceAll(/[^\p{L}\p{N}_.-]+/gu, "_")];
  return letters.slice(0, PREFIX_LENGTH_MAX).join("");
}

function viewOf(rows: RowsBy, prefix: string): SuggestedView {
  const { table, columns, isOne } = rows;
  const order = isOne || table.key.length === 0
    ? ""
    : ` ORDER BY ${table.key.map(({ sql }) => sql).join(", ")}`;
  const selected = table.columns.map(({ sql }) => sql);
  const parameters = parametersOf(columns, [table.sql, ...selected].join(" "));
  const conditions = columns.map(({ sql }, index) => `${sql} = ${parameters[index]!}`);
  const from = `FROM ${table.sql} WHERE ${conditions.join(" AND ")}${order}`;
  // Keys that begin like the columns in front of one that no template names.
  const end = columns.findIndex((column) => !canBeNamed(column));
  const named = (end < 0 ? columns : columns.slice(0, end)).map(({ name }) => `{${name}}`);
  const rest = end < 0 ? [] : ["*"];
  return {
    ...rows,
    name: `${prefix}:${parameters.join(BETWEEN)}`,
    changed: `${prefix}:${[...named, ...rest].join(BETWEEN)}`,
    selected,
    from,
  };
}

/** Returns parameters between braces, with the names of their columns where these can be names of parameters. */
function parametersOf(columns: readonly CatalogColumn[], sql: string): string[] {
  const parameters: string[] = [];
  for (const { name } of columns) {
    let parameter = name.replaceAll(/[^a-zA-Z0-9_]+/g, "_").replace(/^(?=\d|$)/, "_");
    // A quoted name may look like a parameter.
    while (parameters.includes(`{${parameter}}`) || sql.includes(`{${parameter}}`)) {
      parameter += "_";
    }
    parameters.push(`{${parameter}}`);
  }
  return parameters;
}

/** Returns what a reader should know of the keys of a view; empty: nothing. */
export function notesOf({ table, columns }: SuggestedView): string[] {
  const notes: string[] = [];
  const unnamed = columns.find((column) => !canBeNamed(column));
  if (unnamed !== undefined) {
    const why = unnamed.isLogged ? "has other letters than a name between braces" : "is generated";
    const which = unnamed === columns[0] ? "all keys of the view" : "all keys that begin alike";
    notes.push(
      `No template names ${unnamed.sql}, which ${why}: each change of ${table.sql} deletes ${which}.`,
    );
  }
  // The last parameter takes the rest of a key.
  const texts = columns.slice(0, -1).filter(({ isFreeText }) => isFreeText);
  const names = texts.map(({ sql }) => sql).join(" or ");
  if (names !== "") notes.push(`A ${names} with "${BETWEEN}" in it has no key of its own.`);
  return notes;
}
