import { type ByteRegion, isBlank } from "./bytes.ts";
import { highHalf, lowHalf, u64ToBigInt, u64ToNumber } from "./u64.ts";

/** Digits that always fit a double exactly. */
const EXACT_DIGITS_MAX = 15;
const TWO_53 = 2 ** 53;
const U64_MAX = (1n << 64n) - 1n;
const ZERO = 0x30;
const NINE = 0x39;
const PLUS = 0x2b;

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
  operation(deltaLow: number, deltaHigh: number, increment: boolean): void {
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

  /** Writes the digits and returns how many there are. */
  format(): number {
    const value = u64ToNumber(this.low, this.high);
    if (value >= TWO_53) return this.#formatLong();
    let length = 1;
    for (let bound = 10; bound <= value; bound *= 10) length++;
    let rest = value;
    for (let at = length - 1; at >= 0; at--) {
      const tenth = Math.floor(rest / 10);
      this.digits[at] = ZERO + (rest - tenth * 10);
      rest = tenth;
    }
    return length;
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

  #formatLong(): number {
    const text = String(u64ToBigInt(this.low, this.high));
    for (let at = 0; at < text.length; at++) this.digits[at] = text.charCodeAt(at);
    return text.length;
  }
}
