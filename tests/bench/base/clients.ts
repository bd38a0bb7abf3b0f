import type { ClientHandlers } from "./client_worker.ts";
import { Batches, Generator, type RunResult, type Schedule } from "./generator.ts";
import { type LoadName, NumberedSets } from "./loads.ts";
import { CONNECTIONS, preload, verify } from "./rows.ts";
import { Workers } from "./workers.ts";

/** Sets that are sent together to fill a store. */
const FILL_BATCH = 100;

/** How clients load a server. */
export interface ClientOptions {
  /** Threads. */
  readonly count?: number;
  readonly tls?: boolean;
  /** Of all threads together. */
  readonly connections?: number;
}

/** Load generators of one server, each in a thread of its own. */
export class ClientThreads implements AsyncDisposable {
  readonly #workers: Workers<ClientHandlers>;

  private constructor(workers: Workers<ClientHandlers>) {
    this.#workers = workers;
  }

  /** Connects the threads. @throws Error when the server sends a wrong reply. */
  static async open(
    port: number,
    load: LoadName,
    { count = 1, tls = false, connections = CONNECTIONS }: ClientOptions = {},
  ): Promise<ClientThreads> {
    const workers = new Workers<ClientHandlers>(
      new URL("./client_worker.ts", import.meta.url),
      count,
    );
    const share = (index: number): number => Math.floor((connections + index) / count);
    await workers.ask("open", (index) => [port, share(index), load, tls, index + 1]);
    return new ClientThreads(workers);
  }

  /** Runs all threads; those at a rate share it. Returns their results as one. */
  async run(schedule: Schedule): Promise<RunResult> {
    const { count } = this.#workers;
    const perSecond = (schedule.perSecond ?? 0) / count;
    const results = await this.#workers.ask("run", () => [{ ...schedule, perSecond }]);
    return {
      count: results.reduce((sum, { count }) => sum + count, 0),
      seconds: Math.max(...results.map((result) => result.seconds)),
      latenciesMs: Float64Array.from(results.flatMap((one) => [...one.latenciesMs])),
      ownPauseMs: Math.max(...results.map(({ ownPauseMs }) => ownPauseMs)),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#workers.ask("close", () => []);
    this.#workers[Symbol.dispose]();
  }
}

/** Stores the keys of all rows. */
export function fill(port: number, tls = false): void {
  const batches = preload();
  using generator = new Generator(port, 1, new Batches(batches), tls);
  verify(generator, batches);
}

/** Stores items with numbers from `first` on, at least up to `end`, over one connection. Returns the next number. */
export function fillNumbers(port: number, first: number, end: number, valueBytes: number): number {
  const sets = new NumberedSets(FILL_BATCH, valueBytes);
  using generator = new Generator(port, 1, new Batches([sets.batch]));
  let at = first;
  for (; at < end; at += FILL_BATCH) generator.ask(sets.from(at));
  return at;
}
