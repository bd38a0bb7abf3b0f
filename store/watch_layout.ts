/**
 * The shared buffer of watch_log.ts: a word for the number of the next line, WATCHERS_MAX rows of
 * the words below, then the rings.
 */

export const WATCHERS_MAX = 20;

/** Words of a row. */
export const EVENTS = 0; // 0: nobody's
export const THREAD = 1;
export const OWNER = 2;
export const START = 3; // of the ring's content, in bytes
export const LENGTH = 4;
export const SKIPPED = 5; // lines lost since the last one that went in
export const READY = 6; // one of the states below
export const ROW_WORDS = 8;

/** Whether a watcher's thread knows that there is something in its ring. */
export const QUIET = 0;
export const ANNOUNCED = 1;
export const TAKEN = 2;

export const NEXT_LINE = 0;
export const ROWS = 8;
export const RINGS_BYTE = (ROWS + WATCHERS_MAX * ROW_WORDS) * 4;

/** memcached's default for `-o watcher_logbuf_size`. */
export const WATCH_RING_BYTES = 256 * 1024;

/** @param ringBytes Of each watcher. */
export function watchBytesNeeded(ringBytes: number): number {
  return RINGS_BYTE + WATCHERS_MAX * ringBytes;
}
