import { askWorker } from "../clients/ask_worker.ts";
import type { TailResult } from "../open_generator.ts";
import { CONNECTIONS } from "../rows.ts";
import type { TailOrder } from "./worker.ts";

/** Threads that load one server together, over CONNECTIONS connections. */
export class OpenClients {
  readonly #workers: readonly Worker[];

  private constructor(workers: readonly Worker[]) {
    this.#workers = workers;
  }

  static async open(port: number, count: number): Promise<OpenClients> {
    const module = new URL("./worker.ts", import.meta.url);
    const workers = Array.from({ length: count }, () => new Worker(module, { type: "module" }));
    await Promise.all(workers.map((worker, index) => {
      const connections = Math.floor((CONNECTIONS + index) / count);
      return askWorker<TailOrder>(worker, { kind: "open", port, connections, seed: index + 1 });
    }));
    return new OpenClients(workers);
  }

  /** Keeps one request in flight on each connection. Returns replies per second. */
  async runClosed(count: number): Promise<number> {
    const share = Math.ceil(count / this.#workers.length);
    const rates = await this.#ask<number>({ kind: "closed", count: share });
    return rates.reduce((sum, rate) => sum + rate, 0);
  }

  /** @param rate Of all threads together. */
  async run(mix: number, rate: number, seconds: number): Promise<TailResult> {
    const share = rate / this.#workers.length;
    const results = await this.#ask<TailResult>({ kind: "run", mix, rate: share, seconds });
    const total = results.reduce((sum, { latenciesMs }) => sum + latenciesMs.length, 0);
    const latenciesMs = new Float64Array(total);
    let at = 0;
    for (const result of results) {
      latenciesMs.set(result.latenciesMs, at);
      at += result.latenciesMs.length;
    }
    return {
      latenciesMs: latenciesMs.sort(),
      seconds: Math.max(...results.map((result) => result.seconds)),
      ownPauseMs: Math.max(...results.map((result) => result.ownPauseMs)),
    };
  }

  close(): void {
    for (const worker of this.#workers) worker.terminate();
  }

  #ask<Answer>(order: TailOrder): Promise<Answer[]> {
    return Promise.all(
      this.#workers.map((worker) => askWorker<TailOrder, Answer>(worker, order)),
    );
  }
}
