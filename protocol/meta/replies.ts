import { encodeBase64 } from "../base64.ts";
import { FLAG } from "./request.ts";
import { META } from "../replies.ts";
import { putDecimal } from "../../store/base/decimal.ts";
import type { ReplyBuffer } from "../reply_buffer.ts";
import type { ThreadContext } from "../thread_context.ts";

// Hot path: no allocation.

const SPACE = 0x20;

/** A flag with a number. */
export function putUint32Flag(reply: ReplyBuffer, letter: number, value: number): void {
  const { bytes } = reply.region;
  const at = reply.length;
  bytes[at] = SPACE;
  bytes[at + 1] = letter;
  reply.length = putDecimal(bytes, at + 2, value);
}

/** As `putUint32Flag`, for a number in two int32 halves. */
export function putU64Flag(reply: ReplyBuffer, letter: number, low: number, high: number): void {
  reply.byte(SPACE);
  reply.byte(letter);
  reply.decimalU64(low, high);
}

/** O, as it came. */
export function putOpaque(thread: ThreadContext, word: number): void {
  const { reply, request, input } = thread;
  reply.byte(SPACE);
  reply.copy(input, request.wordStart[word]!, request.wordLength(word));
}

/** k: the key, if `binary` in base64. */
export function putKey(thread: ThreadContext, binary: boolean): void {
  const { reply, meta, input } = thread;
  reply.byte(SPACE);
  reply.byte(FLAG.k);
  if (!binary) {
    reply.copy(input, meta.keyOffset, meta.keyLength);
    return;
  }
  const { bytes } = reply.region;
  reply.length += encodeBase64(input.bytes, meta.keyOffset, meta.keyLength, bytes, reply.length);
  reply.put(META.KEY_BINARY);
}
