import { assert, assertEquals, assertMatch } from "@std/assert";
import { drawSeed, withSeed } from "../support/seed.ts";
import type { Operation } from "./history.ts";
import { missing, unlisted } from "./coverage.ts";
import { planOf } from "./draw.ts";
import { type ItemHistory, itemViolations } from "./items_check.ts";
import { rowViolations } from "./rows_check.ts";
import { runPlan } from "./outside.ts";
import { mapped } from "./runtime/mapped.ts";

const SEEDS = 8;
/** A seed that has applications. */
const APPLICATIONS_SEED = 15;
const SIZE = { requests: 600, hasLibrary: false, hours: null };

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

Deno.test("what a seed has met is in the list of what can be met", async () => {
  const { met } = await runPlan(planOf(6, SIZE));
  assertEquals(unlisted(met), []);
  const all = missing(new Set());
  assertEquals(missing(met), all.filter((name) => !met.has(name)));
});

/** Runs seeds with applications, in a process of its own. @returns What it prints. */
async function runWithLibrary(...args: readonly string[]): Promise<string> {
  await using seeds = await mapped("tests/simulator/seeds.ts", args);
  const { code, stdout, stderr } = await seeds.command.output();
  const output = new TextDecoder().decode(stdout);
  assertEquals(code, 0, `${output}${new TextDecoder().decode(stderr)}`);
  return output;
}

Deno.test("no seed breaks what the client library promises", async () => {
  await withSeed(drawSeed(), async (seed) => {
    const output = await runWithLibrary(`${SEEDS}`, "--requests", "600", "--from", `${seed}`);
    assertMatch(output, /0 failed/);
  });
});

Deno.test("a seed with applications is the same run each time", async () => {
  const outputs = [];
  for (let count = 0; count < 2; count++) {
    outputs.push(await runWithLibrary("--requests", "600", "--seed", `${APPLICATIONS_SEED}`));
  }
  assertMatch(outputs[0]!, /applications=/);
  assertEquals(outputs[0], outputs[1]);
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

/** A history of items, with these parts. */
function items(parts: Partial<ItemHistory>): ItemHistory {
  return { commits: [], finished: [], loads: [], locks: [], guarded: [], ...parts };
}

const LOADED = { key: "i", version: 1, start: 5, end: 6, by: "app" };
const LOCKED = { key: "l", fence: 7, start: 0, at: 1, by: "app" };
const ITEM_CASES: readonly (readonly [name: string, history: ItemHistory, RegExp | null])[] = [
  ["a value is old after the update has returned", {
    ...items({ loads: [LOADED] }),
    commits: [{ key: "i", version: 1, at: 0 }, { key: "i", version: 2, at: 2 }],
    finished: [{ key: "i", version: 2, at: 4 }],
  }, /stale/],
  ["a value is old before the update has returned", {
    ...items({ loads: [LOADED] }),
    commits: [{ key: "i", version: 1, at: 0 }, { key: "i", version: 2, at: 2 }],
    finished: [{ key: "i", version: 2, at: 7 }],
  }, null],
  ["a value is old after a commit under a token", {
    ...items({ loads: [{ ...LOADED, key: "t" }] }),
    commits: [{ key: "t", version: 1, at: 0 }, { key: "t", version: 2, at: 2 }],
  }, /stale/],
  ["a value was never committed", items({ loads: [LOADED] }), /of nobody/],
  ["a fence does not grow", items({ locks: [LOCKED, { ...LOCKED, start: 2, at: 3 }] }), /not grow/],
  ["a fence grows", items({ locks: [LOCKED, { ...LOCKED, fence: 8, start: 2, at: 3 }] }), null],
  ["a store under a lock that is over", {
    ...items({ locks: [LOCKED, { ...LOCKED, fence: 8, start: 2, at: 3 }] }),
    guarded: [{ key: "l", fence: 7, start: 4 }],
  }, /under fence 7/],
];

for (const [name, history, violation] of ITEM_CASES) {
  Deno.test(`items: ${name}`, () => {
    const violations = itemViolations(history);
    if (violation === null) assertEquals(violations, []);
    else assertMatch(violations.join("\n"), violation);
  });
}
