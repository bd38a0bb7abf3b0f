import type { ClientOrder } from "./worker.ts";
import { askWorker } from "./ask_worker.ts";
import { type BenchRow, CONNECTIONS } from "../rows.ts";

/** How clients load a server. */
export interface ClientOptions {
  /** Threads. */
  readonly count: number;
  readonly tls: boolean;
  /** Whether memcslap loads the servers, in the place of threads. */
  readonly memcslap?: boolean;
}

/** Load generators of one server, each in a thread of its own; together they have CONNECTIONS connections. */
export class ClientThreads {
  readonly #workers: readonly Worker[];

  private constructor(workers: readonly Worker[]) {
    this.#workers = workers;
  }

  /**
   * Connects the threads.
   *
   * @param against Whether to send the load that the row is compared with.
   * @throws Error when the server sends a wrong reply.
   */
  static async open(
    port: number,
    row: BenchRow,
    against: boolean,
    { count, tls }: ClientOptions,
  ): Promise<ClientThreads> {
    const module = new URL("./worker.ts", import.meta.url);
    const workers = Array.from({ length: count }, () => new Worker(module, { type: "module" }));
    await Promise.all(workers.map((worker, index) =>
      askWorker<ClientOrder>(worker, {
        kind: "open",
        port,
        connections: Math.floor((CONNECTIONS + index) / count),
        row: row.name,
        against,
        tls,
        seed: index + 1,
      })
    ));
    return new ClientThreads(workers);
  }

  /** Keeps all connections busy. @returns Requests or keys a second. */
  async run(seconds: number): Promise<number> {
    const rates = await Promise.all(
      this.#workers.map((worker) => askWorker<ClientOrder>(worker, { kind: "run", seconds })),
    );
    return rates.reduce((sum, rate) => sum + rate, 0);
  }

  async close(): Promise<void> {
    await Promise.all(
      this.#workers.map((worker) => askWorker<ClientOrder>(worker, { kind: "close" })),
    );
    for (const worker of this.#workers) worker.terminate();
  }
}
