/**
 * Named counters (semaphores): a client acquires resources under a name and gives them back, at the
 * latest when its connection ends.
 *
 * They belong to the server, not to the cache: they live in one thread, in plain objects, and are
 * bounded by memory of their own. A counter has no capacity; each acquisition says up to which sum
 * it may go. One that nobody holds stays, and is dropped after the next interval has begun, or
 * sooner when memory is needed.
 */

/** How an operation ended. */
export const CounterOutcome = {
  OK: 0,
  /** No counter of this name. */
  NOT_FOUND: 1,
  /** The sum would be above the maximum. Nothing is acquired. */
  UNAVAILABLE: 2,
  /** The client holds less than it would give back. Nothing is released. */
  NOT_ACQUIRED: 3,
  NO_MEMORY: 4,
} as const;

export type CounterOutcome = typeof CounterOutcome[keyof typeof CounterOutcome];

/** About what a counter costs beside its name: its object, its places in the tables. */
const COUNTER_BYTES = 256;
/** About what it costs that a client holds something of a counter. */
const ACQUISITION_BYTES = 128;

/** A counter, for its reader. */
export interface CounterView {
  readonly name: string;
  /** The sum of what all clients hold: 0..2^32-1, since no maximum is above. */
  readonly consumption: number;
}

class Counter implements CounterView {
  readonly name: string;
  consumption = 0;
  /** The highest consumption in interval `interval`. */
  highest = 0;
  interval: number;

  constructor(name: string, interval: number) {
    this.name = name;
    this.interval = interval;
  }
}

/** What one client holds: never 0 of a counter. Filled by `Counters` alone. */
export type AcquiredResources = Map<CounterView, number>;

/** All counters there are. */
export class Counters {
  /** How many were ever made. */
  madeCount = 0;
  /** About what they cost, in bytes. */
  usedBytes = 0;
  readonly #bytesMax: number;
  readonly #byName = new Map<string, Counter>();
  /** Those that nobody holds; the longest so first. */
  readonly #idle = new Set<Counter>();
  #interval = 0;

  /** @param bytesMax What they may cost together. */
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

  /** All counters, also while they change: what is made or dropped meanwhile may be missing. */
  all(): Iterator<CounterView> {
    return this.#byName.values();
  }

  /** The highest consumption since the interval began. */
  highest(view: CounterView): number {
    const counter = view as Counter;
    return counter.interval === this.#interval ? counter.highest : counter.consumption;
  }

  /**
   * Acquires all or nothing. Makes the counter when there is none.
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
    // It must not make room by dropping the very counter that is asked for.
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

  /** Gives back what a client holds, or a part of it; 0 asks whether it holds any. */
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

  /** The client is gone: everything comes back. */
  releaseAll(acquired: AcquiredResources): void {
    for (const [view, held] of acquired) {
      const counter = view as Counter;
      this.#dropAcquisition(acquired, counter);
      this.#addConsumption(counter, -held);
    }
  }

  /** Begins an interval: highest consumptions count anew, and idle counters may be dropped. */
  beginInterval(): void {
    this.#interval++;
  }

  /**
   * Drops counters that nobody has held since before the interval began.
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

  /** Takes memory, dropping the counters that have been idle for longest. */
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
