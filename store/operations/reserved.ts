import type { StoreParts } from "./parts.ts";
import { assert } from "../base/assert.ts";
import type { ByteRegion } from "../base/bytes.ts";
import { NO_LEASE } from "../claims/leases.ts";
import { isConditional, type WriteGuard } from "../claims/write_guard.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Values } from "../items/values.ts";
import { type ItemRef, NO_ITEM, WORD } from "../memory/item.ts";
import { KeyUse } from "../memory/hot_keys.ts";
import { SUM } from "../memory/memory.ts";
import { isExtending, type Operation, StoreMode } from "../operation.ts";
import { Outcome } from "../outcome.ts";
import type { Allocator } from "../space/allocator.ts";
import { type ArrivingRow, type ArrivingValues, NO_ROW } from "../space/arriving_values.ts";
import { STAT } from "../stats.ts";
import type { LockOperations } from "./lock.ts";
import type { Lookup } from "./lookup.ts";
import { START_OVER, type StoreOperations } from "./store.ts";

/**
 * Stores whose values arrive in pieces: an item is reserved, filled, and then committed or abandoned. A value is known
 * by its row of ArrivingValues; another connection's value may have dropped it. Also handles stores that are refused
 * for their size or for lack of memory.
 */
export class ReservedOperations {
  readonly #links: ItemLinks;
  readonly #lookup: Lookup;
  readonly #guard: WriteGuard;
  readonly #allocator: Allocator;
  readonly #storeOperations: StoreOperations;
  readonly #lockOperations: LockOperations;
  readonly #values: Values;
  readonly #arriving: ArrivingValues;

  constructor(parts: StoreParts, storeOperations: StoreOperations, lockOperations: LockOperations) {
    const { links, lookup, guard, allocator, values, arriving } = parts;
    this.#links = links;
    this.#lookup = lookup;
    this.#guard = guard;
    this.#allocator = allocator;
    this.#storeOperations = storeOperations;
    this.#lockOperations = lockOperations;
    this.#values = values;
    this.#arriving = arriving;
  }

  /**
   * Allocates an unlinked item for a value that arrives in pieces. A long value gets its memory by `grow`
   * as the pieces arrive.
   *
   * @returns OK (the value is `operation.reserved`), or, as a `store` would be refused, TOO_LARGE or NO_MEMORY.
   */
  reserve(operation: Operation): Outcome {
    this.#links.memory.hotKeys.note(operation, KeyUse.WRITE);
    operation.reserved = NO_ROW;
    const { keyLength, valueLength, clientFlags } = operation;
    const fits = this.#storeOperations.fits(keyLength, valueLength, clientFlags);
    const item = fits ? this.#allocator.reserveItem(operation) : NO_ITEM;
    if (item !== NO_ITEM) {
      operation.reserved = this.#arriving.add(item);
      return Outcome.OK;
    }
    const outcome = fits ? Outcome.NO_MEMORY : Outcome.TOO_LARGE;
    this.#reportRefused(operation, outcome);
    return outcome;
  }

  /** The item that is filled with the value, or NO_ITEM if the value was dropped. */
  itemOf(value: ArrivingRow): ItemRef {
    return this.#arriving.itemOf(value);
  }

  /**
   * Allocates memory for the first `length` bytes of a value. May drop the oldest values.
   *
   * @returns False without memory for it, or if the value was dropped: see `refuse`.
   */
  grow(value: ArrivingRow, length: number): boolean {
    const arriving = this.#arriving;
    const item = arriving.itemOf(value);
    if (item === NO_ITEM) return false;
    if (!arriving.makeRoom(this.#allocator.missingBytes(item, length), value)) return false;
    arriving.growing = value;
    const before = arriving.bytesOf(item);
    const grown = this.#allocator.grow(item, length);
    this.#links.memory.sums[SUM.RESERVED_BYTES]! += arriving.bytesOf(item) - before;
    arriving.growing = NO_ROW;
    return grown;
  }

  /**
   * Refuses a store for lack of memory while its value arrives, and ends `operation.reserved`.
   *
   * @returns NO_MEMORY, or NOT_STORED for append and prepend.
   */
  refuse(operation: Operation): Outcome {
    const { input, reserved } = operation;
    const arriving = this.#arriving;
    if (arriving.itemOf(reserved) !== NO_ITEM) arriving.drop(reserved);
    operation.input = arriving.keys;
    operation.keyOffset = arriving.keyOffset(reserved);
    operation.keyLength = arriving.keyLength(reserved);
    const outcome = this.#reportRefused(operation, Outcome.NO_MEMORY);
    operation.input = input;
    this.abandon(reserved);
    return outcome;
  }

  /**
   * Keeps a value's memory until `endReceiving`, while bytes are received straight into it without the mutex.
   *
   * @returns False if the value was dropped.
   */
  beginReceiving(value: ArrivingRow): boolean {
    return this.#arriving.beginReceiving(value);
  }

  /** Needs no mutex. */
  endReceiving(value: ArrivingRow): void {
    this.#arriving.endReceiving(value);
  }

  /** Writes a piece of a value, for which there is memory. */
  fill(value: ArrivingRow, at: number, from: ByteRegion, offset: number, length: number): void {
    this.#values.write(this.#arriving.itemOf(value), at, from, offset, length);
  }

  /** Takes the item of `operation.reserved`, which was not dropped, out of the list of arriving values. */
  take(operation: Operation): ItemRef {
    const item = this.#arriving.take(operation.reserved);
    operation.reserved = NO_ROW;
    this.#values.forgetPosition();
    return item;
  }

  /**
   * As `Cache.store`, with the value of `operation.reserved`, which was not dropped. The operation is judged now, not
   * when it was announced.
   */
  commit(operation: Operation): Outcome {
    const { watch, memory, items, index } = this.#links;
    const { input } = operation;
    const item = this.#arriving.take(operation.reserved);
    operation.reserved = NO_ROW;
    const key = watch.isOn ? watch.keyOf(item) : "";
    // The key has left the input.
    operation.input = memory.segmentOf(item);
    operation.keyOffset = items.keyOffset(item);
    operation.hash = index.hashOf(item);
    const outcome = this.#commit(operation, item);
    operation.input = input;
    if (watch.isOn) watch.stored(operation, outcome, key);
    if (operation.unlock && outcome === Outcome.STORED) {
      this.#lockOperations.unlockStored(operation);
    }
    return outcome;
  }

  #commit(operation: Operation, item: ItemRef): Outcome {
    assert(this.#allocator.isComplete(item), "a value is stored when it has all its chunks");
    operation.item = NO_ITEM;
    this.#values.forgetPosition();
    operation.valueLength = this.#links.items.valueLength(item);
    const old = this.#lookup.forStore(operation);
    const refusal = this.#guard.admit(operation, old);
    if (refusal !== Outcome.OK) {
      this.#storeOperations.countReservedRefused(item);
      this.#links.free(item);
      return refusal;
    }
    if (isExtending(operation) && old !== NO_ITEM) {
      const outcome = this.#storeOperations.extend(operation, old, item);
      if (outcome === START_OVER) return this.#commit(operation, item);
      this.#links.free(item);
      return outcome;
    }
    // The write guard decided this only now.
    this.#links.items.setWord(item, WORD.DEADLINE_SEC, operation.deadlineSec);
    this.#links.items.addState(item, operation.marks);
    this.#storeOperations.countStore(operation, item);
    this.#storeOperations.replace(operation, item);
    this.#guard.settle(operation);
    return Outcome.STORED;
  }

  /** Ends a value that will never be complete. */
  abandon(value: ArrivingRow): void {
    this.#arriving.free(value);
  }

  /** As `storeRefused`, for a store that never reached `store`; watchers see it. */
  #reportRefused(operation: Operation, outcome: Outcome): Outcome {
    operation.item = NO_ITEM;
    if (this.#links.watch.isOn) this.#links.watch.storedFrom(operation, outcome);
    return this.storeRefused(operation, outcome);
  }

  /**
   * Applies the effects of a store refused for its size or for lack of memory. `set` removes the old item, which is
   * out of date; the other modes keep it. A held lease is renewed, since the store may stand for an update of the
   * database; if the holder itself is refused, the lease is given back.
   *
   * @returns `outcome`, or NOT_STORED for append and prepend.
   */
  storeRefused(operation: Operation, outcome: Outcome): Outcome {
    const { leases } = this.#guard;
    const tooLarge = outcome === Outcome.TOO_LARGE;
    this.#links.memory.stats[tooLarge ? STAT.store_too_large : STAT.store_no_memory]! += 1;
    this.#links.prefetch.addHash(operation);
    const lease = leases.find(operation);
    if (lease !== NO_LEASE && leases.isHeld(lease)) {
      if (!isConditional(operation)) this.#guard.renew(lease);
      else if (leases.hasId(lease, operation.compareLow, operation.compareHigh)) {
        leases.release(lease, operation.hash);
      }
    }
    if (isExtending(operation) && !operation.refusalRemoves) return Outcome.NOT_STORED;
    if (operation.mode === StoreMode.SET || operation.refusalRemoves) {
      const old = this.#lookup.forStore(operation);
      if (old !== NO_ITEM && !this.#guard.isLockedByOther(old, operation.owner)) {
        this.#lookup.unlink(old, operation.hash);
      }
    }
    return outcome;
  }
}
