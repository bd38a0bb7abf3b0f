import type { ReplayTarget } from "./replay.ts";

/**
 * LRU, or FIFO, to compare the store with: a heap of bytes without pages, classes or headers, in
 * which an item takes its key and its value.
 */
export class Lru implements ReplayTarget {
  /** Bytes and deadline of each item, the oldest first. */
  readonly #items = new Map<number, { readonly bytes: number; readonly deadlineMs: number }>();
  #usedBytes = 0;
  #nowMs = 0;

  /** @param movesHits Otherwise the first in are the first out: reads change nothing. */
  constructor(readonly limitBytes: number, readonly movesHits = true) {}

  tick(milliseconds: number): void {
    this.#nowMs = milliseconds;
  }

  get(key: number): boolean {
    const item = this.#items.get(key);
    if (item === undefined) return false;
    if (item.deadlineMs <= this.#nowMs) {
      this.#drop(key);
      return false;
    }
    if (this.movesHits) {
      this.#items.delete(key);
      this.#items.set(key, item);
    }
    return true;
  }

  set(key: number, keySize: number, valueSize: number, ttlSeconds: number): boolean {
    this.#drop(key);
    const bytes = keySize + valueSize;
    if (bytes > this.limitBytes) return false;
    for (const oldest of this.#items.keys()) {
      if (this.#usedBytes + bytes <= this.limitBytes) break;
      this.#drop(oldest);
    }
    const deadlineMs = ttlSeconds === 0 ? Infinity : this.#nowMs + ttlSeconds * 1000;
    this.#items.set(key, { bytes, deadlineMs });
    this.#usedBytes += bytes;
    return true;
  }

  #drop(key: number): void {
    this.#usedBytes -= this.#items.get(key)?.bytes ?? 0;
    this.#items.delete(key);
  }
}
