// Hot path: no allocation.

/*
 * The chunks of a page that are in use. Several adjacent chunks may be taken as one: a run.
 * One word, bit i for chunk i in its lower half if the chunk is in use, in its upper half if a run
 * begins there. A single run is such a word too. Example: 0x0005_000f, in use are chunks 0 to 3, as
 * two runs of two.
 */

/** The most chunks of a page: the bits of half a word. */
export const RUN_CHUNKS_MAX = 16;

const IN_USE = (1 << RUN_CHUNKS_MAX) - 1;

function runOf(first: number, count: number): number {
  return (((1 << count) - 1) << first) | (1 << (RUN_CHUNKS_MAX + first));
}

/** Returns the run that begins at a chunk, or 0 if none does. */
export function runAt(runs: number, index: number): number {
  const begins = runs >>> RUN_CHUNKS_MAX;
  if (((begins >>> index) & 1) === 0) return 0;
  const following = (runs & IN_USE & ~begins) >>> (index + 1);
  return runOf(index, 1 + lowestBit(~following));
}

/** Returns the index of a run's first chunk. */
export function firstChunk(run: number): number {
  return lowestBit(run);
}

/** Returns how many chunks a run has. */
export function chunkCount(run: number): number {
  return 32 - Math.clz32(run & IN_USE) - lowestBit(run);
}

/**
 * Returns a run of free chunks: the first one of `wanted` chunks, or else the longest.
 *
 * @param pageChunks How many chunks the page has. One must be free.
 */
export function freeRun(runs: number, pageChunks: number, wanted: number): number {
  let first = 0;
  let count = 0;
  for (let start = 0; start < pageChunks && count < wanted;) {
    let end = start;
    while (end < pageChunks && end - start < wanted && ((runs >>> end) & 1) === 0) end++;
    if (end - start > count) {
      first = start;
      count = end - start;
    }
    start = end + 1;
  }
  return runOf(first, count);
}

function lowestBit(word: number): number {
  return 31 - Math.clz32(word & -word);
}
