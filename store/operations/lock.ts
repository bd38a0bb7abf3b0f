import type { StoreParts } from "./parts.ts";
import type { Operation } from "../operation.ts";
import type { Lookup } from "./lookup.ts";
import type { WriteGuard } from "../claims/write_guard.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Locks } from "../claims/locks.ts";
import { Outcome } from "../outcome.ts";
import * as statsModule from "../stats.ts";

const { NO_ITEM, STATE } = itemModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

/** The operations that lock keys and unlock them. */
export class LockOperations {
  readonly #links: ItemLinks;
  readonly #lookup: Lookup;
  readonly #guard: WriteGuard;
  readonly #locks: Locks;
  readonly #stats: Float64Array;

  constructor(parts: StoreParts) {
    const { links, lookup, guard, locks } = parts;
    this.#links = links;
    this.#lookup = lookup;
    this.#guard = guard;
    this.#locks = locks;
    this.#stats = links.memory.stats;
  }

  /** See `Cache.lock`. */
  lock(operation: Operation): Outcome {
    const item = this.#find(operation);
    return item === NO_ITEM ? Outcome.NOT_FOUND : this.#locks.acquire(operation, item);
  }

  /** See `Cache.lockAndGet`. */
  lockAndGet(operation: Operation, touch: boolean): Outcome {
    operation.item = NO_ITEM;
    this.#links.prefetch.addHash(operation);
    const item = this.#lookup.forRead(operation);
    if (item === NO_ITEM) {
      this.#stats[STAT.cmd_get]! += 1;
      this.#stats[STAT.get_misses]! += 1;
      return Outcome.NOT_FOUND;
    }
    const outcome = this.#locks.acquire(operation, item);
    if (outcome !== Outcome.OK) return outcome;
    this.#stats[STAT.cmd_get]! += 1;
    this.#links.memory.countClass(this.#links.slabs.classOf(item), CLASS_STAT.get_hits);
    this.#links.hits.note(item);
    if (touch) {
      const deadlineSec = this.#guard.capFor(operation, operation.deadlineSec);
      this.#links.setDeadline(item, deadlineSec);
    }
    operation.item = item;
    return Outcome.OK;
  }

  /** See `Cache.unlock`. */
  unlock(operation: Operation): Outcome {
    const item = this.#findLocked(operation);
    if (item === NO_ITEM) return Outcome.NOT_FOUND;
    if (!this.#locks.isLockedBy(item, operation.owner)) return Outcome.NOT_LOCKED;
    this.#locks.release(this.#locks.rowOf(item));
    return Outcome.OK;
  }

  /** Releases the lock after a store that ends it. The item is removed if its deadline has passed. */
  unlockStored(operation: Operation): void {
    operation.item = this.#locks.release(this.#locks.rowOf(operation.item));
  }

  /** Whether the connection holds the lock of the operation's key. */
  isHeld(operation: Operation): boolean {
    const item = this.#findLocked(operation);
    return item !== NO_ITEM && this.#locks.isLockedBy(item, operation.owner);
  }

  /** Removes the operation's key, which has no value, if the connection holds its lock. Its waiters are told. */
  removeHeld(operation: Operation): void {
    if (!this.isHeld(operation)) return;
    this.#lookup.unlink(this.#findLocked(operation), operation.hash);
  }

  /** As `#find`, but also the locked item of a row that has no value. */
  #findLocked(operation: Operation): ItemRef {
    const live = this.#find(operation);
    if (live !== NO_ITEM) return live;
    const item = this.#links.index.find(operation);
    const isLocked = item !== NO_ITEM && (this.#links.items.state(item) & STATE.LOCKED) !== 0;
    return isLocked ? item : NO_ITEM;
  }

  #find(operation: Operation): ItemRef {
    this.#links.prefetch.addHash(operation);
    return this.#lookup.live(operation);
  }
}
