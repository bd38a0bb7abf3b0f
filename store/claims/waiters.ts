import { assert } from "../base/assert.ts";
import type { Memory } from "../memory/memory.ts";
import { RowPool } from "../memory/row_pool.ts";
import {
  LIST,
  WAITER,
  WAITER_HEADER as HEADER,
  waiterQueuesStart,
  waiterRowsStart,
} from "../memory/waiter_layout.ts";
import type { Wakes } from "../memory/wakes.ts";

// Hot path: no allocation.

/**
 * The states of a connection that waits for a lock, or until its update token is on the disk:
 *
 *   WAITING    in a FIFO queue; leaves when its connection ends
 *   GRANTED    its connection holds the lock, or the update token is on the disk    ┐ in the list of its
 *   NOT_FOUND  the item was removed, or the update token was not written            ├ connection's thread
 *   TIMED_OUT  the wait is over without the lock                                    ┘
 *
 * A waiter leaves the list of the thread when the thread takes it, or when its connection ends. The thread is woken
 * once the mutex is free.
 */
export const WaiterState = { WAITING: 1, GRANTED: 2, NOT_FOUND: 3, TIMED_OUT: 4 } as const;
export type WaiterState = typeof WaiterState[keyof typeof WaiterState];

/** Number of a waiter's row, from 1. */
export type WaiterRow = number;
/** No row. */
export const NO_WAITER: WaiterRow = 0;

/** One thread's view of connections that wait for one kind of thing. */
export class Waiters {
  protected readonly words: Int32Array;
  readonly #threads: number;
  /** Words at which parts of the buffer start. */
  readonly #queues: number;
  readonly #rows: number;
  readonly #pool: RowPool;
  readonly #wakes: Wakes;

  /** @param queues How many queues the buffer has. */
  constructor(memory: Memory, buffer: SharedArrayBuffer, queues: number) {
    const { options } = memory;
    this.words = new Int32Array(buffer);
    this.#threads = options.threads;
    this.#queues = waiterQueuesStart(options);
    this.#rows = waiterRowsStart(options, queues);
    const { connectionsMax } = options;
    this.#pool = new RowPool(this.words, this.#rows, WAITER.WORDS, WAITER.NEXT, connectionsMax);
    this.#wakes = memory.wakes;
  }

  /** Returns how many connections wait. */
  get count(): number {
    return this.words[HEADER.COUNT]!;
  }

  /** Returns how many connections wait in a queue. */
  countOf(queue: number): number {
    return this.words[this.#queue(queue) + LIST.COUNT]!;
  }

  stateOf(waiter: WaiterRow): WaiterState {
    return this.words[this.row(waiter) + WAITER.STATE]! as WaiterState;
  }

  /** The fencing number of the lock it was granted, or the id of the token it waits for. */
  idLow(waiter: WaiterRow): number {
    return this.words[this.row(waiter) + WAITER.ID_LOW]!;
  }

  idHigh(waiter: WaiterRow): number {
    return this.words[this.row(waiter) + WAITER.ID_HIGH]!;
  }

  /**
   * Frees the row of a waiter whose connection knows the result, or has ended. Does not release a
   * lock that it was granted.
   */
  remove(waiter: WaiterRow): void {
    const { words } = this;
    const row = this.row(waiter);
    assert(words[row + WAITER.OWNER] !== 0, "a waiter is removed once");
    if (words[row + WAITER.STATE] === WaiterState.WAITING) words[HEADER.COUNT]! -= 1;
    if (words[row + WAITER.LIST] !== 0) this.#detach(waiter);
    words[row + WAITER.OWNER] = 0;
    this.#pool.giveBack(waiter);
  }

  /** Returns the next connection of a thread whose wait is over, or 0. */
  takeReady(thread: number): number {
    const waiter = this.words[this.#ready(thread) + LIST.FIRST]!;
    if (waiter === NO_WAITER) return 0;
    assert(this.stateOf(waiter) !== WaiterState.WAITING, "a connection is ready after its wait");
    this.#detach(waiter);
    return this.words[this.row(waiter) + WAITER.OWNER]!;
  }

  // --- for the kinds of waiters ------------------------------------------------------------------

  /** Returns the waiter that has waited longest in a queue, or NO_WAITER. */
  protected first(queue: number): WaiterRow {
    return this.words[this.#queue(queue) + LIST.FIRST]!;
  }

  /** Puts a connection at the end of a queue. @returns NO_WAITER when every row is taken. */
  protected append(queue: number, owner: number, thread: number): WaiterRow {
    const waiter = this.#pool.take();
    if (waiter === NO_WAITER) return NO_WAITER;
    const { words } = this;
    const row = this.row(waiter);
    assert(words[row + WAITER.OWNER] === 0, "a free row of waiters has no connection");
    assert(owner !== 0, "a waiter is a connection");
    words[row + WAITER.OWNER] = owner;
    words[row + WAITER.THREAD] = thread < this.#threads ? thread : 0;
    words[row + WAITER.STATE] = WaiterState.WAITING;
    this.#attach(this.#queue(queue), waiter);
    words[HEADER.COUNT]! += 1;
    return waiter;
  }

  protected setId(waiter: WaiterRow, low: number, high: number): void {
    this.words[this.row(waiter) + WAITER.ID_LOW] = low;
    this.words[this.row(waiter) + WAITER.ID_HIGH] = high;
  }

  /** Moves a waiter from its queue to the list of its thread, with the result of the wait. */
  protected finish(waiter: WaiterRow, state: WaiterState): void {
    const { words } = this;
    const row = this.row(waiter);
    const thread = words[row + WAITER.THREAD]!;
    assert(words[row + WAITER.STATE] === WaiterState.WAITING, "a wait ends once");
    this.#detach(waiter);
    words[HEADER.COUNT]! -= 1;
    words[row + WAITER.STATE] = state;
    this.#attach(this.#ready(thread), waiter);
    this.#wakes.add(thread);
  }

  /** The word at which a waiter's row starts. */
  protected row(waiter: WaiterRow): number {
    return this.#rows + waiter * WAITER.WORDS;
  }

  // --- private -----------------------------------------------------------------------------------

  #ready(thread: number): number {
    return HEADER.WORDS + thread * LIST.WORDS;
  }

  #queue(queue: number): number {
    return this.#queues + queue * LIST.WORDS;
  }

  #attach(list: number, waiter: WaiterRow): void {
    const { words } = this;
    const row = this.row(waiter);
    const previous = words[list + LIST.LAST]!;
    assert(words[row + WAITER.LIST] === 0, "a waiter is in one list at a time");
    words[row + WAITER.LIST] = list;
    words[row + WAITER.NEXT] = NO_WAITER;
    words[row + WAITER.PREVIOUS] = previous;
    if (previous !== NO_WAITER) words[this.row(previous) + WAITER.NEXT] = waiter;
    else words[list + LIST.FIRST] = waiter;
    words[list + LIST.LAST] = waiter;
    words[list + LIST.COUNT]! += 1;
  }

  #detach(waiter: WaiterRow): void {
    const { words } = this;
    const row = this.row(waiter);
    const list = words[row + WAITER.LIST]!;
    assert(list !== 0, "a waiter that leaves a list is in one");
    const next = words[row + WAITER.NEXT]!;
    const previous = words[row + WAITER.PREVIOUS]!;
    if (next !== NO_WAITER) words[this.row(next) + WAITER.PREVIOUS] = previous;
    else words[list + LIST.LAST] = previous;
    if (previous !== NO_WAITER) words[this.row(previous) + WAITER.NEXT] = next;
    else words[list + LIST.FIRST] = next;
    words[list + LIST.COUNT]! -= 1;
    words[row + WAITER.LIST] = 0;
    assert(
      (words[list + LIST.COUNT] === 0) === (words[list + LIST.FIRST] === NO_WAITER),
      "a list of waiters counts them",
    );
  }
}
