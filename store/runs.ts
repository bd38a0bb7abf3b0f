// Hot path: no allocation.

/*
 * Which chunks of a page are taken, where several next to each other may be taken as one: a run.
 * One word, bit i for chunk i in its lower half if the chunk is in use, in its upper half if a run
 * begins there. A single run is such a word too. Example: 0x0005_000f, in use are chunks 0 to 3, as
 * two runs of two.
 */

/** More chunks than the halves of a word have bits no page may have. */
export const RUN_CHUNKS_MAX = 16;

const IN_USE = (1 << RUN_CHUNKS_MAX) - 1;

function runOf(place: number, length: number): number {
  return (((1 << length) - 1) << place) | (1 << (RUN_CHUNKS_MAX + place));
}

/** The run that begins at a chunk; 0: none does. */
export function runAt(runs: number, place: number): number {
  const begins = runs >>> RUN_CHUNKS_MAX;
  if (((begins >>> place) & 1) === 0) return 0;
  const following = (runs & IN_USE & ~begins) >>> (place + 1);
  return runOf(place, 1 + lowestBit(~following));
}

/** The number of a run's first chunk. */
export function runPlace(run: number): number {
  return lowestBit(run);
}

/** How many chunks a run has. */
export function runLength(run: number): number {
  return 32 - Math.clz32(run & IN_USE) - lowestBit(run);
}

/**
 * A run of free chunks: the first of the length wanted, or else the longest.
 *
 * @param chunks How many the page has. One must be free.
 */
export function freeRun(runs: number, chunks: number, wanted: number): number {
  let place = 0;
  let length = 0;
  for (let start = 0; start < chunks && length < wanted;) {
    let end = start;
    while (end < chunks && end - start < wanted && ((runs >>> end) & 1) === 0) end++;
    if (end - start > length) {
      place = start;
      length = end - start;
    }
    start = end + 1;
  }
  return runOf(place, length);
}

function lowestBit(word: number): number {
  return 31 - Math.clz32(word & -word);
}
