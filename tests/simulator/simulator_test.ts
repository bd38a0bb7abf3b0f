import { assert, assertEquals, assertMatch } from "@std/assert";
import { drawSeed, withSeed } from "../support/seed.ts";
import type { Operation } from "./history.ts";
import { planOf } from "./plan.ts";
import { rowViolations } from "./rows_check.ts";
import { runPlan } from "./outside.ts";

const SEEDS = 8;
const SIZE = { requests: 600 };

Deno.test("no seed breaks what rows promise", async () => {
  await withSeed(drawSeed(), async (first) => {
    for (let seed = first; seed < first + SEEDS; seed++) {
      const { violations, answered } = await runPlan(planOf(seed, SIZE));
      assertEquals(violations, [], `seed ${seed}`);
      assert(answered > 0, `seed ${seed}: nothing was answered`);
    }
  });
});

Deno.test("a seed is the same run each time", async () => {
  const plan = planOf(6, SIZE);
  const runs = [await runPlan(plan), await runPlan(planOf(6, SIZE))];
  const [first, second] = runs.map(({ hash, events, history }) => [hash, events, history.text]);
  assertEquals(first, second);
  assertEquals((await runPlan(JSON.parse(JSON.stringify(plan)))).hash, runs[0]!.hash);
});

/** A history of a client each, and what is wrong with it. */
const FIRST = { key: "k", value: "a", version: 1 };
const SECOND = { key: "k", value: "b", version: 2 };
const GONE = { key: "k", value: null, version: 2 };

function operation(
  name: Operation["operation"],
  value: string | null,
  start: number,
  end: number | null,
  more: Partial<Operation> = {},
): Operation {
  const outcome = end === null ? "unknown" : "ok";
  return {
    client: "c",
    operation: name,
    key: "k",
    value,
    version: null,
    start,
    end,
    outcome,
    ...more,
  };
}

const CASES: readonly (readonly [
  name: string,
  operations: readonly Operation[],
  committed: Parameters<typeof rowViolations>[1],
  violation: RegExp | null,
])[] = [
  [
    "a read during a write sees either",
    [
      operation("set", "a", 0, 1),
      operation("set", "b", 2, 9),
      operation("get", "a", 3, 4),
      operation("get", "b", 5, 6),
    ],
    [FIRST, SECOND],
    null,
  ],
  [
    "a read after a write sees what was before",
    [
      operation("set", "a", 0, 1),
      operation("set", "b", 2, 3),
      operation("get", "a", 4, 5),
    ],
    [FIRST, SECOND],
    /not atomic/,
  ],
  [
    "a read after a read sees what was before",
    [
      operation("set", "a", 0, 1),
      operation("set", "b", 2, 9),
      operation("get", "b", 3, 4),
      operation("get", "a", 5, 6),
    ],
    [FIRST, SECOND],
    /not atomic/,
  ],
  [
    "a read sees a write that begins later",
    [
      operation("get", "a", 0, 1),
      operation("set", "a", 2, 3),
    ],
    [FIRST],
    /not atomic/,
  ],
  [
    "a write without an outcome takes effect late",
    [
      operation("set", "a", 0, 1),
      operation("set", "b", 2, null),
      operation("get", "a", 3, 4),
      operation("get", "b", 5, 6),
    ],
    [FIRST, SECOND],
    null,
  ],
  ["an acknowledged write is not there", [operation("set", "a", 0, 1)], [], /lost/],
  [
    "a failed write is there",
    [
      operation("set", "a", 0, 1, { outcome: "failed" }),
    ],
    [FIRST],
    /failed, but committed/,
  ],
  [
    "a write is there twice",
    [
      operation("set", "a", 0, 1),
    ],
    [FIRST, { ...FIRST, version: 2 }],
    /applied twice/,
  ],
  ["a value of nobody is read", [operation("get", "x", 0, 1)], [], /never committed/],
  [
    "a deleted row is absent",
    [
      operation("set", "a", 0, 1),
      operation("delete", null, 2, 3),
      operation("get", null, 4, 5),
    ],
    [FIRST, GONE],
    null,
  ],
  [
    "a row is absent before it is deleted",
    [
      operation("set", "a", 0, 1),
      operation("get", null, 2, 3),
      operation("delete", null, 4, 5),
    ],
    [FIRST, GONE],
    /nothing was absent|not atomic/,
  ],
  [
    "a row is absent that was never deleted",
    [
      operation("set", "a", 0, 1),
      operation("get", null, 2, 3),
    ],
    [FIRST],
    /nothing was absent|not atomic/,
  ],
  ["a deletion is lost", [operation("delete", null, 0, 1)], [], /lost/],
  [
    "add replaces a row",
    [
      operation("set", "a", 0, 1),
      operation("add", "b", 2, 3),
    ],
    [FIRST, SECOND],
    /although version 1/,
  ],
  [
    "cas replaces another version",
    [
      operation("set", "a", 0, 1),
      operation("cas", "b", 2, 3, { compared: 7 }),
    ],
    [FIRST, SECOND],
    /although version 1/,
  ],
];

for (const [name, operations, committed, violation] of CASES) {
  Deno.test(`history: ${name}`, () => {
    const violations = rowViolations(operations, committed);
    if (violation === null) assertEquals(violations, []);
    else assertMatch(violations.join("\n"), violation);
  });
}
