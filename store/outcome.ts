/**
 * How an operation on the cache ended. Small integers, because they are made on the hot path; the protocols turn
 * them into words or statuses.
 */
export const Outcome = {
  OK: 0,
  STORED: 1,
  NOT_STORED: 2,
  EXISTS: 3,
  NOT_FOUND: 4,
  DELETED: 5,
  TOUCHED: 6,
  LOCKED: 7,
  TOO_LARGE: 8,
  NO_MEMORY: 9,
  NOT_NUMERIC: 10,
  /** The asking connection does not hold the lock. */
  NOT_LOCKED: 11,
  /** A limit on locks, or on those that wait for them, is reached. */
  TOO_MANY_LOCKS: 12,
  /** The connection waits for the lock: `operation.waiter`. */
  WAITING: 13,
  /** No value, but a lease: `operation.idLow/High` and `remainSec`. */
  LEASED: 14,
  /** The bytes behind the value are not the end marker that the protocol requires; nothing has changed. */
  BAD_CHUNK: 15,
} as const;

export type Outcome = typeof Outcome[keyof typeof Outcome];
