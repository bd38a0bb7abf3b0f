import * as bytesModule from "../../store/base/bytes.ts";
import { encodeBase64 } from "../base64.ts";
import type { MetaRequest } from "./request.ts";
import * as flagsModule from "./flags.ts";
import * as metaRequestModule from "./request.ts";
import type { Outcome } from "../../store/outcome.ts";
import * as repliesModule from "../reply/replies.ts";
import { putDecimal } from "../../store/base/decimal.ts";
import type { ReplyBuffer } from "../reply/reply_buffer.ts";
import type { RequestThread } from "../thread_context.ts";

const { SPACE } = bytesModule;
const { FLAG } = flagsModule;
const { FIRST_FLAG } = metaRequestModule;
const { META, META_CODE, OUTCOME_LINE } = repliesModule;

// Hot path: no allocation.

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
function putOpaque(thread: RequestThread, word: number): void {
  const { reply, request, input } = thread;
  reply.byte(SPACE);
  reply.copy(input, request.wordStart[word]!, request.wordLength(word));
}

/**
 * Whether a reply shows the request's key in base64, even if the item was stored under it as a word. The database does
 * not know how a row's key came.
 */
export function isShownInBase64(meta: MetaRequest): boolean {
  return meta.isBinary && (meta.needsBase64 || meta.thread.cache.isRow(meta));
}

/** k: the key, if `binary` in base64. */
function putKey(meta: MetaRequest, binary: boolean): void {
  const { reply, input } = meta.thread;
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

/** Puts a flag that only returns what the request said: O or k. Puts nothing for any other flag. */
export function putEchoedFlag(meta: MetaRequest, word: number, isKeyBinary: boolean): void {
  const { thread } = meta;
  const letter = meta.letter(word);
  if (letter === FLAG.O) putOpaque(thread, word);
  else if (letter === FLAG.k) putKey(meta, isKeyBinary);
}

/** Puts the flags O and k of a reply without an item. */
export function putEchoedFlags(meta: MetaRequest): void {
  const { request } = meta.thread;
  for (let word = FIRST_FLAG; word < request.wordCount; word++) {
    putEchoedFlag(meta, word, meta.isBinary);
  }
}

/** t. @param remainSec Below 0: for ever. */
export function putTtl(thread: RequestThread, remainSec: number): void {
  if (remainSec < 0) thread.reply.put(META.TTL_NEVER);
  else putUint32Flag(thread.reply, FLAG.t, remainSec);
}

/** Puts the code of an outcome, or its whole line. @returns Whether flags follow. */
export function putCode(thread: RequestThread, outcome: Outcome, quiet: boolean): boolean {
  const code = META_CODE[outcome];
  if (code === null) {
    thread.reply.put(OUTCOME_LINE[outcome]);
    return false;
  }
  if (quiet && code === META.HD) return false;
  thread.reply.put(code);
  return true;
}
