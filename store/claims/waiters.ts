import {
  LIST,
  threadPlaces,
  WAITER,
  WAITER_HEADER as HEADER,
  waiterQueuesStart,
  waiterRowsStart,
} from "../memory/lock_layout.ts";
import { CONTROL, type Memory } from "../memory/memory.ts";
import { RowPool } from "../memory/row_pool.ts";
import { STAT } from "../stats.ts";

// Hot path: no allocation.

/**
 * Connections that wait: for a lock, or for the journal to have an update token on the disk. A waiter's states:
 *
 *   WAITING    in the FIFO queue of one lock, or in the journal's; leaves when its connection ends
 *   GRANTED    the lock was released and its connection holds it,  ┐
 *              or the update token is on the disk                  │
 *   NOT_FOUND  the item was removed, or the token was not written  ├ in the list of its connection's thread
 *   TIMED_OUT  the wait is over without the lock                   ┘
 *
 * A waiter leaves the list of the thread when the thread takes it, or when its connection ends.
 *
 * The thread of a waiter that left its queue is woken once the mutex is free (`hasToWake`).
 */
export const WaiterState = { WAITING: 1, GRANTED: 2, NOT_FOUND: 3, TIMED_OUT: 4 } as const;
export type WaiterState = typeof WaiterState[keyof typeof WaiterState];

/** Rows looked at in one slice of maintenance: some 30 microseconds. */
const SLICE_LOOKS = 8192;
/** Looks charged for a waiter that times out. */
const TIMED_OUT_LOOKS = 20;

/** Number of a waiter's row, from 1. */
export type WaiterRow = number;
/** No row. */
export const NO_WAITER: WaiterRow = 0;

/** The journal's queue: locks have rows from 1 on. */
const JOURNAL_QUEUE = 0;

/** One thread's view of the waiters. */
export class Waiters {
  readonly #words: Int32Array;
  readonly #control: Int32Array;
  readonly #stats: Float64Array;
  readonly #threads: number;
  readonly #perLockMax: number;
  /** Words at which parts of the buffer start. */
  readonly #queues: number;
  readonly #rows: number;
  readonly #pool: RowPool;
  /** Threads to be woken once the mutex is free: a flag each, and whether there is any. */
  readonly #wake: Uint8Array;
  #wakeAny = false;
  /** The row at which the next slice of maintenance begins. */
  #sweepFrom: WaiterRow = 1;

  constructor(memory: Memory) {
    const { options } = memory;
    this.#words = new Int32Array(memory.shared.lockWaiters);
    this.#control = memory.control;
    this.#stats = memory.stats;
    this.#threads = threadPlaces(options);
    this.#perLockMax = options.lockLimits.waitersPerLockMax;
    this.#queues = waiterQueuesStart(options);
    this.#rows = waiterRowsStart(options);
    const { connectionsMax } = options;
    this.#pool = new RowPool(this.#words, this.#rows, WAITER.WORDS, WAITER.NEXT, connectionsMax);
    this.#wake = new Uint8Array(this.#threads);
  }

  /** Returns how many connections wait. */
  get count(): number {
    return this.#words[HEADER.COUNT]!;
  }

  /** Returns how many connections wait for the lock in row `lock`. */
  countOf(lock: number): number {
    return this.#words[this.#queue(lock) + LIST.COUNT]!;
  }

  /** Returns the connection that has waited longest, or 0. */
  firstOwner(lock: number): number {
    const waiter = this.#words[this.#queue(lock) + LIST.FIRST]!;
    return waiter === NO_WAITER ? 0 : this.#words[this.#row(waiter) + WAITER.OWNER]!;
  }

  stateOf(waiter: WaiterRow): WaiterState {
    return this.#words[this.#row(waiter) + WAITER.STATE]! as WaiterState;
  }

  /** The fencing number of the lock it was granted, or the id of the token it waits for. */
  idLow(waiter: WaiterRow): number {
    return this.#words[this.#row(waiter) + WAITER.ID_LOW]!;
  }

  idHigh(waiter: WaiterRow): number {
    return this.#words[this.#row(waiter) + WAITER.ID_HIGH]!;
  }

  /**
   * Puts a connection at the end of a lock's queue.
   *
   * @param waitMs 1..LOCK_WAIT_MS_MAX.
   * @returns The waiter, or NO_WAITER if the queue is full.
   */
  enqueue(lock: number, owner: number, thread: number, waitMs: number): WaiterRow {
    if (this.countOf(lock) >= this.#perLockMax) return NO_WAITER;
    const waiter = this.#newWaiter(lock, owner, thread);
    if (waiter === NO_WAITER) return NO_WAITER;
    const row = this.#row(waiter);
    this.#words[row + WAITER.DEADLINE_MS] = (this.#control[CONTROL.NOW_MS]! + waitMs) | 0;
    this.#stats[STAT.lock_waits]! += 1;
    return waiter;
  }

  /**
   * Puts a connection at the end of the journal's queue.
   *
   * @param token The record of the token it waits for, and its id.
   * @param position How far the journal must have come, in bytes of its queue of records.
   * @returns The waiter, or NO_WAITER when every row is taken.
   */
  enqueueForJournal(
    owner: number,
    thread: number,
    token: number,
    idLow: number,
    idHigh: number,
    position: number,
  ): WaiterRow {
    const waiter = this.#newWaiter(JOURNAL_QUEUE, owner, thread);
    if (waiter === NO_WAITER) return NO_WAITER;
    const words = this.#words;
    const row = this.#row(waiter);
    words[row + WAITER.ID_LOW] = idLow;
    words[row + WAITER.ID_HIGH] = idHigh;
    words[row + WAITER.TOKEN] = token;
    words[row + WAITER.POSITION] = position;
    return waiter;
  }

  /** The connection that waits longest for the journal; NO_WAITER when it waits for a position beyond `position`. */
  firstForJournal(position: number): WaiterRow {
    const waiter = this.#words[this.#queue(JOURNAL_QUEUE) + LIST.FIRST]!;
    if (waiter === NO_WAITER) return NO_WAITER;
    // Positions wrap.
    const ahead = (this.#words[this.#row(waiter) + WAITER.POSITION]! - position) | 0;
    return ahead <= 0 ? waiter : NO_WAITER;
  }

  /** The record of the token that a connection waits for. */
  tokenOf(waiter: WaiterRow): number {
    return this.#words[this.#row(waiter) + WAITER.TOKEN]!;
  }

  /** Ends the waiting for the journal. */
  finishForJournal(waiter: WaiterRow, granted: boolean): void {
    this.#finish(waiter, granted ? WaiterState.GRANTED : WaiterState.NOT_FOUND);
  }

  /** Ends the wait of the connection that `firstOwner` returned: it holds the lock now. */
  grantFirst(lock: number, fenceLow: number, fenceHigh: number): void {
    const words = this.#words;
    const waiter = words[this.#queue(lock) + LIST.FIRST]!;
    const row = this.#row(waiter);
    words[row + WAITER.ID_LOW] = fenceLow;
    words[row + WAITER.ID_HIGH] = fenceHigh;
    this.#finish(waiter, WaiterState.GRANTED);
  }

  /** Ends the waits for a lock whose item was removed. */
  failWaiters(lock: number): void {
    const queue = this.#queue(lock);
    for (;;) {
      const waiter = this.#words[queue + LIST.FIRST]!;
      if (waiter === NO_WAITER) return;
      this.#finish(waiter, WaiterState.NOT_FOUND);
    }
  }

  /**
   * Ends waits that time out, from where the last slice stopped. Only the thread of maintenance calls it.
   *
   * @returns Whether the slice ended before the last waiter.
   */
  sweepSlice(): boolean {
    const words = this.#words;
    if (words[HEADER.COUNT] === 0) {
      this.#sweepFrom = 1;
      return false;
    }
    const nowMs = this.#control[CONTROL.NOW_MS]!;
    const end = words[HEADER.EVER_USED]! + 1;
    let waiter = this.#sweepFrom;
    for (let looks = 0; waiter < end && looks < SLICE_LOOKS; waiter++, looks++) {
      const row = this.#row(waiter);
      if (words[row + WAITER.OWNER] === 0) continue;
      if (words[row + WAITER.STATE] !== WaiterState.WAITING) continue;
      // The journal always has an end.
      if (words[row + WAITER.LIST] === this.#queue(JOURNAL_QUEUE)) continue;
      // The clock of milliseconds wraps; waits are short.
      if (((nowMs - words[row + WAITER.DEADLINE_MS]!) | 0) < 0) continue;
      this.#stats[STAT.lock_wait_timeouts]! += 1;
      this.#finish(waiter, WaiterState.TIMED_OUT);
      looks += TIMED_OUT_LOOKS;
    }
    this.#sweepFrom = waiter < end ? waiter : 1;
    return waiter < end;
  }

  /**
   * Frees the row of a waiter whose connection knows the result, or has ended. Does not release a
   * lock that it was granted.
   */
  remove(waiter: WaiterRow): void {
    const words = this.#words;
    const row = this.#row(waiter);
    if (words[row + WAITER.STATE] === WaiterState.WAITING) words[HEADER.COUNT]! -= 1;
    if (words[row + WAITER.LIST] !== 0) this.#detach(waiter);
    words[row + WAITER.OWNER] = 0;
    this.#pool.giveBack(waiter);
  }

  /** Returns the next connection of a thread whose wait is over, or 0. */
  takeReady(thread: number): number {
    const waiter = this.#words[this.#ready(thread) + LIST.FIRST]!;
    if (waiter === NO_WAITER) return 0;
    this.#detach(waiter);
    return this.#words[this.#row(waiter) + WAITER.OWNER]!;
  }

  /** Whether `nextToWake` has something to say. */
  get hasToWake(): boolean {
    return this.#wakeAny;
  }

  /** Takes a thread out of those to be woken; -1 when there is none left. */
  nextToWake(): number {
    const thread = this.#wake.indexOf(1);
    if (thread < 0) this.#wakeAny = false;
    else this.#wake[thread] = 0;
    return thread;
  }

  // --- private -----------------------------------------------------------------------------------

  #newWaiter(queue: number, owner: number, thread: number): WaiterRow {
    const waiter = this.#pool.take();
    if (waiter === NO_WAITER) return NO_WAITER;
    const words = this.#words;
    const row = this.#row(waiter);
    words[row + WAITER.OWNER] = owner;
    words[row + WAITER.THREAD] = thread < this.#threads ? thread : 0;
    words[row + WAITER.STATE] = WaiterState.WAITING;
    words[row + WAITER.SINCE_MS] = this.#control[CONTROL.NOW_MS]!;
    this.#append(this.#queue(queue), waiter);
    words[HEADER.COUNT]! += 1;
    return waiter;
  }

  #ready(thread: number): number {
    return HEADER.WORDS + thread * LIST.WORDS;
  }

  #queue(lock: number): number {
    return this.#queues + lock * LIST.WORDS;
  }

  #row(waiter: WaiterRow): number {
    return this.#rows + waiter * WAITER.WORDS;
  }

  /** Moves a waiter from its queue to the list of its thread, with the result of the wait. */
  #finish(waiter: WaiterRow, state: WaiterState): void {
    const words = this.#words;
    const row = this.#row(waiter);
    const thread = words[row + WAITER.THREAD]!;
    const forLock = words[row + WAITER.LIST] !== this.#queue(JOURNAL_QUEUE);
    this.#detach(waiter);
    words[HEADER.COUNT]! -= 1;
    words[row + WAITER.STATE] = state;
    if (forLock) {
      const waitedMs = (this.#control[CONTROL.NOW_MS]! - words[row + WAITER.SINCE_MS]!) | 0;
      this.#stats[STAT.lock_wait_ms]! += waitedMs;
    }
    this.#append(this.#ready(thread), waiter);
    this.#wake[thread] = 1;
    this.#wakeAny = true;
  }

  #append(list: number, waiter: WaiterRow): void {
    const words = this.#words;
    const row = this.#row(waiter);
    const previous = words[list + LIST.LAST]!;
    words[row + WAITER.LIST] = list;
    words[row + WAITER.NEXT] = NO_WAITER;
    words[row + WAITER.PREVIOUS] = previous;
    if (previous !== NO_WAITER) words[this.#row(previous) + WAITER.NEXT] = waiter;
    else words[list + LIST.FIRST] = waiter;
    words[list + LIST.LAST] = waiter;
    words[list + LIST.COUNT]! += 1;
  }

  #detach(waiter: WaiterRow): void {
    const words = this.#words;
    const row = this.#row(waiter);
    const list = words[row + WAITER.LIST]!;
    const next = words[row + WAITER.NEXT]!;
    const previous = words[row + WAITER.PREVIOUS]!;
    if (next !== NO_WAITER) words[this.#row(next) + WAITER.PREVIOUS] = previous;
    else words[list + LIST.LAST] = previous;
    if (previous !== NO_WAITER) words[this.#row(previous) + WAITER.NEXT] = next;
    else words[list + LIST.FIRST] = next;
    words[list + LIST.COUNT]! -= 1;
    words[row + WAITER.LIST] = 0;
  }
}
