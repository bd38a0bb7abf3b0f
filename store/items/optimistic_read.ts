import * as limitsModule from "../limits.ts";
import { type ItemRef, optionalBytes } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import * as hotKeysModule from "../memory/hot_keys.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";
import type { Key } from "../operation.ts";
import * as statsModule from "../stats.ts";
import { Found, type FoundWriter, type ReplySpace } from "./found.ts";
import { equalKey } from "./hash_index.ts";
import type { ItemLinks } from "./item_links.ts";

const { UNPINNED_BYTES_MAX } = limitsModule;
const { KeyUse } = hotKeysModule;
const { HEADER_BYTES, KEY_LENGTH_MASK, NO_ITEM, STATE, WORD } = itemModule;
const { CONTROL, SEGMENT_MASK, SEGMENT_SHIFT } = memoryModule;
const { CLASS_STAT, STAT, THREAD_STAT } = statsModule;

// Hot path: no allocation.

/** How a read without the mutex ended. */
export const ReadOutcome = {
  MISS: 0,
  /** `found` describes the item. After `find`, `confirm` must follow. */
  HIT: 1,
  /** The mutex is needed: writers are in the way, or the item is of a kind that is not read without it. */
  BUSY: 2,
} as const;
export type ReadOutcome = typeof ReadOutcome[keyof typeof ReadOutcome];

/** Attempts of `find`, and of `read`, before the caller takes the mutex. */
export const ATTEMPTS_MAX = 4;
/** Items of a bucket that `find` looks at. A torn chain may be a cycle. */
const STEPS_MAX = 64;

const HEADER_WORDS = HEADER_BYTES >>> 2;
/** Items with these bits are read with the mutex: they have a chain of chunks, rare extra words, or no value. */
const MUTEX_STATES = STATE.CHAINED | STATE.LONG_VALUE | STATE.STUB;

/**
 * Reads keys without the mutex, while other threads change the store. A read is valid if the version of its group of
 * buckets (memory/versions.ts) is the same before and after; until that is known every word may be torn: a reference
 * may point anywhere, and a length may be anything. So all are bounded before they are used.
 *
 * `find` checks the version after it has found the item: from then on its place and length are known to be sane. A
 * writer copies what it needs, and `confirm` checks the version once more.
 *
 * The accesses are plain. Atomics.load takes as long as a tenth of a read. docs/internals/optimistic_reads.md says why
 * this is right on x86-64 with V8: what was read is stored (in `found`, in the reply) before the version is loaded
 * again.
 */
export class OptimisticRead {
  readonly found: Found;
  readonly #memory: Memory;
  readonly #links: ItemLinks;
  readonly #control: Int32Array;
  readonly #words: Int32Array[];
  readonly #versions: Int32Array;
  /** The same memory in another array: no compiler takes the second load of a version for the first. */
  readonly #versionsAgain: Int32Array;
  readonly #versionMask: number;
  /** Whether a key that is missing may be a row, which is asked for with the mutex. */
  readonly #hasRows: boolean;
  /** Lower half of the item's own id. */
  #ownIdLow = 0;
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
    this.#hasRows = memory.options.rows !== undefined;
    this.found = new Found(links.items);
  }

  /** Whether reads may go without the mutex now: not while lookups are reported, nor while a flush is scheduled. */
  get isAllowed(): boolean {
    return this.#versions.length > 0 &&
      (this.#control[CONTROL.WATCHED]! | this.#control[CONTROL.FLUSH_AT_SEC]!) === 0;
  }

  /**
   * Answers and counts a read of a key without the mutex.
   *
   * @returns False when the mutex is needed; then nothing has happened.
   */
  read<Request>(
    key: Key,
    reply: ReplySpace,
    request: Request,
    writer: FoundWriter<Request>,
  ): boolean {
    const { found } = this;
    const start = reply.length;
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const outcome = this.find(key);
      if (outcome === ReadOutcome.MISS) {
        if (this.#hasRows || !writer.writeMiss(request)) return false;
        this.countMiss(key);
        return true;
      }
      if (outcome === ReadOutcome.BUSY || found.valueLength > reply.valueRoom) break;
      if (!writer.write(request, found)) break;
      if (this.confirm()) {
        this.noteHit(key, writer.marksHits);
        return true;
      }
      reply.length = start;
    }
    this.#memory.threadStats[THREAD_STAT.read_fallbacks]! += 1;
    return false;
  }

  /** Looks a key up. After HIT, `found` describes its item, until `confirm`. */
  find(key: Key): ReadOutcome {
    const group = key.hash & this.#versionMask;
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const version = this.#versions[group]!;
      if ((version & 1) === 0) {
        const outcome = this.#walk(key);
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
   * Returns whether nothing has changed since `find`: what was copied is the item's. Otherwise the caller drops it and
   * calls `find` again, at most ATTEMPTS_MAX times.
   */
  confirm(): boolean {
    if (this.#versionsAgain[this.#group] === this.#version) return true;
    this.#memory.threadStats[THREAD_STAT.read_retries]! += 1;
    return false;
  }

  /**
   * Counts a confirmed hit as a get.
   *
   * @param marks Whether the hit counts for eviction and for the flags h and l.
   */
  noteHit(key: Key, marks: boolean): void {
    const { keyLength, hash } = key;
    this.#memory.hotKeys.note(key, KeyUse.HIT);
    const { hits, slabs } = this.#links;
    const { found } = this;
    const state = found.state;
    this.#memory.stats[STAT.cmd_get]! += 1;
    // An item without a chain is in the class of its size. Its page's row is written by other threads.
    const bytes = this.#links.itemBytes(keyLength, found.valueLength, state);
    this.#memory.countClass(slabs.classFor(bytes), CLASS_STAT.get_hits);
    if (!marks) return;
    hits.delay(found.item, hash, this.#ownIdLow, state, found.accessedSec);
  }

  countMiss(key: Key): void {
    this.#memory.hotKeys.note(key, KeyUse.MISS);
    this.#memory.stats[STAT.cmd_get]! += 1;
    this.#memory.stats[STAT.get_misses]! += 1;
  }

  #walk({ input, keyOffset, keyLength, hash }: Key): ReadOutcome {
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
    this.found.item = NO_ITEM;
    return ReadOutcome.MISS;
  }

  /** Describes a live item in `found`. */
  #describe(
    item: ItemRef,
    words: Int32Array,
    word: number,
    state: number,
    valueOffset: number,
  ): ReadOutcome {
    if ((state & MUTEX_STATES) !== 0) return ReadOutcome.BUSY;
    this.found.fill(item, words, word, state, valueOffset);
    const { found } = this;
    const valueLength = found.valueLength;
    const deadlineSec = found.deadlineSec;
    if (
      valueLength > UNPINNED_BYTES_MAX || valueOffset + valueLength > words.length << 2 ||
      (deadlineSec !== 0 && deadlineSec <= this.#control[CONTROL.NOW_SEC]!) ||
      this.#isFlushed(found.ownIdLow, found.ownIdHigh)
    ) return ReadOutcome.BUSY;
    this.#ownIdLow = found.ownIdLow;
    if ((state & STATE.EXPLICIT_ID) !== 0) found.describeExplicitId(words, word, state);
    return ReadOutcome.HIT;
  }

  #isFlushed(idLow: number, idHigh: number): boolean {
    const flushHigh = this.#control[CONTROL.FLUSH_HIGH]!;
    const flushLow = this.#control[CONTROL.FLUSH_LOW]!;
    if (idHigh !== flushHigh) return idHigh < flushHigh;
    return idLow >>> 0 < flushLow >>> 0;
  }
}
