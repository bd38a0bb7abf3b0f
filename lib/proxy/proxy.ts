import type { Backend, Edit } from "../rows/databases/backend.ts";
import { latin1Bytes } from "../rows/bytes.ts";
import type { CacheClient } from "./cache_client.ts";
import type { CacheList, ListChange, Weighted } from "../rows/flows/cache_list.ts";
import type { Flow, FlowStep, StepKind, StepResults } from "../rows/flows/steps.ts";
import { Flows, type ProxyCounts, type PutReply, type Read, type Value } from "./flows.ts";
import { isFailure, StepTimes, type TimedStep } from "./statistics/step_times.ts";
import type { TokenStates } from "../rows/flows/token_states.ts";

/** Runs the proxy's flows: executes their steps with the caches, the database and the clock. */
export class Proxy {
  readonly #flows: Flows<CacheClient>;
  readonly #backend: Backend;
  readonly #sleep: (ms: number) => Promise<void>;
  /** How long steps took. */
  readonly times: Record<TimedStep, StepTimes> = {
    invalidate: new StepTimes(),
    readRow: new StepTimes(),
    writeRow: new StepTimes(),
    askOutcome: new StepTimes(),
    noteCaches: new StepTimes(),
  };
  readonly #deposed = Promise.withResolvers<void>();

  /**
   * @param valueLengthMax Longest value that is written, in bytes.
   * @param sleep Waits for some milliseconds; tests return at once.
   */
  constructor(
    backend: Backend,
    caches: CacheList<CacheClient>,
    states: TokenStates,
    valueLengthMax: number,
    sleep: (ms: number) => Promise<void>,
  ) {
    this.#backend = backend;
    this.#flows = new Flows(caches, states, valueLengthMax);
    this.#sleep = sleep;
  }

  get caches(): CacheList<CacheClient> {
    return this.#flows.caches;
  }

  get states(): TokenStates {
    return this.#flows.states;
  }

  get counts(): ProxyCounts {
    return this.#flows.counts;
  }

  /** Whether another proxy has taken over: every request is refused from then on. */
  get isDeposed(): boolean {
    return this.#flows.isDeposed;
  }

  /** `Flows.deposedText` */
  get deposedText(): string {
    return this.#flows.deposedText;
  }

  /** Resolves when this proxy learns that another one has taken over. */
  get deposed(): Promise<void> {
    return this.#deposed.promise;
  }

  get valueLengthMax(): number {
    return this.#flows.valueLengthMax;
  }

  /** `Flows.read` */
  read(key: string, isReadable = true): Promise<Read> {
    return this.#run(this.#flows.read(key, isReadable));
  }

  /** `Flows.get` */
  get(key: string): Promise<Value | null> {
    return this.#run(this.#flows.get(key));
  }

  /** `Flows.write` */
  write(key: string, edit: Edit): Promise<PutReply> {
    return this.#run(this.#flows.write(key, edit));
  }

  /** `Flows.put` */
  put(key: string, id: number, edit: Edit): Promise<PutReply> {
    return this.#run(this.#flows.put(key, id, edit));
  }

  /** `Flows.checkEpoch` */
  checkEpoch(): Promise<void> {
    return this.#run(this.#flows.checkEpoch());
  }

  /** `CacheList.change`; one at a time. */
  changeCaches(target: readonly Weighted<CacheClient>[]): Promise<ListChange> {
    return this.#run(this.#flows.changeCaches(target));
  }

  /** The proxy has no such command. */
  forgetCache(): Promise<boolean> {
    return Promise.resolve(false);
  }

  /** `Flows.resolve` */
  resolve(key: string, id: number): Promise<PutReply> {
    return this.#run(this.#flows.resolve(key, id));
  }

  async #run<Result>(flow: Flow<CacheClient, Result>): Promise<Result> {
    let yielded = flow.next();
    while (!yielded.done) {
      let result: StepResults[StepKind];
      const { kind } = yielded.value;
      const times = kind in this.times ? this.times[kind as TimedStep] : null;
      const startMs = performance.now();
      try {
        result = await this.#take(yielded.value);
        times?.add(performance.now() - startMs, isFailure(result));
      } catch (error) {
        times?.add(performance.now() - startMs, true);
        yielded = flow.throw(error);
        continue;
      }
      yielded = flow.next(result);
    }
    if (this.isDeposed) this.#deposed.resolve();
    return yielded.value;
  }

  /** Executes one step. @throws The errors that `StepResults` names. */
  #take(step: FlowStep<CacheClient>): Promise<StepResults[StepKind]> {
    switch (step.kind) {
      case "leaseGet":
        return step.cache.leaseGet(step.key);
      case "leaseSet":
        return step.cache.leaseSet(step.key, step.leaseId, step.row.flags, step.row.data);
      case "leaseReturn":
        return step.cache.leaseReturn(step.key, step.leaseId);
      case "invalidate":
        return invalidate(step.caches, step.key);
      case "quarantine":
        return step.cache.quarantine(step.on);
      case "noteCaches":
        return this.#backend.noteCaches(step.caches, step.epoch);
      case "readRow":
        return this.#backend.readMany([latin1Bytes(step.key)]).then(([found]) => found!);
      case "writeRow": {
        const { tokenId, epoch, edit, owner } = step;
        const write = { key: latin1Bytes(step.key), tokenId, edit, owner };
        return this.#backend.writeGroup([write], epoch).then(([result]) => result!);
      }
      case "askOutcome":
        return this.#backend.outcome(step.tokenId);
      case "sleep":
        return this.#sleep(step.ms);
      default:
        throw new Error(step.kind);
    }
  }
}

/** Deletes the key in all caches; waits for all, also after one has failed. @throws The first error. */
async function invalidate(caches: readonly CacheClient[], key: string): Promise<void> {
  const results = await Promise.allSettled(caches.map((cache) => cache.invalidate(key)));
  for (const result of results) if (result.status === "rejected") throw result.reason;
}
