import { Status } from "../../../protocol/binary_status.ts";
import { latin1Bytes } from "../../rows/bytes.ts";

/** The first byte of a binary request. */
export const REQUEST_MAGIC = 0x80;
const REPLY_MAGIC = 0x81;
/** Of requests and replies, in bytes. */
export const HEADER_LENGTH = 24;

/** The header of a request. */
export interface Header {
  readonly opcode: number;
  readonly keyLength: number;
  readonly extrasLength: number;
  /** Extras, key and value. */
  readonly bodyLength: number;
  /** Repeated in every reply. */
  readonly opaque: number;
  /** 64 bits; 0: none. */
  readonly casId: bigint;
}

/** Reads a header of 24 bytes, numbers in network order (`protocol/binary/request.ts`). */
export function readHeader(bytes: Uint8Array): Header {
  const view = new DataView(bytes.buffer, bytes.byteOffset, HEADER_LENGTH);
  return {
    opcode: view.getUint8(1),
    keyLength: view.getUint16(2),
    extrasLength: view.getUint8(4),
    bodyLength: view.getUint32(8),
    opaque: view.getUint32(12),
    casId: view.getBigUint64(16),
  };
}

/** The parts of a reply that are not empty. */
export interface ReplyParts {
  readonly status?: Status;
  readonly extras?: Uint8Array;
  /** One character a byte. */
  readonly key?: string;
  readonly value?: Uint8Array;
  readonly casId?: number;
}

const NOTHING = new Uint8Array(0);

/** Returns a reply to a request. */
export function replyFrame(
  { opcode, opaque }: Header,
  { status = Status.OK, extras = NOTHING, key = "", value = NOTHING, casId = 0 }: ReplyParts,
): Uint8Array {
  const keyBytes = latin1Bytes(key);
  const bodyLength = extras.length + keyBytes.length + value.length;
  const frame = new Uint8Array(HEADER_LENGTH + bodyLength);
  const view = new DataView(frame.buffer);
  view.setUint8(0, REPLY_MAGIC);
  view.setUint8(1, opcode);
  view.setUint16(2, keyBytes.length);
  view.setUint8(4, extras.length);
  view.setUint16(6, status);
  view.setUint32(8, bodyLength);
  view.setUint32(12, opaque);
  view.setBigUint64(16, BigInt(casId));
  frame.set(extras, HEADER_LENGTH);
  frame.set(keyBytes, HEADER_LENGTH + extras.length);
  frame.set(value, HEADER_LENGTH + extras.length + keyBytes.length);
  return frame;
}

/** Returns a 32-bit number in network order. */
export function uint32Bytes(number: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, number);
  return bytes;
}

/** Returns a 64-bit number in network order. */
export function uint64Bytes(number: bigint): Uint8Array {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setBigUint64(0, number);
  return bytes;
}
