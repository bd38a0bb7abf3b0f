import { CONTROL, type Memory, SEGMENT_MASK, SEGMENT_SHIFT } from "./memory.ts";

/**
 * An item in its chunk. A reference counts 8 bytes from the start of the memory; 0 is no item.
 *
 *   word 0  next item of the hash bucket            (free chunk: next free chunk of the page)
 *   word 1  next newer item of its queue            (chunk of a chain: the item it belongs to; locked: row of its lock)
 *   word 2  next older item of its queue            (chunk of a chain: the next chunk)
 *   word 3  deadline, in seconds of the store's clock; 0: never  (chunk of a chain: the chunk before it, or 0)
 *   word 4  id, lower half: handed out at the last change, never chosen by a client
 *                                                   (chunk of a chain: how many of the value's bytes are in it)
 *   word 5  lower half: length of the value in bytes, if that is below 64 KiB; upper half: the next 16 bits of the id
 *   word 6  last access, in seconds of the store's clock
 *   word 7  key length (8 bits) and STATE bits
 *   then, each only if its STATE bit is set: client flags (1 word), explicit id (2), chain (2: first chunk, pin
 *   count), length of the value (1); then the key and, right behind it, the value
 *
 * 32 bytes beside key and value; with its share of the hash index (two slots for each item) 40. Example: key "foo",
 * value "hello", flags 0: words 0..7 in bytes 0..31, "foo" in 32..34, "hello" in 35..39; 40 bytes.
 *
 * The upper 16 bits of an id are those of the last one handed out, for ids are counted: an item would have to outlive
 * 2^48 changes to be given another one's.
 *
 * An item whose head does not fit the largest ordinary class continues in a chain of chunks, each with the same 8
 * words. A chunk of a chain may be a run: several chunks in a row, with one such header.
 *
 * A reference is good until the next call that may store, evict or run maintenance.
 */
export type ItemRef = number & { readonly unit?: "8 bytes from the start of the memory" };

/** No item. */
export const NO_ITEM: ItemRef = 0;

/** Words of an item, as drawn above. */
export const WORD = {
  HASH_NEXT: 0,
  NEWER: 1,
  OLDER: 2,
  DEADLINE_SEC: 3,
  CHAIN_PREVIOUS: 3,
  ID_LOW: 4,
  PIECE_LENGTH: 4,
  ID_MIDDLE_AND_LENGTH: 5,
  ACCESSED_SEC: 6,
  STATE: 7,
  /** The first of the words that an item may have: where STATE.HAS_FLAGS is set. */
  CLIENT_FLAGS: 8,
} as const;

/** The words that every item has. */
export const HEADER_BYTES = 32;

/** Longer values, in bytes, have a word for their length. */
export const SHORT_LENGTH_MAX = 0xffff;

// Parts of WORD.ID_MIDDLE_AND_LENGTH.
const SHORT_LENGTH_MASK = SHORT_LENGTH_MAX;
const ID_MIDDLE_SHIFT = 16;
/** Bits of an id's upper half that an item stores. */
const ID_MIDDLE_MASK = 0xffff;

// Parts of WORD.STATE.
export const KEY_LENGTH_MASK = 0xff;
/** Reads that count for the item's place in its queue: 0..3. */
export const FREQUENCY_MASK = 3 << 8;
/** One such read. */
export const FREQUENCY_ONE = 1 << 8;

/** Bits of WORD.STATE. */
export const STATE = {
  /** In the main queue; else in the small one. */
  MAIN: 1 << 10,
  /** In the hash index and in a queue. */
  LINKED: 1 << 11,
  HAS_FLAGS: 1 << 12,
  /** Continues in a chain of chunks. */
  CHAINED: 1 << 13,
  /** Read at least once since it was stored. */
  FETCHED: 1 << 14,
  /** The key came as base64 (meta flag b). */
  KEY_BINARY: 1 << 15,
  /** Meta: marked stale. */
  STALE: 1 << 16,
  /** Meta: a client was told to refill it. */
  WON: 1 << 17,
  /** Only one connection may change it; in no queue, see locks.ts. */
  LOCKED: 1 << 18,
  /** The value's length has a word of its own. */
  LONG_VALUE: 1 << 19,
  /** Carries a cas id that a client chose (meta flag E). */
  EXPLICIT_ID: 1 << 20,
  /** Being filled by a connection: in no index and no queue. */
  RESERVED: 1 << 21,
  /** A chunk of a chain. */
  CONTINUATION: 1 << 22,
  /** Meta: a placeholder created by `mg N`; its value has not been stored yet. */
  STUB: 1 << 24,
  /** Overwritten in place, and not moved to the new end of its queue yet. */
  REWRITTEN: 1 << 25,
  /** Of a request for a row: in no index and no queue, see rows/detached_items.ts. */
  DETACHED: 1 << 26,
  /** Says that the database has no such row. Its deadline is ABSENT_DEADLINE, so every reader takes it for dead. */
  ABSENT: 1 << 27,
  /** The value of a locked row that is being written, or has been: it cannot be read. Its deadline as ABSENT's. */
  VOID: 1 << 28,
} as const;

/** The deadline of an item that stands for an absent row: long past, and of no concern to the sweep. */
export const ABSENT_DEADLINE_SEC = -1;

/** State bits that add words between header and key. */
export const OPTIONAL_WORDS = STATE.HAS_FLAGS | STATE.CHAINED | STATE.EXPLICIT_ID |
  STATE.LONG_VALUE;

/** Two adjacent bits of STATE stand for 4 and 8 bytes, shifted by so many places, under this mask. */
const FLAGS_AND_CHAIN_SHIFT = 10;
const LENGTH_AND_ID_SHIFT = 17;
const FOUR_AND_EIGHT = 12;

/** Bytes between the header and the key. Without a branch: rows have an explicit id, other items mostly have none. */
export function optionalBytes(state: number): number {
  return (state >>> FLAGS_AND_CHAIN_SHIFT & FOUR_AND_EIGHT) +
    (state >>> LENGTH_AND_ID_SHIFT & FOUR_AND_EIGHT);
}

/**
 * Returns the upper half of an item's own id: the largest that ends in what the item has of it and has been handed out.
 *
 * @param lastHigh Of the last id, CONTROL.ID_HIGH.
 */
export function ownIdHigh(middleAndLength: number, lastHigh: number): number {
  const middle = middleAndLength >>> ID_MIDDLE_SHIFT;
  const high = (lastHigh & ~ID_MIDDLE_MASK) | middle;
  return middle > (lastHigh & ID_MIDDLE_MASK) ? high - (ID_MIDDLE_MASK + 1) : high;
}

/** Access to the words and bytes of items. Small enough to be inlined everywhere. */
export class Items {
  readonly memory: Memory;
  readonly #words: Int32Array[];
  readonly #control: Int32Array;

  constructor(memory: Memory) {
    this.memory = memory;
    this.#words = memory.words;
    this.#control = memory.control;
  }

  word(item: ItemRef, word: number): number {
    return this.#words[item >>> SEGMENT_SHIFT]![((item & SEGMENT_MASK) << 1) + word]!;
  }

  setWord(item: ItemRef, word: number, value: number): void {
    this.#words[item >>> SEGMENT_SHIFT]![((item & SEGMENT_MASK) << 1) + word] = value;
  }

  state(item: ItemRef): number {
    return this.word(item, WORD.STATE);
  }

  addState(item: ItemRef, bits: number): void {
    this.setWord(item, WORD.STATE, this.word(item, WORD.STATE) | bits);
  }

  dropState(item: ItemRef, bits: number): void {
    this.setWord(item, WORD.STATE, this.word(item, WORD.STATE) & ~bits);
  }

  keyLength(item: ItemRef): number {
    return this.word(item, WORD.STATE) & KEY_LENGTH_MASK;
  }

  /** Byte offset of the item in its segment. */
  offset(item: ItemRef): number {
    return (item & SEGMENT_MASK) << 3;
  }

  /** Byte offset of the key in the item's segment. */
  keyOffset(item: ItemRef): number {
    return ((item & SEGMENT_MASK) << 3) + HEADER_BYTES + optionalBytes(this.word(item, WORD.STATE));
  }

  clientFlags(item: ItemRef): number {
    return this.word(item, WORD.STATE) & STATE.HAS_FLAGS ? this.word(item, WORD.CLIENT_FLAGS) : 0;
  }

  /** The value's length in bytes. */
  valueLength(item: ItemRef): number {
    return this.word(item, WORD.STATE) & STATE.LONG_VALUE
      ? this.word(item, this.#lengthWord(item))
      : this.word(item, WORD.ID_MIDDLE_AND_LENGTH) & SHORT_LENGTH_MASK;
  }

  /** The item must have its STATE: without LONG_VALUE the length is SHORT_LENGTH_MAX at most. */
  setValueLength(item: ItemRef, length: number): void {
    if (this.word(item, WORD.STATE) & STATE.LONG_VALUE) {
      this.setWord(item, this.#lengthWord(item), length);
    } else {
      const idMiddle = this.word(item, WORD.ID_MIDDLE_AND_LENGTH) & ~SHORT_LENGTH_MASK;
      this.setWord(item, WORD.ID_MIDDLE_AND_LENGTH, idMiddle | length);
    }
  }

  /** Word with the length of a value for which STATE.LONG_VALUE is set. */
  #lengthWord(item: ItemRef): number {
    return this.chainWord(item) + (this.word(item, WORD.STATE) & STATE.CHAINED ? 2 : 0);
  }

  /** Seconds until a deadline: -1 for never, 0 when it has passed. */
  remainSec(deadlineSec: number): number {
    if (deadlineSec === 0) return -1;
    return Math.max(0, deadlineSec - this.#control[CONTROL.NOW_SEC]!);
  }

  /** Lower half of the id that the item was given at its last change. */
  ownIdLow(item: ItemRef): number {
    return this.word(item, WORD.ID_LOW);
  }

  /** Its upper half. */
  ownIdHigh(item: ItemRef): number {
    return ownIdHigh(this.word(item, WORD.ID_MIDDLE_AND_LENGTH), this.#control[CONTROL.ID_HIGH]!);
  }

  /** Sets the item's own id, given in halves, to one that has been handed out. */
  setOwnId(item: ItemRef, low: number, high: number): void {
    this.setWord(item, WORD.ID_LOW, low);
    const length = this.word(item, WORD.ID_MIDDLE_AND_LENGTH) & SHORT_LENGTH_MASK;
    this.setWord(item, WORD.ID_MIDDLE_AND_LENGTH, (high << ID_MIDDLE_SHIFT) | length);
  }

  /** Lower half of the cas id. */
  idLow(item: ItemRef): number {
    return this.word(item, WORD.STATE) & STATE.EXPLICIT_ID
      ? this.word(item, this.explicitIdWord(item))
      : this.ownIdLow(item);
  }

  idHigh(item: ItemRef): number {
    return this.word(item, WORD.STATE) & STATE.EXPLICIT_ID
      ? this.word(item, this.explicitIdWord(item) + 1)
      : this.ownIdHigh(item);
  }

  /** Word in which the explicit id's lower half stands; the upper half follows. */
  explicitIdWord(item: ItemRef): number {
    return WORD.CLIENT_FLAGS + (this.word(item, WORD.STATE) & STATE.HAS_FLAGS ? 1 : 0);
  }

  /** Word with the first chunk of a chain; the next word counts the pins. */
  chainWord(item: ItemRef): number {
    return this.explicitIdWord(item) + (this.word(item, WORD.STATE) & STATE.EXPLICIT_ID ? 2 : 0);
  }
}
