import type { ArrivingValues } from "./arriving_values.ts";
import * as arrivingModule from "./arriving_values.ts";
import { copyBytes } from "../base/bytes.ts";
import type { Operation } from "../operation.ts";
import { type Eviction, EvictionCause } from "./eviction.ts";
import type { ItemRef, Items } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import * as limitsModule from "../limits.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";
import type { PageMover } from "./page_mover.ts";
import * as slabsModule from "../memory/slabs.ts";
import * as statsModule from "../stats.ts";
import type { Values } from "../items/values.ts";

const { HEADER_BYTES, NO_ITEM, optionalBytes, SHORT_LENGTH_MAX, STATE, WORD } = itemModule;
const { UNPINNED_BYTES_MAX } = limitsModule;
const { NO_ROW } = arrivingModule;
const { CLASS, CONTROL, PAGE_OWNER, SEGMENT_SHIFT } = memoryModule;
const { CLAIMED } = slabsModule;
const { CLASS_STAT } = statsModule;

// Hot path: no allocation.

/** A class that evicts looks for spare chunks of another class once in this many evictions. */
const EVICTIONS_PER_SEARCH = 8;

/** Returns the STATE bits of an item made by this operation: its marks and optional words. */
export function stateOf(operation: Operation): number {
  return (operation.clientFlags !== 0 ? STATE.HAS_FLAGS : 0) |
    (operation.explicit ? STATE.EXPLICIT_ID : 0) | operation.marks;
}

/** Allocates items: from free chunks, from free pages, or by eviction. */
export class Allocator {
  readonly memory: Memory;
  readonly items: Items;
  readonly links: ItemLinks;
  readonly #control: Int32Array;
  readonly #eviction: Eviction;
  readonly #mover: PageMover;
  readonly #values: Values;
  readonly #arriving: ArrivingValues;

  constructor(
    links: ItemLinks,
    eviction: Eviction,
    mover: PageMover,
    values: Values,
    arriving: ArrivingValues,
  ) {
    this.memory = links.memory;
    this.items = links.items;
    this.links = links;
    this.#control = links.memory.control;
    this.#eviction = eviction;
    this.#mover = mover;
    this.#values = values;
    this.#arriving = arriving;
  }

  /** As `allocate`, with the length of the value in `operation`. */
  allocateItem(operation: Operation): ItemRef {
    return this.allocate(operation, operation.valueLength);
  }

  /** As `allocateItem`, for a value that arrives in pieces: allocates memory for its beginning only. */
  reserveItem(operation: Operation): ItemRef {
    const { valueLength } = operation;
    this.#arriving.makeRoom(Math.min(valueLength, this.links.slabs.ordinaryBytesMax), NO_ROW);
    return this.allocate(operation, valueLength, 0);
  }

  /**
   * Allocates an unlinked item and writes its key, deadline and flags, but not its value. May evict
   * any item that is not locked, pinned or reserved.
   *
   * @param lengthNow Bytes of the value to allocate now; `grow` allocates the rest.
   * @returns NO_ITEM if there is no memory.
   */
  allocate(operation: Operation, valueLength: number, lengthNow = valueLength): ItemRef {
    const { keyLength } = operation;
    let state = stateOf(operation) | keyLength;
    if (valueLength > SHORT_LENGTH_MAX) state |= STATE.LONG_VALUE;
    const bytes = this.links.itemBytes(keyLength, valueLength, state);
    const classId = this.links.slabs.classFor(bytes);
    const chained = this.#needsChain(state, bytes, classId, keyLength + valueLength);
    if (chained) state |= STATE.CHAINED;
    const item = this.#chunk(classId);
    if (item === NO_ITEM) return NO_ITEM;
    const items = this.items;
    items.setWord(item, WORD.STATE, state | STATE.RESERVED);
    items.setWord(item, WORD.DEADLINE_SEC, operation.deadlineSec);
    items.setValueLength(item, valueLength);
    items.setWord(item, WORD.ACCESSED_SEC, this.#control[CONTROL.NOW_SEC]!);
    if (operation.clientFlags !== 0) items.setWord(item, WORD.CLIENT_FLAGS, operation.clientFlags);
    copyBytes(
      this.memory.segments[item >>> SEGMENT_SHIFT]!,
      items.keyOffset(item),
      operation.input,
      operation.keyOffset,
      keyLength,
    );
    return !chained || this.#beginChain(item, lengthNow) ? item : NO_ITEM;
  }

  /**
   * Whether a new item gets a chain: if it is larger than a chunk, and, because only items with a chain can be pinned,
   * if its value is long and the chain's words fit its chunk too.
   *
   * @param bytes The item's size without a chain.
   * @param dataBytes Key and value.
   */
  #needsChain(state: number, bytes: number, classId: number, dataBytes: number): boolean {
    const { slabs } = this.links;
    if (bytes > slabs.ordinaryBytesMax) return true;
    return bytes > UNPINNED_BYTES_MAX &&
      HEADER_BYTES + optionalBytes(state | STATE.CHAINED) + dataBytes <= slabs.chunkBytes(classId);
  }

  /** Gives a new item a chain for `lengthNow` bytes of its value, or frees the item and returns false. */
  #beginChain(item: ItemRef, lengthNow: number): boolean {
    const items = this.items;
    const chain = items.chainWord(item);
    items.setWord(item, chain, NO_ITEM);
    items.setWord(item, chain + 1, 0);
    items.setWord(item, WORD.NEWER, this.#values.chainedLength(item));
    items.setWord(item, WORD.OLDER, NO_ITEM);
    // The walk may remember an item that was in this chunk before.
    this.#values.forgetPosition();
    if (this.grow(item, lengthNow)) return true;
    this.links.free(item);
    return false;
  }

  /**
   * Allocates memory for the first `length` bytes of a reserved item's value. Until the item is
   * complete, its WORD.NEWER counts the bytes without memory, and WORD.OLDER is the last chunk. May
   * evict.
   *
   * @returns False if there is no memory.
   */
  grow(item: ItemRef, length: number): boolean {
    const items = this.items;
    if ((items.state(item) & STATE.CHAINED) === 0) return true;
    const { slabs } = this.links;
    const missingAfter = this.#values.chainedLength(item, length);
    let last = items.word(item, WORD.OLDER);
    for (let missing = items.word(item, WORD.NEWER); missing > missingAfter;) {
      const chunk = this.#chunk(slabs.largeClass, slabs.chunkCountFor(missing - missingAfter));
      if (chunk === NO_ITEM) return false;
      if (last === NO_ITEM) items.setWord(item, items.chainWord(item), chunk);
      missing -= this.links.lengthenChain(item, last, chunk, missing);
      last = chunk;
      items.setWord(item, WORD.OLDER, last);
      items.setWord(item, WORD.NEWER, missing);
    }
    return true;
  }

  /** Returns how many of the first `length` bytes of a reserved item's value have no memory yet. */
  missingBytes(item: ItemRef, length: number): number {
    if ((this.items.state(item) & STATE.CHAINED) === 0) return 0;
    const missing = this.items.word(item, WORD.NEWER) - this.#values.chainedLength(item, length);
    return Math.max(0, missing);
  }

  /** Whether a reserved item has memory for its whole value. */
  isComplete(item: ItemRef): boolean {
    return (this.items.state(item) & STATE.CHAINED) === 0 ||
      this.items.word(item, WORD.NEWER) === 0;
  }

  #chunk(classId: number, chunksMax = 1): ItemRef {
    const { slabs } = this.links;
    for (;;) {
      const chunk = slabs.allocate(classId, chunksMax);
      if (chunk !== NO_ITEM) {
        this.items.setWord(chunk, WORD.STATE, CLAIMED);
        return chunk;
      }
      if (!this.#makeRoom(classId)) {
        this.memory.countClass(classId, CLASS_STAT.outofmemory);
        return NO_ITEM;
      }
    }
  }

  /**
   * Frees a chunk of a class, gets it a page, or drops an arriving value. Returns false if nothing of that is
   * possible.
   */
  #makeRoom(classId: number): boolean {
    this.#control[CONTROL.DISTURBED] = (this.#control[CONTROL.DISTURBED]! + 1) | 0;
    const mover = this.#mover;
    const { slabs, index } = this.links;
    if (!this.memory.options.evictions) return mover.takeSpare(classId);
    if (!mover.isMoving) {
      const evictions = this.memory.classes[classId * CLASS.WORDS + CLASS.EVICTIONS]!;
      if (index.needsPage()) mover.begin(PAGE_OWNER.HASH);
      else if (evictions % EVICTIONS_PER_SEARCH === 0) mover.beginSpare(classId);
    }
    mover.noteEviction(classId);
    return slabs.hasRoom(classId) || this.#eviction.evictOne(classId, EvictionCause.ROOM) ||
      mover.takeNow(classId) || this.#arriving.dropOldest();
  }
}
