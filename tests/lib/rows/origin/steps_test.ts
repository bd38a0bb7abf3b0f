// Each step of the flows becomes a call of the database or the store; the views beside the rows.
import { assert, assertEquals, assertRejects } from "@std/assert";
import type {
  Backend,
  Found,
  PreparedViews,
  ViewKey,
} from "../../../../lib/databases/base/backend.ts";
import {
  type FlowStep,
  type RowFlow,
  step,
  type StepKind,
} from "../../../../lib/rows/flows/steps.ts";
import { ActiveViews } from "../../../../lib/rows/origin/active_views.ts";
import { StartError } from "../../../../lib/rows/origin/start_error.ts";
import { StepRunner } from "../../../../lib/rows/origin/step_runner.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { latin1Text } from "../../../../store/base/bytes.ts";

type Step = FlowStep;

/** A database that notes its calls, and answers each with its name, or as a test says. */
class World {
  readonly calls: unknown[][] = [];
  readonly answers: Partial<Record<string, () => Promise<unknown>>> = {};
  readonly backend = new Proxy({} as Backend, {
    get: (_, name) => (...args: unknown[]) => {
      this.calls.push([name, ...args]);
      return this.answers[String(name)]?.() ?? Promise.resolve(String(name));
    },
  });
  readonly runner = new StepRunner(this.backend, (ms) => {
    this.calls.push(["sleep", ms]);
    return Promise.resolve();
  });

  async run(request: Step): Promise<unknown> {
    return await this.runner.run(step(request as Step & { kind: StepKind }));
  }
}

const KEY = "k\xff";

/** A step, and the call that it becomes. */
const CALLS: readonly (readonly [Step, readonly unknown[]])[] = [
  [{ kind: "lockOrigin" }, ["lockOrigin"]],
  [{ kind: "unlockOrigin" }, ["unlockOrigin"]],
  [{ kind: "takeOver", rightMs: 5 }, ["takeOver", 5]],
  [{ kind: "readEpoch" }, ["readEpoch"]],
  [{ kind: "noteEnd", epoch: 6 }, ["noteEnd", 6]],
  [{ kind: "noteMark", mark: "m", epoch: 6 }, ["noteMark", "m", 6]],
  [{ kind: "askOutcome", tokenId: 7 }, ["outcome", 7]],
  [{ kind: "readRows", keys: [KEY] }, ["readMany", [KEY]]],
  [
    {
      kind: "writeRows",
      writes: [{ key: KEY, tokenId: 7, edit: "delete", owner: "me", sinceMs: 8 }],
      epoch: 6,
    },
    ["writeGroup", [{ key: KEY, tokenId: 7, edit: "delete", owner: "me", sinceMs: 8 }], 6],
  ],
];

Deno.test("a sleep for the lock asks for it until it has it, whatever the database says, and sleeps to its end", async () => {
  const world = new World();
  const answers = [() => Promise.reject(new Error("down")), () => Promise.resolve(false)];
  world.answers["lockOrigin"] = () => (answers.shift() ?? (() => Promise.resolve(true)))();
  await world.run({ kind: "sleep", ms: 90, takesLock: true });
  const asked = [20, 20, 20].flatMap((ms) => [["sleep", ms], ["lockOrigin"]]);
  assertEquals(world.calls, [...asked, ["sleep", 20], ["sleep", 10]]);
});

Deno.test("each step becomes its call, and the answer its result", async () => {
  for (const [request, call] of CALLS) {
    const world = new World();
    assertEquals(await world.run(request), call[0]);
    assertEquals(world.calls, [call]);
  }
  const world = new World();
  await world.run({ kind: "sleep", ms: 9 });
  assertEquals(world.calls, [["sleep", 9]]);
  const deletion = { kind: "delete", keys: ["a", "b"], prefixes: ["c"], writers: [1, 0] } as const;
  world.runner.delete = (rows) => [rows === deletion, false];
  assertEquals(await world.run(deletion), [true, false]);
  assertEquals(world.runner.times.delete.count, 0, "it did not wait");
  world.runner.delete = (rows) => Promise.resolve([rows === deletion]);
  assertEquals(await world.run(deletion), [true]);
  assertEquals(world.runner.times.delete.count, 1);
});

Deno.test("a flow gets the error of its step, and may go on; one that it does not catch ends it", async () => {
  const world = new World();
  world.answers["readEpoch"] = () => Promise.reject(new Error("away"));
  const flow = function* (): RowFlow<string> {
    try {
      yield* step({ kind: "readEpoch" });
      return "no error";
    } catch (error) {
      yield* step({ kind: "sleep", ms: 1 });
      return (error as Error).message;
    }
  };
  assertEquals(await world.runner.run(flow()), "away");
  await assertRejects(() => world.run({ kind: "readEpoch" }), Error, "away");
  const { count, failures } = world.runner.times.readEpoch;
  assertEquals([count, failures], [2, 2]);
});

Deno.test("steps are counted and timed, with the failures in their results", async () => {
  const { now } = performance;
  let nowMs = 0;
  performance.now = () => nowMs;
  try {
    const world = new World();
    world.answers["writeGroup"] = () => {
      nowMs += 30;
      const kinds = ["committed", "failed", "unknown", "refused", "postponed", "fenced"];
      return Promise.resolve(kinds.map((kind) => ({ kind })));
    };
    world.answers["readMany"] = () => Promise.resolve((nowMs += 5, [{ row: null }, null]));
    const [write, read] = [CALLS.at(-1)!, CALLS.at(-2)!].map(([request]) => request);
    for (const request of [write!, write!, read!]) await world.run(request);
    const { writeRows, readRows, askOutcome } = world.runner.times;
    assertEquals({ ...writeRows }, { count: 2, sumMs: 60, failures: 4 });
    assertEquals({ ...readRows }, { count: 1, sumMs: 5, failures: 0 });
    assertEquals({ ...askOutcome }, { count: 0, sumMs: 0, failures: 0 });
    await world.run({ kind: "sleep", ms: 1 });
    assertEquals(Object.values(world.runner.times).reduce((sum, each) => sum + each.count, 0), 3);
  } finally {
    performance.now = now;
  }
});

const VIEWS = parseViews(
  JSON.stringify({
    "first:{x}": { query: "SELECT {x}", changes: { one: "first:{x}" } },
    "a:b:": { query: "SELECT 1", changes: { one: "a:b:" } },
    "c:{x}": { query: "SELECT {x}", changes: { one: "c:{x}" } },
  }),
  "views.jsonc",
  [""],
);

function found(name: string, problem?: string): Found {
  const row = { flags: 0, data: new TextEncoder().encode(name), version: 1 };
  return { row, version: 1, epoch: 1, ...problem === undefined ? {} : { problem } };
}

/** Prepared views that answer with the view's name and the values. */
function prepared(closed: string[], name = "first"): PreparedViews {
  return {
    broken: [],
    readMany: (keys: readonly ViewKey[]) =>
      Promise.resolve(
        keys.map(({ view, values }) =>
          found(`${view.name}=${values}`, values[0] === "bad" ? "no" : undefined)
        ),
      ),
    close: () => Promise.resolve(void closed.push(name)),
  };
}

Deno.test("keys of views are read by their queries and the others from the table, in the order of the keys", async () => {
  const world = new World();
  world.answers["readMany"] = () => Promise.resolve(["one", "two"].map((name) => found(name)));
  const read = async (...keys: string[]): Promise<string[]> => {
    world.calls.length = 0;
    const results = await world.run({ kind: "readRows", keys }) as readonly Found[];
    return results.map(({ row }) => latin1Text(row!.data));
  };
  assertEquals(await read("first:1", "c:2"), ["one", "two"], "there are no views");
  await world.runner.views.replace(VIEWS, prepared([]));
  assertEquals(await read("x", "y"), ["one", "two"]);
  assertEquals(await read("first:1", "c:2"), ["first:{x}=1", "c:{x}=2"]);
  assertEquals(world.calls, [], "the table is not asked");
  assertEquals(await read("x", "first:1", "c:2", "y"), ["one", "first:{x}=1", "c:{x}=2", "two"]);
  assertEquals(world.calls, [["readMany", ["x", "y"]]]);
  assertEquals(world.runner.views.counts, { reads: 4, problems: 0 });
});

Deno.test("views that are replaced are closed after the new ones serve, and their prefixes are all named", async () => {
  const views = new ActiveViews();
  const closed: string[] = [];
  assertEquals([views.size, views.find("c:1"), views.refusalOf("c:1")], [0, null, null]);
  assertEquals(await views.replace(VIEWS, prepared(closed)), ["first:", "a:b:", "c:"]);
  assertEquals([views.size, closed], [3, []]);
  assertEquals(views.refusalOf("c:1"), "the keys c:{x} are of a view, which cannot be written");
  assertEquals(views.refusalOf("d:1"), null);
  const other = parseViews(
    JSON.stringify({ "c:{y}": { query: "SELECT {y}", changes: { one: "c:{y}" } } }),
    "other.jsonc",
    [""],
  );
  assertEquals(await views.replace(other, prepared(closed, "second")), ["first:", "a:b:", "c:"]);
  assertEquals([closed, views.find("first:1")], [["first"], null]);
  const keys = ["c:1", "c:bad", "c:bad"].map((key) => views.find(key)!);
  const results = await views.read(keys);
  assertEquals(results.map(({ problem }) => problem), [undefined, "no", "no"]);
  assertEquals(views.counts, { reads: 3, problems: 2 });
  await views.close();
  await views.close();
  assertEquals(closed, ["first", "second"]);
});

Deno.test("a start that failed says which part, and whether an option is to blame", () => {
  const error = new StartError("cannot use --views", new Error("line 1"), true);
  assertEquals([error.message, error.isUsage], ["cannot use --views: line 1", true]);
  assert(!new StartError("x", "y").isUsage);
});
