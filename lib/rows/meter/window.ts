const MINUTE_MS = 60_000;
const DAY_MINUTES = 24 * 60;
const HOUR_MINUTES = 60;
/** Of n samples without a stale one, the share of stale values is below 3/n with 95 % confidence. */
const RULE_OF_THREE = 3;

/** Samples of a span of time. */
export interface Samples {
  readonly compared: number;
  readonly stale: number;
}

/** Counts samples by the minute, for a day. */
export class SampleWindow {
  readonly #nowMs: () => number;
  readonly #compared = new Uint32Array(DAY_MINUTES);
  readonly #stale = new Uint32Array(DAY_MINUTES);
  /** The minute that is counted now. */
  #minute: number;

  /** @param nowMs A clock that never runs backwards. */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
    this.#minute = this.#minuteNow;
  }

  add(isStale: boolean): void {
    this.#advance();
    const at = this.#minute % DAY_MINUTES;
    this.#compared[at]! += 1;
    if (isStale) this.#stale[at]! += 1;
  }

  get hour(): Samples {
    return this.#last(HOUR_MINUTES);
  }

  get day(): Samples {
    return this.#last(DAY_MINUTES);
  }

  #last(minutes: number): Samples {
    this.#advance();
    let [compared, stale] = [0, 0];
    for (let back = 0; back < minutes; back++) {
      const at = (this.#minute - back + DAY_MINUTES) % DAY_MINUTES;
      compared += this.#compared[at]!;
      stale += this.#stale[at]!;
    }
    return { compared, stale };
  }

  /** Empties the minutes that have begun since. */
  #advance(): void {
    const now = this.#minuteNow;
    for (let left = Math.min(now - this.#minute, DAY_MINUTES); left > 0; left--) {
      const at = (now - left + 1) % DAY_MINUTES;
      this.#compared[at] = this.#stale[at] = 0;
    }
    this.#minute = now;
  }

  get #minuteNow(): number {
    return Math.floor(this.#nowMs() / MINUTE_MS) + DAY_MINUTES;
  }
}

/** Returns the number of nines that samples prove: −log10 of the largest share of stale values that they allow. */
export function ninesOf({ compared, stale }: Samples): number {
  if (compared === 0) return 0;
  // Poisson's upper bound, near enough: exact without stale samples, and a little too careful with them.
  const bound = (stale + RULE_OF_THREE * Math.sqrt(stale) + RULE_OF_THREE) / compared;
  return Math.max(0, Math.floor(-Math.log10(Math.min(1, bound)) * 10) / 10);
}
