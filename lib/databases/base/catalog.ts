import type { View } from "../views/view.ts";

/** Names that a template of keys can have between braces. */
const PARAMETER_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

/** A column of a table. */
export interface CatalogColumn {
  readonly name: string;
  /** As SQL names it. */
  readonly sql: string;
  /** Whether the log has its values: those of a generated column are not in it. */
  readonly isLogged: boolean;
  /** Whether its values are texts of any letters. */
  readonly isFreeText: boolean;
}

/** Columns whose values name a row of another table. */
export interface ForeignKey {
  readonly columns: readonly CatalogColumn[];
  /** The other table, as SQL names it. */
  readonly parent: string;
}

/** A statement that a table needs before views of it are served. */
export interface Preparation {
  readonly sql: string;
  /** What it is for, in a few words. */
  readonly purpose: string;
}

/** A table of an application, as the catalog of its database describes it. */
export interface CatalogTable {
  /** As `changes` of a view name it. */
  readonly name: string;
  /** As SQL names it. */
  readonly sql: string;
  /** Its name without quotes, with the schema where that is needed. */
  readonly label: string;
  /** Why no view of it can be served; null: some can. The other fields are empty then. */
  readonly refusal: string | null;
  readonly columns: readonly CatalogColumn[];
  /** The columns of its primary key, or of another key that no two rows share; empty: it has none. */
  readonly key: readonly CatalogColumn[];
  readonly foreignKeys: readonly ForeignKey[];
  /** Returns the tables whose foreign keys name this one, by name; itself perhaps among them. */
  referring(): Promise<readonly CatalogTable[]>;
  /** Returns why the database refuses a view that finds rows by the columns; null: it does not. */
  refusalOf(view: View, columns: readonly CatalogColumn[]): Promise<string | null>;
  /** Returns what is lacking before views that find rows by each list of columns are followed, and read by an index. */
  preparations(uses: readonly (readonly CatalogColumn[])[]): readonly Preparation[];
}

/** Tables of an application. */
export interface Catalog {
  /** Returns the names of the tables that views can read, as `find` takes them. */
  names(): Promise<readonly string[]>;
  /** @param name As in SQL, or as it is. @returns Null: there is no such table. */
  find(name: string): Promise<CatalogTable | null>;
  close(): Promise<void>;
}

/** Whether a template in `changes` can name a column. */
export function canBeNamed({ name, isLogged }: CatalogColumn): boolean {
  return isLogged && PARAMETER_NAME.test(name);
}

/** Returns the uses that no index serves: none begins with their columns, in whatever order. */
export function usesWithoutIndex(
  uses: readonly (readonly CatalogColumn[])[],
  indexes: readonly (readonly string[])[],
): (readonly CatalogColumn[])[] {
  return uses.filter((columns) =>
    !indexes.some((index) => {
      const first = index.slice(0, columns.length);
      return columns.every(({ name }) => first.includes(name));
    })
  );
}
