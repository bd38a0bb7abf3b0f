/** Binary opcodes are bytes; behind their counts stand those of the text commands. */
const BINARY_OPS = 256;
/** At least as many as the table of text commands has rows. */
export const TEXT_OPS_MAX = 64;
const OPS = BINARY_OPS + TEXT_OPS_MAX;

/** How often each command was asked for: `stats ops`. A row for each thread, which only it changes. */
export class OpCounts {
  readonly #all: Float64Array;
  readonly #counts: Float64Array;

  /** @param threadIndex Whose commands are counted here. */
  constructor(shared: SharedArrayBuffer, threadIndex: number) {
    this.#all = new Float64Array(shared);
    this.#counts = this.#row(threadIndex);
  }

  static createShared(threads: number): SharedArrayBuffer {
    return new SharedArrayBuffer(threads * OPS * 8);
  }

  /** @param index Of the command's row in the table of commands. */
  countText(index: number): void {
    this.#counts[BINARY_OPS + index]! += 1;
  }

  countBinary(opcode: number): void {
    this.#counts[opcode]! += 1;
  }

  /** Of all threads. */
  text(index: number): number {
    return this.#sum(BINARY_OPS + index);
  }

  /** Of all threads. */
  binary(opcode: number): number {
    return this.#sum(opcode);
  }

  /** All commands of one thread. */
  ofThread(threadIndex: number): number {
    return this.#row(threadIndex).reduce((sum, count) => sum + count, 0);
  }

  clear(): void {
    this.#all.fill(0);
  }

  #row(threadIndex: number): Float64Array {
    return this.#all.subarray(threadIndex * OPS, (threadIndex + 1) * OPS);
  }

  #sum(op: number): number {
    let sum = 0;
    for (let at = op; at < this.#all.length; at += OPS) sum += this.#all[at]!;
    return sum;
  }
}
