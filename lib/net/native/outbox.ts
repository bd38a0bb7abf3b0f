// Hot path: no allocation.
import type { ReplyBuffer } from "../../../protocol/reply_buffer.ts";
import type { NativeConnection } from "./connection.ts";

/** So many replies are sent together at most. */
const REPLIES_MAX = 16;
/** Behind this byte no further reply is begun: what waits here stays in a processor's second cache. */
const BYTES_MAX = 64 * 1024;
/** Replies begin at multiples of this, so that one view for each beginning will do. A cache line. */
const ALIGNMENT = 64;

/**
 * Replies that wait in the thread's reply region to be sent together, one after the other (`bench:ratio`, row
 * mget50: a tenth less). A process with many connections that sleeps is woken by the first and finds the others when it
 * comes to them, where each reply sent alone would wake it again; and neither the server's code nor the kernel's has to
 * be loaded anew for each.
 */
export class NativeOutbox {
  count = 0;
  readonly #reply: ReplyBuffer;
  readonly #connections: NativeConnection[] = [];
  readonly #starts = new Int32Array(REPLIES_MAX);
  readonly #lengths = new Int32Array(REPLIES_MAX);
  /** The reply region from each place on where a reply may begin. */
  readonly #views: Uint8Array[] = [];

  constructor(reply: ReplyBuffer) {
    this.#reply = reply;
    for (let start = 0; start < BYTES_MAX + ALIGNMENT; start += ALIGNMENT) {
      this.#views.push(reply.region.bytes.subarray(start));
    }
  }

  /** Whether there is no place for a further reply. */
  get full(): boolean {
    return this.count === REPLIES_MAX || this.#reply.length > BYTES_MAX;
  }

  /** The next batch's replies are written behind what waits. There must be a place. */
  begin(): void {
    this.#reply.begin(ALIGNMENT);
  }

  /** Puts aside what the batch has been answered. It must hold no value segments. */
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

  /** The reply region from where reply number `index` begins. */
  bytes(index: number): Uint8Array {
    return this.#views[this.#starts[index]! / ALIGNMENT]!;
  }

  length(index: number): number {
    return this.#lengths[index]!;
  }

  /** Everything has been sent. */
  clear(): void {
    for (let index = 0; index < this.count; index++) this.#connections[index]!.queued = false;
    this.count = 0;
    this.#reply.reset();
  }
}
