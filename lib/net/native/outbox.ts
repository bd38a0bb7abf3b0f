// Hot path: no allocation.
import type { ReplyBuffer } from "../../../protocol/reply/reply_buffer.ts";
import type { NativeConnection } from "./connection.ts";

/** Replies that are sent together: more than the connections that one round usually serves (`bench ratio`, row p1). */
export const REPLIES_MAX = 64;
/** No reply begins behind this offset, so that queued replies stay in the L2 cache. */
const BYTES_MAX = 64 * 1024;
/** Work, in units, after which queued replies wait no longer: about 0.4 ms (`WorkBudget`). */
const UNITS_MAX = 4096;
/** Replies begin at multiples of this, a cache line, so that one view per multiple serves every send. */
const ALIGNMENT = 64;

/**
 * Replies queued in the thread's reply region, to be sent one after the other (`bench ratio`, row
 * mget50: a tenth less). A client process with many connections is woken by the first reply and
 * finds the others without sleeping again. The code of the server and of the kernel stays in the
 * processor's caches.
 */
export class NativeOutbox {
  count = 0;
  /** The result of each reply's send: see `RoundIo`. */
  readonly results = new Int32Array(REPLIES_MAX);
  readonly #reply: ReplyBuffer;
  readonly #connections: NativeConnection[] = [];
  readonly #starts = new Int32Array(REPLIES_MAX);
  readonly #lengths = new Int32Array(REPLIES_MAX);
  /** Views of the reply region, one from each offset at which a reply may begin. */
  readonly #views: Uint8Array[] = [];
  /** Work done since a reply was queued. */
  #units = 0;

  constructor(reply: ReplyBuffer) {
    this.#reply = reply;
    for (let start = 0; start < BYTES_MAX + ALIGNMENT; start += ALIGNMENT) {
      this.#views.push(reply.region.bytes.subarray(start));
    }
  }

  /** Whether there is no room for another reply, or the queued ones have waited for long. */
  get full(): boolean {
    return this.count === REPLIES_MAX || this.#reply.length > BYTES_MAX || this.#units > UNITS_MAX;
  }

  /** Counts work for which the queued replies wait, in units. */
  charge(units: number): void {
    if (this.count > 0) this.#units += units;
  }

  /** Lets the next batch's replies be written behind the queued ones. There must be room. */
  begin(): void {
    this.#reply.begin(ALIGNMENT);
  }

  /** Queues the batch's replies. They must hold no value segments. */
  add(connection: NativeConnection): void {
    const index = this.count++;
    this.#connections[index] = connection;
    this.#starts[index] = this.#reply.start;
    this.#lengths[index] = this.#reply.length - this.#reply.start;
    connection.queued = true;
  }

  connection(index: number): NativeConnection {
    return this.#connections[index]!;
  }

  /** Returns the offset of reply `index` in the reply region. */
  start(index: number): number {
    return this.#starts[index]!;
  }

  /** Returns the reply region from the start of reply `index`. */
  bytes(index: number): Uint8Array {
    return this.#views[this.#starts[index]! / ALIGNMENT]!;
  }

  length(index: number): number {
    return this.#lengths[index]!;
  }

  /** Empties the queue. Call it when every reply was sent. */
  clear(): void {
    for (let index = 0; index < this.count; index++) this.#connections[index]!.queued = false;
    this.count = 0;
    this.#units = 0;
    this.#reply.reset();
  }
}
