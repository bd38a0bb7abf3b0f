import type { ByteRegion } from "./bytes.ts";

// Hot path: no allocation.

const C1 = 0xcc9e2d51 | 0;
const C2 = 0x1b873593;

/**
 * A seeded 32-bit hash of a key (murmur3's mixing, Austin Appleby, public domain).
 *
 * @param length 1..250 bytes.
 */
export function hashKey(input: ByteRegion, offset: number, length: number, seed: number): number {
  const view = input.view;
  let hash = seed;
  let at = offset;
  const end = offset + length;
  for (; at + 4 <= end; at += 4) {
    let word = Math.imul(view.getInt32(at, true), C1);
    word = (word << 15) | (word >>> 17);
    hash ^= Math.imul(word, C2);
    hash = (hash << 13) | (hash >>> 19);
    hash = (Math.imul(hash, 5) + 0xe6546b64) | 0;
  }
  let rest = 0;
  const bytes = input.bytes;
  for (let shift = 0; at < end; at++, shift += 8) rest |= bytes[at]! << shift;
  rest = Math.imul(rest, C1);
  rest = (rest << 15) | (rest >>> 17);
  hash ^= Math.imul(rest, C2);
  hash ^= length;
  hash ^= hash >>> 16;
  hash = Math.imul(hash, 0x85ebca6b);
  hash ^= hash >>> 13;
  hash = Math.imul(hash, 0xc2b2ae35);
  return hash ^ (hash >>> 16);
}
