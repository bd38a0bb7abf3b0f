import type { Batch } from "./generator.ts";

const PREFIX = "key:";
const DIGITS = 8;
export const KEY_BYTES = PREFIX.length + DIGITS;

/** A batch of sets whose keys carry numbers: `key:00000042`. */
export class NumberedSets {
  readonly batch: Batch;
  readonly #requestBytes: number;

  constructor(count: number, valueBytes: number) {
    const key = PREFIX + "0".repeat(DIGITS);
    const request = `set ${key} 0 0 ${valueBytes}\r\n${"v".repeat(valueBytes)}\r\n`;
    const bytes = new TextEncoder().encode(request.repeat(count));
    this.batch = { bytes, reply: "STORED\r\n".repeat(count), endsWithId: false, count };
    this.#requestBytes = request.length;
  }

  /** Returns the batch, with keys from the number `first` on. */
  from(first: number): Batch {
    const { bytes, count } = this.batch;
    for (let index = 0; index < count; index++) {
      let rest = first + index;
      let at = index * this.#requestBytes + "set ".length + KEY_BYTES;
      for (let digit = 0; digit < DIGITS; digit++) {
        bytes[--at] = 48 + rest % 10;
        rest = Math.floor(rest / 10);
      }
    }
    return this.batch;
  }
}
