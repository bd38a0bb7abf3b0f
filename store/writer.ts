import { type Allocator, stateOf } from "./allocator.ts";
import { type Change, StoreMode } from "./change.ts";
import type { Eviction } from "./eviction.ts";
import { takeId } from "./ids.ts";
import type { ItemRef, Items } from "./item.ts";
import * as itemModule from "./item.ts";
import { type Links, memcachedItemBytes } from "./links.ts";
import type { Locks } from "./locks.ts";
import type { Memory } from "./memory.ts";
import * as memoryModule from "./memory.ts";
import { Outcome } from "./outcome.ts";
import * as statsModule from "./stats.ts";
import type { Values } from "./values.ts";

// Copies of imported constants: the engine folds only a module's own constants into its code.
const { FREQUENCY_MASK, NO_ITEM, STATE, WORD } = itemModule;
const { CONTROL } = memoryModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

/**
 * Puts new values where readers find them: in place of the old item, or over its bytes. Whether that is allowed was
 * decided before.
 */
export class Writer {
  readonly memory: Memory;
  readonly items: Items;
  readonly links: Links;
  readonly #control: Int32Array;
  readonly #counters: Float64Array;
  readonly #allocator: Allocator;
  readonly #eviction: Eviction;
  readonly #values: Values;
  readonly #locks: Locks;
  readonly #casEnabled: boolean;

  constructor(
    links: Links,
    allocator: Allocator,
    eviction: Eviction,
    values: Values,
    locks: Locks,
  ) {
    this.memory = links.memory;
    this.items = links.items;
    this.links = links;
    this.#control = links.memory.control;
    this.#counters = links.memory.counters;
    this.#allocator = allocator;
    this.#eviction = eviction;
    this.#values = values;
    this.#locks = locks;
    this.#casEnabled = links.memory.options.casEnabled;
  }

  /** Whether an item of this size may be stored at all (`-I`, counted as memcached counts it). */
  fits(keyLength: number, valueLength: number, clientFlags: number): boolean {
    return memcachedItemBytes(keyLength, valueLength, clientFlags !== 0, this.#casEnabled) <=
      this.memory.options.itemSizeMaxBytes;
  }

  countStore(change: Change, item: ItemRef): void {
    this.#countTried(this.links.slabs.classOf(item));
    change.item = item;
  }

  /** Counts a store that came to nothing because of what is, or is not, there: it has been tried. */
  countRefused(change: Change): void {
    const { slabs } = this.links;
    const bytes = this.links.itemBytes(change.keyLength, change.valueLength, stateOf(change));
    this.#countTried(bytes > slabs.ordinaryBytesMax ? slabs.largeClass : slabs.classFor(bytes));
  }

  /** As `countRefused`, for the item that was reserved. */
  countReservedRefused(item: ItemRef): void {
    this.#countTried(this.links.slabs.classOf(item));
  }

  #countTried(classId: number): void {
    this.#counters[STAT.cmd_set]! += 1;
    this.memory.countClass(classId, CLASS_STAT.cmd_set);
  }

  /** Gives the item a fresh id, or the one that the client chose. */
  giveId(change: Change, item: ItemRef): void {
    takeId(this.memory);
    let low = this.#control[CONTROL.ID_LOW]!;
    let high = this.#control[CONTROL.ID_HIGH]!;
    this.items.setWord(item, WORD.ID_LOW, low);
    this.items.setWord(item, WORD.ID_HIGH, high);
    if (this.items.state(item) & STATE.EXPLICIT_ID) {
      if (change.explicit) {
        low = change.explicitLow;
        high = change.explicitHigh;
      }
      const word = this.items.explicitIdWord(item);
      this.items.setWord(item, word, low);
      this.items.setWord(item, word + 1, high);
    }
    change.idLow = this.#casEnabled ? low : 0;
    change.idHigh = this.#casEnabled ? high : 0;
  }

  /** Writes the new value over the old one if it goes into the same chunk. Keeps the place in the queue. */
  overwrite(change: Change, old: ItemRef): boolean {
    const { slabs } = this.links;
    const state = this.items.state(old);
    const marked = stateOf(change);
    const words = STATE.HAS_FLAGS | STATE.EXPLICIT_ID | STATE.CHAINED;
    if ((state & words) !== (marked & words)) return false;
    const bytes = this.links.itemBytes(change.keyLength, change.valueLength, state);
    if (bytes > slabs.ordinaryBytesMax) return false;
    const classId = slabs.classOf(old);
    if (slabs.classFor(bytes) !== classId) return false;
    this.memory.addRequestedBytes(classId, bytes - this.links.bytesOf(old));
    this.items.setWord(old, WORD.VALUE_LENGTH, change.valueLength);
    const keep = STATE.MAIN | STATE.LINKED | STATE.LOCKED | FREQUENCY_MASK | 0xff;
    this.items.setWord(old, WORD.STATE, (state & keep) | marked | STATE.REWRITTEN);
    if (change.clientFlags !== 0) this.items.setWord(old, 9, change.clientFlags);
    this.#values.write(old, 0, change.input, change.valueOffset, change.valueLength);
    this.links.setDeadline(old, change.deadlineSec);
    this.items.setWord(old, WORD.ACCESSED_SEC, this.#control[CONTROL.NOW_SEC]!);
    this.giveId(change, old);
    this.countStore(change, old);
    this.#counters[STAT.total_items]! += 1;
    return true;
  }

  /** Links a filled item in place of whatever has its key now. */
  replace(change: Change, item: ItemRef, hash: number): void {
    const items = this.items;
    const segment = this.memory.segments[item >>> 27]!;
    const keyLength = items.keyLength(item);
    const old = this.links.index.find(segment, items.keyOffset(item), keyLength, hash);
    if (old !== NO_ITEM) {
      // A new value for a known key keeps what is known of how often the key is read.
      const state = items.state(old);
      if (state & STATE.LOCKED) this.#locks.follow(old, item);
      this.links.unlink(old, hash);
      items.addState(item, state & (STATE.MAIN | FREQUENCY_MASK));
    } else {
      this.#eviction.place(item, hash);
    }
    this.giveId(change, item);
    this.links.link(item, hash);
    change.item = item;
  }

  /** append and prepend with the value still in the input. */
  extend(change: Change, old: ItemRef, hash: number): Outcome {
    if (change.mode === StoreMode.APPEND && this.#appendInPlace(change, old)) {
      return Outcome.STORED;
    }
    const oldLength = this.items.word(old, WORD.VALUE_LENGTH);
    const item = this.allocateJoined(change, old, oldLength + change.valueLength);
    if (item === NO_ITEM) {
      this.countRefused(change);
      return Outcome.NOT_STORED;
    }
    const { input, keyOffset, keyLength } = change;
    const current = this.links.index.find(input, keyOffset, keyLength, hash);
    if (current === NO_ITEM) {
      // Making room evicted the very item that was to be extended.
      this.links.free(item);
      return Outcome.NOT_STORED;
    }
    const append = change.mode === StoreMode.APPEND;
    this.#values.copyInto(item, append ? 0 : change.valueLength, current);
    this.#values.write(
      item,
      append ? oldLength : 0,
      change.input,
      change.valueOffset,
      change.valueLength,
    );
    this.countStore(change, item);
    this.replace(change, item, hash);
    return Outcome.STORED;
  }

  /** append and prepend with the value in a reserved item, which the caller frees. */
  joinInto(change: Change, old: ItemRef, piece: ItemRef, hash: number): Outcome {
    const pieceLength = this.items.word(piece, WORD.VALUE_LENGTH);
    const oldLength = this.items.word(old, WORD.VALUE_LENGTH);
    const keyLength = this.items.keyLength(piece);
    const item = this.allocateJoined(change, old, oldLength + pieceLength, piece);
    if (item === NO_ITEM) {
      this.countReservedRefused(piece);
      return Outcome.NOT_STORED;
    }
    const segment = this.memory.segments[piece >>> 27]!;
    const current = this.links.index.find(segment, this.items.keyOffset(piece), keyLength, hash);
    if (current === NO_ITEM) {
      this.links.free(item);
      return Outcome.NOT_STORED;
    }
    const append = change.mode === StoreMode.APPEND;
    this.#values.copyInto(item, append ? 0 : pieceLength, current);
    this.#values.copyInto(item, append ? oldLength : 0, piece);
    this.#values.forgetWalk();
    this.countStore(change, item);
    this.replace(change, item, hash);
    return Outcome.STORED;
  }

  /** A new item for a longer value, with the old one's flags and deadline. */
  allocateJoined(
    change: Change,
    old: ItemRef,
    valueLength: number,
    keyFrom: ItemRef = NO_ITEM,
  ): ItemRef {
    const flags = this.items.clientFlags(old);
    const keyLength = this.items.keyLength(old);
    if (!this.fits(keyLength, valueLength, flags)) return NO_ITEM;
    change.clientFlags = flags;
    change.deadlineSec = this.items.word(old, WORD.DEADLINE_SEC);
    const { marks } = change;
    change.marks = marks | (this.items.state(old) & STATE.KEY_BINARY);
    const from = keyFrom === NO_ITEM ? change.input : this.memory.segments[keyFrom >>> 27]!;
    const keyOffset = keyFrom === NO_ITEM ? change.keyOffset : this.items.keyOffset(keyFrom);
    const item = this.#allocator.item(from, keyOffset, keyLength, valueLength, change);
    change.marks = marks;
    return item;
  }

  /** Appends behind the value if its chunk has the room. */
  #appendInPlace(change: Change, old: ItemRef): boolean {
    const { slabs } = this.links;
    const state = this.items.state(old);
    const words = STATE.CHAINED | STATE.EXPLICIT_ID;
    if (change.explicit || (state & words) !== 0) return false;
    const oldLength = this.items.word(old, WORD.VALUE_LENGTH);
    const length = oldLength + change.valueLength;
    const bytes = this.links.itemBytes(change.keyLength, length, state);
    const classId = slabs.classOf(old);
    if (bytes > slabs.chunkBytes(classId)) return false;
    if (!this.fits(change.keyLength, length, this.items.clientFlags(old))) return false;
    this.#values.write(old, oldLength, change.input, change.valueOffset, change.valueLength);
    this.memory.addRequestedBytes(classId, change.valueLength);
    this.items.setWord(old, WORD.VALUE_LENGTH, length);
    this.items.dropState(old, STATE.FETCHED | STATE.STALE | STATE.WON | STATE.STUB);
    this.items.addState(old, STATE.REWRITTEN);
    this.giveId(change, old);
    this.countStore(change, old);
    this.#counters[STAT.total_items]! += 1;
    return true;
  }

  /** Puts a copy of the item in its place, with the words that `change` asks for. NO_ITEM when there is no memory. */
  copy(change: Change, old: ItemRef, hash: number): ItemRef {
    const { items } = this;
    change.marks |= items.state(old) & (STATE.STUB | STATE.FETCHED);
    const item = this.allocateJoined(change, old, items.word(old, WORD.VALUE_LENGTH));
    if (item === NO_ITEM) return NO_ITEM;
    const { input, keyOffset, keyLength } = change;
    const current = this.links.index.find(input, keyOffset, keyLength, hash);
    if (current === NO_ITEM) {
      // Making room evicted the very item that was to be copied.
      this.links.free(item);
      return NO_ITEM;
    }
    this.#values.copyInto(item, 0, current);
    this.replace(change, item, hash);
    return item;
  }
}
