import { DatabaseSync } from "node:sqlite";
import { reasonOf } from "../../process/reason.ts";
import {
  canBeNamed,
  type Catalog,
  type CatalogColumn,
  type CatalogTable,
  type ForeignKey,
  type Preparation,
  usesWithoutIndex,
} from "../base/catalog.ts";
import { quoted, type TableNames } from "../base/table.ts";
import { type View, Views, withParameters } from "../views/view.ts";
import { collationsOf, typesOf, UNKNOWN_COLLATION } from "./parameters.ts";
import { followSchema } from "./triggers.ts";

/** The beginning of the names of this server's own tables. */
const OWN = "leased_";
const TABLES = "SELECT name, type FROM pragma_table_list WHERE schema = 'main' " +
  "AND name NOT LIKE 'sqlite~_%' ESCAPE '~'";
const COLUMNS =
  'SELECT name, type, pk, hidden, "notnull" AS required FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid';
const FOREIGN_KEYS =
  'SELECT id, "from" AS name, "table" AS parent FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq';
const INDEXES =
  'SELECT name, "unique" AS is_unique, origin FROM pragma_index_list(?) WHERE partial = 0 ORDER BY seq DESC';
const INDEX_COLUMNS = "SELECT name, coll FROM pragma_index_xinfo(?) WHERE key = 1 ORDER BY seqno";
/** Declared types of which values and parameters are compared as texts or as integers. */
const COMPARABLE = /int|char|clob|text/i;

interface Column extends CatalogColumn {
  /** As it is declared, in an error. */
  readonly declared: string;
  readonly isNotNull: boolean;
}

interface Index {
  readonly isPrimary: boolean;
  readonly isUnique: boolean;
  /** Null stands for an expression, and for a column by another collation than its own. */
  readonly columns: readonly (string | null)[];
}

/** Tables of an SQLite file. */
export class SqliteCatalog implements Catalog {
  readonly #database: DatabaseSync;
  readonly #names: TableNames;

  /** @throws SQLite's error. */
  constructor(path: string, names: TableNames) {
    this.#database = new DatabaseSync(path, { readOnly: true });
    this.#names = names;
  }

  names(): Promise<readonly string[]> {
    const tables = this.#database.prepare(`${TABLES} AND type = 'table' ORDER BY name`).all();
    const names = tables.map(({ name }) => name as string);
    return Promise.resolve(names.filter((name) => !name.startsWith(OWN) && !this.#isRows(name)));
  }

  #isRows(table: string): boolean {
    return table.toLowerCase() === this.#names.table.toLowerCase();
  }

  find(name: string): Promise<CatalogTable | null> {
    const [, inQuotes] = /^"(.+)"$/s.exec(name) ?? [];
    const bare = inQuotes?.replaceAll('""', '"');
    return Promise.resolve(
      this.#find(name) ?? (bare === undefined ? null : this.#find(bare)),
    );
  }

  #find(name: string): SqliteTable | null {
    const row = this.#database.prepare(`${TABLES} AND name = ? COLLATE NOCASE`).get(name);
    if (row === undefined) return null;
    const table = row["name"] as string;
    return new SqliteTable(this.#database, this.#names, table, this.#refusalOf(table, row["type"]));
  }

  #refusalOf(table: string, type: unknown): string | null {
    if (type === "view") return `${table} is a view: name a table that it reads`;
    if (type !== "table") return `${table} is a virtual table, whose changes cannot be noted`;
    return this.#isRows(table) ? `${table} is the table of rows: views are of other tables` : null;
  }

  close(): Promise<void> {
    return Promise.resolve(this.#database.close());
  }
}

/** A table of an SQLite file. */
class SqliteTable implements CatalogTable {
  readonly name: string;
  readonly sql: string;
  readonly label: string;
  readonly refusal: string | null;
  readonly columns: readonly Column[];
  readonly key: readonly Column[];
  readonly foreignKeys: readonly ForeignKey[];
  readonly #database: DatabaseSync;
  readonly #names: TableNames;
  readonly #indexes: readonly Index[];

  constructor(database: DatabaseSync, names: TableNames, name: string, refusal: string | null) {
    this.#database = database;
    this.#names = names;
    this.name = this.label = name;
    this.sql = identifier(database, name);
    this.refusal = refusal;
    const isRead = refusal === null;
    const rows = isRead ? database.prepare(COLUMNS).all(name) : [];
    this.columns = rows.map((row) => columnOf(database, row));
    this.#indexes = isRead ? indexesOf(database, name) : [];
    const primary = rows.flatMap(({ pk }, index) =>
      pk === 0 ? [] : [{ place: pk as number, column: this.columns[index]! }]
    );
    primary.sort((one, other) => one.place - other.place);
    const index = this.#indexes.find(({ isPrimary }) => isPrimary);
    const isKey = primary.length > 0 && index?.columns.includes(null) !== true;
    this.key = isKey ? primary.map(({ column }) => column) : this.#uniqueKey();
    this.foreignKeys = isRead ? this.#readForeignKeys() : [];
  }

  /** Returns the columns of the smallest unique index that has a value for each row. */
  #uniqueKey(): readonly Column[] {
    const keys = this.#indexes.filter(({ isUnique }) => isUnique).map(({ columns }) =>
      columns.map((name) => this.#column(name))
    ).filter((columns) => columns.every((column) => column?.isNotNull));
    keys.sort((one, other) => one.length - other.length);
    return (keys[0] ?? []) as Column[];
  }

  /** SQLite takes `Price` and `price` for one column. */
  #column(name: string | null): Column | undefined {
    return this.columns.find((column) => column.name.toLowerCase() === name?.toLowerCase());
  }

  #readForeignKeys(): ForeignKey[] {
    const rows = this.#database.prepare(FOREIGN_KEYS).all(this.name);
    return [...Map.groupBy(rows, ({ id }) => id).values()].flatMap((parts) => {
      const columns = parts.map(({ name }) => this.#column(name as string));
      const written = parts[0]!["parent"] as string;
      const parent = identifier(this.#database, this.#spelling(written));
      return columns.every((column) => column !== undefined) ? [{ columns, parent }] : [];
    });
  }

  /** Returns the name of a table as the schema spells it. */
  #spelling(name: string): string {
    const found = this.#database.prepare(`${TABLES} AND name = ? COLLATE NOCASE`).get(name);
    return (found?.["name"] ?? name) as string;
  }

  referring(): Promise<readonly CatalogTable[]> {
    const tables = this.#database.prepare(`${TABLES} AND type = 'table' ORDER BY name`).all();
    const refers = this.#database.prepare(
      'SELECT 1 FROM pragma_foreign_key_list(?) WHERE "table" = ? COLLATE NOCASE',
    );
    const names = tables.map(({ name }) => name as string)
      .filter((name) => refers.get(name, this.name) !== undefined);
    return Promise.resolve(
      names.map((name) => new SqliteTable(this.#database, this.#names, name, null)),
    );
  }

  refusalOf(view: View, columns: readonly CatalogColumn[]): Promise<string | null> {
    const complaints: string[] = [];
    typesOf(this.#database, view, (text) => complaints.push(text));
    for (const column of columns) {
      const { declared, name } = column as Column;
      if (canBeNamed(column) || COMPARABLE.test(declared)) continue;
      complaints.push(`column ${name} of ${this.name} is ${declared}: must be an integer, or text`);
    }
    return Promise.resolve(complaints[0] ?? this.#triggerRefusal(view));
  }

  /** Returns why `init` would refuse the triggers of a view. */
  #triggerRefusal(view: View): string | null {
    try {
      this.#database.prepare(withParameters(view, (index) => `?${index + 1}`));
      followSchema(this.#database, this.#names, new Views([view]));
      return null;
    } catch (error) {
      return reasonOf(error);
    }
  }

  preparations(uses: readonly (readonly CatalogColumn[])[]): readonly Preparation[] {
    const indexes = this.#indexes.map(({ columns }) => columns.map((name) => name ?? ""));
    const rowNumber = this.key.length === 1 ? [this.key.map(({ name }) => name)] : [];
    return usesWithoutIndex(uses, [...indexes, ...rowNumber]).map((columns) => {
      const names = columns.map(({ name }) => name).join("_");
      const index = this.#freeName(`${this.name}_${names}`);
      return {
        sql: `CREATE INDEX ${identifier(this.#database, index)} ON ${this.sql} (${
          columns.map(({ sql }) => sql).join(", ")
        });`,
        purpose: "without it, each read scans the table",
      };
    });
  }

  /** Returns a name that no table and no index has. */
  #freeName(name: string): string {
    const find = this.#database.prepare(
      "SELECT 1 FROM sqlite_schema WHERE name = ? COLLATE NOCASE",
    );
    let free = name;
    for (let number = 2; find.get(free) !== undefined; number++) free = `${name}_${number}`;
    return free;
  }
}

function columnOf(
  database: DatabaseSync,
  { name, type, hidden, required }: Readonly<Record<string, unknown>>,
): Column {
  const declared = type === "" ? "of no type" : type as string;
  return {
    name: name as string,
    sql: identifier(database, name as string),
    // Triggers have generated columns, but views are inspected by a list without them.
    isLogged: hidden === 0,
    isFreeText: !/int/i.test(declared),
    declared,
    isNotNull: required === 1,
  };
}

function indexesOf(database: DatabaseSync, table: string): Index[] {
  const find = database.prepare(INDEX_COLUMNS);
  const collationOf = collationsOf(database, table);
  const isByOwn = (column: string, collation: string): boolean =>
    [collation.toUpperCase(), UNKNOWN_COLLATION].includes(collationOf(column));
  return database.prepare(INDEXES).all(table).map(({ name: index, is_unique, origin }) => ({
    isPrimary: origin === "pk",
    isUnique: is_unique === 1,
    columns: find.all(index as string).map(({ name, coll }) =>
      name !== null && isByOwn(name as string, coll as string) ? name as string : null
    ),
  }));
}

/** Returns a name as SQL has it: in quotes where SQLite takes it for something else without. */
function identifier(database: DatabaseSync, name: string): string {
  if (!/^[a-z_][a-z0-9_]*$/i.test(name)) return quoted(name);
  const sql = `WITH ${name} (${name}) AS (SELECT 'its value') SELECT ${name} AS value ` +
    `FROM ${name} WHERE ${name} = ${name} ORDER BY ${name}`;
  try {
    return database.prepare(sql).get()?.["value"] === "its value" ? name : quoted(name);
  } catch {
    return quoted(name);
  }
}
