import * as limitsModule from "../../store/limits.ts";
import type { ThreadContext } from "../thread_context.ts";

const { INPUT_BYTES, KEY_LENGTH_MAX } = limitsModule;

// Hot path: no allocation.

const SPACE = 0x20;
const LF = 0x0a;
const ZERO = 0x30;
const LOWER_M = 0x6d;
const LOWER_S = 0x73;
/** "set " as a little-endian number. */
const SET_SPACE = 0x20746573;
/** "m", any letter, " ", and what is looked at of such a number. */
const META_MASK = 0x00ff00ff;
const META_WORD = (SPACE << 16) | LOWER_M;
/** No request with a key is shorter. */
const LINE_LENGTH_MIN = 5;
const CRLF_LENGTH = 2;

/**
 * Loads the items of the next requests, if they are of kinds that come in long rows: sets and meta
 * commands. It only guesses where they begin: who is wrong has loaded something in vain.
 *
 * @returns Where the first request begins that has not been looked at.
 */
export function loadAhead(thread: ThreadContext, start: number, end: number): number {
  const { input, cache } = thread;
  const { bytes, view } = input;
  const { prefetch } = cache;
  prefetch.clear();
  let at = start;
  while (!prefetch.full && end - at >= LINE_LENGTH_MIN) {
    const word = view.getInt32(at, true);
    const isSet = word === SET_SPACE;
    if (!isSet && (word & META_MASK) !== META_WORD) break;
    const keyOffset = at + (isSet ? 4 : 3);
    let lineEnd = keyOffset;
    while (lineEnd < end && bytes[lineEnd]! > SPACE) lineEnd++;
    const keyLength = lineEnd - keyOffset;
    if (keyLength === 0 || keyLength > KEY_LENGTH_MAX || lineEnd === end) break;
    // How many words there are up to the length of the data block.
    let words = isSet ? 3 : bytes[at + 1] === LOWER_S ? 1 : 0;
    const hasData = words > 0;
    let dataLength = 0;
    for (let byte = bytes[lineEnd]!; byte !== LF && lineEnd < end; byte = bytes[++lineEnd]!) {
      if (byte === SPACE) words--;
      else if (words === 0 && byte >= ZERO && dataLength < INPUT_BYTES) {
        dataLength = dataLength * 10 + byte - ZERO;
      }
    }
    prefetch.add(input, keyOffset, keyLength);
    at = lineEnd + 1 + (hasData ? dataLength + CRLF_LENGTH : 0);
  }
  if (prefetch.count > 1) prefetch.load();
  return at;
}
