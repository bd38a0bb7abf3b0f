import type { Views } from "../views/view.ts";
import { ViewMapping } from "../views/view_mapping.ts";
import { quotedNames, type TableNames } from "../base/table.ts";
import { DDL_TRIGGER, DDL_TRIGGER_END } from "./ddl_trigger.ts";

/** The publication of the tables that are followed. */
export const PUBLICATION = "leased";

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
 * Returns the FROM clause of the tables that have the rows of a table: of itself, or of its partitions. Their columns
 * are those of pg_class.
 *
 * @param oid An expression.
 */
export function leavesOf(oid: string): string {
  return `(SELECT ${oid}::oid AS relid UNION SELECT relid FROM pg_partition_tree(${oid}::regclass) WHERE isleaf) AS part ` +
    "JOIN pg_class ON pg_class.oid = part.relid AND relkind = 'r'";
}

/**
 * Statement that takes out of the publication each table that has no key for the log any more, or a partition that has
 * none: PostgreSQL refuses its UPDATE and DELETE as long as it is published. Those of another owner stay.
 */
export const WITHDRAW = `DO $leased$
DECLARE
  gone regclass;
BEGIN
  FOR gone IN SELECT prrelid::regclass FROM pg_publication_rel JOIN pg_publication ON pg_publication.oid = prpubid
      WHERE pubname = '${PUBLICATION}' AND EXISTS (SELECT FROM ${
  leavesOf("prrelid")
} WHERE ${IDENTITY_COLUMNS} IS NULL) LOOP
    BEGIN
      EXECUTE format('ALTER PUBLICATION ${PUBLICATION} DROP TABLE ONLY %s', gone);
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
 * Statements that publish the table `followed`, all of its columns: with a list of columns, PostgreSQL would refuse
 * another type for one of them. `ONLY`: heirs may have no key for the log.
 */
const PUBLISH = `SELECT * INTO made FROM pg_publication WHERE pubname = '${PUBLICATION}';
  IF made.oid IS NULL THEN
    EXECUTE format('CREATE PUBLICATION ${PUBLICATION} FOR TABLE ONLY %s WITH (publish_via_partition_root = true)', followed);
    RETURN;
  END IF;
  IF made.puballtables OR NOT (made.pubinsert AND made.pubupdate AND made.pubdelete AND made.pubtruncate)
      OR about.relkind = 'p' AND NOT made.pubviaroot
      OR EXISTS (SELECT FROM pg_depend WHERE classid = to_regclass('pg_publication_namespace') AND refobjid = made.oid) THEN
    RAISE EXCEPTION 'publication ${PUBLICATION}, which has table % or should, is not one that init has made', followed
      USING HINT = 'DROP PUBLICATION ${PUBLICATION}, and start init once more';
  END IF;
  SELECT to_jsonb(pg_publication_rel) INTO entry FROM pg_publication_rel WHERE prpubid = made.oid AND prrelid = followed;
  IF entry->>'prattrs' IS NOT NULL OR entry->>'prqual' IS NOT NULL THEN
    EXECUTE format('ALTER PUBLICATION ${PUBLICATION} DROP TABLE ONLY %s', followed);
    entry := NULL;
  END IF;
  IF entry IS NULL THEN
    EXECUTE format('ALTER PUBLICATION ${PUBLICATION} ADD TABLE ONLY %s', followed);
  END IF;`;

/** Variables of `PUBLISH`. */
const PUBLISH_VARIABLES = `about pg_class;
  made pg_publication;
  entry jsonb;`;

/**
 * Returns the statement that publishes the table of rows, or raises an error before it does: an UPDATE or DELETE of a
 * published table without a key for the log fails. A new partition has the primary key of its table, and no other key.
 */
function publishRows(names: TableNames): string {
  const { table } = quotedNames(names);
  const [rows, key] = [literal(table), literal(names.key)];
  return `DO $leased$
DECLARE
  followed regclass := ${rows};
  ${PUBLISH_VARIABLES}
  leaf regclass;
  identity jsonb;
BEGIN
  SELECT * INTO about FROM pg_class WHERE oid = followed;
  IF about.relkind NOT IN ('r', 'p') OR about.relpersistence <> 'p' THEN
    RAISE EXCEPTION '% is no table whose changes are in the log', followed USING HINT = 'name another --table';
  END IF;
  IF about.relkind = 'r' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = followed) THEN
    RAISE EXCEPTION 'tables inherit from table %, whose log has no changes of their rows', followed USING HINT = 'name another --table';
  END IF;
  IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = followed AND attname = ${key} AND attgenerated <> '') THEN
    RAISE EXCEPTION 'column % of table % is generated: the log does not have it', ${key}, followed
      USING HINT = 'name another --key-column';
  END IF;
  FOR leaf, identity IN SELECT pg_class.oid, (${IDENTITY_COLUMNS})::jsonb FROM ${
    leavesOf("followed")
  } ORDER BY 1 LOOP
    IF identity IS NULL THEN
      RAISE EXCEPTION 'table % has no key for the log, without which its UPDATE and DELETE would fail', leaf
        USING HINT = format('ALTER TABLE %s ADD PRIMARY KEY (%I), not deferrable; or ALTER TABLE %1$s REPLICA IDENTITY FULL', leaf, ${key});
    ELSIF NOT identity ?| ARRAY ['*', ${key}] THEN
      RAISE EXCEPTION 'the log has % of an old row of table %, and not %',
        (SELECT string_agg(name, ', ') FROM jsonb_array_elements_text(identity) AS name), leaf, ${key}
        USING HINT = format('ALTER TABLE %s REPLICA IDENTITY USING INDEX … of a unique index of %I; or ALTER TABLE %1$s REPLICA IDENTITY FULL', leaf, ${key});
    END IF;
  END LOOP;
  IF about.relkind = 'p' AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = followed AND indisprimary AND indimmediate) THEN
    RAISE EXCEPTION 'table % has no primary key that is not deferrable, so a new partition would have no key for the log', followed
      USING HINT = format('ALTER TABLE %s ADD PRIMARY KEY', followed);
  END IF;
  ${PUBLISH}
END $leased$;
`;
}

/** Returns a text as an SQL literal. */
function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** @param table As the file of views names it. */
function publishTable(table: string): string {
  return `DO $leased$
DECLARE
  followed regclass := ${literal(table)};
  ${PUBLISH_VARIABLES}
BEGIN
  SELECT * INTO about FROM pg_class WHERE oid = followed;
  IF about.relkind <> 'r' OR about.relispartition OR about.relpersistence <> 'p' THEN
    RAISE EXCEPTION '% is no table whose changes are in the log, or has partitions, or is one', followed
      USING HINT = 'name other tables in the file of views';
  END IF;
  IF NOT EXISTS (SELECT FROM pg_class WHERE oid = followed AND ${IDENTITY_COLUMNS} IS NOT NULL) THEN
    RAISE EXCEPTION 'table % has no key for the log, without which writes to it would fail: add a primary key that is not deferrable, or REPLICA IDENTITY FULL', followed;
  END IF;
  ${PUBLISH}
END $leased$;
`;
}
