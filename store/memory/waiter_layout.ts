import type { StoreOptions } from "../limits.ts";
import { ROW_POOL } from "./row_pool.ts";

/**
 * How waiting connections lie in shared memory: a header, a list for every thread (waiters whose wait has ended),
 * queues, rows. Locks and update tokens have a buffer each. A buffer of zeros has no waiters, and rows that were never
 * used cost no memory. Rows count from 1; 0 is none.
 */

/** The words in front of the lists. */
export const WAITER_HEADER = {
  ...ROW_POOL, // through WAITER.NEXT
  COUNT: 2, // waiters in queues
  WORDS: 3,
} as const;

/** Waiters, the longest waiting first. */
export const LIST = { FIRST: 0, LAST: 1, COUNT: 2, WORDS: 3 } as const;

/** The row of a waiter. */
export const WAITER = {
  OWNER: 0, // 0: the row is free
  THREAD: 1,
  LIST: 2, // the word at which the list it is in starts; 0: it is in none
  NEXT: 3, // of the list, or of the free rows
  PREVIOUS: 4,
  STATE: 5,
  ID_LOW: 6, // of the lock that was granted, or of the token
  ID_HIGH: 7,
  SINCE_MS: 8, // of those that wait for a lock; so DEADLINE_MS
  DEADLINE_MS: 9,
  TOKEN: 8, // of those that wait for a token: its record; so POSITION
  POSITION: 9, // where its record ends in the journal's queue
  WORDS: 10,
} as const;

/** The word at which the queues start. */
export function waiterQueuesStart(options: StoreOptions): number {
  return WAITER_HEADER.WORDS + options.threads * LIST.WORDS;
}

/** The word at which the rows of a buffer with so many queues start. */
export function waiterRowsStart(options: StoreOptions, queues: number): number {
  return waiterQueuesStart(options) + queues * LIST.WORDS;
}

/** Size of a buffer with so many queues: a connection waits in one of them at a time. */
export function waiterBytesNeeded(options: StoreOptions, queues: number): number {
  return 4 * (waiterRowsStart(options, queues) + (options.connectionsMax + 1) * WAITER.WORDS);
}

/** Queues of the locks: one for every row, and an unused one for row 0. */
export function lockQueues(options: StoreOptions): number {
  return options.lockLimits.locksMax + 1;
}
