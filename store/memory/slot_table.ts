import { assert } from "../base/assert.ts";
import { ByteRegion, copyBytes, equalBytes } from "../base/bytes.ts";
import { AgeList } from "./age_list.ts";

// Hot path: no allocation.

/**
 * Records of different lengths in slots of equal size: leases, update tokens. They are in a list by age, too.
 *
 *   header   HEADER words, then the heads of the hash buckets
 *   slots    SLOT_BYTES each; slot 0 is never used, so that 0 can mean none
 *
 * A record is one slot, or a chain of slots when it is longer:
 *
 *   word 0      next record of the hash bucket; in a free slot the next free one
 *   word 1      next newer record; 2  next older record
 *   words 3..7  the record's own
 *   words 8..15 the record's bytes; if they go on, word 15 names the next slot, all of which is
 *               bytes (and again word 15, if they go on)
 *
 * Slots that were never used are never accessed, so they cost no memory.
 */
const SLOT_BYTES = 64;
const SLOT_SHIFT = 4;
/** Offset of a record's bytes. */
const DATA_OFFSET = 32;
const LINK_BYTES = 4;
const LINK_WORD = 15;
const NEXT_WORD = 0;
const NEWER_WORD = 1;
const OLDER_WORD = 2;

/** No record. */
export const NO_SLOT = 0;

const HEADER = {
  FREE: 0, // head of the list of slots given back
  FREE_SLOTS: 1, // free slots: given back and never used
  LAST_USED: 2, // slots behind it were never handed out
  RECORDS: 3,
  OLDEST: 4, // of AgeList
  // The newest one is behind it.
  WORDS: 6,
} as const;

const DataUse = { COMPARE: 0, READ: 1, WRITE: 2 } as const;
type DataUse = typeof DataUse[keyof typeof DataUse];

/** Hash buckets of a table of so many slots: a power of two. */
export function bucketCount(slots: number): number {
  return slots === 0 ? 0 : 2 ** Math.ceil(Math.log2(slots));
}

/** Bytes of a table of so many slots. */
export function slotTableBytes(slots: number): number {
  return slots === 0 ? 0 : slotsOffset(slots) + (slots + 1) * SLOT_BYTES;
}

/** The most slots whose table takes at most `bytes`. */
export function slotsWithin(bytes: number): number {
  // 72: a slot and two buckets, the worst that rounding to a power of two makes.
  return Math.max(0, Math.floor((bytes - 2 * SLOT_BYTES) / 72));
}

/** How many slots a record with so many bytes has. */
export function slotsFor(dataLength: number): number {
  const rest = dataLength - (SLOT_BYTES - DATA_OFFSET);
  return rest <= 0 ? 1 : 1 + Math.ceil(rest / (SLOT_BYTES - LINK_BYTES));
}

/** Returns the byte at which the slots begin: a multiple of their size. */
function slotsOffset(slots: number): number {
  return Math.ceil((HEADER.WORDS + bucketCount(slots)) * 4 / SLOT_BYTES) * SLOT_BYTES;
}

/** One thread's view of a table. Every call wants the store's mutex. */
export class SlotTable {
  /** Words of all slots: those of a record begin at `record << 4`. */
  readonly words: Int32Array;
  readonly #header: Int32Array;
  readonly #buckets: Int32Array;
  readonly #bucketMask: number;
  readonly #bytes: ByteRegion;
  readonly #slots: number;
  readonly #ages: AgeList;

  /** @param slots As many as the buffer was made for by `create`. */
  constructor(buffer: SharedArrayBuffer, slots: number) {
    const buckets = bucketCount(slots);
    this.#slots = slots;
    this.#header = new Int32Array(buffer, 0, slots === 0 ? 0 : HEADER.WORDS);
    this.#buckets = new Int32Array(buffer, slots === 0 ? 0 : HEADER.WORDS * 4, buckets);
    this.#bucketMask = buckets - 1;
    const offset = slots === 0 ? 0 : slotsOffset(slots);
    this.words = new Int32Array(buffer, offset);
    this.#bytes = new ByteRegion(buffer, offset);
    this.#ages = new AgeList(this.#header, HEADER.OLDEST, this.words, {
      start: 0,
      recordWords: SLOT_BYTES / 4,
      newer: NEWER_WORD,
      older: OLDER_WORD,
    });
  }

  /** The memory of an empty table. */
  static create(slots: number): SharedArrayBuffer {
    const buffer = new SharedArrayBuffer(slotTableBytes(slots));
    if (slots > 0) new Int32Array(buffer)[HEADER.FREE_SLOTS] = slots;
    return buffer;
  }

  /** How many records there are. */
  get count(): number {
    return this.#slots === 0 ? 0 : this.#header[HEADER.RECORDS]!;
  }

  /** Slots that no record has. */
  get freeSlots(): number {
    return this.#slots === 0 ? 0 : this.#header[HEADER.FREE_SLOTS]!;
  }

  /** The record that was inserted first, or NO_SLOT. */
  get oldest(): number {
    return this.#slots === 0 ? NO_SLOT : this.#ages.oldest;
  }

  /** The record that was inserted last, or NO_SLOT. */
  get newest(): number {
    return this.#slots === 0 ? NO_SLOT : this.#ages.newest;
  }

  /** The record that was inserted next, or NO_SLOT. */
  newer(record: number): number {
    return this.#ages.newer(record);
  }

  /** The record that was inserted before, or NO_SLOT. */
  older(record: number): number {
    return this.#ages.older(record);
  }

  get slots(): number {
    return this.#slots;
  }

  get bucketCount(): number {
    return this.#buckets.length;
  }

  bucketOf(hash: number): number {
    return hash & this.#bucketMask;
  }

  /**
   * The first record of a bucket. A listing that releases the mutex continues at a bucket: records come and go, buckets
   * stay.
   */
  head(bucket: number): number {
    return this.#buckets[bucket]!;
  }

  /** The next record of the same bucket. */
  next(record: number): number {
    return this.words[record << SLOT_SHIFT]!;
  }

  word(record: number, word: number): number {
    return this.words[(record << SLOT_SHIFT) + word]!;
  }

  setWord(record: number, word: number, value: number): void {
    this.words[(record << SLOT_SHIFT) + word] = value;
  }

  /**
   * Takes the slots of a record that is in no bucket yet. Its words are garbage.
   *
   * @returns NO_SLOT when too few slots are free.
   */
  allocate(dataLength: number): number {
    const count = slotsFor(dataLength);
    if (this.freeSlots < count) return NO_SLOT;
    const first = this.#takeSlot();
    for (let slot = first, left = count - 1; left > 0; left--) {
      const next = this.#takeSlot();
      this.setWord(slot, LINK_WORD, next);
      slot = next;
    }
    return first;
  }

  /** Puts a record into the bucket of its key, as the newest. */
  insert(record: number, hash: number): void {
    const bucket = hash & this.#bucketMask;
    this.setWord(record, NEXT_WORD, this.#buckets[bucket]!);
    this.#buckets[bucket] = record;
    this.#header[HEADER.RECORDS]! += 1;
    this.#ages.add(record);
  }

  /** Takes a record out of its bucket and gives its slots back. */
  remove(record: number, hash: number, dataLength: number): void {
    this.#unlink(record, hash & this.#bucketMask);
    this.#ages.remove(record);
    this.#header[HEADER.RECORDS]! -= 1;
    for (let slot = record, left = slotsFor(dataLength); left > 0; left--) {
      const next = this.word(slot, LINK_WORD);
      this.setWord(slot, NEXT_WORD, this.#header[HEADER.FREE]!);
      this.#header[HEADER.FREE] = slot;
      this.#header[HEADER.FREE_SLOTS]! += 1;
      slot = next;
    }
    assert(this.freeSlots <= this.#slots, "a slot is given back once");
    assert(
      (this.count === 0) === (this.freeSlots === this.#slots),
      "a table without records has all its slots",
    );
    assert((this.count === 0) === (this.oldest === NO_SLOT), "the ages list every record");
  }

  /** Whether `length` of a record's bytes, from `start` on, equal those of a region. */
  equals(
    record: number,
    dataLength: number,
    start: number,
    length: number,
    other: ByteRegion,
    otherOffset: number,
  ): boolean {
    if (dataLength <= SLOT_BYTES - DATA_OFFSET) {
      const mine = record * SLOT_BYTES + DATA_OFFSET + start;
      return equalBytes(other, otherOffset, this.#bytes, mine, length);
    }
    return this.#walk(record, dataLength, start, length, other, otherOffset, DataUse.COMPARE);
  }

  /** Copies `length` of a record's bytes, from `start` on, into a region. */
  read(
    record: number,
    dataLength: number,
    start: number,
    length: number,
    to: ByteRegion,
    toOffset: number,
  ): void {
    this.#walk(record, dataLength, start, length, to, toOffset, DataUse.READ);
  }

  /** Copies `length` bytes of a region into a record's, from `start` on. */
  write(
    record: number,
    dataLength: number,
    start: number,
    length: number,
    from: ByteRegion,
    fromOffset: number,
  ): void {
    this.#walk(record, dataLength, start, length, from, fromOffset, DataUse.WRITE);
  }

  /** @returns Whether all of it was equal; true unless it was compared. */
  #walk(
    record: number,
    dataLength: number,
    start: number,
    length: number,
    other: ByteRegion,
    otherOffset: number,
    use: DataUse,
  ): boolean {
    const end = start + length;
    let slot = record;
    let offset = slot * SLOT_BYTES + DATA_OFFSET;
    let room = SLOT_BYTES - DATA_OFFSET;
    for (let at = 0; at < end;) {
      const left = dataLength - at;
      const piece = left <= room ? left : room - LINK_BYTES;
      const from = Math.max(start, at);
      const count = Math.min(end, at + piece) - from;
      if (count > 0) {
        const mine = offset + from - at;
        const theirs = otherOffset + from - start;
        if (use === DataUse.WRITE) copyBytes(this.#bytes, mine, other, theirs, count);
        else if (use === DataUse.READ) copyBytes(other, theirs, this.#bytes, mine, count);
        else if (!equalBytes(other, theirs, this.#bytes, mine, count)) return false;
      }
      at += piece;
      if (left <= room) break;
      slot = this.word(slot, LINK_WORD);
      offset = slot * SLOT_BYTES;
      room = SLOT_BYTES;
    }
    return true;
  }

  #takeSlot(): number {
    const header = this.#header;
    header[HEADER.FREE_SLOTS]! -= 1;
    const free = header[HEADER.FREE]!;
    if (free !== NO_SLOT) {
      header[HEADER.FREE] = this.word(free, NEXT_WORD);
      return free;
    }
    header[HEADER.LAST_USED]! += 1;
    assert(header[HEADER.LAST_USED]! <= this.#slots, "free slots are counted");
    return header[HEADER.LAST_USED]!;
  }

  #unlink(record: number, bucket: number): void {
    const next = this.next(record);
    let at = this.#buckets[bucket]!;
    if (at === record) {
      this.#buckets[bucket] = next;
      return;
    }
    while (at !== NO_SLOT && this.next(at) !== record) at = this.next(at);
    assert(at !== NO_SLOT, "a record is in the bucket of its hash");
    this.setWord(at, NEXT_WORD, next);
  }
}
