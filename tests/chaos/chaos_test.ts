import { assert, assertEquals } from "@std/assert";
import { type History, violationsOf } from "./history.ts";
import { runChaos } from "./chaos.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { testDatabases } from "../support/servers/databases.ts";

/** A short run; `deno task chaos` makes long ones. */
const DISTURBANCES = 6;

testDatabases(
  "while caches, origins and writers die, no read is stale, and no acknowledged write is lost",
  (database) =>
    withSeed(drawSeed(), async (seed) => {
      const { writes, commits } = await runChaos(database, seed, DISTURBANCES);
      assert(commits >= writes);
    }),
);

/** Two versions of a row, read when the first and when the second was acknowledged. */
function goodHistory(): History {
  return {
    committed: [
      { key: "k", value: "a", version: 1 },
      { key: "k", value: "b", version: 2 },
    ],
    failed: [{ key: "k", value: "x" }],
    acknowledged: [
      { key: "k", value: "a", version: 1, at: 2 },
      { key: "k", value: "b", version: 2, at: 5 },
    ],
    observed: [
      { key: "k", value: null, began: 0, ended: 1, by: "r" },
      { key: "k", value: "a", began: 4, ended: 9, by: "r" },
      { key: "k", value: "b", began: 3, ended: 4, by: "r" },
      { key: "k", value: "b", began: 6, ended: 7, by: "r" },
      { key: "other", value: null, began: 6, ended: 7, by: "r" },
    ],
  };
}

Deno.test("the checker of histories finds what was planted, and nothing else", () => {
  assertEquals(violationsOf(goodHistory()), []);
  const planted = (plant: (history: History) => void): string[] => {
    const history = goodHistory();
    plant(history);
    return violationsOf(history);
  };
  const last = { key: "k", began: 6, ended: 7, by: "r" };
  assertEquals(planted(({ observed }) => observed.push({ ...last, value: "a" })), [
    "stale: [5] k = b acknowledged, version 2; then [6..7] r read k = a, version 1",
  ]);
  assertEquals(planted(({ observed }) => observed.push({ ...last, value: null })), [
    "stale: [5] k = b acknowledged, version 2; then [6..7] r read k = null, version 0",
  ]);
  assertEquals(planted(({ observed }) => observed.push({ ...last, value: "x" })), [
    "never committed: [6..7] r read k = x",
  ]);
  assertEquals(
    planted(({ committed }) => committed.push({ key: "k", value: "a", version: 3 }))[0],
    [
      "applied twice: k a, versions 1 and 3",
    ][0],
  );
  assertEquals(
    planted(({ acknowledged }) => acknowledged.push({ key: "k", value: "c", version: 3, at: 8 })),
    ["lost: [8] k = c acknowledged, version 3; the database has nothing of it"],
  );
  assertEquals(planted(({ failed }) => failed.push({ key: "k", value: "b" })), [
    "failed, but committed: k b, version 2",
  ]);
  assertEquals(
    planted(({ acknowledged }) =>
      acknowledged.push({ key: "k", value: "b", version: 3, at: 0 })
    )[0],
    "lost: [0] k = b acknowledged, version 3; the database has version 2",
  );
  // A group of two writes: the log has the last one.
  const group = { key: "k", value: "d", version: 4 };
  const overwritten = { key: "k", value: "c", version: 3, at: 8 };
  const withGroup = (...acknowledged: History["acknowledged"]): string[] =>
    planted((history) => {
      history.committed.push(group);
      history.acknowledged.push(...acknowledged);
    });
  assertEquals(withGroup(overwritten), []);
  assertEquals(withGroup(overwritten, { ...overwritten, value: "e" }), [
    "lost: [8] k = e acknowledged, version 3; the database has nothing of it",
  ]);
});
