import { clockSec } from "../../store/clock.ts";
import { type ConnectionId, ConnectionKind } from "../../store/connections.ts";
import { STAT } from "../../store/stats.ts";
import type { CloseReason } from "../../store/cache.ts";
import type { Service } from "./service.ts";
import {
  authenticationTimedOut,
  connectionStalled,
  type EventSource,
  lockHolderClosed,
  type TransportEvent,
} from "./transport.ts";
import type { TransportContext, TransportThread } from "./worker_transport.ts";

/** Every transport looks for time-outs this often. */
export const SWEEP_MS = 1000;

/** A connection, as the time-outs see it. */
export interface TimedConnection {
  readonly service: Service;
  readonly id: ConnectionId;
  readonly kind: ConnectionKind;
  /** Whether it waits for a command, with all replies sent. */
  readonly isIdle: boolean;
  /** When the peer last took a byte of unsent replies, in seconds of the store's clock; 0: none are unsent. */
  readonly sendingSinceSec: number;
  /** Since when its peer has not authenticated, in seconds of the store's clock; 0: it has, or need not. */
  readonly unauthenticatedSinceSec: number;
}

/** Closes connections that send nothing, or do not read their replies, for too long. */
export class ConnectionTimeouts<Connection extends TimedConnection> {
  readonly #context: TransportContext;
  readonly #thread: TransportThread;
  readonly #close: (connection: Connection, reason: CloseReason) => void;

  constructor(
    context: TransportContext,
    close: (connection: Connection, reason: CloseReason) => void,
  ) {
    this.#context = context;
    this.#thread = context.thread;
    this.#close = close;
  }

  /** Whether connections may be closed that send nothing. */
  get limitSilence(): boolean {
    const { idleTimeoutSec, lockIdleTimeoutSec } = this.#context.options;
    return idleTimeoutSec > 0 || lockIdleTimeoutSec > 0 || this.#thread.auth !== null;
  }

  /**
   * Closes connections whose time is over. To be called about once a second.
   *
   * @param sending Those with unsent replies; others are allowed.
   */
  sweep(open: Iterable<Connection | undefined>, sending: Iterable<Connection>): void {
    const nowSec = clockSec(this.#thread.memory);
    this.#closeStalled(sending, nowSec);
    this.#closeSilent(open, nowSec);
    this.#closeUnauthenticated(open, nowSec);
  }

  /** Closes connections whose peer has taken no byte for `sendTimeoutSec`. */
  #closeStalled(sending: Iterable<Connection>, nowSec: number): void {
    const { sendTimeoutSec } = this.#context.options;
    for (const connection of sending) {
      const { sendingSinceSec } = connection;
      if (sendingSinceSec === 0 || nowSec - sendingSinceSec <= sendTimeoutSec) continue;
      this.#closeAndReport(connection, "error", connectionStalled, sendTimeoutSec);
    }
  }

  /** Closes connections that have not authenticated for `authTimeoutSec`. */
  #closeUnauthenticated(open: Iterable<Connection | undefined>, nowSec: number): void {
    if (this.#thread.auth === null) return;
    const { authTimeoutSec } = this.#context.options;
    for (const connection of open) {
      const since = connection?.unauthenticatedSinceSec ?? 0;
      if (connection === undefined || since === 0 || nowSec - since <= authTimeoutSec) continue;
      this.#closeAndReport(connection, "normal", authenticationTimedOut, authTimeoutSec);
    }
  }

  /** Closes TCP connections idle for `idleTimeoutSec`, and lock holders idle for `lockIdleTimeoutSec`. */
  #closeSilent(open: Iterable<Connection | undefined>, nowSec: number): void {
    const { idleTimeoutSec, lockIdleTimeoutSec } = this.#context.options;
    if (idleTimeoutSec === 0 && lockIdleTimeoutSec === 0) return;
    const { cache, connections, memory } = this.#thread;
    for (const connection of open) {
      if (!connection?.isIdle || !connection.service.limitsSilence) continue;
      const { id, kind } = connection;
      const silentSec = nowSec - connections.seenAtSec(id);
      if (idleTimeoutSec > 0 && kind === ConnectionKind.TCP && silentSec > idleTimeoutSec) {
        this.#close(connection, "idle_timeout");
        memory.stats[STAT.idle_kicks]! += 1;
      } else if (
        lockIdleTimeoutSec > 0 && silentSec > lockIdleTimeoutSec && cache.locks.countOf(id) > 0
      ) this.#closeAndReport(connection, "normal", lockHolderClosed, lockIdleTimeoutSec);
    }
  }

  #closeAndReport(
    connection: Connection,
    reason: CloseReason,
    event: (timeoutSec: number, from: EventSource) => TransportEvent,
    timeoutSec: number,
  ): void {
    const source = connection.service.sourceOf(connection.id);
    this.#close(connection, reason);
    this.#context.report(event(timeoutSec, source));
  }
}
