import { LF, SPACE } from "../../store/base/bytes.ts";

/**
 * memcached's frames over UDP (doc/protocol.txt, "UDP protocol"). Every datagram starts with eight
 * bytes, in network order:
 *
 *   0  request id, chosen by the client and repeated in every datagram of the answer
 *   2  number of this datagram, from 0
 *   4  how many datagrams the message has
 *   6  reserved, 0
 *
 * A request must fit one datagram. As in memcached each reply is a message of its own: a multiget of three hits is
 * answered by three messages of one datagram each, if the values are small.
 */

export const UDP_HEADER_BYTES = 8;
/** Header included. */
export const UDP_DATAGRAM_BYTES_MAX = 1400;
export const UDP_PAYLOAD_BYTES_MAX = UDP_DATAGRAM_BYTES_MAX - UDP_HEADER_BYTES;
const DATAGRAMS_MAX = 0xffff;

const BINARY_REQUEST_MAGIC = 0x80;
const BINARY_REPLY_MAGIC = 0x81;
const BINARY_HEADER_BYTES = 24;
const BINARY_STAT = 0x10;

/**
 * Returns the id of the request datagram [start, end), or -1 if it must be dropped: it has no bytes behind the header,
 * or is one of several datagrams.
 */
export function udpRequestId(bytes: Uint8Array, start = 0, end: number = bytes.length): number {
  if (end - start <= UDP_HEADER_BYTES) return -1;
  return uint16(bytes, start + 4) === 1 ? uint16(bytes, start) : -1;
}

/** Writes a datagram's header. */
export function putUdpHeader(
  to: Uint8Array,
  at: number,
  requestId: number,
  number: number,
  datagramCount: number,
): void {
  putUint16(to, at, requestId);
  putUint16(to, at + 2, number);
  putUint16(to, at + 4, datagramCount);
  putUint16(to, at + 6, 0);
}

/** An empty frame, whose header says 0 of 0 datagrams. */
export function udpEmptyFrame(requestId: number): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(UDP_HEADER_BYTES);
  putUdpHeader(frame, 0, requestId, 0, 0);
  return frame;
}

/** Returns the number of datagrams for a reply of `length` bytes; 0 if it exceeds 16 bits: the reply is not sent. */
export function udpDatagramCount(length: number): number {
  const datagramCount = Math.ceil(length / UDP_PAYLOAD_BYTES_MAX);
  return datagramCount <= DATAGRAMS_MAX ? datagramCount : 0;
}

/** Cuts the replies to one request datagram into datagrams. */
export function* udpDatagrams(
  requestId: number,
  replies: Uint8Array,
): Generator<Uint8Array<ArrayBuffer>> {
  for (let start = 0; start < replies.length;) {
    const end = udpReplyEnd(replies, start, replies.length);
    const datagramCount = udpDatagramCount(end - start);
    for (let number = 0; number < datagramCount; number++) {
      const from = start + number * UDP_PAYLOAD_BYTES_MAX;
      const to = Math.min(from + UDP_PAYLOAD_BYTES_MAX, end);
      const datagram = new Uint8Array(UDP_HEADER_BYTES + to - from);
      putUdpHeader(datagram, 0, requestId, number, datagramCount);
      datagram.set(replies.subarray(from, to), UDP_HEADER_BYTES);
      yield datagram;
    }
    start = end;
  }
}

/** Returns the end of the complete binary request at the start of the payload [start, end), or 0 without one. */
export function binaryRequestEnd(bytes: Uint8Array, start: number, end: number): number {
  if (bytes[start] !== BINARY_REQUEST_MAGIC || end - start < BINARY_HEADER_BYTES) return 0;
  const requestEnd = start + BINARY_HEADER_BYTES + uint32(bytes, start + 8);
  return requestEnd <= end ? requestEnd : 0;
}

/** Returns the end of the reply that starts at `start`, among replies that end at `end`. */
export function udpReplyEnd(replies: Uint8Array, start: number, end: number): number {
  const found = replies[start] === BINARY_REPLY_MAGIC
    ? binaryReplyEnd(replies, start, end)
    : textReplyEnd(replies, start, end);
  return Math.min(found, end);
}

/** A packet; all packets of a `stat` request count as one reply. */
function binaryReplyEnd(replies: Uint8Array, start: number, end: number): number {
  for (let at = start;;) {
    if (at + BINARY_HEADER_BYTES > end) return end;
    const bodyBytes = uint32(replies, at + 8);
    const isLast = replies[at + 1] !== BINARY_STAT || bodyBytes === 0;
    at += BINARY_HEADER_BYTES + bodyBytes;
    if (isLast) return at;
  }
}

/** A line; with its data block, if it has one; a list of statistics up to its END; END together with the last value. */
function textReplyEnd(replies: Uint8Array, start: number, end: number): number {
  const lineEnd = endOfLine(replies, start, end);
  if (startsWith(replies, start, "VALUE ")) {
    const valueEnd = lineEnd + wordNumber(replies, start, 3) + 2;
    return valueEnd < end && startsWith(replies, valueEnd, "END\r\n") ? valueEnd + 5 : valueEnd;
  }
  if (startsWith(replies, start, "VA ")) return lineEnd + wordNumber(replies, start, 1) + 2;
  if (!startsList(replies, start)) return lineEnd;
  let at = lineEnd;
  while (at < end && !startsWith(replies, at, "END\r\n")) at = endOfLine(replies, at, end);
  return endOfLine(replies, at, end);
}

/** Whether the line is of a reply with many lines that ends by END. */
function startsList(replies: Uint8Array, start: number): boolean {
  return startsWith(replies, start, "STAT ") || startsWith(replies, start, "ITEM ") ||
    startsWith(replies, start, "PREFIX ");
}

function endOfLine(bytes: Uint8Array, start: number, end: number): number {
  const at = bytes.indexOf(LF, start);
  return at < 0 || at >= end ? end : at + 1;
}

function uint16(bytes: Uint8Array, at: number): number {
  return (bytes[at]! << 8) | bytes[at + 1]!;
}

function uint32(bytes: Uint8Array, at: number): number {
  return uint16(bytes, at) * 0x10000 + uint16(bytes, at + 2);
}

function putUint16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >> 8;
  bytes[at + 1] = value;
}

function startsWith(bytes: Uint8Array, start: number, word: string): boolean {
  for (let index = 0; index < word.length; index++) {
    if (bytes[start + index] !== word.charCodeAt(index)) return false;
  }
  return true;
}

/** Reads word `index` of the line at `start` as a number. */
function wordNumber(bytes: Uint8Array, start: number, index: number): number {
  let at = start;
  for (let word = 0; word < index; word++) at = bytes.indexOf(SPACE, at) + 1;
  let number = 0;
  for (; bytes[at]! >= 0x30 && bytes[at]! <= 0x39; at++) number = number * 10 + bytes[at]! - 0x30;
  return number;
}
