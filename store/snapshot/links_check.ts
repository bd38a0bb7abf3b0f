import type { ByteRegion } from "../base/bytes.ts";
import { hashKey } from "../base/hash.ts";
import {
  HEADER_BYTES,
  type ItemRef,
  KEY_LENGTH_MASK,
  NO_ITEM,
  optionalBytes,
  STATE,
  WORD,
} from "../memory/item.ts";
import { CLASS, type Memory, SEGMENT_MASK, SEGMENT_SHIFT } from "../memory/memory.ts";
import type { SnapshotHeader, SnapshotTables } from "./snapshot_header.ts";
import type { TablesCheck } from "./tables_check.ts";

/** Buckets that are checked for items left behind by their split: the newest ones. */
const SPLIT_BUCKETS = 4096;
/** Most items of one bucket that are checked. */
const BUCKET_ITEMS_MAX = 1000;
const WRONG_BUCKET = "an item is in a wrong bucket of its hash index";
const NO_SUCH_ITEM = "its hash index refers to no item";

/**
 * Checks what tables say of the pages that a store is to take as they are: the ends of the queues, and the hash index.
 * The pages lie in the store's memory, the tables do not yet. Every item of a queue or bucket is not visited.
 */
export class LinksCheck {
  readonly #memory: Memory;
  readonly #header: SnapshotHeader;
  readonly #tables: SnapshotTables;
  readonly #tablesCheck: TablesCheck;
  readonly #slotShift: number;
  readonly #seed: Int32Array;

  /** @param tablesCheck One that has found no fault. */
  constructor(
    memory: Memory,
    header: SnapshotHeader,
    tables: SnapshotTables,
    tablesCheck: TablesCheck,
  ) {
    this.#memory = memory;
    this.#tablesCheck = tablesCheck;
    this.#header = header;
    this.#tables = tables;
    this.#slotShift = memory.pageShift - 2;
    this.#seed = Int32Array.from(header.hashSeed);
  }

  /** Returns what is wrong, or null. */
  fault(): string | null {
    return this.#queuesFault() ?? this.#slotsFault() ?? this.#splitsFault();
  }

  #word(item: ItemRef, word: number): number {
    return this.#memory.words[item >>> SEGMENT_SHIFT]![((item & SEGMENT_MASK) << 1) + word]!;
  }

  #queuesFault(): string | null {
    const { classes } = this.#tables;
    for (let classId = 1; classId <= this.#header.layout.chunkBytes.length; classId++) {
      for (const main of [false, true]) {
        const row = classId * CLASS.WORDS;
        const at = row + (main ? CLASS.MAIN_NEWEST : CLASS.SMALL_NEWEST);
        const [newest, oldest] = [classes[at]!, classes[at + 1]!];
        if (newest === NO_ITEM) continue;
        const isRight = this.#isQueued(newest, main) && this.#isQueued(oldest, main) &&
          this.#word(newest, WORD.NEWER) === NO_ITEM && this.#word(oldest, WORD.OLDER) === NO_ITEM;
        if (!isRight) return `class ${classId} has a queue with wrong ends`;
      }
    }
    return null;
  }

  #isQueued(item: ItemRef, main: boolean): boolean {
    const state = this.#word(item, WORD.STATE);
    return (state & STATE.LINKED) !== 0 && ((state & STATE.MAIN) !== 0) === main;
  }

  /** Each page of the index has the buckets of its place, and the last one has no more than there are. */
  #slotsFault(): string | null {
    const { HASH_BUCKETS } = this.#header.control;
    const slots = 1 << this.#slotShift;
    for (const [index, ref] of this.#tables.directory.entries()) {
      const words = this.#memory.words[ref >>> SEGMENT_SHIFT]!;
      const start = (ref & SEGMENT_MASK) << 1;
      const isWhole = (index + 1) * slots <= HASH_BUCKETS;
      let isPlaced = false;
      // One bucket shows the place of a page: a large index must not be walked without a pause.
      for (let slot = 0; slot < slots && !(isPlaced && isWhole); slot++) {
        const item = words[start + slot]!;
        if (item === NO_ITEM) continue;
        const bucket = (index << this.#slotShift) + slot;
        if (bucket >= HASH_BUCKETS) return "its hash index has more buckets than it says";
        const fault = isPlaced ? null : this.#itemFault(item, bucket);
        if (fault !== null) return fault;
        isPlaced = true;
      }
    }
    return null;
  }

  /** The newest buckets have been split off: none of their items has stayed behind. */
  #splitsFault(): string | null {
    const { HASH_BUCKETS, HASH_LEVEL } = this.#header.control;
    // A table of a whole level has been made by splits of the level before.
    const level = HASH_BUCKETS === HASH_LEVEL ? HASH_LEVEL >>> 1 : HASH_LEVEL;
    const end = Math.max(level, HASH_BUCKETS - SPLIT_BUCKETS, 1 << this.#slotShift);
    for (let bucket = HASH_BUCKETS - 1; bucket >= end; bucket--) {
      const from = bucket - level;
      let item = this.#head(from);
      for (let items = 0; item !== NO_ITEM && items < BUCKET_ITEMS_MAX; items++) {
        const fault = this.#itemFault(item, from);
        if (fault !== null) return fault;
        item = this.#word(item, WORD.HASH_NEXT);
      }
    }
    return null;
  }

  /** Returns what is wrong with an item of a bucket, or null. */
  #itemFault(item: ItemRef, bucket: number): string | null {
    if (!this.#tablesCheck.isCarved(item)) return NO_SUCH_ITEM;
    return this.#bucketOf(this.#hashOf(item)) === bucket ? null : WRONG_BUCKET;
  }

  #head(bucket: number): ItemRef {
    const ref = this.#tables.directory[bucket >>> this.#slotShift]!;
    return this.#word(ref, bucket & ((1 << this.#slotShift) - 1));
  }

  #bucketOf(hash: number): number {
    const { HASH_BUCKETS, HASH_LEVEL } = this.#header.control;
    const bucket = hash & (2 * HASH_LEVEL - 1);
    return bucket < HASH_BUCKETS ? bucket : bucket & (HASH_LEVEL - 1);
  }

  #hashOf(item: ItemRef): number {
    const state = this.#word(item, WORD.STATE);
    const segment: ByteRegion = this.#memory.segmentOf(item);
    const offset = ((item & SEGMENT_MASK) << 3) + HEADER_BYTES + optionalBytes(state);
    return hashKey(segment, offset, state & KEY_LENGTH_MASK, this.#seed);
  }
}
