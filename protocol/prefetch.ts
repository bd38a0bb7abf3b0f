import * as bytesModule from "../store/base/bytes.ts";
import * as limitsModule from "../store/limits.ts";
import * as binaryHeaderModule from "./binary_header.ts";
import type { RequestThread } from "./thread_context.ts";

const { CRLF, CRLF_LENGTH, LF, SPACE } = bytesModule;
const { HEADER_LENGTH, REQUEST_MAGIC } = binaryHeaderModule;
const { INPUT_BYTES, KEY_LENGTH_MAX } = limitsModule;

// Prefetch for pipelined requests: each function collects the keys of the next requests of one kind in
// `cache.prefetch`, loads their items if there are several, and returns where the first request begins that was not
// collected. A line of several keys is prefetched by `MultigetTask`.
//
// Hot path: no allocation.

const ZERO = 0x30;
const LOWER_M = 0x6d;
const LOWER_S = 0x73;
// Little-endian pieces of command lines.
const GET_SPACE = 0x20746567; // "get "
const SET_SPACE = 0x20746573; // "set "
/** "m", any letter, " ": the bits that are compared, and their values. */
const META_MASK = 0x00ff00ff;
const META_WORD = (SPACE << 16) | LOWER_M;
/** No storage or meta line with a key is shorter. */
const LINE_LENGTH_MIN = 5;
/** Offsets of the key in the line. */
const KEY_OF_GET = 4;
const KEY_OF_SET = 4;
const KEY_OF_META = 3;

/**
 * Collects plain get lines: `get`, one blank, one key, CR LF. All collected requests are complete and well-formed.
 * Returns `start` if the first line is of another kind.
 */
export function prefetchGets(thread: RequestThread, start: number, end: number): number {
  const { input, cache } = thread;
  const { bytes, view } = input;
  const { prefetch } = cache;
  prefetch.begin(input);
  let at = start;
  do {
    const keyOffset = at + KEY_OF_GET;
    let keyEnd = keyOffset;
    while (keyEnd < end && bytes[keyEnd]! > SPACE) keyEnd++;
    if (end - keyEnd < CRLF_LENGTH || view.getInt16(keyEnd, true) !== CRLF) break;
    const keyLength = keyEnd - keyOffset;
    if (keyLength === 0 || keyLength > KEY_LENGTH_MAX) break;
    prefetch.add(keyOffset, keyLength);
    at = keyEnd + CRLF_LENGTH;
  } while (!prefetch.full && end - at > KEY_OF_GET && view.getInt32(at, true) === GET_SPACE);
  if (prefetch.count > 1) prefetch.load();
  return at;
}

/**
 * Collects set lines and meta commands. The start of a request is a guess from the length in the line before: a wrong
 * guess only wastes a prefetch.
 */
export function prefetchLines(thread: RequestThread, start: number, end: number): number {
  const { input, cache } = thread;
  const { bytes, view } = input;
  const { prefetch } = cache;
  prefetch.begin(input);
  let at = start;
  while (!prefetch.full && end - at >= LINE_LENGTH_MIN) {
    const word = view.getInt32(at, true);
    const isSet = word === SET_SPACE;
    if (!isSet && (word & META_MASK) !== META_WORD) break;
    const keyOffset = at + (isSet ? KEY_OF_SET : KEY_OF_META);
    let lineEnd = keyOffset;
    while (lineEnd < end && bytes[lineEnd]! > SPACE) lineEnd++;
    const keyLength = lineEnd - keyOffset;
    if (keyLength === 0 || keyLength > KEY_LENGTH_MAX || lineEnd === end) break;
    // Words up to the length of the data block; meta commands but ms have none.
    let words = isSet ? 3 : bytes[at + 1] === LOWER_S ? 1 : 0;
    const hasData = words > 0;
    let dataLength = 0;
    for (let byte = bytes[lineEnd]!; byte !== LF && lineEnd < end; byte = bytes[++lineEnd]!) {
      if (byte === SPACE) words--;
      else if (words === 0 && byte >= ZERO && dataLength < INPUT_BYTES) {
        dataLength = dataLength * 10 + byte - ZERO;
      }
    }
    prefetch.add(keyOffset, keyLength);
    at = lineEnd + 1 + (hasData ? dataLength + CRLF_LENGTH : 0);
  }
  if (prefetch.count > 1) prefetch.load();
  return at;
}

/** How binary requests with a key are prefetched, by opcode. */
export const PacketKind = {
  /** Not at all. */
  NONE: 0,
  /** Any request with a key. */
  KEYED: 1,
  /** A request that is a header and a key: those collected are complete and well-formed. */
  KEY_ONLY: 2,
} as const;

export type PacketKind = typeof PacketKind[keyof typeof PacketKind];

/**
 * Collects binary requests of one kind whose keys have arrived.
 *
 * @param kinds The PacketKind of every opcode.
 */
export function prefetchPackets(
  thread: RequestThread,
  start: number,
  end: number,
  kinds: Uint8Array,
  kind: PacketKind,
): number {
  const { input, cache } = thread;
  const { bytes, view } = input;
  const { prefetch } = cache;
  prefetch.begin(input);
  let at = start;
  while (!prefetch.full && end - at >= HEADER_LENGTH) {
    const word = view.getInt32(at);
    if (word >>> 24 !== REQUEST_MAGIC || kinds[(word >>> 16) & 0xff] !== kind) break;
    const keyLength = word & 0xffff;
    const bodyLength = view.getInt32(at + 8);
    const keyOffset = at + HEADER_LENGTH + bytes[at + 4]!;
    const next = at + HEADER_LENGTH + bodyLength;
    if (keyLength === 0 || keyLength > KEY_LENGTH_MAX) break;
    if (keyOffset + keyLength > Math.min(next, end)) break;
    if (kind === PacketKind.KEY_ONLY && bodyLength !== keyLength) break;
    prefetch.add(keyOffset, keyLength);
    at = next;
  }
  if (prefetch.count > 1) prefetch.load();
  return at;
}
