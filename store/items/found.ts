import { type ByteRegion, copyBytes } from "../base/bytes.ts";
import { type ItemRef, type Items, optionalBytes, ownIdHigh } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";
import type { Operation } from "../operation.ts";

const { HEADER_BYTES, KEY_LENGTH_MASK, NO_ITEM, SHORT_LENGTH_MAX, STATE, WORD } = itemModule;
const { CONTROL, SEGMENT_MASK, SEGMENT_SHIFT } = memoryModule;

// Hot path: no allocation.

/**
 * The fields of an item or of a lease that replies need. One a thread, filled by every read: by `OptimisticRead.find`
 * without the mutex, by `describe` with it. Good until the next read.
 */
export class Found {
  /** NO_ITEM: a lease. */
  item: ItemRef = NO_ITEM;
  /** The item's WORD.STATE. */
  state = 0;
  /** Of a lease: whether it is an update token, or quarantine. */
  isUncacheable = false;
  /** Byte offset of the value in the item's segment. */
  valueOffset = 0;
  valueLength = 0;
  /** The client's 32 flag bits, as int32. */
  flagBits = 0;
  /** The item's id, whatever `-C` says. */
  ownIdLow = 0;
  ownIdHigh = 0;
  /** When the item dies, in seconds of the store's clock; 0: never. */
  deadlineSec = 0;
  /** When it was last read or stored, on the same clock. */
  accessedSec = 0;
  readonly #items: Items;
  readonly #memory: Memory;
  readonly #control: Int32Array;
  readonly #casEnabled: boolean;

  constructor(items: Items) {
    const { memory } = items;
    this.#items = items;
    this.#memory = memory;
    this.#control = memory.control;
    this.#casEnabled = memory.options.casEnabled;
  }

  /** Describes a live item. Wants the mutex held. */
  describe(item: ItemRef): void {
    const words = this.#memory.words[item >>> SEGMENT_SHIFT]!;
    const word = (item & SEGMENT_MASK) << 1;
    const state = words[word + WORD.STATE]!;
    const keyOffset = (word << 2) + HEADER_BYTES + optionalBytes(state);
    this.fill(item, words, word, state, keyOffset + (state & KEY_LENGTH_MASK));
    if ((state & STATE.EXPLICIT_ID) !== 0) this.describeExplicitId(words, word, state);
    if ((state & STATE.LONG_VALUE) !== 0) this.valueLength = this.#items.valueLength(item);
  }

  /** Describes an id that a client chose, or the version of a row. It stands in front of the key. */
  describeExplicitId(words: Int32Array, word: number, state: number): void {
    const at = word + WORD.CLIENT_FLAGS + ((state & STATE.HAS_FLAGS) === 0 ? 0 : 1);
    this.ownIdLow = words[at]!;
    this.ownIdHigh = words[at + 1]!;
  }

  /**
   * Describes the item whose header is at `word` of `words`. Reads every word of it once, because without the mutex any
   * may be torn. The caller knows of explicit ids and of lengths with a word of their own.
   */
  fill(
    item: ItemRef,
    words: Int32Array,
    word: number,
    state: number,
    valueOffset: number,
  ): void {
    const idLow = words[word + WORD.ID_LOW]!;
    const middleAndLength = words[word + WORD.ID_MIDDLE_AND_LENGTH]!;
    this.item = item;
    this.state = state;
    this.valueOffset = valueOffset;
    this.valueLength = middleAndLength & SHORT_LENGTH_MAX;
    this.flagBits = (state & STATE.HAS_FLAGS) === 0 ? 0 : words[word + WORD.CLIENT_FLAGS]!;
    this.ownIdLow = idLow;
    // Behind the load of the item's part: the last id is no older.
    this.ownIdHigh = ownIdHigh(middleAndLength, this.#control[CONTROL.ID_HIGH]!);
    this.deadlineSec = words[word + WORD.DEADLINE_SEC]!;
    this.accessedSec = words[word + WORD.ACCESSED_SEC]!;
  }

  /** Describes the lease in `operation` as an empty item that a client was told to fill. */
  describeLease(operation: Operation, wins: boolean): void {
    const nowSec = this.#control[CONTROL.NOW_SEC]!;
    this.item = NO_ITEM;
    this.isUncacheable = operation.isUncacheable;
    this.state = wins ? operation.marks : operation.marks | STATE.WON;
    this.valueLength = 0;
    this.flagBits = 0;
    this.ownIdLow = operation.idLow;
    this.ownIdHigh = operation.idHigh;
    this.deadlineSec = nowSec + operation.remainSec;
    this.accessedSec = nowSec;
  }

  /** The client's flags as an unsigned 32-bit number. */
  get clientFlags(): number {
    return this.flagBits >>> 0;
  }

  /** Lower half of the cas id, 0 under `-C`; of a lease's id. */
  get idLow(): number {
    return this.#casEnabled || this.item === NO_ITEM ? this.ownIdLow : 0;
  }

  get idHigh(): number {
    return this.#casEnabled || this.item === NO_ITEM ? this.ownIdHigh : 0;
  }

  /** Seconds until the item dies; -1: never. */
  get remainSec(): number {
    return this.#items.remainSec(this.deadlineSec);
  }

  /** Seconds since it was last read or stored. */
  get idleSec(): number {
    return this.#control[CONTROL.NOW_SEC]! - this.accessedSec;
  }

  get wasFetched(): boolean {
    return this.#has(STATE.FETCHED);
  }

  get isStale(): boolean {
    return this.#has(STATE.STALE);
  }

  /** Whether a client was told to fill it. */
  get isWon(): boolean {
    return this.#has(STATE.WON);
  }

  get isKeyBinary(): boolean {
    return this.#has(STATE.KEY_BINARY);
  }

  /** Whether `copyValue` can copy the value. */
  get isInOneChunk(): boolean {
    return !this.#has(STATE.CHAINED);
  }

  /** Copies the whole value. @returns The offset behind it. */
  copyValue(to: ByteRegion, toOffset: number): number {
    const segment = this.#memory.segments[this.item >>> SEGMENT_SHIFT]!;
    copyBytes(to, toOffset, segment, this.valueOffset, this.valueLength);
    return toOffset + this.valueLength;
  }

  #has(bit: number): boolean {
    return (this.state & bit) !== 0;
  }
}

/**
 * Writes a protocol's replies to reads without the mutex.
 *
 * @template Request What it knows of the request, and of the thread.
 */
export interface FoundWriter<Request> {
  /** Whether a hit counts for eviction and for the flags h and l. */
  readonly marksHits: boolean;
  /**
   * Writes the line, the value and what follows. There is room for them. They are dropped if the item has changed.
   *
   * @returns False if the reply needs the mutex.
   */
  write(request: Request, found: Found): boolean;
  /** Writes that there is no item. Returns false if that needs the mutex. */
  writeMiss(request: Request): boolean;
}

/** The reply buffer, as reads without the mutex see it. */
export interface ReplySpace {
  /** Offset behind the last reply. */
  length: number;
  /** Bytes that a value may have. */
  readonly valueRoom: number;
}
