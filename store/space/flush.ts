import { compareU64 } from "../base/u64.ts";
import { assert } from "../base/assert.ts";
import type { Expiry } from "./expiry.ts";
import { takeId } from "../memory/ids.ts";
import { CONTROL, type Memory } from "../memory/memory.ts";

/** Upper half of an id above all ids: a flush below it hides every item. */
const HIGH_ALL = 0x7fffffff;

/**
 * flush_all: an item is dead if its id is older than the flush. The flush touches no item; the sweep
 * of dead items removes them later.
 */
export class Flush {
  readonly #memory: Memory;
  readonly #control: Int32Array;
  readonly #expiry: Expiry;

  constructor(memory: Memory, expiry: Expiry) {
    this.#memory = memory;
    this.#control = memory.control;
    this.#expiry = expiry;
  }

  /** Hides every item stored so far, and cancels a flush that is scheduled. */
  now(): void {
    const control = this.#control;
    control[CONTROL.OLDEST_LIVE_SEC] = control[CONTROL.NOW_SEC]!;
    this.#hideStored();
  }

  #hideStored(): void {
    const control = this.#control;
    control[CONTROL.FLUSH_AT_SEC] = 0;
    takeId(this.#memory);
    this.#hideBelow(control[CONTROL.ID_LOW]!, control[CONTROL.ID_HIGH]!);
  }

  /**
   * Schedules a flush that hides every item stored up to the end of second `atSec` of the store's
   * clock. A new schedule replaces the old one.
   */
  at(atSec: number): void {
    // During the second of an earlier flush new items are hidden too. That ends here.
    if (this.#control[CONTROL.FLUSH_HIGH] === HIGH_ALL) this.now();
    this.#control[CONTROL.FLUSH_AT_SEC] = atSec;
    this.#control[CONTROL.OLDEST_LIVE_SEC] = atSec;
    if (atSec <= this.#control[CONTROL.NOW_SEC]!) this.due();
  }

  /**
   * Runs a scheduled flush. During its second every item is hidden, new ones too; after that second,
   * every item stored before its end.
   */
  due(): void {
    const control = this.#control;
    if (control[CONTROL.FLUSH_AT_SEC]! < control[CONTROL.NOW_SEC]!) this.#hideStored();
    else if (control[CONTROL.FLUSH_HIGH] !== HIGH_ALL) this.#hideBelow(0, HIGH_ALL);
  }

  #hideBelow(idLow: number, idHigh: number): void {
    const control = this.#control;
    const { versions } = this.#memory;
    const low = control[CONTROL.FLUSH_LOW]!;
    const high = control[CONTROL.FLUSH_HIGH]!;
    assert(
      high === HIGH_ALL || compareU64(idLow, idHigh, low, high) >= 0,
      "what one flush hides stays hidden by the next",
    );
    versions.beginAll();
    control[CONTROL.FLUSH_LOW] = idLow;
    control[CONTROL.FLUSH_HIGH] = idHigh;
    versions.endAll();
    this.#expiry.markAllPagesDue();
  }
}
