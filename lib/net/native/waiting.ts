import type { ConnectionId } from "../../../store/connections.ts";
import { type Lifecycle, LifecyclePhase } from "../../process/lifecycle.ts";
import { DRAIN_GRACE_MS, DRAIN_MS_MAX } from "../transport.ts";
import type { TransportThread } from "../worker_transport.ts";
import type { NativeConnection } from "./connection.ts";
import { type Epoll, EPOLLERR, EPOLLHUP, EPOLLRDHUP } from "./epoll.ts";

/** The connections of one thread whose conversations wait for the store, for example for a lock. */
export class WaitingConnections {
  readonly #thread: TransportThread;
  readonly #threadIndex: number;
  readonly #epoll: Epoll;
  /** Open connections that have waited, by id. */
  readonly #known = new Map<ConnectionId, NativeConnection>();
  readonly #resume: (id: ConnectionId) => void;

  /** @param resume Continues a connection that need not wait any longer. */
  constructor(
    thread: TransportThread,
    threadIndex: number,
    epoll: Epoll,
    resume: (connection: NativeConnection) => void,
  ) {
    this.#thread = thread;
    this.#threadIndex = threadIndex;
    this.#epoll = epoll;
    this.#resume = (id) => {
      const connection = this.#known.get(id);
      // A connection with unsent bytes looks for itself when these are sent.
      if (connection === undefined || !connection.waiting) return;
      connection.waiting = false;
      resume(connection);
    };
  }

  /**
   * Stops reading a connection that waits for the store, but detects when its peer closes. A wait for the server
   * alone is short: epoll is changed only if bytes arrive during the wait.
   */
  add(connection: NativeConnection): void {
    if (connection.waiting) return;
    connection.waiting = true;
    this.#known.set(connection.id, connection);
    const { conversation, service } = connection;
    service.connections.setActivity(connection.id, conversation.waitActivity);
    if (!conversation.awaitsServer) this.#epoll.watch(connection, EPOLLRDHUP);
  }

  /**
   * Acts on events of a connection that waits, which may be older than its wait.
   *
   * @returns Whether the peer is gone: the connection must be closed.
   */
  isGone(connection: NativeConnection, events: number): boolean {
    const { awaitsServer } = connection.conversation;
    const gone = awaitsServer ? EPOLLERR | EPOLLHUP : EPOLLERR | EPOLLHUP | EPOLLRDHUP;
    if (events & gone) return true;
    if (awaitsServer) this.#epoll.watch(connection, 0);
    return false;
  }

  /** Resumes connections that need not wait any longer. */
  resumeReady(): void {
    this.#thread.takeReady(this.#threadIndex, this.#resume);
  }

  /** The connection is closed. */
  forget(connection: NativeConnection): void {
    this.#known.delete(connection.id);
  }

  /** Whether a reply is due that depends on neither a peer nor other clients. */
  get awaitServer(): boolean {
    for (const { waiting, conversation } of this.#known.values()) {
      if (waiting && conversation.awaitsServer) return true;
    }
    return false;
  }
}

/**
 * While the process drains, finishes requests in progress and sends unsent replies, for DRAIN_MS_MAX at most.
 *
 * @param isBusy Whether there are any.
 * @param serve Serves the sockets that are ready; waits `timeoutMs` at most for one.
 */
export function drain(
  lifecycle: Lifecycle,
  isBusy: () => boolean,
  serve: (timeoutMs: number) => void,
): void {
  const startedMs = performance.now();
  while (lifecycle.phase === LifecyclePhase.DRAINING) {
    const drainedMs = performance.now() - startedMs;
    if (drainedMs > DRAIN_MS_MAX || (drainedMs > DRAIN_GRACE_MS && !isBusy())) return;
    serve(DRAIN_GRACE_MS / 4);
  }
}
