import type { Memory } from "./memory.ts";
import * as memoryModule from "./memory.ts";
import * as statsModule from "./stats.ts";

// Copies of imported constants: the engine folds only a module's own constants into its code.
const { CONTROL } = memoryModule;
const { STAT } = statsModule;

const FREE = 0;
const HELD = 1;
/** Held, and somebody may be asleep. */
const CONTENDED = 2;

/** How often to look again before going to sleep: about two microseconds, several batches' worth. */
const SPINS = 200;

/**
 * The one lock on the store: a futex mutex over a control word (Drepper, "Futexes Are Tricky", mutex 2). A thread takes
 * it once a batch and never holds it across a read, a write or an await.
 */
export class Mutex {
  readonly #control: Int32Array;
  readonly #counters: Float64Array;

  constructor(memory: Memory) {
    this.#control = memory.control;
    this.#counters = memory.counters;
  }

  lock(): void {
    if (Atomics.compareExchange(this.#control, CONTROL.MUTEX, FREE, HELD) !== FREE) {
      this.#lockSlowly();
    }
  }

  unlock(): void {
    if (Atomics.exchange(this.#control, CONTROL.MUTEX, FREE) === CONTENDED) {
      Atomics.notify(this.#control, CONTROL.MUTEX, 1);
    }
  }

  #lockSlowly(): void {
    const control = this.#control;
    for (let spin = 0; spin < SPINS; spin++) {
      if (
        control[CONTROL.MUTEX] === FREE &&
        Atomics.compareExchange(control, CONTROL.MUTEX, FREE, HELD) === FREE
      ) {
        this.#counters[STAT.mutex_waits]! += 1;
        return;
      }
      Atomics.pause?.();
    }
    while (Atomics.exchange(control, CONTROL.MUTEX, CONTENDED) !== FREE) {
      Atomics.wait(control, CONTROL.MUTEX, CONTENDED);
    }
    this.#counters[STAT.mutex_waits]! += 1;
  }
}
