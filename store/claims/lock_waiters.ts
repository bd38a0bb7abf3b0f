import { assert } from "../base/assert.ts";
import { CONTROL, type Memory } from "../memory/memory.ts";
import { lockQueues, WAITER, WAITER_HEADER as HEADER } from "../memory/waiter_layout.ts";
import { STAT } from "../stats.ts";
import { NO_WAITER, type WaiterRow, Waiters, WaiterState } from "./waiters.ts";

// Hot path: no allocation.

/** Rows looked at in one slice of maintenance: some 30 microseconds. */
const SLICE_LOOKS = 8192;
/** Looks charged for a waiter that times out. */
const TIMED_OUT_LOOKS = 20;

/** Connections that wait for locks. A lock's queue has the number of its row. */
export class LockWaiters extends Waiters {
  readonly #control: Int32Array;
  readonly #stats: Float64Array;
  readonly #perLockMax: number;
  /** The row at which the next slice of maintenance begins. */
  #sweepFrom: WaiterRow = 1;

  constructor(memory: Memory) {
    super(memory, memory.shared.lockWaiters, lockQueues(memory.options));
    this.#control = memory.control;
    this.#stats = memory.stats;
    this.#perLockMax = memory.options.lockLimits.waitersPerLockMax;
  }

  /** Returns the connection that has waited longest, or 0. */
  firstOwner(lock: number): number {
    const waiter = this.first(lock);
    return waiter === NO_WAITER ? 0 : this.words[this.row(waiter) + WAITER.OWNER]!;
  }

  /**
   * Puts a connection at the end of a lock's queue.
   *
   * @param waitMs 1..LOCK_WAIT_MS_MAX.
   * @returns The waiter, or NO_WAITER if the queue is full.
   */
  enqueue(lock: number, owner: number, thread: number, waitMs: number): WaiterRow {
    if (this.countOf(lock) >= this.#perLockMax) return NO_WAITER;
    const waiter = this.append(lock, owner, thread);
    if (waiter === NO_WAITER) return NO_WAITER;
    const row = this.row(waiter);
    const nowMs = this.#control[CONTROL.NOW_MS]!;
    this.words[row + WAITER.SINCE_MS] = nowMs;
    this.words[row + WAITER.DEADLINE_MS] = (nowMs + waitMs) | 0;
    this.#stats[STAT.lock_waits]! += 1;
    return waiter;
  }

  /** Ends the wait of the connection that `firstOwner` returned: it holds the lock now. */
  grantFirst(lock: number, fenceLow: number, fenceHigh: number): void {
    const waiter = this.first(lock);
    assert(waiter !== NO_WAITER, "a lock is granted to a waiter of its queue");
    this.setId(waiter, fenceLow, fenceHigh);
    this.#finish(waiter, WaiterState.GRANTED);
  }

  /** Ends the waits for a lock whose item was removed. */
  failWaiters(lock: number): void {
    for (;;) {
      const waiter = this.first(lock);
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
    const { words } = this;
    if (this.count === 0) {
      this.#sweepFrom = 1;
      return false;
    }
    const nowMs = this.#control[CONTROL.NOW_MS]!;
    const end = words[HEADER.EVER_USED]! + 1;
    let waiter = this.#sweepFrom;
    for (let looks = 0; waiter < end && looks < SLICE_LOOKS; waiter++, looks++) {
      const row = this.row(waiter);
      if (words[row + WAITER.OWNER] === 0) continue;
      if (words[row + WAITER.STATE] !== WaiterState.WAITING) continue;
      // The clock of milliseconds wraps; waits are short.
      if (((nowMs - words[row + WAITER.DEADLINE_MS]!) | 0) < 0) continue;
      this.#stats[STAT.lock_wait_timeouts]! += 1;
      this.#finish(waiter, WaiterState.TIMED_OUT);
      looks += TIMED_OUT_LOOKS;
    }
    this.#sweepFrom = waiter < end ? waiter : 1;
    return waiter < end;
  }

  #finish(waiter: WaiterRow, state: WaiterState): void {
    const sinceMs = this.words[this.row(waiter) + WAITER.SINCE_MS]!;
    this.#stats[STAT.lock_wait_ms]! += (this.#control[CONTROL.NOW_MS]! - sinceMs) | 0;
    this.finish(waiter, state);
  }
}
