// Values that verify themselves: each byte follows from key, version and position, so that a byte of another value,
// another version or another position is a wrong one.

/** The kinds of keys, by what their owner does with them. */
export const Kind = {
  /** Values that are stored as a whole. Their flags are the version. */
  PLAIN: 0,
  /** As PLAIN, with ids chosen by their owner, which equal the version. */
  EXPLICIT: 1,
  /** Values that grow at their end. Their flags are the version of the first part. */
  APPENDED: 2,
  /** Values that grow at their beginning. */
  PREPENDED: 3,
  /** Numbers that are counted up: the number is the version, the flags are the key. */
  COUNTER: 4,
} as const;
export type Kind = typeof Kind[keyof typeof Kind];

/** Versions of a value whose first part is the same: as many parts it may have. */
export const PARTS = 64;
/** The longest parts that values grow by, in bytes: those of the first length often fit in place. */
const PART_BYTES_MAX = [8, 200];

/** A range of lengths in bytes, both ends included. */
export type Range = readonly [least: number, most: number];

/** Bytes with a view of them. */
export interface Bytes {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** Mixes two numbers into 32 bits. */
export function mix(a: number, b: number): number {
  let mixed = Math.imul(a ^ 0x5bd1e995, 0x9e3779b1) ^ Math.imul(b, 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
  mixed = Math.imul(mixed ^ (mixed >>> 12), 0x297a2d39);
  return mixed ^ (mixed >>> 15);
}

/** The word at an index of the stream of bytes with a seed. */
function wordAt(seed: number, index: number): number {
  let word = Math.imul(index + 1, 0x9e3779b1) ^ seed;
  word = Math.imul(word ^ (word >>> 15), 0x85ebca6b);
  return word ^ (word >>> 13);
}

/** Puts a part of a value. */
export function putPart(to: Bytes, at: number, length: number, key: number, version: number): void {
  const seed = mix(key, version);
  const words = length >>> 2;
  for (let index = 0; index < words; index++) {
    to.view.setInt32(at + 4 * index, wordAt(seed, index), true);
  }
  let rest = wordAt(seed, words);
  for (let index = 4 * words; index < length; index++, rest >>>= 8) to.bytes[at + index] = rest;
}

/** Returns the offset of a part's first wrong byte, or -1. */
export function wrongByte(
  { bytes, view }: Bytes,
  at: number,
  length: number,
  key: number,
  version: number,
): number {
  const seed = mix(key, version);
  const words = length >>> 2;
  let wrong = 0;
  let index = 0;
  for (; index < words; index++) {
    wrong = view.getInt32(at + 4 * index, true) ^ wordAt(seed, index);
    if (wrong !== 0) break;
  }
  if (wrong !== 0) return 4 * index + ((31 - Math.clz32(wrong & -wrong)) >>> 3);
  let rest = wordAt(seed, words);
  for (let offset = 4 * words; offset < length; offset++, rest >>>= 8) {
    if (bytes[at + offset] !== (rest & 0xff)) return offset;
  }
  return -1;
}

/** How long the parts of a key's values are. */
export class Lengths {
  readonly #ranges: readonly Range[];

  /** @param ranges Of first parts, each as frequent as the others. */
  constructor(ranges: readonly Range[]) {
    this.#ranges = ranges;
  }

  /** Returns the length of the part that makes a version. Only first parts may be empty. */
  of(key: number, version: number): number {
    const drawn = mix(version, key) >>> 0;
    if (version % PARTS !== 0) return 1 + (drawn >>> 1) % PART_BYTES_MAX[drawn & 1]!;
    const [least, most] = this.#ranges[drawn % this.#ranges.length]!;
    return least + (mix(drawn, 1) >>> 0) % (most - least + 1);
  }
}
