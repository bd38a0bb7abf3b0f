import type { Operation } from "../operation.ts";
import type { ByteRegion } from "../base/bytes.ts";
import type { HashIndex } from "./hash_index.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";

const { WORD } = itemModule;
const { SEGMENT_MASK, SEGMENT_SHIFT } = memoryModule;

// Hot path: no allocation.

/** Keys of one group: enough for their cache misses to overlap, few enough for their items to stay in the L1 cache. */
const KEYS_MAX = 32;
/** Words of a processor's cache line. */
const LINE_WORDS = 16;

/**
 * A group of keys that the next requests look up. Buckets and items lie anywhere in memory, and each lookup would wait
 * for its own cache misses. A group is first hashed, then `load` reads all buckets and items at once, so that the
 * misses overlap; only then the requests are executed (`bench ratio`, rows mget50, p100 and ms100). Each key is hashed
 * once: `hashOf` returns what `add` computed.
 */
export class Prefetch {
  count = 0;
  readonly #index: HashIndex;
  readonly #words: Int32Array[];
  /** The region that holds the keys; the same for all keys of a group. */
  #input: ByteRegion | null = null;
  readonly #offsets = new Int32Array(KEYS_MAX);
  readonly #lengths = new Int32Array(KEYS_MAX);
  readonly #hashes = new Int32Array(KEYS_MAX);
  readonly #heads = new Int32Array(KEYS_MAX);
  /** The first key that is not in front of the one asked for last. */
  #next = 0;
  /** Uses the loaded words, so that no compiler drops the loads. */
  #sum = 0;

  constructor(memory: Memory, index: HashIndex) {
    this.#words = memory.wordsOfAnyRef;
    this.#index = index;
  }

  /** Whether there is no room for another key. */
  get full(): boolean {
    return this.count === KEYS_MAX;
  }

  /** Starts a new group, whose keys are in `input`. */
  begin(input: ByteRegion): void {
    this.clear();
    this.#input = input;
  }

  /** Removes all keys. Required before the input changes. */
  clear(): void {
    this.count = 0;
    this.#next = 0;
  }

  /** Adds a key, which must be behind the group's other keys. There must be room. */
  add(keyOffset: number, keyLength: number): void {
    const index = this.count;
    this.#offsets[index] = keyOffset;
    this.#lengths[index] = keyLength;
    this.#hashes[index] = this.#index.hash(this.#input!, keyOffset, keyLength);
    this.count = index + 1;
  }

  /** Returns the hash of a key, without computing it again if the key is one of the group. */
  hashOf(input: ByteRegion, keyOffset: number, keyLength: number): number {
    return this.count > 0 && this.lengthAt(keyOffset) === keyLength && input === this.#input
      ? this.#hashes[this.#next]!
      : this.#index.hash(input, keyOffset, keyLength);
  }

  /** Sets the hash of the operation's key. */
  addHash(operation: Operation): void {
    operation.hash = this.hashOf(operation.input, operation.keyOffset, operation.keyLength);
  }

  /** Returns the length of the group's key at `keyOffset`, or 0. The offsets asked for must not decrease. */
  lengthAt(keyOffset: number): number {
    let next = this.#next;
    while (next < this.count && this.#offsets[next]! < keyOffset) next++;
    this.#next = next;
    return next < this.count && this.#offsets[next] === keyOffset ? this.#lengths[next]! : 0;
  }

  /** Loads every key's bucket, its first item, and the second's header. Needs no mutex. */
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
      // Without the mutex, the item may have been freed and its memory filled with anything.
      const nextWords = this.#words[next >>> SEGMENT_SHIFT]!;
      const nextWord = ((next & SEGMENT_MASK) << 1) + WORD.STATE;
      if (nextWord < nextWords.length) sum ^= nextWords[nextWord]!;
    }
    this.#sum ^= sum;
  }

  keyOffset(index: number): number {
    return this.#offsets[index]!;
  }

  keyLength(index: number): number {
    return this.#lengths[index]!;
  }

  hashAt(index: number): number {
    return this.#hashes[index]!;
  }
}
