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
} as const;

export type Outcome = typeof Outcome[keyof typeof Outcome];
