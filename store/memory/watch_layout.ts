/**
 * The shared buffer of watch_log.ts: the words of WATCH_HEADER, WATCHERS_MAX rows of the words of
 * WATCHER, then the rings.
 */

/** Connections that may watch at the same time. */
export const WATCHERS_MAX = 20;

/** The words in front of the rows. */
export const WATCH_HEADER = {
  NEXT_LINE: 0, // number of the next line
  WORDS: 8,
} as const;

/** The row of a watcher. */
export const WATCHER = {
  EVENTS: 0, // 0: free
  THREAD: 1,
  OWNER: 2,
  START: 3, // of the ring's content, in bytes
  LENGTH: 4,
  SKIPPED: 5, // lines lost since the last one that went in
  READY: 6, // see below
  WORDS: 8,
} as const;

/** Whether a watcher's thread has been told that its ring has new lines. */
export const READY = { QUIET: 0, ANNOUNCED: 1, TAKEN: 2 } as const;

/** Byte offset of the rings. */
export const RINGS_BYTE = (WATCH_HEADER.WORDS + WATCHERS_MAX * WATCHER.WORDS) * 4;

/** memcached's default for `-o watcher_logbuf_size`. */
export const WATCH_RING_BYTES = 256 * 1024;

/** Size of the buffer. @param ringBytes Of each watcher. */
export function watchBytesNeeded(ringBytes: number): number {
  return RINGS_BYTE + WATCHERS_MAX * ringBytes;
}
