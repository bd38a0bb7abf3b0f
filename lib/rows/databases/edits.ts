import type { Change, Row } from "./backend.ts";
import { latin1Bytes, latin1Text } from "../bytes.ts";

/** The largest number of memcached's counters. */
const U64_MAX = 2n ** 64n - 1n;

/** Reads a whole number of up to 64 bits, or returns null. */
export function readU64(text: string): bigint | null {
  const number = /^\d{1,20}$/.test(text) ? BigInt(text) : U64_MAX + 1n;
  return number <= U64_MAX ? number : null;
}

/** Returns the edit of append or prepend; the flags stay. */
export function extending(
  data: Uint8Array,
  before: boolean,
): (row: Row | null) => Change | null {
  return (row) => {
    if (row === null) return null;
    return { flags: row.flags, data: before ? joined(data, row.data) : joined(row.data, data) };
  };
}

function joined(a: Uint8Array, b: Uint8Array): Uint8Array {
  const both = new Uint8Array(a.length + b.length);
  both.set(a);
  both.set(b, a.length);
  return both;
}

/** incr or decr of one row. */
export class Arithmetic {
  readonly #delta: bigint;
  readonly #increment: boolean;
  readonly #initial: bigint | null;
  /** The new value, after an edit that was committed. */
  value = 0n;
  /** Whether the row, if there was one, had a number. */
  isNumeric = true;

  /** @param initial The value of a row that does not exist; null: the edit is refused. */
  constructor(delta: bigint, increment: boolean, initial: bigint | null = null) {
    this.#delta = delta;
    this.#increment = increment;
    this.#initial = initial;
  }

  /** Computes the change; null: refused. */
  edit(row: Row | null): Change | null {
    if (row === null) {
      if (this.#initial === null) return null;
      this.value = this.#initial;
      return { flags: 0, data: latin1Bytes(String(this.value)) };
    }
    const old = readU64(latin1Text(row.data).trimEnd());
    this.isNumeric = old !== null;
    if (old === null) return null;
    this.value = this.#changed(old);
    return { flags: row.flags, data: latin1Bytes(String(this.value)) };
  }

  /** Adds with 64-bit wraparound, or subtracts down to 0, as memcached does. */
  #changed(number: bigint): bigint {
    if (this.#increment) return BigInt.asUintN(64, number + this.#delta);
    return this.#delta > number ? 0n : number - this.#delta;
  }
}
