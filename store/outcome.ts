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
  /** The connection waits for the lock, or until its update token is on the disk: `operation.waiter`. */
  WAITING: 13,
  /** No value, but a lease: `operation.idLow/High` and `remainSec`. */
  LEASED: 14,
  /** The bytes behind the value are not the end marker that the protocol requires; nothing has changed. */
  BAD_CHUNK: 15,
  /**
   * No value and no lease, because an update token is out or all keys are in quarantine. `operation.idLow/High` is an
   * id that fills nothing.
   */
  UNCACHEABLE: 16,
  /** There are no update tokens: the server has no state directory. */
  TOKENS_OFF: 17,
  /** The table of update tokens is full. */
  TOO_MANY_TOKENS: 18,
  /** The update token could not be written to the journal. */
  NOT_PERSISTED: 19,
  /** The key is a row: the connection waits for the database thread, see `operation.request`. */
  PARKED: 20,
  /** The database thread could not do it; the request has a text. */
  ROW_ERROR: 21,
  /** There is no room for another request to the database thread. */
  TOO_MANY_REQUESTS: 22,
} as const;

export type Outcome = typeof Outcome[keyof typeof Outcome];
