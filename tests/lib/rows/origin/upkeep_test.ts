import { assertEquals } from "@std/assert";
import type { RowsMessage } from "../../../../lib/rows/messages.ts";
import {
  Upkeep,
  type UpkeepClock,
  type UpkeepContext,
} from "../../../../lib/rows/origin/upkeep.ts";

const UNIX_MS = 1_800_000_000_000;
const TTL_SEC = 86_400;
/** Steps of promises that one event takes at most. */
const STEPS_MAX = 20;

/** A clock that the test moves; nothing happens in between. */
class ManualClock implements UpkeepClock {
  #nowMs = 0;
  #timers: { readonly ms: number; readonly act: () => void; dueMs: number }[] = [];

  nowMs(): number {
    return this.#nowMs;
  }

  unixMs(): number {
    return UNIX_MS + this.#nowMs;
  }

  every(ms: number, act: () => void): () => void {
    const timer = { ms, act, dueMs: this.#nowMs + ms };
    this.#timers.push(timer);
    return () => this.#timers = this.#timers.filter((each) => each !== timer);
  }

  /** Moves on, and lets everything happen that is due by then. */
  async pass(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    for (;;) {
      const due = this.#timers.toSorted((a, b) => a.dueMs - b.dueMs)[0];
      if (due === undefined || due.dueMs > endMs) break;
      this.#nowMs = due.dueMs;
      due.dueMs += due.ms;
      due.act();
      // Promises that are resolved settle.
      for (let step = 0; step < STEPS_MAX; step++) await Promise.resolve();
    }
    this.#nowMs = endMs;
  }
}

/** An origin whose parts write down what upkeep asks of them. */
class Setting {
  readonly clock = new ManualClock();
  readonly done: string[] = [];
  readonly loop: { problem: string | null } = { problem: null };
  readonly said: string[] = [];
  readonly messages: RowsMessage[] = [];
  readonly tokens: unknown[] = [];
  readonly ugetKeys = { unsafe: 0, firstUnsafe: "" };
  follower: { problem: string | null; lagMs: number } | null = null;
  unknown = 0;
  isDeposed = false;
  /** Names of views, with their reasons. */
  broken: [string, string][] = [];
  rightMs = 2000;
  check = (): Promise<void> => Promise.resolve();
  renew = (): Promise<void> => Promise.resolve();
  readonly upkeep: Upkeep;

  constructor(rightMs = 2000) {
    const note = (text: string): void => void this.done.push(`${this.clock.nowMs()} ${text}`);
    // deno-lint-ignore no-this-alias -- for the getters
    const setting = this;
    const world = {
      clock: this.clock,
      options: { memberTimeMs: rightMs, appliedTtlSec: TTL_SEC, lagMaxMs: 10_000 },
      backend: {
        check: () => this.check(),
        purgeExpired: () => Promise.resolve(note("purge expired")),
        purgeApplied: (beforeMs: number) =>
          Promise.resolve(note(`purge applied ${beforeMs - UNIX_MS}`)),
      },
      flows: {
        get isDeposed() {
          return setting.isDeposed;
        },
        deposedText: "another one",
        renewRight: () => () => this.renew().then(() => note("renewed")),
        resolveUnknown: () => () => (note("asked"), Promise.resolve(this.unknown)),
        states: {
          list: () => this.tokens.values(),
          counts: () => ({}),
          oldestAgeSec: () => 0,
        },
        ugetKeys: this.ugetKeys,
        counts: {},
      },
      runner: {
        run: (flow: () => Promise<unknown>) => flow(),
        times: new Proxy({}, { get: () => ({ count: 0, sumMs: 0, failures: 0 }) }),
        views: {
          size: 0,
          counts: {},
          get broken() {
            return setting.broken.map(([name, reason]) => ({ view: { name }, reason }));
          },
        },
      },
      right: {},
      meter: null,
      get follower() {
        return setting.follower &&
          { ...setting.follower, counts: {}, position: 0n, measure: () => note("measured") };
      },
      lagGuard: { watch: () => note("lag watched") },
      nodeServer: { watch: () => note("nodes watched"), states: [{ name: "one", state: "lost" }] },
      loop: this.loop,
      say: (message: RowsMessage) => {
        this.said.push(message.kind);
        this.messages.push(message);
      },
    };
    this.upkeep = new Upkeep(world as unknown as UpkeepContext);
  }

  /** The last state that was sent. */
  get state(): RowsMessage & { kind: "state" } {
    return this.messages.findLast((message) => message.kind === "state")!;
  }

  /** When something was done, in milliseconds from the start. */
  timesOf(text: string): number[] {
    return this.done.filter((line) => line.includes(` ${text}`)).map((line) => parseInt(line));
  }
}

Deno.test("once a minute the database forgets expired rows, and tokens older than --applied-ttl", async () => {
  const setting = new Setting();
  setting.upkeep.start();
  await setting.clock.pass(59_999);
  assertEquals(setting.timesOf("purge"), []);
  await setting.clock.pass(120_001);
  setting.upkeep.stop();
  assertEquals(
    setting.done.filter((line) => line.includes("purge applied")),
    [60_000, 120_000, 180_000].map((ms) => `${ms} purge applied ${ms - TTL_SEC * 1000}`),
  );
  assertEquals(setting.timesOf("purge expired"), [60_000, 120_000, 180_000]);
  await setting.clock.pass(600_000);
  assertEquals(setting.timesOf("purge expired").length, 3, "after its end nothing happens");
});

Deno.test("unknown outcomes are asked for less and less often, for an hour", async () => {
  const setting = new Setting();
  setting.unknown = 1;
  setting.upkeep.start();
  await setting.clock.pass(100_000);
  const times = setting.timesOf("asked");
  assertEquals(times, [1000, 3000, 7000, 15_000, 31_000, 61_000, 91_000]);
  setting.done.length = 0;
  await setting.clock.pass(3_600_000);
  assertEquals(setting.timesOf("asked").length, 3600 / 30);
  setting.unknown = 0;
  setting.done.length = 0;
  await setting.clock.pass(33_000);
  const [first, second, third] = setting.timesOf("asked");
  assertEquals([second! - first!, third! - second!], [1000, 1000], "none is left: as at the start");
  setting.upkeep.stop();
});

Deno.test("the right is renewed four times while it lasts, never twice at once", async () => {
  for (const [rightMs, everyMs] of [[2000, 500], [100, 25], [3_600_000, 1000]] as const) {
    const setting = new Setting(rightMs);
    setting.upkeep.start();
    await setting.clock.pass(3000);
    setting.upkeep.stop();
    const renewed = setting.timesOf("renewed");
    assertEquals(renewed.length, 3000 / everyMs, `${rightMs} ms`);
    assertEquals(renewed[0], everyMs);
  }
  const setting = new Setting();
  let asked = 0;
  setting.renew = () => (asked++, new Promise(() => {}));
  setting.upkeep.start();
  await setting.clock.pass(10_000);
  setting.upkeep.stop();
  assertEquals(asked, 1);
});

Deno.test("a failing database is a problem until it answers, and nothing else is asked of it", async () => {
  const setting = new Setting();
  setting.check = () => Promise.reject(new Error("gone"));
  setting.upkeep.start();
  await setting.clock.pass(1000);
  assertEquals(setting.loop.problem, "gone");
  assertEquals(setting.timesOf("asked"), []);
  setting.check = () => Promise.resolve();
  await setting.clock.pass(1000);
  assertEquals(setting.loop.problem, null);
  setting.renew = () => Promise.reject(new Error("no right"));
  await setting.clock.pass(500);
  assertEquals(setting.loop.problem, "no right");
  const { length } = setting.timesOf("asked");
  await setting.clock.pass(5000);
  assertEquals(
    setting.timesOf("asked").length,
    length,
    "without a right only the right is asked for",
  );
  setting.upkeep.stop();
});

Deno.test("a deposed origin says so once, and sends its state each second", async () => {
  const setting = new Setting();
  setting.upkeep.start();
  setting.isDeposed = true;
  await setting.clock.pass(3000);
  setting.upkeep.stop();
  assertEquals(setting.said.filter((kind) => kind === "deposed").length, 1);
  assertEquals(setting.said[0], "state");
});

Deno.test("the lag and the nodes are watched each second, also without an answer of the database", async () => {
  const setting = new Setting();
  setting.follower = { problem: null, lagMs: 0 };
  setting.renew = () => Promise.reject(new Error("no right"));
  setting.check = () => new Promise(() => {});
  setting.upkeep.start();
  await setting.clock.pass(3000);
  for (const what of ["measured", "lag watched", "nodes watched"]) {
    assertEquals(setting.timesOf(what), [1000, 2000, 3000], what);
  }
  const states = setting.said.filter((kind) => kind === "state");
  assertEquals(states.length, 4, "a state at the start, and each second");
  setting.upkeep.stop();
});

Deno.test("a check that takes longer than a second is the only one, and each tick sends the state", async () => {
  const setting = new Setting();
  let checks = 0;
  const checked = Promise.withResolvers<void>();
  setting.check = () => (checks++, checked.promise);
  setting.upkeep.start();
  await setting.clock.pass(3000);
  assertEquals([checks, setting.said.length], [1, 3], "the first tick has not ended");
  checked.resolve();
  await setting.clock.pass(1000);
  assertEquals([checks, setting.said.length], [2, 5]);
  setting.upkeep.stop();
});

Deno.test("the state names one problem: a takeover, the database's, the log's, or the lag", async () => {
  const setting = new Setting();
  setting.upkeep.start();
  const problem = async (lagMs: number, log: string | null, database = ""): Promise<unknown> => {
    setting.follower = { lagMs, problem: log };
    setting.check = () => database === "" ? Promise.resolve() : Promise.reject(new Error(database));
    await setting.clock.pass(1000);
    return setting.state.problem;
  };
  assertEquals(setting.state.problem, null);
  assertEquals(await problem(10_000, null), null, "a lag of --lag-max is well");
  assertEquals(
    await problem(10_001, null),
    "changes of rows have not been applied for 10001 ms, more than --lag-max",
  );
  assertEquals(await problem(20_000, "the log ended"), "the log ended");
  assertEquals(await problem(20_000, "the log ended", "gone"), "gone");
  setting.isDeposed = true;
  assertEquals(await problem(20_000, "the log ended", "gone"), "another one");
  setting.upkeep.stop();
});

Deno.test("the state is sent at once when something has changed, while the upkeep runs", () => {
  const setting = new Setting();
  setting.upkeep.tell();
  assertEquals(setting.said, []);
  setting.upkeep.start();
  setting.follower = { lagMs: 0, problem: "the schema has changed" };
  setting.upkeep.tell();
  assertEquals(setting.state.problem, "the schema has changed");
  setting.upkeep.stop();
  setting.upkeep.tell();
  assertEquals(setting.said, ["state", "state"]);
});

Deno.test("a problem of the database, or a lag, that lasts is told of once, and so is its end", async () => {
  const setting = new Setting();
  setting.upkeep.start();
  const told = async (
    database: string,
    lagMs = 0,
    log: string | null = null,
  ): Promise<string[]> => {
    setting.follower = { lagMs, problem: log };
    setting.check = () => database === "" ? Promise.resolve() : Promise.reject(new Error(database));
    setting.messages.length = 0;
    await setting.clock.pass(3000);
    return setting.messages.flatMap((message) =>
      message.kind === "event" ? [`${message.event.level} ${message.event.message}`] : []
    );
  };
  assertEquals(await told(""), []);
  assertEquals(await told("gone"), ["error rows are not well: gone"]);
  assertEquals(await told("gone"), []);
  assertEquals(await told(""), ["info rows are well again"]);
  assertEquals(await told("", 10_001), [
    "error rows are not well: changes of rows have not been applied for 10001 ms, more than --lag-max",
  ]);
  // The log tells of itself.
  assertEquals(await told("", 10_001, "the log ended"), []);
  assertEquals(await told(""), ["info rows are well again"]);
  assertEquals(await told("", 0, "the log ended"), []);
  setting.upkeep.stop();
});

Deno.test("a view that is broken is told of once for each reason, is a problem behind all others, and its end is told", async () => {
  const setting = new Setting();
  setting.upkeep.start();
  const events = async (broken: [string, string][]): Promise<string[]> => {
    setting.broken = broken;
    setting.messages.length = 0;
    await setting.clock.pass(2000);
    return setting.messages.flatMap((message) =>
      message.kind === "event"
        ? [`${message.event.level} ${message.event.event} ${message.event.fields!["view"]}`]
        : []
    );
  };
  assertEquals([await events([]), setting.state.problem], [[], null]);
  assertEquals(await events([["a", "no table"]]), ["error view_broken a"]);
  assertEquals(setting.state.problem, "view a: not cached, no table");
  assertEquals(await events([["a", "no column"], ["b", "no table"]]), [
    "error view_broken a",
    "error view_broken b",
  ]);
  assertEquals(setting.state.problem, "view a, and 1 more: not cached, no column");
  setting.follower = { lagMs: 0, problem: "the log ended" };
  assertEquals(await events([["b", "no table"]]), ["info view_cached a"]);
  assertEquals(setting.state.problem, "the log ended");
  setting.follower = null;
  assertEquals([await events([]), setting.state.problem], [["info view_cached b"], null]);
  setting.upkeep.stop();
});

Deno.test("the state has the nodes, the statistics, and the thousand oldest tokens with their ages", async () => {
  const setting = new Setting();
  for (let id = 1; id <= 1001; id++) setting.tokens.push({ id, sinceMs: 400 });
  setting.upkeep.start();
  await setting.clock.pass(1000);
  const { tokens, nodes, stats } = setting.state;
  assertEquals([tokens.length, tokens[0]!.ageMs, tokens.at(-1)!.id], [1000, 600, 1000]);
  assertEquals(nodes.map(({ name }) => name), ["one"]);
  const valueOf = (wanted: string): unknown => stats.find(({ name }) => name === wanted)?.value;
  assertEquals([valueOf("nodes_lost"), valueOf("nodes_member"), valueOf("deposed")], [1, 0, 0]);
  assertEquals([valueOf("follow_lag_ms"), valueOf("views")], [undefined, undefined]);
  setting.upkeep.stop();
});

Deno.test("caches of clients that may be stale are told of once, with the first key", async () => {
  const setting = new Setting();
  setting.upkeep.start();
  await setting.clock.pass(1000);
  assertEquals(setting.said.includes("event"), false);
  setting.ugetKeys.firstUnsafe = "a b";
  await setting.clock.pass(3000);
  const events = setting.messages.filter((message) => message.kind === "event");
  assertEquals(events.map(({ event: { level, event } }) => [level, event]), [
    ["warning", "uget_unsafe"],
  ]);
  assertEquals(events[0]!.event.fields, { key: "a%20b" });
  setting.upkeep.stop();
});

Deno.test("a problem that a write has left stays until outcomes are asked for again", async () => {
  const setting = new Setting();
  setting.unknown = 1;
  setting.upkeep.start();
  await setting.clock.pass(1000);
  setting.loop.problem = "no answer";
  await setting.clock.pass(1000);
  assertEquals(setting.state.problem, "no answer", "the next question is due after 3 s");
  await setting.clock.pass(1000);
  assertEquals(setting.state.problem, null);
  setting.upkeep.stop();
});
