import type { Operation, StoreOperation } from "./model.ts";
import { randomFrom } from "../random.ts";

/** Ranges of the random operations. */
export interface OperationRanges {
  /** Most bytes of a value. Most values are short. */
  readonly valueLengthMax: number;
  readonly coldKeys: number;
  readonly exptimes: readonly number[];
  readonly flushDelaysSec: readonly number[];
  /** Bit lengths of numbers. */
  readonly numberBits: readonly number[];
  /** Draws lock operations, too. */
  readonly locks?: boolean;
  /** Draws update tokens, too. */
  readonly tokens?: boolean;
}

const HOT_KEYS = 4;
/** Of the longest length; a line that is not `get` or `gets` has at most 2,048 bytes. */
const GAT_KEYS_MAX = 8;
/**
 * Only these are incremented, and their values are short: a value in a chain of chunks is no
 * number, whatever it begins with.
 */
const NUMBER_KEYS = 4;
const STORES = ["set", "add", "replace", "append", "prepend", "cas"] as const;
const READS = ["get", "gets", "gat", "gats"] as const;
const LOCKS = ["lock", "unlock", "unlock_all"] as const;
const TOKENS = ["token get", "token release"] as const;
const TAGS = ["host:1", "host:2"];
const NAMES = [
  ...STORES,
  ...READS,
  ...["touch", "delete", "incr", "decr", "flush_all"] as const,
  ...LOCKS,
  ...TOKENS,
] as const;
/** Weights drawn are one of these: some operations are frequent in a run, some do not happen at all. */
const WEIGHTS = [0, 1, 1, 3, 10];
/** Commands that empty the cache or free all locks. They are rare, so that other commands find something. */
const RARE: Readonly<Record<string, number>> = { "flush_all": 0.02, "unlock_all": 0.1 };
/** Expiry times that never pass during a run, and ones that have passed at once. */
export const TIMELESS = [0, 0, 0, 1000, 2592000, -1, 2592001, 2147483647];

/** Draws operations. The same seeds draw the same operations; a cas id is one of those learned last. */
export class OperationSource {
  /** Draws a number in 0..1 for the current step. */
  random: () => number;
  readonly #ranges: OperationRanges;
  readonly #weights: number[];
  readonly #weightSum: number;
  /** Names of cas ids that were learned. */
  readonly #ids: string[] = [];
  /** Update tokens that were learned. */
  readonly #tokens: { readonly key: string; readonly id: string }[] = [];

  /** @param seed Of the weights: how frequent each command is. */
  constructor(seed: number, ranges: OperationRanges) {
    this.random = randomFrom(seed);
    this.#ranges = ranges;
    this.#weights = NAMES.map((name) => this.pick(WEIGHTS) * (RARE[name] ?? 1));
    // Something has to be stored, and to be seen.
    for (const name of ["set", "get", "gets"] as const) this.#weights[NAMES.indexOf(name)]! += 1;
    for (const name of LOCKS) {
      if (!ranges.locks) this.#weights[NAMES.indexOf(name)] = 0;
      else if (name === "lock") this.#weights[NAMES.indexOf(name)]! += 3;
    }
    for (const name of TOKENS) {
      this.#weights[NAMES.indexOf(name)] = ranges.tokens ? name === "token get" ? 1 : 3 : 0;
    }
    this.#weightSum = this.#weights.reduce((sum, weight) => sum + weight, 0);
  }

  /** Begins a step. Its draws depend on its own seed, not on the steps before it. */
  beginStep(seed: number): void {
    this.random = randomFrom(seed);
  }

  /** An integer in start..end-1. */
  integer(start: number, end: number): number {
    return start + Math.floor(this.random() * (end - start));
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.integer(0, choices.length)]!;
  }

  learned(id: string): void {
    this.#ids.push(id);
  }

  learnedToken(key: string, id: string): void {
    this.#tokens.push({ key, id });
  }

  next(): Operation {
    const name = this.#name();
    switch (name) {
      case "get":
      case "gets":
        return { name, keys: this.#keys() };
      case "gat":
      case "gats": {
        // A locked key stops a gat after the keys before it were touched. A long line ends the connection, unless all
        // of it arrives at once.
        const keys = this.#ranges.locks ? [this.key()] : this.#keys().slice(0, GAT_KEYS_MAX);
        return { name, keys, exptime: this.pick(this.#ranges.exptimes) };
      }
      case "touch":
        return { name, key: this.key(), exptime: this.pick(this.#ranges.exptimes) };
      case "delete":
        return { name, key: this.key() };
      case "incr":
      case "decr":
        return { name, key: this.#numberKey(), delta: this.#number() };
      case "lock":
        return { name, key: this.key(), fence: this.random() < 0.5 };
      case "unlock":
        return { name, key: this.key() };
      case "unlock_all":
        return { name };
      case "token get":
        return this.#token();
      case "token release":
        return this.#release();
      case "flush_all":
        return { name, delaySec: this.pick(this.#ranges.flushDelaysSec) };
      default:
        return this.#store(name);
    }
  }

  key(): string {
    if (this.random() < 0.2) return this.#numberKey();
    if (this.random() < 0.5) return `hot${this.integer(0, HOT_KEYS)}`;
    const number = this.integer(0, this.#ranges.coldKeys);
    return `cold${number}`.padEnd(number % 7 === 0 ? 250 : number % 30, "k");
  }

  #numberKey(): string {
    return `number${this.integer(0, NUMBER_KEYS)}`;
  }

  #name(): typeof NAMES[number] {
    let left = this.random() * this.#weightSum;
    const index = this.#weights.findIndex((weight) => (left -= weight) < 0);
    return NAMES[index] ?? "get";
  }

  #keys(): string[] {
    return Array.from({ length: this.random() < 0.8 ? 1 : this.integer(1, 40) }, () => this.key());
  }

  #store(name: StoreOperation["name"]): Operation {
    const key = this.key();
    const operation: Operation = {
      name,
      key,
      flags: this.pick([0, 0, 1, 77, 4294967295]),
      exptime: this.pick(this.#ranges.exptimes),
      value: this.#value(key.startsWith("number") ? 40 : this.#ranges.valueLengthMax),
    };
    if (name !== "cas") return operation;
    if (this.#ids.length === 0) return { ...operation, name: "set" };
    // Mostly a fresh id, else it would be out of date always.
    const recent = this.random() < 0.8 ? this.#ids.length - this.integer(1, 6) : 0;
    return { ...operation, id: this.#ids[Math.max(0, recent)]! };
  }

  #value(lengthMax: number): string {
    const choice = this.random();
    if (choice < 0.2) return String(this.#number());
    if (choice < 0.25) {
      return this.pick(["", "-7", " 7", "+7", "007", "7 x", "7x", "x", "7\0"]);
    }
    const most = choice < 0.9 ? 300 : choice < 0.98 ? 10_000 : lengthMax;
    const length = this.integer(0, Math.min(most, lengthMax));
    const piece = `${this.integer(0, 1e9)}\r\n${String.fromCharCode(this.integer(0, 256))}`;
    return piece.repeat(Math.ceil(length / piece.length)).slice(0, length);
  }

  #token(): Operation {
    return { name: "token get", key: this.key(), owner: this.pick(TAGS) };
  }

  /** Releases a token that was learned, mostly of the key that has it. */
  #release(): Operation {
    const tokens = this.#tokens;
    if (tokens.length === 0) return this.#token();
    const { key, id } = tokens[Math.max(0, tokens.length - this.integer(1, 9))]!;
    return { name: "token release", key: this.random() < 0.9 ? key : this.key(), id };
  }

  #number(): bigint {
    const bits = this.pick(this.#ranges.numberBits);
    const number = BigInt(Math.floor(this.random() * 2 ** 32)) << 32n |
      BigInt(Math.floor(this.random() * 2 ** 32));
    if (this.random() < 0.1) return (1n << BigInt(bits)) - 1n;
    return number >> BigInt(64 - bits);
  }
}
