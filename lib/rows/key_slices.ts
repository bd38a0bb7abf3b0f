import type { Read } from "./flows/flows.ts";

/** Keys of the first slice. */
const KEYS_MIN = 4;
const KEYS_MAX = 64;
/** Values of one slice that are longer together make the next slice shorter. */
const SLICE_BYTES = 64 * 1024;

/** The rows of some of the keys. */
export interface Slice {
  /** Index of its first key. */
  readonly first: number;
  readonly reads: readonly Read[];
}

/**
 * Reads rows in slices, small ones where values are long: others read and write in between, and a caller that stops
 * early has few values in memory.
 *
 * @param read Reads rows. @throws The database's error.
 */
export async function* inSlices(
  keys: readonly string[],
  read: (keys: readonly string[]) => Promise<readonly Read[]>,
): AsyncGenerator<Slice> {
  let size = KEYS_MIN;
  for (let first = 0; first < keys.length;) {
    const reads = await read(keys.slice(first, first + size));
    yield { first, reads };
    first += size;
    const bytes = reads.reduce((sum, { row }) => sum + (row?.data.length ?? 0), 0);
    size = bytes > SLICE_BYTES ? Math.max(1, size >> 1) : Math.min(KEYS_MAX, size * 2);
  }
}
