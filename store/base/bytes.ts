// Hot path: nothing here allocates once V8 has optimised it, except where a comment says so.

// Bytes of text protocols.
export const LF = 0x0a;
export const CR = 0x0d;
export const SPACE = 0x20;
const DELETE = 0x7f;
/** "\r\n" as a little-endian number. */
export const CRLF = 0x0a0d;
/** In bytes. */
export const CRLF_LENGTH = 2;

/** A key, in bytes of `input`: 1..250 long, checked by the parser. */
export interface KeyBytes {
  readonly input: ByteRegion;
  readonly keyOffset: number;
  readonly keyLength: number;
}

/** A range of bytes as an array and as a DataView. Offsets count from the range's start. */
export class ByteRegion {
  readonly bytes: Uint8Array;
  readonly view: DataView;

  constructor(buffer: ArrayBufferLike, offset = 0, length = buffer.byteLength - offset) {
    this.bytes = new Uint8Array(buffer, offset, length);
    this.view = new DataView(buffer, offset, length);
  }
}

/** Up to this length the loop over 8-byte words is fastest; above it `set` is, which allocates about 100 bytes. */
const WORD_LOOP_BYTES_MAX = 1024;

/** Copies `length` bytes. The regions may share memory; the source and the target must not overlap. */
export function copyBytes(
  to: ByteRegion,
  toOffset: number,
  from: ByteRegion,
  fromOffset: number,
  length: number,
): void {
  if (length > WORD_LOOP_BYTES_MAX) {
    if (to === from) {
      to.bytes.copyWithin(toOffset, fromOffset, fromOffset + length);
    } else {
      to.bytes.set(from.bytes.subarray(fromOffset, fromOffset + length), toOffset);
    }
    return;
  }
  if (length >= 8) {
    const toView = to.view;
    const fromView = from.view;
    // The last word may overlap the one before it.
    const last = length - 8;
    for (let done = 0; done < last; done += 8) {
      toView.setBigInt64(toOffset + done, fromView.getBigInt64(fromOffset + done, true), true);
    }
    toView.setBigInt64(toOffset + last, fromView.getBigInt64(fromOffset + last, true), true);
    return;
  }
  const toBytes = to.bytes;
  const fromBytes = from.bytes;
  for (let done = 0; done < length; done++) {
    toBytes[toOffset + done] = fromBytes[fromOffset + done]!;
  }
}

/** Whether two stretches of `length` bytes are equal. */
export function equalBytes(
  a: ByteRegion,
  aOffset: number,
  b: ByteRegion,
  bOffset: number,
  length: number,
): boolean {
  const aView = a.view;
  const bView = b.view;
  let done = 0;
  for (; done + 4 <= length; done += 4) {
    if (aView.getInt32(aOffset + done, true) !== bView.getInt32(bOffset + done, true)) return false;
  }
  const aBytes = a.bytes;
  const bBytes = b.bytes;
  for (; done < length; done++) if (aBytes[aOffset + done] !== bBytes[bOffset + done]) return false;
  return true;
}

/** Whether the bytes [start, end) have no blank and no control character: a line can have them as a word. */
export function isOneWord(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    if (bytes[at]! <= SPACE || bytes[at] === DELETE) return false;
  }
  return true;
}

/** Bytes converted at a time: a function takes a limited number of arguments. */
const TEXT_PIECE_LENGTH = 8192;

/** Converts bytes to characters below 256 (ISO 8859-1). Allocates: not for the hot path. */
export function latin1Text(bytes: Uint8Array, offset = 0, length = bytes.length): string {
  if (length <= TEXT_PIECE_LENGTH) return characters(bytes.subarray(offset, offset + length));
  let text = "";
  for (let at = offset; at < offset + length; at += TEXT_PIECE_LENGTH) {
    text += characters(bytes.subarray(at, Math.min(at + TEXT_PIECE_LENGTH, offset + length)));
  }
  return text;
}

/** Spread arguments would take ten times as long. */
function characters(bytes: Uint8Array): string {
  return String.fromCharCode.apply(null, bytes as unknown as number[]);
}

/** Converts characters, which must be below 256, to bytes. */
export function latin1Bytes(text: string): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) bytes[at] = text.charCodeAt(at);
  return bytes;
}

/** Returns the pieces as one array, in memory that does not move. */
export function concatBytes(pieces: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const bytes = new Uint8Array(new ArrayBuffer(length));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

/** C's isspace. */
export function isBlank(byte: number): boolean {
  return byte === 0x20 || (byte >= 9 && byte <= 13);
}
