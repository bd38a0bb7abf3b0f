import type { Memory } from "./memory.ts";
import * as memoryModule from "./memory.ts";
import * as statsModule from "../stats.ts";

const { CONTROL } = memoryModule;
const { THREAD_STAT } = statsModule;

const FREE = 0;
const HELD = 1;
/** Held, and a thread may be asleep. */
const CONTENDED = 2;

/** Spins before a thread sleeps: about two microseconds, longer than several batches. */
const SPINS = 200;
/** Spins of a thread that lets another one go first: about 50 microseconds, in which a thread wakes up. */
const YIELD_SPINS = 4000;
/**
 * One hold in this many is measured, and one wait that ends without sleep, because reading the clock takes longer than
 * locking. A prime, so that it is not always the same part of a batch.
 */
const MEASURE_EVERY = 61;

/**
 * The one lock on the store: a futex mutex over a control word (Drepper, "Futexes Are Tricky", mutex 2). A thread takes
 * it for requests of one batch, and never holds it across a read from a socket, a write to one or an await.
 */
export class Mutex {
  /** A monotonic clock in milliseconds. Until it is set, no times are measured. */
  nowMs: () => number = () => 0;
  readonly #control: Int32Array;
  readonly #stats: Float64Array;
  #holdsUntilMeasure = MEASURE_EVERY;
  #spinsUntilMeasure = MEASURE_EVERY;
  /** When the measured hold began. */
  readonly #heldSinceMs = new Float64Array(1);

  constructor(memory: Memory) {
    this.#control = memory.control;
    this.#stats = memory.threadStats;
  }

  lock(): void {
    if (Atomics.compareExchange(this.#control, CONTROL.MUTEX, FREE, HELD) !== FREE) {
      this.#lockContended();
    }
    if (--this.#holdsUntilMeasure === 0) this.#heldSinceMs[0] = this.nowMs();
  }

  unlock(): void {
    if (this.#holdsUntilMeasure === 0) this.#measure();
    if (Atomics.exchange(this.#control, CONTROL.MUTEX, FREE) === CONTENDED) {
      Atomics.notify(this.#control, CONTROL.MUTEX, 1);
    }
  }

  /** Whether a thread may be asleep until the mutex, which is held, is released. */
  get isAwaited(): boolean {
    return this.#control[CONTROL.MUTEX] === CONTENDED;
  }

  /**
   * Waits until another thread has taken the mutex, which this thread has released and wants again: it would be faster
   * than a thread that has to wake up. Gives up after some time.
   */
  letOthersTake(): void {
    for (let spin = 0; spin < YIELD_SPINS; spin++) {
      if (Atomics.load(this.#control, CONTROL.MUTEX) !== FREE) return;
      Atomics.pause?.();
    }
  }

  #measure(): void {
    this.#holdsUntilMeasure = MEASURE_EVERY;
    const heldMs = this.nowMs() - this.#heldSinceMs[0]!;
    this.#stats[THREAD_STAT.mutex_held_us]! += heldMs * 1000 * MEASURE_EVERY;
  }

  #lockContended(): void {
    this.#stats[THREAD_STAT.mutex_waits]! += 1;
    const isMeasured = --this.#spinsUntilMeasure === 0;
    if (isMeasured) this.#spinsUntilMeasure = MEASURE_EVERY;
    const startMs = isMeasured ? this.nowMs() : 0;
    if (!this.#spin()) return this.#sleep();
    if (!isMeasured) return;
    this.#stats[THREAD_STAT.mutex_wait_us]! += (this.nowMs() - startMs) * 1000 * MEASURE_EVERY;
  }

  /** Waits awake. @returns Whether this thread has the mutex. */
  #spin(): boolean {
    const control = this.#control;
    for (let spin = 0; spin < SPINS; spin++) {
      if (
        control[CONTROL.MUTEX] === FREE &&
        Atomics.compareExchange(control, CONTROL.MUTEX, FREE, HELD) === FREE
      ) return true;
      Atomics.pause?.();
    }
    return false;
  }

  #sleep(): void {
    const startMs = this.nowMs();
    while (Atomics.exchange(this.#control, CONTROL.MUTEX, CONTENDED) !== FREE) {
      Atomics.wait(this.#control, CONTROL.MUTEX, CONTENDED);
    }
    this.#stats[THREAD_STAT.mutex_wait_us]! += (this.nowMs() - startMs) * 1000;
  }
}
