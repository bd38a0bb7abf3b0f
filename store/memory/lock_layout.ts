import type { StoreOptions } from "../limits.ts";
import { ROW_POOL } from "./row_pool.ts";

/**
 * How locks and those that wait for them lie in shared memory. Two buffers of 32-bit words, both
 * empty when they are all zeros; rows that were never used cost no memory.
 *
 *   locks     header, a place for every connection (the list of its locks), rows of locks
 *   waiters   header, a list for every thread (waiters to tell something), a queue for every row of
 *             locks, rows of waiters
 *
 * Rows count from 1; 0 is none.
 */

/** The words in front of the places. */
export const LOCK_HEADER = {
  ...ROW_POOL, // through LOCK.NEXT
  COUNT: 2,
  UNITS: 3, // of 8 bytes: the items of all locks
  WORDS: 4,
} as const;

/** A connection's locks, the latest first. */
export const OWNER = { FIRST: 0, COUNT: 1, UNITS: 2, WORDS: 3 } as const;

/** The row of a lock. */
export const LOCK = {
  ITEM: 0, // NO_ITEM: the row is free
  OWNER: 1,
  NEXT: 2, // of the owner's locks, or of the free rows
  PREVIOUS: 3,
  FENCE_LOW: 4,
  FENCE_HIGH: 5,
  SINCE_SEC: 6,
  UNITS: 7, // of 8 bytes: its item, as counted for its owner
  WORDS: 8,
} as const;

/** The words in front of the lists of waiters. */
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
  SINCE_MS: 6,
  DEADLINE_MS: 7,
  POSITION: 7, // instead, for those that wait for the journal
  ID_LOW: 8, // of the lock that was granted, or of the token
  ID_HIGH: 9,
  TOKEN: 10, // record of the token
  WORDS: 11,
} as const;

/**
 * Places for connections: a power of two, at least their number. A `ConnectionId` ends in the number of
 * a row of the table of connections, so two connections never share a place.
 */
export function ownerPlaces(options: StoreOptions): number {
  return 2 ** (32 - Math.clz32(options.connectionsMax - 1 || 1));
}

/** Places for threads that serve connections. */
export function threadPlaces(options: StoreOptions): number {
  return options.threads;
}

/** The word at which the rows of locks start. */
export function lockRowsStart(options: StoreOptions): number {
  return LOCK_HEADER.WORDS + ownerPlaces(options) * OWNER.WORDS;
}

/** The word at which the queues start. */
export function waiterQueuesStart(options: StoreOptions): number {
  return WAITER_HEADER.WORDS + threadPlaces(options) * LIST.WORDS;
}

/** The word at which the rows of waiters start. */
export function waiterRowsStart(options: StoreOptions): number {
  return waiterQueuesStart(options) + (options.lockLimits.locksMax + 1) * LIST.WORDS;
}

/** Size of the buffer of locks. */
export function lockBytesNeeded(options: StoreOptions): number {
  return 4 * (lockRowsStart(options) + (options.lockLimits.locksMax + 1) * LOCK.WORDS);
}

/** Size of the buffer of waiters: a connection waits for one lock at a time. */
export function waiterBytesNeeded(options: StoreOptions): number {
  return 4 * (waiterRowsStart(options) + (options.connectionsMax + 1) * WAITER.WORDS);
}
