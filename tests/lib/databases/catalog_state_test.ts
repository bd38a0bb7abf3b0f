// Which changes of PostgreSQL's catalog are taken for changes of what views answer.
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { catalogState, catalogWords } from "../../../lib/databases/postgres/catalog_state.ts";
import { Session } from "../../../lib/databases/postgres/session.ts";
import { parseViews } from "../../../lib/databases/views/views_file.ts";
import { testPostgres } from "../../support/postgres_backend.ts";

const ROLE = "catalog_reader";

const SCHEMA = `
CREATE SCHEMA shop; CREATE SCHEMA shop_new;
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE TYPE address AS (street text, place text);
CREATE DOMAIN grade AS integer;
CREATE TEXT SEARCH CONFIGURATION words (COPY = simple);
CREATE COLLATION plain FROM "C";
CREATE TABLE kv (key bytea PRIMARY KEY, value bytea, version bigint, flags bigint);
CREATE TABLE maker (id integer PRIMARY KEY, mood mood, moods mood[], home address, grade grade);
CREATE TABLE part (id integer PRIMARY KEY, maker integer, text text);
CREATE TABLE "Odd Name" (id integer PRIMARY KEY);
CREATE TABLE unrelated (id integer PRIMARY KEY, maker integer);
CREATE TABLE shop.price (id integer PRIMARY KEY, cents integer);
CREATE TABLE shop_new.price (id integer PRIMARY KEY, cents integer);
CREATE FUNCTION inner_of(integer) RETURNS text LANGUAGE sql AS 'SELECT text FROM part WHERE maker = $1';
CREATE FUNCTION outer_of(integer) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN INNER_OF($1); END';
CREATE FUNCTION unrelated_of(integer) RETURNS integer LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION same(grade, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
CREATE VIEW makers AS SELECT id, outer_of(id) AS texts, mood, home FROM maker;
CREATE TABLE base (id integer PRIMARY KEY);
CREATE POLICY own ON part USING (id > 0);
`;

const FILE = JSON.stringify({
  "v:{id}": {
    query: "SELECT texts, home FROM makers JOIN Shop.Price USING (id) WHERE id = {id}",
    changes: { maker: "v:{id}", part: "v:{maker}", "shop.price": "v:{id}" },
  },
  "w:{id}": {
    query:
      `SELECT to_tsvector('words', text) AS t, text < 'a' COLLATE plain AS l FROM part, "Odd Name" WHERE part.id = {id}`,
    changes: { part: "w:{id}", '"Odd Name"': "w:{id}" },
  },
});

/** Each is one change, after which results may be others. */
const CHANGES = [
  "ALTER SCHEMA shop RENAME TO shop_old; ALTER SCHEMA shop_new RENAME TO shop",
  "ALTER TABLE part ENABLE ROW LEVEL SECURITY",
  "ALTER TABLE part FORCE ROW LEVEL SECURITY",
  "ALTER POLICY own ON part USING (id > 1)",
  "CREATE POLICY other ON part USING (id > 2)",
  "ALTER TYPE mood RENAME VALUE 'low' TO 'down'",
  "ALTER TYPE mood ADD VALUE 'middle' BEFORE 'high'",
  "ALTER TYPE address RENAME ATTRIBUTE street TO road",
  "ALTER VIEW makers RENAME COLUMN texts TO titles",
  "ALTER VIEW makers RENAME COLUMN titles TO texts",
  "ALTER VIEW makers SET (security_invoker = on)",
  "CREATE OR REPLACE VIEW makers AS SELECT id, outer_of(id + 1) AS texts, mood, home FROM maker",
  "CREATE OR REPLACE FUNCTION inner_of(integer) RETURNS text LANGUAGE sql AS 'SELECT text FROM part WHERE id = $1'",
  "ALTER FUNCTION outer_of(integer) SET search_path = shop",
  "CREATE FUNCTION inner_of(bigint) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'",
  "ALTER TEXT SEARCH CONFIGURATION words ALTER MAPPING FOR asciiword WITH english_stem",
  "ALTER TABLE part RENAME COLUMN text TO title",
  "ALTER TABLE part ALTER COLUMN title TYPE varchar(9)",
  "ALTER TABLE part RENAME COLUMN title TO text",
  "ALTER TABLE part REPLICA IDENTITY FULL",
  "ALTER TABLE part ADD CONSTRAINT positive CHECK (id > 0)",
  "CREATE UNIQUE INDEX one ON part (maker)",
  "DROP INDEX one",
  "ALTER TABLE part RENAME TO piece; CREATE TABLE part (LIKE piece INCLUDING ALL)",
  'ALTER TABLE "Odd Name" ADD COLUMN more integer',
  "CREATE TABLE child () INHERITS (maker)",
  "CREATE CAST (mood AS grade) WITH INOUT",
  "CREATE OPERATOR === (LEFTARG = grade, RIGHTARG = text, FUNCTION = same)",
  "CREATE OR REPLACE FUNCTION same(grade, text) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
  `REVOKE SELECT ON maker FROM ${ROLE}`,
  `GRANT SELECT (id) ON maker TO ${ROLE}`,
  `REVOKE USAGE ON SCHEMA shop FROM ${ROLE}`,
  `REVOKE EXECUTE ON FUNCTION outer_of(integer) FROM PUBLIC`,
  `GRANT pg_read_all_data TO ${ROLE}`,
  `ALTER ROLE ${ROLE} BYPASSRLS`,
  `ALTER ROLE ${ROLE} SET default_text_search_config = 'german'`,
  // It hides the table of the schema public.
  `CREATE SCHEMA ${ROLE}; GRANT USAGE ON SCHEMA ${ROLE} TO ${ROLE}`,
  `CREATE TABLE ${ROLE}.maker (LIKE public.maker)`,
  `CREATE VIEW ${ROLE}.kv AS SELECT * FROM public.kv`,
];

/** Each changes no result, and many happen every day. */
const OTHERS = [
  "INSERT INTO part VALUES (1, 1, 'a'); UPDATE part SET text = 'b'",
  "ANALYZE part; ANALYZE maker",
  "CREATE INDEX more ON part (text)",
  "CREATE TEMP TABLE maker (id integer)",
  "CREATE TEMP VIEW part AS SELECT 1",
  "CREATE FUNCTION pg_temp.outer_of(integer) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'",
  "DROP TABLE pg_temp.maker; DROP VIEW pg_temp.part",
  "ALTER TABLE unrelated RENAME COLUMN maker TO part",
  "CREATE OR REPLACE FUNCTION unrelated_of(integer) RETURNS integer LANGUAGE sql AS 'SELECT 2'",
  "CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.makers (id integer)",
  "GRANT SELECT ON part TO pg_monitor",
  "TRUNCATE part",
  "ALTER TABLE part SET (fillfactor = 90)",
];

testPostgres(
  "what may change the results of views changes the state of the catalog, and nothing else does",
  async (url, server) => {
    const owner = await Session.open({ url, timeoutMs: 60_000 });
    const views = parseViews(FILE, "views.jsonc", [""]);
    const words = catalogWords(DEFAULT_TABLE, views);
    const at = new URL(url);
    at.username = ROLE;
    // Settings of roles are those of new sessions.
    const state = async (): Promise<string> => {
      const session = await Session.open({ url: at.href, timeoutMs: 60_000 });
      const found = await catalogState(session, words);
      await session.close();
      return found;
    };
    try {
      await server.execute(`CREATE ROLE ${ROLE} LOGIN`, url);
      await owner.query(SCHEMA);
      await owner.query(
        `GRANT USAGE ON SCHEMA shop TO ${ROLE}; GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${ROLE}`,
      );
      let before = await state();
      for (const sql of OTHERS) {
        await owner.query(sql);
        assertEquals(await state(), before, sql);
      }
      for (const sql of CHANGES) {
        await owner.query(sql);
        const after = await state();
        assertNotEquals(after, before, sql);
        assertEquals(await state(), after);
        before = after;
      }
      assert(before.length > 0);
    } finally {
      await owner.close();
      await server.execute(
        `DROP OWNED BY ${ROLE} CASCADE; DROP SCHEMA IF EXISTS ${ROLE} CASCADE`,
        url,
      );
      await server.execute(`DROP ROLE ${ROLE}`, url);
    }
  },
);
