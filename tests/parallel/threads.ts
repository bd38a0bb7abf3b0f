import { assertEquals } from "@std/assert";
import { type ConversationPeer, ConversationSide } from "../support/sessions/conversation_side.ts";
import { Ledger, ROW } from "./ledger.ts";
import { OPTIONS, type Scenario } from "./scenario.ts";
import { ThreadParts } from "./thread_parts.ts";
import type { ParallelOrder, ParallelReport } from "./worker.ts";
import { held } from "../support/store.ts";

const WORKER = new URL("./worker.ts", import.meta.url);
/** Events between two looks at the event loop, and how long there is rest after them, in milliseconds. */
const EVENTS_PER_BURST = 50;
const REST_MS = 1;
/** Memory limits, for `cache_memlimit`. The first is the least that it takes. */
const LIMITS_MIB = [8, 10, 16, 24];
/** Classes that pages move to: the pool, and some for short values. */
const TARGETS = [0, 1, 5, 12, 20, 30, 40];

/** How much to read. */
export interface ParallelOptions {
  /** Keys read by all threads together. */
  readonly reads: number;
  readonly seed: number;
}

export interface ParallelResult {
  readonly reads: number;
  readonly hits: number;
  readonly changes: number;
  readonly events: number;
  /** The figures of `stats threads`, summed over the threads. */
  readonly stats: ReadonlyMap<string, number>;
}

/** Threads that read and write one store. Each key has one owner, who writes it; all read it. */
export class ParallelThreads implements Disposable {
  readonly #workers: readonly Worker[];

  private constructor(workers: readonly Worker[]) {
    this.#workers = workers;
  }

  static async start(count: number): Promise<ParallelThreads> {
    const workers: Worker[] = [];
    // One after the other: the runtime checks the types of a module once, and then knows them.
    while (workers.length < count) workers.push(await startWorker());
    return new ParallelThreads(workers);
  }

  /** @throws Error when a thread reads what was not there, or the store is not whole at the end. */
  async run(scenario: Scenario, { reads, seed }: ParallelOptions): Promise<ParallelResult> {
    const threads = this.#workers.length;
    const side = new ConversationSide([...OPTIONS, ...scenario.options, "-t", String(threads + 1)]);
    const ledger = new Ledger(scenario.keys);
    const reports = this.#workers.map((worker, index) =>
      ask(worker, {
        shared: side.shared,
        settings: side.thread.settings,
        scenario,
        ledger: ledger.buffer,
        threadIndex: index + 1,
        threads,
        seed: seed + index,
        reads: Math.ceil(reads / threads),
      })
    );
    const world = new World(side, scenario, ledger, seed + threads);
    let areDone = false;
    const all = Promise.all(reports).finally(() => areDone = true);
    while (!areDone) {
      for (let count = 0; count < EVENTS_PER_BURST && ledger.ended < threads; count++) {
        world.event();
      }
      await new Promise((resolve) => setTimeout(resolve, REST_MS));
    }
    const done = await all;
    for (const { error } of done) assertEquals(error, undefined);
    side.check();
    const sum = (pick: (report: ParallelReport) => number): number =>
      done.reduce((total, report) => total + pick(report), 0);
    return {
      reads: sum((report) => report.reads),
      hits: sum((report) => report.hits),
      changes: sum((report) => report.changes),
      events: world.events,
      stats: world.threadStats(),
    };
  }

  [Symbol.dispose](): void {
    for (const worker of this.#workers) worker.terminate();
  }
}

function startWorker(): Promise<Worker> {
  const worker = new Worker(WORKER, { type: "module" });
  return new Promise((resolve, reject) => {
    worker.onmessage = () => resolve(worker);
    worker.onerror = ({ message }) => reject(new Error(message));
  });
}

function ask(worker: Worker, order: ParallelOrder): Promise<ParallelReport> {
  return new Promise((resolve) => {
    worker.onmessage = ({ data }: MessageEvent<ParallelReport>) => resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      resolve({ reads: 0, hits: 0, changes: 0, error: event.message });
    };
    worker.postMessage(order);
  });
}

/** Events in the store beside its clients. */
class World {
  events = 0;
  readonly #side: ConversationSide;
  readonly #peer: ConversationPeer;
  readonly #scenario: Scenario;
  readonly #ledger: Ledger;
  readonly #parts: ThreadParts;

  constructor(side: ConversationSide, scenario: Scenario, ledger: Ledger, seed: number) {
    this.#side = side;
    this.#peer = side.connect();
    this.#scenario = scenario;
    this.#ledger = ledger;
    this.#parts = new ThreadParts({ ...scenario, keys: 0 }, ledger, seed);
  }

  event(): void {
    this.events++;
    const event = this.#parts.draw(this.#scenario.events);
    if (event === "maintain") this.#maintain();
    else if (event === "second") this.#side.pause(1);
    else if (event === "flush") this.#flush(() => this.#expect("flush_all", /^OK\r\n$/));
    else if (event === "flush later") this.#flushLater();
    else if (event === "limit") this.#limit();
    else this.#reassign();
  }

  /** All that a thread has counted, by name. */
  threadStats(): Map<string, number> {
    const sums = new Map<string, number>();
    for (
      const [, name, value] of this.#peer.ask("stats threads\r\n").matchAll(/ \w+:(\w+) (\d+)/g)
    ) {
      sums.set(name!, (sums.get(name!) ?? 0) + Number(value));
    }
    return sums;
  }

  #maintain(): void {
    const { cache } = this.#side.thread;
    held(cache, () => cache.maintain());
  }

  #limit(): void {
    const mib = LIMITS_MIB[this.#parts.below(LIMITS_MIB.length)]!;
    this.#expect(`cache_memlimit ${mib}`, /^OK\r\n$/);
  }

  #reassign(): void {
    const target = TARGETS[this.#parts.below(TARGETS.length)]!;
    this.#expect(`slabs reassign -1 ${target}`, /^(OK|BUSY|BADCLASS|NOSPARE|NOTFULL|UNSAFE|SAME)/);
  }

  #expect(request: string, reply: RegExp): void {
    const found = this.#peer.ask(`${request}\r\n`);
    if (!reply.test(found)) throw new Error(`${found} to ${request}`);
  }

  #flushLater(): void {
    this.#flush(() => {
      this.#expect("flush_all 1", /^OK\r\n$/);
      // The second in which all is hidden, and the one after it.
      this.#side.pause(1);
      this.#side.pause(1);
    });
  }

  /** Whatever was stored before is never read after it. */
  #flush(flush: () => void): void {
    const versions = Int32Array.from(
      { length: this.#scenario.keys },
      (_, key) => this.#ledger.get(key, ROW.VERSION),
    );
    flush();
    for (const [key, version] of versions.entries()) {
      this.#ledger.set(key, ROW.FLOOR, version + 1);
    }
  }
}
