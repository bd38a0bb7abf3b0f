import type { RunResult, Schedule } from "../generator.ts";
import { CONNECTIONS } from "../rows.ts";
import type { LoadName } from "./loads.ts";
import type { ClientOrder } from "./worker.ts";
import { Workers } from "./workers.ts";

/** How clients load a server. */
export interface ClientOptions {
  /** Threads. */
  readonly count: number;
  readonly tls?: boolean;
  /** Of all threads together. */
  readonly connections?: number;
}

/** Load generators of one server, each in a thread of its own. */
export class ClientThreads {
  readonly #workers: Workers<ClientOrder>;

  private constructor(workers: Workers<ClientOrder>) {
    this.#workers = workers;
  }

  /** Connects the threads. @throws Error when the server sends a wrong reply. */
  static async open(
    port: number,
    load: LoadName,
    { count, tls = false, connections = CONNECTIONS }: ClientOptions,
  ): Promise<ClientThreads> {
    const workers = new Workers<ClientOrder>(new URL("./worker.ts", import.meta.url), count);
    await workers.ask((index) => ({
      kind: "open",
      port,
      connections: Math.floor((connections + index) / count),
      load,
      tls,
      seed: index + 1,
    }));
    return new ClientThreads(workers);
  }

  /** Runs all threads; those at a rate share it. Returns their results as one. */
  async run(schedule: Schedule): Promise<RunResult> {
    const perSecond = schedule.perSecond / this.#workers.count;
    const results = await this.#workers.ask<RunResult>(() => ({
      kind: "run",
      schedule: { ...schedule, perSecond },
    }));
    return {
      count: results.reduce((sum, { count }) => sum + count, 0),
      seconds: Math.max(...results.map((result) => result.seconds)),
      latenciesMs: Float64Array.from(results.flatMap((one) => [...one.latenciesMs])).sort(),
      ownPauseMs: Math.max(...results.map(({ ownPauseMs }) => ownPauseMs)),
    };
  }

  async close(): Promise<void> {
    await this.#workers.ask(() => ({ kind: "close" }));
    this.#workers.close();
  }
}
