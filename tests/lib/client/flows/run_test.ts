import { Attempts } from "../../../../lib/client/attempts.ts";
import { assertEquals, assertRejects } from "@std/assert";
import { channel } from "node:diagnostics_channel";
import { textCodec } from "../../../../lib/client/values/codecs.ts";
import { ConnectionError, ServerError, ValueTooLargeError } from "../../../../lib/client/errors.ts";
import { type ClientFlow, type Step, step } from "../../../../lib/client/flows/steps.ts";
import { type LoadOptions, settingsOf } from "../../../../lib/client/load_options.ts";
import {
  type Application,
  type FlowContext,
  FlowCounters,
  Run,
  sleep,
} from "../../../../lib/client/run.ts";
import { TextWire } from "../../../../lib/client/net/text_wire.ts";
import type { Request } from "../../../../lib/client/net/wire.ts";
import { bytesOf, textOf } from "../../../support/sessions/side.ts";

// Each step of a flow, executed over given replies: its requests, its result, and what is counted.

const PLACE = { server: "s", command: "c", key: "k" };
const AWAY = new ConnectionError(PLACE, "away");
const NO_ROOM = new ServerError(PLACE, "SERVER_ERROR object too large for cache");
const OTHER_ERROR = new ServerError(PLACE, "SERVER_ERROR out of memory");
const UNKNOWN = new ServerError(PLACE, "SERVER_ERROR outcome unknown: lost");

interface Options {
  readonly isMissWhenDown?: boolean;
  readonly tags?: readonly string[];
  readonly application?: Application<string>;
  readonly isClosing?: boolean;
  readonly load?: LoadOptions;
}

/** The requests, the result, and the counters that are not 0. */
type Done = readonly [asked: readonly string[], result: unknown, counts: object];

/** Executes steps. @param replies By the request's line; a line of its value is behind it. @returns The last result. */
async function execute(
  given: Step<string> | readonly Step<string>[],
  replies: Readonly<Record<string, string | Error>> = {},
  { isMissWhenDown = false, tags = [], application = {}, isClosing = false, load = {} }: Options =
    {},
): Promise<Done> {
  const steps = "kind" in given ? [given] : given;
  const asked: string[] = [];
  const counters = new FlowCounters();
  const call = <Result>(request: Request<Result>): Promise<Result> => {
    const line = request.line.replace("\0", `${request.value?.length}`);
    asked.push(request.value === undefined ? line : `${line} ${textOf(request.value)}`);
    const reply = replies[line];
    if (reply === undefined) throw new Error(`no reply to ${line}`);
    if (reply instanceof Error) return Promise.reject(reply);
    const wire = new TextWire();
    wire.add(bytesOf(`${reply}\r\n`));
    return Promise.resolve(request.read(wire.next(request.shape)!));
  };
  const encode = (key: string, value: string): ReturnType<typeof textCodec.encode> => {
    if (value === "long") throw new ValueTooLargeError(key);
    return textCodec.encode(value);
  };
  const closing = isClosing ? AbortSignal.abort() : new AbortController().signal;
  const attempts = new Attempts();
  const context = {
    ...{ codec: textCodec, counters, attempts, isMissWhenDown, closing, encode, call },
    tokensOut: () => {},
  };
  const run = new Run<string>(context, settingsOf({ tags, leaseSec: 30, ...load }), application);
  const flow = function* (): ClientFlow<string, unknown> {
    let result: unknown;
    for (const step of steps) result = yield step;
    return result;
  };
  const result = await run.drive(flow());
  return [
    asked,
    result,
    Object.fromEntries(Object.entries(counters).filter(([, count]) => count > 0)),
  ];
}

const entry = { value: "v", graceSec: 0, versions: {} };

Deno.test("a look reads keys and versions of tags; a server that is away is an error, or a miss", async () => {
  const keys = ["a", "b", "c"];
  const replies = {
    "mg a v f c t N30": "VA 0 f0 c5 t30 W\r\n",
    "mg b v f c t N30": "VA 0 f0 c6 t9 Z\r\n",
    "mg c v f c t N30": "VA 1 f0 c7 t60\r\nv",
    "mg tag:t c N0": "HD c8",
  };
  const seen = new Map<string, unknown>([
    ["a", { state: "won", cas: "5" }],
    ["b", { state: "held", leftSec: 9 }],
    ["c", { state: "value", cas: "7", leftSec: 60, entry }],
  ]);
  const step = { kind: "look", keys } as const;
  const tags = ["t"];
  const [asked, result, counts] = await execute(step, replies, { tags });
  assertEquals(asked, Object.keys(replies));
  assertEquals(structuredClone(result), { seen, versions: { "tag:t": "8" } });
  assertEquals(counts, {});
  const away = { ...replies, "mg b v f c t N30": AWAY };
  await assertRejects(() => execute(step, away, { tags }), ConnectionError);
  const [, missed] = await execute(step, away, { tags, isMissWhenDown: true });
  assertEquals((missed as { seen: Map<string, unknown> }).seen.get("b"), { state: "away" });
  const noTag = { ...replies, "mg tag:t c N0": AWAY };
  await assertRejects(() => execute(step, noTag, { tags }), ConnectionError);
  const [, untagged] = await execute(step, noTag, { tags, isMissWhenDown: true });
  assertEquals((untagged as { versions: unknown }).versions, undefined);
  const refused = { ...replies, "mg a v f c t N30": OTHER_ERROR };
  await assertRejects(() => execute(step, refused, { tags, isMissWhenDown: true }), ServerError);
});

Deno.test("a fill stores under the item's id; what is refused or too large is counted", async () => {
  const fill = (value: string | undefined, ttlSec: number, graceSec = 0): Step<string> => ({
    kind: "fill",
    fills: [{ key: "k", cas: "5", ttlSec, entry: { value, graceSec, versions: {} } }],
  });
  const line = "ms k 1 F0 T60 C5";
  const dropped = { "md k C5": "HD" };
  assertEquals(await execute(fill("v", 60), { [line]: "HD" }), [[`${line} v`], undefined, {}]);
  assertEquals(await execute(fill("v", 0), { "ms k 1 F0 C5": "HD" }), [
    ["ms k 1 F0 C5 v"],
    undefined,
    {},
  ]);
  const withGrace = "ms k 3 F262144 T69 C5";
  assertEquals((await execute(fill("v", 60, 9), { [withGrace]: "HD" }))[0], [`${withGrace} v\n9`]);
  const forEver = "ms k 3 F262144 C5";
  assertEquals((await execute(fill("v", 0, 9), { [forEver]: "HD" }))[0], [`${forEver} v\n9`]);
  for (const reply of ["EX", "NF", "NS", AWAY, OTHER_ERROR]) {
    assertEquals(await execute(fill("v", 60), { [line]: reply }), [
      [`${line} v`],
      undefined,
      { refusedFills: 1 },
    ]);
  }
  assertEquals(await execute(fill("v", 60), { [line]: NO_ROOM, ...dropped }), [
    [`${line} v`, "md k C5"],
    undefined,
    { tooLarge: 1 },
  ]);
  for (const reply of ["HD", AWAY]) {
    assertEquals(await execute(fill("long", 60), { "md k C5": reply }), [
      ["md k C5"],
      undefined,
      { tooLarge: 1 },
    ]);
  }
  // A value that the codec refuses: the lease is given back all the same.
  await assertRejects(() => execute(fill("\ud800", 60), dropped), RangeError, "surrogate");
  await assertRejects(() => execute(fill("\ud800", 60)), RangeError, "surrogate");
});

Deno.test("claims are leases of keys of their own; a failure is no claim", async () => {
  const lineOf = (key: string): string => `mg ${key}~claim v f c t N30`;
  const [asked, claimed] = await execute({ kind: "claim", keys: ["a", "b", "c"] }, {
    [lineOf("a")]: "VA 0 f0 c5 t30 W\r\n",
    [lineOf("b")]: "VA 0 f0 c5 t30 Z\r\n",
    [lineOf("c")]: AWAY,
  });
  assertEquals([asked, claimed], [["a", "b", "c"].map(lineOf), new Set(["a"])]);
});

Deno.test("a claim ends with the value's time, and is given back by its id", async () => {
  for (const [ttlSec, sec] of [[0, 30], [29, 29], [31, 30]]) {
    const line = `mg a~claim v f c t N${sec}`;
    const back = "md a~claim C5";
    const steps = [{ kind: "claim", keys: ["a"] }, { kind: "unclaim", keys: ["a"] }] as const;
    const replies = { [line]: "VA 0 f0 c5 t30 W\r\n", [back]: "HD" };
    const [asked] = await execute(steps, replies, { load: { ttlSec: ttlSec! } });
    assertEquals(asked, [line, back]);
  }
});

Deno.test("answers are counted by their origin; pauses are, and loads by their keys", async () => {
  const outcomes = [
    [{ value: "v", isStale: false, from: "cache" }, { hits: 1 }],
    [{ value: "v", isStale: true, from: "cache" }, { hits: 1, stale: 1 }],
    [{ value: "v", isStale: false, from: "load" }, {}],
    [{ error: "e" }, {}],
  ] as const;
  for (const [outcome, counts] of outcomes) {
    const given: unknown[] = [];
    const application = {
      answer: (key: string, each: unknown) => void given.push(key, each),
    };
    const done = await execute({ kind: "answer", key: "k", outcome }, {}, { application });
    assertEquals([done, given], [[[], undefined, counts], ["k", outcome]]);
  }
  for (const [ms, isClosing] of [[1, false], [3_600_000, true]] as const) {
    const [sent, spentMs, counts] = await execute({ kind: "sleep", ms }, {}, { isClosing });
    assertEquals([sent, typeof spentMs, counts], [[], "number", { waits: 1 }]);
  }
  const rows = new Map([["a", "A"]]);
  const load: NonNullable<Application<string>["load"]> = (keys, control) => {
    assertEquals([keys, control.ttlSec, control.keep, control.signal.aborted], [
      ...[["a", "b"], 600, true, false],
    ]);
    Object.assign(control, { ttlSec: 7, keep: false });
    return Promise.resolve(rows);
  };
  assertEquals(await execute({ kind: "load", keys: ["a", "b"] }, {}, { application: { load } }), [
    [],
    { rows, keep: false, ttlSec: 7 },
    { loads: 2 },
  ]);
});

Deno.test("an invalidation tells the keys that are left, each with its reason", async () => {
  const replies = { "md a": "HD", "md b": "NF", "md c": "NS", "md d": AWAY };
  const [asked, result] = await execute({ kind: "invalidate", keys: [..."abcd"] }, replies);
  assertEquals(asked, Object.keys(replies));
  const failed = result as Map<string, Error>;
  assertEquals([...failed].map(([key, { message }]) => [key, message]), [
    ["c", "md c: another connection holds the key's lock"],
    ["d", AWAY.message],
  ]);
  const items = [{ key: "a", cas: "1" }, { key: "b", cas: "2" }];
  assertEquals(await execute({ kind: "drop", items }, { "md a C1": AWAY, "md b C2": "EX" }), [
    ["md a C1", "md b C2"],
    undefined,
    {},
  ]);
});

Deno.test("a token that had ended before its release is counted", async () => {
  const step = { kind: "releaseToken", key: "k", id: "5" } as const;
  const line = "token release k 5";
  assertEquals(await execute(step, { [line]: "OK" }), [[line], true, {}]);
  assertEquals(await execute(step, { [line]: "NOT_FOUND" }), [[line], false, { brokenTokens: 1 }]);
  const take = { kind: "takeToken", key: "k", owner: "me" } as const;
  assertEquals((await execute(take, { "token get k me": "TOKEN 5" }))[1], "5");
  const end = { kind: "endToken", key: "k", id: "5" } as const;
  assertEquals(await execute(end, { [line]: "BUSY" }), [[line], false, {}]);
});

Deno.test("the state of a write of a row, by its reply", async () => {
  const step = { kind: "writeRow", key: "k", id: "5" } as const;
  const cases: readonly (readonly [reply: string | Error, state: string, reason?: string])[] = [
    ["LOCKED", "locked"],
    ["BUSY", "unknown", "the write is in progress"],
    ["REVOKED", "ended", "the update token 5 was revoked"],
    ["NOT_FOUND", "ended", "the update token 5 is not known to the server"],
    [OTHER_ERROR, "refused", OTHER_ERROR.message],
    [UNKNOWN, "unknown", UNKNOWN.message],
    [AWAY, "unknown", AWAY.message],
  ];
  const rows = [
    [{ row: { bytes: bytesOf("v"), flags: 7 } }, "uput k 7 1 5", "STORED 3", "uput"],
    [{}, "udelete k 5", "DELETED 3", "udelete"],
  ] as const;
  for (const [application, line, done, command] of rows) {
    const [asked, result] = await execute(step, { [line]: done }, { application });
    assertEquals(asked, [command === "uput" ? `${line} v` : line]);
    assertEquals(result, { state: "done", version: 3 });
    for (const [reply, state, reason] of cases) {
      const [, told] = await execute(step, { [line]: reply }, { application });
      const { state: found, cause } = told as { state: string; cause?: Error };
      const message = typeof reply === "string" && reason !== undefined
        ? `${command} k: ${reason}`
        : reason;
      assertEquals([found, cause?.message], [state, message]);
    }
  }
});

Deno.test("subscribers get each counted event with its keys", async () => {
  const events: unknown[] = [];
  const subscriber = (event: unknown): void => void events.push(event);
  const application: Application<string> = {
    load: () => Promise.resolve(new Map()),
    answer: () => {},
  };
  const outcome = { value: "v", isStale: true, from: "cache" } as const;
  channel("leased:client").subscribe(subscriber);
  try {
    await execute({ kind: "load", keys: ["a", "b"] }, {}, { application });
    await execute({ kind: "answer", key: "k", outcome }, {}, { application });
    await execute({ kind: "sleep", ms: 1 });
  } finally {
    channel("leased:client").unsubscribe(subscriber);
  }
  await execute({ kind: "sleep", ms: 1 });
  assertEquals(events, [
    { kind: "loads", keys: ["a", "b"] },
    { kind: "hits", keys: ["k"] },
    { kind: "stale", keys: ["k"] },
    { kind: "waits", keys: [] },
  ]);
});

Deno.test("a pause ends with its signal, and leaves no listener", async () => {
  const listeners: string[] = [];
  const closer = new AbortController();
  const { signal } = closer;
  const noted = {
    get aborted() {
      return signal.aborted;
    },
    addEventListener: (name: string, listener: () => void) => {
      listeners.push(`+${name}`);
      signal.addEventListener(name, listener);
    },
    removeEventListener: (name: string, listener: () => void) => {
      listeners.push(`-${name}`);
      signal.removeEventListener(name, listener);
    },
  } as unknown as AbortSignal;
  await sleep(1, noted);
  assertEquals(listeners.splice(0), ["+abort", "-abort"]);
  const long = sleep(3_600_000, noted);
  closer.abort();
  await long;
  assertEquals(listeners.splice(0), ["+abort", "-abort"]);
  await sleep(3_600_000, noted);
  assertEquals(listeners, []);
});

Deno.test("a sleep tells the time since the sleep before, or since the commit", async () => {
  const { now } = performance;
  let nowMs = 100;
  try {
    performance.now = () => nowMs;
    const context = {
      closing: AbortSignal.abort(),
      counters: new FlowCounters(),
    } as unknown as FlowContext<string>;
    const run = new Run<string>(context, settingsOf({}), { commit: () => void (nowMs += 5_000) });
    await run.drive((function* (): ClientFlow<string, void> {
      const first = step<string, "sleep">({ kind: "sleep", ms: 1 });
      nowMs += 30;
      assertEquals(yield* first, 30);
      const again = step<string, "sleep">({ kind: "sleep", ms: 1 });
      nowMs += 7;
      assertEquals(yield* again, 7);
      yield* step<string, "commit">({ kind: "commit" });
      nowMs += 2;
      assertEquals(yield* step<string, "sleep">({ kind: "sleep", ms: 1 }), 2);
    })());
  } finally {
    performance.now = now;
  }
});
