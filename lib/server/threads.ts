import type { Credentials } from "../../protocol/auth/password_checks.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { type Listen, ListenError, type TransportEvent } from "../net/transport.ts";
import { logProcess } from "../process/log.ts";
import type { Stop } from "../process/stop.ts";
import type { WorkerMessage, WorkerStart } from "./messages.ts";

/** More threads than this, and than so many for each processor, cause a warning. */
const THREADS_UNWARNED = 8;
const THREADS_PER_PROCESSOR = 4;
/** The server listens when so many threads, and one for each processor, are ready. The others join one by one. */
const THREADS_FIRST = 4;

/** Events of the worker threads. */
interface ThreadEvents {
  /** A client sent the `shutdown` command. */
  shutdown(): void;
  event(event: TransportEvent): void;
  /** A client sent a password. */
  authenticate(owner: ConnectionId, credentials: Credentials): void;
  /** A thread failed with an error: the store may be half changed. */
  died(reason: string): void;
}

/** Messages of a worker that the main thread waits for; `ended`: the worker has closed its last connection. */
type Milestone = Extract<
  WorkerMessage["kind"],
  "warm" | "open" | "listening" | "ended"
>;

/** A worker cannot open its sockets. */
export class ThreadError extends Error {
  override readonly name = "ThreadError";
}

/** The workers that serve connections. */
export class Threads {
  readonly #workers: Worker[] = [];
  readonly #reached: Record<Milestone, Promise<void>[]> = {
    warm: [],
    open: [],
    listening: [],
    ended: [],
  };
  readonly #refused = Promise.withResolvers<never>();
  readonly #count: number;
  readonly #startOf: (threadIndex: number) => WorkerStart;
  readonly #events: ThreadEvents;

  /** @param startOf Returns the first message to a worker. */
  constructor(
    count: number,
    startOf: (threadIndex: number) => WorkerStart,
    events: ThreadEvents,
  ) {
    this.#count = count;
    this.#startOf = startOf;
    this.#events = events;
    warnOfThreads(count);
  }

  /** Starts the threads without which the server does not listen. */
  async startFirst(stop: Stop): Promise<void> {
    const first = Math.min(this.#count, Math.max(THREADS_FIRST, navigator.hardwareConcurrency));
    while (this.#workers.length < first && await this.#startNext(stop));
  }

  /** Starts the other threads while these serve, one at a time: they take the processors from each other. */
  async startRest(stop: Stop): Promise<void> {
    const count = this.#count;
    if (this.#workers.length === count) return;
    while (this.#workers.length < count) {
      if (!await this.#startNext(stop) || !await this.reachOrStop("listening", stop)) return;
    }
    logProcess("info", "threads_serve", `all ${count} threads serve`, { threads: count });
  }

  /** Starts a thread, unless the server is stopped. Its creation blocks: signals are handled before. */
  async #startNext(stop: Stop): Promise<boolean> {
    await new Promise((resolve) => setTimeout(resolve));
    if (stop.isRequested) return false;
    this.#start(this.#startOf(this.#workers.length));
    return true;
  }

  #start(start: WorkerStart): void {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), {
      type: "module",
      name: `leased-${start.threadIndex}`,
    });
    this.#workers.push(worker);
    const milestones = {
      warm: Promise.withResolvers<void>(),
      open: Promise.withResolvers<void>(),
      listening: Promise.withResolvers<void>(),
      ended: Promise.withResolvers<void>(),
    };
    for (const [milestone, { promise }] of Object.entries(milestones)) {
      this.#reached[milestone as Milestone].push(promise);
    }
    worker.onmessage = ({ data }: MessageEvent<WorkerMessage>) => {
      switch (data.kind) {
        case "begun":
          return;
        case "warm":
        case "open":
        case "listening":
        case "ended":
          return milestones[data.kind].resolve();
        case "refused":
          return this.#refused.reject(refusalOf(data.reason, data.socket));
        case "shutdown":
          return this.#events.shutdown();
        case "authenticate":
          return this.#events.authenticate(data.owner, data.credentials);
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

  /** Resolves when every worker has reached a milestone. Rejects with a ThreadError or ListenError when one cannot. */
  async reach(milestone: Milestone): Promise<void> {
    await Promise.race([Promise.all(this.#reached[milestone]), this.#refused.promise]);
  }

  /** As `reach`, or until the server is stopped. @returns False if it is. */
  async reachOrStop(milestone: Milestone, stop: Stop): Promise<boolean> {
    await Promise.race([this.reach(milestone), stop.requested]);
    return !stop.isRequested;
  }
}

/** Warns if there are far more threads than processors. */
function warnOfThreads(threads: number): void {
  const processors = navigator.hardwareConcurrency;
  if (threads <= Math.max(THREADS_UNWARNED, THREADS_PER_PROCESSOR * processors)) return;
  logProcess(
    "warning",
    "many_threads",
    `-t ${threads}: ${processors} processors; each thread takes about 25 MB and a quarter of a ` +
      "second of a processor at the start; use as many threads as processors",
    { threads, processors },
  );
}

function refusalOf(
  reason: string,
  socket: { readonly listen: Listen; readonly code: string } | undefined,
): Error {
  return socket === undefined
    ? new ThreadError(reason)
    : new ListenError(socket.listen, socket.code, reason);
}
