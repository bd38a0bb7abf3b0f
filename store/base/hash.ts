import type { ByteRegion } from "./bytes.ts";

// Hot path: no allocation.

const INITIAL_2 = 0x6c796765;
const INITIAL_3 = 0x74656462;
/** Marks the end of the input before the finalization. */
const END_MARK = 0xff;

/** The hash's own key: two words, 64 secret bits. Without them, a client cannot choose keys that collide. */
export type HashSeed = Int32Array;

/**
 * Returns the 32-bit HalfSipHash-1-3 of a key (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012; the
 * 32-bit variant of the reference implementation). A 64-bit secret and 128 bits of state leave no pairs of keys that
 * collide whatever the secret is, which hashes that only mix a seed in have.
 *
 * @param length 1..250 bytes.
 */
export function hashKey(input: ByteRegion, offset: number, length: number, seed: HashSeed): number {
  const view = input.view;
  let v0 = seed[0]!;
  let v1 = seed[1]!;
  let v2 = v0 ^ INITIAL_2;
  let v3 = v1 ^ INITIAL_3;
  let at = offset;
  const end = offset + length;
  for (; at + 4 <= end; at += 4) {
    const word = view.getInt32(at, true);
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  let last = length << 24;
  const rest = length & 3;
  if (length > 3 && rest > 0) {
    // The key's last four bytes, without those that are hashed already.
    last |= view.getInt32(end - 4, true) >>> (32 - 8 * rest);
  } else {
    const bytes = input.bytes;
    for (let shift = 0; at < end; at++, shift += 8) last |= bytes[at]! << shift;
  }
  v3 ^= last;
  // The round of the last word, then the three that finalize.
  for (let round = 0; round < 4; round++) {
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    if (round === 0) {
      v0 ^= last;
      v2 ^= END_MARK;
    }
  }
  return v1 ^ v3;
}
