import { assert } from "../base/assert.ts";
import { ByteRegion, copyBytes } from "../base/bytes.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Values } from "../items/values.ts";
import { ARRIVING_SHARE_MAX } from "../limits.ts";
import { AgeList } from "../memory/age_list.ts";
import {
  ARRIVING,
  ARRIVING_HEADER as HEADER,
  ARRIVING_ROWS_START,
  arrivingRows,
} from "../memory/arriving_layout.ts";
import { type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { CONTROL, type Memory, SUM } from "../memory/memory.ts";
import { RowPool } from "../memory/row_pool.ts";
import { STAT } from "../stats.ts";

/** The row of a value that arrives in pieces. */
export type ArrivingRow = number;

/** No row. */
export const NO_ROW: ArrivingRow = 0;

/**
 * Arriving values: long values that arrive in pieces, the oldest first. Their items cannot be evicted, so they are
 * bounded: together they take at most ARRIVING_SHARE_MAX of the memory limit. When they would take more, the oldest
 * ones are dropped: slow clients lose their values, and a value that arrives quickly is never the oldest for long. One
 * value alone may exceed the bound.
 *
 * A dropped value has no memory. Its row stays, with the key, until its connection notices: see
 * `ReservedOperations.refuse`.
 */
export class ArrivingValues {
  /** This value is about to get memory: it is not dropped for another one's sake. */
  growing: ArrivingRow = NO_ROW;
  /** The keys of dropped values: see `keyOffset`. */
  readonly keys: ByteRegion;
  readonly #memory: Memory;
  readonly #links: ItemLinks;
  readonly #values: Values;
  readonly #words: Int32Array;
  readonly #pool: RowPool;
  readonly #ages: AgeList;

  constructor(links: ItemLinks, values: Values) {
    const { memory } = links;
    const { arriving } = memory.shared;
    this.#memory = memory;
    this.#links = links;
    this.#values = values;
    this.keys = new ByteRegion(arriving);
    this.#words = new Int32Array(arriving);
    const rows = arrivingRows(memory.options);
    const { NEXT, WORDS } = ARRIVING;
    this.#pool = new RowPool(this.#words, ARRIVING_ROWS_START, WORDS, NEXT, rows);
    this.#ages = new AgeList(this.#words, HEADER.OLDEST, this.#words, {
      start: ARRIVING_ROWS_START,
      recordWords: WORDS,
      newer: NEXT,
      older: ARRIVING.PREVIOUS,
    });
  }

  /** Adds a reserved item as the newest value. */
  add(item: ItemRef): ArrivingRow {
    const row = this.#pool.take();
    assert(row !== NO_ROW, "a connection sends one value at a time");
    const words = this.#words;
    const at = this.#at(row);
    words[at + ARRIVING.ITEM] = item;
    words[at + ARRIVING.RECEIVING] = 0;
    this.#ages.add(row);
    this.#count(item, 1);
    return row;
  }

  /** The reserved item, or NO_ITEM if the value was dropped. */
  itemOf(row: ArrivingRow): ItemRef {
    return this.#words[this.#at(row) + ARRIVING.ITEM]!;
  }

  /** Ends the row of a value that was not dropped. Its item is the caller's. */
  take(row: ArrivingRow): ItemRef {
    const item = this.itemOf(row);
    assert(item !== NO_ITEM, "a value that is taken was not dropped");
    this.#ages.remove(row);
    this.#count(item, -1);
    this.#pool.giveBack(row);
    return item;
  }

  /** Ends the row, and frees the item if the value was not dropped. */
  free(row: ArrivingRow): void {
    const dropped = this.itemOf(row) === NO_ITEM;
    if (dropped) this.#pool.giveBack(row);
    else this.#free(this.take(row));
  }

  /** Memory of a reserved item: its chunk, and what its chain holds so far. */
  bytesOf(item: ItemRef): number {
    const { items, slabs } = this.#links;
    const chunkBytes = slabs.chunkBytes(slabs.classOf(item));
    if ((items.state(item) & STATE.CHAINED) === 0) return chunkBytes;
    return chunkBytes + this.#values.chainedLength(item) - items.word(item, WORD.NEWER);
  }

  /**
   * Drops the oldest values until `bytes` more fit the bound, or only one value is left.
   *
   * @param growing The value that gets these bytes; NO_ROW: one that is not in the list yet.
   * @returns False if `growing` itself was the oldest, and was dropped.
   */
  makeRoom(bytes: number, growing: ArrivingRow): boolean {
    const bytesMax = this.#memory.limitBytes * ARRIVING_SHARE_MAX;
    while (this.#memory.sums[SUM.RESERVED_BYTES]! + bytes > bytesMax) {
      const row = this.#oldestAtRest();
      // The bound may be exceeded by one value alone, and for values that other threads are receiving into.
      if (row === NO_ROW || (row === growing && row === this.#ages.newest)) return true;
      this.#dropCounted(row);
      if (row === growing) return false;
    }
    return true;
  }

  /** Drops the oldest value. Returns false if no value can be dropped, or it is `growing`. */
  dropOldest(): boolean {
    const row = this.#oldestAtRest();
    if (row === NO_ROW || row === this.growing) return false;
    this.#dropCounted(row);
    return true;
  }

  /** The oldest value whose thread does not receive into it at this moment. */
  #oldestAtRest(): ArrivingRow {
    let row = this.#ages.oldest;
    while (row !== NO_ROW && this.#isReceiving(row)) row = this.#ages.newer(row);
    return row;
  }

  #dropCounted(row: ArrivingRow): void {
    this.#memory.stats[STAT.values_dropped]! += 1;
    this.drop(row);
  }

  /** Frees the item of a value that was not dropped, and keeps its key. */
  drop(row: ArrivingRow): void {
    const words = this.#words;
    const at = this.#at(row);
    const { items } = this.#links;
    const item = this.itemOf(row);
    assert(item !== NO_ITEM, "a value is dropped once");
    assert(!this.#isReceiving(row), "no thread receives into a value that is dropped");
    const keyLength = items.keyLength(item);
    words[at + ARRIVING.KEY_LENGTH] = keyLength;
    const from = this.#memory.segmentOf(item);
    copyBytes(this.keys, this.keyOffset(row), from, items.keyOffset(item), keyLength);
    this.#ages.remove(row);
    this.#count(item, -1);
    words[at + ARRIVING.ITEM] = NO_ITEM;
    this.#free(item);
  }

  /** The rows of the values that were not dropped, the oldest first. */
  *[Symbol.iterator](): Generator<ArrivingRow> {
    let previous = NO_ROW;
    for (let row = this.#ages.oldest; row !== NO_ROW; row = this.#ages.newer(row)) {
      assert(this.#ages.older(row) === previous, "links of values agree");
      yield row;
      previous = row;
    }
    assert(this.#ages.newest === previous, "the list of values ends at the newest one");
  }

  /** Returns the byte offset of a dropped value's key in `keys`. */
  keyOffset(row: ArrivingRow): number {
    return (this.#at(row) + ARRIVING.KEY) * 4;
  }

  keyLength(row: ArrivingRow): number {
    return this.#words[this.#at(row) + ARRIVING.KEY_LENGTH]!;
  }

  /**
   * Keeps the value's memory until `endReceiving`, while its thread writes to it without the mutex.
   *
   * @returns False if the value was dropped.
   */
  beginReceiving(row: ArrivingRow): boolean {
    if (this.itemOf(row) === NO_ITEM) return false;
    Atomics.store(this.#words, this.#at(row) + ARRIVING.RECEIVING, 1);
    return true;
  }

  /** Needs no mutex. */
  endReceiving(row: ArrivingRow): void {
    Atomics.store(this.#words, this.#at(row) + ARRIVING.RECEIVING, 0);
  }

  #isReceiving(row: ArrivingRow): boolean {
    return Atomics.load(this.#words, this.#at(row) + ARRIVING.RECEIVING) !== 0;
  }

  #at(row: ArrivingRow): number {
    return ARRIVING_ROWS_START + row * ARRIVING.WORDS;
  }

  #free(item: ItemRef): void {
    this.#values.forgetPosition();
    this.#links.free(item);
  }

  /** Counts a reserved item, by 1, or one that is no longer reserved, by -1. */
  #count(item: ItemRef, by: 1 | -1): void {
    this.#memory.control[CONTROL.RESERVED_ITEMS]! += by;
    this.#memory.sums[SUM.RESERVED_BYTES]! += by * this.bytesOf(item);
    const items = this.#memory.control[CONTROL.RESERVED_ITEMS]!;
    assert(items >= 0, "arriving values are counted");
    assert(
      items > 0 || this.#memory.sums[SUM.RESERVED_BYTES] === 0,
      "without arriving values none has memory",
    );
  }
}
