// The event trigger of `init --follow`: DDL has the results that it has without it, and is marked in the log.
import { assertEquals, assertMatch } from "@std/assert";
import { DDL_TRIGGER, DDL_TRIGGER_END } from "../../../lib/databases/postgres/ddl_trigger.ts";
import { HAS_POSTGRES, PostgresServer } from "../../support/servers/postgres.ts";
import { testPostgres, untilLocked, withSession } from "../../support/postgres_backend.ts";
import { needs } from "../../support/needs/needs.ts";

const SLOT = "marks";
const MARKS = "SELECT count(*)::int AS count FROM pg_logical_slot_get_binary_changes(" +
  `(SELECT slot_name FROM pg_replication_slots WHERE database = current_database() AND slot_name LIKE '${SLOT}%'), ` +
  "NULL, NULL, 'proto_version', '1', 'publication_names', 'none', 'messages', 'true') " +
  "WHERE get_byte(data, 0) = ascii('M')";
const MAKE_SLOT =
  `SELECT pg_create_logical_replication_slot('${SLOT}' || oid, 'pgoutput') FROM pg_database WHERE datname = current_database()`;
const TRIGGER =
  "SELECT string_agg(concat_ws(' ', pg_event_trigger.oid, pg_event_trigger.xmin, pg_proc.oid, pg_proc.xmin), ',') " +
  "FROM pg_event_trigger JOIN pg_proc ON pg_proc.oid = evtfoid";

const SCHEMA = `
CREATE TYPE mood AS ENUM ('low', 'high');
CREATE TABLE part (id integer PRIMARY KEY, mood mood);
CREATE TEMP TABLE mine (id integer);
CREATE SCHEMA open; GRANT CREATE, USAGE ON SCHEMA open TO PUBLIC;
CREATE FUNCTION grow() RETURNS void LANGUAGE plpgsql AS 'BEGIN CREATE TABLE grown (); DROP TABLE grown; END';
`;

const AS_GUEST = "SET ROLE ddl_guest; ";
const FAILS = "DO $$ BEGIN CREATE TABLE failed (); PERFORM 1 / 0; EXCEPTION WHEN OTHERS THEN ";

/** Statements, and how many transactions of them are marked. */
// deno-fmt-ignore
const CASES: readonly (readonly [sql: string, marks: number])[] = [
  ["CREATE TABLE one ()", 1],
  ["ALTER TYPE mood RENAME VALUE 'low' TO 'down'", 1],
  ["ALTER TABLE part ENABLE ROW LEVEL SECURITY", 1],
  ["GRANT SELECT ON part TO PUBLIC", 1],
  ["CREATE TABLE copied AS SELECT * FROM part", 1],
  ["CREATE UNIQUE INDEX CONCURRENTLY by_mood ON part (mood)", 1],
  ["DROP INDEX CONCURRENTLY by_mood", 1],
  ["DROP TABLE one", 1],
  ["SELECT grow()", 1],
  ["DO $$ BEGIN CREATE TABLE two (); ALTER TABLE two ADD COLUMN id integer; END $$", 1],
  ["DO $$ BEGIN CREATE TABLE three (); COMMIT; DROP TABLE three; END $$", 2],
  ["BEGIN; CREATE TABLE four (); ALTER TABLE four RENAME TO five; COMMIT", 1],
  ["BEGIN; CREATE TABLE six (); ROLLBACK", 0],
  ["BEGIN; SAVEPOINT a; CREATE TABLE six (); ROLLBACK TO a; COMMIT", 0],
  ["BEGIN; SAVEPOINT a; CREATE TABLE six (); ROLLBACK TO a; CREATE TABLE seven (); COMMIT", 1],
  ["BEGIN; CREATE TABLE eight (); SAVEPOINT a; CREATE TABLE six (); ROLLBACK TO a; COMMIT", 1],
  [`${FAILS}NULL; END $$`, 0],
  [`${FAILS}CREATE TABLE nine (); END $$`, 1],
  ["CREATE TABLE nine ()", 0],
  ["CREATE TABLE IF NOT EXISTS nine ()", 0],
  ["BEGIN READ ONLY; CREATE TABLE ten (); COMMIT", 0],
  ["BEGIN READ ONLY; CREATE TEMP TABLE ten (id serial PRIMARY KEY); COMMIT", 0],
  ["CREATE TEMP TABLE eleven AS SELECT 1 AS id; CREATE INDEX ON eleven (id); CREATE TEMP VIEW seen AS SELECT 1", 0],
  ["ALTER TABLE mine ADD COLUMN text text", 0],
  ["BEGIN; CREATE TEMP TABLE twelve (); CREATE TABLE thirteen (); COMMIT", 1],
  ["INSERT INTO part VALUES (1, 'down'); TRUNCATE part", 0],
  ["SET session_replication_role = replica; CREATE TABLE fourteen ()", 1],
  [`${AS_GUEST}CREATE TABLE open.theirs ()`, 1],
  [`${AS_GUEST}CREATE TABLE public.theirs ()`, 0],
  [`${AS_GUEST}DROP TABLE part`, 0],
  [`${AS_GUEST}SET search_path = ''; CREATE TABLE open.text (id integer)`, 1],
  ["REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) FROM PUBLIC", 1],
  [`${AS_GUEST}CREATE TABLE open.more ()`, 1],
  ["SET leased_ddl.xact = 'x'; CREATE TABLE fifteen ()", 1],
  ["DROP OWNED BY ddl_guest", 1],
];

testPostgres(
  "DDL succeeds and fails as without the event trigger, and is marked",
  async (url, server) => {
    const other = await server.createDatabase();
    await server.execute("CREATE ROLE ddl_guest", url);
    for (const each of [url, other]) {
      await server.execute(
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE PUBLICATION none",
        each,
      );
      await server.execute(MAKE_SLOT, each);
    }
    await server.execute(DDL_TRIGGER, url);
    const made = await server.execute(TRIGGER, url);
    await server.execute(DDL_TRIGGER, url);
    assertEquals(await server.execute(TRIGGER, url), made, "the second time");
    await withSession(url, (marked) =>
      withSession(other, async (plain) => {
        const outcome = async (session: typeof marked, sql: string): Promise<string> => {
          // One statement at a time, as psql sends them.
          const parts = sql.startsWith("DO ") ? [sql] : sql.split("; ");
          try {
            for (const part of parts) await session.query(part);
            return "done";
          } catch (error) {
            return String(error);
          } finally {
            await session.query("ROLLBACK");
            await session.query("RESET ALL");
            await session.query("RESET ROLE");
          }
        };
        for (const session of [marked, plain]) {
          for (const part of SCHEMA.split(";\n").filter((each) => each.trim() !== "")) {
            await session.query(part);
          }
          await session.query(MARKS);
        }
        for (const [sql, marks] of CASES) {
          assertEquals(await outcome(marked, sql), await outcome(plain, sql), sql);
          const [row] = await marked.query(MARKS);
          assertEquals(row!["count"], marks, sql);
        }
        assertEquals((await plain.query(MARKS))[0]!["count"], 0);
      }));
    await server.execute(DDL_TRIGGER_END, url);
    assertEquals(await server.execute(TRIGGER, url), "");
    await server.execute(DDL_TRIGGER_END, url);
    for (const each of [url, other]) {
      await server.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = current_database(); " +
          "GRANT EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) TO PUBLIC",
        each,
      );
    }
  },
);

testPostgres("DDL succeeds when the event trigger can write no mark", async (url, server) => {
  await server.execute(`CREATE SCHEMA leased; SET search_path = leased; ${DDL_TRIGGER}`, url);
  await server.execute("CREATE ROLE ddl_owner; GRANT ALL ON SCHEMA leased TO ddl_owner", url);
  await server.execute(
    "ALTER FUNCTION leased.leased_ddl() OWNER TO ddl_owner; " +
      "REVOKE EXECUTE ON FUNCTION pg_logical_emit_message(boolean, text, text) FROM PUBLIC",
    url,
  );
  await server.execute("CREATE TABLE one ()", url);
  await server.execute(
    "CREATE OR REPLACE FUNCTION leased.leased_ddl() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE division_by_zero; " +
      "EXCEPTION WHEN OTHERS THEN NULL; END'",
    url,
  );
  // It goes with its schema, whoever drops that.
  await server.execute("ALTER SCHEMA leased OWNER TO ddl_owner", url);
  await server.execute("SET ROLE ddl_owner; DROP SCHEMA leased CASCADE", url);
  assertEquals(await server.execute(TRIGGER, url), "");
  await server.execute("CREATE TABLE two ()", url);
});

testPostgres(
  "a user who is no superuser makes no event trigger, and takes none away",
  async (url, server) => {
    await server.execute(
      "CREATE ROLE ddl_user LOGIN; GRANT CREATE ON SCHEMA public TO ddl_user",
      url,
    );
    const as = url.replace("postgres@", "ddl_user@");
    await server.execute(DDL_TRIGGER, as);
    assertEquals(await server.execute(TRIGGER, url), "");
    await server.execute(DDL_TRIGGER, url);
    const made = await server.execute(TRIGGER, url);
    await server.execute(DDL_TRIGGER, as);
    await server.execute(DDL_TRIGGER_END, as);
    assertEquals(await server.execute(TRIGGER, url), made);
  },
);

testPostgres("an index that is built beside DDL of others succeeds", async (url, server) => {
  await server.execute(DDL_TRIGGER, url);
  await server.execute("CREATE TABLE part (id integer)", url);
  await withSession(url, (writer) =>
    withSession(url, async (watcher) => {
      await writer.query("BEGIN");
      await writer.query("INSERT INTO part VALUES (1)");
      await writer.query("CREATE TABLE meanwhile ()");
      const built = server.execute("CREATE INDEX CONCURRENTLY by_id ON part (id)", url);
      await untilLocked(watcher, 1);
      await watcher.query("CREATE TABLE more ()");
      await writer.query("COMMIT");
      await built;
    }));
});

Deno.test(
  "PostgreSQL: a prepared transaction with DDL is marked when it is committed, and wal_level replica harms no DDL",
  needs("PostgreSQL", HAS_POSTGRES),
  async () => {
    const server = await PostgresServer.start();
    const plain = await PostgresServer.start({ level: "replica" });
    try {
      const url = await server.createDatabase();
      await server.execute("ALTER SYSTEM SET max_prepared_transactions = 5", url);
      await server.restart();
      await server.execute(MAKE_SLOT, url);
      await server.execute(DDL_TRIGGER, url);
      await server.execute(MARKS, url);
      await withSession(url, async (session) => {
        for (const end of ["COMMIT", "ROLLBACK"]) {
          await session.query("BEGIN");
          await session.query("CREATE TABLE one ()");
          await session.query("PREPARE TRANSACTION 'one'");
          assertEquals((await session.query(MARKS))[0]!["count"], 0);
          await session.query(`${end} PREPARED 'one'`);
          assertEquals((await session.query(MARKS))[0]!["count"], end === "COMMIT" ? 1 : 0);
          await session.query("DROP TABLE IF EXISTS one");
          await session.query(MARKS);
        }
      });
      const other = await plain.createDatabase();
      await plain.execute(DDL_TRIGGER, other);
      await plain.execute("CREATE TABLE one ()", other);
      assertMatch(await plain.execute(TRIGGER, other), /\d/);
    } finally {
      await server.stop();
      await plain.stop();
    }
  },
);
