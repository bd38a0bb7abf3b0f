import type { TransportEvent } from "../net/transport.ts";
import type { WorkerMessage, WorkerStart } from "./messages.ts";

/** Events of the worker threads. */
export interface ThreadEvents {
  /** A client sent the `shutdown` command. */
  shutdown(): void;
  /** The thread must resume connections whose waiting is over. */
  wake(threadIndex: number): void;
  event(event: TransportEvent): void;
  /** A thread failed with an error: the store may be half changed. */
  died(reason: string): void;
}

/** A worker cannot accept connections. */
export class ThreadError extends Error {
  override readonly name = "ThreadError";
}

/** The workers that serve connections. */
export class Threads {
  readonly #workers: Worker[] = [];
  readonly #ended: Promise<void>[] = [];
  readonly #events: ThreadEvents;

  constructor(events: ThreadEvents) {
    this.#events = events;
  }

  /**
   * Starts a worker.
   *
   * @returns Resolves when it accepts connections; rejects with a ThreadError when it cannot.
   */
  start(start: WorkerStart): Promise<void> {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      type: "module",
      name: `leased-${start.threadIndex}`,
    });
    this.#workers.push(worker);
    const ended = Promise.withResolvers<void>();
    this.#ended.push(ended.promise);
    const ready = Promise.withResolvers<void>();
    worker.onmessage = ({ data }: MessageEvent<WorkerMessage>) => {
      switch (data.kind) {
        case "begun":
          return;
        case "ready":
          return ready.resolve();
        case "refused":
          return ready.reject(new ThreadError(data.reason));
        case "ended":
          return ended.resolve();
        case "shutdown":
          return this.#events.shutdown();
        case "wake":
          return this.#events.wake(data.threadIndex);
        case "event":
          return this.#events.event(data.event);
      }
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.#events.died(event.message);
    };
    worker.postMessage(start);
    return ready.promise;
  }

  /** Resolves when every worker has closed its last connection. */
  async ended(): Promise<void> {
    await Promise.all(this.#ended);
  }
}
