import {
  canBeNamed,
  type Catalog,
  type CatalogColumn,
  type CatalogTable,
  type ForeignKey,
  type Preparation,
  usesWithoutIndex,
} from "../base/catalog.ts";
import { quotedNames, type TableNames } from "../base/table.ts";
import type { ParameterType } from "../views/parameter_type.ts";
import type { View } from "../views/view.ts";
import { hasOld, type Identity, IDENTITY_COLUMNS, identityOf, PUBLICATION } from "./publication.ts";
import { isRefusal, type ResultRow, Session } from "./session.ts";
import { checkPair, describeTypes, parametersOf, type ServerType } from "./view_types.ts";

/** Types whose values can have any letter. */
const FREE_TEXTS: readonly (ParameterType | null)[] = ["text", "character", "citext", "enum"];
/** Indexes that find rows by equal values. */
const METHODS = "'btree', 'hash'";
const IS_SYSTEM = "nspname IN ('pg_catalog', 'information_schema', 'pg_toast')";
/** Expression over pg_class and pg_namespace: the name of a table whatever the settings of a session. */
const NAME = "CASE WHEN nspname = 'public' AND pg_table_is_visible(pg_class.oid) " +
  "THEN quote_ident(relname) ELSE format('%I.%I', nspname, relname) END";
const RELATIONS = "pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace";
const TABLES =
  `SELECT ${NAME} AS name FROM ${RELATIONS} WHERE relkind = 'r' AND NOT relispartition ` +
  `AND relpersistence = 'p' AND NOT ${IS_SYSTEM} AND relname NOT LIKE 'leased\\_%' ` +
  "AND pg_class.oid IS DISTINCT FROM to_regclass($1) ORDER BY 1";
const OID = "SELECT to_regclass($1)::oid::text AS oid";
const TABLE =
  `SELECT ${NAME} AS name, CASE nspname WHEN 'public' THEN relname ELSE concat(nspname, '.', relname) END AS label, ` +
  `relkind, relpersistence, relispartition AS is_partition, ${IS_SYSTEM} AS is_system, ` +
  "pg_class.oid = to_regclass($2) AS is_rows, EXISTS (SELECT FROM pg_inherits WHERE inhparent = pg_class.oid) AS has_heirs, " +
  `${IDENTITY_COLUMNS} AS identity, (SELECT string_agg(pubname, ', ') FROM pg_publication_rel ` +
  "JOIN pg_publication ON pg_publication.oid = prpubid WHERE prrelid = pg_class.oid " +
  `AND to_jsonb(pg_publication_rel)->>'prattrs' IS NOT NULL AND pubname <> '${PUBLICATION}') AS publications ` +
  `FROM ${RELATIONS} WHERE pg_class.oid = $1::oid`;
const COLUMNS =
  "SELECT attname AS name, quote_ident(attname) AS sql, atttypid::text AS type, attgenerated <> '' AS is_generated, " +
  "attnotnull AS is_not_null, collisdeterministic IS FALSE AS is_loose FROM pg_attribute " +
  "LEFT JOIN pg_collation ON pg_collation.oid = attcollation " +
  "WHERE attrelid = $1::oid AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
/** Whole indexes. Their columns: an expression, and one by another collation than that of its column, is null. */
const INDEXES =
  "SELECT quote_ident(relname) AS sql, indisprimary AS is_primary, indisunique AND indimmediate AS is_unique, " +
  "(SELECT json_agg(attname ORDER BY place)::text FROM unnest((indkey::int2[])[0:indnkeyatts - 1], " +
  "(indcollation::oid[])[0:indnkeyatts - 1]) WITH ORDINALITY AS part (number, by, place) LEFT JOIN pg_attribute " +
  "ON attrelid = indrelid AND attnum = number AND number <> 0 AND attcollation = by) AS columns " +
  "FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_am ON pg_am.oid = relam " +
  `WHERE indrelid = $1::oid AND indisvalid AND indpred IS NULL AND amname IN (${METHODS}) ` +
  "ORDER BY indisprimary DESC, indnkeyatts, relname";
const FOREIGN_KEYS =
  `SELECT (SELECT ${NAME} FROM ${RELATIONS} WHERE pg_class.oid = confrelid) AS parent, (SELECT json_agg(attname ORDER BY place)::text ` +
  "FROM unnest(conkey) WITH ORDINALITY AS part (number, place) JOIN pg_attribute ON attrelid = conrelid AND attnum = number) AS columns " +
  "FROM pg_constraint WHERE contype = 'f' AND conrelid = $1::oid ORDER BY conname";
const REFERRING = `SELECT DISTINCT ${NAME} AS name, pg_class.oid::text AS oid FROM pg_constraint ` +
  `JOIN ${RELATIONS} ON pg_class.oid = conrelid WHERE contype = 'f' AND confrelid = $1::oid AND NOT relispartition ORDER BY 1`;
/** Kinds of relations whose changes are not in the log as those of a table. */
const KINDS: Readonly<Record<string, string>> = {
  v: "is a view: name a table that it reads",
  m: "is a materialized view, whose changes are not in the log",
  f: "is a foreign table, whose changes are not in the log",
  p: "has partitions, and views of such a table are not served",
};

interface Column extends CatalogColumn {
  readonly type: ServerType;
  readonly isNotNull: boolean;
}

interface Index {
  readonly sql: string;
  readonly isPrimary: boolean;
  /** Whether it refuses a second row at once. */
  readonly isUnique: boolean;
  /** Null stands for an expression. */
  readonly columns: readonly (string | null)[];
}

/** The parts of a table that the server is asked for. */
interface Parts {
  readonly oid: string;
  readonly about: ResultRow;
  readonly columns: readonly Column[];
  readonly indexes: readonly Index[];
  readonly foreignKeys: readonly ForeignKey[];
}

/** Tables of a PostgreSQL database. */
class PostgresCatalog implements Catalog {
  readonly #session: Session;
  readonly #rows: string;

  constructor(session: Session, names: TableNames) {
    this.#session = session;
    this.#rows = quotedNames(names).table;
  }

  async names(): Promise<readonly string[]> {
    const rows = await this.#session.query(TABLES, [this.#rows]);
    return rows.map(({ name }) => name as string);
  }

  async find(name: string): Promise<CatalogTable | null> {
    const asItIs = `"${name.replaceAll('"', '""')}"`;
    const oid = await this.#oidOf(name) ?? await this.#oidOf(asItIs);
    return oid === null ? null : await readTable(this.#session, oid, this.#rows);
  }

  async #oidOf(name: string): Promise<string | null> {
    try {
      const [row] = await this.#session.query(OID, [name]);
      return row!["oid"] as string | null;
    } catch (error) {
      // It is no name.
      if (isRefusal(error)) return null;
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#session.close();
  }
}

/** Opens the catalog of a database. @throws The server's error. */
export async function openPostgresCatalog(
  url: string,
  names: TableNames,
  timeoutMs: number,
): Promise<Catalog> {
  return new PostgresCatalog(await Session.open({ url, timeoutMs }), names);
}

async function readTable(session: Session, oid: string, rows: string): Promise<PostgresTable> {
  const [about] = await session.query(TABLE, [oid, rows]);
  const parts = { oid, about: about!, columns: [], indexes: [], foreignKeys: [] };
  if (refusalOf(about!) !== null) return new PostgresTable(session, rows, parts);
  const columns = await readColumns(session, oid);
  const byName = new Map(columns.map((column) => [column.name, column]));
  const indexes = (await session.query(INDEXES, [oid])).map((index): Index => ({
    sql: index["sql"] as string,
    isPrimary: index["is_primary"] === true,
    isUnique: index["is_unique"] === true,
    columns: JSON.parse(index["columns"] as string) as (string | null)[],
  }));
  const keys = await session.query(FOREIGN_KEYS, [oid]);
  const foreignKeys = keys.map((key): ForeignKey => ({
    columns: (JSON.parse(key["columns"] as string) as string[]).map((name) => byName.get(name)!),
    parent: key["parent"] as string,
  }));
  return new PostgresTable(session, rows, { ...parts, columns, indexes, foreignKeys });
}

async function readColumns(session: Session, oid: string): Promise<Column[]> {
  const rows = await session.query(COLUMNS, [oid]);
  const types = await describeTypes(session, rows.map(({ type }) => type as string));
  return rows.map(({ name, sql, is_generated, is_not_null, is_loose }, index) => ({
    name: name as string,
    sql: sql as string,
    isLogged: is_generated !== true,
    isFreeText: FREE_TEXTS.includes(types[index]!.type),
    type: { ...types[index]!, isLoose: is_loose === true },
    isNotNull: is_not_null === true,
  }));
}

/** Returns why no view of a relation can be served; null: some can. */
function refusalOf(about: ResultRow): string | null {
  const name = about["name"] as string;
  const kind = KINDS[about["relkind"] as string];
  if (kind !== undefined) return `${name} ${kind}`;
  if (about["relkind"] !== "r") return `${name} is no table`;
  if (about["is_partition"]) return `${name} is a partition, and views of one are not served`;
  if (about["is_system"]) return `${name} belongs to PostgreSQL: its changes are not in the log`;
  if (about["relpersistence"] !== "p") {
    return `${name} is unlogged or temporary: its changes are not in the log`;
  }
  if (about["is_rows"]) return `${name} is the table of rows: views are of other tables`;
  if (!about["has_heirs"]) return null;
  return `other tables inherit from ${name}: write its views by hand, with all of them in changes`;
}

/** A table of a PostgreSQL database. */
class PostgresTable implements CatalogTable {
  readonly name: string;
  readonly sql: string;
  readonly label: string;
  readonly refusal: string | null;
  readonly columns: readonly Column[];
  readonly key: readonly Column[];
  readonly foreignKeys: readonly ForeignKey[];
  readonly #session: Session;
  readonly #rows: string;
  readonly #oid: string;
  readonly #indexes: readonly Index[];
  readonly #identity: Identity;
  /** Publications of others that have some of its columns; null: there is none. */
  readonly #publications: string | null;

  /** @param rows The table of rows. */
  constructor(
    session: Session,
    rows: string,
    { oid, about, columns, indexes, foreignKeys }: Parts,
  ) {
    this.#session = session;
    this.#rows = rows;
    this.#oid = oid;
    this.name = this.sql = about["name"] as string;
    this.label = about["label"] as string;
    this.refusal = refusalOf(about);
    this.columns = columns;
    this.#indexes = indexes;
    this.foreignKeys = foreignKeys;
    this.#identity = identityOf(about);
    this.#publications = about["publications"] as string | null;
    const keys = indexes.filter((index) => index.isPrimary || this.#isKey(index));
    this.key = (keys[0]?.columns ?? []).map((name) => this.#column(name)!);
  }

  #column(name: string | null): Column | undefined {
    return this.columns.find((column) => column.name === name);
  }

  /** Whether the log can have the columns of an index of each old row. */
  #isKey({ isUnique, columns }: Index): boolean {
    return isUnique && columns.every((name) => this.#column(name)?.isNotNull);
  }

  async referring(): Promise<readonly CatalogTable[]> {
    const rows = await this.#session.query(REFERRING, [this.#oid]);
    const tables: PostgresTable[] = [];
    for (const { oid } of rows) {
      tables.push(await readTable(this.#session, oid as string, this.#rows));
    }
    return tables;
  }

  async refusalOf(view: View, columns: readonly CatalogColumn[]): Promise<string | null> {
    const complaints: string[] = [];
    const complain = (text: string): void => void complaints.push(text);
    const parameters = await parametersOf(this.#session, view, complain);
    for (const [index, column] of columns.entries()) {
      const { type, name } = column as Column;
      if (parameters === null || !canBeNamed(column)) continue;
      checkPair(
        type,
        `${name} of ${this.name}`,
        parameters[index]!,
        view.keys.names[index]!,
        complain,
      );
    }
    const named = columns.filter(canBeNamed);
    if (this.#publications !== null && !this.#isLogged(named)) {
      const names = named.map(({ name }) => name).join(", ") || "key";
      complain(
        `the log has no old ${names} of a row of ${this.name}, and must not have it as long as the publication ` +
          `${this.#publications} has some of its columns: UPDATE and DELETE would fail`,
      );
    }
    return complaints[0] ?? null;
  }

  /** Whether the log has these columns of an old row. */
  #isLogged(columns: readonly CatalogColumn[]): boolean {
    return this.#identity !== null && columns.every(({ name }) => hasOld(this.#identity, name));
  }

  preparations(uses: readonly (readonly CatalogColumn[])[]): readonly Preparation[] {
    const logged = this.#isLogged(uses.flat().filter(canBeNamed))
      ? []
      : [this.#identityFor(uses.flat())];
    const indexes = this.#indexes.map(({ columns }) => columns.map((name) => name ?? ""));
    const created = usesWithoutIndex(uses, indexes).map((columns): Preparation => ({
      sql: `CREATE INDEX CONCURRENTLY ON ${this.sql} (${
        columns.map(({ sql }) => sql).join(", ")
      });`,
      purpose: "without it, each read scans the table",
    }));
    return [...logged, ...created];
  }

  /** Returns the statement after which the log has columns of old rows, and what it has now. */
  #identityFor(columns: readonly CatalogColumn[]): Preparation {
    const lacking = columns.filter(({ name }) => !hasOld(this.#identity, name));
    const names = [...new Set(lacking.filter(canBeNamed).map(({ name }) => name))].join(", ");
    const needed = [...this.#identity ?? [], ...columns.filter(canBeNamed).map(({ name }) => name)];
    const index = this.#indexes.find((each) =>
      this.#isKey(each) && needed.every((name) => each.columns.includes(name))
    );
    const identity = index === undefined ? "FULL" : `USING INDEX ${index.sql}`;
    return {
      sql: `ALTER TABLE ${this.sql} REPLICA IDENTITY ${identity};`,
      purpose: names === "" ? "the log needs a key" : `the log needs the old ${names}`,
    };
  }
}
