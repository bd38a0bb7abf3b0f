import type { ByteRegion } from "../base/bytes.ts";
import type { HashIndex } from "./hash_index.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";

const { WORD } = itemModule;
const { SEGMENT_MASK, SEGMENT_SHIFT } = memoryModule;

// Hot path: no allocation.

/** Keys of one group: enough that their cache misses overlap, few enough that their items stay in the L1 cache. */
const PREFETCH_KEYS_MAX = 32;
/** Words of a processor's cache line. */
const LINE_WORDS = 16;

/**
 * Prefetches the buckets and items of the next keys. A bucket and an item lie anywhere in memory, so
 * each lookup misses the cache twice. A group of keys is hashed first, then `load` reads their
 * buckets and items, and only then are they looked up: the processor overlaps the misses of the
 * whole group (`bench:ratio`, rows mget50 and p100).
 */
export class Prefetch {
  count = 0;
  readonly #index: HashIndex;
  readonly #words: Int32Array[];
  readonly #offsets = new Int32Array(PREFETCH_KEYS_MAX);
  readonly #lengths = new Int32Array(PREFETCH_KEYS_MAX);
  readonly #hashes = new Int32Array(PREFETCH_KEYS_MAX);
  readonly #heads = new Int32Array(PREFETCH_KEYS_MAX);
  /** Uses the loaded words, so that the compiler does not remove the loads. */
  #sum = 0;

  constructor(memory: Memory, index: HashIndex) {
    this.#words = memory.words;
    this.#index = index;
  }

  /** Whether there is no room for another key. */
  get full(): boolean {
    return this.count === PREFETCH_KEYS_MAX;
  }

  /** Removes all keys, for the next group. */
  clear(): void {
    this.count = 0;
  }

  /** Adds a key. There must be room. */
  add(input: ByteRegion, keyOffset: number, keyLength: number): void {
    const index = this.count;
    this.#offsets[index] = keyOffset;
    this.#lengths[index] = keyLength;
    this.#hashes[index] = this.#index.hash(input, keyOffset, keyLength);
    this.count = index + 1;
  }

  /** Loads every key's bucket, its first item, and the second's header. */
  load(): void {
    let sum = 0;
    const { count } = this;
    // A loop of its own, so short that the processor has the loads of all buckets under way at once.
    for (let index = 0; index < count; index++) {
      this.#heads[index] = this.#index.head(this.#index.bucketOf(this.#hashes[index]!));
    }
    for (let index = 0; index < count; index++) {
      const item = this.#heads[index]!; // NO_ITEM is a place in memory like any other
      const words = this.#words[item >>> SEGMENT_SHIFT]!;
      const word = ((item & SEGMENT_MASK) << 1) + WORD.STATE;
      sum ^= words[word]!;
      // Behind the header, key and value.
      if (word + 2 * LINE_WORDS < words.length) {
        sum ^= words[word + LINE_WORDS]! ^ words[word + 2 * LINE_WORDS]!;
      }
    }
    // Every fifth key is not its bucket's first.
    for (let index = 0; index < count; index++) {
      const item = this.#heads[index]!;
      const words = this.#words[item >>> SEGMENT_SHIFT]!;
      const next = words[((item & SEGMENT_MASK) << 1) + WORD.HASH_NEXT]!;
      sum ^= this.#words[next >>> SEGMENT_SHIFT]![((next & SEGMENT_MASK) << 1) + WORD.STATE]!;
    }
    this.#sum ^= sum;
  }

  keyOffset(index: number): number {
    return this.#offsets[index]!;
  }

  keyLength(index: number): number {
    return this.#lengths[index]!;
  }

  hash(index: number): number {
    return this.#hashes[index]!;
  }
}
