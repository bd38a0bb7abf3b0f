// Hot path: no allocation.
import type { TransportThread } from "../worker_transport.ts";
import type { NativeConnection } from "./connection.ts";

/** Connections that are read before the first of their requests is executed. */
export const SLOTS = 32;
/** Bytes of a slot: all slots together fit the L2 cache, and a slot is seldom full. */
export const SLOT_BYTES = 1024;

/**
 * The short requests of one round of the event loop: one slot of the thread's input for each connection that has any.
 * The round first reads all sockets, then executes all requests, so that the code of the server and of the kernel
 * stays in the processor's caches (`bench ratio`, rows with one in flight).
 */
export class NativeInbox {
  count = 0;
  /** The result of each slot's receive: see `RoundIo`. */
  readonly results = new Int32Array(SLOTS);
  readonly #at: number;
  readonly #slots: Uint8Array[] = [];
  readonly #connections: NativeConnection[] = [];

  /** @param at Offset of the slots in the thread's input. */
  constructor(thread: TransportThread, at: number) {
    this.#at = at;
    for (let index = 0; index < SLOTS; index++) {
      this.#slots.push(thread.input.bytes.subarray(this.start(index), this.start(index + 1)));
    }
  }

  /** Whether no slot is free. */
  get full(): boolean {
    return this.count === SLOTS;
  }

  /** Gives a connection the next slot. The inbox must not be full. */
  add(connection: NativeConnection): void {
    this.#connections[this.count++] = connection;
  }

  connection(index: number): NativeConnection {
    return this.#connections[index]!;
  }

  /** Returns a slot: SLOT_BYTES. */
  bytes(index: number): Uint8Array {
    return this.#slots[index]!;
  }

  /** Returns the offset in the thread's input at which a slot begins. */
  start(index: number): number {
    return this.#at + index * SLOT_BYTES;
  }

  clear(): void {
    this.count = 0;
  }
}
