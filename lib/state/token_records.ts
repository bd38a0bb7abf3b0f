/**
 * What the journal of update tokens is made of. The store writes records of the same form into its queue for the
 * journal, so they pass from there to the file as they are.
 *
 *   0  type, see RecordType
 *   1  length of the key, 0..250
 *   2  length of the owner's tag, 0..64
 *   3  length of the peer's name, 0..64
 *   4  id: 8 bytes, below 2^53
 *  12  since when, Unix time in milliseconds: 8 bytes, a double
 *  20  key, owner, peer
 *
 * Numbers are little-endian. RELEASE has a key and an id, ID_LIMIT only an id, CLEAR nothing.
 */
export const RecordType = {
  /** The token is out. */
  GET: 1,
  /** The token was released, or dropped by an operator. */
  RELEASE: 2,
  /** No id above this one has been handed out. */
  ID_LIMIT: 3,
  /** All tokens were dropped. */
  CLEAR: 4,
} as const;

export type RecordType = typeof RecordType[keyof typeof RecordType];

/** Bytes in front of key, owner and peer. */
export const RECORD_HEADER_BYTES = 20;

const KEY_LENGTH_AT = 1;
const OWNER_LENGTH_AT = 2;
const PEER_LENGTH_AT = 3;
const ID_AT = 4;
const SINCE_AT = 12;

/** An update token that is out. */
export interface TokenRecord {
  readonly id: number;
  readonly key: Uint8Array;
  /** The tag that the writer chose; empty: none. */
  readonly owner: Uint8Array;
  /** Who asked for it, as an address. */
  readonly peer: Uint8Array;
  readonly sinceUnixMs: number;
}

const NOTHING = new Uint8Array();
const PASSED_OVER = -1;

/** A record's bytes. */
export function encodeRecord(
  type: RecordType,
  { id = 0, key = NOTHING, owner = NOTHING, peer = NOTHING, sinceUnixMs = 0 }: Partial<TokenRecord>,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(RECORD_HEADER_BYTES + key.length + owner.length + peer.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(0, type);
  view.setUint8(KEY_LENGTH_AT, key.length);
  view.setUint8(OWNER_LENGTH_AT, owner.length);
  view.setUint8(PEER_LENGTH_AT, peer.length);
  view.setBigUint64(ID_AT, BigInt(id), true);
  view.setFloat64(SINCE_AT, sinceUnixMs, true);
  bytes.set(key, RECORD_HEADER_BYTES);
  bytes.set(owner, RECORD_HEADER_BYTES + key.length);
  bytes.set(peer, RECORD_HEADER_BYTES + key.length + owner.length);
  return bytes;
}

/** The tokens that are out after some records, and the ids that may have been handed out. */
export class TokenSet {
  /** By id. */
  readonly tokens: Map<number, TokenRecord> = new Map();
  /** No id above it has been handed out; 0: nothing is known. */
  idLimit = 0;

  /**
   * Applies records in order. A record that was applied before changes nothing.
   *
   * @param except Records of this type are passed over.
   * @throws RangeError when the bytes are no whole number of known records.
   */
  apply(bytes: Uint8Array, except?: RecordType): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.length;) {
      if (bytes.length - at < RECORD_HEADER_BYTES) {
        throw new RangeError(`a record at byte ${at} is cut short`);
      }
      const keyAt = at + RECORD_HEADER_BYTES;
      const ownerAt = keyAt + view.getUint8(at + KEY_LENGTH_AT);
      const peerAt = ownerAt + view.getUint8(at + OWNER_LENGTH_AT);
      const end = peerAt + view.getUint8(at + PEER_LENGTH_AT);
      if (end > bytes.length) throw new RangeError(`a record at byte ${at} is cut short`);
      const id = Number(view.getBigUint64(at + ID_AT, true));
      const type = view.getUint8(at);
      switch (type === except ? PASSED_OVER : type) {
        case PASSED_OVER:
          break;
        case RecordType.GET:
          this.tokens.set(id, {
            id,
            key: bytes.slice(keyAt, ownerAt),
            owner: bytes.slice(ownerAt, peerAt),
            peer: bytes.slice(peerAt, end),
            sinceUnixMs: view.getFloat64(at + SINCE_AT, true),
          });
          break;
        case RecordType.RELEASE:
          this.tokens.delete(id);
          break;
        case RecordType.ID_LIMIT:
          this.idLimit = Math.max(this.idLimit, id);
          break;
        case RecordType.CLEAR:
          this.tokens.clear();
          break;
        default:
          throw new RangeError(`a record at byte ${at} has the unknown type ${type}`);
      }
      at = end;
    }
  }

  /** Records that make this set of nothing. */
  encode(): Uint8Array<ArrayBuffer>[] {
    return [
      encodeRecord(RecordType.ID_LIMIT, { id: this.idLimit }),
      ...[...this.tokens.values()].map((token) => encodeRecord(RecordType.GET, token)),
    ];
  }
}
