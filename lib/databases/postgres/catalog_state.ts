import type { Views } from "../views/view.ts";
import { quotedNames, type TableNames } from "../base/table.ts";
import type { ViewMapping } from "../views/view_mapping.ts";
import type { Session } from "./session.ts";

/** What the log is followed for. */
export interface Followed {
  /** Which keys of views the changes of tables concern. */
  readonly mapping: ViewMapping;
  /** What `CATALOG_STATE` looks through. */
  readonly words: string;
  /** The state of the catalog from which `mapping` was made. */
  readonly state: string;
}

/** The first number of what was not made with the cluster. */
const USER_OIDS_FROM = 16_384;
/** The languages internal and C: their functions have no text that names others. */
const LANGUAGE_C = 13;

/** Splits a text of SQL into words: what can be no part of a name without quotes. */
const BETWEEN_WORDS = String.raw`'[][\s(),.;:''"=<>+*/%^|&!~@#?{}\`\\-]+'`;

/** Returns the array of the words of a text, in small letters, too, as SQL folds names. */
function wordsOf(text: string): string {
  return `regexp_split_to_array(concat(${text}, ' ', lower(${text} COLLATE "C")), ${BETWEEN_WORDS})::name[]`;
}

/** Settings on which the text of a value depends, or what a name means. */
const SETTINGS = [
  "bytea_output",
  "DateStyle",
  "default_text_search_config",
  "extra_float_digits",
  "IntervalStyle",
  "lc_monetary",
  "lc_numeric",
  "lc_time",
  "row_security",
  "search_path",
  "TimeZone",
  "transform_null_equals",
  "xmlbinary",
  "xmloption",
];

/** Catalogs of what a query can name, with the beginning of their columns' names. */
const NAMED = [
  ["pg_class", "rel"],
  ["pg_proc", "pro"],
  ["pg_type", "typ"],
  ["pg_collation", "coll"],
  ["pg_ts_config", "cfg"],
  ["pg_ts_dict", "dict"],
];

/** Returns the rows of what has one of the names of an array: catalog, number and schema. Each name is looked up. */
function namedBy(words: string): string {
  return NAMED.map(([catalog, column]) =>
    `SELECT '${catalog}'::regclass::oid, oid, ${column}namespace FROM ${catalog} WHERE ${column}name = ANY (${words})`
  ).join(" UNION ALL\n    ");
}

/** What an object of the catalog is made of: other objects, by their catalog and number. */
const PARTS =
  `SELECT refclassid, refobjid FROM pg_depend WHERE classid = part.class AND objid = part.oid
  ${
    [
      ["pg_class", "'pg_rewrite'", "oid FROM pg_rewrite WHERE ev_class = part.oid"],
      ["pg_class", "'pg_policy'", "oid FROM pg_policy WHERE polrelid = part.oid"],
      ["pg_class", "'pg_class'", "inhrelid FROM pg_inherits WHERE inhparent = part.oid"],
      ["pg_type", "'pg_class'", "typrelid FROM pg_type WHERE oid = part.oid"],
      ["pg_type", "'pg_type'", "typelem FROM pg_type WHERE oid = part.oid"],
      ["pg_type", "'pg_type'", "typbasetype FROM pg_type WHERE oid = part.oid"],
    ].map(([of, catalog, from]) =>
      `UNION ALL SELECT ${catalog}::regclass, ${from} AND part.class = '${of}'::regclass\n  `
    ).join("")
  }UNION ALL SELECT named.class, named.oid FROM pg_proc
    CROSS JOIN LATERAL (SELECT ARRAY (SELECT DISTINCT unnest(${
    wordsOf("prosrc")
  })) OFFSET 0) AS body (words)
    CROSS JOIN LATERAL (${
    namedBy("body.words")
  }) AS named (class, oid, space) JOIN space ON space.oid = named.space
    WHERE part.class = 'pg_proc'::regclass AND pg_proc.oid = part.oid AND prolang > ${LANGUAGE_C}`;

/**
 * The state of the catalog as far as the results of queries may depend on it: $1 is the text of the queries, and names.
 *
 * What a word of the text may name is looked up anew each time, so a table that appears earlier on the search_path is
 * noticed, and nothing is written to the database: a temporary view, whose dependencies the server would note, needs
 * the right to make one and leaves dead rows in the catalog. From there it goes on by the dependencies that the server
 * has noted, and by the words in the texts of functions, which it does not note. Operators and casts are found without
 * a name: all of them count. Of a table, those columns count that change results; its size, its file and its indexes
 * change none.
 */
const CATALOG_STATE = `WITH RECURSIVE space AS (
  SELECT oid, nspname, nspacl FROM pg_namespace WHERE nspname !~ '^pg_(temp|toast)'
), word (name) AS (
  SELECT unnest(${
  wordsOf("concat($1::text, ' ', current_setting('default_text_search_config'))")
}) UNION
  SELECT replace((regexp_matches($1::text, '"((?:[^"]|"")+)"', 'g'))[1], '""', '"')::name
), part (class, oid) AS (
  SELECT class, named.oid FROM (${
  namedBy("ARRAY (SELECT name FROM word)")
}) AS named (class, oid, space)
    JOIN space ON space.oid = named.space WHERE nspname = ANY (current_schemas(true)) OR nspname IN (SELECT name FROM word)
  UNION SELECT 'pg_operator'::regclass, oid FROM pg_operator WHERE oid >= ${USER_OIDS_FROM}
  UNION SELECT 'pg_cast'::regclass, oid FROM pg_cast WHERE oid >= ${USER_OIDS_FROM}
  UNION SELECT more.class, more.oid FROM part CROSS JOIN LATERAL (
  ${PARTS}) AS more (class, oid) WHERE more.oid >= ${USER_OIDS_FROM}
), owner (oid) AS (
  SELECT oid FROM pg_roles WHERE rolname = current_user UNION
  SELECT relowner FROM pg_class JOIN part ON class = 'pg_class'::regclass AND part.oid = pg_class.oid UNION
  SELECT proowner FROM pg_proc JOIN part ON class = 'pg_proc'::regclass AND part.oid = pg_proc.oid
), role (oid) AS (
  SELECT oid FROM owner UNION SELECT roleid FROM pg_auth_members JOIN role ON member = role.oid
), line (text) AS (
  SELECT concat_ws(' ', 'table', pg_class.oid, relname, relnamespace, relkind, relpersistence, relowner, relrowsecurity,
      relforcerowsecurity, relreplident, CASE relkind WHEN 'v' THEN reloptions END, (SELECT string_agg(concat(has_table_privilege(owner.oid, pg_class.oid, 'SELECT'),
      has_any_column_privilege(owner.oid, pg_class.oid, 'SELECT')), ' ' ORDER BY owner.oid) FROM owner))
    FROM pg_class JOIN part ON class = 'pg_class'::regclass AND part.oid = pg_class.oid UNION ALL
  SELECT concat_ws(' ', 'column', attrelid, attnum, pg_attribute.xmin)
    FROM pg_attribute JOIN part ON class = 'pg_class'::regclass AND part.oid = attrelid WHERE attnum > 0 UNION ALL
  SELECT concat_ws(' ', 'index', indexrelid, pg_index.xmin)
    FROM pg_index JOIN part ON class = 'pg_class'::regclass AND part.oid = indrelid WHERE indisunique OR indisreplident UNION ALL
  SELECT concat_ws(' ', 'constraint', pg_constraint.oid, pg_constraint.xmin)
    FROM pg_constraint JOIN part ON class = 'pg_class'::regclass AND part.oid = conrelid WHERE contype = 'c' UNION ALL
  SELECT concat_ws(' ', 'label', enumtypid, pg_enum.oid, pg_enum.xmin)
    FROM pg_enum JOIN part ON class = 'pg_type'::regclass AND part.oid = enumtypid UNION ALL
  SELECT concat_ws(' ', 'search', mapcfg, maptokentype, mapseqno, pg_ts_config_map.xmin)
    FROM pg_ts_config_map JOIN part ON class = 'pg_ts_config'::regclass AND part.oid = mapcfg UNION ALL
  ${
  [
    "pg_proc",
    "pg_rewrite",
    "pg_policy",
    "pg_type",
    "pg_collation",
    "pg_ts_config",
    "pg_ts_dict",
    "pg_operator",
    "pg_cast",
  ].map((catalog) =>
    `SELECT concat_ws(' ', '${catalog}', ${catalog}.oid, ${catalog}.xmin)
    FROM ${catalog} JOIN part ON class = '${catalog}'::regclass AND part.oid = ${catalog}.oid UNION ALL
  `
  ).join("")
}SELECT concat_ws(' ', 'schema', oid, nspname, nspacl) FROM space
    WHERE nspname = ANY (current_schemas(true)) OR nspname IN (SELECT name FROM word) UNION ALL
  SELECT concat_ws(' ', 'role', oid, rolname, rolsuper, rolinherit, rolbypassrls) FROM pg_roles JOIN role USING (oid) UNION ALL
  SELECT concat_ws(' ', 'member', roleid, member) FROM pg_auth_members JOIN role ON member = role.oid UNION ALL
  SELECT concat_ws(' ', 'setting', setdatabase, setrole, setconfig) FROM pg_db_role_setting JOIN pg_roles ON rolname = current_user
    WHERE setrole IN (0, pg_roles.oid) AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) UNION ALL
  SELECT concat_ws(' ', 'set', name, setting) FROM pg_settings WHERE name IN (${
  SETTINGS.map((name) => `'${name}'`).join(", ")
}) UNION ALL
  SELECT concat('path ', current_schemas(true))
)
SELECT md5(string_agg(text, E'\\n' ORDER BY text COLLATE "C")) AS state FROM line`;

/** Returns the text that `CATALOG_STATE` looks through: the table of rows, queries, and the tables of their changes. */
export function catalogWords(names: TableNames, views: Views): string {
  const ofViews = views.all.flatMap(({ query, changes }) => [
    query,
    ...changes.map(({ table }) => table),
  ]);
  return [quotedNames(names).table, ...ofViews].join("\n");
}

/** Returns a text that differs when what is named in `words`, or is reached from there, has been changed. */
export async function catalogState(session: Session, words: string): Promise<string> {
  const [row] = await session.query(CATALOG_STATE, [words]);
  return row!["state"] as string;
}
