// Hot path: no allocation.
import type { ThreadContext } from "../../../protocol/thread_context.ts";
import type { NativeConnection } from "./connection.ts";

/** So many connections are read at most before the first of their requests is executed. */
const SLOTS = 32;
/** Of each so much: all slots together stay in a processor's second cache, and seldom is one full. */
export const SLOT_BYTES = 1024;

/**
 * The short requests that one round of the event loop received: one slot of the thread's input for each connection.
 * The round first reads all sockets, then executes all requests, so that the code of the server and of the kernel
 * stays in the processor's caches (`bench:ratio`, rows with one in flight).
 */
export class NativeInbox {
  count = 0;
  readonly #at: number;
  readonly #slots: Uint8Array[] = [];
  readonly #connections: NativeConnection[] = [];
  readonly #lengths = new Int32Array(SLOTS);

  /** @param at Where in the thread's input the slots are. */
  constructor(thread: ThreadContext, at: number) {
    this.#at = at;
    for (let index = 0; index < SLOTS; index++) {
      this.#slots.push(thread.input.bytes.subarray(this.start(index), this.start(index + 1)));
    }
  }

  /** Whether there is no slot for another connection. */
  get full(): boolean {
    return this.count === SLOTS;
  }

  /** Where the next connection's bytes go, SLOT_BYTES of them. It must not be full. */
  get free(): Uint8Array {
    return this.#slots[this.count]!;
  }

  /** So many bytes of a connection have been received into `free`. */
  add(connection: NativeConnection, length: number): void {
    const index = this.count++;
    this.#connections[index] = connection;
    this.#lengths[index] = length;
  }

  connection(index: number): NativeConnection {
    return this.#connections[index]!;
  }

  /** Where in the thread's input a slot begins. */
  start(index: number): number {
    return this.#at + index * SLOT_BYTES;
  }

  /** Behind its last byte. */
  end(index: number): number {
    return this.start(index) + this.#lengths[index]!;
  }

  clear(): void {
    this.count = 0;
  }
}
