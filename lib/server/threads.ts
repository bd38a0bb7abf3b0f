import type { Credentials } from "../../protocol/auth/password_checks.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { type Listen, ListenError, type TransportEvent } from "../net/transport.ts";
import type { WorkerMessage, WorkerStart } from "./messages.ts";

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
export type Milestone = Extract<
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
}

function refusalOf(
  reason: string,
  socket: { readonly listen: Listen; readonly code: string } | undefined,
): Error {
  return socket === undefined
    ? new ThreadError(reason)
    : new ListenError(socket.listen, socket.code, reason);
}
