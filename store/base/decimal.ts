import { type ByteRegion, isBlank } from "./bytes.ts";
import { highHalf, lowHalf, u64ToBigInt, u64ToNumber } from "./u64.ts";

/** Digits that always fit a double exactly. */
const EXACT_DIGITS_MAX = 15;
const TWO_53 = 2 ** 53;
const U64_MAX = (1n << 64n) - 1n;
const ZERO = 0x30;
const NINE = 0x39;
const PLUS = 0x2b;
/** A double does not hold every number whose upper half reaches this. */
const HIGH_HALF_EXACT_END = 2 ** 21;
/** Digits are computed in groups that fit an int32. */
const GROUP = 1e9;
const GROUP_DIGITS = 9;

/**
 * A 64-bit unsigned number as text: what incr and decr read from and write to values. One per thread, reused.
 */
export class Decimal {
  low = 0;
  high = 0;
  /** The digits of `low/high`, after `format`. */
  readonly digits = new Uint8Array(20);

  /**
   * Reads a stored number as C's strtoull does: leading blanks and a plus sign pass, the digits
   * must be followed by a blank, a NUL or the end.
   *
   * @returns False when it is no such number, or above 2^64-1.
   */
  parse(region: ByteRegion, offset: number, length: number): boolean {
    const bytes = region.bytes;
    const end = offset + length;
    let at = offset;
    while (at < end && isBlank(bytes[at]!)) at++;
    if (at < end && bytes[at] === PLUS) at++;
    const first = at;
    let value = 0;
    while (at < end && bytes[at]! >= ZERO && bytes[at]! <= NINE) {
      if (at - first < EXACT_DIGITS_MAX) value = value * 10 + (bytes[at]! - ZERO);
      at++;
    }
    if (at === first) return false;
    if (at < end && bytes[at] !== 0 && !isBlank(bytes[at]!)) return false;
    if (at - first <= EXACT_DIGITS_MAX) {
      this.low = lowHalf(value);
      this.high = highHalf(value);
      return true;
    }
    return this.#parseLong(bytes, first, at);
  }

  /** Adds, wrapping at 2^64, or subtracts, stopping at 0. */
  addDelta(deltaLow: number, deltaHigh: number, increment: boolean): void {
    const value = u64ToNumber(this.low, this.high);
    const delta = u64ToNumber(deltaLow, deltaHigh);
    const result = increment ? value + delta : Math.max(0, value - delta);
    if (value < TWO_53 && delta < TWO_53 && result < TWO_53) {
      this.low = lowHalf(result);
      this.high = highHalf(result);
    } else {
      this.#changeLong(deltaLow, deltaHigh, increment);
    }
  }

  /** Writes the digits to `digits` and returns how many there are. */
  format(): number {
    return putDecimalU64(this.digits, 0, this.low, this.high);
  }

  // Numbers of 2^53 and above are rare: BigInt and its garbage are fine for them.

  #parseLong(bytes: Uint8Array, start: number, end: number): boolean {
    let value = 0n;
    for (let at = start; at < end; at++) {
      value = value * 10n + BigInt(bytes[at]! - ZERO);
      if (value > U64_MAX) return false;
    }
    this.#set(value);
    return true;
  }

  #changeLong(deltaLow: number, deltaHigh: number, increment: boolean): void {
    const value = u64ToBigInt(this.low, this.high);
    const delta = u64ToBigInt(deltaLow, deltaHigh);
    this.#set(increment ? (value + delta) & U64_MAX : value > delta ? value - delta : 0n);
  }

  #set(value: bigint): void {
    this.low = Number(value & 0xffffffffn) | 0;
    this.high = Number(value >> 32n) | 0;
  }
}

/**
 * Writes a whole number in 0..2^53-1 in decimal. Returns the offset behind it.
 */
export function putDecimal(bytes: Uint8Array, offset: number, value: number): number {
  if (value < 10) {
    bytes[offset] = ZERO + value;
    return offset + 1;
  }
  if (value > 0x7fffffff) return putDecimalU53(bytes, offset, lowHalf(value), highHalf(value));
  let length = 2;
  // The last bound is above int32, and ends it.
  for (let bound = 100; bound <= value; bound *= 10) length++;
  const end = offset + length;
  putDigits(bytes, offset, end, value);
  return end;
}

/** Writes an unsigned 64-bit number in decimal. Returns the offset behind it. Allocates from 2^53 on. */
export function putDecimalU64(
  bytes: Uint8Array,
  offset: number,
  low: number,
  high: number,
): number {
  if (high >>> 0 < HIGH_HALF_EXACT_END) return putDecimalU53(bytes, offset, low, high);
  const text = String(u64ToBigInt(low, high));
  for (let at = 0; at < text.length; at++) bytes[offset + at] = text.charCodeAt(at);
  return offset + text.length;
}

/**
 * Writes a number below 2^53 in two int32 halves: passing a double to a function costs an allocation. Returns the
 * offset behind it.
 */
function putDecimalU53(bytes: Uint8Array, offset: number, low: number, high: number): number {
  const value = u64ToNumber(low, high);
  const upper = Math.floor(value / GROUP) | 0;
  const lower = (value - upper * GROUP) | 0;
  if (upper === 0) return putDecimal(bytes, offset, lower);
  const middle = putDecimal(bytes, offset, upper);
  putDigits(bytes, middle, middle + GROUP_DIGITS, lower);
  return middle + GROUP_DIGITS;
}

/** Fills [start, end) with the digits of an int32, with leading zeros. */
function putDigits(bytes: Uint8Array, start: number, end: number, value: number): void {
  let rest = value | 0;
  for (let at = end - 1; at >= start; at--) {
    const tenth = (rest / 10) | 0;
    bytes[at] = ZERO + rest - tenth * 10;
    rest = tenth;
  }
}
