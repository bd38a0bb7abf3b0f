import { u64ToNumber } from "../../store/base/u64.ts";
import { TOKEN_RECORD as RECORD, TokenRecordType } from "../../store/setup.ts";

/** An update token that is out. */
export interface TokenRecord {
  readonly id: number;
  readonly key: Uint8Array;
  /** The writer's tag; empty: none. */
  readonly owner: Uint8Array;
  /** Address of the client that took it. */
  readonly peer: Uint8Array;
  readonly sinceUnixSec: number;
}

const NOTHING = new Uint8Array();
const PASSED_OVER = -1;

/** Encodes a record. */
export function encodeRecord(
  type: TokenRecordType,
  { id = 0, key = NOTHING, owner = NOTHING, peer = NOTHING, sinceUnixSec = 0 }: Partial<
    TokenRecord
  >,
): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(RECORD.DATA + key.length + owner.length + peer.length);
  const view = new DataView(bytes.buffer);
  view.setUint8(RECORD.TYPE, type);
  view.setUint8(RECORD.KEY_LENGTH, key.length);
  view.setUint8(RECORD.OWNER_LENGTH, owner.length);
  view.setUint8(RECORD.PEER_LENGTH, peer.length);
  view.setBigUint64(RECORD.ID, BigInt(id), true);
  view.setFloat64(RECORD.SINCE, sinceUnixSec, true);
  bytes.set(key, RECORD.DATA);
  bytes.set(owner, RECORD.DATA + key.length);
  bytes.set(peer, RECORD.DATA + key.length + owner.length);
  return bytes;
}

/** Returns where the record at an offset ends. */
export function recordEnd(bytes: Uint8Array, at: number): number {
  return at + RECORD.DATA + bytes[at + RECORD.KEY_LENGTH]! + bytes[at + RECORD.OWNER_LENGTH]! +
    bytes[at + RECORD.PEER_LENGTH]!;
}

/** The state after a sequence of records: the tokens that are out, and the ids that may have been handed out. */
export class TokenSet {
  /** The records of the tokens that are out, by id. */
  readonly #records = new Map<number, Uint8Array<ArrayBuffer>>();
  /** No id above it has been handed out; 0: unknown. */
  idLimit = 0;
  /** Whether all keys are in quarantine, by an operator or a start without the journal. */
  isQuarantined = false;

  /** The ids of the tokens that are out. */
  get ids(): Iterable<number> {
    return this.#records.keys();
  }

  /** The tokens that are out. */
  get tokens(): TokenRecord[] {
    return [...this.#records.values()].map(decodeToken);
  }

  /** The highest id in these records. */
  get highestId(): number {
    let highest = this.idLimit;
    for (const id of this.#records.keys()) highest = Math.max(highest, id);
    return highest;
  }

  /**
   * Applies records in order. A record that was applied before changes nothing.
   *
   * @param except Type of the records to skip.
   * @throws RangeError when a record is cut short or has an unknown type.
   */
  apply(bytes: Uint8Array, except?: TokenRecordType): void {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.length;) {
      if (bytes.length - at < RECORD.DATA) {
        throw new RangeError(`a record at byte ${at} is cut short`);
      }
      const end = recordEnd(bytes, at);
      if (end > bytes.length) throw new RangeError(`a record at byte ${at} is cut short`);
      const id = idAt(view, at);
      const type = view.getUint8(at + RECORD.TYPE);
      switch (type === except ? PASSED_OVER : type) {
        case PASSED_OVER:
          break;
        case TokenRecordType.GET:
          this.#records.set(id, bytes.slice(at, end));
          break;
        case TokenRecordType.RELEASE:
          this.#records.delete(id);
          break;
        case TokenRecordType.ID_LIMIT:
          this.idLimit = Math.max(this.idLimit, id);
          break;
        case TokenRecordType.QUARANTINE_ON:
        case TokenRecordType.QUARANTINE_OFF:
          this.isQuarantined = type === TokenRecordType.QUARANTINE_ON;
          break;
        default:
          throw new RangeError(`a record at byte ${at} has the unknown type ${type}`);
      }
      at = end;
    }
  }

  /** Returns the records that build this state from an empty one. */
  encode(): Uint8Array<ArrayBuffer>[] {
    return [
      encodeRecord(TokenRecordType.ID_LIMIT, { id: this.idLimit }),
      ...this.isQuarantined ? [encodeRecord(TokenRecordType.QUARANTINE_ON, {})] : [],
      ...this.#records.values(),
    ];
  }
}

/** The id of the record at an offset. */
function idAt(view: DataView, at: number): number {
  return u64ToNumber(view.getInt32(at + RECORD.ID, true), view.getInt32(at + RECORD.ID + 4, true));
}

function decodeToken(record: Uint8Array): TokenRecord {
  const view = new DataView(record.buffer, record.byteOffset, record.byteLength);
  const ownerAt = RECORD.DATA + record[RECORD.KEY_LENGTH]!;
  const peerAt = ownerAt + record[RECORD.OWNER_LENGTH]!;
  return {
    id: idAt(view, 0),
    key: record.slice(RECORD.DATA, ownerAt),
    owner: record.slice(ownerAt, peerAt),
    peer: record.slice(peerAt),
    sinceUnixSec: view.getFloat64(RECORD.SINCE, true),
  };
}
