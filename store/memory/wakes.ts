// Hot path: no allocation.

/** The threads that this one must wake once the mutex is free: waits of their connections have ended. */
export class Wakes {
  /** Whether there is any. */
  isAny = false;
  readonly #flags: Uint8Array;

  constructor(threads: number) {
    this.#flags = new Uint8Array(threads);
  }

  add(thread: number): void {
    this.#flags[thread] = 1;
    this.isAny = true;
  }

  /** Calls `wake` for every thread, and forgets them. */
  wakeAll(wake: (thread: number) => void): void {
    this.isAny = false;
    for (let thread = 0; thread < this.#flags.length; thread++) {
      if (this.#flags[thread] === 0) continue;
      this.#flags[thread] = 0;
      wake(thread);
    }
  }
}
