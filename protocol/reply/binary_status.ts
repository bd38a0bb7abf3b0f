/** Statuses of the binary protocol: memcached's, yrmcds's for locks, and this server's for leases and tokens. */
export const Status = {
  OK: 0x00,
  NOT_FOUND: 0x01,
  EXISTS: 0x02,
  TOO_LARGE: 0x03,
  INVALID: 0x04,
  NOT_STORED: 0x05,
  NOT_NUMERIC: 0x06,
  LOCKED: 0x10,
  NOT_LOCKED: 0x11,
  /** No value, but a lease. */
  LEASED: 0x12,
  /** No value and no lease: an update token is out, or quarantine. */
  UNCACHEABLE: 0x13,
  REFUSED: 0x20,
  /** SASL needs another step. */
  AUTH_CONTINUE: 0x21,
  UNKNOWN_COMMAND: 0x81,
  NO_MEMORY: 0x82,
  NOT_SUPPORTED: 0x83,
  /** The database could not do it. */
  INTERNAL_ERROR: 0x84,
  /** Under `-o lock_reply=client_error`, to a change of a locked key. */
  BUSY: 0x85,
  TEMPORARY_FAILURE: 0x86,
} as const;

export type Status = typeof Status[keyof typeof Status];
