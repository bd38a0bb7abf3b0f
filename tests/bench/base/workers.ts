/// <reference lib="deno.worker" />
type Handlers = Readonly<Record<string, (...args: never[]) => unknown>>;

/** Threads of a module that calls `serve`. A thread answers each order with one message. */
export class Workers<H extends Handlers> implements Disposable {
  readonly #workers: readonly Worker[];

  constructor(module: URL, readonly count: number) {
    this.#workers = Array.from({ length: count }, () => new Worker(module, { type: "module" }));
  }

  /**
   * Calls a handler in the first `count` threads. Returns what they return.
   *
   * @param args By the thread's index.
   * @throws Error when a thread fails.
   */
  ask<N extends keyof H>(
    name: N,
    args: (index: number) => Parameters<H[N]>,
    count: number = this.count,
  ): Promise<Awaited<ReturnType<H[N]>>[]> {
    return Promise.all(
      this.#workers.slice(0, count).map((worker, index) =>
        new Promise<Awaited<ReturnType<H[N]>>>((resolve, reject) => {
          worker.onmessage = ({ data }) => resolve(data);
          worker.onerror = ({ message }) => reject(new Error(message));
          worker.postMessage([name, args(index)]);
        })
      ),
    );
  }

  [Symbol.dispose](): void {
    for (const worker of this.#workers) worker.terminate();
  }
}

/** In a worker: answers orders by these handlers. Returns them, for their type. */
export function serve<H extends Handlers>(handlers: H): H {
  self.onmessage = async ({ data: [name, args] }: MessageEvent<[keyof H, never[]]>) =>
    self.postMessage(await handlers[name]!(...args));
  return handlers;
}
