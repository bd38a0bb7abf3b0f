import type { Expiry } from "./expiry.ts";
import { takeId } from "../memory/ids.ts";
import { CONTROL, type Memory } from "../memory/memory.ts";

/** As upper half of the first id that a flush does not hide: none is so large. */
const HIGH_ALL = 0x7fffffff;

/**
 * flush_all: items whose id was handed out before it are dead. Nothing is walked; the sweep of dead
 * items finds them later.
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

  /** Hides everything stored so far. A flush that waits for its time is forgotten. */
  now(): void {
    const control = this.#control;
    control[CONTROL.FLUSH_AT_SEC] = 0;
    takeId(this.#memory);
    this.#hideBelow(control[CONTROL.ID_LOW]!, control[CONTROL.ID_HIGH]!);
  }

  /**
   * When second `atSec` of the store's clock comes, hides everything stored up to its end. Only one
   * such second is known.
   */
  at(atSec: number): void {
    // In the second of the one before, what is yet to come is hidden too: from here on it is not.
    if (this.#control[CONTROL.FLUSH_HIGH] === HIGH_ALL) this.now();
    this.#control[CONTROL.FLUSH_AT_SEC] = atSec;
    if (atSec <= this.#control[CONTROL.NOW_SEC]!) this.due();
  }

  /**
   * The second of `at` has come: all ids that can be are hidden while it lasts, and afterwards
   * those that there have been.
   */
  due(): void {
    const control = this.#control;
    if (control[CONTROL.FLUSH_AT_SEC]! < control[CONTROL.NOW_SEC]!) this.now();
    else if (control[CONTROL.FLUSH_HIGH] !== HIGH_ALL) this.#hideBelow(0, HIGH_ALL);
  }

  #hideBelow(idLow: number, idHigh: number): void {
    const control = this.#control;
    control[CONTROL.FLUSH_LOW] = idLow;
    control[CONTROL.FLUSH_HIGH] = idHigh;
    control[CONTROL.OLDEST_LIVE_SEC] = control[CONTROL.NOW_SEC]!;
    this.#expiry.markAllPagesDue();
  }
}
