/**
 * Unused doubles in front of every row: 128 bytes, because processors load pairs of cache lines, and a
 * SharedArrayBuffer may start in the middle of one.
 */
const GAP_DOUBLES = 16;

/**
 * Counters of threads: a row for each thread, which it alone changes, on cache lines of its own. A thread adds to its
 * row without the mutex: `own[index]! += 1`. Sums are for show: another thread's row may be a few additions old.
 *
 *   rows    [thread][index] doubles, which only grow
 *   resets  [thread][index] doubles: what the row held at the last reset
 *
 * A reset cannot set another thread's row to 0, because that thread may be between reading and writing it. So it notes
 * what the rows hold, and the sums leave that out.
 *
 * ECMAScript allows a double to be read while half of it has been written. x86-64 and arm64 read and write an aligned
 * double as a whole, V8 compiles each access to one such instruction, and every row starts at a multiple of 8 bytes.
 */
export class CounterRows {
  /** The thread's own row. */
  readonly own: Float64Array;
  readonly #all: Float64Array;
  readonly #rowDoubles: number;
  readonly #rows: number;

  /**
   * @param shared From `createShared`, with the same width.
   * @param width Counters of a thread.
   * @param threadIndex Whose row `own` is.
   */
  constructor(shared: SharedArrayBuffer, width: number, threadIndex: number) {
    this.#all = new Float64Array(shared);
    this.#rowDoubles = rowDoubles(width);
    this.#rows = this.#all.length / (2 * this.#rowDoubles);
    const start = threadIndex * this.#rowDoubles + GAP_DOUBLES;
    this.own = this.#all.subarray(start, start + width);
  }

  static createShared(rows: number, width: number): SharedArrayBuffer {
    return new SharedArrayBuffer(2 * rows * rowDoubles(width) * Float64Array.BYTES_PER_ELEMENT);
  }

  /** Returns a count of one thread since the last reset. */
  ofThread(threadIndex: number, index: number): number {
    const at = threadIndex * this.#rowDoubles + GAP_DOUBLES + index;
    return this.#all[at]! - this.#all[at + this.#rows * this.#rowDoubles]!;
  }

  /** Returns a count of all threads since the last reset. */
  sum(index: number): number {
    let sum = 0;
    for (let row = 0; row < this.#rows; row++) sum += this.ofThread(row, index);
    return sum;
  }

  /** Begins to count at 0. The caller holds the mutex, as does everybody who reads sums. */
  reset(): void {
    const half = this.#rows * this.#rowDoubles;
    this.#all.copyWithin(half, 0, half);
  }
}

/** The distance of two rows. */
function rowDoubles(width: number): number {
  return GAP_DOUBLES + width;
}
