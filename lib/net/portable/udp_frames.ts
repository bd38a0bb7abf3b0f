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
const UDP_PAYLOAD_BYTES_MAX = UDP_DATAGRAM_BYTES_MAX - UDP_HEADER_BYTES;
const DATAGRAMS_MAX = 0xffff;

const SPACE = 0x20;
const LF = 0x0a;
const BINARY_REQUEST_MAGIC = 0x80;
const BINARY_REPLY_MAGIC = 0x81;
const BINARY_HEADER_BYTES = 24;
const BINARY_STAT = 0x10;

/** The id of a request that may be executed, or -1: no bytes behind the header, or spread over several datagrams. */
export function udpRequestId(datagram: Uint8Array): number {
  if (datagram.length <= UDP_HEADER_BYTES) return -1;
  const datagramCount = (datagram[4]! << 8) | datagram[5]!;
  return datagramCount === 1 ? (datagram[0]! << 8) | datagram[1]! : -1;
}

/** The datagrams that carry `replies`, the answers to one request datagram. */
export function* udpDatagrams(
  requestId: number,
  replies: Uint8Array,
): Generator<Uint8Array<ArrayBuffer>> {
  for (let start = 0; start < replies.length;) {
    const end = replyEnd(replies, start);
    const datagramCount = Math.ceil((end - start) / UDP_PAYLOAD_BYTES_MAX);
    // A datagram's number has 16 bits.
    for (let number = 0; number < datagramCount && datagramCount <= DATAGRAMS_MAX; number++) {
      const from = start + number * UDP_PAYLOAD_BYTES_MAX;
      const to = Math.min(from + UDP_PAYLOAD_BYTES_MAX, end);
      const datagram = new Uint8Array(UDP_HEADER_BYTES + to - from);
      const header = new DataView(datagram.buffer);
      header.setUint16(0, requestId);
      header.setUint16(2, number);
      header.setUint16(4, datagramCount);
      datagram.set(replies.subarray(from, to), UDP_HEADER_BYTES);
      yield datagram;
    }
    start = end;
  }
}

/** A frame that carries nothing, and counts as none of 0 datagrams. */
export function udpEmptyFrame(requestId: number): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(UDP_HEADER_BYTES);
  new DataView(frame.buffer).setUint16(0, requestId);
  return frame;
}

/** Where the complete binary request at the start of a payload ends; 0: there is none. */
export function binaryRequestEnd(payload: Uint8Array): number {
  if (payload[0] !== BINARY_REQUEST_MAGIC || payload.length < BINARY_HEADER_BYTES) return 0;
  const view = new DataView(payload.buffer, payload.byteOffset, payload.byteLength);
  const end = BINARY_HEADER_BYTES + view.getUint32(8);
  return end <= payload.length ? end : 0;
}

/** Where the reply that starts at `start` ends. */
function replyEnd(replies: Uint8Array, start: number): number {
  const end = replies[start] === BINARY_REPLY_MAGIC
    ? binaryReplyEnd(replies, start)
    : textReplyEnd(replies, start);
  return Math.min(end, replies.length);
}

/** A packet; all packets of a `stat` request count as one reply. */
function binaryReplyEnd(replies: Uint8Array, start: number): number {
  const view = new DataView(replies.buffer, replies.byteOffset, replies.byteLength);
  for (let at = start;;) {
    if (at + BINARY_HEADER_BYTES > replies.length) return replies.length;
    const bodyBytes = view.getUint32(at + 8);
    const isLast = view.getUint8(at + 1) !== BINARY_STAT || bodyBytes === 0;
    at += BINARY_HEADER_BYTES + bodyBytes;
    if (isLast) return at;
  }
}

/** A line; with its data block, if it has one; a list of statistics up to its END; END together with the last value. */
function textReplyEnd(replies: Uint8Array, start: number): number {
  const lineEnd = endOfLine(replies, start);
  if (startsWith(replies, start, "VALUE ")) {
    const end = lineEnd + wordNumber(replies, start, 3) + 2;
    return startsWith(replies, end, "END\r\n") ? end + 5 : end;
  }
  if (startsWith(replies, start, "VA ")) return lineEnd + wordNumber(replies, start, 1) + 2;
  if (!LIST_WORDS.some((word) => startsWith(replies, start, word))) return lineEnd;
  let at = lineEnd;
  while (at < replies.length && !startsWith(replies, at, "END\r\n")) at = endOfLine(replies, at);
  return endOfLine(replies, at);
}

/** First words of replies that end with END. */
const LIST_WORDS = ["STAT ", "ITEM ", "PREFIX "];

function endOfLine(bytes: Uint8Array, start: number): number {
  const at = bytes.indexOf(LF, start);
  return at < 0 ? bytes.length : at + 1;
}

function startsWith(bytes: Uint8Array, start: number, word: string): boolean {
  for (let index = 0; index < word.length; index++) {
    if (bytes[start + index] !== word.charCodeAt(index)) return false;
  }
  return true;
}

/** The number that is word `index` of the line at `start`. */
function wordNumber(bytes: Uint8Array, start: number, index: number): number {
  let at = start;
  for (let word = 0; word < index; word++) at = bytes.indexOf(SPACE, at) + 1;
  let number = 0;
  for (; bytes[at]! >= 0x30 && bytes[at]! <= 0x39; at++) number = number * 10 + bytes[at]! - 0x30;
  return number;
}
