import { CounterRows } from "../store/base/counter_rows.ts";

/** Binary opcodes are bytes; the text commands' counts follow theirs. */
const BINARY_OPS = 256;
/** At least as many as the table of text commands has rows. */
export const TEXT_OPS_MAX = 64;
const OPS = BINARY_OPS + TEXT_OPS_MAX;

/** How often each command was asked for: `stats ops`. */
export class OpCounts {
  readonly #rows: CounterRows;
  readonly #own: Float64Array;

  /** @param threadIndex Whose commands are counted here. */
  constructor(shared: SharedArrayBuffer, threadIndex: number) {
    this.#rows = new CounterRows(shared, OPS, threadIndex);
    this.#own = this.#rows.own;
  }

  static createShared(threads: number): SharedArrayBuffer {
    return CounterRows.createShared(threads, OPS);
  }

  /** @param index Of the command's row in the table of commands. */
  countText(index: number): void {
    this.#own[BINARY_OPS + index]! += 1;
  }

  countBinary(opcode: number): void {
    this.#own[opcode]! += 1;
  }

  /** Of all threads. */
  text(index: number): number {
    return this.#rows.sum(BINARY_OPS + index);
  }

  /** Of all threads. */
  binary(opcode: number): number {
    return this.#rows.sum(opcode);
  }

  /** All commands of one thread. */
  ofThread(threadIndex: number): number {
    let sum = 0;
    for (let op = 0; op < OPS; op++) sum += this.#rows.ofThread(threadIndex, op);
    return sum;
  }

  /** Sets all counts of all threads to 0. */
  reset(): void {
    this.#rows.reset();
  }
}
