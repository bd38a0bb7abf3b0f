import { randomFrom } from "../support/random.ts";
import { requestText } from "../support/sessions/transcript.ts";
import { readTranscripts } from "../support/sessions/transcript_files.ts";

/** Requests that are longer are not mutated: it is the lines that are interesting. */
const REQUEST_LENGTH_MAX = 6000;

const WORDS = [
  "get ",
  "gets ",
  "set ",
  "cas ",
  "append ",
  "incr ",
  "gat ",
  "stats ",
  "noreply",
  "0",
  "-1",
  "4294967296",
  "2147483645",
  "18446744073709551615",
  "{",
  " ",
  "      ",
  "\r",
  "\n",
  "\r\n",
  "\0",
  "\x80",
  "\x81\0",
];

/** Streams of requests that were once right. */
export class MutationSource {
  readonly random: () => number;
  readonly #requests: string[];

  constructor(seed: number) {
    this.random = randomFrom(seed);
    this.#requests = readTranscripts().flatMap(({ cases }) => cases)
      .flatMap(({ events }) => events)
      .filter((event) => event.kind === "send")
      .map(({ text }) => text.map((part) => typeof part === "string" ? part : "12345"))
      .map((text) => requestText(text, new Map()))
      .filter((text) => text.length <= REQUEST_LENGTH_MAX && !text.startsWith("shutdown"));
  }

  /** An integer in 0..end-1. */
  below(end: number): number {
    return Math.floor(this.random() * end);
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }

  /** Some requests, one after the other, with some of their bytes changed. */
  stream(): string {
    let text = "";
    for (let count = this.below(6); count >= 0; count--) text += this.pick(this.#requests);
    for (let count = this.below(8); count > 0; count--) text = this.#mutate(text);
    return text;
  }

  /** Cuts a text into pieces of all lengths. */
  *pieces(text: string): Generator<string> {
    const most = this.pick([1, 7, 100, 5000, 100_000]);
    for (let at = 0; at < text.length;) {
      const length = 1 + this.below(most);
      yield text.slice(at, at + length);
      at += length;
    }
  }

  #mutate(text: string): string {
    const at = this.below(text.length + 1);
    const end = Math.min(text.length, at + this.below(30));
    switch (this.below(6)) {
      case 0:
        return text.slice(0, at) + String.fromCharCode(this.below(256)) + text.slice(at + 1);
      case 1:
        return text.slice(0, at) + text.slice(end);
      case 2:
        return text.slice(0, end) + text.slice(at, end) + text.slice(end);
      case 3:
        return text.slice(0, at) + this.pick(WORDS) + text.slice(at);
      case 4:
        return text.slice(0, at) + this.pick(["k", " ", "9", "k ", "\0"]).repeat(this.below(4000)) +
          text.slice(at);
      default:
        return this.#swapNumber(text);
    }
  }

  #swapNumber(text: string): string {
    const numbers = [...text.matchAll(/\d+/g)];
    if (numbers.length === 0) return text;
    const { index, 0: digits } = this.pick(numbers);
    return text.slice(0, index) + this.pick(["0", "1", "5", "251", "4097", "70000", "1048577"]) +
      text.slice(index + digits.length);
  }
}

/**
 * Whether a data block may be under way that is too long to be waited for, or a lock is waited for.
 * In binary (0x80) any four bytes announce a block.
 */
export function mayWaitForLong(stream: string): boolean {
  return /\d{6}/.test(stream) || stream.startsWith("\x80") || stream.includes("lock");
}
