import { UnsupportedError } from "../../../../lib/client/errors.ts";
import { assert, assertEquals } from "@std/assert";
import {
  CommitError,
  invalidateFlow,
  pausesFor,
  putWithLeases,
  putWithTokens,
} from "../../../../lib/client/flows/put.ts";
import { putRowFlow, type RowEnd, settleRowFlow } from "../../../../lib/client/flows/put_row.ts";
import type { ClientFlow } from "../../../../lib/client/flows/steps.ts";
import { type Given, Play } from "./play.ts";

// The steps of writes, one after the other, for given results of each: no server, no clock.

Deno.test("pauses double from 10 to 500 ms; the last one ends with the limit", () => {
  assertEquals([...pausesFor(0)], []);
  assertEquals([...pausesFor(1)], [1]);
  assertEquals([...pausesFor(10)], [10]);
  assertEquals([...pausesFor(31)], [10, 20, 1]);
  assertEquals([...pausesFor(1_700)], [10, 20, 40, 80, 160, 320, 500, 500, 70]);
});

Deno.test("the time of the attempts is a part of the limit", () => {
  const pauses = pausesFor(2_500);
  assertEquals(pauses.next().value, 10);
  assertEquals(pauses.next(1_010).value, 20);
  assertEquals(pauses.next(1_020).value, 40);
  assertEquals(pauses.next(430).value, 40, "40 ms are left");
  assertEquals(pauses.next(1), { done: true, value: undefined });
  // A clock that jumps back gives no more time.
  const short = pausesFor(30);
  assertEquals([short.next().value, short.next(-5).value, short.next(0).done], [10, 20, true]);
});

Deno.test("a put at a silent server ends when its limit is over", () => {
  const lost = new Map([["a", new Error("no reply")]]);
  const flow = invalidateFlow(["a"], 2_500);
  const kinds: string[] = [];
  for (let next = flow.next(); !next.done;) {
    const { kind } = next.value;
    kinds.push(kind);
    next = flow.next((kind === "sleep" ? 1_000 : lost) as never);
  }
  assertEquals(kinds.filter((kind) => kind === "invalidate").length, 4);
});

Deno.test("the steps of put with leases: only keys without an answer are asked again", () => {
  const flow = (): ClientFlow<unknown, unknown> => putWithLeases(["a", "b", "c"], 20);
  const failed = new Map([["b", "x"], ["c", "y"]]);
  const play = new Play(["result", failed, new Map([["c", "z"]]), new Map()]);
  assertEquals(play.run(flow()), { result: "result", unfinished: undefined });
  assertEquals(play.steps, [
    { kind: "commit" },
    { kind: "invalidate", keys: ["a", "b", "c"] },
    { kind: "sleep", ms: 10 },
    { kind: "invalidate", keys: ["b", "c"] },
    { kind: "sleep", ms: 10 },
    { kind: "invalidate", keys: ["c"] },
  ]);
  const late = new Play(["result", failed, failed, failed]);
  const unfinished = { items: ["b", "c"], cause: "x" };
  assertEquals(late.run(flow()), { result: "result", unfinished });
  const thrown = new Play([{ throws: "deadlock" }, failed, new Map()]);
  const error = commitErrorOf(() => thrown.run(flow()));
  assertEquals([error.error, error.cause, error.unfinished, error.kept], [
    ...["deadlock", "deadlock", undefined],
    [],
  ]);
  const both = new Play([{ throws: "deadlock" }, failed, failed, failed]);
  const second = commitErrorOf(() => both.run(flow()));
  assertEquals([second.error, second.unfinished], ["deadlock", unfinished]);
});

Deno.test("the steps of put with tokens: taken one by one, released all", () => {
  const flow = (isRolledBack = (_: unknown): boolean => true): ClientFlow<unknown, unknown> =>
    putWithTokens(["a", "b"], "me", 20, isRolledBack);
  const take = (key: string): unknown => ({ kind: "takeToken", key, owner: "me" });
  const release = (key: string, id: string): unknown => ({ kind: "releaseToken", key, id });
  const pause = { kind: "sleep", ms: 10 };
  const tokens = [{ key: "a", id: "1" }, { key: "b", id: "2" }];
  // A refused step is repeated, a lost one too; a token that was not out is released.
  const lost = { throws: "lost" };
  const play = new Play(["1", undefined, lost, "2", "result", true, lost, false]);
  assertEquals(play.run(flow()), { result: "result", unfinished: undefined });
  assertEquals(play.steps, [
    take("a"),
    take("b"),
    pause,
    take("b"),
    pause,
    take("b"),
    { kind: "commit" },
    release("a", "1"),
    release("b", "2"),
    pause,
    release("b", "2"),
  ]);
  const refused = new Play(["1", lost, undefined, { throws: "last" }, true]);
  assertEquals(thrownBy(() => refused.run(flow())), "last");
  assertEquals(refused.steps.slice(-3), [pause, take("b"), release("a", "1")]);
  const locked = new Play([undefined, undefined, undefined]);
  const { name, message } = thrownBy(() => locked.run(flow())) as Error;
  assertEquals([name, message], [
    "LockedError",
    "token a: another connection holds the key's lock",
  ]);
  const unreleased = new Play(["1", "2", "result", lost, lost, lost, lost, true, { throws: "x" }]);
  const left = { items: tokens.slice(1), cause: "x" };
  assertEquals(unreleased.run(flow()), { result: "result", unfinished: left });
  // What proves that nothing was committed.
  const broken = (): boolean => {
    throw new Error("broken");
  };
  const promise = (): boolean => Promise.resolve(true) as unknown as boolean;
  for (const proof of [() => false, broken, promise]) {
    const kept = new Play(["1", "2", { throws: "reset" }]);
    const error = commitErrorOf(() => kept.run(flow(proof)));
    assertEquals([error.error, error.kept, error.unfinished], ["reset", tokens, undefined]);
  }
  const given: unknown[] = [];
  const undone = new Play(["1", "2", { throws: "reset" }, true, lost, lost, lost]);
  const error = commitErrorOf(() => undone.run(flow((each) => given.push(each) > 0)));
  assertEquals([error.kept, error.unfinished, given], [
    [],
    { items: tokens.slice(1), cause: "lost" },
    ["reset"],
  ]);
});

function commitErrorOf(run: () => unknown): CommitError<unknown> {
  const error = thrownBy(run);
  assert(error instanceof CommitError);
  return error;
}

function thrownBy(run: () => unknown): unknown {
  try {
    run();
  } catch (error) {
    return error;
  }
  throw new Error("nothing was thrown");
}

Deno.test("a server without update tokens is not asked again", () => {
  const off = new UnsupportedError({ server: "", command: "token", key: "b" }, "ERROR");
  const play = new Play(["5", { throws: off }, true]);
  assertEquals(thrownBy(() => play.run(putWithTokens(["a", "b"], "me", 1_000, () => true))), off);
  assertEquals(play.steps, [
    { kind: "takeToken", key: "a", owner: "me" },
    { kind: "takeToken", key: "b", owner: "me" },
    { kind: "releaseToken", key: "a", id: "5" },
  ]);
});

Deno.test("the steps of a write of a row: repeated while its outcome is unknown, then settled", () => {
  const take = { kind: "takeToken", key: "k", owner: "me" };
  const write = { kind: "writeRow", key: "k", id: "5" };
  const end = { kind: "endToken", key: "k", id: "5" };
  const pause = { kind: "sleep", ms: 10 };
  const done = { state: "done", version: 3 };
  const ended = { state: "ended", cause: "revoked" };
  const refused = { state: "refused", cause: "full" };
  const locked = { state: "locked" };
  const unknown = { state: "unknown", cause: "lost" };
  const away = { throws: "away" };
  const DONE: RowEnd = { outcome: "done", version: 3 };
  const failed = (cause: unknown): unknown => ({ outcome: "failed", cause });
  const unsettled = (cause: unknown): unknown => ({ outcome: "unknown", id: "5", cause });
  const cases: readonly (readonly [given: readonly Given[], result: unknown, steps: unknown[]])[] =
    [
      [[done], DONE, [write]],
      [[ended], failed("revoked"), [write]],
      [[unknown, locked, done], DONE, [write, pause, write, pause, write]],
      [[unknown, unknown, unknown], unsettled("lost"), [write, pause, write, pause, write]],
      // A refused write was not written, unless an attempt before it may have been.
      [[refused, true], failed("full"), [write, end]],
      [[refused, false, done], DONE, [write, end, write]],
      [[refused, false, ended], failed("full"), [write, end, write]],
      [[unknown, refused, true, done], DONE, [write, pause, write, end, write]],
      [[unknown, refused, true, ended], failed("full"), [write, pause, write, end, write]],
      [
        [refused, away, false, locked, false, unknown],
        unsettled("lost"),
        [write, end, pause, end, write, pause, end, write],
      ],
      [[refused, away, away, away], unsettled("away"), [write, end, pause, end, pause, end]],
      [
        [refused, away, away, false, locked],
        unsettled("full"),
        [write, end, pause, end, pause, end, write],
      ],
    ];
  for (const [given, result, steps] of cases) {
    const play = new Play(["5", ...given]);
    const what = JSON.stringify(given);
    assertEquals(play.run(putRowFlow("k", "me", 20)), result, what);
    assertEquals(play.steps, [take, ...steps], what);
  }
  // The lock is held all the time: the token ends, and the cause names the lock.
  const play = new Play(["5", locked, locked, locked, true]);
  const last = play.run(putRowFlow("k", "me", 20)) as { outcome: string; cause: Error };
  assertEquals(play.steps.slice(-3) as unknown[], [pause, write, end]);
  assertEquals([last.outcome, last.cause.message], [
    "failed",
    "uput k: another connection holds the key's lock",
  ]);
  const settled = new Play([true, done]);
  assertEquals(settled.run(settleRowFlow("k", "5", "why", 0, true)), DONE);
});
