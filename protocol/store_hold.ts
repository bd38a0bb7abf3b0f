import type { Cache } from "../store/cache.ts";
import type { ReplyBuffer } from "./reply/reply_buffer.ts";
import type { WorkBudget } from "./work_budget.ts";

// Hot path: no allocation.

/** A thread's hold of the store's mutex, batch by batch. A base class, so that requests reach it without a detour. */
export abstract class StoreHold {
  abstract readonly cache: Cache;
  abstract readonly reply: ReplyBuffer;
  abstract readonly work: WorkBudget;
  /** Whether the batch in progress has the store's mutex. */
  isHolding = false;

  /** Whether reads may go without the mutex now. */
  abstract get mayReadOptimistically(): boolean;

  /** Begins a batch of requests: takes the mutex, unless reads may go without it. */
  beginBatch(): void {
    if (this.mayReadOptimistically) this.#beginHold();
    else this.hold();
  }

  /** Takes the mutex for this request and those that follow, unless this batch has it. */
  hold(): void {
    if (this.isHolding) return;
    this.cache.enter();
    this.isHolding = true;
    this.#beginHold();
  }

  /** Ends the batch of requests. */
  endBatch(): void {
    if (this.isHolding) this.#release();
    else this.cache.applyFullHits();
  }

  /** In front of a read: releases the mutex if this batch has it and the read may go without it. */
  releaseForReads(): void {
    if (this.isHolding && this.mayReadOptimistically) this.#release();
  }

  #release(): void {
    this.isHolding = false;
    this.cache.leave();
  }

  #beginHold(): void {
    this.work.beginHold();
    this.reply.beginMutexHold();
  }

  /**
   * Releases the mutex for a moment in the middle of a slice, if this batch has it. Called between two requests, keys
   * or pieces, when the hold's work is done (`work.holdEnd`), or the reply has grown past `yieldAt`.
   */
  yieldMutex(): void {
    if (this.isHolding) this.cache.yieldMutex();
    else this.cache.applyFullHits();
    this.#beginHold();
  }

  /** Releases the mutex, which must be held, while `work` runs, as between two requests. */
  withoutMutex<Result>(work: () => Result): Result {
    this.cache.leave();
    try {
      return work();
    } finally {
      this.cache.enter();
      this.#beginHold();
    }
  }
}
