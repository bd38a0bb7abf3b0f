import { type ByteRegion, isBlank, latin1Text } from "../store/base/bytes.ts";
import { highHalf, lowHalf } from "../store/base/u64.ts";

// Hot path: no allocation, except where a comment says so.

const ZERO = 0x30;
const NINE = 0x39;
const MINUS = 0x2d;
const PLUS = 0x2b;
const TWO_64 = 2 ** 64;
const INT32_TEXT_MAX = 11;
const U64_TEXT_MAX = 22;
/** Longer numbers are cut: further digits do not matter. */
const REAL_TEXT_MAX = 40;
const INT32_MAX = 2147483647;

/**
 * Reads numbers out of words of a request. One a thread; the last number read stands in its fields.
 * There are as many rules as memcached has.
 */
export class Numbers {
  /** After `int32` and `long`: the number, as int32. */
  value = 0;
  /** After `u64`: its halves, as int32. */
  low = 0;
  high = 0;

  /** `-`? and digits, -2^31..2^31-1, at most 11 characters. For byte counts and most expiry times. */
  int32(region: ByteRegion, start: number, end: number): boolean {
    const bytes = region.bytes;
    const negative = start < end && bytes[start] === MINUS;
    let at = negative ? start + 1 : start;
    if (at >= end || end - start > INT32_TEXT_MAX) return false;
    let value = 0;
    for (; at < end; at++) {
      const digit = bytes[at]! - ZERO;
      if (digit < 0 || digit > 9) return false;
      value = value * 10 + digit;
    }
    if (value > (negative ? INT32_MAX + 1 : INT32_MAX)) return false;
    this.value = (negative ? -value : value) | 0;
    return true;
  }

  /**
   * As C's strtol, 64 bits, cut to 32: leading blanks and `+` pass, and what follows a blank behind
   * the digits does not matter. For the expiry times of storage commands.
   */
  long(region: ByteRegion, start: number, end: number): boolean {
    return this.#cLong(region, start, end, true);
  }

  /** As C's strtoul, but negative numbers are refused; cut to 32 bits. For client flags. */
  unsignedLong(region: ByteRegion, start: number, end: number): boolean {
    return this.#cLong(region, start, end, false);
  }

  #cLong(region: ByteRegion, start: number, end: number, signed: boolean): boolean {
    const bytes = region.bytes;
    let at = start;
    while (at < end && isBlank(bytes[at]!)) at++;
    const sign = at < end ? bytes[at]! : 0;
    if (sign === MINUS || sign === PLUS) at++;
    const first = at;
    let value = 0;
    while (at < end && bytes[at]! >= ZERO && bytes[at]! <= NINE) {
      value = value * 10 + (bytes[at]! - ZERO);
      at++;
    }
    if (at === first || (at < end && !isBlank(bytes[at]!))) return false;
    const negative = sign === MINUS;
    if (negative && !signed && value !== 0) return false;
    if (value > Number.MAX_SAFE_INTEGER) {
      return this.#cLongLarge(bytes, first, at, negative, signed);
    }
    // The double is exact here, and `| 0` takes its lower 32 bits.
    this.value = (negative ? -value : value) | 0;
    return true;
  }

  /** The same for numbers that a double cannot hold. They are rare: BigInt is fine. */
  #cLongLarge(
    bytes: Uint8Array,
    start: number,
    end: number,
    negative: boolean,
    signed: boolean,
  ): boolean {
    const value = bigDigits(bytes, start, end);
    const bound = signed ? (negative ? 1n << 63n : (1n << 63n) - 1n) : (1n << 64n) - 1n;
    if (value > bound) return false;
    this.value = Number(BigInt.asIntN(32, negative ? -value : value));
    return true;
  }

  /** Digits only, 0..2^64-1, at most 22 characters. For cas ids and deltas. */
  u64(region: ByteRegion, start: number, end: number): boolean {
    const bytes = region.bytes;
    const length = end - start;
    if (length <= 0 || length > U64_TEXT_MAX) return false;
    let value = 0;
    for (let at = start; at < end; at++) {
      const digit = bytes[at]! - ZERO;
      if (digit < 0 || digit > 9) return false;
      value = value * 10 + digit;
    }
    if (value <= Number.MAX_SAFE_INTEGER) {
      this.low = lowHalf(value);
      this.high = highHalf(value);
      return true;
    }
    if (value > TWO_64) return false;
    return this.#u64Large(bytes, start, end);
  }

  #u64Large(bytes: Uint8Array, start: number, end: number): boolean {
    const value = bigDigits(bytes, start, end);
    if (value >= 1n << 64n) return false;
    this.low = Number(BigInt.asIntN(32, value));
    this.high = Number(BigInt.asIntN(32, value >> 32n));
    return true;
  }

  /**
   * `-`? digits, and maybe a point and more digits. For ratios in administrative commands; not for the hot path.
   *
   * @returns NaN when it is no such number.
   */
  static real(region: ByteRegion, start: number, end: number): number {
    const text = latin1Text(region.bytes, start, Math.min(end - start, REAL_TEXT_MAX));
    return /^-?\d+(\.\d*)?$/.test(text) ? Number(text) : NaN;
  }
}

/** The digits as a number, however many. A line is at most a few KiB where this is reached. */
function bigDigits(bytes: Uint8Array, start: number, end: number): bigint {
  let value = 0n;
  for (let at = start; at < end; at++) {
    // Far above any bound below: more digits cannot make it valid again, and would make this loop slow.
    if (value > 1n << 70n) break;
    value = value * 10n + BigInt(bytes[at]! - ZERO);
  }
  return value;
}
