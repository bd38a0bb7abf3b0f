import type { Views } from "../views/view.ts";
import { ViewMapping } from "../views/view_mapping.ts";
import { quotedNames, type TableNames } from "../base/table.ts";
import { DDL_TRIGGER, DDL_TRIGGER_END } from "./ddl_trigger.ts";

/** The publication of the tables that are followed. */
export const PUBLICATION = "leased";
/** The first version whose publications can have single columns. */
const COLUMN_LISTS_FROM = 150_000;

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
/** Condition: there is the publication. */
export const HAS_PUBLICATION =
  `EXISTS (SELECT FROM pg_publication WHERE pubname = '${PUBLICATION}')`;
/** Tables that inherit from some of $1, and are none of them: their rows are rows of those. */
export const CHILDREN =
  "SELECT inhrelid::regclass::text AS name, inhrelid::text AS oid FROM pg_inherits " +
  "WHERE inhparent = ANY ($1::oid[]) AND inhrelid <> ALL ($1::oid[])";
/** Differs when the publication, or its list of tables, has been changed, even if it is now as before. */
export const PUBLICATION_STATE =
  "SELECT concat_ws(' ', pg_publication.oid, pg_publication.xmin, md5((" +
  "SELECT string_agg(concat(pg_publication_rel.oid, ' ', pg_publication_rel.xmin), ',' ORDER BY pg_publication_rel.oid) " +
  "FROM pg_publication_rel WHERE prpubid = pg_publication.oid))) " +
  `AS state FROM pg_publication WHERE pubname = '${PUBLICATION}'`;
/** How many of the tables $1 are published. */
export const PUBLISHED_COUNT =
  `SELECT count(*)::int AS count FROM ${PUBLISHED} AND prrelid = ANY ($1::oid[])`;

/**
 * Statement that takes out of the publication each table that has no key for the log any more: PostgreSQL refuses its
 * UPDATE and DELETE as long as it is published. Those of another owner stay.
 */
export const WITHDRAW = `DO $leased$
DECLARE
  gone regclass;
BEGIN
  FOR gone IN SELECT prrelid::regclass FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid
      JOIN pg_class ON pg_class.oid = prrelid WHERE pubname = '${PUBLICATION}' AND relkind = 'r' AND ${IDENTITY_COLUMNS} IS NULL LOOP
    BEGIN
      EXECUTE format('ALTER PUBLICATION ${PUBLICATION} DROP TABLE %s', gone);
    EXCEPTION WHEN insufficient_privilege THEN
    END;
  END LOOP;
END $leased$`;

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
  return `CREATE TABLE IF NOT EXISTS leased_follow (one integer PRIMARY KEY CHECK (one = 1), place text NOT NULL);
${publishRows(names)}${new ViewMapping(views).tables.map(publishTable).join("")}${DDL_TRIGGER}`;
}

/** Statements that take away what `postgresFollowSchema` has made, and the slot. */
export const POSTGRES_FOLLOW_END = `${DDL_TRIGGER_END}DROP PUBLICATION IF EXISTS ${PUBLICATION};
DROP TABLE IF EXISTS leased_follow;
SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots JOIN pg_database ON slot_name = 'leased_' || pg_database.oid
  WHERE datname = current_database() AND database = datname;
`;

/**
 * Returns the statement that publishes the table of rows, or raises an error before it does: an UPDATE or DELETE of a
 * published table without a key for the log fails, and so does one whose key is not published.
 */
function publishRows(names: TableNames): string {
  const { table } = quotedNames(names);
  const [rows, key] = [literal(table), literal(names.key)];
  return `DO $leased$
DECLARE
  identity text[];
  columns text;
BEGIN
  SELECT array_agg(attname::text) INTO identity FROM pg_class JOIN pg_index ON ${IS_IDENTITY}
    JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])
    WHERE pg_class.oid = ${rows}::regclass;
  IF EXISTS (SELECT FROM pg_class WHERE oid = ${rows}::regclass AND relreplident = 'f') THEN
    columns := '';
  ELSIF identity IS NULL THEN
    RAISE EXCEPTION 'table % has no key for the log, without which its UPDATE and DELETE would fail', ${rows}
      USING HINT = format('ALTER TABLE %s ADD PRIMARY KEY (%I), not deferrable; or ALTER TABLE %1$s REPLICA IDENTITY FULL', ${rows}, ${key});
  ELSIF NOT ${key} = ANY (identity) THEN
    RAISE EXCEPTION 'the log has % of an old row of table %, and not %', array_to_string(identity, ', '), ${rows}, ${key}
      USING HINT = format('ALTER TABLE %s REPLICA IDENTITY USING INDEX … of a unique index of %I; or ALTER TABLE %1$s REPLICA IDENTITY FULL', ${rows}, ${key});
  ELSE
    SELECT format('(%s)', string_agg(quote_ident(name), ', ')) INTO columns FROM unnest(identity) AS name;
  END IF;
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = ${rows}::regclass AND attname = ${key} AND attgenerated <> '') THEN
    RAISE EXCEPTION 'column % of table % is generated: the log does not have it', ${key}, ${rows}
      USING HINT = 'name another --key-column';
  END IF;
  IF current_setting('server_version_num')::int < ${COLUMN_LISTS_FROM} THEN
    columns := '';
  ELSIF EXISTS (SELECT FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid
      WHERE pubname = '${PUBLICATION}' AND prrelid = ${rows}::regclass AND prattrs IS NOT NULL AND (columns = '' OR NOT identity <@
        ARRAY (SELECT attname::text FROM pg_attribute WHERE attrelid = prrelid AND attnum = ANY (prattrs::int2[])))) THEN
    EXECUTE format('ALTER PUBLICATION ${PUBLICATION} DROP TABLE %s', ${rows});
    EXECUTE format('ALTER PUBLICATION ${PUBLICATION} ADD TABLE %s %s', ${rows}, columns);
  END IF;
  IF EXISTS (SELECT FROM pg_publication WHERE pubname = '${PUBLICATION}') THEN
    RETURN;
  END IF;
  EXECUTE format('CREATE PUBLICATION ${PUBLICATION} FOR TABLE %s %s WITH (publish_via_partition_root = true)', ${rows}, columns);
END $leased$;
`;
}

/** Returns a text as an SQL literal. */
function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
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
