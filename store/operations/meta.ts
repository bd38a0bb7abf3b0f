import type { StoreParts } from "./parts.ts";
import type { Allocator } from "../space/allocator.ts";
import type { Key, Operation } from "../operation.ts";
import type { Lookup } from "./lookup.ts";
import type { WriteGuard } from "../claims/write_guard.ts";
import type { ItemRef, Items } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { LeaseOperations } from "./lease.ts";
import { NO_LEASE } from "../claims/leases.ts";
import type { ItemLinks } from "../items/item_links.ts";
import * as hotKeysModule from "../memory/hot_keys.ts";
import type { Memory } from "../memory/memory.ts";
import type { Versions } from "../memory/versions.ts";
import * as versionsModule from "../memory/versions.ts";
import { Outcome } from "../outcome.ts";
import * as statsModule from "../stats.ts";
import { START_OVER, type StoreOperations } from "./store.ts";

const { KeyUse } = hotKeysModule;
const { NO_ITEM, STATE } = itemModule;
const { NO_GROUP } = versionsModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

/** The operations that only meta commands need: reads without a trace, stubs, stale and emptied values. */
export class MetaOperations {
  readonly #memory: Memory;
  readonly #versions: Versions;
  readonly #links: ItemLinks;
  readonly #items: Items;
  readonly #lookup: Lookup;
  readonly #guard: WriteGuard;
  readonly #leaseOperations: LeaseOperations;
  readonly #allocator: Allocator;
  readonly #storeOperations: StoreOperations;

  constructor(
    parts: StoreParts,
    leaseOperations: LeaseOperations,
    storeOperations: StoreOperations,
  ) {
    const { links, lookup, guard, allocator } = parts;
    this.#memory = links.memory;
    this.#versions = links.memory.versions;
    this.#links = links;
    this.#items = links.items;
    this.#lookup = lookup;
    this.#guard = guard;
    this.#leaseOperations = leaseOperations;
    this.#allocator = allocator;
    this.#storeOperations = storeOperations;
  }

  /** The live item; nothing is noted yet, see `noteHit` and `noteMiss`. */
  find(key: Key): ItemRef {
    return this.#lookup.forRead(key);
  }

  /**
   * Counts a hit.
   *
   * @param key The item's.
   * @param touched Counted as a touch, else as a get.
   * @param mark Whether the hit counts for eviction and for the flags h and l.
   */
  noteHit(key: Key, item: ItemRef, touched: boolean, mark: boolean): void {
    const memory = this.#memory;
    memory.hotKeys.note(key, KeyUse.HIT);
    memory.stats[touched ? STAT.cmd_touch : STAT.cmd_get]! += 1;
    const classId = this.#links.slabs.classOf(item);
    memory.countClass(classId, touched ? CLASS_STAT.touch_hits : CLASS_STAT.get_hits);
    if (mark) this.#links.hits.note(item);
  }

  noteMiss(key: Key): void {
    this.#memory.hotKeys.note(key, KeyUse.MISS);
    this.#memory.stats[STAT.cmd_get]! += 1;
    this.#memory.stats[STAT.get_misses]! += 1;
  }

  /** Counts an `md` refused for its id, as memcached does: a miss. */
  noteRefusedDelete(): void {
    this.#memory.stats[STAT.delete_misses]! += 1;
  }

  /** Counts an `me`. */
  noteDebug(): void {
    this.#memory.stats[STAT.cmd_meta]! += 1;
  }

  /** Sets a stub's deadline. A dirty key does not shorten it. */
  setDeadline(item: ItemRef, deadlineSec: number): void {
    this.#links.setDeadline(item, deadlineSec);
  }

  /** Sets the deadline, which a dirty key may shorten. Does nothing if another connection holds the item's lock. */
  touch(operation: Operation, item: ItemRef, deadlineSec: number): void {
    if (this.#guard.isLockedByOther(item, operation.owner)) return;
    this.#links.prefetch.addHash(operation);
    this.#links.setDeadline(item, this.#guard.capFor(operation, deadlineSec));
  }

  /** Creates a placeholder for a value that a client was told to fetch. Returns NO_ITEM without memory. */
  makeStub(operation: Operation): ItemRef {
    operation.marks |= STATE.STUB;
    this.#links.prefetch.addHash(operation);
    const item = this.#allocator.allocate(operation, 0);
    if (item === NO_ITEM) return NO_ITEM;
    this.#storeOperations.replace(operation, item);
    return item;
  }

  /** Notes that a client was told to refill the item. */
  markWon(item: ItemRef): void {
    const versions = this.#versions;
    const begun = versions.isOn ? versions.begin(this.#links.index.hashOf(item)) : NO_GROUP;
    this.#items.addState(item, STATE.WON);
    versions.end(begun);
  }

  /**
   * Marks the value stale instead of deleting it: the next reader is told to refill it. The item gets a new id, and
   * `operation.deadlineSec` if `touches`.
   *
   * @returns OK, NOT_FOUND, EXISTS, LOCKED, NO_MEMORY, or DELETED for a lease that was given back.
   */
  markStale(operation: Operation, touches: boolean): Outcome {
    this.#links.prefetch.addHash(operation);
    const refusal = this.#refuse(operation);
    if (refusal !== Outcome.OK) return refusal;
    const deadlineSec = operation.deadlineSec;
    let item = operation.item;
    const lacksIdRoom = operation.explicit &&
      (this.#items.state(item) & STATE.EXPLICIT_ID) === 0;
    // The copy of a chain may release the mutex. No reader without the mutex reads a chain.
    const isChained = (this.#items.state(item) & STATE.CHAINED) !== 0;
    const begun = isChained ? NO_GROUP : this.#versions.begin(operation.hash);
    if (lacksIdRoom) item = this.#storeOperations.copy(operation, item);
    else this.#storeOperations.assignId(operation, item);
    if (item !== NO_ITEM && item !== START_OVER) {
      if (touches) this.touch(operation, item, deadlineSec);
      this.#stale(item);
    }
    this.#versions.end(begun);
    if (item === START_OVER) return this.markStale(operation, touches);
    return item === NO_ITEM ? Outcome.NO_MEMORY : Outcome.OK;
  }

  /**
   * Removes the value but keeps the item, and its id unless `operation.explicit`. The item gets
   * `operation.clientFlags` and lives until `operation.deadlineSec`. With `stale`, marks it so as well,
   * and its id is new.
   *
   * @returns As `markStale`.
   */
  empty(operation: Operation, stale: boolean): Outcome {
    this.#links.prefetch.addHash(operation);
    const refusal = this.#refuse(operation);
    if (refusal !== Outcome.OK) return refusal;
    const old = operation.item;
    const items = this.#items;
    const keepsId = !stale && !operation.explicit;
    const idLow = items.idLow(old);
    const idHigh = items.idHigh(old);
    const ownLow = items.ownIdLow(old);
    const ownHigh = items.ownIdHigh(old);
    operation.marks |= items.state(old) & STATE.KEY_BINARY;
    if (keepsId && (items.state(old) & STATE.EXPLICIT_ID) !== 0) {
      operation.explicit = true;
      operation.explicitLow = idLow;
      operation.explicitHigh = idHigh;
    }
    operation.deadlineSec = this.#guard.capFor(operation, operation.deadlineSec);
    const item = this.#allocator.allocate(operation, 0);
    if (item === NO_ITEM) return Outcome.NO_MEMORY;
    if (!stale) this.#links.countDeleted(old, operation.deletedBy);
    const begun = this.#versions.begin(operation.hash);
    this.#storeOperations.replace(operation, item);
    if (keepsId) items.setOwnId(item, ownLow, ownHigh);
    if (stale) this.#stale(item);
    this.#versions.end(begun);
    return Outcome.OK;
  }

  /** Whether a deletion that leaves the item may go on; then it is `operation.item`. */
  #refuse(operation: Operation): Outcome {
    const item = this.#lookup.live(operation);
    operation.item = item;
    if (item === NO_ITEM) {
      const { leases } = this.#guard;
      const lease = leases.find(operation);
      return lease === NO_LEASE ? this.#miss() : this.#leaseOperations.remove(operation, lease);
    }
    if (this.#guard.isLockedByOther(item, operation.owner)) return Outcome.LOCKED;
    if (operation.compare && !this.#guard.hasId(item, operation)) return Outcome.EXISTS;
    return Outcome.OK;
  }

  #miss(): Outcome {
    this.#memory.stats[STAT.delete_misses]! += 1;
    return Outcome.NOT_FOUND;
  }

  #stale(item: ItemRef): void {
    this.#items.dropState(item, STATE.WON);
    this.#items.addState(item, STATE.STALE);
  }
}
