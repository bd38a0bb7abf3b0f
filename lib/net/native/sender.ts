// Hot path: no allocation, except where a peer does not take its replies.
import { clockSec } from "../../../store/clock.ts";
import { Activity } from "../../../store/connections.ts";
import type { NativeConnection } from "./connection.ts";
import type { Epoll } from "./epoll.ts";
import * as epollModule from "./epoll.ts";
import * as libcModule from "./libc.ts";
import { NativeOutbox } from "./outbox.ts";
import type { CallIo, RoundIo } from "./round_io.ts";
import type { TransportThread } from "../worker_transport.ts";
import type { ValueIo } from "./value_io.ts";

const { EPOLLOUT } = epollModule;
const { EAGAIN, EINTR } = libcModule;

/**
 * Sends one worker's replies: queues short ones to the end of a round, sends long values from the
 * store's memory, and keeps the bytes that the kernel does not take.
 */
export class NativeSender {
  /** Connections with unsent bytes. Each waits until epoll reports that it is writable. */
  readonly stalled = new Set<NativeConnection>();
  readonly #thread: TransportThread;
  readonly #calls: CallIo;
  readonly #epoll: Epoll;
  readonly #valueIo: ValueIo;
  readonly #outbox: NativeOutbox;
  readonly #io: RoundIo;
  readonly #closeBroken: (connection: NativeConnection) => void;

  /** @param closeBroken Closes a connection on which sending failed. */
  constructor(
    thread: TransportThread,
    calls: CallIo,
    epoll: Epoll,
    valueIo: ValueIo,
    io: RoundIo,
    closeBroken: (connection: NativeConnection) => void,
  ) {
    this.#thread = thread;
    this.#calls = calls;
    this.#epoll = epoll;
    this.#valueIo = valueIo;
    this.#io = io;
    this.#outbox = new NativeOutbox(thread.reply);
    this.#closeBroken = closeBroken;
  }

  /** Makes the reply buffer ready for the next batch's replies. Sends the queue if it is full. */
  begin(): void {
    const outbox = this.#outbox;
    if (outbox.full) this.sendQueued();
    outbox.begin();
  }

  /** Counts work for which the queued replies wait, in units of `WorkBudget`. */
  charge(units: number): void {
    this.#outbox.charge(units);
  }

  /** Queues the reply buffer's new bytes. They must refer to no value in the store. */
  queue(connection: NativeConnection): void {
    this.#outbox.add(connection);
  }

  /** Sends every queued reply. */
  sendQueued(): void {
    const outbox = this.#outbox;
    const { count } = outbox;
    if (count === 0) return;
    this.#io.send(outbox);
    this.#thread.times.record();
    for (let index = 0; index < count; index++) {
      const result = outbox.results[index]!;
      const length = outbox.length(index);
      if (result === length) continue;
      const connection = outbox.connection(index);
      const sent = this.#sent(connection, result);
      if (sent >= 0) this.stall(connection, outbox.bytes(index).slice(sent, length));
    }
    outbox.clear();
  }

  /**
   * Sends the reply buffer's new bytes at once. Queued replies go first, unless the new ones hold
   * long values.
   *
   * @returns False if the connection is closed now, or has unsent bytes.
   */
  sendNow(connection: NativeConnection): boolean {
    if (this.#thread.reply.valueSegments.count > 0) return this.#sendValues(connection);
    this.#outbox.add(connection);
    this.sendQueued();
    return !connection.closed && connection.unsent === null;
  }

  /**
   * Sends more of the unsent bytes, when epoll reports that the connection is writable.
   *
   * @returns Whether none are left.
   */
  sendRest(connection: NativeConnection): boolean {
    const unsent = connection.unsent!;
    // Nothing is unsent where the TLS layer could not send a record of its own.
    const sent = unsent.length === 0
      ? 0
      : this.#sent(connection, this.#calls.write(connection, unsent, unsent.length));
    if (sent < 0) return false;
    if (sent > 0) connection.progressAtSec = clockSec(this.#thread.memory);
    if (sent < unsent.length) {
      connection.unsent = unsent.subarray(sent);
      return false;
    }
    connection.unsent = null;
    this.stalled.delete(connection);
    return true;
  }

  /** Reads nothing more of a connection until epoll reports that it is writable and `unsent` is sent. */
  stall(connection: NativeConnection, unsent: Uint8Array): void {
    connection.unsent = unsent;
    connection.progressAtSec = clockSec(this.#thread.memory);
    this.stalled.add(connection);
    connection.service.connections.setActivity(connection.id, Activity.WRITING);
    this.#epoll.watch(connection, EPOLLOUT);
  }

  /** As `sendNow`, with long values straight from the store. */
  #sendValues(connection: NativeConnection): boolean {
    const { reply, cache } = this.#thread;
    const length = reply.totalLength - reply.start;
    const sent = this.#sent(connection, this.#valueIo.sendReply(connection));
    this.#thread.times.record();
    if (sent >= 0 && sent < length) this.stall(connection, this.#valueIo.unsentReply(sent));
    cache.enter();
    reply.truncate(cache, reply.start);
    cache.leave();
    return sent === length;
  }

  /**
   * Acts on the result of a send (`RoundIo`).
   *
   * @returns Number of bytes that the kernel took; -1 if the connection was broken and is now closed.
   */
  #sent(connection: NativeConnection, result: number): number {
    if (result >= 0) return result;
    if (result === -EAGAIN || result === -EINTR) return 0;
    this.#closeBroken(connection);
    return -1;
  }
}
