import { assert } from "../base/assert.ts";
import type { ByteRegion } from "../base/bytes.ts";
import { NO_LEASE } from "../claims/leases.ts";
import { isConditional, type WriteGuard } from "../claims/write_guard.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Values } from "../items/values.ts";
import { type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { CONTROL, RESERVED_BYTES } from "../memory/memory.ts";
import { isExtending, type Operation, StoreMode } from "../operation.ts";
import { Outcome } from "../outcome.ts";
import type { Allocator } from "../space/allocator.ts";
import { STAT } from "../stats.ts";
import type { LockOperations } from "./lock.ts";
import type { Lookup } from "./lookup.ts";
import { CHANGED_MEANWHILE, type StoreOperations } from "./store.ts";

/**
 * Stores whose values arrive in pieces: an item is reserved, filled, and then committed or
 * abandoned. Also handles stores that are refused for their size or for lack of memory.
 */
export class ReservedOperations {
  readonly #links: ItemLinks;
  readonly #lookup: Lookup;
  readonly #guard: WriteGuard;
  readonly #allocator: Allocator;
  readonly #storeOperations: StoreOperations;
  readonly #lockOperations: LockOperations;
  readonly #values: Values;

  constructor(
    links: ItemLinks,
    lookup: Lookup,
    guard: WriteGuard,
    allocator: Allocator,
    storeOperations: StoreOperations,
    lockOperations: LockOperations,
    values: Values,
  ) {
    this.#links = links;
    this.#lookup = lookup;
    this.#guard = guard;
    this.#allocator = allocator;
    this.#storeOperations = storeOperations;
    this.#lockOperations = lockOperations;
    this.#values = values;
  }

  /**
   * Allocates an unlinked item for a value that arrives in pieces. A long value gets its memory by `grow`
   * as the pieces arrive.
   *
   * @returns OK (the item is `operation.reserved`), or, as a `store` would be refused, TOO_LARGE or NO_MEMORY.
   */
  reserve(operation: Operation): Outcome {
    operation.reserved = NO_ITEM;
    const { keyLength, valueLength, clientFlags } = operation;
    const fits = this.#storeOperations.fits(keyLength, valueLength, clientFlags);
    if (fits) operation.reserved = this.#allocator.reserveItem(operation);
    if (operation.reserved !== NO_ITEM) {
      this.#count(operation.reserved, 1);
      return Outcome.OK;
    }
    const outcome = fits ? Outcome.NO_MEMORY : Outcome.TOO_LARGE;
    this.#reportRefused(operation, outcome);
    return outcome;
  }

  /**
   * Allocates memory for the first `length` bytes of a reserved item's value. Returns false when there is none:
   * see `refuse`.
   */
  grow(item: ItemRef, length: number): boolean {
    const before = this.#bytesOf(item);
    const grown = this.#allocator.grow(item, length);
    this.#links.memory.stats[RESERVED_BYTES]! += this.#bytesOf(item) - before;
    return grown;
  }

  /**
   * Refuses a store for lack of memory while its value arrives, and frees `operation.reserved`.
   *
   * @returns NO_MEMORY, or NOT_STORED for append and prepend.
   */
  refuse(operation: Operation): Outcome {
    const { input, reserved } = operation;
    operation.input = this.#links.memory.segmentOf(reserved);
    operation.keyOffset = this.#links.items.keyOffset(reserved);
    operation.keyLength = this.#links.items.keyLength(reserved);
    const outcome = this.#reportRefused(operation, Outcome.NO_MEMORY);
    operation.input = input;
    this.abandon(reserved);
    return outcome;
  }

  /** Writes a piece of a reserved item's value, for which there is memory. */
  fill(item: ItemRef, at: number, from: ByteRegion, offset: number, length: number): void {
    this.#values.write(item, at, from, offset, length);
  }

  /**
   * As `Cache.store`, with the value of `operation.reserved`. The operation is judged now, not when
   * it was announced.
   */
  commit(operation: Operation): Outcome {
    const { watch } = this.#links;
    const key = watch.isOn ? watch.keyOf(operation.reserved) : "";
    this.#count(operation.reserved, -1);
    const outcome = this.#commit(operation);
    if (watch.isOn) watch.stored(operation, outcome, key);
    if (operation.unlock && outcome === Outcome.STORED) {
      this.#lockOperations.unlockStored(operation);
    }
    return outcome;
  }

  #commit(operation: Operation): Outcome {
    const item = operation.reserved;
    assert(this.#allocator.isComplete(item), "a value is stored when it has all its chunks");
    operation.reserved = NO_ITEM;
    operation.item = NO_ITEM;
    this.#values.forgetPosition();
    const segment = this.#links.memory.segmentOf(item);
    const keyOffset = this.#links.items.keyOffset(item);
    const hash = this.#links.index.hashOf(item);
    const keyLength = this.#links.items.keyLength(item);
    operation.valueLength = this.#links.items.valueLength(item);
    const old = this.#lookup.forStore(segment, keyOffset, keyLength, hash);
    const refusal = this.#guard.admit(operation, old, segment, keyOffset, keyLength, hash);
    if (refusal !== Outcome.OK) {
      this.#storeOperations.countReservedRefused(item);
      this.#links.free(item);
      return refusal;
    }
    if (isExtending(operation) && old !== NO_ITEM) {
      const outcome = this.#storeOperations.extend(operation, old, item, hash);
      if (outcome === CHANGED_MEANWHILE) {
        operation.reserved = item;
        return this.#commit(operation);
      }
      this.#links.free(item);
      return outcome;
    }
    // The write guard decided this only now.
    this.#links.items.setWord(item, WORD.DEADLINE_SEC, operation.deadlineSec);
    this.#links.items.addState(item, operation.marks);
    this.#storeOperations.countStore(operation, item);
    this.#storeOperations.replace(operation, item, hash);
    this.#guard.settle(operation, hash);
    return Outcome.STORED;
  }

  /** Frees a reserved item that will never be complete. */
  abandon(item: ItemRef): void {
    this.#count(item, -1);
    this.#values.forgetPosition();
    this.#links.free(item);
  }

  /** Counts a reserved item, by 1, or one that is no longer reserved, by -1. */
  #count(item: ItemRef, by: 1 | -1): void {
    const { memory } = this.#links;
    memory.control[CONTROL.RESERVED_ITEMS]! += by;
    memory.stats[RESERVED_BYTES]! += by * this.#bytesOf(item);
  }

  /** Memory that a reserved item has: its chunk, and what its chain holds so far. */
  #bytesOf(item: ItemRef): number {
    const { items, slabs } = this.#links;
    const chunkBytes = slabs.chunkBytes(slabs.classOf(item));
    if ((items.state(item) & STATE.CHAINED) === 0) return chunkBytes;
    return chunkBytes + this.#values.chainedLength(item) - items.word(item, WORD.NEWER);
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
    const { input, keyOffset, keyLength } = operation;
    const hash = this.#links.prefetch.hashOf(input, keyOffset, keyLength);
    const lease = leases.find(input, keyOffset, keyLength, hash);
    if (lease !== NO_LEASE && leases.isHeld(lease)) {
      if (!isConditional(operation)) this.#guard.renew(lease);
      else if (leases.hasId(lease, operation.compareLow, operation.compareHigh)) {
        leases.release(lease, hash);
      }
    }
    if (isExtending(operation) && !operation.refusalRemoves) return Outcome.NOT_STORED;
    if (operation.mode === StoreMode.SET || operation.refusalRemoves) {
      const old = this.#lookup.forStore(input, keyOffset, keyLength, hash);
      if (old !== NO_ITEM && !this.#guard.isLockedByOther(old, operation.owner)) {
        this.#lookup.unlink(old, hash);
      }
    }
    return outcome;
  }
}
