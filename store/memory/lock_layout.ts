import type { StoreOptions } from "../limits.ts";
import { ROW_POOL } from "./row_pool.ts";

/**
 * How locks lie in shared memory: a header, a place for every connection (the list of its locks), rows. A buffer of
 * zeros has no locks, and rows that were never used cost no memory. Rows count from 1; 0 is none.
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

/**
 * Places for connections: a power of two, at least their number. A `ConnectionId` ends in the number of
 * a row of the table of connections, so two connections never share a place.
 */
export function ownerPlaces(options: StoreOptions): number {
  return 2 ** (32 - Math.clz32(options.connectionsMax - 1 || 1));
}

/** The word at which the rows of locks start. */
export function lockRowsStart(options: StoreOptions): number {
  return LOCK_HEADER.WORDS + ownerPlaces(options) * OWNER.WORDS;
}

/** Size of the buffer of locks. */
export function lockBytesNeeded(options: StoreOptions): number {
  return 4 * (lockRowsStart(options) + (options.lockLimits.locksMax + 1) * LOCK.WORDS);
}
