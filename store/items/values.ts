import { assert } from "../base/assert.ts";
import { type ByteRegion, copyBytes } from "../base/bytes.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import * as limitsModule from "../limits.ts";
import type { ItemLinks } from "./item_links.ts";
import * as memoryModule from "../memory/memory.ts";

const { HEADER_BYTES, NO_ITEM, STATE, WORD } = itemModule;
const { COPY_BYTES_MAX } = limitsModule;
const { SEGMENT_SHIFT } = memoryModule;

// Hot path: no allocation.

/** Reads and writes values, which lie in one chunk or along a chain of chunks. */
export class Values {
  readonly #links: ItemLinks;
  /**
   * The last position in a chain, so that a copy in pieces need not start over: item, chunk, and
   * the chunk's first byte of the value.
   */
  #positionItem: ItemRef = NO_ITEM;
  #positionChunk: ItemRef = NO_ITEM;
  #positionStart = 0;
  /** Results of `locate`: a segment's number, and a byte offset in it. */
  pieceSegment = 0;
  pieceOffset = 0;

  constructor(links: ItemLinks) {
    this.#links = links;
  }

  /** Returns how many bytes of the value the item's own chunk holds. */
  #headCapacity(item: ItemRef): number {
    const { items, slabs } = this.#links;
    return slabs.largeChunkBytes -
      (items.keyOffset(item) - items.offset(item) + items.keyLength(item));
  }

  /**
   * Returns how many of the value's bytes, from byte `start` on, belong into the item's chain. The
   * item's STATE and length must be set.
   */
  chainedLength(item: ItemRef, start = 0): number {
    const chainStart = Math.max(start, this.#headCapacity(item));
    return Math.max(0, this.#links.items.valueLength(item) - chainStart);
  }

  /** Forgets the last position. Call it when the item is about to be freed or changed. */
  forgetPosition(): void {
    this.#positionItem = NO_ITEM;
  }

  /** Writes `length` bytes of `from` into the value, at its byte `at`. */
  write(item: ItemRef, at: number, from: ByteRegion, fromOffset: number, length: number): void {
    const { items, memory } = this.#links;
    if (!(items.state(item) & STATE.CHAINED)) {
      const start = items.keyOffset(item) + items.keyLength(item);
      copyBytes(memory.segments[item >>> SEGMENT_SHIFT]!, start + at, from, fromOffset, length);
      return;
    }
    this.#copy(item, at, length, from, fromOffset, true);
  }

  /** Copies the value's bytes [at, at + length) to `to`. */
  read(item: ItemRef, at: number, length: number, to: ByteRegion, toOffset: number): void {
    const { items, memory } = this.#links;
    if (!(items.state(item) & STATE.CHAINED)) {
      const start = items.keyOffset(item) + items.keyLength(item);
      copyBytes(to, toOffset, memory.segments[item >>> SEGMENT_SHIFT]!, start + at, length);
      return;
    }
    this.#copy(item, at, length, to, toOffset, false);
  }

  /**
   * Finds the value's byte `at`. Sets `pieceSegment` and `pieceOffset`.
   *
   * @returns How many of the value's bytes are contiguous there.
   */
  locate(item: ItemRef, at: number): number {
    const { items } = this.#links;
    const length = items.valueLength(item);
    const chained = (items.state(item) & STATE.CHAINED) !== 0;
    const capacity = chained ? this.#headCapacity(item) : length;
    // The position is valid only for the caller that continues from it. One that starts over may
    // find another chain.
    if (at === 0) this.forgetPosition();
    if (at < capacity) {
      this.pieceSegment = item >>> SEGMENT_SHIFT;
      this.pieceOffset = items.keyOffset(item) + items.keyLength(item) + at;
      return Math.min(length, capacity) - at;
    }
    this.#seek(item, at, capacity);
    const inChunk = at - this.#positionStart;
    this.pieceSegment = this.#positionChunk >>> SEGMENT_SHIFT;
    this.pieceOffset = items.offset(this.#positionChunk) + HEADER_BYTES + inChunk;
    return items.word(this.#positionChunk, WORD.PIECE_LENGTH) - inChunk;
  }

  /**
   * Pins an item: its memory stays, even if the item is replaced or deleted.
   *
   * @returns False for an item without a chain, which cannot be pinned: see `Allocator.allocate`.
   */
  pin(item: ItemRef): boolean {
    const { items } = this.#links;
    if (!(items.state(item) & STATE.CHAINED)) return false;
    const word = items.chainWord(item) + 1;
    items.setWord(item, word, items.word(item, word) + 1);
    return true;
  }

  unpin(item: ItemRef): void {
    const { items } = this.#links;
    const word = items.chainWord(item) + 1;
    const pins = items.word(item, word) - 1;
    items.setWord(item, word, pins);
    if (pins === 0 && !(items.state(item) & STATE.LINKED)) {
      this.forgetPosition();
      this.#links.free(item);
    }
  }

  /**
   * Copies a whole value into another item, at that item's byte `at`.
   *
   * @param yieldMutex Called after every COPY_BYTES_MAX. It may release the mutex for a moment if
   *   `from` is pinned or reserved; `to` is reserved.
   */
  copyInto(to: ItemRef, at: number, from: ItemRef, yieldMutex: (() => void) | null): void {
    const { items, memory } = this.#links;
    const length = items.valueLength(from);
    const chained = (items.state(from) & STATE.CHAINED) !== 0;
    let offset = items.keyOffset(from) + items.keyLength(from);
    let pieceEnd = chained ? Math.min(length, this.#headCapacity(from)) : length;
    let chunk = from;
    let copied = 0;
    for (let done = 0; done < length;) {
      if (done === pieceEnd) {
        chunk = items.word(chunk, chunk === from ? items.chainWord(from) : WORD.OLDER);
        offset = items.offset(chunk) + HEADER_BYTES;
        pieceEnd = done + items.word(chunk, WORD.PIECE_LENGTH);
      }
      if (copied === COPY_BYTES_MAX) {
        yieldMutex?.();
        copied = 0;
      }
      const piece = Math.min(pieceEnd - done, COPY_BYTES_MAX - copied);
      this.write(to, at + done, memory.segments[chunk >>> SEGMENT_SHIFT]!, offset, piece);
      done += piece;
      offset += piece;
      copied += piece;
    }
  }

  /** Copies the value's bytes [at, at + length) to `other`, or, if `writing`, from `other`. */
  #copy(
    item: ItemRef,
    at: number,
    length: number,
    other: ByteRegion,
    otherOffset: number,
    writing: boolean,
  ): void {
    const { segments } = this.#links.memory;
    for (let done = 0; done < length;) {
      const piece = Math.min(length - done, this.locate(item, at + done));
      const segment = segments[this.pieceSegment]!;
      if (writing) copyBytes(segment, this.pieceOffset, other, otherOffset + done, piece);
      else copyBytes(other, otherOffset + done, segment, this.pieceOffset, piece);
      done += piece;
    }
  }

  /**
   * Sets the position to the chunk of the chain that holds the value's byte `at`.
   *
   * @param capacity Bytes of the value in front of the chain; at most `at`.
   */
  #seek(item: ItemRef, at: number, capacity: number): void {
    const { items } = this.#links;
    if (this.#positionItem !== item || this.#positionStart > at) {
      this.#positionItem = item;
      this.#positionChunk = items.word(item, items.chainWord(item));
      this.#positionStart = capacity;
    }
    for (;;) {
      // Without this check a broken chain would loop for ever, with the mutex held.
      assert(
        this.#positionChunk !== NO_ITEM,
        "a value's bytes are looked for where there is memory for them",
      );
      const next = this.#positionStart + items.word(this.#positionChunk, WORD.PIECE_LENGTH);
      if (at < next) return;
      this.#positionChunk = items.word(this.#positionChunk, WORD.OLDER);
      this.#positionStart = next;
    }
  }
}
