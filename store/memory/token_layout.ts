import { KEY_LENGTH_MAX } from "../limits.ts";
import { OWNER_TAG_LENGTH_MAX, PEER_LENGTH_MAX, TOKEN_RECORD } from "./token_record.ts";

// How large the table of update tokens can be, and the queue of records for their journal.

/** The least `tokenEntries`, 0 (no update tokens) aside: the longest key, owner and peer need 8 slots. */
export const TOKEN_ENTRIES_LEAST = 16;
/** The most. */
export const TOKEN_ENTRIES_MOST = 10_000_000;

/** Bytes of the longest record. */
export const TOKEN_RECORD_BYTES_MAX = TOKEN_RECORD.DATA + KEY_LENGTH_MAX + OWNER_TAG_LENGTH_MAX +
  PEER_LENGTH_MAX;

/** The words in front of the queue's bytes. */
export const TOKEN_QUEUE = {
  HEAD: 0, // where the next record goes, in bytes since the start; wraps
  TAIL: 1, // up to where the journal has taken records
  UNUSABLE: 2, // 1: there is no journal to write to, until the server is started again
  RECORDS_LOST: 3, // 1: a release found no room; the journal compares itself with the store
  STOPPING: 4, // 1: the journal shall write what there is, and end
  BELL: 5, // counts the reasons to wake the journal's thread; it sleeps on this word
  LAZY: 6, // 1: the journal's thread comes for releases by itself, and need not be woken for one
  WORDS: 7,
} as const;

/** Bytes of the ring, a power of two: two of the longest records for each connection of `-c 1024`. */
export const TOKEN_RING_BYTES = 1 << 20;

/** Bytes of the queue. Without a journal nothing is put into it. */
export function tokenQueueBytes(isJournaled: boolean): number {
  return TOKEN_QUEUE.WORDS * 4 + (isJournaled ? TOKEN_RING_BYTES : 0);
}
