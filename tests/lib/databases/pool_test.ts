import { assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { Pool } from "../../../lib/databases/postgres/pool.ts";
import { testDatabases } from "../../support/servers/databases.ts";

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
