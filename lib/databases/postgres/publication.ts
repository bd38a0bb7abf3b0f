import type { Views } from "../views/view.ts";
import { ViewMapping } from "../views/view_mapping.ts";
import { quotedNames, type TableNames } from "../base/table.ts";

/** The publication of the tables that are followed. */
export const PUBLICATION = "leased";
/** The first version whose publications can have single columns. */
const COLUMN_LISTS_FROM = 150_000;
/** The first number of what was not made with the cluster. */
const USER_OIDS_FROM = 16_384;

/**
 * Condition on pg_index and pg_class: the index whose columns the log has of an old row. A deferrable primary key is
 * none.
 */
const IS_IDENTITY = "indrelid = pg_class.oid AND indimmediate AND indisvalid AND " +
  "CASE relreplident WHEN 'd' THEN indisprimary WHEN 'i' THEN indisreplident ELSE false END";
/** Expression over pg_class: the names of the columns that the log has of an old row, in JSON; `*`: all; null: none. */
export const IDENTITY_COLUMNS = "CASE relreplident WHEN 'f' THEN '[\"*\"]' ELSE " +
  "(SELECT json_agg(attname)::text FROM pg_index JOIN pg_attribute ON attrelid = indrelid " +
  `AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1]) WHERE ${IS_IDENTITY}) END`;
/** Condition on pg_publication_rel: changes of all rows of the table are published. Older versions know no others. */
const HAS_ALL_ROWS = "to_jsonb(pg_publication_rel)->>'prqual' IS NULL";
/** Tables whose own changes are published whole. */
const PUBLISHED = "pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid " +
  `WHERE pubname = '${PUBLICATION}' AND pubinsert AND pubupdate AND pubdelete AND pubtruncate AND ${HAS_ALL_ROWS}`;
/** Condition on pg_class: the publication names the table, and has all kinds of changes of all its rows. */
export const IS_PUBLISHED = `EXISTS (SELECT FROM ${PUBLISHED} AND prrelid = pg_class.oid)`;
/** Tables that inherit from some of $1, and are none of them: their rows are rows of those. */
export const CHILDREN =
  "SELECT inhrelid::regclass::text AS name, inhrelid::text AS oid FROM pg_inherits " +
  "WHERE inhparent = ANY ($1::oid[]) AND inhrelid <> ALL ($1::oid[])";
/**
 * Text over pg_class: differs when the name or the columns of the table have been changed. Its rows may have other
 * values then, and the log does not say so.
 */
const TABLE_STATE = "concat(pg_class.oid, ' ', relnamespace, ' ', relname, ' ', (" +
  "SELECT string_agg(concat(attnum, ' ', pg_attribute.xmin), ',' ORDER BY attnum) FROM pg_attribute " +
  "WHERE attrelid = pg_class.oid AND attnum > 0))";
/**
 * Differs when the publication, or a table in it, has been changed, even if it is now as before: changes may be
 * missing.
 */
export const PUBLICATION_STATE =
  "SELECT concat_ws(' ', pg_publication.oid, pg_publication.xmin, md5((" +
  `SELECT string_agg(concat(pg_publication_rel.oid, ' ', pg_publication_rel.xmin, ' ', ${TABLE_STATE}), ',' ` +
  "ORDER BY pg_publication_rel.oid) FROM pg_publication_rel JOIN pg_class ON pg_class.oid = prrelid " +
  "WHERE prpubid = pg_publication.oid))) " +
  `AS state FROM pg_publication WHERE pubname = '${PUBLICATION}'`;
/**
 * Differs when results of views may be others although no row has changed: a function, a view of the
 * database or a policy has been changed, or a table has the name of a published one.
 */
export const VIEWS_STATE =
  "SELECT md5(string_agg(concat(oid, ' ', version), ',' ORDER BY oid)) AS state FROM (" +
  "SELECT oid, xmin::text AS version FROM pg_proc UNION ALL SELECT oid, xmin::text FROM pg_rewrite UNION ALL " +
  "SELECT oid, xmin::text FROM pg_policy UNION ALL SELECT oid, concat(relname, relnamespace) FROM pg_class " +
  "WHERE relpersistence <> 't' AND relname IN (SELECT relname FROM pg_publication_rel " +
  `JOIN pg_publication ON pg_publication.oid = prpubid JOIN pg_class ON pg_class.oid = prrelid WHERE pubname = '${PUBLICATION}')` +
  `) AS each WHERE oid >= ${USER_OIDS_FROM}`;
/** How many of the tables $1 are published. */
export const PUBLISHED_COUNT =
  `SELECT count(*)::int AS count FROM ${PUBLISHED} AND prrelid = ANY ($1::oid[])`;

/** The columns that the log has of an old row. Null: none, and then updates of the table fail. */
export type Identity = readonly string[] | null;

/** Reads the column `identity`, of IDENTITY_COLUMNS. */
export function identityOf({ identity }: Readonly<Record<string, unknown>>): Identity {
  return JSON.parse((identity as string | null) ?? "null") as Identity;
}

/** Whether the log has the old value of a column. */
export function hasOld(identity: Identity, column: string): boolean {
  return identity !== null && (identity[0] === "*" || identity.includes(column));
}

/** Returns the statements after which an origin may follow the log, for the owner of the table. */
export function postgresFollowSchema(names: TableNames, views: Views): string {
  const { table, key } = quotedNames(names);
  const options = "WITH (publish_via_partition_root = true)";
  return `CREATE TABLE IF NOT EXISTS leased_follow (one integer PRIMARY KEY CHECK (one = 1), place text NOT NULL);
DO $leased$ BEGIN
  IF EXISTS (SELECT FROM pg_publication WHERE pubname = '${PUBLICATION}') THEN
    NULL;
  ELSIF current_setting('server_version_num')::int >= ${COLUMN_LISTS_FROM} THEN
    EXECUTE $sql$CREATE PUBLICATION ${PUBLICATION} FOR TABLE ${table} (${key}) ${options}$sql$;
  ELSE
    EXECUTE $sql$CREATE PUBLICATION ${PUBLICATION} FOR TABLE ${table} ${options}$sql$;
  END IF;
END $leased$;
${new ViewMapping(views).tables.map(publishTable).join("")}`;
}

/** @param table As the file of views names it. */
function publishTable(table: string): string {
  const name = table.replaceAll("'", "''");
  return `DO $leased$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_class WHERE oid = '${name}'::regclass AND
      (relreplident = 'f' OR EXISTS (SELECT FROM pg_index WHERE ${IS_IDENTITY}))) THEN
    RAISE EXCEPTION 'table % has no key for the log, without which writes to it would fail: add a primary key that is not deferrable, or REPLICA IDENTITY FULL', '${name}';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid
      WHERE pubname = '${PUBLICATION}' AND prrelid = '${name}'::regclass) THEN
    EXECUTE format('ALTER PUBLICATION ${PUBLICATION} ADD TABLE %s', '${name}'::regclass);
  END IF;
END $leased$;
`;
}
