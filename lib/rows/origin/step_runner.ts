import type { Cache } from "../../../store/cache.ts";
import { latin1Bytes } from "../../../store/base/bytes.ts";
import type { Backend, Found, ViewKey } from "../../databases/base/backend.ts";
import type { FlowStep, RowFlow, StepKind, StepResults } from "../flows/steps.ts";
import { runFlow } from "../../flow/flow.ts";
import { ActiveViews } from "./active_views.ts";
import { removeRows } from "../row_removal.ts";
import { StepTimes, TIMED_STEPS, type TimedStep } from "./step_times.ts";

/** Runs flows: executes their steps with the store, the nodes, the database and the clock. */
export class StepRunner {
  readonly times: Readonly<Record<TimedStep, StepTimes>>;
  readonly #cache: Cache;
  readonly #backend: Backend;
  readonly #sleep: (ms: number) => Promise<void>;
  /** Deletes keys in all nodes. */
  invalidateNodes: (keys: readonly string[]) => Promise<void> = () => Promise.resolve();
  readonly views = new ActiveViews();

  /** @param sleep Waits for some milliseconds. */
  constructor(cache: Cache, backend: Backend, sleep: (ms: number) => Promise<void>) {
    this.#cache = cache;
    this.#backend = backend;
    this.#sleep = sleep;
    const times = TIMED_STEPS.map(([kind]) => [kind, new StepTimes()]);
    this.times = Object.fromEntries(times) as Record<TimedStep, StepTimes>;
  }

  /** Runs a flow to its end. @throws The flow's error. */
  run<Result>(flow: RowFlow<Result>): Promise<Result> {
    return runFlow(flow, (step) => {
      const times = this.times[step.kind as TimedStep] as StepTimes | undefined;
      return times === undefined ? this.#take(step) : this.#takeInTime(step, times);
    });
  }

  async #takeInTime(step: FlowStep, times: StepTimes): Promise<StepResults[StepKind]> {
    const startMs = performance.now();
    let failures = 1;
    try {
      const result = await this.#take(step);
      failures = failuresIn(result);
      return result;
    } finally {
      times.add(performance.now() - startMs, failures);
    }
  }

  /** Executes one step. @throws The errors that `StepResults` names. */
  #take(step: FlowStep): Promise<StepResults[StepKind]> | StepResults[StepKind] {
    switch (step.kind) {
      case "invalidateHere":
        return this.#invalidateHere(step.keys, step.connections);
      case "expelHere":
        return this.#expelHere(step.keys);
      case "expelPrefixesHere":
        return this.#expelPrefixesHere(step.prefixes);
      case "emptyHere":
        return this.#emptyHere();
      case "invalidateNodes":
        return this.invalidateNodes(step.keys);
      case "readRows":
        return this.#readRows(step.keys);
      case "writeRows": {
        const writes = step.writes.map((write) => ({ ...write, key: latin1Bytes(write.key) }));
        return this.#backend.writeGroup(writes, step.epoch);
      }
      case "lockOrigin":
        return this.#backend.lockOrigin();
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
        return this.#sleep(step.ms);
    }
  }

  /** Reads keys of views from their queries, the others from the table. */
  #readRows(keys: readonly string[]): Promise<readonly Found[]> {
    const asked = keys.map((key) => this.views.find(key));
    const viewKeys = asked.filter((key) => key !== null);
    if (viewKeys.length === 0) return this.#backend.readMany(keys.map(latin1Bytes));
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
      this.#backend.readMany(rowKeys.map(latin1Bytes)),
      this.views.read(viewKeys),
    ]);
    const [nextRow, nextResult] = [rows.values(), results.values()];
    return asked.map((key) => (key === null ? nextRow : nextResult).next().value!);
  }

  #invalidateHere(keys: readonly string[], connections: readonly number[]): boolean[] {
    const cache = this.#cache;
    cache.enter();
    const freed = keys.map((key, index) =>
      cache.rows!.removal.invalidate(key, connections[index]!)
    );
    cache.leave();
    return freed;
  }

  #expelHere(keys: readonly string[]): void {
    const cache = this.#cache;
    cache.enter();
    for (const key of keys) cache.rows!.removal.expel(key);
    cache.leave();
  }

  #expelPrefixesHere(prefixes: readonly string[]): Promise<void> {
    return removeRows(this.#cache, prefixes.map(latin1Bytes), this.#sleep);
  }

  #emptyHere(): void {
    const cache = this.#cache;
    cache.enter();
    cache.flushAll(0);
    for (let row = 1; row !== 0;) row = cache.tokens.removeLocked(row);
    cache.leave();
  }
}

/** Returns how often the result says that the database could not do its part. */
function failuresIn(result: StepResults[StepKind]): number {
  if (!Array.isArray(result)) return 0;
  return result.filter((each) =>
    typeof each === "object" && (each?.kind === "failed" || each?.kind === "unknown")
  ).length;
}
