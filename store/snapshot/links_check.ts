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

/** Two random words. */
export type LinksSecret = readonly [number, number];

/** Kinds of links: a bucket's, then a queue's for each class. */
const BUCKET = 0;
/** Odd, so that all kinds differ; far apart. */
const KIND_STEP = 0x9e3779b1;

/**
 * Checks the links of a snapshot's items: the buckets of the hash index, and the queues of the classes.
 *
 * Items lie in memory in another order than in queues and buckets, so a walk of those would wait for memory at each
 * item. Instead, this check adds up hashes of links with a secret seed, in the order of memory: each item has to be
 * linked once, under its bucket, and the next item of a queue has to know the one before. Sums of wrong links agree by
 * a chance of 1 in 2^32.
 *
 * Sums do not show a ring of items that no bucket or end of a queue leads to. Only a file that was made on purpose has
 * one. Its items are not found, or not evicted; nothing else happens.
 */
export class LinksCheck {
  readonly #memory: Memory;
  readonly #header: SnapshotHeader;
  readonly #tables: SnapshotTables;
  readonly #slotShift: number;
  readonly #seed: Int32Array;
  readonly #secret1: number;
  readonly #secret2: number;
  /** Links to items minus items, of the hash index. */
  #bucketSum = 0;
  /** Links to older items minus links to newer ones. */
  #queueSum = 0;

  /** @param secret Two random words, which nobody who made the file can know. */
  constructor(
    memory: Memory,
    header: SnapshotHeader,
    tables: SnapshotTables,
    [secret1, secret2]: LinksSecret,
  ) {
    this.#memory = memory;
    this.#header = header;
    this.#tables = tables;
    this.#slotShift = memory.pageShift - 2;
    this.#seed = Int32Array.from(header.hashSeed);
    this.#secret1 = secret1;
    this.#secret2 = secret2;
  }

  /** Adds an item. @param words Has the item from word `at` on. */
  addItem(item: ItemRef, classId: number, words: Int32Array, at: number): void {
    const state = words[at + WORD.STATE]!;
    const queue = queueOf(classId, (state & STATE.MAIN) !== 0);
    const older = this.#link(queue, item, words[at + WORD.OLDER]!);
    const newer = this.#link(queue, words[at + WORD.NEWER]!, item);
    this.#queueSum = (this.#queueSum + older - newer) | 0;
    const keyOffset = (at << 2) + HEADER_BYTES + optionalBytes(state);
    const keyLength = state & KEY_LENGTH_MASK;
    const bucket = this.#bucketOf(
      hashKey(this.#memory.segmentOf(item), keyOffset, keyLength, this.#seed),
    );
    this.#bucketSum = (this.#bucketSum - this.#link(BUCKET, bucket, item)) | 0;
    const next = words[at + WORD.HASH_NEXT]!;
    if (next === NO_ITEM) return;
    this.#bucketSum = (this.#bucketSum + this.#link(BUCKET, bucket, next)) | 0;
  }

  /** Adds a page of the hash index, or returns what is wrong with it. @param index Its place in the directory. */
  slotsFault(index: number): string | null {
    const ref = this.#tables.directory[index]!;
    const words = this.#memory.words[ref >>> SEGMENT_SHIFT]!;
    const start = (ref & SEGMENT_MASK) << 1;
    const first = index << this.#slotShift;
    for (let slot = 0; slot < 1 << this.#slotShift; slot++) {
      const item = words[start + slot]!;
      if (item === NO_ITEM) continue;
      if (first + slot >= this.#header.control.HASH_BUCKETS) {
        return "its hash index has more buckets than it says";
      }
      this.#bucketSum = (this.#bucketSum + this.#link(BUCKET, first + slot, item)) | 0;
    }
    return null;
  }

  /** Returns what is wrong, or null. Call it when all items and all pages of the index have been added. */
  fault(): string | null {
    if (this.#bucketSum !== 0) return "its hash index does not link each item once";
    for (let classId = 1; classId <= this.#header.layout.chunkBytes.length; classId++) {
      const row = classId * CLASS.WORDS;
      this.#addEnds(queueOf(classId, false), row + CLASS.SMALL_NEWEST);
      this.#addEnds(queueOf(classId, true), row + CLASS.MAIN_NEWEST);
    }
    return this.#queueSum === 0 ? null : "the items of its classes are not linked as queues";
  }

  /** @param at The word with the newest item; the oldest one follows. */
  #addEnds(queue: number, at: number): void {
    const { classes } = this.#tables;
    const newest = this.#link(queue, NO_ITEM, classes[at]!);
    const oldest = this.#link(queue, classes[at + 1]!, NO_ITEM);
    this.#queueSum = (this.#queueSum + newest - oldest) | 0;
  }

  #link(kind: number, from: number, to: number): number {
    return mixed(mixed(from ^ this.#secret1) + Math.imul(kind, KIND_STEP) + to ^ this.#secret2);
  }

  #bucketOf(hash: number): number {
    const { HASH_BUCKETS, HASH_LEVEL } = this.#header.control;
    const bucket = hash & (2 * HASH_LEVEL - 1);
    return bucket < HASH_BUCKETS ? bucket : bucket & (HASH_LEVEL - 1);
  }
}

/** Names a queue of a class among the kinds of links. */
function queueOf(classId: number, main: boolean): number {
  return 2 * classId + (main ? 1 : 0);
}

/** The finalizer of MurmurHash3 (Appleby, public domain): each bit of the word changes half of the result's. */
function mixed(word: number): number {
  word = Math.imul(word ^ (word >>> 16), 0x85ebca6b);
  word = Math.imul(word ^ (word >>> 13), 0xc2b2ae35);
  return word ^ (word >>> 16);
}
