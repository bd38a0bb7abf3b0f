import type { Backend, Found, ViewKey } from "../../databases/base/backend.ts";
import type { FlowStep, RowDeletion, RowFlow, StepKind, StepResults } from "../flows/steps.ts";
import { runFlow } from "../../flow/flow.ts";
import { ActiveViews } from "./active_views.ts";
import { StepTimes, TIMED_STEPS, type TimedStep } from "./step_times.ts";

/** Deletes rows: see the step `delete`. */
type Delete = (rows: RowDeletion) => readonly boolean[] | Promise<readonly boolean[]>;

/** Pause between two attempts to get the lock of the active origin: shorter than that of a stand-by. */
const TAKE_LOCK_PAUSE_MS = 20;

/** Runs flows: executes their steps with the caches, the database and the clock. */
export class StepRunner {
  readonly times: Readonly<Record<TimedStep, StepTimes>>;
  readonly #backend: Backend;
  readonly #sleep: (ms: number) => Promise<void>;
  /** Set before the first flow that deletes. */
  delete!: Delete;
  readonly views = new ActiveViews();

  /** @param sleep Waits for some milliseconds. */
  constructor(backend: Backend, sleep: (ms: number) => Promise<void>) {
    this.#backend = backend;
    this.#sleep = sleep;
    const times = TIMED_STEPS.map(([kind]) => [kind, new StepTimes()]);
    this.times = Object.fromEntries(times) as Record<TimedStep, StepTimes>;
  }

  /** See `Backend`. */
  get commitsAside(): boolean {
    return this.#backend.commitsAside;
  }

  /** Runs a flow to its end. @throws The flow's error. */
  run<Result>(flow: RowFlow<Result>): Promise<Result> {
    return runFlow(flow, (step) => this.take(step));
  }

  /** Executes one step, and takes its time if it waits. @throws The errors that `StepResults` names. */
  take(step: FlowStep): Promise<StepResults[StepKind]> | StepResults[StepKind] {
    const times = this.times[step.kind as TimedStep] as StepTimes | undefined;
    const startMs = times === undefined ? 0 : performance.now();
    const result = this.#take(step);
    if (times === undefined || !(result instanceof Promise)) return result;
    return inTime(result, startMs, times);
  }

  #take(step: FlowStep): Promise<StepResults[StepKind]> | StepResults[StepKind] {
    switch (step.kind) {
      case "delete":
        return this.delete(step);
      case "readRows":
        return this.#readRows(step.keys);
      case "writeRows":
        return this.#backend.writeGroup(step.writes, step.epoch);
      case "lockOrigin":
        return this.#backend.lockOrigin();
      case "unlockOrigin":
        return this.#backend.unlockOrigin();
      case "takeOver":
        return this.#backend.takeOver(step.rightMs);
      case "readEpoch":
        return this.#backend.readEpoch();
      case "noteEnd":
        return this.#backend.noteEnd(step.epoch);
      case "noteMark":
        return this.#backend.noteMark(step.mark, step.epoch);
      case "askOutcome":
        return this.#backend.outcome(step.tokenId);
      case "sleep":
        return step.takesLock ? this.#sleepTakingLock(step.ms) : this.#sleep(step.ms);
    }
  }

  /** The database may be down meanwhile: the flow asks for the lock itself, if it needs it. */
  async #sleepTakingLock(ms: number): Promise<void> {
    let isLocked = false;
    for (let leftMs = ms; leftMs > 0; leftMs -= TAKE_LOCK_PAUSE_MS) {
      await this.#sleep(Math.min(leftMs, TAKE_LOCK_PAUSE_MS));
      isLocked ||= await this.#backend.lockOrigin().catch(() => false);
    }
  }

  /** Reads keys of views from their queries, the others from the table. */
  #readRows(keys: readonly string[]): Promise<readonly Found[]> {
    const asked = keys.map((key) => this.views.find(key));
    const viewKeys = asked.filter((key) => key !== null);
    if (viewKeys.length === 0) return this.#backend.readMany(keys);
    if (viewKeys.length === keys.length) return this.views.read(viewKeys);
    return this.#readBoth(keys, asked, viewKeys);
  }

  async #readBoth(
    keys: readonly string[],
    asked: readonly (ViewKey | null)[],
    viewKeys: readonly ViewKey[],
  ): Promise<readonly Found[]> {
    const rowKeys = keys.filter((_, index) => asked[index] === null);
    const [rows, results] = await Promise.all([
      this.#backend.readMany(rowKeys),
      this.views.read(viewKeys),
    ]);
    const [nextRow, nextResult] = [rows.values(), results.values()];
    return asked.map((key) => (key === null ? nextRow : nextResult).next().value!);
  }
}

async function inTime(
  result: Promise<StepResults[StepKind]>,
  startMs: number,
  times: StepTimes,
): Promise<StepResults[StepKind]> {
  let failures = 1;
  try {
    const value = await result;
    failures = failuresIn(value);
    return value;
  } finally {
    times.add(performance.now() - startMs, failures);
  }
}

/** Returns how often the result says that the database could not do its part. */
function failuresIn(result: StepResults[StepKind]): number {
  if (!Array.isArray(result)) return 0;
  return result.filter((each) =>
    typeof each === "object" && (each?.kind === "failed" || each?.kind === "unknown")
  ).length;
}
