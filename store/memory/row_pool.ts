import { assert } from "../base/assert.ts";

// Hot path: no allocation.

/**
 * The first words of a buffer whose rows are handed out by a RowPool. Rows count from 1; 0 is no
 * row. A buffer of zeros is an empty pool, and rows that were never used cost no memory.
 */
export const ROW_POOL = {
  FREE: 0, // head of the list of rows given back, or 0
  EVER_USED: 1, // rows handed out at least once
  WORDS: 2,
} as const;

/** Hands out rows of shared memory, and takes them back into a free list. The caller holds the mutex. */
export class RowPool {
  readonly #words: Int32Array;
  readonly #rowsMax: number;
  readonly #nextWords: number;
  readonly #rowWords: number;

  /**
   * @param words The buffer, which begins with the words of ROW_POOL.
   * @param rowsStart The word at which row 0 would start.
   * @param rowWords Words in a row.
   * @param nextWord The word of a row that links the free list.
   */
  constructor(
    words: Int32Array,
    rowsStart: number,
    rowWords: number,
    nextWord: number,
    rowsMax: number,
  ) {
    this.#words = words;
    this.#nextWords = rowsStart + nextWord;
    this.#rowWords = rowWords;
    this.#rowsMax = rowsMax;
  }

  /** Returns a row, its words as they were left; 0 if all are in use. */
  take(): number {
    const words = this.#words;
    const free = words[ROW_POOL.FREE]!;
    if (free !== 0) {
      words[ROW_POOL.FREE] = words[this.#nextWords + free * this.#rowWords]!;
      return free;
    }
    const fresh = words[ROW_POOL.EVER_USED]! + 1;
    if (fresh > this.#rowsMax) return 0;
    words[ROW_POOL.EVER_USED] = fresh;
    return fresh;
  }

  giveBack(row: number): void {
    const words = this.#words;
    assert(row > 0 && row <= words[ROW_POOL.EVER_USED]!, "a row that is given back was taken");
    words[this.#nextWords + row * this.#rowWords] = words[ROW_POOL.FREE]!;
    words[ROW_POOL.FREE] = row;
  }
}
