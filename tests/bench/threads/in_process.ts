/** Threads that feed conversations over one store, beside threads with a store each. */
import v8 from "node:v8";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { textOf } from "../../support/sessions/side.ts";
import { askWorker } from "../clients/ask_worker.ts";
import { say, serverEngineFlags } from "../processes.ts";
import { type BenchRow, median, preloadShort } from "../rows.ts";
import type { FedStore, FeedOrder } from "./worker.ts";

const STORE_OPTIONS = ["-m", "64"];
const WARM_UP_SEC = 0.5;
/** Rates in requests or keys a second, one a round, by the number of threads. */
type Rates = ReadonlyMap<number, number[]>;

export class ThreadsInProcess {
  readonly #workers: readonly Worker[];
  /** By how many threads share them; none for one. */
  readonly #shared: ReadonlyMap<number, ConversationSide>;

  private constructor(workers: readonly Worker[], shared: ReadonlyMap<number, ConversationSide>) {
    this.#workers = workers;
    this.#shared = shared;
  }

  /** Makes the stores and threads. @param counts How many threads to measure. */
  static async open(counts: readonly number[]): Promise<ThreadsInProcess> {
    for (const flag of serverEngineFlags()) v8.setFlagsFromString(flag);
    const most = Math.max(...counts);
    const shared = new Map(counts.filter((count) => count > 1).map((count) => [count, fed(count)]));
    const module = new URL("./worker.ts", import.meta.url);
    const workers = Array.from({ length: most }, () => new Worker(module, { type: "module" }));
    for (const [index, worker] of workers.entries()) {
      const sides = [fed(1), ...[...shared].filter(([n]) => n > index).map(([, side]) => side)];
      const stores = sides.map(({ shared, thread }): FedStore => ({
        shared,
        settings: thread.settings,
      }));
      await askWorker<FeedOrder>(worker, { kind: "open", index, stores });
    }
    return new ThreadsInProcess(workers, shared);
  }

  /** Measures a row in alternating rounds and prints it. */
  async measure(row: BenchRow, rounds: number, seconds: number): Promise<void> {
    for (const worker of this.#workers) {
      await askWorker<FeedOrder>(worker, { kind: "load", row: row.name });
    }
    const counts = [...this.#shared.keys()];
    const own = new Map([1, ...counts].map((count): [number, number[]] => [count, []]));
    const shared = new Map(counts.map((count): [number, number[]] => [count, []]));
    await this.#run(this.#workers.length, 1, WARM_UP_SEC);
    for (const count of counts) await this.#run(count, count, WARM_UP_SEC);
    for (let round = 0; round < rounds; round++) {
      for (const [count, rates] of own) rates.push(await this.#run(count, 1, seconds));
      for (const [count, rates] of shared) rates.push(await this.#run(count, count, seconds));
    }
    say(`\n${row.name}: ${row.title}`);
    say(`  1 thread    ${perSecond(median(own.get(1)!))} ${row.unit}s/s`);
    for (const count of counts) say(line(row, count, own, shared));
  }

  close(): void {
    for (const worker of this.#workers) worker.terminate();
  }

  /** Returns what `count` threads do together. @param store By its name, as in FeedOrder. */
  async #run(count: number, store: number, seconds: number): Promise<number> {
    const ready = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
    const order: FeedOrder = { kind: "run", store, seconds, ready, parties: count };
    const workers = this.#workers.slice(0, count);
    return sum(await Promise.all(workers.map((worker) => askWorker(worker, order))));
  }
}

/** A store with all keys, for so many threads. */
function fed(threads: number): ConversationSide {
  const side = new ConversationSide([...STORE_OPTIONS, "-t", String(threads)]);
  const peer = side.connect();
  for (const { bytes, reply } of preloadShort()) {
    if (peer.ask(textOf(bytes)) !== reply) throw new Error("Cannot measure: a key was not stored");
  }
  peer.disconnect();
  return side;
}

function line(row: BenchRow, count: number, own: Rates, shared: Rates): string {
  const ratios = (these: readonly number[], those: readonly number[]): number =>
    median(these.map((rate, round) => rate / those[round]!));
  const [one, together, apart] = [own.get(1)!, shared.get(count)!, own.get(count)!];
  return [
    `  ${count} threads   ${perSecond(median(together))} ${row.unit}s/s`,
    `${ratios(together, one).toFixed(2)} of one thread`,
    `own stores ${ratios(apart, one).toFixed(2)}`,
    `${Math.round(ratios(together, apart) * 100)} % of these`.padStart(14),
  ].join("  ");
}

function perSecond(rate: number): string {
  return Math.round(rate).toLocaleString("en").padStart(11);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
