/**
 * The form of what the journal of update tokens is told: the store puts records into a queue for it, and they pass from
 * there to the file as they are.
 *
 *   0  type, see TokenRecordType
 *   1  length of the key, 0..250
 *   2  length of the owner's tag, 0..OWNER_TAG_LENGTH_MAX
 *   3  length of the peer's name, 0..PEER_LENGTH_MAX
 *   4  id: 8 bytes, below 2^53
 *  12  since when, Unix time in seconds: 8 bytes, a double
 *  20  key, owner, peer
 *
 * Numbers are little-endian. RELEASE has a key and an id, ID_LIMIT only an id, quarantine nothing.
 */
export const TokenRecordType = {
  /** The token is out. */
  GET: 1,
  /** The token was released, or dropped by an operator. */
  RELEASE: 2,
  /** No id above this one has been handed out. */
  ID_LIMIT: 3,
  /** Every key is in quarantine until an operator ends it. */
  QUARANTINE_ON: 4,
  QUARANTINE_OFF: 5,
} as const;

export type TokenRecordType = typeof TokenRecordType[keyof typeof TokenRecordType];

/** Offsets of a record's fields. */
export const TOKEN_RECORD = {
  TYPE: 0,
  KEY_LENGTH: 1,
  OWNER_LENGTH: 2,
  PEER_LENGTH: 3,
  ID: 4,
  SINCE: 12,
  DATA: 20,
} as const;

/** The longest tag that a writer can give its token, in bytes. */
export const OWNER_TAG_LENGTH_MAX = 64;
/** The longest name of a peer that is kept, in bytes. */
export const PEER_LENGTH_MAX = 64;
