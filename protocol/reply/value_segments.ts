import type { HeldCache, ItemRef } from "../../store/cache.ts";

// Hot path: no allocation.

/** Copies are cheaper for shorter values; besides, only values in chains of chunks can be pinned. */
export const VALUE_SEGMENT_BYTES_MIN = 16 * 1024;
/** More than the reply buffer has room for. */
const VALUE_SEGMENTS_MAX = 32;

/**
 * Values among the replies of one batch that are not copied into the reply region: the transport
 * sends them from the store's own memory. Each is pinned from `add` to `release`.
 */
export class ValueSegments {
  /** Set by a transport that can send segments. */
  enabled = false;
  count = 0;
  readonly #at = new Int32Array(VALUE_SEGMENTS_MAX);
  readonly #items = new Int32Array(VALUE_SEGMENTS_MAX);
  readonly #starts = new Int32Array(VALUE_SEGMENTS_MAX);
  readonly #lengths = new Int32Array(VALUE_SEGMENTS_MAX);

  /** The byte of the reply region in front of which segment `index` is sent. */
  at(index: number): number {
    return this.#at[index]!;
  }

  item(index: number): ItemRef {
    return this.#items[index]!;
  }

  /** The first byte of the value to be sent. */
  start(index: number): number {
    return this.#starts[index]!;
  }

  length(index: number): number {
    return this.#lengths[index]!;
  }

  /**
   * Adds the bytes [start, start + length) of a value.
   *
   * @returns False if the caller must copy them instead.
   */
  add(cache: HeldCache, at: number, item: ItemRef, start: number, length: number): boolean {
    const index = this.count;
    if (!this.enabled || index === VALUE_SEGMENTS_MAX || !cache.pin(item)) return false;
    this.#at[index] = at;
    this.#items[index] = item;
    this.#starts[index] = start;
    this.#lengths[index] = length;
    this.count = index + 1;
    return true;
  }

  /** Drops the segments at `at` and behind it, under the mutex. Returns their length in bytes. */
  release(cache: HeldCache, at: number): number {
    let bytes = 0;
    while (this.count > 0 && this.#at[this.count - 1]! >= at) {
      this.count--;
      bytes += this.#lengths[this.count]!;
      cache.unpin(this.#items[this.count]!);
    }
    return bytes;
  }
}
