// Hot path: no allocation.
import type { ThreadContext } from "../../../protocol/thread_context.ts";
import type { NativeConnection } from "./connection.ts";

/** Connections that are read before the first of their requests is executed. */
const SLOTS = 32;
/** Bytes of a slot: all slots together fit the L2 cache, and a slot is seldom full. */
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

  /** @param at Offset of the slots in the thread's input. */
  constructor(thread: ThreadContext, at: number) {
    this.#at = at;
    for (let index = 0; index < SLOTS; index++) {
      this.#slots.push(thread.input.bytes.subarray(this.start(index), this.start(index + 1)));
    }
  }

  /** Whether no slot is free. */
  get full(): boolean {
    return this.count === SLOTS;
  }

  /** The slot for the next connection's bytes, SLOT_BYTES long. The inbox must not be full. */
  get free(): Uint8Array {
    return this.#slots[this.count]!;
  }

  /** Adds a connection of which `length` bytes were received into `free`. */
  add(connection: NativeConnection, length: number): void {
    const index = this.count++;
    this.#connections[index] = connection;
    this.#lengths[index] = length;
  }

  connection(index: number): NativeConnection {
    return this.#connections[index]!;
  }

  /** Returns the offset in the thread's input at which a slot begins. */
  start(index: number): number {
    return this.#at + index * SLOT_BYTES;
  }

  /** Returns the offset behind a slot's last received byte. */
  end(index: number): number {
    return this.start(index) + this.#lengths[index]!;
  }

  clear(): void {
    this.count = 0;
  }
}
