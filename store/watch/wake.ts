/** A source of threads to be woken. */
interface WakeSource {
  /** Removes and returns a thread to be woken; -1 if there is none left. */
  nextToWake(): number;
}

/** Calls `wake` for every thread of `source`. */
export function wakeThreads(source: WakeSource, wake: (thread: number) => void): void {
  for (let thread = source.nextToWake(); thread >= 0; thread = source.nextToWake()) wake(thread);
}
