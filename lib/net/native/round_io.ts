// Hot path: called twice in every round of the event loop. No allocation.
import type { TransportThread } from "../worker_transport.ts";
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
 * bytes, 0 at the end of a connection, or a negative error number; over TLS a `StreamEnd`.
 */
export interface RoundIo {
  /** Receives into every slot, and sets its result. */
  receive(inbox: NativeInbox): void;
  /** Sends every reply, and sets its result. */
  send(outbox: NativeOutbox): void;
}

/** The result of an operation that the ring has not begun: a call of its own does it. */
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
    const { fd, tls } = inbox.connection(index);
    const bytes = inbox.bytes(index);
    const libc = this.#libc;
    inbox.results[index] = tls === null
      ? libc.resultOf(libc.calls.recv(fd, bytes, SLOT_BYTES, MSG_DONTWAIT))
      : tls.read(bytes, SLOT_BYTES);
  }

  sendOne(outbox: NativeOutbox, index: number): void {
    const { fd, tls } = outbox.connection(index);
    const bytes = outbox.bytes(index);
    const length = outbox.length(index);
    const libc = this.#libc;
    outbox.results[index] = tls === null
      ? libc.resultOf(libc.calls.send(fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL))
      : tls.write(bytes, length);
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
