/**
 * Named counters (semaphores): a client acquires resources under a name and releases them, at the
 * latest when its connection ends.
 *
 * Counters are not part of the cache: they live in one thread, in plain objects, and have a memory
 * limit of their own. A counter has no capacity; each acquisition names the maximum of the sum. An
 * idle counter is dropped after the next interval has begun, or sooner if memory is needed.
 */

/** The result of an operation. */
export const CounterOutcome = {
  OK: 0,
  /** No counter of this name. */
  NOT_FOUND: 1,
  /** The sum would be above the maximum. Nothing is acquired. */
  UNAVAILABLE: 2,
  /** The client holds less than it would release. Nothing is released. */
  NOT_ACQUIRED: 3,
  NO_MEMORY: 4,
} as const;

export type CounterOutcome = typeof CounterOutcome[keyof typeof CounterOutcome];

/** Approximate memory of a counter beside its name, in bytes: its object and table entries. */
const COUNTER_BYTES = 256;
/** Approximate memory of one client's entry for a counter, in bytes. */
const ACQUISITION_BYTES = 128;

/** A counter, read-only. */
export interface CounterView {
  readonly name: string;
  /** The resources that all clients hold: 0..2^32-1, because no maximum is larger. */
  readonly consumption: number;
}

class Counter implements CounterView {
  consumption = 0;
  /** The highest consumption in interval `interval`. */
  highest = 0;

  constructor(readonly name: string, public interval: number) {}
}

/** The resources that one client holds of each counter, never 0. Only `Counters` changes it. */
export type AcquiredResources = Map<CounterView, number>;

/** All counters. */
export class Counters {
  /** Counters made since the start. */
  madeCount = 0;
  /** Their approximate memory, in bytes. */
  usedBytes = 0;
  readonly #bytesMax: number;
  readonly #byName = new Map<string, Counter>();
  /** Counters that no client holds, the longest idle first. */
  readonly #idle = new Set<Counter>();
  #interval = 0;

  /** @param bytesMax The memory limit of all counters. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get count(): number {
    return this.#byName.size;
  }

  /** The counter of this name. */
  get(name: string): CounterView | undefined {
    return this.#byName.get(name);
  }

  /** Iterates over all counters. Counters made or dropped during it may be missing. */
  all(): Iterator<CounterView> {
    return this.#byName.values();
  }

  /** The highest consumption since the interval began. */
  highest(view: CounterView): number {
    const counter = view as Counter;
    return counter.interval === this.#interval ? counter.highest : counter.consumption;
  }

  /**
   * Acquires all resources or none. Makes a missing counter.
   *
   * @param resources 1..maximum
   * @param maximum At most 2^32-1.
   */
  acquire(
    acquired: AcquiredResources,
    name: string,
    resources: number,
    maximum: number,
  ): CounterOutcome {
    let counter = this.#byName.get(name);
    if (counter !== undefined && counter.consumption + resources > maximum) {
      return CounterOutcome.UNAVAILABLE;
    }
    const held = counter === undefined ? 0 : acquired.get(counter) ?? 0;
    const bytes = (counter === undefined ? name.length + COUNTER_BYTES : 0) +
      (held === 0 ? ACQUISITION_BYTES : 0);
    // Making room must not drop this very counter.
    if (counter !== undefined) this.#idle.delete(counter);
    if (!this.#reserve(bytes)) {
      if (counter?.consumption === 0) this.#idle.add(counter);
      return CounterOutcome.NO_MEMORY;
    }
    counter ??= this.#make(name);
    this.#addConsumption(counter, resources);
    acquired.set(counter, held + resources);
    return CounterOutcome.OK;
  }

  /** Releases resources that a client holds. With 0, tells whether it holds any. */
  release(acquired: AcquiredResources, name: string, resources: number): CounterOutcome {
    const counter = this.#byName.get(name);
    if (counter === undefined) return CounterOutcome.NOT_FOUND;
    const held = acquired.get(counter);
    if (held === undefined || held < resources) return CounterOutcome.NOT_ACQUIRED;
    if (held === resources) this.#dropAcquisition(acquired, counter);
    else acquired.set(counter, held - resources);
    this.#addConsumption(counter, -resources);
    return CounterOutcome.OK;
  }

  /** Releases everything that a client holds. */
  releaseAll(acquired: AcquiredResources): void {
    for (const [view, held] of acquired) {
      const counter = view as Counter;
      this.#dropAcquisition(acquired, counter);
      this.#addConsumption(counter, -held);
    }
  }

  /** Begins an interval: resets the highest consumptions, and lets idle counters be dropped. */
  beginInterval(): void {
    this.#interval++;
  }

  /**
   * Drops counters that no client has held since before the interval began.
   *
   * @param countMax The most to drop at once.
   * @returns Whether there are more.
   */
  dropIdle(countMax: number): boolean {
    let dropped = 0;
    for (const counter of this.#idle) {
      if (counter.interval === this.#interval) return false;
      if (dropped++ === countMax) return true;
      this.#drop(counter);
    }
    return false;
  }

  #make(name: string): Counter {
    const counter = new Counter(name, this.#interval);
    this.#byName.set(name, counter);
    this.madeCount++;
    return counter;
  }

  #drop(counter: Counter): void {
    this.#idle.delete(counter);
    this.#byName.delete(counter.name);
    this.usedBytes -= counter.name.length + COUNTER_BYTES;
  }

  #dropAcquisition(acquired: AcquiredResources, counter: Counter): void {
    acquired.delete(counter);
    this.usedBytes -= ACQUISITION_BYTES;
  }

  #addConsumption(counter: Counter, difference: number): void {
    if (counter.interval !== this.#interval) {
      counter.interval = this.#interval;
      counter.highest = counter.consumption;
    }
    counter.consumption += difference;
    counter.highest = Math.max(counter.highest, counter.consumption);
    if (counter.consumption === 0) this.#idle.add(counter);
  }

  /** Reserves memory. Drops the longest idle counters if needed. */
  #reserve(bytes: number): boolean {
    for (const counter of this.#idle) {
      if (this.usedBytes + bytes <= this.#bytesMax) break;
      this.#drop(counter);
    }
    if (this.usedBytes + bytes > this.#bytesMax) return false;
    this.usedBytes += bytes;
    return true;
  }
}
