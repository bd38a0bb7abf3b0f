import { randomFrom } from "../../../support/random.ts";

/** Draws of one seed. */
export class Dice {
  readonly #random: () => number;

  constructor(seed: number) {
    this.#random = randomFrom(seed);
  }

  /** Returns 0 to `count` - 1. */
  below(count: number): number {
    return Math.floor(this.#random() * count);
  }

  /** Returns true in `percent` of 100 draws. */
  chance(percent: number): boolean {
    return this.#random() * 100 < percent;
  }

  pick<Value>(values: readonly Value[]): Value {
    return values[this.below(values.length)]!;
  }

  /** Returns at least one of the values, in their order. */
  some<Value>(values: readonly Value[]): Value[] {
    const must = this.below(values.length);
    return values.filter((_, index) => index === must || this.chance(40));
  }
}
