/** Binary opcodes are bytes; behind their counts stand those of the text commands. */
const BINARY_OPS = 256;
const TEXT_OPS_MAX = 64;

/** How often each command was asked for, by all threads: `stats ops`. Changed under the store's mutex. */
export class OpCounts {
  readonly #counts: Float64Array;

  constructor(shared: SharedArrayBuffer) {
    this.#counts = new Float64Array(shared);
  }

  static createShared(): SharedArrayBuffer {
    return new SharedArrayBuffer((BINARY_OPS + TEXT_OPS_MAX) * 8);
  }

  /** @param index Of the command's row in the table of commands. */
  countText(index: number): void {
    this.#counts[BINARY_OPS + index]! += 1;
  }

  countBinary(opcode: number): void {
    this.#counts[opcode]! += 1;
  }

  text(index: number): number {
    return this.#counts[BINARY_OPS + index]!;
  }

  binary(opcode: number): number {
    return this.#counts[opcode]!;
  }

  clear(): void {
    this.#counts.fill(0);
  }
}
