/** A row of a history, as it is sent to pages: Unix time in seconds, then one number for each column; null: unknown. */
export type HistoryRow = readonly [unixSec: number, ...values: (number | null)[]];

/** The last rows of numbers, in memory of a fixed size: 4 bytes a number. */
export class History {
  readonly #columns: number;
  readonly #rowsMax: number;
  readonly #times: Float64Array;
  readonly #values: Float32Array;
  #count = 0;

  constructor(columns: number, rowsMax: number) {
    this.#columns = columns;
    this.#rowsMax = rowsMax;
    this.#times = new Float64Array(rowsMax);
    this.#values = new Float32Array(rowsMax * columns);
  }

  /** Adds a row, in the place of the oldest one if there is no room. NaN: unknown. */
  add(unixSec: number, values: readonly number[]): void {
    const at = this.#count++ % this.#rowsMax;
    this.#times[at] = unixSec;
    this.#values.set(values, at * this.#columns);
  }

  /** The rows, the oldest first. */
  rows(): HistoryRow[] {
    const length = Math.min(this.#count, this.#rowsMax);
    const first = this.#count - length;
    return Array.from({ length }, (_, index) => this.#row((first + index) % this.#rowsMax));
  }

  #row(at: number): HistoryRow {
    const start = at * this.#columns;
    const values = this.#values.subarray(start, start + this.#columns);
    return [this.#times[at]!, ...Array.from(values, shortened)];
  }
}

/** Returns a number with the digits that a plot shows; null for one that is unknown. */
export function shortened(value: number): number | null {
  return Number.isFinite(value) ? Number(value.toPrecision(5)) : null;
}
