// The flows of reads and writes, step by step: the test answers each step.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { type Found, GoneError, type WriteResult } from "../../../../lib/databases/base/backend.ts";
import { Flows, OF_SUCCESSOR, type Read, type Right } from "../../../../lib/rows/flows/flows.ts";
import { RowWrite, type WriteParts } from "../../../../lib/rows/flows/row_write.ts";
import { isLastMark, noteMark } from "../../../../lib/rows/flows/marks.ts";
import type { FlowStep, RowFlow, StepKind, StepResults } from "../../../../lib/rows/flows/steps.ts";
import { takeOver, type TakeoverRule, waitFor } from "../../../../lib/rows/flows/takeover.ts";
import { TokenStates } from "../../../../lib/rows/flows/token_states.ts";

const EPOCH = 3;
const FIRST_ID = EPOCH * 2 ** 32 + 1;
const PATIENCE_MS = 300;
const RIGHT_MS = 1000;
const BY = "another server has taken the database over: epoch 9 replaced epoch 3";

type Answer = StepResults[StepKind] | Error | ((step: FlowStep) => StepResults[StepKind]);

/** Runs a flow with answers to its steps, by their kinds; several for one kind are used up. */
function play<Result>(
  flow: RowFlow<Result>,
  answers: Partial<Record<StepKind, readonly Answer[]>> = {},
): { steps: FlowStep[]; result: Result } {
  const steps: FlowStep[] = [];
  const left = new Map(Object.entries(answers).map(([kind, each]) => [kind, [...each]]));
  for (let yielded = flow.next();;) {
    if (yielded.done) return { steps, result: yielded.value };
    const step = yielded.value;
    steps.push(step);
    const answer = left.get(step.kind)?.shift();
    yielded = answer instanceof Error
      ? flow.throw(answer)
      : flow.next(typeof answer === "function" ? answer(step) : answer as StepResults[StepKind]);
  }
}

function kindsOf(steps: readonly FlowStep[]): string[] {
  return steps.map((step) =>
    step.kind === "sleep" ? `sleep ${step.ms}${step.takesLock ? " for the lock" : ""}` : step.kind
  );
}

class Setting {
  readonly states = new TokenStates(EPOCH, 3, 10);
  readonly flows = new Flows(this.states, PATIENCE_MS);
}

function writeOf(key: string, more: Partial<WriteParts> = {}): RowWrite {
  return new RowWrite({ key, edit: "delete", ...more });
}

const FREE: Answer = (step) => (step as { keys: readonly string[] }).keys.map(() => true);
const ROW: Found = { row: { flags: 1, data: new Uint8Array(2), version: 5 }, version: 5, epoch: 3 };
const committed = (version: number): WriteResult & { kind: "committed" } => ({
  kind: "committed",
  version,
});

Deno.test("a read is cacheable unless its key has a token, its reader or its view forbids it, or the origin does", () => {
  const { flows, states } = new Setting();
  states.get("held", "");
  const read = (
    keys: readonly string[],
    found: readonly Found[],
    isReadable?: boolean,
  ): boolean[] =>
    play(flows.read(keys, isReadable), { readRows: [found] }).result.map((each) => each.cacheable);
  const kept = { ...ROW, isKept: true };
  const notKept = { ...ROW, isKept: false };
  assertEquals(read(["a", "held", "b", "c"], [ROW, ROW, notKept, kept]), [
    true,
    false,
    false,
    true,
  ]);
  assertEquals(read(["a"], [ROW], false), [false]);
  flows.isSuspended = true;
  assertEquals(read(["a"], [ROW]), [false]);
  flows.isSuspended = false;
  assertEquals(read(["a"], [ROW]), [true]);
  assertEquals([flows.counts.readsCacheable, flows.counts.readsUncacheable], [3, 4]);
  const { result, steps } = play(flows.read(["a"]), { readRows: [[ROW]] });
  assertEquals([steps, result], [[{ kind: "readRows", keys: ["a"] }], [{
    ...ROW,
    cacheable: true,
  }]]);
  // The answer itself shows that another origin has taken over.
  assertEquals(read(["a", "b"], [ROW, { ...ROW, epoch: 9 }]), [false, false]);
  assertEquals([flows.isDeposed, flows.deposedText], [true, BY]);
  assertEquals(read(["a"], [ROW]), [false], "it stays so");
});

Deno.test("a token that is taken while a read is under way leaves it cacheable: it ends the lease itself", () => {
  const { flows, states } = new Setting();
  const flow = flows.read(["a", "b"]);
  states.get("b", "");
  flow.next();
  states.get("a", "");
  const { value } = flow.next([ROW, ROW]);
  assertEquals((value as readonly Read[]).map((each) => each.cacheable), [true, false]);
});

Deno.test("a right is renewed from before the question; none is left after a takeover or the end", () => {
  const said: string[] = [];
  let nowMs = 50;
  const right: Right = {
    nowMs: () => nowMs,
    renew: (deadlineMs) => said.push(`renew ${deadlineMs}`),
    end: () => said.push("end"),
  };
  const renew = (flows: Flows, epoch: number): void => {
    play(flows.renewRight(right, RIGHT_MS), { readEpoch: [() => (nowMs += 70, epoch)] });
  };
  const { flows } = new Setting();
  renew(flows, EPOCH);
  renew(flows, 9);
  renew(flows, EPOCH);
  assertEquals([said.splice(0), flows.isDeposed], [["renew 1050", "end", "end"], true]);
  const other = new Setting().flows;
  assertEquals(play(other.endRight(right)).steps, [{ kind: "noteEnd", epoch: EPOCH }]);
  renew(other, EPOCH);
  assertEquals([said.splice(0), other.isDeposed], [["end", "end"], false]);
  // A database that does not answer may do so again; one that is another does not.
  for (
    const [error, ends] of [[new Error("busy"), []], [new GoneError("replaced"), ["end"]]] as const
  ) {
    const flow = new Setting().flows.renewRight(right, RIGHT_MS);
    flow.next();
    assertThrows(() => flow.throw(error), Error, error.message);
    assertEquals(said.splice(0), [...ends]);
  }
});

Deno.test("a write takes a token, deletes and then writes, and leaves no token", () => {
  const { flows, states } = new Setting();
  const edit = { flags: 1, data: new Uint8Array(3) };
  const group = [writeOf("a", { edit, connection: 7, sinceMs: 5 }), writeOf("b")];
  const seen: boolean[] = [];
  const { steps, result } = play(flows.write(group), {
    delete: [() => (seen.push(states.isCacheable("a"), states.isCacheable("b")), [true, true])],
    writeRows: [[committed(4), { kind: "refused", row: null }]],
  });
  assertEquals(steps, [
    { kind: "delete", keys: ["a", "b"], prefixes: [], writers: [7, 0] },
    { kind: "writeRows", writes: group, epoch: EPOCH },
  ]);
  assertEquals(group.map(({ tokenId, owner }) => [tokenId, owner]), [
    ...[[FIRST_ID, ""], [FIRST_ID + 1, ""]],
  ]);
  assertEquals([seen, result], [[false, false], [committed(4), { kind: "refused", row: null }]]);
  assertEquals([states.isCacheable("a"), states.isCacheable("b")], [true, true]);
  assertEquals(Object.values(states.counts()).every((count) => count === 0), true);
  const { groups, writesCommitted, writesRefused } = flows.counts;
  assertEquals([groups, writesCommitted, writesRefused], [1, 1, 1]);
});

Deno.test("a row that another connection has locked is not written; the others are", () => {
  const { flows, states } = new Setting();
  const { steps, result } = play(flows.write([writeOf("a"), writeOf("b")]), {
    delete: [[false, true]],
    writeRows: [[committed(1)]],
  });
  assertEquals(result, [{ kind: "locked" }, committed(1)]);
  const [, written] = steps;
  assertEquals(written?.kind === "writeRows" && written.writes.map(({ key }) => key), ["b"]);
  const alone = play(flows.write([writeOf("a")]), { delete: [[false]] });
  assertEquals([kindsOf(alone.steps), alone.result], [["delete"], [{ kind: "locked" }]]);
  assertEquals([flows.counts.writesFailed, states.isCacheable("a")], [2, true]);
});

Deno.test("a write under a token of its writer uses it up, carries its tag, and is answered again without a write", () => {
  const { flows, states } = new Setting();
  const id = states.get("a", "me");
  const group = [writeOf("a", { writerTokenId: id })];
  const { steps, result } = play(flows.write(group), {
    delete: [FREE],
    writeRows: [[committed(2)]],
  });
  const [, written] = steps;
  assert(written?.kind === "writeRows");
  assertEquals([written.writes[0]!.tokenId, written.writes[0]!.owner], [id, "me"]);
  assertEquals([result, states.counts().used], [[committed(2)], 1]);
  const again = play(flows.write(group));
  assertEquals([again.steps, again.result], [[], [committed(2)]]);
  const revoked = states.get("a", "me");
  states.revoke("a", revoked);
  assertEquals(play(flows.write([writeOf("a", { writerTokenId: revoked })])).result, [{
    kind: "revoked",
  }]);
  const busy = states.get("b", "");
  states.beginPut("b", busy);
  assertEquals(play(flows.write([writeOf("b", { writerTokenId: busy })])).result, [{
    kind: "busy",
  }]);
  const { writesCommitted, writesRevoked, writesFailed } = flows.counts;
  assertEquals([writesCommitted, writesRevoked, writesFailed], [2, 1, 1]);
});

Deno.test("a write that failed or is postponed leaves its writer's token as it was", () => {
  for (const kind of ["failed", "postponed"] as const) {
    const { flows, states } = new Setting();
    const id = states.get("a", "");
    const end: WriteResult = kind === "failed" ? { kind, reason: "full" } : { kind };
    const { result } = play(flows.write([writeOf("a", { writerTokenId: id }), writeOf("b")]), {
      delete: [FREE],
      writeRows: [[end, end]],
    });
    assertEquals(result, [end, end]);
    assertEquals([states.counts().idle, states.isCacheable("b")], [1, true]);
    assertEquals(flows.counts.writesFailed, kind === "failed" ? 2 : 0, "it goes again");
  }
});

Deno.test("a token that is not known may have been applied: the database is asked", () => {
  const { flows } = new Setting();
  const group = [writeOf("a", { writerTokenId: 17 })];
  const ask = (answer: Answer): unknown => {
    const { steps, result } = play(flows.write(group), { askOutcome: [answer] });
    assertEquals(steps, [{ kind: "askOutcome", tokenId: 17 }]);
    return result[0];
  };
  assertEquals(ask(committed(8)), committed(8));
  assertEquals(ask({ kind: "notApplied" }), { kind: "none" });
  assertEquals(ask(new Error("away")), { kind: "unknown", reason: "away" });
});

Deno.test("an unknown outcome is asked for at once, and after pauses that double, as long as the time-out", () => {
  const { flows, states } = new Setting();
  const unknown = { kind: "unknown", reason: "no answer" } as const;
  const { steps, result } = play(flows.write([writeOf("a"), writeOf("b")]), {
    delete: [FREE],
    writeRows: [new Error("lost")],
    // After the first question only b is left.
    askOutcome: [committed(6), ...new Array(9).fill(unknown)],
  });
  assertEquals(kindsOf(steps), [
    ...["delete", "writeRows", "askOutcome", "askOutcome"],
    ...["sleep 100", "askOutcome", "sleep 200", "askOutcome"],
  ]);
  assertEquals(result, [committed(6), unknown]);
  assertEquals([states.isCacheable("a"), states.isCacheable("b")], [true, false]);
  const asked = (answer: Answer): number =>
    play(flows.resolveUnknown(), { askOutcome: [answer] }).result;
  assertEquals([asked(unknown), states.counts().unknown], [1, 1]);
  assertEquals([asked({ kind: "notApplied" }), states.isCacheable("b")], [0, true]);
  assertEquals(Object.values(states.counts()).reduce((sum, count) => sum + count), 1, "that of a");
});

Deno.test("a row that uget has answered with C counts as changed when its write is committed, or may be", () => {
  const row = ROW.row;
  const unknown: WriteResult = { kind: "unknown", reason: "lost" };
  const results: [WriteResult, unsafe: number][] = [
    [committed(6), 1],
    [unknown, 1],
    [{ kind: "refused", row }, 0],
    [{ kind: "failed", reason: "full" }, 0],
    [{ kind: "postponed" }, 0],
  ];
  for (const [result, unsafe] of results) {
    const { flows } = new Setting();
    play(flows.uget(["a"]), { readRows: [[ROW]] });
    play(flows.write([writeOf("a")]), {
      delete: [FREE],
      writeRows: [[result]],
      askOutcome: [committed(6)],
    });
    assertEquals([result.kind, flows.ugetKeys.unsafe], [result.kind, unsafe]);
  }
});

Deno.test("a writer's own token stays out when the database says that it wrote nothing", () => {
  const { flows, states } = new Setting();
  const id = states.get("a", "");
  const written = play(flows.write([writeOf("a", { writerTokenId: id })]), {
    delete: [FREE],
    writeRows: [[{ kind: "unknown", reason: "lost" }]],
    askOutcome: [{ kind: "notApplied" }],
  });
  const failed = { kind: "failed", reason: "the database did not write it" } as const;
  assertEquals([written.result, states.counts().idle], [[failed], 1]);
  assertEquals(play(flows.resolveUnknown()).steps, [], "it is not unknown");
  // To resolve a token that is idle asks nothing, and changes nothing.
  const resolved = play(flows.resolve("a", id));
  assertEquals([resolved.steps, resolved.result, states.counts().idle], [[], failed, 1]);
});

Deno.test("an outcome that is known is the reply, whatever happens to its token while others are asked for", () => {
  const { flows, states } = new Setting();
  const id = states.get("a", "");
  const write = writeOf("a", { writerTokenId: id });
  const repeat: Answer = () => {
    const answers = { delete: [FREE], writeRows: [[committed(6)]] };
    assertEquals(play(flows.write([writeOf("a", { writerTokenId: id })]), answers).result, [
      committed(6),
    ]);
    return undefined;
  };
  const { steps, result } = play(flows.write([write, writeOf("b")]), {
    delete: [FREE],
    writeRows: [new Error("lost")],
    askOutcome: [{ kind: "notApplied" }, { kind: "unknown", reason: "lost" }, committed(2)],
    sleep: [repeat],
  });
  assertEquals(kindsOf(steps).slice(2), ["askOutcome", "askOutcome", "sleep 100", "askOutcome"]);
  assertEquals(result, [{ kind: "failed", reason: "the database did not write it" }, committed(2)]);
});

Deno.test("an origin that was taken over writes nothing, whenever it learns that", () => {
  const fenced = new Setting();
  const first = play(fenced.flows.write([writeOf("a"), writeOf("b")]), {
    delete: [FREE],
    writeRows: [[{ kind: "fenced", epoch: 9 }, { kind: "fenced", epoch: 9 }]],
  });
  const failed = { kind: "failed", reason: BY } as const;
  assertEquals([first.result, fenced.flows.isDeposed], [[failed, failed], true]);
  const second = play(fenced.flows.write([writeOf("a")]));
  assertEquals([second.steps, second.result], [[], [failed]]);
  assertEquals([fenced.states.isCacheable("a"), fenced.flows.counts.writesFailed], [true, 3]);
  const { flows } = new Setting();
  const meanwhile = play(flows.write([writeOf("a")]), {
    delete: [() => {
      play(flows.read(["k"]), { readRows: [[{ ...ROW, epoch: 9 }]] });
      return [true];
    }],
  });
  assertEquals(kindsOf(meanwhile.steps), ["delete"]);
  assertEquals(meanwhile.result, [failed]);
});

Deno.test("writes beyond the number of tokens fail alone", () => {
  const { flows } = new Setting();
  const { result } = play(flows.write(["a", "b", "c", "d"].map((key) => writeOf(key))), {
    delete: [FREE],
    writeRows: [[committed(1), committed(1), committed(1)]],
  });
  assertEquals(result.slice(2), [
    committed(1),
    { kind: "failed", reason: "too many update tokens" },
  ]);
  const all = play(flows.write([writeOf("a")]), {
    delete: [FREE],
    writeRows: [[committed(2)]],
  });
  assertEquals(all.result, [committed(2)], "all are free again");
});

// --- takeover, marks -----------------------------------------------------------------------------

interface Taking {
  readonly steps: string[];
  readonly told: (string | null)[];
  readonly end: unknown;
}

/** @param locks Answers to the question for the lock; then true. */
function take(
  rule: TakeoverRule,
  answers: Partial<Record<StepKind, readonly Answer[]>>,
  driftShare?: number,
): Taking {
  const told: (string | null)[] = [];
  const flow = takeOver(rule, RIGHT_MS, (problem) => told.push(problem), driftShare);
  const steps: string[] = [];
  try {
    const lockOrigin = [...answers.lockOrigin ?? [], ...new Array(20).fill(true)];
    const readEpoch = [...answers.readEpoch ?? [], ...new Array(20).fill(TAKEN_EPOCH)];
    const played = play(
      (function* (): RowFlow<unknown> {
        for (let yielded = flow.next();;) {
          if (yielded.done) return yielded.value;
          steps.push(...kindsOf([yielded.value]));
          try {
            yielded = flow.next(yield yielded.value);
          } catch (error) {
            yielded = flow.throw(error);
          }
        }
      })(),
      { unlockOrigin: [undefined, undefined], ...answers, lockOrigin, readEpoch },
    );
    return { steps, told, end: played.result };
  } catch (error) {
    return { steps, told, end: (error as Error).message };
  }
}

const TAKEN_EPOCH = 4;
const taken = (more: object = {}): Answer => ({
  epoch: TAKEN_EPOCH,
  mark: "m",
  servedMs: 0,
  ...more,
});
const TAKEN = { epoch: TAKEN_EPOCH, mark: "m" };
const OCCUPIED =
  "another origin serves its rows: end it, or start this one with --standby or --take-over";

Deno.test("a takeover waits as long as the origin before, or its nodes, may serve, and the clocks' drift", () => {
  const cases: readonly (readonly [object, number, number?])[] = [
    [{ servedMs: 0 }, 0],
    [{ servedMs: 1000 }, 1120],
    [{ servedMs: 1000, nodesMs: 2000 }, 2220],
    [{ servedMs: 1000, nodesMs: 500 }, 1120],
    [{ servedMs: 1000 }, 1270, 0.25],
  ];
  for (const [more, ms, driftShare] of cases) {
    const { steps, told, end } = take("refuse", { takeOver: [taken(more)] }, driftShare);
    assertEquals([steps, told, end], [["lockOrigin", "takeOver", `sleep ${ms}`], [], TAKEN]);
  }
  assertEquals([waitFor(0), waitFor(100), waitFor(100, 0.5)], [0, 130, 170]);
});

Deno.test("another origin is waited for as long as its right lasts, and then it is occupied; a stand-by waits on", () => {
  const refused = take("refuse", { lockOrigin: new Array(9).fill(false) });
  const pauses = new Array(5).fill(["sleep 200", "lockOrigin", "readEpoch"]).flat();
  assertEquals([refused.steps, refused.told], [["lockOrigin", "readEpoch", ...pauses], [null]]);
  assertEquals(refused.end, OCCUPIED);
  const ended = take("refuse", { lockOrigin: [false, false], takeOver: [taken()] });
  assertEquals([ended.told, ended.end], [[null], TAKEN]);
  const standby = take("standby", { lockOrigin: new Array(9).fill(false), takeOver: [taken()] });
  assertEquals(standby.steps.filter((step) => step === "sleep 200").length, 9);
  assertEquals(standby.end, TAKEN);
});

Deno.test("a stand-by tells each new problem once, and tries again; another start ends with it", () => {
  const problems = ["down", "down", "full"].map((reason) => new Error(reason));
  const standby = take("standby", { lockOrigin: problems, takeOver: [taken()] });
  assertEquals([standby.told, standby.end], [["down", "full"], TAKEN]);
  assertEquals(standby.steps.slice(0, 3), ["lockOrigin", "sleep 200", "lockOrigin"]);
  assertEquals(take("refuse", { lockOrigin: problems }).end, "down");
  assertEquals(take("force", { lockOrigin: problems }).end, "down");
});

Deno.test("a stand-by that had a rival leaves it the lock once when the database is back after a loss", () => {
  const lost = new Error("lost");
  const yields = ["lockOrigin", "unlockOrigin", "sleep 1000"];
  const back = take("standby", {
    lockOrigin: [false, lost, lost, true, false, false, true],
    takeOver: [taken()],
  });
  const waits = ["sleep 200", "lockOrigin", "readEpoch"];
  assertEquals(back.steps, [
    ...["lockOrigin", "readEpoch", "sleep 200", "lockOrigin"],
    // The database is away, and back.
    ...["sleep 200", "lockOrigin", "sleep 200", ...yields],
    // The rival has the lock again, for a while.
    ...["lockOrigin", "readEpoch", ...waits, ...waits, "takeOver", "sleep 0"],
  ]);
  assertEquals([back.told, back.end], [[null, "lost", null], TAKEN]);
  const gone = take("standby", { lockOrigin: [false, lost], takeOver: [taken()] });
  assertEquals(gone.steps.slice(4), ["sleep 200", ...yields, "lockOrigin", "takeOver", "sleep 0"]);
});

Deno.test("a forced takeover waits for no lock before it, and for an origin without a time after it", () => {
  const timed = take("force", { lockOrigin: [false], takeOver: [taken({ servedMs: 500 })] });
  assertEquals(timed.steps, ["lockOrigin", "takeOver", "sleep 570 for the lock"]);
  const untimed = { servedMs: Infinity, nodesMs: 100 };
  const { steps, told, end } = take("force", {
    lockOrigin: [false, false],
    takeOver: [taken(untimed)],
  });
  const poll = ["sleep 200 for the lock", "lockOrigin", "readEpoch"];
  assertEquals(steps, ["lockOrigin", "takeOver", ...poll, ...poll, "sleep 130"]);
  assertEquals([told, end], [[null], TAKEN]);
  const alone = { lockOrigin: [false], takeOver: [taken({ servedMs: Infinity })] };
  assertEquals(take("force", alone).steps, ["lockOrigin", "takeOver", ...poll], "no nodes");
  const late = take("force", { ...alone, readEpoch: [TAKEN_EPOCH + 1] });
  assertEquals(late.end, "another origin has taken over while this one waited");
});

Deno.test("one that waits leaves the lock once to an origin that has taken over by force meanwhile", () => {
  const poll = ["sleep 200", "lockOrigin", "readEpoch"];
  const lockOrigin = [false, false, true, false, true];
  const readEpoch = [1, 2, 2, 2, 2];
  for (const rule of ["standby", "refuse"] as const) {
    const { steps, end } = take(rule, { lockOrigin, readEpoch, takeOver: [taken()] });
    assertEquals(steps, [
      ...["lockOrigin", "readEpoch", ...poll, ...poll, "unlockOrigin", ...poll, ...poll],
      ...["takeOver", "sleep 0"],
    ]);
    assertEquals(end, TAKEN);
  }
});

Deno.test("a mark names the epoch that noted it; it is the last one for the next epoch only", () => {
  const noted = play(noteMark(3, "name"), { noteMark: [true] });
  assertEquals(noted.steps, [{ kind: "noteMark", mark: "3 name", epoch: 3 }]);
  assertEquals(noted.result, "3 name");
  assertEquals(play(noteMark(3, "name"), { noteMark: [false] }).result, "");
  assertEquals(isLastMark("3 name", { epoch: 4, mark: "3 name" }), true);
  for (
    const [mark, taken] of [
      ["3 name", { epoch: 5, mark: "3 name" }],
      ["3 name", { epoch: 3, mark: "3 name" }],
      ["3 name", { epoch: 4, mark: "3 other" }],
      ["3 name", { epoch: 4, mark: "" }],
      ["31 name", { epoch: 4, mark: "31 name" }],
      ["", { epoch: 4, mark: "" }],
    ] as const
  ) assertEquals(isLastMark(mark, taken), false);
});

Deno.test("when the last unknown outcome is known, nothing is waited for any more", () => {
  const unknown = { kind: "unknown", reason: "no answer" } as const;
  const steps = (askOutcome: readonly Answer[]): string[] =>
    kindsOf(
      play(new Setting().flows.write([writeOf("a"), writeOf("b")]), {
        delete: [FREE],
        writeRows: [[unknown, unknown]],
        askOutcome,
      }).steps,
    );
  const asked = ["delete", "writeRows", "askOutcome", "askOutcome"];
  assertEquals(steps([committed(6), { kind: "notApplied" }]), asked);
  assertEquals(steps([committed(6), unknown, committed(7)]), [...asked, "sleep 100", "askOutcome"]);
});

Deno.test("a token of an origin that has taken over has no known outcome; one of an epoch to come is nobody's", () => {
  const { flows } = new Setting();
  const id = (EPOCH + 1) * 2 ** 32 + 1;
  const unknown = { kind: "unknown", reason: OF_SUCCESSOR } as const;
  const asked = [{ kind: "readEpoch" }] as const;
  for (const answer of [EPOCH + 1, EPOCH + 2, new Error("the database is away")]) {
    const write = writeOf("k", { writerTokenId: id });
    const answers = { readEpoch: [answer] };
    assertEquals(play(flows.write([write]), answers), { steps: [...asked], result: [unknown] });
    assertEquals(play(flows.resolve("k", id), answers), { steps: [...asked], result: unknown });
  }
  const none = play(flows.resolve("k", id), { readEpoch: [EPOCH] });
  assertEquals(none, { steps: [...asked], result: { kind: "none" } });
});
