import type { StoreParts } from "./parts.ts";
import { type Allocator, stateOf } from "../space/allocator.ts";
import { type Operation, StoreMode } from "../operation.ts";
import type { Eviction } from "../space/eviction.ts";
import { takeId } from "../memory/ids.ts";
import type { ItemRef, Items } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import * as limitsModule from "../limits.ts";
import { type ItemLinks, memcachedItemBytes } from "../items/item_links.ts";
import type { Locks } from "../claims/locks.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";
import { Outcome } from "../outcome.ts";
import * as statsModule from "../stats.ts";
import type { Values } from "../items/values.ts";

const { FREQUENCY_MASK, KEY_LENGTH_MASK, NO_ITEM, OPTIONAL_WORDS, STATE, WORD } = itemModule;
const { COPY_BYTES_MAX, UNPINNED_BYTES_MAX } = limitsModule;
const { CONTROL } = memoryModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

/** Returned by `extend` and `copy`: other threads changed the item while the mutex was yielded. */
export const START_OVER = -1;
/** A thread that discarded this many copies in a row makes the next one without yielding the mutex. */
const DISCARDED_COPIES_MAX = 3;

/**
 * Stores new values, in a new item or over the bytes of the old one. The write guard has admitted the operation before.
 */
export class StoreOperations {
  readonly memory: Memory;
  readonly items: Items;
  readonly links: ItemLinks;
  readonly #control: Int32Array;
  readonly #stats: Float64Array;
  readonly #allocator: Allocator;
  readonly #eviction: Eviction;
  readonly #values: Values;
  readonly #locks: Locks;
  readonly #casEnabled: boolean;
  readonly #yieldMutex: () => void;
  // Set by `#prepareYields`: whether the item is pinned, and its id.
  #isPinned = false;
  #copiedIdLow = 0;
  #copiedIdHigh = 0;
  #discardedCopies = 0;
  // The arguments that `allocateJoined` last replaced by the old item's.
  #requestedFlags = 0;
  #requestedDeadlineSec = 0;

  constructor(parts: StoreParts) {
    const { links, allocator, eviction, values, locks, yieldMutex } = parts;
    this.memory = links.memory;
    this.items = links.items;
    this.links = links;
    this.#control = links.memory.control;
    this.#stats = links.memory.stats;
    this.#allocator = allocator;
    this.#eviction = eviction;
    this.#values = values;
    this.#locks = locks;
    this.#yieldMutex = yieldMutex;
    this.#casEnabled = links.memory.options.casEnabled;
  }

  /** Whether an item of this size may be stored at all (`-I`, counted as memcached counts it). */
  fits(keyLength: number, valueLength: number, clientFlags: number): boolean {
    return memcachedItemBytes(keyLength, valueLength, clientFlags !== 0, this.#casEnabled) <=
      this.memory.options.itemSizeMaxBytes;
  }

  countStore(operation: Operation, item: ItemRef): void {
    this.#countTried(this.links.slabs.classOf(item));
    operation.item = item;
  }

  /** Counts a store that was refused before it had an item, as memcached does. */
  countRefused(operation: Operation): void {
    const { slabs } = this.links;
    const bytes = this.links.itemBytes(
      operation.keyLength,
      operation.valueLength,
      stateOf(operation),
    );
    this.#countTried(slabs.classFor(bytes));
  }

  /** As `countRefused`, for the item that was reserved. */
  countReservedRefused(item: ItemRef): void {
    this.#countTried(this.links.slabs.classOf(item));
  }

  #countTried(classId: number): void {
    this.#stats[STAT.cmd_set]! += 1;
    this.memory.countClass(classId, CLASS_STAT.cmd_set);
  }

  /** Gives the item a fresh id, or the one that the client chose. */
  assignId(operation: Operation, item: ItemRef): void {
    takeId(this.memory);
    let low = this.#control[CONTROL.ID_LOW]!;
    let high = this.#control[CONTROL.ID_HIGH]!;
    this.items.setOwnId(item, low, high);
    if (this.items.state(item) & STATE.EXPLICIT_ID) {
      if (operation.explicit) {
        low = operation.explicitLow;
        high = operation.explicitHigh;
      }
      const word = this.items.explicitIdWord(item);
      this.items.setWord(item, word, low);
      this.items.setWord(item, word + 1, high);
    }
    operation.idLow = this.#casEnabled ? low : 0;
    operation.idHigh = this.#casEnabled ? high : 0;
  }

  /** Writes the new value over the old one if it goes into the same chunk. Keeps the place in the queue. */
  overwrite(operation: Operation, old: ItemRef): boolean {
    const { slabs } = this.links;
    const state = this.items.state(old);
    const marked = stateOf(operation);
    if ((state & OPTIONAL_WORDS) !== (marked & OPTIONAL_WORDS)) return false;
    const bytes = this.links.itemBytes(operation.keyLength, operation.valueLength, state);
    if (bytes > slabs.ordinaryBytesMax || bytes > UNPINNED_BYTES_MAX) return false;
    const classId = slabs.classOf(old);
    if (slabs.classFor(bytes) !== classId) return false;
    this.memory.addRequestedBytes(classId, bytes - this.links.bytesOf(old));
    const begun = this.memory.versions.begin(operation.hash);
    this.items.setValueLength(old, operation.valueLength);
    const keep = STATE.MAIN | STATE.LINKED | STATE.LOCKED | FREQUENCY_MASK | KEY_LENGTH_MASK;
    this.items.setWord(old, WORD.STATE, (state & keep) | marked | STATE.REWRITTEN);
    if (operation.clientFlags !== 0) {
      this.items.setWord(old, WORD.CLIENT_FLAGS, operation.clientFlags);
    }
    this.#values.write(old, 0, operation.input, operation.valueOffset, operation.valueLength);
    this.links.setDeadline(old, operation.deadlineSec);
    this.items.setWord(old, WORD.ACCESSED_SEC, this.#control[CONTROL.NOW_SEC]!);
    this.assignId(operation, old);
    this.memory.versions.end(begun);
    this.countStore(operation, old);
    this.#stats[STAT.total_items]! += 1;
    return true;
  }

  /** Links a filled item in place of whatever has its key now. */
  replace(operation: Operation, item: ItemRef): void {
    const { items } = this;
    const { hash } = operation;
    const old = this.links.index.findSame(item, hash);
    // One change: no reader may see that the key has neither item.
    const begun = this.memory.versions.begin(hash);
    if (old !== NO_ITEM) {
      // The new value inherits the old one's queue and frequency.
      const state = items.state(old);
      if (state & STATE.LOCKED) this.#locks.transfer(old, item);
      this.links.unlink(old, hash);
      items.addState(item, state & (STATE.MAIN | FREQUENCY_MASK));
    } else {
      this.#eviction.place(item, hash);
    }
    this.assignId(operation, item);
    this.links.link(item, hash);
    this.memory.versions.end(begun);
    operation.item = item;
  }

  /**
   * append and prepend with the value still in the input, or in a reserved item, which the caller frees.
   *
   * @param piece The reserved item, or NO_ITEM.
   * @returns An outcome, or START_OVER: nothing has happened, and the caller starts over.
   */
  extend(operation: Operation, old: ItemRef, piece: ItemRef): Outcome | typeof START_OVER {
    const { items } = this;
    const append = operation.mode === StoreMode.APPEND;
    const inInput = piece === NO_ITEM;
    if (inInput && append && this.#appendInPlace(operation, old)) return Outcome.STORED;
    const oldLength = items.valueLength(old);
    const pieceLength = inInput ? operation.valueLength : items.valueLength(piece);
    const item = this.allocateJoined(operation, old, oldLength + pieceLength);
    if (item === NO_ITEM) {
      if (inInput) this.countRefused(operation);
      else this.countReservedRefused(piece);
      return Outcome.NOT_STORED;
    }
    // The allocation may have moved or evicted the old item.
    const current = this.#current(operation);
    if (current === NO_ITEM) {
      this.links.free(item);
      return Outcome.NOT_STORED;
    }
    const yieldMutex = this.#prepareYields(current, oldLength + pieceLength);
    this.#values.copyInto(item, append ? 0 : pieceLength, current, yieldMutex);
    yieldMutex?.();
    const at = append ? oldLength : 0;
    if (inInput) this.#values.write(item, at, operation.input, operation.valueOffset, pieceLength);
    else this.#values.copyInto(item, at, piece, yieldMutex);
    this.#values.forgetPosition();
    if (yieldMutex !== null && !this.#isUnchanged(operation, current, item)) {
      return START_OVER;
    }
    this.countStore(operation, item);
    this.replace(operation, item);
    return Outcome.STORED;
  }

  /** Returns the linked item with the operation's key, or NO_ITEM. */
  #current(operation: Operation): ItemRef {
    return this.links.index.find(operation);
  }

  /**
   * Prepares a copy of `bytes` bytes of an item's value. Pins the item if one hold of the mutex would be too long.
   *
   * @returns A function that yields the mutex between pieces, to be followed by `#isUnchanged`; null if one step
   *   copies all.
   */
  #prepareYields(item: ItemRef, bytes: number): (() => void) | null {
    if (bytes <= COPY_BYTES_MAX) return null;
    if (this.#discardedCopies >= DISCARDED_COPIES_MAX) {
      this.#discardedCopies = 0;
      return null;
    }
    this.#isPinned = this.#values.pin(item);
    this.#copiedIdLow = this.items.ownIdLow(item);
    this.#copiedIdHigh = this.items.ownIdHigh(item);
    return this.#yieldMutex;
  }

  /**
   * Unpins an item that was copied while the mutex was yielded, and tells whether the copy may replace it: the key
   * still has the item, unchanged, and no other connection has locked it.
   *
   * @param copy If it is out of date, frees it and restores the arguments of `operation`.
   */
  #isUnchanged(operation: Operation, item: ItemRef, copy: ItemRef): boolean {
    const { items } = this;
    // Another item may have the same reference, but not the same id.
    const same = this.#current(operation) === item && !this.links.isDead(item) &&
      items.ownIdLow(item) === this.#copiedIdLow &&
      items.ownIdHigh(item) === this.#copiedIdHigh &&
      ((items.state(item) & STATE.LOCKED) === 0 || this.#locks.isLockedBy(item, operation.owner));
    if (same) {
      this.#discardedCopies = 0;
      // A touch changes the deadline but not the id.
      items.setWord(copy, WORD.DEADLINE_SEC, items.word(item, WORD.DEADLINE_SEC));
    } else {
      this.#discardedCopies++;
      this.links.free(copy);
      operation.clientFlags = this.#requestedFlags;
      operation.deadlineSec = this.#requestedDeadlineSec;
    }
    if (this.#isPinned) this.#values.unpin(item);
    return same;
  }

  /** A new item for a longer value, with the old one's flags, deadline and form of the key. */
  allocateJoined(operation: Operation, old: ItemRef, valueLength: number): ItemRef {
    const flags = this.items.clientFlags(old);
    if (!this.fits(operation.keyLength, valueLength, flags)) return NO_ITEM;
    this.#requestedFlags = operation.clientFlags;
    this.#requestedDeadlineSec = operation.deadlineSec;
    operation.clientFlags = flags;
    operation.deadlineSec = this.items.word(old, WORD.DEADLINE_SEC);
    const { marks } = operation;
    operation.marks = (marks & ~STATE.KEY_BINARY) | (this.items.state(old) & STATE.KEY_BINARY);
    const item = this.#allocator.allocate(operation, valueLength);
    operation.marks = marks;
    return item;
  }

  /** Appends behind the value if its chunk has the room. */
  #appendInPlace(operation: Operation, old: ItemRef): boolean {
    const { slabs } = this.links;
    const state = this.items.state(old);
    const words = STATE.CHAINED | STATE.EXPLICIT_ID;
    if (operation.explicit || (state & words) !== 0) return false;
    const oldLength = this.items.valueLength(old);
    const length = oldLength + operation.valueLength;
    const bytes = this.links.itemBytes(operation.keyLength, length, state);
    const classId = slabs.classOf(old);
    if (bytes > slabs.chunkBytes(classId) || bytes > UNPINNED_BYTES_MAX) return false;
    if (!this.fits(operation.keyLength, length, this.items.clientFlags(old))) return false;
    const begun = this.memory.versions.begin(operation.hash);
    this.#values.write(
      old,
      oldLength,
      operation.input,
      operation.valueOffset,
      operation.valueLength,
    );
    this.memory.addRequestedBytes(classId, operation.valueLength);
    this.items.setValueLength(old, length);
    this.items.dropState(old, STATE.FETCHED | STATE.STALE | STATE.WON | STATE.STUB);
    this.items.addState(old, STATE.REWRITTEN);
    this.assignId(operation, old);
    this.memory.versions.end(begun);
    this.countStore(operation, old);
    this.#stats[STAT.total_items]! += 1;
    return true;
  }

  /**
   * Replaces the item by a copy with the optional words that `operation` asks for. Returns NO_ITEM without memory, and
   * START_OVER as `extend`.
   */
  copy(operation: Operation, old: ItemRef): ItemRef {
    const { items } = this;
    operation.marks |= items.state(old) & (STATE.STUB | STATE.FETCHED);
    const item = this.allocateJoined(operation, old, items.valueLength(old));
    if (item === NO_ITEM) return NO_ITEM;
    const current = this.#current(operation);
    if (current === NO_ITEM) {
      // The allocation evicted the item itself.
      this.links.free(item);
      return NO_ITEM;
    }
    const yieldMutex = this.#prepareYields(current, items.valueLength(item));
    this.#values.copyInto(item, 0, current, yieldMutex);
    if (yieldMutex !== null && !this.#isUnchanged(operation, current, item)) {
      return START_OVER;
    }
    this.replace(operation, item);
    return item;
  }
}
