/** Keys of each way of the load: more values than the smaller servers can keep. */
export const LOAD_KEYS = 5_000;
/** Lengths of values: most are small, some take several pieces. */
const SIZES = [100, 300, 1000, 1000, 3000, 3000, 10_000, 40_000];

/** A second of the load. */
export interface Measured {
  readonly requests: number;
  readonly hits: number;
  readonly errors: number;
  /** Values that belong to another key, or were damaged. */
  readonly wrong: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** The value of a key of the load. */
export function loadValue(key: string): string {
  const size = SIZES[Number(key.slice(1)) % SIZES.length]!;
  return `${key}.`.repeat(Math.ceil(size / (key.length + 1))).slice(0, size);
}
