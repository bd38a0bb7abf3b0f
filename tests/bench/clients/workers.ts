/** Threads that carry out orders. A worker answers each order with one message. */
export class Workers<Order> {
  readonly #workers: readonly Worker[];

  constructor(module: URL, count: number) {
    this.#workers = Array.from({ length: count }, () => new Worker(module, { type: "module" }));
  }

  get count(): number {
    return this.#workers.length;
  }

  /**
   * Gives an order to the first `count` threads and returns their answers.
   *
   * @param order By the thread's index.
   * @throws Error when a thread fails.
   */
  ask<Answer = number>(order: (index: number) => Order, count = this.count): Promise<Answer[]> {
    return Promise.all(
      this.#workers.slice(0, count).map((worker, index) =>
        new Promise<Answer>((resolve, reject) => {
          worker.onmessage = ({ data }: MessageEvent<Answer>) => resolve(data);
          worker.onerror = ({ message }) => reject(new Error(message));
          worker.postMessage(order(index));
        })
      ),
    );
  }

  close(): void {
    for (const worker of this.#workers) worker.terminate();
  }
}
