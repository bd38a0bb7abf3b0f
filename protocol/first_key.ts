import * as limitsModule from "../store/limits.ts";
import * as binaryRepliesModule from "./binary/replies.ts";
import * as binaryRequestModule from "./binary/request.ts";
import type { ThreadContext } from "./thread_context.ts";

// Copies of imported constants: the engine folds only a module's own constants into its code.
const { HEADER_LENGTH } = binaryRepliesModule;
const { REQUEST_MAGIC } = binaryRequestModule;
const { KEY_LENGTH_MAX } = limitsModule;

// Hot path: no allocation.

const SPACE = 0x20;
// Of a binary request.
const KEY_LENGTH_AT = 2;
const EXTRAS_LENGTH_AT = 4;

/**
 * Adds the key of the first request in the thread's input [start, end) to the lookahead, which must
 * have room. It only guesses: in text it is the second word. Who is wrong has loaded something in
 * vain.
 */
export function addFirstKey(thread: ThreadContext, start: number, end: number): void {
  const { input, cache } = thread;
  const { bytes, view } = input;
  let keyOffset = start;
  let keyEnd: number;
  if (bytes[start] === REQUEST_MAGIC) {
    if (end - start < HEADER_LENGTH) return;
    keyOffset += HEADER_LENGTH + bytes[start + EXTRAS_LENGTH_AT]!;
    keyEnd = keyOffset + view.getUint16(start + KEY_LENGTH_AT);
  } else {
    while (keyOffset < end && bytes[keyOffset]! > SPACE) keyOffset++;
    keyOffset++;
    keyEnd = keyOffset;
    while (keyEnd < end && bytes[keyEnd]! > SPACE) keyEnd++;
  }
  const keyLength = keyEnd - keyOffset;
  if (keyLength <= 0 || keyLength > KEY_LENGTH_MAX || keyEnd > end) return;
  cache.prefetch.add(input, keyOffset, keyLength);
}
