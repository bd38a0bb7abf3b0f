import type { ConnectionId, ConnectionKind } from "../../../store/connections.ts";
import type { CloseReason } from "../../../store/cache.ts";
import type { TimedConnection } from "../connection_timeouts.ts";
import type { ServedConversation, Service } from "../service.ts";
import { EPOLLIN, type WatchedDescriptor } from "./epoll.ts";
import type { TlsStream } from "./tls/stream.ts";

/** One open socket of a worker. It holds no buffer between two requests. */
export class NativeConnection implements TimedConnection, WatchedDescriptor {
  readonly id: ConnectionId;
  /** Bytes that the conversation has not consumed yet. */
  pending: Uint8Array | null = null;
  /** Replies that the kernel did not accept. Unless null, nothing is read. */
  unsent: Uint8Array | null = null;
  /** A reply of this connection is queued in the outbox. */
  queued = false;
  /** When the kernel last took a byte of `unsent`, in seconds of the store's clock. */
  progressAtSec = 0;
  /**
   * The next read is expected to fit a slot of the inbox: the last one was short, or was the end of
   * a long value.
   */
  readsAreShort = false;
  closed = false;
  /** Between socket and conversation; null: they exchange plain bytes. */
  tls: TlsStream | null = null;
  /** The TLS handshake is not done. */
  handshaking = false;
  /** Reported to watchers. */
  closeReason: CloseReason = "normal";
  /** The conversation waits for the store, for example for a lock. Nothing is read until it resumes. */
  waiting = false;
  /** When the bytes were read that its conversation has not finished with: see `RequestTimes.beginLate`. */
  readAtUs = NaN;
  /** The events that epoll is asked to report. */
  watched: number = EPOLLIN;
  /** Whether it is in the run queue, because it has more to do. */
  unfinished = false;
  /** The next connection in the run queue. */
  next: NativeConnection | null = null;

  /** @param tag 0-based number of the listener that accepted it. */
  constructor(
    readonly fd: number,
    readonly tag: number,
    readonly kind: ConnectionKind,
    readonly service: Service,
    readonly conversation: ServedConversation,
  ) {
    this.id = conversation.owner;
  }

  /** Whether the connection may be read into a slot, and its requests executed later in the round. */
  get fitsSlot(): boolean {
    return this.readsAreShort && this.pending === null && !this.queued && this.mayRead;
  }

  /** As `TimedConnection`. */
  get isIdle(): boolean {
    return this.conversation.idle && this.unsent === null;
  }

  /** As `TimedConnection`. */
  get unauthenticatedSinceSec(): number {
    return this.conversation.unauthenticatedSinceSec;
  }

  /** As `TimedConnection`. */
  get sendingSinceSec(): number {
    return this.unsent === null ? 0 : this.progressAtSec;
  }

  /** Whether the connection may be read now. */
  get mayRead(): boolean {
    return !this.closed && !this.waiting && !this.unfinished && this.unsent === null;
  }
}

/** Connections that have more to do, first in, first out. A connection is in it at most once. */
export class RunQueue {
  length = 0;
  #first: NativeConnection | null = null;
  #last: NativeConnection | null = null;

  add(connection: NativeConnection): void {
    if (connection.unfinished) return;
    connection.unfinished = true;
    if (this.#last === null) this.#first = connection;
    else this.#last.next = connection;
    this.#last = connection;
    this.length++;
  }

  /** Removes and returns the first connection, which may be closed. The queue must not be empty. */
  take(): NativeConnection {
    const connection = this.#first!;
    this.#first = connection.next;
    if (this.#first === null) this.#last = null;
    connection.next = null;
    connection.unfinished = false;
    this.length--;
    return connection;
  }
}
