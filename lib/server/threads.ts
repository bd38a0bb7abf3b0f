import { type Listen, ListenError, type TransportEvent } from "../net/transport.ts";
import type { WorkerMessage, WorkerStart } from "./messages.ts";

/** Events of the worker threads. */
export interface ThreadEvents {
  /** A client sent the `shutdown` command. */
  shutdown(): void;
  event(event: TransportEvent): void;
  /** A thread failed with an error: the store may be half changed. */
  died(reason: string): void;
}

/** A worker cannot open its sockets. */
export class ThreadError extends Error {
  override readonly name = "ThreadError";
}

/** The workers that serve connections. */
export class Threads {
  readonly #workers: Worker[] = [];
  readonly #warm: Promise<void>[] = [];
  readonly #open: Promise<void>[] = [];
  readonly #ended: Promise<void>[] = [];
  readonly #events: ThreadEvents;

  constructor(events: ThreadEvents) {
    this.#events = events;
  }

  /** Starts a worker. */
  start(start: WorkerStart): void {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      type: "module",
      name: `leased-${start.threadIndex}`,
    });
    this.#workers.push(worker);
    const warm = Promise.withResolvers<void>();
    const open = Promise.withResolvers<void>();
    const ended = Promise.withResolvers<void>();
    this.#warm.push(warm.promise);
    this.#open.push(open.promise);
    this.#ended.push(ended.promise);
    worker.onmessage = ({ data }: MessageEvent<WorkerMessage>) => {
      switch (data.kind) {
        case "begun":
          return;
        case "warm":
          return warm.resolve();
        case "open":
          return open.resolve();
        case "refused":
          return open.reject(refusalOf(data.reason, data.socket));
        case "ended":
          return ended.resolve();
        case "shutdown":
          return this.#events.shutdown();
        case "event":
          return this.#events.event(data.event);
      }
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.#events.died(event.message);
    };
    worker.postMessage(start);
  }

  /** Resolves when every worker has warmed up. */
  async warm(): Promise<void> {
    await Promise.all(this.#warm);
  }

  /** Resolves when every worker has opened its sockets; rejects with a ThreadError when one cannot. */
  async open(): Promise<void> {
    await Promise.all(this.#open);
  }

  /** Resolves when every worker has closed its last connection. */
  async ended(): Promise<void> {
    await Promise.all(this.#ended);
  }
}

function refusalOf(
  reason: string,
  socket: { readonly listen: Listen; readonly code: string } | undefined,
): Error {
  return socket === undefined
    ? new ThreadError(reason)
    : new ListenError(socket.listen, socket.code, reason);
}
