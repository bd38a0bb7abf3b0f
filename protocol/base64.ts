// Hot path: no allocation.

const ALPHABET = new TextEncoder().encode(
  "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
);
const PAD = 0x3d;
const NO_DIGIT = 0xff;

const DIGIT = new Uint8Array(256).fill(NO_DIGIT);
ALPHABET.forEach((character, digit) => DIGIT[character] = digit);

/**
 * Decodes the bytes [start, end), which must be whole groups of four, padded at the end only.
 *
 * @returns How many bytes were written from `toOffset` on; -1 when it is no base64.
 */
export function decodeBase64(
  from: Uint8Array,
  start: number,
  end: number,
  to: Uint8Array,
  toOffset: number,
): number {
  if (((end - start) & 3) !== 0) return -1;
  let pads = 0;
  while (pads < 2 && end - pads > start && from[end - 1 - pads] === PAD) pads++;
  let at = toOffset;
  for (let group = start; group < end; group += 4) {
    let bits = 0;
    for (let index = group; index < group + 4; index++) {
      const digit = index >= end - pads ? 0 : DIGIT[from[index]!]!;
      if (digit === NO_DIGIT) return -1;
      bits = (bits << 6) | digit;
    }
    to[at] = bits >> 16;
    to[at + 1] = (bits >> 8) & 0xff;
    to[at + 2] = bits & 0xff;
    at += 3;
  }
  return at - pads - toOffset;
}

/** Encodes `length` bytes, with padding. @returns How many bytes were written from `toOffset` on. */
export function encodeBase64(
  from: Uint8Array,
  start: number,
  length: number,
  to: Uint8Array,
  toOffset: number,
): number {
  let at = toOffset;
  const end = start + length;
  for (let index = start; index < end; index += 3) {
    const second = index + 1 < end;
    const third = index + 2 < end;
    const bits = (from[index]! << 16) | (second ? from[index + 1]! << 8 : 0) |
      (third ? from[index + 2]! : 0);
    to[at] = ALPHABET[bits >> 18]!;
    to[at + 1] = ALPHABET[(bits >> 12) & 63]!;
    to[at + 2] = second ? ALPHABET[(bits >> 6) & 63]! : PAD;
    to[at + 3] = third ? ALPHABET[bits & 63]! : PAD;
    at += 4;
  }
  return at - toOffset;
}
