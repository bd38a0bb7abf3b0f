// A follower's work, counts and reports for each set of changes; the test is the log and the caches.
import type { KeySet } from "../../../../lib/databases/views/key_set.ts";
import type { FlowStep } from "../../../../lib/rows/flows/steps.ts";
import { keySet, shownKeys } from "../../../support/rows/key_sets.ts";
import { assertEquals } from "@std/assert";
import { mock } from "node:test";
import type { Backend } from "../../../../lib/databases/base/backend.ts";
import type { Changes, ChangeStream } from "../../../../lib/databases/base/changes.ts";
import { followStats } from "../../../../lib/rows/follow/follow_stats.ts";
import { Follower } from "../../../../lib/rows/follow/follower.ts";

/** A follower whose every step is written down. */
class World {
  readonly done: string[] = [];
  readonly events: string[] = [];
  /** The problem as it is when each event is told. */
  readonly problemsTold: (string | null)[] = [];
  readonly gaps: (string | null)[] = [null];
  retainedBytes = 7;
  end = 0n;
  /** Called while the database is asked for the end of its log. */
  beforeEnd: () => Promise<unknown> = () => Promise.resolve();
  endPosition = 0n;
  #send: (changes: Changes) => void = () => {};
  #fail: (error: Error) => void = () => {};
  readonly follower: Follower;

  constructor() {
    const open = (evicts: boolean): Promise<ChangeStream> => {
      this.done.push(`open ${evicts}`);
      return Promise.resolve(this.#stream(this.gaps.shift() ?? null));
    };
    const endOfLogOnDisk = (): Promise<bigint> => this.beforeEnd().then(() => this.end);
    const backend = { openChanges: open, endOfLogOnDisk };
    this.follower = new Follower(
      backend as unknown as Backend,
      {
        note: (changed) => {
          const texts = shownKeys(changed);
          if (texts.length > 0) this.done.push(`note ${texts}`);
        },
        take: (step) => void this.done.push(`${step.kind} ${shownKeys(step as FlowStep & KeySet)}`),
      },
      ({ level, event, message }) => {
        this.events.push(`${level} ${event}: ${message}`);
        this.problemsTold.push(this.follower.problem);
      },
      (ms) => {
        this.done.push(`sleep ${ms}`);
        return Promise.resolve();
      },
    );
  }

  #stream(gap: string | null): ChangeStream {
    const { retainedBytes, endPosition, done } = this;
    return {
      ...{ warning: null, gap, retainedBytes, endPosition },
      begin: () => Promise.resolve(void done.push("begin")),
      next: () =>
        new Promise((resolve, reject) => {
          this.#send = resolve;
          this.#fail = reject;
        }),
      confirm: (position) => void done.push(`confirm ${position}`),
      hasten: () => {},
      close: () => {
        this.#fail(new Error("closed"));
        return Promise.resolve(void done.push("close"));
      },
    };
  }

  /** @returns The work since the last call. */
  async settle(): Promise<string[]> {
    for (let turn = 0; turn < 60; turn++) await Promise.resolve();
    return this.done.splice(0);
  }

  async send(
    keys: readonly string[],
    position: bigint,
    more: Partial<Changes> = {},
  ): Promise<string[]> {
    this.#send({ ...keySet(...keys), position, count: keys.length, ...more });
    return await this.settle();
  }

  async fail(reason: string): Promise<string[]> {
    this.#fail(new Error(reason));
    return await this.settle();
  }
}

async function started(world = new World()): Promise<World> {
  await world.follower.open();
  void world.follower.run();
  return world;
}

Deno.test("changes are expelled, then confirmed, and counted", async () => {
  const world = await started();
  assertEquals(await world.settle(), ["open true", "begin"]);
  assertEquals(await world.send(["a", "b"], 5n, { count: 3 }), [
    "note a,b",
    "delete a,b",
    "confirm 5",
  ]);
  assertEquals(await world.send([], 6n), ["confirm 6"], "nothing is expelled");
  assertEquals(await world.send(["a", "b", "c"], 9n), ["note a,b,c", "delete a,b,c", "confirm 9"]);
  const { counts, position, problem, retainedBytes } = world.follower;
  assertEquals(counts, { changes: 6, keys: 5, floods: 0, gaps: 0 });
  assertEquals([position, problem, retainedBytes], [9n, null, 7]);
  assertEquals(world.events, []);
  await world.follower.stop();
});

Deno.test("a flood deletes every row, and is counted once", async () => {
  const world = await started();
  await world.settle();
  assertEquals(await world.send(["*"], 5n, { count: 12_000 }), ["note *", "delete *", "confirm 5"]);
  assertEquals(world.follower.counts, { changes: 12_000, keys: 0, floods: 1, gaps: 0 });
  await world.follower.stop();
});

Deno.test("a gap deletes every row before the log begins, and is a problem until a change is confirmed", async () => {
  const world = new World();
  world.gaps.splice(0, 1, "the slot is new");
  world.endPosition = 40n;
  await started(world);
  assertEquals(await world.settle(), ["open true", "note *", "delete *", "begin"]);
  assertEquals(
    world.events[0],
    "warning log_gap: changes of rows may be missing: the slot is new; all cached rows are deleted",
  );
  assertEquals(world.problemsTold, ["cached rows are being deleted: the slot is new"]);
  const { follower } = world;
  assertEquals([follower.counts.gaps, follower.position, follower.problem], [
    ...[1, 40n, "cached rows are being deleted: the slot is new"],
  ]);
  await world.send([], 41n);
  assertEquals([follower.problem, follower.position], [null, 41n]);
  await follower.stop();
});

Deno.test("a log that ends is opened again after a pause, without ending the connection of another", async () => {
  const world = await started();
  await world.settle();
  await world.send(["a"], 5n);
  assertEquals(await world.fail("lost"), ["close", "sleep 20", "open false", "begin"]);
  assertEquals([world.follower.problem, world.follower.position], ["lost", 0n]);
  assertEquals(await world.send(["a"], 5n), ["note a", "delete a", "confirm 5"]);
  assertEquals(world.problemsTold, ["lost", null]);
  assertEquals(await world.follower.wait(5n, 1000), true, "positions count again");
  await world.follower.stop();
  assertEquals((await world.settle()).at(0), "close");
});

Deno.test("the pauses of a log that ends at once double up to 500 ms; after one that has lasted they begin anew", async () => {
  const { now } = performance;
  let nowMs = 1000;
  performance.now = () => nowMs;
  try {
    const world = await started();
    await world.settle();
    const pauses: string[] = [];
    for (let times = 0; times < 8; times++) {
      if (times === 7) nowMs += 500;
      const done = await world.fail("lost");
      pauses.push(...done.filter((each) => each.startsWith("sleep ")));
    }
    assertEquals(pauses, [20, 40, 80, 160, 320, 500, 500, 20].map((ms) => `sleep ${ms}`));
    await world.follower.stop();
  } finally {
    performance.now = now;
  }
});

Deno.test("a wait ends with its time, and its position is not applied", async () => {
  const world = await started();
  await world.settle();
  mock.timers.enable({ apis: ["setTimeout"] });
  try {
    let result: boolean | null = null;
    void world.follower.wait(5n, 1000).then((isApplied) => result = isApplied);
    mock.timers.tick(999);
    await world.settle();
    assertEquals(result, null);
    mock.timers.tick(1);
    await world.settle();
    assertEquals(result, false);
  } finally {
    mock.timers.reset();
  }
  await world.follower.stop();
});

Deno.test("an end of the log that is applied is asked for anew, and the statistics have all numbers", async () => {
  const { now } = performance;
  let nowMs = 1000;
  performance.now = () => nowMs;
  try {
    const world = await started();
    await world.settle();
    world.end = 10n;
    await world.follower.measure();
    nowMs = 3000;
    await world.send(["a", "b"], 10n);
    assertEquals(world.follower.lagMs, 2000, "as of the question");
    world.end = 12n;
    await world.follower.measure();
    nowMs = 4000;
    await world.send(["c"], 11n);
    assertEquals(world.follower.lagMs, 3000);
    await world.send(["c"], 12n);
    nowMs = 4000.4;
    assertEquals(world.follower.lagMs, 1000);
    world.end = 20n;
    await world.follower.measure();
    const stats = followStats(world.follower).map(({ name, value }) => [name, value]);
    assertEquals(Object.fromEntries(stats), {
      ...{ follow_lag_ms: 1000, follow_lag_bytes: 8, follow_retained_bytes: 7 },
      ...{
        follow_unbounded: 0,
        follow_position: 12,
        follow_changes: 4,
        follow_keys: 4,
        follow_floods: 0,
      },
      ...{ follow_gaps: 0 },
    });
    await world.follower.stop();
  } finally {
    performance.now = now;
  }
});

Deno.test("an end of the log is not caught up with while the log fails, nor after it was opened again meanwhile", async () => {
  const { now } = performance;
  let nowMs = 1000;
  performance.now = () => nowMs;
  try {
    const world = await started();
    await world.settle();
    await world.follower.measure();
    assertEquals(world.follower.lagMs, 0);
    await world.fail("lost");
    nowMs = 2000;
    await world.follower.measure();
    assertEquals([world.follower.problem, world.follower.lagMs], ["lost", 1000]);
    await world.send(["a"], 5n);
    world.end = 5n;
    await world.follower.measure();
    assertEquals([world.follower.problem, world.follower.lagMs], [null, 0]);
    // The answer may be that of the server before a failover.
    world.beforeEnd = async () => {
      await world.fail("moved");
      await world.send(["a"], 6n);
    };
    nowMs = 3000;
    await world.follower.measure();
    nowMs = 4000;
    assertEquals([world.follower.problem, world.follower.lagMs], [null, 2000]);
    // Nor is one of the log before that the next log begins behind.
    world.beforeEnd = () => Promise.resolve();
    world.end = 9n;
    await world.follower.measure();
    world.endPosition = 20n;
    await world.fail("moved");
    assertEquals([world.follower.position, world.follower.lagMs], [20n, 2000]);
    await world.follower.stop();
  } finally {
    performance.now = now;
  }
});

Deno.test("before a log is opened nothing is retained, and a stop before the run closes it", async () => {
  const world = new World();
  assertEquals(world.follower.retainedBytes, 0);
  await world.follower.open();
  await world.follower.stop();
  await world.follower.run();
  assertEquals(world.done, ["open true", "close"]);
});
