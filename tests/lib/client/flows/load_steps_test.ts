import { assertEquals } from "@std/assert";
import { loadFlow, type LoadSettings } from "../../../../lib/client/flows/load.ts";
import type { Entry, KeyState, Step } from "../../../../lib/client/flows/steps.ts";
import { type Given, Play } from "./play.ts";

// The steps of flows, one after the other, for given results of each: no server, no clock.

const SETTINGS: LoadSettings = {
  waitMs: 1_000,
  absentSec: 10,
  refreshSec: 0,
  graceSec: 0,
  softMs: 0,
  tags: [],
};

function entry(value: unknown, graceSec = 0, versions = {}): Entry<unknown> {
  return { value, graceSec, versions };
}

/** What a look finds, by key: the keys' names say what. */
function look(keys: Record<string, KeyState<unknown>>, versions: object | undefined = {}): Given {
  return { seen: new Map(Object.entries(keys)), versions };
}

function loaded(rows: Record<string, unknown>, keep = true, ttlSec = 600): Given {
  return { rows: new Map(Object.entries(rows)), keep, ttlSec };
}

function value(of: unknown, leftSec = 600, graceSec = 0, versions = {}): KeyState<unknown> {
  return { state: "value", cas: "7", leftSec, entry: entry(of, graceSec, versions) };
}

const won = (cas: string): KeyState<unknown> => ({ state: "won", cas });
const held = (leftSec: number): KeyState<unknown> => ({ state: "held", leftSec });
const AWAY: KeyState<unknown> = { state: "away" };

/** Steps as words: what a test compares. */
function told(steps: readonly Step<unknown>[]): unknown[] {
  return steps.map((step) => {
    switch (step.kind) {
      case "look":
      case "claim":
      case "unclaim":
        return [step.kind, ...step.keys];
      case "load":
        return ["load", ...step.keys, ...(step.softMs === undefined ? [] : [step.softMs])];
      case "fill":
        return [
          "fill",
          ...step.fills.map(({ key, cas, ttlSec, entry: { value } }) => [key, cas, ttlSec, value]),
        ];
      case "drop":
        return ["drop", ...step.items.map(({ key, cas }) => `${key} ${cas}`)];
      case "answer":
        return "error" in step.outcome ? [step.key, "error", step.outcome.error] : [
          step.key,
          step.outcome.value,
          step.outcome.from,
          ...(step.outcome.isStale ? ["stale"] : []),
        ];
      case "offer": {
        const { value, isStale } = step.outcome as { value: unknown; isStale: boolean };
        assertEquals(isStale, true);
        return ["offer", step.key, value];
      }
      case "sleep":
        return ["sleep", step.ms];
      default:
        return step;
    }
  });
}

/** Each load: keys, settings, results of its steps, and its steps. */
const LOADS: Record<
  string,
  readonly [
    keys: readonly string[],
    settings: Partial<LoadSettings>,
    given: readonly Given[],
    steps: readonly unknown[],
  ]
> = {
  "a value is answered": [["k"], {}, [look({ k: value(1) })], [["look", "k"], ["k", 1, "cache"]]],
  "a value in its grace has no time left": [
    ["k"],
    { graceSec: 5 },
    [look({ k: value(1, 5, 5) }), new Set(["k"]), loaded({ k: 2 })],
    [
      ["look", "k"],
      ["claim", "k"],
      ["offer", "k", 1],
      ["load", "k"],
      ["fill", ["k", "7", 600, 2]],
      ["k", 2, "load"],
    ],
  ],
  "a value a second before its grace is answered": [
    ["k"],
    { graceSec: 5 },
    [look({ k: value(1, 6, 5) })],
    [["look", "k"], ["k", 1, "cache"]],
  ],
  "won keys are loaded and filled, absent ones for a shorter time": [
    ["a", "b"],
    {},
    [look({ a: won("1"), b: won("2") }), loaded({ a: "A" })],
    [
      ["look", "a", "b"],
      ["load", "a", "b"],
      ["fill", ["a", "1", 600, "A"], ["b", "2", 10, undefined]],
      ["a", "A", "load"],
      ["b", undefined, "load"],
    ],
  ],
  "an absent row is not kept for 0 s": [
    ["a", "b"],
    { absentSec: 0 },
    [look({ a: won("1"), b: won("2") }), loaded({ a: "A" }, true, 0)],
    [
      ["look", "a", "b"],
      ["load", "a", "b"],
      ["drop", "b 2"],
      ["fill", ["a", "1", 0, "A"]],
      ["a", "A", "load"],
      ["b", undefined, "load"],
    ],
  ],
  "rows that must not be kept give their leases back": [
    ["a", "b"],
    {},
    [look({ a: won("1"), b: won("2") }), loaded({ a: "A", b: "B" }, false)],
    [
      ["look", "a", "b"],
      ["load", "a", "b"],
      ["drop", "a 1", "b 2"],
      ["a", "A", "load"],
      ["b", "B", "load"],
    ],
  ],
  "a failed load gives all leases back, and answers all": [
    ["a", "b", "c"],
    {},
    [look({ a: won("1"), b: value(2), c: won("3") }), { throws: "no database" }],
    [
      ["look", "a", "b", "c"],
      ["b", 2, "cache"],
      ["load", "a", "c"],
      ["drop", "a 1", "c 3"],
      ["a", "error", "no database"],
      ["c", "error", "no database"],
    ],
  ],
  "a failed load serves values in their grace, whose items stay": [
    ["a", "b"],
    { graceSec: 9 },
    [look({ a: value(1, 4, 9), b: won("3") }), new Set(["a"]), { throws: "no database" }],
    [
      ["look", "a", "b"],
      ["claim", "a"],
      ["offer", "a", 1],
      ["load", "b", "a"],
      ["drop", "b 3"],
      ["unclaim", "a"],
      ["b", "error", "no database"],
      ["a", 1, "cache", "stale"],
    ],
  ],
  "a failed load of values alone drops their claims only": [
    ["a"],
    { graceSec: 9 },
    [look({ a: value(1, 4, 9) }), new Set(["a"]), { throws: "no database" }],
    [
      ["look", "a"],
      ["claim", "a"],
      ["offer", "a", 1],
      ["load", "a"],
      ["unclaim", "a"],
      ["a", 1, "cache", "stale"],
    ],
  ],
  "a late load serves values in their grace, then fills": [
    ["a", "b"],
    { graceSec: 9, softMs: 50 },
    [look({ a: value(1, 4, 9), b: won("3") }), new Set(["a"]), "late", loaded({ a: 2, b: 3 })],
    [
      ["look", "a", "b"],
      ["claim", "a"],
      ["offer", "a", 1],
      ["load", "b", "a", 50],
      ["a", 1, "cache", "stale"],
      { kind: "loadRest" },
      ["fill", ["b", "3", 600, 3], ["a", "7", 600, 2]],
      ["b", 3, "load"],
    ],
  ],
  "a late load that fails answers those that have no answer": [
    ["a", "b"],
    { graceSec: 9, softMs: 50 },
    [look({ a: value(1, 4, 9), b: won("3") }), new Set(["a"]), "late", { throws: "down" }],
    [
      ["look", "a", "b"],
      ["claim", "a"],
      ["offer", "a", 1],
      ["load", "b", "a", 50],
      ["a", 1, "cache", "stale"],
      { kind: "loadRest" },
      ["drop", "b 3"],
      ["unclaim", "a"],
      ["b", "error", "down"],
    ],
  ],
  "softMs of 1 is a limit": [
    ["a"],
    { graceSec: 9, softMs: 1 },
    [look({ a: value(1, 4, 9) }), new Set(["a"]), loaded({ a: 2 })],
    [
      ["look", "a"],
      ["claim", "a"],
      ["offer", "a", 1],
      ["load", "a", 1],
      ["fill", ["a", "7", 600, 2]],
      ["a", 2, "load"],
    ],
  ],
  "a key with an update token is loaded at once, and not filled; others wait all the same": [
    ["a", "b"],
    { waitMs: 10 },
    [
      look({ a: { state: "uncacheable" }, b: held(5) }),
      loaded({ a: 1 }),
      look({ b: held(5) }),
      loaded({ b: 2 }),
    ],
    [
      ["look", "a", "b"],
      ["load", "a"],
      ["a", 1, "load"],
      ["sleep", 10],
      ["look", "b"],
      ["load", "b"],
      ["b", 2, "load"],
    ],
  ],
  "softMs concerns no load without a value": [
    ["b"],
    { graceSec: 9, softMs: 50 },
    [look({ b: won("3") }), loaded({ b: 3 })],
    [["look", "b"], ["load", "b"], ["fill", ["b", "3", 600, 3]], ["b", 3, "load"]],
  ],
  "pauses double up to 200 ms, and waitMs is their sum": [
    ["k"],
    { waitMs: 700 },
    [...new Array(8).fill(look({ k: held(9) })), loaded({ k: 1 })],
    [
      ...[10, 20, 40, 80, 160, 200, 190].flatMap((ms) => [["look", "k"], ["sleep", ms]]),
      ["look", "k"],
      ["load", "k"],
      ["k", 1, "load"],
    ],
  ],
  "a wait ends with the lease; the rest of it counts": [
    ["k"],
    { waitMs: 60_000 },
    [look({ k: held(1) }), look({ k: held(0) }), loaded({})],
    [["look", "k"], ["sleep", 10], ["look", "k"], ["load", "k"], ["k", undefined, "load"]],
  ],
  "a lease that is made anew again and again does not lengthen the wait": [
    ["k"],
    { waitMs: 60_000 },
    [...new Array(10).fill(look({ k: held(1) })), loaded({ k: 1 })],
    [
      ...[10, 20, 40, 80, 160, 200, 200, 200, 90].flatMap((ms) => [["look", "k"], ["sleep", ms]]),
      ["look", "k"],
      ["load", "k"],
      ["k", 1, "load"],
    ],
  ],
  "of two leases the shorter one ends the wait of both": [
    ["a", "b"],
    {},
    [look({ a: held(0), b: held(5) }), loaded({ a: 1, b: 2 })],
    [["look", "a", "b"], ["load", "a", "b"], ["a", 1, "load"], ["b", 2, "load"]],
  ],
  "a load alone that fails answers all": [
    ["a", "b"],
    { waitMs: 0 },
    [look({ a: held(5), b: held(5) }), { throws: "down" }],
    [["look", "a", "b"], ["load", "a", "b"], ["a", "error", "down"], ["b", "error", "down"]],
  ],
  "waiting keys are looked at again, without those that have an answer": [
    ["a", "b", "c"],
    {},
    [
      look({ a: value(1), b: held(5), c: won("3") }),
      loaded({ c: 3 }),
      look({ b: value(2) }),
    ],
    [
      ["look", "a", "b", "c"],
      ["a", 1, "cache"],
      ["load", "c"],
      ["fill", ["c", "3", 600, 3]],
      ["c", 3, "load"],
      ["sleep", 10],
      ["look", "b"],
      ["b", 2, "cache"],
    ],
  ],
  "a server that is away: the key is loaded, nothing is kept": [
    ["a", "b"],
    {},
    [look({ a: AWAY, b: AWAY }), loaded({ a: 1 })],
    [["look", "a", "b"], ["load", "a", "b"], ["a", 1, "load"], ["b", undefined, "load"]],
  ],
  "a tag's server that is away: leases are given back, values are not believed": [
    ["a", "b"],
    { tags: ["t"] },
    [{ seen: new Map([["a", won("1")], ["b", value(2)]]), versions: undefined }, loaded({ a: 1 })],
    [
      ["look", "a", "b"],
      ["drop", "a 1"],
      ["load", "a", "b"],
      ["a", 1, "load"],
      ["b", undefined, "load"],
    ],
  ],
  "values of other versions are dropped, and looked at again": [
    ["a", "b", "c"],
    { tags: ["t", "u"] },
    [
      look({
        a: value(1, 600, 0, { t: "1", u: "2" }),
        b: value(2, 600, 0, { t: "1", u: "1" }),
        c: value(3, 600, 0, { t: "1", u: "2", v: "3" }),
      }, { t: "1", u: "2" }),
      look({ b: won("8"), c: won("9") }, { t: "1", u: "3" }),
      loaded({ b: 2, c: 3 }),
    ],
    [
      ["look", "a", "b", "c"],
      ["a", 1, "cache"],
      ["drop", "b 7", "c 7"],
      ["look", "b", "c"],
      ["load", "b", "c"],
      ["fill", ["b", "8", 600, 2], ["c", "9", 600, 3]],
      ["b", 2, "load"],
      ["c", 3, "load"],
    ],
  ],
  "after eight rounds of other versions the key is loaded alone": [
    ["k"],
    { tags: ["t"] },
    [
      ...new Array(9).fill(look({ k: value(1, 600, 0, { t: "1" }) }, { t: "2" })),
      loaded({ k: 5 }),
    ],
    [
      ...new Array(9).fill([["look", "k"], ["drop", "k 7"]]).flat(),
      ["load", "k"],
      ["k", 5, "load"],
    ],
  ],
  "rounds of a wait are none of other versions": [
    ["k"],
    { tags: ["t"], waitMs: 60_000 },
    [
      ...new Array(9).fill(look({ k: held(60) }, { t: "2" })),
      look({ k: value(1, 600, 0, { t: "1" }) }, { t: "2" }),
      look({ k: value(2, 600, 0, { t: "2" }) }, { t: "2" }),
    ],
    [
      ...[10, 20, 40, 80, 160, 200, 200, 200, 200].flatMap((ms) => [["look", "k"], ["sleep", ms]]),
      ["look", "k"],
      ["drop", "k 7"],
      ["look", "k"],
      ["k", 2, "cache"],
    ],
  ],
  "a value that expires soon is answered, then loaded anew by one": [
    ["a", "b", "c"],
    { refreshSec: 30 },
    [
      look({ a: value(1, 30), b: value(2, 31), c: value(3, 1) }),
      new Set(["c"]),
      loaded({ c: 4 }),
    ],
    [
      ["look", "a", "b", "c"],
      ["a", 1, "cache"],
      ["b", 2, "cache"],
      ["c", 3, "cache"],
      ["claim", "a", "c"],
      ["load", "c"],
      ["fill", ["c", "7", 600, 4]],
    ],
  ],
  "nobody is told of a refresh that another client does, or that fails": [
    ["a"],
    { refreshSec: 30 },
    [look({ a: value(1, 3) }), new Set()],
    [["look", "a"], ["a", 1, "cache"], ["claim", "a"]],
  ],
  "a refresh that fails": [
    ["a"],
    { refreshSec: 30 },
    [look({ a: value(1, 3) }), new Set(["a"]), { throws: "down" }],
    [["look", "a"], ["a", 1, "cache"], ["claim", "a"], ["load", "a"], ["unclaim", "a"]],
  ],
  "a value in its grace that another client loads is served at once, beside keys that wait": [
    ["a", "b"],
    { graceSec: 9, waitMs: 10 },
    [
      look({ a: value(1, 4, 9), b: held(5) }),
      new Set(),
      look({ b: held(5) }),
      loaded({ b: 2 }),
    ],
    [
      ["look", "a", "b"],
      ["claim", "a"],
      ["a", 1, "cache", "stale"],
      ["sleep", 10],
      ["look", "b"],
      ["load", "b"],
      ["b", 2, "load"],
    ],
  ],
};

for (const [name, [keys, settings, given, steps]] of Object.entries(LOADS)) {
  Deno.test(`the steps of a load: ${name}`, () => {
    const play = new Play(given);
    play.run(loadFlow(keys, { ...SETTINGS, ...settings }));
    // The order of the keys that wait is of no account.
    assertEquals(told(play.steps).map(sorted), steps.map(sorted));
  });
}

function sorted(step: unknown): unknown {
  return Array.isArray(step) && step[0] === "look" ? [...step].sort() : step;
}

Deno.test("the steps of a load: the entries of fills have the load's versions and grace", () => {
  const versions = { t: "4" };
  const play = new Play([look({ k: won("1") }, versions), loaded({ k: 1 })]);
  play.run(loadFlow(["k"], { ...SETTINGS, graceSec: 3, tags: ["t"] }));
  const fills = play.steps.flatMap((step) => step.kind === "fill" ? step.fills : []);
  assertEquals(fills.map((fill) => fill.entry), [{ value: 1, graceSec: 3, versions }]);
});
