import { KEY_LENGTH_MAX, type StoreOptions } from "../limits.ts";
import { LIST } from "./waiter_layout.ts";
import { ROW_POOL } from "./row_pool.ts";

/**
 * The shared buffer of rows/row_requests.ts: a header, a list for every thread (finished requests whose connections
 * wait), then the slots. Slots count from 1; 0 is none. A buffer of zeros is an empty table, and slots that were never
 * used cost no memory.
 */

/** The words in front of the lists. */
export const REQUEST_HEADER = {
  ...ROW_POOL, // through REQUEST.NEXT
  QUEUE: 2, // a LIST: requests that the database thread has not taken
  IN_USE: 5, // slots that are not free
  BELL: 6, // counts the reasons to wake the database thread, which waits on this word
  ASLEEP: 7, // 1: the database thread waits, or is about to
  DETACHED_ITEMS: 8, // items that requests refer to and that are in no index
  DETACHED_KIB: 9, // their memory
  RIGHT_UNTIL_MS: 10, // and 11: a double, at an even word: see rows/serving_right.ts
  ROOM: 12, // a LIST: writes that wait until other values leave their memory
  ORPHANS: 15, // counts the commands that were taken and have lost their connection
  WORDS: 16,
} as const;

/** Bytes of the text with which a request may fail. */
export const REQUEST_TEXT_BYTES_MAX = 256;

/** A slot. */
export const REQUEST = {
  STATE: 0,
  KIND: 1,
  OWNER: 2, // the connection; 0: it has ended
  THREAD: 3, // that serves it
  NEXT: 4, // of the queue, of the thread's list, or of the free slots
  PREVIOUS: 5,
  AWAITED: 6, // 1: the connection waits for this request, and is woken when it is done
  BITS: 7,
  MODE: 8,
  CLIENT_FLAGS: 9,
  DEADLINE_SEC: 10,
  COMPARE_LOW: 11,
  COMPARE_HIGH: 12,
  DELTA_LOW: 13,
  DELTA_HIGH: 14,
  INITIAL_LOW: 15,
  INITIAL_HIGH: 16,
  ITEM: 17, // a detached item with the value to write
  KEY_LENGTH: 18,
  OUTCOME: 19,
  VERSION_LOW: 20,
  VERSION_HIGH: 21,
  NUMBER_LOW: 22,
  NUMBER_HIGH: 23,
  RESULT: 24, // a detached or pinned item with the value to answer with
  TEXT_LENGTH: 25,
  KEY: 26,
  TEXT: 26 + Math.ceil(KEY_LENGTH_MAX / 4),
  WORDS: 26 + Math.ceil(KEY_LENGTH_MAX / 4) + REQUEST_TEXT_BYTES_MAX / 4,
} as const;

/**
 * Slots beside one for every connection: for connections with several requests, and those that have ended. A request
 * ahead of its turn takes a slot only while fewer than these are in use, so that it takes none from other connections.
 */
export const SPARE_SLOTS = 8192;

/** How many slots there are; 0: the server has no database. */
export function requestSlots(options: StoreOptions): number {
  return options.rows === undefined ? 0 : options.connectionsMax + options.threads + SPARE_SLOTS;
}

/** The word at which slot 0 would start. */
export function requestSlotsStart(options: StoreOptions): number {
  return REQUEST_HEADER.WORDS + options.threads * LIST.WORDS - REQUEST.WORDS;
}

/** Size of the buffer. */
export function requestBytesNeeded(options: StoreOptions): number {
  const slots = requestSlots(options);
  return slots === 0 ? 0 : 4 * (requestSlotsStart(options) + (slots + 1) * REQUEST.WORDS);
}
