// Small decisions about a PostgreSQL server: which errors are whose, which tables, publications and slots fit.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { PostgresBackend } from "../../../lib/databases/postgres/backend.ts";
import { LostError } from "../../../lib/databases/postgres/lost_error.ts";
import { Pool } from "../../../lib/databases/postgres/pool.ts";
import {
  isLockTimeout,
  isReadOnly,
  isRefusal,
  isRowError,
  isTimeout,
} from "../../../lib/databases/postgres/session.ts";
import { inspectPostgresViews } from "../../../lib/databases/postgres/views.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { Views } from "../../../lib/databases/views/view.ts";
import { parseViews } from "../../../lib/databases/views/views_file.ts";
import {
  bytes,
  KEY,
  openPostgres,
  set,
  SETTINGS,
  testPostgres,
  withBackend,
  withSession,
} from "../../support/postgres_backend.ts";

const ADVICE = "let its owner start `leased rows init --follow --run --db <database>`";

testPostgres(
  "errors: those of one row, of locks, of time, of a server that takes no writes",
  async (url) => {
    const flags = async (ask: () => Promise<unknown>): Promise<string> => {
      const error = await assertRejects(ask);
      const named = { isRefusal, isRowError, isLockTimeout, isTimeout, isReadOnly };
      return Object.entries(named).filter(([, holds]) => holds(error)).map(([name]) => name).join();
    };
    await withSession(url, async (session) => {
      const raised = (code: string): Promise<string> =>
        flags(() =>
          session.query(`DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '${code}'; END $$`)
        );
      for (const code of ["22001", "23505", "42501", "44000", "54000", "P0001"]) {
        assertEquals(await raised(code), "isRefusal,isRowError", code);
      }
      for (const code of ["40001", "40P01", "53100", "53200", "XX000", "25P02", "08006", "0A000"]) {
        assertEquals(await raised(code), "isRefusal", code);
      }
      assertEquals(await raised("55P03"), "isRefusal,isLockTimeout,isTimeout");
      assertEquals(await raised("57014"), "isRefusal,isTimeout");
      assertEquals(await raised("25006"), "isRefusal,isReadOnly");
      assertEquals([...await session.query("SELECT 1 AS one")], [{ one: 1 }], "it goes on");
      await session.query("BEGIN");
      assertEquals(await session.commit(), true);
      await session.query("BEGIN");
      assertEquals(await raised("22001"), "isRefusal,isRowError");
      assertEquals(await session.commit(), false, "the server has rolled it back");
      await session.query("BEGIN");
      await session.rollBack();
      const { parameterTypes, columns } = await session.describe(
        "SELECT $1::int AS a, $2::text AS b",
      );
      assertEquals([parameterTypes, columns], [[23, 25], ["a", "b"]]);
      assertEquals(session.isLost, false);
      assertEquals(
        await flags(() => session.query("SELECT pg_terminate_backend($1)", [session.process.pid])),
        "",
      );
      assertEquals(session.isLost, true);
      await assertRejects(() => session.query("SELECT 1"), LostError);
      await session.rollBack();
    });
  },
);

testPostgres(
  "a session is used again until it is lost, renewed, or another one is needed",
  async (url) => {
    const pool = new Pool({ url, timeoutMs: 60_000 }, 2);
    const pid = async (): Promise<unknown> =>
      (await pool.query("SELECT pg_backend_pid() AS pid"))[0]!["pid"];
    const first = await pid();
    assertEquals(await pid(), first);
    const [one, other] = await Promise.all([pid(), pid()]);
    assertEquals([one, other].includes(first), true);
    assert(one !== other, "each caller has its own");
    const last = await pid();
    await assertRejects(() => pool.query("SELECT pg_terminate_backend(pg_backend_pid())"));
    assert(await pid() !== last);
    const before = await pid();
    pool.renew();
    assert(await pid() !== before);
    await assertRejects(
      () => pool.use(() => Promise.reject(new Error("of the caller"))),
      Error,
      "of the caller",
    );
    await Promise.all([pid(), pid(), pid()]);
    await pool.close();
  },
);

testPostgres(
  "a server that takes no writes is named, by the check and by each write",
  async (url) => {
    await withBackend(url, async (backend, epoch) => {
      await backend.readEpoch();
      await backend.check();
      const readOnly = await openPostgres(
        `${url}?default_transaction_read_only=on`,
        DEFAULT_TABLE,
        SETTINGS,
      );
      const reason = "the database is read only: set default_transaction_read_only to off";
      await readOnly.check();
      assertEquals(await readOnly.readEpoch(), epoch);
      await assertRejects(() => readOnly.check(), Error, reason);
      const writes = [1, 2].map((tokenId) => ({ key: KEY, tokenId, edit: set("x"), owner: "" }));
      const failed = { kind: "failed", reason };
      assertEquals(await readOnly.writeGroup(writes, epoch), [failed, failed] as never);
      assertEquals(await readOnly.outcome(1), { kind: "notApplied" });
      await readOnly.close();
    });
  },
);

testPostgres(
  "each table and column that a database lacks is made by the next start",
  async (url, server) => {
    await withBackend(url, async (backend, epoch) => {
      await backend.write(KEY, 1, epoch, set("x"));
    });
    for (
      const sql of [
        ...["leased_proxy", "leased_applied"].map((table) => `DROP TABLE ${table}`),
        "ALTER TABLE leased_proxy DROP COLUMN mark",
        "ALTER TABLE leased_proxy DROP COLUMN mark, DROP COLUMN serves_ms",
        "ALTER TABLE kv DROP COLUMN flags",
        "ALTER TABLE kv DROP COLUMN version",
      ]
    ) {
      await server.execute(sql, url);
      await withBackend(url, async (backend, epoch) => {
        const { version, row } = await backend.read(KEY);
        assertEquals([version, row?.flags], [1, 0], sql);
        assertEquals(await backend.noteMark("m", epoch), true, sql);
      });
    }
    const expiring = await openPostgres(url, { ...DEFAULT_TABLE, expiry: "until" }, SETTINGS);
    assertEquals((await expiring.read(KEY)).version, 1);
    await expiring.close();
  },
);

testPostgres(
  "columns of keys and values: types that keep every byte and tell keys apart",
  async (url, server) => {
    const open = async (key: string, value: string): Promise<string> => {
      await server.execute(
        `DROP TABLE IF EXISTS kv; CREATE TABLE kv (key ${key} PRIMARY KEY, value ${value})`,
        url,
      );
      try {
        await (await openPostgres(url, DEFAULT_TABLE, SETTINGS)).close();
        return "";
      } catch (error) {
        return (error as Error).message.split(";")[0]!;
      }
    };
    for (const key of ["bytea", "text", "varchar", "varchar(9)"]) {
      assertEquals(await open(key, "bytea"), "", key);
    }
    for (const value of ["text", "varchar"]) assertEquals(await open("bytea", value), "");
    const must = (column: string, type: string): string =>
      `column ${column} of table kv is ${type}: must be bytea or text`;
    assertEquals(await open("char(9)", "bytea"), must("key", "character(9)"));
    assertEquals(await open("integer", "text"), must("key", "integer"));
    assertEquals(await open("text", "varchar(9)"), must("value", "character varying(9)"));
    assertEquals(await open("text", "jsonb"), must("value", "jsonb"));
    assertEquals(await open("text", "text"), "");
    await withBackend(url, async (backend, epoch) => {
      // A key that no row of this table has is absent, and an error of no other key.
      const keys = ["\xff", "a\0", "k"];
      await backend.write(KEY, 1, epoch, set("é"));
      const found = await backend.readMany(keys);
      assertEquals(found.map(({ version, epoch: seen }) => [version, seen]), [[0, epoch], [
        0,
        epoch,
      ], [1, epoch]]);
      assertEquals(found[2]!.row!.data, bytes("é"));
    });
  },
);

testPostgres(
  "a publication that lacks changes of the rows is named, and a slot that is another's",
  async (url, server) => {
    await withBackend(url, async (backend) => {
      const unpublished =
        `table kv is not in the publication leased with all its changes: ${ADVICE}`;
      await assertRejects(() => backend.openChanges(true), Error, unpublished);
      await backend.prepareChanges(Views.NONE);
      const follow = async (): Promise<string> => {
        try {
          const stream = await backend.openChanges(true);
          await stream.begin();
          await stream.close();
          return "";
        } catch (error) {
          return (error as Error).message;
        }
      };
      const name = `leased_${await server.execute(
        "SELECT oid FROM pg_database WHERE datname = current_database()",
        url,
      )}`;
      await server.execute(`SELECT pg_create_physical_replication_slot('${name}')`, url);
      assertEquals(
        await follow(),
        `the replication slot ${name} is not one of pgoutput in this database: drop it`,
      );
      await server.execute(`SELECT pg_drop_replication_slot('${name}')`, url);
      assertEquals(await follow(), "");
      const published = (actions: string): string =>
        `ALTER PUBLICATION leased SET (publish = '${actions}')`;
      for (const action of ["insert", "update", "delete", "truncate"]) {
        const others = ["insert", "update", "delete", "truncate"].filter((each) => each !== action);
        await server.execute(published(others.join()), url);
        assertEquals(await follow(), unpublished, `without ${action}`);
      }
      await server.execute(published("insert, update, delete, truncate"), url);
      for (
        const [sql, message] of [
          ["ALTER PUBLICATION leased SET TABLE kv WHERE (flags = 0)", unpublished],
          ["ALTER PUBLICATION leased DROP TABLE kv", unpublished],
          ["ALTER PUBLICATION leased ADD TABLE kv", ""],
          [
            "ALTER TABLE kv REPLICA IDENTITY NOTHING",
            "table kv does not log the old key of a changed row: ALTER TABLE kv REPLICA IDENTITY USING INDEX … of key, or FULL",
          ],
          // Its UPDATE would have failed.
          ["UPDATE kv SET value = value; ALTER TABLE kv REPLICA IDENTITY FULL", unpublished],
          ["ALTER PUBLICATION leased ADD TABLE kv", ""],
        ] as const
      ) {
        await server.execute(sql, url);
        assertEquals(await follow(), message, sql);
      }
    });
  },
);

/** A table that a view names, and why it cannot. */
const TABLES: readonly (readonly [sql: string, mistake: string])[] = [
  ["CREATE VIEW item AS SELECT 1 AS id", "item is no table, or has partitions"],
  ["CREATE TABLE item (id integer) PARTITION BY LIST (id)", "item is no table, or has partitions"],
  ["CREATE UNLOGGED TABLE item (id integer PRIMARY KEY)", "table item is unlogged or temporary"],
  ["CREATE TABLE item (id integer)", "table item has no key for the log, without which writes"],
  [
    "CREATE TABLE item (id integer PRIMARY KEY)",
    "table item is not in the publication leased with all",
  ],
  [
    "CREATE TABLE item (id real PRIMARY KEY)",
    "{x} is real, whose equal values may have several texts",
  ],
  ["CREATE TABLE item (id varchar PRIMARY KEY)", ""],
  ["CREATE TABLE item (id uuid PRIMARY KEY)", ""],
  ["CREATE TABLE item (id boolean PRIMARY KEY)", ""],
  ["CREATE TABLE item (id smallint PRIMARY KEY)", ""],
  ["CREATE TABLE item (id date PRIMARY KEY)", ""],
  [
    "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false); " +
    "CREATE TABLE item (id text COLLATE loose PRIMARY KEY)",
    "column id of item has a nondeterministic collation: one row has several keys",
  ],
  [
    "CREATE TABLE item (id integer, PRIMARY KEY (id)); ALTER TABLE item REPLICA IDENTITY NOTHING",
    "table item has no key for the log",
  ],
];

testPostgres("tables and columns of views: what the log has of them", async (url, server) => {
  const names = { ...DEFAULT_TABLE, table: "rows" };
  const file = {
    "v:{x}": { query: "SELECT id FROM item WHERE id = {x}", changes: { item: "v:{id}" } },
  };
  const views = parseViews(JSON.stringify(file), "views.jsonc", ["v:"]);
  await server.execute("CREATE PUBLICATION leased", url);
  for (const [sql, mistake] of TABLES) {
    await server.execute(sql, url);
    const isTable = !/VIEW|PARTITION|UNLOGGED/.test(sql);
    const isPublished = isTable && !mistake.includes("publication");
    if (isPublished) await server.execute("ALTER PUBLICATION leased ADD TABLE item", url);
    const { broken } = await inspectPostgresViews(url, views, names, 30_000);
    const texts = broken.map(({ reason }) => reason);
    if (mistake === "") assertEquals(texts, [], sql);
    else {assert(
        texts.some((text) => text.startsWith(mistake)),
        `${sql}: ${texts}`,
      );}
    const kind = sql.includes("VIEW") ? "VIEW" : "TABLE";
    await server.execute(`DROP ${kind} item`, url);
  }
  await server.execute("CREATE TABLE item (id integer PRIMARY KEY)", url);
  const isPublished = async (sql: string): Promise<boolean> => {
    await server.execute(sql, url);
    const { broken } = await inspectPostgresViews(url, views, names, 30_000);
    return !broken.some(({ reason }) => reason.includes("is not in the publication"));
  };
  assertEquals(await isPublished("ALTER PUBLICATION leased ADD TABLE item"), true);
  const actions = ["insert", "update", "delete", "truncate"];
  for (const action of actions) {
    const others = actions.filter((each) => each !== action).join();
    const sql = `ALTER PUBLICATION leased SET (publish = '${others}')`;
    assertEquals(await isPublished(sql), false, `without ${action}`);
  }
  assertEquals(await isPublished(`ALTER PUBLICATION leased SET (publish = '${actions}')`), true);
  assertEquals(await isPublished("ALTER PUBLICATION leased SET TABLE item WHERE (id > 0)"), false);
  const own = { ...DEFAULT_TABLE, table: "item" };
  const { broken } = await inspectPostgresViews(url, views, own, 30_000);
  assert(
    broken.some(({ reason }) =>
      reason.includes("item is the table of rows: views are of other tables")
    ),
  );
});

testPostgres(
  "a purge passes rows that are locked, and leaves them for the next one",
  async (url) => {
    const names = { ...DEFAULT_TABLE, expiry: "until" };
    const backend = await openPostgres(url, names, { ...SETTINGS, nowUnixMs: () => 5_000_000 });
    assert(backend instanceof PostgresBackend);
    const { epoch } = await backend.takeOver();
    for (const [at, key] of ["a", "b"].entries()) {
      const edit = { flags: 0, data: bytes("x"), expiresUnixSec: 1 };
      await backend.write(key, at + 1, epoch, edit);
    }
    const versions = async (): Promise<number[]> =>
      (await backend.readMany(["a", "b"])).map(({ version }) => version);
    await withSession(url, async (session) => {
      await session.query("BEGIN");
      await session.query("SELECT FROM kv WHERE key = 'a'::bytea FOR UPDATE");
      await backend.purgeExpired();
      assertEquals(await versions(), [1, 2]);
      await session.rollBack();
    });
    await backend.purgeExpired();
    assertEquals(await versions(), [2, 2]);
    await backend.close();
  },
);

testPostgres(
  "servers that start at once over an empty database make its tables once",
  async (url) => {
    const opened = await Promise.all(
      [1, 2, 3, 4, 5].map(() => openPostgres(url, DEFAULT_TABLE, SETTINGS)),
    );
    const epochs = await Promise.all(opened.map(async (each) => (await each.takeOver()).epoch));
    assertEquals(epochs.toSorted(), [1, 2, 3, 4, 5]);
    await Promise.all(opened.map((each) => each.close()));
  },
);
