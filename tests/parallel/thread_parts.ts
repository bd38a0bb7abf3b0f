import { bytesOf } from "../support/sessions/side.ts";
import { randomFrom } from "../support/random.ts";
import { type Bytes, Kind, Lengths, mix, PARTS, wrongByte } from "./content.ts";
import type { Ledger } from "./ledger.ts";
import type { Scenario } from "./scenario.ts";

/** A value as it was read. */
export interface ReadValue {
  readonly flags: number;
  readonly from: Bytes;
  readonly at: number;
  readonly length: number;
}

/** The parts that reader and writer of a thread share. */
export class ThreadParts {
  readonly scenario: Scenario;
  readonly ledger: Ledger;
  readonly lengths: Lengths;
  /** The keys' texts. */
  readonly keys: readonly Uint8Array[];
  readonly #random: () => number;

  constructor(scenario: Scenario, ledger: Ledger, seed: number) {
    this.scenario = scenario;
    this.ledger = ledger;
    this.lengths = new Lengths(scenario.lengths);
    this.keys = Array.from({ length: scenario.keys }, (_, key) => bytesOf(keyText(scenario, key)));
    this.#random = randomFrom(seed);
  }

  /** A whole number below `end`. */
  below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  chance(share: number): boolean {
    return this.#random() < share;
  }

  kindOf(key: number): Kind {
    return this.scenario.kinds[key % this.scenario.kinds.length]!;
  }

  /** Draws a name by its relative frequency. */
  draw<Name extends string>(frequencies: Readonly<Partial<Record<Name, number>>>): Name {
    const entries = Object.entries(frequencies) as [Name, number][];
    let left = this.#random() * entries.reduce((sum, [, frequency]) => sum + frequency, 0);
    for (const [name, frequency] of entries) {
      left -= frequency;
      if (left < 0) return name;
    }
    return entries.at(-1)![0];
  }

  /** Returns the version of a value. @throws Error when the value is not one that its key may have. */
  versionOf(key: number, value: ReadValue): number {
    const kind = this.kindOf(key);
    if (kind === Kind.COUNTER) return this.#count(key, value);
    const first = value.flags * PARTS;
    let version = first;
    let length = this.lengths.of(key, version);
    if (kind === Kind.PLAIN || kind === Kind.EXPLICIT) {
      if (length !== value.length) throw this.#wrong(key, value, `${length} bytes expected`);
      this.#verify(key, value, value.at, version);
      return version;
    }
    while (length < value.length && version < first + PARTS - 1) {
      length += this.lengths.of(key, ++version);
    }
    if (length !== value.length) throw this.#wrong(key, value, "no sum of parts is as long");
    // A part may be empty: so may those behind the last one.
    this.#verifyParts(key, value, first, version);
    return version;
  }

  #verifyParts(key: number, value: ReadValue, first: number, last: number): void {
    const isAppended = this.kindOf(key) === Kind.APPENDED;
    let at = isAppended ? value.at : value.at + value.length;
    for (let version = first; version <= last; version++) {
      const length = this.lengths.of(key, version);
      if (!isAppended) at -= length;
      this.#verify(key, value, at, version);
      if (isAppended) at += length;
    }
  }

  #verify(key: number, value: ReadValue, at: number, version: number): void {
    const wrong = wrongByte(value.from, at, this.lengths.of(key, version), key, version);
    if (wrong < 0) return;
    throw this.#wrong(key, value, `byte ${at - value.at + wrong} is not of version ${version}`);
  }

  #count(key: number, value: ReadValue): number {
    let number = 0;
    for (let at = value.at; at < value.at + value.length; at++) {
      const digit = value.from.bytes[at]! - 0x30;
      if (digit < 0 || digit > 9) throw this.#wrong(key, value, "not a number");
      number = number * 10 + digit;
    }
    if (value.flags !== key) throw this.#wrong(key, value, `its flags are not ${key}`);
    return number;
  }

  #wrong(key: number, { flags, length }: ReadValue, reason: string): Error {
    return new Error(`key ${key}, flags ${flags}, ${length} bytes: ${reason}`);
  }
}

function keyText({ keyLengthMax }: Scenario, key: number): string {
  const text = `k${key.toString(36)}`;
  const length = keyLengthMax === 0 ? 0 : (mix(key, 7) >>> 0) % (keyLengthMax + 1);
  return text.padEnd(length, "-");
}
