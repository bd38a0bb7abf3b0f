import { randomFrom } from "../../support/random.ts";
import type { ReplayTarget } from "./replay.ts";

const SMALLEST_BYTES = 60_000;
const LARGEST_BYTES = 1_000_000;
const KEY_SIZE = 16;
/** Keys that no trace has. */
const FIRST_KEY = 1_000_000_000;
/** Sets between two large values. */
const EVERY = 9;

/** A target that is also given large values nobody ever reads, as one set in ten. */
export class WithLargeValues implements ReplayTarget {
  readonly #target: ReplayTarget;
  readonly #random = randomFrom(1);
  #sets = 0;
  large = 0;
  /** Large values that were not stored. */
  refused = 0;

  constructor(target: ReplayTarget) {
    this.#target = target;
  }

  get(key: number, keySize: number, valueSize: number): boolean {
    return this.#target.get(key, keySize, valueSize);
  }

  set(key: number, keySize: number, valueSize: number, ttlSeconds: number): boolean {
    if (++this.#sets % EVERY === 0) {
      const length = SMALLEST_BYTES +
        Math.floor(this.#random() * (LARGEST_BYTES - SMALLEST_BYTES));
      if (!this.#target.set(FIRST_KEY + this.large++, KEY_SIZE, length, 0)) this.refused++;
    }
    return this.#target.set(key, keySize, valueSize, ttlSeconds);
  }

  tick(milliseconds: number): void {
    this.#target.tick(milliseconds);
  }
}
