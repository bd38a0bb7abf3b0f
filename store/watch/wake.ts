/** Who knows of threads that wait for something that has come. */
interface WakeSource {
  /** Takes a thread out of them; -1 when there is none left. */
  nextToWake(): number;
}

/** Calls `wake` for every thread that `source` names. */
export function wakeThreads(source: WakeSource, wake: (thread: number) => void): void {
  for (let thread = source.nextToWake(); thread >= 0; thread = source.nextToWake()) wake(thread);
}
