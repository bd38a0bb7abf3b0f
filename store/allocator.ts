import { type ByteRegion, copyBytes } from "./bytes.ts";
import type { Change } from "./change.ts";
import { type Eviction, EvictionCause } from "./eviction.ts";
import { type ItemRef, type Items, NO_ITEM, STATE, WORD } from "./item.ts";
import type { Links } from "./links.ts";
import { CONTROL, type Memory } from "./memory.ts";
import type { PageMover } from "./page_mover.ts";
import { CLAIMED } from "./slabs.ts";
import { CLASS_STAT } from "./stats.ts";
import type { Values } from "./values.ts";

// Hot path: no allocation.

/** What an item made by this change is marked with, and which optional words it has. */
export function stateOf(change: Change): number {
  return (change.clientFlags !== 0 ? STATE.HAS_FLAGS : 0) |
    (change.explicit ? STATE.EXPLICIT_ID : 0) | change.marks;
}

/** Makes items, and room for them: from free chunks, from free pages, or by eviction. */
export class Allocator {
  readonly memory: Memory;
  readonly items: Items;
  readonly links: Links;
  readonly #control: Int32Array;
  readonly #eviction: Eviction;
  readonly #mover: PageMover;
  readonly #values: Values;

  constructor(links: Links, eviction: Eviction, mover: PageMover, values: Values) {
    this.memory = links.memory;
    this.items = links.items;
    this.links = links;
    this.#control = links.memory.control;
    this.#eviction = eviction;
    this.#mover = mover;
    this.#values = values;
  }

  /**
   * An unlinked item with key, deadline and flags, its value still to be written; NO_ITEM when there is no memory.
   * May evict anything.
   */
  item(
    input: ByteRegion,
    keyOffset: number,
    keyLength: number,
    valueLength: number,
    change: Change,
  ): ItemRef {
    const { slabs } = this.links;
    let state = stateOf(change) | keyLength;
    const bytes = this.links.itemBytes(keyLength, valueLength, state);
    const chained = bytes > slabs.ordinaryBytesMax;
    if (chained) state |= STATE.CHAINED;
    const item = this.#chunk(chained ? slabs.largeClass : slabs.classFor(bytes));
    if (item === NO_ITEM) return NO_ITEM;
    const items = this.items;
    items.setWord(item, WORD.STATE, state | STATE.RESERVED);
    items.setWord(item, WORD.DEADLINE_SEC, change.deadlineSec);
    items.setWord(item, WORD.VALUE_LENGTH, valueLength);
    items.setWord(item, WORD.ACCESSED_SEC, this.#control[CONTROL.NOW_SEC]!);
    if (change.clientFlags !== 0) items.setWord(item, 9, change.clientFlags);
    copyBytes(
      this.memory.segments[item >>> 27]!,
      items.keyOffset(item),
      input,
      keyOffset,
      keyLength,
    );
    if (chained && !this.#chain(item)) return NO_ITEM;
    return item;
  }

  /** Gives a reserved item its chunks. Frees the item and returns false when there is no memory. */
  #chain(item: ItemRef): boolean {
    const items = this.items;
    const chain = items.chainWord(item);
    items.setWord(item, chain, NO_ITEM);
    items.setWord(item, chain + 1, 0);
    let last = NO_ITEM;
    this.#values.forgetWalk(); // of an item that was here before
    for (let left = this.#values.chainLength(item); left > 0; left--) {
      const chunk = this.#chunk(this.links.slabs.largeClass);
      if (chunk === NO_ITEM) {
        this.links.free(item);
        return false;
      }
      items.setWord(chunk, WORD.STATE, STATE.CONTINUATION);
      items.setWord(chunk, WORD.NEWER, item);
      items.setWord(chunk, WORD.OLDER, NO_ITEM);
      if (last === NO_ITEM) items.setWord(item, chain, chunk);
      else items.setWord(last, WORD.OLDER, chunk);
      last = chunk;
    }
    return true;
  }

  #chunk(classId: number): ItemRef {
    const { slabs } = this.links;
    for (;;) {
      const chunk = slabs.allocate(classId);
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

  /** Frees at least one chunk of a class, or a page. May evict anything but locked, pinned and reserved items. */
  #makeRoom(classId: number): boolean {
    this.#control[CONTROL.DISTURBED] = (this.#control[CONTROL.DISTURBED]! + 1) | 0;
    if (!this.memory.options.evictions) return this.#mover.freeSpareOf(classId);
    if (this.#mover.isDue(classId)) {
      if (this.#mover.freeSpareOf(classId) || this.#mover.moveTo(classId)) return true;
    }
    return this.#eviction.evictOne(classId, EvictionCause.ROOM) || this.#mover.freePage(classId);
  }
}
