import { CounterRows } from "../../store/base/counter_rows.ts";
import { kindOf, type RequestTimes } from "./request_times.ts";

/** Binary opcodes are bytes; the text commands' counts follow theirs. */
const BINARY_OPS = 256;
/** At least as many as the table of text commands has rows. */
export const TEXT_OPS_MAX = 64;
const OPS = BINARY_OPS + TEXT_OPS_MAX;

/** A command, as `stats ops` shows it. */
export interface CommandName {
  readonly name: string;
  /** Index of the command in OpCounts, within its protocol. */
  readonly index: number;
}

/** How often each command was asked for: `stats ops`. */
export class OpCounts {
  readonly #rows: CounterRows;
  readonly #own: Float64Array;
  readonly #times: RequestTimes;
  /** The kind of each command, for `RequestTimes`. */
  readonly #kinds = new Uint8Array(OPS).fill(kindOf(""));

  /** @param threadIndex Whose commands are counted here. */
  constructor(shared: SharedArrayBuffer, threadIndex: number, times: RequestTimes) {
    this.#times = times;
    this.#rows = new CounterRows(shared, OPS, threadIndex);
    this.#own = this.#rows.own;
  }

  static createShared(threads: number): SharedArrayBuffer {
    return CounterRows.createShared(threads, OPS);
  }

  /** Tells the names of the commands, which decide on their kinds. */
  name(text: readonly CommandName[], binary: readonly CommandName[]): void {
    for (const { name, index } of text) this.#kinds[BINARY_OPS + index] = kindOf(name);
    for (const { name, index } of binary) this.#kinds[index] = kindOf(name);
  }

  /** @param index Of the command's row in the table of commands. */
  countText(index: number): void {
    this.#count(BINARY_OPS + index);
  }

  countBinary(opcode: number): void {
    this.#count(opcode);
  }

  #count(op: number): void {
    this.#own[op]! += 1;
    this.#times.begin(this.#kinds[op]!);
  }

  /** The command that was counted last will be executed, and counted, once more. */
  takeBackText(index: number): void {
    this.#takeBack(BINARY_OPS + index);
  }

  takeBackBinary(opcode: number): void {
    this.#takeBack(opcode);
  }

  #takeBack(op: number): void {
    this.#own[op]! -= 1;
    this.#times.takeBack();
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
