/** Statuses of the counter protocol. */
export const CounterStatus = {
  OK: 0x00,
  NOT_FOUND: 0x01,
  INVALID: 0x04,
  UNAVAILABLE: 0x21,
  NOT_ACQUIRED: 0x22,
  UNKNOWN_COMMAND: 0x81,
  NO_MEMORY: 0x82,
} as const;

export type CounterStatus = typeof CounterStatus[keyof typeof CounterStatus];

/** The text that a reply carries with each status. */
export const COUNTER_STATUS_TEXT: Record<CounterStatus, string> = {
  [CounterStatus.OK]: "",
  [CounterStatus.NOT_FOUND]: "Not found",
  [CounterStatus.INVALID]: "Invalid arguments",
  [CounterStatus.UNAVAILABLE]: "Resource not available",
  [CounterStatus.NOT_ACQUIRED]: "Not acquired",
  [CounterStatus.UNKNOWN_COMMAND]: "Unknown command",
  [CounterStatus.NO_MEMORY]: "Out of memory",
};
