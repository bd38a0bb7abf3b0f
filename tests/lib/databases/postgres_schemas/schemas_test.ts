// `init --follow` makes no statement of an application fail, in any schema; what it refuses could not be followed.
import { assert, assertEquals } from "@std/assert";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { roundsOf } from "../../../support/rounds.ts";
import { testPostgres } from "../../../support/postgres_backend.ts";
import type { PostgresServer } from "../../../support/servers/postgres.ts";
import { openPostgres } from "../../../../lib/databases/postgres/backend.ts";
import { IS_PUBLISHED, WITHDRAW } from "../../../../lib/databases/postgres/publication.ts";
import { Session } from "../../../../lib/databases/postgres/session.ts";
import { DEFAULT_TABLE, quoted, type TableNames } from "../../../../lib/databases/base/table.ts";
import { Views } from "../../../../lib/databases/views/view.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { Dice } from "../sqlite_schemas/dice.ts";
import { type RandomSchema, randomSchema, type RandomTable } from "./random_schema.ts";
import { randomStatement } from "./random_statements.ts";

const SCHEMAS = roundsOf(15);
const STATEMENTS = 50;
const SETTINGS = { connectionsMax: 2, timeoutMs: 60_000 };
/** PostgreSQL's errors about a publication: the table had such a one before `init`, which may mend it. */
const IS_OF_PUBLICATION = /^(?:42P10|55000) cannot (?:update|delete from) table|publication/;
/** The leaves of a table, or itself, that the log has no old key of: $1 is the table, $2 the key's column. */
const WITHOUT_OLD_KEY =
  `SELECT c.oid::regclass::text AS name FROM pg_class c WHERE relkind = 'r' AND
  (c.oid = $1::regclass OR c.oid IN (SELECT relid FROM pg_partition_tree($1::regclass))) AND relreplident <> 'f' AND NOT EXISTS (
    SELECT FROM pg_index JOIN pg_attribute a ON a.attrelid = indrelid AND a.attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])
    WHERE indrelid = c.oid AND attname = $2 AND indimmediate AND indisvalid AND CASE relreplident WHEN 'd' THEN indisprimary ELSE indisreplident AND relreplident = 'i' END)`;

/** What a statement has done. */
interface Outcome {
  readonly error: string | null;
  readonly count: number | null;
  readonly rows: string;
}

async function execute(session: Session, sql: string): Promise<Outcome> {
  try {
    const rows = await session.query(sql);
    const { count = null } = rows as unknown as { count?: number | null };
    return { error: null, count, rows: rows.map((row) => JSON.stringify(row)).sort().join("; ") };
  } catch (error) {
    const { code, message } = error as Error & { code: string };
    return { error: `${code} ${message}`, count: null, rows: "" };
  }
}

/** What `init` is started for. */
interface Asked {
  readonly names: TableNames;
  readonly rows: RandomTable | null;
  readonly viewed: readonly RandomTable[];
  readonly viewsText: string;
}

function drawAsked(dice: Dice, { tables }: RandomSchema): Asked {
  const rows = dice.chance(75) ? dice.pick(tables) : null;
  const others = tables.filter((table) => table !== rows);
  const viewed = others.length > 0 && dice.chance(rows === null ? 100 : 60)
    ? dice.some(others)
    : [];
  const names = rows === null
    ? DEFAULT_TABLE
    : { ...DEFAULT_TABLE, table: rows.name, key: rows.key, value: "body" };
  const viewsText = JSON.stringify(Object.fromEntries(viewed.map(({ sql }, index) => [
    `view${index}:{id}`,
    { query: `SELECT lang FROM ${sql} WHERE id = {id}`, changes: { [sql]: `view${index}:{id}` } },
  ])));
  return { names, rows, viewed, viewsText };
}

/** As `init --follow --run`. @returns What it says; null: it has succeeded. */
async function init(url: string, { names, viewsText }: Asked): Promise<string | null> {
  try {
    const backend = await openPostgres(url, names, SETTINGS);
    try {
      await backend.prepareChanges(
        viewsText === "{}" ? Views.NONE : parseViews(viewsText, "views.jsonc", [""]),
      );
      return null;
    } finally {
      await backend.close();
    }
  } catch (error) {
    return (error as Error).message;
  }
}

/** Returns why a refusal is right: what a publication does to a copy of the database. */
async function reasonsToRefuse(probe: Session, asked: Asked): Promise<string[]> {
  const reasons: string[] = [];
  const all = [...asked.rows === null ? [] : [asked.rows], ...asked.viewed];
  const [old] = await probe.query(
    "SELECT puballtables OR EXISTS (SELECT FROM pg_publication_namespace WHERE pnpubid = pg_publication.oid) AS is_wide, " +
      "NOT (pubinsert AND pubupdate AND pubdelete AND pubtruncate) AS is_partial, NOT pubviaroot AS is_of_leaves " +
      "FROM pg_publication WHERE pubname = 'leased'",
  );
  if (old?.["is_wide"]) reasons.push("publication leased is for all tables");
  if (old?.["is_partial"]) reasons.push("publication leased lacks kinds of changes");
  for (const table of all) {
    const [about] = await probe.query(
      "SELECT relkind, EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) AS has_heirs, " +
        "EXISTS (SELECT FROM pg_index WHERE indrelid = c.oid AND indisprimary AND indimmediate) AS has_key " +
        "FROM pg_class c WHERE oid = $1::regclass",
      [table.sql],
    );
    const isRows = table === asked.rows;
    const isPartitioned = about!["relkind"] === "p";
    if (isPartitioned && !isRows) reasons.push("a view's table has partitions");
    if (isPartitioned && old?.["is_of_leaves"]) {
      reasons.push("publication leased has changes of partitions under their own names");
    }
    if (isPartitioned && !about!["has_key"]) reasons.push("a new partition has no identity");
    if (!isPartitioned && isRows && about!["has_heirs"]) reasons.push("heirs have rows, too");
    if (isRows && (await probe.query(WITHOUT_OLD_KEY, [table.sql, table.key])).length > 0) {
      reasons.push("no old key");
    }
    const before = await execute(probe, probeOf(table));
    const made = await execute(probe, `CREATE PUBLICATION probe FOR TABLE ONLY ${table.sql}`);
    const after = await execute(probe, probeOf(table));
    await execute(probe, "DROP PUBLICATION IF EXISTS probe");
    if (made.error !== null) reasons.push(made.error);
    if (after.error !== before.error || IS_OF_PUBLICATION.test(before.error ?? "")) {
      reasons.push(String(after.error));
    }
  }
  return reasons;
}

/** A statement that changes no row, and fails if the log could not have a change. */
function probeOf({ sql }: RandomTable): string {
  return `UPDATE ${sql} SET body = body WHERE lang = 'nothing like it'`;
}

/** Returns the rows of the application's tables, of the columns that are in the database without `init`. */
async function rowsOf(session: Session, columns: ReadonlyMap<string, string>): Promise<string> {
  const texts: string[] = [];
  for (const [table, list] of columns) {
    texts.push(`${table}: ${(await execute(session, `SELECT ${list} FROM ${table}`)).rows}`);
  }
  return texts.join("\n");
}

async function columnsOf(plain: Session): Promise<ReadonlyMap<string, string>> {
  const rows = await plain.query(
    "SELECT pg_class.oid::regclass::text AS name, string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS list FROM pg_class " +
      "JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped " +
      "WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') GROUP BY 1",
  );
  return new Map(rows.map(({ name, list }) => [name as string, list as string]));
}

/** Plays the same statements with and without what `init` has made. */
async function play(
  dice: Dice,
  schema: RandomSchema,
  plain: Session,
  noted: Session,
  story: string[],
): Promise<number> {
  let isInTransaction = false;
  let played = 0;
  while (played < STATEMENTS) {
    const sql = randomStatement(dice, schema);
    story.push(sql);
    const [own, other] = [await execute(noted, sql), await execute(plain, sql)];
    const where = story.join(";\n");
    if (own.error !== other.error && IS_OF_PUBLICATION.test(other.error ?? "")) return played;
    assertEquals(own, other, where);
    played++;
    if (/^BEGIN/.test(sql)) isInTransaction = true;
    if (/^(?:COMMIT|ROLLBACK)$/.test(sql)) isInTransaction = false;
    // As a running origin, which notices the change of the catalog.
    if (/^(?:ALTER|DROP|CREATE)/.test(sql) && !isInTransaction) await noted.query(WITHDRAW);
    // Its changes of the schema count when they are committed.
    if (sql === "COMMIT") await noted.query(WITHDRAW);
  }
  for (const each of [noted, plain]) await execute(each, "COMMIT");
  const columns = await columnsOf(plain);
  assertEquals(await rowsOf(noted, columns), await rowsOf(plain, columns), story.join(";\n"));
  return played;
}

/** @returns Whether `init` has succeeded. */
async function playCase(dice: Dice, server: PostgresServer): Promise<boolean> {
  const schema = randomSchema(dice);
  const asked = drawAsked(dice, schema);
  const plainUrl = await server.createDatabase();
  const story: string[] = [];
  const first = await Session.open({ url: plainUrl, timeoutMs: 60_000 });
  const present = new Set<string>();
  for (const sql of schema.statements) {
    const { error } = await execute(first, sql);
    if (error === null) story.push(sql);
  }
  for (const table of schema.tables) {
    if ((await execute(first, `SELECT FROM ${table.sql}`)).error === null) present.add(table.name);
  }
  await first.close();
  if (present.size < schema.tables.length) return false;
  const [notedUrl, probeUrl] = [await copyOf(server, plainUrl), await copyOf(server, plainUrl)];
  const refusal = await init(notedUrl, asked);
  story.push(
    `-- init --follow: rows ${JSON.stringify(asked.names)}, views ${asked.viewsText}: ${
      refusal ?? "done"
    }`,
  );
  const sessions = await Promise.all(
    [plainUrl, notedUrl, probeUrl].map((url) => Session.open({ url, timeoutMs: 60_000 })),
  );
  const [plain, noted, probe] = sessions as [Session, Session, Session];
  try {
    const where = story.join(";\n");
    if (refusal !== null) {
      const isNamed = [...asked.rows === null ? [] : [asked.rows], ...asked.viewed]
        .some(({ name }) => refusal.replaceAll('""', '"').includes(name));
      assert(isNamed || /publication "?leased/.test(refusal), where);
      assert(
        (await reasonsToRefuse(probe, asked)).length > 0,
        `refused without a reason:\n${where}`,
      );
    } else {
      for (const table of [asked.rows?.sql ?? "kv", ...asked.viewed.map(({ sql }) => sql)]) {
        const [about] = await noted.query(
          `SELECT ${IS_PUBLISHED} AS is_published, relkind FROM pg_class WHERE oid = $1::regclass`,
          [table],
        );
        assertEquals(about!["is_published"], true, `${table} is not published:\n${where}`);
      }
      if (asked.rows !== null) await checkLogged(noted, asked.rows, where);
    }
    await play(dice, schema, plain, noted, story);
  } finally {
    await Promise.all(sessions.map((session) => session.close()));
    for (const url of [plainUrl, notedUrl, probeUrl]) {
      await server.execute(
        `DROP DATABASE ${databaseOf(url)} WITH (FORCE)`,
        server.urlOf("postgres"),
      );
    }
  }
  return refusal === null;
}

/** The log must have the old key of each row, and the publication's columns the new one. */
async function checkLogged(
  noted: Session,
  { sql, key }: RandomTable,
  where: string,
): Promise<void> {
  const lacking = await noted.query(WITHOUT_OLD_KEY, [sql, key]);
  assertEquals(lacking.map(({ name }) => name).join(", "), "", where);
  const [row] = await noted.query(
    "SELECT EXISTS (SELECT FROM pg_publication_rel JOIN pg_publication p ON p.oid = prpubid JOIN pg_attribute ON attrelid = prrelid " +
      "WHERE pubname = 'leased' AND prrelid = $1::regclass AND attname = $2 AND (prattrs IS NULL OR attnum = ANY (prattrs::int2[]))) AS has_key",
    [sql, key],
  );
  assertEquals(row!["has_key"], true, `the key's column is not published:\n${where}`);
}

async function copyOf(server: PostgresServer, url: string): Promise<string> {
  const copy = await server.createDatabase();
  const admin = server.urlOf("postgres");
  await server.execute(`DROP DATABASE ${databaseOf(copy)}`, admin);
  await server.execute(`CREATE DATABASE ${databaseOf(copy)} TEMPLATE ${databaseOf(url)}`, admin);
  return copy;
}

function databaseOf(url: string): string {
  return quoted(new URL(url).pathname.slice(1));
}

testPostgres(
  "after init --follow, random statements on random schemas do the same as before",
  (_url, server) =>
    withSeed(drawSeed(), async (seed) => {
      const dice = new Dice(seed);
      let done = 0;
      // `init` may refuse all of the first ones.
      for (let count = 0; count < SCHEMAS || done === 0 && count < 10 * SCHEMAS; count++) {
        if (await playCase(dice, server)) done++;
      }
      assert(done > 0, "init has refused each schema");
    }),
);
