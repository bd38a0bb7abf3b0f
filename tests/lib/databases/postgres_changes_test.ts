// The log of PostgreSQL, read by hand: what is taken, confirmed and read again.
import { hasEveryRow } from "../../../lib/databases/views/key_set.ts";
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import type { Changes, ChangeStream } from "../../../lib/databases/base/changes.ts";
import { openPostgres, type PostgresBackend } from "../../../lib/databases/postgres/backend.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { Views } from "../../../lib/databases/views/view.ts";
import { sharedPostgres, testDatabases } from "../../support/servers/databases.ts";
import { until } from "../../support/servers/server_process.ts";

/** Single changes, more than wait to be taken at once. */
const MANY = 12_000;

interface Parts {
  readonly url: string;
  readonly backend: PostgresBackend;
  readonly execute: (sql: string) => Promise<string>;
}

function testChanges(
  name: string,
  test: (parts: Parts) => Promise<void>,
  hasTemporarySlot = false,
): void {
  testDatabases(name, async ({ url }) => {
    const server = await sharedPostgres();
    const settings = { connectionsMax: 2, timeoutMs: 20_000, hasTemporarySlot };
    const backend = await openPostgres(url, DEFAULT_TABLE, settings);
    try {
      await backend.prepareChanges(Views.NONE);
      await test({ url, backend, execute: (sql) => server.execute(sql, url) });
    } finally {
      await backend.close();
    }
  }, ["PostgreSQL"]);
}

async function openStream(backend: PostgresBackend): Promise<ChangeStream> {
  const stream = await backend.openChanges(true);
  await stream.begin();
  return stream;
}

/** Takes changes until one has the key. @returns All of them. */
async function takeUntil(stream: ChangeStream, key: string): Promise<Changes[]> {
  for (const taken: Changes[] = [];;) {
    const changes = await stream.next();
    assertEquals(
      hasEveryRow(changes),
      false,
      `${changes.count} changes at once: no keys are known`,
    );
    if (changes.count > 0) taken.push(changes);
    if (changes.keys.includes(key)) return taken;
  }
}

testChanges("a stream that nobody takes changes from waits, and goes on", async ({
  backend,
  execute,
}) => {
  const stream = await openStream(backend);
  await execute(
    `DO $$ BEGIN FOR i IN 1..${MANY} LOOP INSERT INTO kv (key) VALUES (('k' || i)::bytea); COMMIT; END LOOP; END $$`,
  );
  // Nothing is taken until the server can send no more: its socket is full, or it has sent everything.
  const sender = "SELECT coalesce(wait_event, '') LIKE 'WalSender%' AND " +
    "(wait_event = 'WalSenderWriteData' OR sent_lsn = pg_current_wal_flush_lsn()) " +
    "FROM pg_stat_replication JOIN pg_stat_activity USING (pid)";
  // A stream that reads has read something after queries by another process.
  let end = -1n;
  let looks = 0;
  await until(async () => {
    const isIdle = await execute(sender) === "t";
    looks = isIdle && stream.endPosition === end ? looks + 1 : 0;
    end = stream.endPosition;
    return looks === 3;
  });
  const taken = await takeUntil(stream, `k${MANY}`);
  await stream.close();
  assertEquals(taken.reduce((sum, { count }) => sum + count, 0), MANY);
  assertEquals(new Set(taken.flatMap(({ keys }) => keys)).size, MANY);
  const sizes = taken.map(({ keys }) => keys.length);
  assert(Math.max(...sizes) < MANY, `taken at once: ${sizes}`);
});

testChanges("changes that are not confirmed are sent again", async ({ backend, execute }) => {
  const stream = await openStream(backend);
  const add = (key: string): Promise<string> =>
    execute(`INSERT INTO kv (key) VALUES ('${key}'::bytea)`);
  await add("one");
  const first = await takeUntil(stream, "one");
  await add("two");
  const second = await takeUntil(stream, "two");
  await add("three");
  await until(() => stream.endPosition > second.at(-1)!.position);
  await stream.confirm(first.at(-1)!.position);
  // The server has asked for the position, too.
  const read = stream.retainedBytes;
  await until(() => stream.retainedBytes !== read);
  await stream.close();
  const again = await openStream(backend);
  assertEquals(again.gap, null);
  const taken = await takeUntil(again, "three");
  await again.close();
  assertEquals(taken.flatMap(({ keys }) => keys), ["two", "three"]);
});

testChanges("another timeline or another server than the noted one is a gap", async ({
  backend,
  execute,
}) => {
  const first = await openStream(backend);
  await first.close();
  // As after a failover, and after a restore elsewhere: the note came with the data.
  for (const [pattern, other] of [["^(\\S+) \\S+", "\\1 0000FFFF"], ["^\\S+", "7"]]) {
    await execute(
      `UPDATE leased_follow SET place = regexp_replace(place, '${pattern}', '${other}')`,
    );
    const stream = await openStream(backend);
    assertMatch(stream.gap ?? "", /the server, its timeline, .* has changed/);
    await stream.close();
    const again = await openStream(backend);
    assertEquals(again.gap, null);
    await again.close();
  }
});

testChanges("a slot that the server has given up is a gap", async ({ backend, execute }) => {
  const stream = await openStream(backend);
  await stream.close();
  await execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'");
  await execute("SELECT pg_reload_conf()");
  await until(async () => {
    await execute("SELECT pg_logical_emit_message(false, 'filler', repeat('x', 1000000))");
    await execute("SELECT pg_switch_wal()");
    await execute("CHECKPOINT");
    const state = "SELECT wal_status FROM pg_replication_slots WHERE database = current_database()";
    return (await execute(state)).trim() === "lost";
  });
  const again = await backend.openChanges(true);
  await execute("ALTER SYSTEM RESET max_slot_wal_keep_size");
  await execute("SELECT pg_reload_conf()");
  assertMatch(again.gap!, /is lost: max_slot_wal_keep_size/);
  await again.begin();
  await execute("INSERT INTO kv (key) VALUES ('one'::bytea)");
  await takeUntil(again, "one");
  await again.close();
});

testChanges("a new slot is a gap until everything is emptied", async ({ backend, execute }) => {
  await (await openStream(backend)).close();
  await until(async () => {
    const drop = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots " +
      "WHERE database = current_database()";
    return await execute(drop).then(() => true, () => false);
  });
  for (const reason of [/does not exist/, /was not followed before/]) {
    const unbegun = await backend.openChanges(true);
    assertMatch(unbegun.gap!, reason);
    await unbegun.close();
  }
  await (await openStream(backend)).close();
  const whole = await backend.openChanges(true);
  assertEquals(whole.gap, null);
  await whole.close();
});

testChanges("DDL between the look at the catalog and the begin is noticed at the begin", async ({
  backend,
  execute,
}) => {
  const first = await backend.openChanges(true);
  assertMatch(first.gap!, /does not exist/);
  await execute("ALTER TABLE kv ADD COLUMN more integer");
  await assertRejects(() => first.begin(), Error, "what views read has changed");
  await first.close();
  const again = await backend.openChanges(true);
  assertMatch(again.gap!, /was not followed before/);
  await again.begin();
  await again.close();
  const whole = await backend.openChanges(true);
  assertEquals(whole.gap, null);
  await whole.close();
});

testChanges("DDL is noticed before its position is told", async ({ backend, execute }) => {
  const stream = await openStream(backend);
  await execute("CREATE TABLE other (id integer)");
  const end = await backend.endOfLog();
  for (let position = 0n; position < end;) ({ position } = await stream.next());
  await execute("ALTER TABLE kv ADD COLUMN more integer");
  const after = await backend.endOfLog();
  await assertRejects(
    async () => {
      for (let position = 0n; position < after;) ({ position } = await stream.next());
    },
    Error,
    "what views read has changed",
  );
  await stream.close();
});

testChanges("the connection of an origin before is ended", async ({ backend, execute }) => {
  const before = await openStream(backend);
  let after: ChangeStream | null = null;
  await until(async () => {
    const stream = await backend.openChanges(true);
    // The server needs a while to end the other one.
    await stream.begin().then(() => after = stream, () => stream.close());
    return after !== null;
  });
  await execute("INSERT INTO kv (key) VALUES ('one'::bytea)");
  await takeUntil(after!, "one");
  await after!.close();
  await before.close();
});

testChanges("a temporary slot that has ended before the begin is made anew", async ({
  backend,
  execute,
}) => {
  const slots = (): Promise<string> =>
    execute("SELECT count(*) FROM pg_replication_slots WHERE database = current_database()");
  const first = await backend.openChanges(true);
  assertMatch(first.gap!, /leased_\d+_\d+ is temporary/);
  assertEquals([first.warning, await slots()], [null, "1"]);
  await execute(
    "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE database = current_database()",
  );
  await until(async () => await slots() === "0");
  await assertRejects(() => first.begin());
  await first.close();
  const second = await openStream(backend);
  await execute("INSERT INTO kv (key) VALUES ('one'::bytea)");
  await takeUntil(second, "one");
  await second.close();
  // One that was never begun.
  await (await backend.openChanges(false)).close();
  await until(async () => await slots() === "0");
}, true);

testChanges(
  "what another server has confirmed is a gap, before a stream begins or is opened again",
  async ({
    url,
    backend,
    execute,
  }) => {
    const add = (key: string): Promise<string> =>
      execute(`INSERT INTO kv (key) VALUES ('${key}'::bytea)`);
    /** Another server takes the slot, and confirms a change. */
    const steal = async (key: string): Promise<void> => {
      const settings = { connectionsMax: 2, timeoutMs: 20_000 };
      const other = await openPostgres(url, DEFAULT_TABLE, settings);
      try {
        const stolen = await openStream(other);
        await add(key);
        const { position } = (await takeUntil(stolen, key)).at(-1)!;
        stolen.confirm(position);
        const confirmed = `SELECT confirmed_flush_lsn - '0/0' >= ${position} ` +
          "FROM pg_replication_slots WHERE database = current_database()";
        await until(async () => await execute(confirmed) === "t");
        await stolen.close();
      } finally {
        await other.close();
      }
    };
    const first = await openStream(backend);
    await add("own");
    const [own] = await takeUntil(first, "own");
    first.confirm(own!.position);
    await first.close();
    await steal("between two streams");
    const again = await backend.openChanges(false);
    assertEquals(again.gap, null);
    await assertRejects(() => again.begin(), Error, "another server has read the log");
    await again.close();
    const emptied = await openStream(backend);
    assertMatch(emptied.gap!, /the log was not followed before/);
    await emptied.close();
    const late = await backend.openChanges(false);
    await steal("between opening and beginning");
    await assertRejects(() => late.begin(), Error, "another server has read the log");
    await late.close();
  },
);
