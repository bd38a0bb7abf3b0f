import * as bytesModule from "../../store/base/bytes.ts";
import { type ByteRegion, copyBytes } from "../../store/base/bytes.ts";
import type { Found, HeldCache, ItemRef } from "../../store/cache.ts";
import * as limitsModule from "../../store/limits.ts";
import { putDecimal, putDecimalU64 } from "../../store/base/decimal.ts";
import { ValueSegments } from "./value_segments.ts";
import * as valueSegmentsModule from "./value_segments.ts";

const { CRLF } = bytesModule;
const { VALUE_SEGMENT_BYTES_MIN } = valueSegmentsModule;
const { UNPINNED_BYTES_MAX } = limitsModule;

// Hot path: no allocation, except where a comment says so.

/**
 * The free space that every request needs to start. Every reply fits it, except values, statistics and dumps. It also
 * holds the largest value that cannot be pinned in the store's own layout, so that such values are never copied aside.
 */
export const REPLY_ROOM_MIN = 20 * 1024;

/** Room kept behind a long value for the end of its reply. */
export const TRAILER_ROOM = 64;

/** Room for what stands in front of a value and behind it, with the longest key and all flags of `mg`. */
const AROUND_VALUE_ROOM = 1024;

/**
 * The replies of one batch, in the thread's reply region. Before `feed` its caller resets it, or appends to other
 * batches' replies; after `feed` it sends them.
 */
export class ReplyBuffer {
  readonly region: ByteRegion;
  readonly capacity: number;
  /** Bytes of the region to be sent. */
  length = 0;
  /** Offset of the batch's first reply. */
  start = 0;
  /** Beyond this offset the mutex must be yielded: enough was copied in one hold. */
  yieldAt = 0;
  /** Long values to be sent between these bytes. */
  readonly valueSegments: ValueSegments = new ValueSegments();
  /** Capacity in bytes. Value segments count as if they were in the region. */
  #limit: number;

  constructor(region: ByteRegion) {
    this.region = region;
    this.capacity = region.bytes.length;
    this.#limit = this.capacity;
  }

  /** Empties it. It must hold no value segments. */
  reset(): void {
    this.start = 0;
    this.length = 0;
    this.#limit = this.capacity;
  }

  /**
   * Starts a batch behind the replies in the region, which must hold no value segments.
   *
   * @param alignment A power of two: its first reply begins at a multiple of it.
   */
  begin(alignment: number): void {
    this.start = (this.length + alignment - 1) & -alignment;
    this.length = this.start;
  }

  /** Whether this batch has no reply yet. */
  get isEmpty(): boolean {
    return this.totalLength === this.start;
  }

  /** Sets `yieldAt` for the hold that begins, see `WorkBudget.beginHold`. */
  beginMutexHold(): void {
    this.yieldAt = this.length + UNPINNED_BYTES_MAX;
  }

  /** Bytes to be sent from the region's start on, value segments included. */
  get totalLength(): number {
    return this.length + this.capacity - this.#limit;
  }

  /**
   * Appends the bytes [start, start + length) of a value without a copy, if the transport supports it and they fit.
   *
   * @returns False when nothing was appended.
   */
  valueSegment(cache: HeldCache, item: ItemRef, start: number, length: number): boolean {
    if (length > this.room - TRAILER_ROOM) return false;
    if (!this.valueSegments.add(cache, this.length, item, start, length)) return false;
    this.#limit -= length;
    return true;
  }

  /**
   * Appends a whole value if it fits: copies a short one, and refers to a long one by `valueSegment`. Leaves
   * TRAILER_ROOM behind it.
   *
   * @returns False if nothing was appended: send it by a `SendTask`.
   */
  value(cache: HeldCache, found: Found): boolean {
    const { item, valueLength } = found;
    if (valueLength >= VALUE_SEGMENT_BYTES_MIN && this.valueSegment(cache, item, 0, valueLength)) {
      return true;
    }
    if (valueLength > UNPINNED_BYTES_MAX || valueLength > this.room - TRAILER_ROOM) return false;
    if (found.isInOneChunk) found.copyValue(this.region, this.length);
    else cache.copyValue(item, 0, valueLength, this.region, this.length);
    this.length += valueLength;
    return true;
  }

  /** Truncates the region to `length` bytes, under the mutex. */
  truncate(cache: HeldCache, length: number): void {
    this.#limit += this.valueSegments.release(cache, length);
    this.length = length;
  }

  /** Bytes that a value may have which is copied, beside its line and what follows. */
  get valueRoom(): number {
    return this.#limit - this.length - AROUND_VALUE_ROOM;
  }

  /** Appends the value of an item that was found without the mutex. `valueRoom` must suffice. */
  foundValue(found: Found): void {
    this.length = found.copyValue(this.region, this.length);
  }

  /** Free bytes. The methods below do not check it: the caller does. */
  get room(): number {
    return this.#limit - this.length;
  }

  /** Appends a fixed reply. */
  put(line: Uint8Array): void {
    const bytes = this.region.bytes;
    const at = this.length;
    const length = line.length;
    for (let index = 0; index < length; index++) bytes[at + index] = line[index]!;
    this.length = at + length;
  }

  /** Appends bytes of a request or of a value. */
  copy(from: ByteRegion, offset: number, length: number): void {
    copyBytes(this.region, this.length, from, offset, length);
    this.length += length;
  }

  byte(value: number): void {
    this.region.bytes[this.length] = value;
    this.length += 1;
  }

  crlf(): void {
    this.region.view.setInt16(this.length, CRLF, true);
    this.length += 2;
  }

  /** Appends an integer 0..2^53-1 in decimal. */
  decimal(value: number): void {
    this.length = putDecimal(this.region.bytes, this.length, value);
  }

  /** Appends a 64-bit number in decimal. Allocates from 2^53 on. */
  decimalU64(low: number, high: number): void {
    this.length = putDecimalU64(this.region.bytes, this.length, low, high);
  }

  /** Appends a string of characters below 256. Not for hot replies. */
  text(text: string): void {
    const bytes = this.region.bytes;
    let at = this.length;
    for (let index = 0; index < text.length; index++) bytes[at++] = text.charCodeAt(index);
    this.length = at;
  }
}
