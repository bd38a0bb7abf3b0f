import type { Change } from "../operation.ts";
import type { Finder } from "./lookup.ts";
import type { Gate } from "../claims/write_guard.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { Links } from "../items/item_links.ts";
import type { Locks } from "../claims/locks.ts";
import { Outcome } from "../outcome.ts";
import * as statsModule from "../stats.ts";

// Copies of imported constants: the engine folds only a module's own constants into its code.
const { NO_ITEM } = itemModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

/** The operations that lock keys and unlock them. */
export class Locking {
  readonly #links: Links;
  readonly #finder: Finder;
  readonly #gate: Gate;
  readonly #locks: Locks;
  readonly #counters: Float64Array;

  constructor(links: Links, finder: Finder, gate: Gate, locks: Locks) {
    this.#links = links;
    this.#finder = finder;
    this.#gate = gate;
    this.#locks = locks;
    this.#counters = links.memory.counters;
  }

  /** See `Cache.lock`. */
  lock(change: Change): Outcome {
    const item = this.#find(change);
    return item === NO_ITEM ? Outcome.NOT_FOUND : this.#locks.acquire(change, item);
  }

  /** See `Cache.lockAndGet`. */
  lockAndGet(change: Change, touch: boolean): Outcome {
    const { input, keyOffset, keyLength } = change;
    change.item = NO_ITEM;
    const hash = this.#links.index.hash(input, keyOffset, keyLength);
    const item = this.#finder.forRead(input, keyOffset, keyLength, hash);
    if (item === NO_ITEM) {
      this.#counters[STAT.cmd_get]! += 1;
      this.#counters[STAT.get_misses]! += 1;
      return Outcome.NOT_FOUND;
    }
    const outcome = this.#locks.acquire(change, item);
    if (outcome !== Outcome.OK) return outcome;
    this.#counters[STAT.cmd_get]! += 1;
    this.#links.memory.countClass(this.#links.slabs.classOf(item), CLASS_STAT.get_hits);
    this.#gate.noteHit(item);
    if (touch) {
      const deadlineSec = this.#gate.cutFor(input, keyOffset, keyLength, change.deadlineSec);
      this.#links.setDeadline(item, deadlineSec);
    }
    change.item = item;
    return Outcome.OK;
  }

  /** See `Cache.unlock`. */
  unlock(change: Change): Outcome {
    const item = this.#find(change);
    if (item === NO_ITEM) return Outcome.NOT_FOUND;
    if (!this.#locks.isLockedBy(item, change.owner)) return Outcome.NOT_LOCKED;
    this.#locks.release(this.#locks.rowOf(item));
    return Outcome.OK;
  }

  /** A store that ends the lock is done. The item may have outlived its deadline, and then goes. */
  unlockStored(change: Change): void {
    change.item = this.#locks.release(this.#locks.rowOf(change.item));
  }

  #find({ input, keyOffset, keyLength }: Change): ItemRef {
    const hash = this.#links.index.hash(input, keyOffset, keyLength);
    return this.#finder.live(input, keyOffset, keyLength, hash);
  }
}
