import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { Pool } from "../../../lib/databases/postgres/pool.ts";
import { Session } from "../../../lib/databases/postgres/session.ts";
import { sharedPostgres, testDatabases } from "../../support/servers/databases.ts";
import { until } from "../../support/servers/server_process.ts";

const TIMEOUT_MS = 300;
/** Statements that may take as long as the whole test. */
const MANY = 1000;

testDatabases("callers that have waited in vain get no session later", async ({ url }) => {
  const pool = new Pool({ url, timeoutMs: TIMEOUT_MS }, 2);
  const releases: (() => void)[] = [];
  const hold = (): Promise<void> =>
    pool.use(() => new Promise<void>((resolve) => releases.push(resolve)), MANY);
  const held = [hold(), hold()];
  for (let round = 0; round < 3; round++) {
    await assertRejects(
      () => pool.query("SELECT 1"),
      Error,
      `the database is busy: no connection free within ${TIMEOUT_MS} ms`,
    );
  }
  const served: string[] = [];
  const last = ["first", "second", "third"].map(async (name) => {
    await pool.query("SELECT 1");
    served.push(name);
  });
  for (const release of releases) release();
  await Promise.all([...held, ...last]);
  assertEquals(served.toSorted(), ["first", "second", "third"]);
  // Both slots are free again.
  await Promise.all([pool.query("SELECT 1"), pool.query("SELECT 1")]);
  await pool.close();
}, ["PostgreSQL"]);

testDatabases(
  "a session that is in use when sessions are renewed is not used again",
  async ({ url }) => {
    const pool = new Pool({ url, timeoutMs: 60_000 }, 1);
    const before = await pool.use(async (session) => {
      pool.renew();
      await session.query("SELECT 1");
      return session.process;
    });
    const after = await pool.use((session) => Promise.resolve(session.process));
    assertNotEquals(after, before);
    assertEquals(await pool.use((session) => Promise.resolve(session.process)), after);
    await pool.close();
  },
  ["PostgreSQL"],
);

testDatabases(
  "when the server takes no more sessions, callers wait for those that the pool has",
  async ({ url }) => {
    const server = await sharedPostgres();
    const role = `few${Date.now()}`;
    await server.execute(`CREATE ROLE ${role} LOGIN CONNECTION LIMIT 2`, url);
    const at = new URL(url);
    at.username = role;
    const pool = new Pool({ url: at.href, timeoutMs: 30_000 }, 8);
    const slow = Array.from(
      { length: 40 },
      () => pool.query("SELECT pg_sleep(0.02), pg_backend_pid() AS pid"),
    );
    const pids = (await Promise.all(slow)).map(([row]) => row!["pid"]);
    assertEquals(new Set(pids).size, 2);
    await pool.close();
    // None that it could wait for.
    const other = await Session.open({ url: at.href, timeoutMs: 30_000 });
    const others = await Session.open({ url: at.href, timeoutMs: 30_000 });
    const without = new Pool({ url: at.href, timeoutMs: 30_000 }, 8);
    const refused = `too many connections for role "${role}"`;
    await assertRejects(() => without.query("SELECT 1"), Error, refused);
    await Promise.all([other.close(), others.close()]);
    await until(async () => (await without.query("SELECT 1").catch(() => [])).length === 1);
    await without.close();
  },
  ["PostgreSQL"],
);

Deno.test("callers that wait for a session get it in their order, at most one each, and not after their time", async () => {
  const { open } = Session;
  const opened: { isLost: boolean; close: () => Promise<void> }[] = [];
  Session.open = () => {
    if (opened.length > 0) return Promise.reject(new Error("too many connections"));
    const session = { isLost: false, close: () => Promise.resolve() };
    opened.push(session);
    return Promise.resolve(session as unknown as Session);
  };
  try {
    const pool = new Pool({ url: "postgres://nowhere/", timeoutMs: 60_000 }, 8);
    const order: number[] = [];
    const first = Promise.withResolvers<void>();
    const held = pool.use(() => first.promise);
    const waiting = [1, 2, 3].map((each) =>
      pool.use(() => {
        order.push(each);
        return Promise.resolve();
      })
    );
    await Promise.resolve();
    first.resolve();
    await Promise.all([held, ...waiting]);
    assertEquals(order, [1, 2, 3]);
    // One that is lost is given to nobody: those that wait learn why there is none.
    const second = Promise.withResolvers<void>();
    const losing = pool.use(() => second.promise);
    const refused = [1, 2].map((each) =>
      assertRejects(() => pool.use(() => Promise.resolve(each)), Error, "too many connections")
    );
    await new Promise((resolve) => setTimeout(resolve, 1));
    opened[0]!.isLost = true;
    second.resolve();
    await Promise.all([losing, ...refused]);
    await pool.close();
    assertEquals(opened.length, 1);
  } finally {
    Session.open = open;
  }
});
