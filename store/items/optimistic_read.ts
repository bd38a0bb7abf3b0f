import { type ByteRegion, copyBytes } from "../base/bytes.ts";
import * as limitsModule from "../limits.ts";
import { type ItemRef, optionalBytes } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";
import * as statsModule from "../stats.ts";
import { equalKey } from "./hash_index.ts";
import type { ItemLinks } from "./item_links.ts";

const { UNPINNED_BYTES_MAX } = limitsModule;
const { HEADER_BYTES, KEY_LENGTH_MASK, NO_ITEM, SHORT_LENGTH_MAX, STATE, WORD } = itemModule;
const { CONTROL, SEGMENT_MASK, SEGMENT_SHIFT } = memoryModule;
const { CLASS_STAT, STAT, THREAD_STAT } = statsModule;

// Hot path: no allocation.

/** How a read without the mutex ended. */
export const ReadOutcome = {
  MISS: 0,
  /** `OptimisticRead` describes the item, and `confirm` must follow. */
  HIT: 1,
  /** The mutex is needed: writers are in the way, or the item is of a kind that is not read without it. */
  BUSY: 2,
} as const;
export type ReadOutcome = typeof ReadOutcome[keyof typeof ReadOutcome];

/** Attempts of `find`, and of its caller, before the caller takes the mutex. */
export const ATTEMPTS_MAX = 4;
/** Items of a bucket that `find` looks at. A torn chain may be a cycle. */
const STEPS_MAX = 64;

const HEADER_WORDS = HEADER_BYTES >>> 2;
const ID_MIDDLE_BITS = 16;
const ID_MIDDLE_MASK = (1 << ID_MIDDLE_BITS) - 1;
/** Items with these bits are read with the mutex: they have a chain of chunks, rare extra words, or no value. */
const MUTEX_STATES = STATE.CHAINED | STATE.EXPLICIT_ID | STATE.LONG_VALUE | STATE.STUB;

/** Words of `#found`. */
const FOUND = {
  ITEM: 0,
  STATE: 1,
  SEGMENT: 2,
  VALUE_OFFSET: 3,
  VALUE_LENGTH: 4,
  CLIENT_FLAGS: 5,
  ID_LOW: 6,
  ID_HIGH: 7,
  DEADLINE_SEC: 8,
  ACCESSED_SEC: 9,
  WORDS: 10,
} as const;

/**
 * Reads keys without the mutex, while other threads change the store. A read is valid if the version of its group of
 * buckets (memory/versions.ts) is the same before and after; until that is known every word may be torn: a reference
 * may point anywhere, and a length may be anything. So all are bounded before they are used.
 *
 * `find` checks the version after it has found the item: from then on its place and length are known to be sane. The
 * caller copies what it needs, and `confirm` checks the version once more.
 *
 * The accesses are plain. Atomics.load takes as long as a tenth of a read. docs/internals/optimistic_reads.md says why
 * this is right on x86-64 with V8: what was read is stored (in `#found`, in the reply) before the version is loaded
 * again.
 */
export class OptimisticRead {
  readonly #memory: Memory;
  readonly #links: ItemLinks;
  readonly #control: Int32Array;
  readonly #words: Int32Array[];
  readonly #versions: Int32Array;
  /** The same memory in another array: no compiler takes the second load of a version for the first. */
  readonly #versionsAgain: Int32Array;
  readonly #versionMask: number;
  readonly #casEnabled: boolean;
  readonly #found = new Int32Array(FOUND.WORDS);
  #group = 0;
  #version = 0;

  constructor(links: ItemLinks) {
    const { memory } = links;
    this.#memory = memory;
    this.#links = links;
    this.#control = memory.control;
    this.#words = memory.wordsOfAnyRef;
    this.#versions = memory.versions.words;
    this.#versionsAgain = new Int32Array(memory.shared.versions);
    this.#versionMask = memory.versions.mask;
    this.#casEnabled = memory.options.casEnabled;
  }

  /** Whether reads may go without the mutex now: not while lookups are reported, nor while a flush is scheduled. */
  get isAllowed(): boolean {
    return this.#versions.length > 0 &&
      (this.#control[CONTROL.WATCHED]! | this.#control[CONTROL.FLUSH_AT_SEC]!) === 0;
  }

  /** Looks a key up. After HIT the properties below describe its item, until `confirm`. */
  find(input: ByteRegion, keyOffset: number, keyLength: number, hash: number): ReadOutcome {
    const group = hash & this.#versionMask;
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const version = this.#versions[group]!;
      if ((version & 1) === 0) {
        const outcome = this.#walk(input, keyOffset, keyLength, hash);
        if (this.#versionsAgain[group] === version) {
          this.#group = group;
          this.#version = version;
          return outcome;
        }
      }
      this.#memory.threadStats[THREAD_STAT.read_retries]! += 1;
      Atomics.pause?.();
    }
    return ReadOutcome.BUSY;
  }

  /**
   * Whether nothing has changed since `find`: what was copied is the item's. Otherwise the caller drops it and calls
   * `find` again, at most ATTEMPTS_MAX times.
   */
  confirm(): boolean {
    if (this.#versionsAgain[this.#group] === this.#version) return true;
    this.#memory.threadStats[THREAD_STAT.read_retries]! += 1;
    return false;
  }

  /**
   * Counts a confirmed hit as a get.
   *
   * @param mark Whether the hit counts for eviction and for the flags h and l.
   */
  noteHit(keyLength: number, hash: number, mark: boolean): void {
    const { hits, slabs } = this.#links;
    const found = this.#found;
    const state = found[FOUND.STATE]!;
    this.#memory.stats[STAT.cmd_get]! += 1;
    // An item without a chain is in the class of its size. Its page's row is written by other threads.
    const bytes = this.#links.itemBytes(keyLength, found[FOUND.VALUE_LENGTH]!, state);
    this.#memory.countClass(slabs.classFor(bytes), CLASS_STAT.get_hits);
    if (!mark) return;
    const idLow = found[FOUND.ID_LOW]!;
    hits.delay(found[FOUND.ITEM]!, hash, idLow, state, found[FOUND.ACCESSED_SEC]!);
  }

  countMiss(): void {
    this.#memory.stats[STAT.cmd_get]! += 1;
    this.#memory.stats[STAT.get_misses]! += 1;
  }

  /** Counts a key that is read with the mutex after all. */
  countFallback(): void {
    this.#memory.threadStats[THREAD_STAT.read_fallbacks]! += 1;
  }

  get isStale(): boolean {
    return (this.#found[FOUND.STATE]! & STATE.STALE) !== 0;
  }

  get isWon(): boolean {
    return (this.#found[FOUND.STATE]! & STATE.WON) !== 0;
  }

  get isKeyBinary(): boolean {
    return (this.#found[FOUND.STATE]! & STATE.KEY_BINARY) !== 0;
  }

  get valueLength(): number {
    return this.#found[FOUND.VALUE_LENGTH]!;
  }

  /** The client's flags as an unsigned 32-bit number. */
  get clientFlags(): number {
    return this.#found[FOUND.CLIENT_FLAGS]! >>> 0;
  }

  /** Lower half of the cas id; 0 under `-C`. */
  get idLow(): number {
    return this.#casEnabled ? this.#found[FOUND.ID_LOW]! : 0;
  }

  get idHigh(): number {
    return this.#casEnabled ? this.#found[FOUND.ID_HIGH]! : 0;
  }

  /** Seconds until the item expires; -1: never. */
  get remainSec(): number {
    return this.#links.items.remainSec(this.#found[FOUND.DEADLINE_SEC]!);
  }

  /** Copies the whole value. */
  copyValue(to: ByteRegion, toOffset: number): void {
    const found = this.#found;
    const segment = this.#memory.segments[found[FOUND.SEGMENT]!]!;
    copyBytes(to, toOffset, segment, found[FOUND.VALUE_OFFSET]!, found[FOUND.VALUE_LENGTH]!);
  }

  #walk(input: ByteRegion, keyOffset: number, keyLength: number, hash: number): ReadOutcome {
    const { index } = this.#links;
    let item = index.head(index.bucketOf(hash));
    for (let step = 0; item !== NO_ITEM; step++) {
      const words = this.#words[item >>> SEGMENT_SHIFT]!;
      const word = (item & SEGMENT_MASK) << 1;
      if (word + HEADER_WORDS > words.length || step === STEPS_MAX) return ReadOutcome.BUSY;
      const state = words[word + WORD.STATE]!;
      if ((state & KEY_LENGTH_MASK) === keyLength) {
        const keyWord = word + HEADER_WORDS + (optionalBytes(state) >>> 2);
        if (keyWord + ((keyLength + 3) >>> 2) > words.length) return ReadOutcome.BUSY;
        if (equalKey(words, keyWord, input, keyOffset, keyLength)) {
          return this.#describe(item, words, word, state, (keyWord << 2) + keyLength);
        }
      }
      item = words[word + WORD.HASH_NEXT]!;
    }
    this.#found[FOUND.ITEM] = NO_ITEM;
    return ReadOutcome.MISS;
  }

  /** Stores what is needed of a live item in `#found`. Reads every word of it once. */
  #describe(
    item: ItemRef,
    words: Int32Array,
    word: number,
    state: number,
    valueOffset: number,
  ): ReadOutcome {
    if ((state & MUTEX_STATES) !== 0) return ReadOutcome.BUSY;
    const found = this.#found;
    const idLow = words[word + WORD.ID_LOW]!;
    const middleAndLength = words[word + WORD.ID_MIDDLE_AND_LENGTH]!;
    const deadlineSec = words[word + WORD.DEADLINE_SEC]!;
    const valueLength = middleAndLength & SHORT_LENGTH_MAX;
    // As in `Items.ownIdHigh`, behind the load of the item's part: the last id is no older.
    const middle = middleAndLength >>> ID_MIDDLE_BITS;
    const last = this.#control[CONTROL.ID_HIGH]!;
    const high = (last & ~ID_MIDDLE_MASK) | middle;
    const idHigh = middle > (last & ID_MIDDLE_MASK) ? high - (ID_MIDDLE_MASK + 1) : high;
    if (
      valueLength > UNPINNED_BYTES_MAX || valueOffset + valueLength > words.length << 2 ||
      (deadlineSec !== 0 && deadlineSec <= this.#control[CONTROL.NOW_SEC]!) ||
      this.#isFlushed(idLow, idHigh)
    ) return ReadOutcome.BUSY;
    found[FOUND.ITEM] = item;
    found[FOUND.STATE] = state;
    found[FOUND.SEGMENT] = item >>> SEGMENT_SHIFT;
    found[FOUND.VALUE_OFFSET] = valueOffset;
    found[FOUND.VALUE_LENGTH] = valueLength;
    found[FOUND.CLIENT_FLAGS] = (state & STATE.HAS_FLAGS) === 0
      ? 0
      : words[word + WORD.CLIENT_FLAGS]!;
    found[FOUND.ID_LOW] = idLow;
    found[FOUND.ID_HIGH] = idHigh;
    found[FOUND.DEADLINE_SEC] = deadlineSec;
    found[FOUND.ACCESSED_SEC] = words[word + WORD.ACCESSED_SEC]!;
    return ReadOutcome.HIT;
  }

  #isFlushed(idLow: number, idHigh: number): boolean {
    const flushHigh = this.#control[CONTROL.FLUSH_HIGH]!;
    const flushLow = this.#control[CONTROL.FLUSH_LOW]!;
    if (idHigh !== flushHigh) return idHigh < flushHigh;
    return idLow >>> 0 < flushLow >>> 0;
  }
}
