// 64-bit numbers as two int32 halves, because a double holds only 53 bits and a BigInt is garbage.

const TWO_32 = 4294967296;

/** The number, exact below 2^53. */
export function u64ToNumber(low: number, high: number): number {
  return (high >>> 0) * TWO_32 + (low >>> 0);
}

/** The lower half of a whole number below 2^53. */
export function lowHalf(number: number): number {
  return number | 0;
}

/** The upper half of a whole number below 2^53. */
export function highHalf(number: number): number {
  return (number / TWO_32) | 0;
}

/** For the rare numbers of 2^53 and above. */
export function u64ToBigInt(low: number, high: number): bigint {
  return (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
}

/** Below 0 when a < b, 0 when equal, above 0 when a > b. */
export function compareU64(aLow: number, aHigh: number, bLow: number, bHigh: number): number {
  if (aHigh !== bHigh) return aHigh >>> 0 < bHigh >>> 0 ? -1 : 1;
  if (aLow !== bLow) return aLow >>> 0 < bLow >>> 0 ? -1 : 1;
  return 0;
}
