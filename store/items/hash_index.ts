import type { ByteRegion } from "../base/bytes.ts";
import { hashKey, type HashSeed } from "../base/hash.ts";
import { type ItemRef, Items, optionalBytes } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";
import type { Slabs } from "../memory/slabs.ts";
import type { Versions } from "../memory/versions.ts";
import type { Key } from "../operation.ts";

const { HEADER_BYTES, KEY_LENGTH_MASK, NO_ITEM, WORD } = itemModule;
const { CONTROL, NO_PAGE, PAGE_OWNER, SEGMENT_MASK, SEGMENT_SHIFT } = memoryModule;

// Hot path: no allocation.

const HEADER_WORDS = HEADER_BYTES >>> 2;

/**
 * Buckets per item. With one, every third key is behind another item of its bucket, and a lookup
 * waits for the memory of both; with two, every fifth (`bench ratio`, row mget50: 4 to 10 % less).
 */
const BUCKETS_PER_ITEM = 2;
/** Buckets split per inserted item: one more than needed on average, so that a table that is behind catches up. */
const SPLITS_MAX = BUCKETS_PER_ITEM + 1;

/**
 * Maps keys to items by linear hashing (Litwin, 1980) over pages of 32-bit slots. The table grows by a few buckets per
 * insertion, so it never stalls a request, and by one page at a time, so it needs no large contiguous memory. A bucket
 * is a list of items linked by WORD.HASH_NEXT.
 */
export class HashIndex {
  readonly #memory: Memory;
  readonly #control: Int32Array;
  readonly #directory: Int32Array;
  readonly #words: Int32Array[];
  readonly #segments: ByteRegion[];
  readonly #items: Items;
  readonly #slabs: Slabs;
  readonly #seed: HashSeed;
  readonly #versions: Versions;
  /** Slots in a page, as a power of two. */
  readonly #slotShift: number;
  readonly #slotMask: number;

  constructor(memory: Memory, items: Items, slabs: Slabs) {
    this.#memory = memory;
    this.#control = memory.control;
    this.#directory = memory.directory;
    this.#words = memory.words;
    this.#segments = memory.segments;
    this.#items = items;
    this.#slabs = slabs;
    this.#seed = memory.options.hashSeed;
    this.#versions = memory.versions;
    this.#slotShift = memory.pageShift - 2;
    this.#slotMask = (1 << this.#slotShift) - 1;
  }

  /** Makes the first buckets. Called once, by the thread that makes the store. */
  format(): void {
    if (!this.#addPage()) throw new RangeError("Cannot make a hash index: no page is free");
    this.#control[CONTROL.HASH_LEVEL] = 1 << this.#slotShift;
    this.#control[CONTROL.HASH_BUCKETS] = 1 << this.#slotShift;
  }

  hash(input: ByteRegion, offset: number, length: number): number {
    return hashKey(input, offset, length, this.#seed);
  }

  hashOf(item: ItemRef): number {
    return this.hash(
      this.#segments[item >>> SEGMENT_SHIFT]!,
      this.#items.keyOffset(item),
      this.#items.keyLength(item),
    );
  }

  /** Returns the item with this key, dead or live, or NO_ITEM. */
  find({ input, keyOffset, keyLength, hash }: Key): ItemRef {
    return this.#find(input, keyOffset, keyLength, hash);
  }

  /** Returns the item with the key of another item, dead or live, or NO_ITEM. */
  findSame(item: ItemRef, hash: number): ItemRef {
    const segment = this.#segments[item >>> SEGMENT_SHIFT]!;
    return this.#find(segment, this.#items.keyOffset(item), this.#items.keyLength(item), hash);
  }

  #find(input: ByteRegion, keyOffset: number, keyLength: number, hash: number): ItemRef {
    let item = this.head(this.bucketOf(hash));
    while (item !== NO_ITEM) {
      // Words and offset by hand: a get spends most of its time in this loop.
      const words = this.#words[item >>> SEGMENT_SHIFT]!;
      const word = (item & SEGMENT_MASK) << 1;
      const state = words[word + WORD.STATE]!;
      if ((state & KEY_LENGTH_MASK) === keyLength) {
        const keyWord = word + HEADER_WORDS + (optionalBytes(state) >>> 2);
        if (equalKey(words, keyWord, input, keyOffset, keyLength)) return item;
      }
      item = words[word + WORD.HASH_NEXT]!;
    }
    return NO_ITEM;
  }

  /** Whether an item is in the index, under this hash. The reference may be any number. */
  has(item: ItemRef, hash: number): boolean {
    let linked = this.head(this.bucketOf(hash));
    while (linked !== NO_ITEM && linked !== item) linked = this.#items.word(linked, WORD.HASH_NEXT);
    return linked !== NO_ITEM;
  }

  insert(item: ItemRef, hash: number): void {
    const count = this.#control[CONTROL.ITEM_COUNT]! + 1;
    this.#control[CONTROL.ITEM_COUNT] = count;
    for (let splits = 0; this.#bucketsMissing() > 0 && splits < SPLITS_MAX; splits++) {
      if (!this.#split()) break;
    }
    const bucket = this.bucketOf(hash);
    const begun = this.#versions.begin(hash);
    this.#items.setWord(item, WORD.HASH_NEXT, this.head(bucket));
    this.#setHead(bucket, item);
    this.#versions.end(begun);
  }

  remove(item: ItemRef, hash: number): void {
    this.replace(item, this.#items.word(item, WORD.HASH_NEXT), hash);
    this.#control[CONTROL.ITEM_COUNT]! -= 1;
  }

  /**
   * Replaces `item` in its bucket by `other`, whose HASH_NEXT must link the rest of the bucket. Does nothing for an
   * item that no bucket leads to: a snapshot made on purpose may have some, see `LinksCheck`.
   */
  replace(item: ItemRef, other: ItemRef, hash: number): void {
    const begun = this.#versions.begin(hash);
    this.#replace(item, other, this.bucketOf(hash));
    this.#versions.end(begun);
  }

  #replace(item: ItemRef, other: ItemRef, bucket: number): void {
    let at = this.head(bucket);
    if (at === item) {
      this.#setHead(bucket, other);
      return;
    }
    while (at !== NO_ITEM) {
      const next = this.#items.word(at, WORD.HASH_NEXT);
      if (next === item) {
        this.#items.setWord(at, WORD.HASH_NEXT, other);
        return;
      }
      at = next;
    }
  }

  /**
   * Whether a page should be freed for more buckets: the items need a quarter more than the table's pages can hold, and
   * the pool is empty. Pages may hold unused room, because the table grows only on insertion.
   */
  needsPage(): boolean {
    const room = this.#control[CONTROL.HASH_PAGES]! << this.#slotShift;
    return (this.#bucketsWanted() - room) * 4 > room && !this.#slabs.canTakePage();
  }

  #bucketsWanted(): number {
    return this.#control[CONTROL.ITEM_COUNT]! * BUCKETS_PER_ITEM;
  }

  /** Returns how many buckets are missing for the number of items; negative if there are more than needed. */
  #bucketsMissing(): number {
    return this.#bucketsWanted() - this.#control[CONTROL.HASH_BUCKETS]!;
  }

  /** Whether the table has too few buckets for its items. */
  get isGrowing(): boolean {
    return this.#bucketsMissing() > 0;
  }

  bucketOf(hash: number): number {
    const level = this.#control[CONTROL.HASH_LEVEL]!;
    const bucket = hash & (2 * level - 1);
    // All ones if the bucket exists already, else 0. A branch would be mispredicted every other time.
    const exists = (bucket - this.#control[CONTROL.HASH_BUCKETS]!) >> 31;
    return bucket & ((level - 1) | exists);
  }

  /** Returns the first item of a bucket, or NO_ITEM. */
  head(bucket: number): ItemRef {
    const page = this.#directory[bucket >>> this.#slotShift]!;
    return this.#words[page >>> SEGMENT_SHIFT]![
      ((page & SEGMENT_MASK) << 1) + (bucket & this.#slotMask)
    ]!;
  }

  #setHead(bucket: number, item: ItemRef): void {
    const page = this.#directory[bucket >>> this.#slotShift]!;
    this.#words[page >>> SEGMENT_SHIFT]![
      ((page & SEGMENT_MASK) << 1) + (bucket & this.#slotMask)
    ] = item;
  }

  /** Adds a bucket and moves its items to it. Returns false if there is no page for it. */
  #split(): boolean {
    const control = this.#control;
    const buckets = control[CONTROL.HASH_BUCKETS]!;
    if (buckets === control[CONTROL.HASH_PAGES]! << this.#slotShift && !this.#addPage()) {
      return false;
    }
    const level = control[CONTROL.HASH_LEVEL]!;
    const from = buckets - level;
    // Both buckets are in the group of `from`.
    const begun = this.#versions.begin(from);
    let staying = NO_ITEM;
    let moving = NO_ITEM;
    for (let item = this.head(from); item !== NO_ITEM;) {
      const next = this.#items.word(item, WORD.HASH_NEXT);
      if ((this.hashOf(item) & (2 * level - 1)) === buckets) {
        this.#items.setWord(item, WORD.HASH_NEXT, moving);
        moving = item;
      } else {
        this.#items.setWord(item, WORD.HASH_NEXT, staying);
        staying = item;
      }
      item = next;
    }
    this.#setHead(from, staying);
    this.#setHead(buckets, moving);
    // In this order: readers take the level first.
    control[CONTROL.HASH_BUCKETS] = buckets + 1;
    if (buckets + 1 === 2 * level) control[CONTROL.HASH_LEVEL] = buckets + 1;
    this.#versions.end(begun);
    return true;
  }

  #addPage(): boolean {
    const page = this.#slabs.takePage(PAGE_OWNER.HASH);
    if (page === NO_PAGE) return false;
    this.adoptPage(page);
    return true;
  }

  /** Appends a page that the index owns, with empty buckets. */
  adoptPage(page: number): void {
    const ref = this.#memory.pageRef(page);
    const start = (ref & SEGMENT_MASK) << 1;
    this.#words[ref >>> SEGMENT_SHIFT]!.fill(0, start, start + (1 << this.#slotShift));
    const pages = this.#control[CONTROL.HASH_PAGES]!;
    this.#directory[pages] = ref;
    this.#control[CONTROL.HASH_PAGES] = pages + 1;
  }
}

/** Whether the key at `keyWord` equals the one in the input. An item's key starts at a word boundary. */
export function equalKey(
  words: Int32Array,
  keyWord: number,
  input: ByteRegion,
  keyOffset: number,
  keyLength: number,
): boolean {
  const { view, bytes } = input;
  const wordCount = keyLength >>> 2;
  for (let index = 0; index < wordCount; index++) {
    if (words[keyWord + index] !== view.getInt32(keyOffset + 4 * index, true)) return false;
  }
  let at = keyOffset + 4 * wordCount;
  const end = keyOffset + keyLength;
  if (at === end) return true;
  for (let rest = words[keyWord + wordCount]!; at < end; at++, rest >>>= 8) {
    if ((rest & 0xff) !== bytes[at]) return false;
  }
  return true;
}
