import type { StoreOptions } from "../limits.ts";
import { KEY_LENGTH_MAX } from "../limits.ts";
import { ROW_POOL } from "./row_pool.ts";

/**
 * The list of values that arrive in pieces: a header, then rows. Rows count from 1; 0 is none. A buffer of zeros is
 * an empty list, and rows that were never used cost no memory.
 */

/** The words in front of the rows. */
export const ARRIVING_HEADER = {
  ...ROW_POOL, // through ARRIVING.NEXT
  OLDEST: 2, // of AgeList; the newest value is behind it
  WORDS: 4,
} as const;

/** The row of a value. */
export const ARRIVING = {
  ITEM: 0, // the reserved item; NO_ITEM: the value was dropped
  NEXT: 1, // newer in the list, or of the free rows
  PREVIOUS: 2, // older in the list
  RECEIVING: 3, // 1: its thread receives bytes straight into the item, without the mutex
  KEY_LENGTH: 4, // of a dropped value; its key follows
  KEY: 5,
  WORDS: 5 + Math.ceil(KEY_LENGTH_MAX / 4),
} as const;

/** Rows: a connection sends one value at a time, and so does the datagram that a thread serves. */
export function arrivingRows(options: StoreOptions): number {
  return options.connectionsMax + options.threads;
}

/** The word at which row 0 would start. */
export const ARRIVING_ROWS_START = ARRIVING_HEADER.WORDS - ARRIVING.WORDS;

/** Size of the buffer. */
export function arrivingBytesNeeded(options: StoreOptions): number {
  return 4 * (ARRIVING_HEADER.WORDS + arrivingRows(options) * ARRIVING.WORDS);
}
