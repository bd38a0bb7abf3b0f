// Hot path: no allocation.
import { FillTask } from "../../../protocol/tasks.ts";
import { clockSec } from "../../../store/clock.ts";
import * as limitsModule from "../../../store/limits.ts";
import * as statsModule from "../../../store/stats.ts";
import type { CloseReason } from "../../../store/cache.ts";
import type { TransportThread } from "../worker_transport.ts";
import type { NativeConnection } from "./connection.ts";
import * as inboxModule from "./inbox.ts";
import * as libcModule from "./libc.ts";
import type { CallIo } from "./round_io.ts";
import type { NativeSender } from "./sender.ts";
import type { ValueIo } from "./value_io.ts";

const { PENDING_BYTES_MAX } = limitsModule;
const { SLOT_BYTES } = inboxModule;
const { STAT } = statsModule;
const { EAGAIN, EINTR, EPROTO } = libcModule;

/**
 * Every read goes to this offset of the input region, so that one view serves all reads. Bytes left
 * over from the last read are put in front of it.
 */
const RECEIVE_AT = PENDING_BYTES_MAX;
/** The largest read. It fits the L1 cache, and no more than this of a long value is copied. */
const RECEIVE_BYTES = 16 * 1024;
/** Offset of the inbox's slots in the input region. */
export const SLOTS_AT = RECEIVE_AT + RECEIVE_BYTES;
/** A connection whose last read was shorter than this is read into a slot next time. */
const SHORT_READ_BYTES = SLOT_BYTES / 2;
/** After a shorter read of a long value, wait for epoll instead of reading again. */
const VALUE_PIECE_BYTES = 32 * 1024;
/** Reads of one long value in one round. */
const READS_MAX = 8;
const NO_BYTES = new Uint8Array(0);

/** The state of a connection after a read. */
interface ReceiveTarget {
  /** Feeds the input [start, end) to the conversation. */
  converse(connection: NativeConnection, start: number, end: number): void;
  /** Lets others go first: there may be more to read. */
  finishLater(connection: NativeConnection): void;
  close(connection: NativeConnection, reason: CloseReason): void;
}

/** Reads the connections that have no slot of the inbox: those with long values, many requests, or pending bytes. */
export class ReceiveLoop {
  readonly #thread: TransportThread;
  readonly #calls: CallIo;
  readonly #valueIo: ValueIo;
  readonly #sender: NativeSender;
  readonly #target: ReceiveTarget;
  readonly #bytes: Uint8Array;

  constructor(
    thread: TransportThread,
    calls: CallIo,
    valueIo: ValueIo,
    sender: NativeSender,
    target: ReceiveTarget,
  ) {
    this.#thread = thread;
    this.#calls = calls;
    this.#valueIo = valueIo;
    this.#sender = sender;
    this.#target = target;
    this.#bytes = thread.input.bytes.subarray(RECEIVE_AT, RECEIVE_AT + RECEIVE_BYTES);
  }

  /** Reads and executes until nothing is left, the connection waits, or others must go first. */
  receive(connection: NativeConnection): void {
    // Send its replies before the read below can find the connection closed by its peer.
    if (connection.queued) this.#sender.sendQueued();
    if (!connection.mayRead) return;
    for (let reads = 0; reads < READS_MAX; reads++) {
      const { task } = connection.conversation;
      if (task instanceof FillTask && task.missing > 0 && this.#beginReceiving(task)) {
        if (!this.#receiveValue(connection, task)) return;
        continue;
      }
      const received = this.#calls.read(connection, this.#bytes, RECEIVE_BYTES);
      if (received <= 0) return this.failed(connection, received);
      connection.service.connections.seen(connection.id, clockSec(this.#thread.memory));
      connection.readsAreShort = received < SHORT_READ_BYTES && connection.pending === null;
      let start = RECEIVE_AT;
      if (connection.pending !== null) {
        start -= connection.pending.length;
        this.#thread.input.bytes.set(connection.pending, start);
        connection.pending = null;
      }
      this.#target.converse(connection, start, RECEIVE_AT + received);
      // A short read emptied the socket: epoll reports new bytes.
      if (received < RECEIVE_BYTES && connection.tls?.hasBuffered !== true) return;
      if (connection.queued) this.#sender.sendQueued();
      if (!connection.mayRead) return;
      if (connection.conversation.idle) break;
    }
    this.#target.finishLater(connection);
  }

  /** Whether the value's next bytes can be received straight into its item: `#receiveValue` must follow. */
  #beginReceiving(task: FillTask): boolean {
    const { cache } = this.#thread;
    cache.enter();
    const begun = task.beginReceiving(cache, VALUE_PIECE_BYTES);
    cache.leave();
    return begun;
  }

  /**
   * Receives more of a long value straight into the store.
   *
   * @returns Whether there may be more to read.
   */
  #receiveValue(connection: NativeConnection, task: FillTask): boolean {
    const { tls } = connection;
    const { missing } = task;
    const received = this.#valueIo.receiveValue(connection, task, RECEIVE_AT, RECEIVE_BYTES);
    if (received <= 0) {
      this.failed(connection, received);
      return false;
    }
    connection.service.connections.seen(connection.id, clockSec(this.#thread.memory));
    const isComplete = task.missing <= 0;
    connection.readsAreShort = isComplete;
    // The TLS layer returns the bytes of one record and none behind the value.
    const mayHaveMore = tls === null
      ? received >= (isComplete ? missing + RECEIVE_BYTES : VALUE_PIECE_BYTES)
      : received >= RECEIVE_BYTES || tls.hasBuffered;
    if (!isComplete) return mayHaveMore;
    this.#target.converse(connection, RECEIVE_AT, RECEIVE_AT + received - missing);
    if (!mayHaveMore) return false;
    if (connection.queued) this.#sender.sendQueued();
    return connection.mayRead;
  }

  /** Acts on a read that brought no bytes. @param result 0: the peer has ended its side; else as `RoundIo`. */
  failed(connection: NativeConnection, result: number): void {
    if (result === -EAGAIN || result === -EINTR) {
      this.#waitForMore(connection);
      return;
    }
    if (result === -EPROTO && connection.tls !== null) {
      this.#thread.memory.stats[STAT.ssl_proto_errors]! += 1;
    }
    this.#target.close(connection, result === 0 ? "normal" : "error");
  }

  /** Waits for what the TLS layer needs; without one, for readable bytes, which epoll reports. */
  #waitForMore(connection: NativeConnection): void {
    const { tls } = connection;
    if (tls?.wantsWrite === true) {
      tls.wantsWrite = false;
      this.#sender.stall(connection, NO_BYTES);
    } else if (tls?.hasMore === true) {
      this.#target.finishLater(connection);
    }
  }

  /** Lets a connection read later what its TLS layer has buffered: epoll reports only bytes in the socket. */
  readBuffered(connection: NativeConnection): void {
    if (connection.mayRead && connection.tls?.hasBuffered === true) {
      this.#target.finishLater(connection);
    }
  }

  /** Reads and drops bytes of a socket that is about to close, up to a bound. */
  discard(fd: number): void {
    for (let reads = 0; reads < READS_MAX; reads++) {
      if (this.#calls.readSocket(fd, this.#bytes, RECEIVE_BYTES) < RECEIVE_BYTES) return;
    }
  }
}
