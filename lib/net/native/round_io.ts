// Hot path: called twice in every round of the event loop. No allocation.
import type { TransportThread } from "../worker_transport.ts";
import type { NativeConnection } from "./connection.ts";
import type { NativeInbox } from "./inbox.ts";
import * as inboxModule from "./inbox.ts";
import type { IoUring } from "./io_uring.ts";
import type { Libc } from "./libc.ts";
import * as libcModule from "./libc.ts";
import type { NativeOutbox } from "./outbox.ts";

const { SLOT_BYTES } = inboxModule;
const { ECANCELED, ECONNRESET, EAGAIN, EPIPE, ETIMEDOUT, MSG_DONTWAIT, MSG_NOSIGNAL } = libcModule;

/**
 * Receives the requests of a round, and sends its replies. Results are as `Libc.resultOf` gives them: a number of
 * bytes, 0 at the end of a connection, or a negative error number.
 */
export interface RoundIo {
  /** Receives into every slot, and sets its result. */
  receive(inbox: NativeInbox): void;
  /** Sends every reply, and sets its result. */
  send(outbox: NativeOutbox): void;
}

/** The result of an operation that the ring has not begun: a system call repeats it. */
const NOT_BEGUN = -ECANCELED;

/** One system call for each connection. */
export class CallIo implements RoundIo {
  readonly #libc: Libc;

  constructor(libc: Libc) {
    this.#libc = libc;
  }

  receive(inbox: NativeInbox): void {
    for (let index = 0; index < inbox.count; index++) this.receiveOne(inbox, index);
  }

  send(outbox: NativeOutbox): void {
    for (let index = 0; index < outbox.count; index++) this.sendOne(outbox, index);
  }

  receiveOne(inbox: NativeInbox, index: number): void {
    inbox.results[index] = this.read(inbox.connection(index), inbox.bytes(index), SLOT_BYTES);
  }

  sendOne(outbox: NativeOutbox, index: number): void {
    outbox.results[index] = this.write(
      outbox.connection(index),
      outbox.bytes(index),
      outbox.length(index),
    );
  }

  /** Receives at most `length` bytes, through the TLS layer if there is one. @returns A result of `RoundIo`. */
  read({ fd, tls }: NativeConnection, bytes: Uint8Array, length: number): number {
    return tls === null ? this.readSocket(fd, bytes, length) : tls.read(bytes, length);
  }

  /** As `read`, past the TLS layer. */
  readSocket(fd: number, bytes: Uint8Array, length: number): number {
    const libc = this.#libc;
    return libc.resultOf(libc.calls.recv(fd, bytes, length, MSG_DONTWAIT));
  }

  /** Sends at most `length` bytes, through the TLS layer if there is one. @returns A result of `RoundIo`. */
  write({ fd, tls }: NativeConnection, bytes: Uint8Array, length: number): number {
    if (tls !== null) return tls.write(bytes, length);
    const libc = this.#libc;
    return libc.resultOf(libc.calls.send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL));
  }
}

/** One system call for all connections without TLS. */
export class RingIo implements RoundIo {
  readonly #ring: IoUring;
  readonly #calls: CallIo;
  readonly #input: number;
  readonly #reply: number;
  readonly #leastCount: number;

  /** @param leastCount Fewer operations than this are done by calls of their own, which then cost less. */
  constructor(ring: IoUring, libc: Libc, { input, reply }: TransportThread, leastCount = 2) {
    this.#ring = ring;
    this.#calls = new CallIo(libc);
    this.#input = ring.addRegion(input.bytes);
    this.#reply = ring.addRegion(reply.region.bytes);
    this.#leastCount = leastCount;
  }

  receive(inbox: NativeInbox): void {
    const { count, results } = inbox;
    if (count < this.#leastCount) return this.#calls.receive(inbox);
    const ring = this.#ring;
    for (let index = 0; index < count; index++) {
      const { fd, tls } = inbox.connection(index);
      results[index] = NOT_BEGUN;
      if (tls === null) ring.receive(index, fd, this.#input, inbox.start(index), SLOT_BYTES);
    }
    ring.run(results);
    for (let index = 0; index < count; index++) {
      if (isUndone(results[index]!)) this.#calls.receiveOne(inbox, index);
    }
  }

  send(outbox: NativeOutbox): void {
    const { count, results } = outbox;
    if (count < this.#leastCount) return this.#calls.send(outbox);
    const ring = this.#ring;
    for (let index = 0; index < count; index++) {
      const { fd, tls } = outbox.connection(index);
      results[index] = NOT_BEGUN;
      if (tls === null) {
        ring.send(index, fd, this.#reply, outbox.start(index), outbox.length(index));
      }
    }
    ring.run(results);
    for (let index = 0; index < count; index++) {
      if (isUndone(results[index]!)) this.#calls.sendOne(outbox, index);
    }
  }
}

/**
 * Whether an operation failed for a reason that may lie in the ring, like ECANCELED or ENOMEM. It has moved no byte, so
 * a call of its own repeats it and decides. An error of the socket is reported only once and must stand.
 */
function isUndone(result: number): boolean {
  return result < 0 && result !== -EAGAIN && result !== -ECONNRESET && result !== -EPIPE &&
    result !== -ETIMEDOUT;
}
