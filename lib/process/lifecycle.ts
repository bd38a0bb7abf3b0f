/** Phases of the process, which all its threads see. */
export const LifecyclePhase = {
  /** The threads warm up. */
  STARTING: 0,
  /** Every thread has warmed up and opens its sockets, except those that take connections. */
  OPENING: 1,
  /** Every thread can serve and opens the sockets that take connections; none accepts. */
  LISTENING: 2,
  RUNNING: 3,
  /** Accepts no connections, finishes requests in progress, then closes every connection. */
  DRAINING: 4,
  /** Closes every connection now. */
  STOPPING: 5,
} as const;

export type LifecyclePhase = typeof LifecyclePhase[keyof typeof LifecyclePhase];

const PHASE_WORD = 0;
/** Number of listeners that have paused accepting. */
const PAUSED_WORD = 1;
/** The first of one word per thread, which counts its wake-ups. */
const WAKE_WORDS = 2;

/**
 * The phase of the process and a count of wake-ups for each thread, in shared memory, because a
 * thread that blocks in a system call receives no messages. A thread with an event loop waits for
 * its wake-ups with `woken`.
 */
export class Lifecycle {
  readonly #words: Int32Array<SharedArrayBuffer>;

  constructor(shared: SharedArrayBuffer) {
    this.#words = new Int32Array(shared);
  }

  static createShared(threads: number): SharedArrayBuffer {
    return new SharedArrayBuffer(4 * (WAKE_WORDS + threads));
  }

  get phase(): LifecyclePhase {
    return Atomics.load(this.#words, PHASE_WORD) as LifecyclePhase;
  }

  set phase(phase: LifecyclePhase) {
    Atomics.store(this.#words, PHASE_WORD, phase);
    Atomics.notify(this.#words, PHASE_WORD);
  }

  /** Resolves when the process is in `phase` or a later one. */
  async reaches(phase: LifecyclePhase): Promise<void> {
    for (let now = this.phase; now < phase; now = this.phase) {
      const wait = Atomics.waitAsync(this.#words, PHASE_WORD, now);
      if (wait.async) await wait.value;
    }
  }

  /** Whether every listener accepts connections: `accepting_conns` of `stats`. */
  get accepting(): boolean {
    return Atomics.load(this.#words, PAUSED_WORD) === 0;
  }

  /** Counts a listener that pauses accepting: too many connections, or no descriptor left. */
  pauseAccepting(): void {
    Atomics.add(this.#words, PAUSED_WORD, 1);
  }

  resumeAccepting(): void {
    Atomics.sub(this.#words, PAUSED_WORD, 1);
  }

  /** Wakes thread `threadIndex`: its `woken` resolves. Callable from every thread. */
  wake(threadIndex: number): void {
    Atomics.add(this.#words, WAKE_WORDS + threadIndex, 1);
    Atomics.notify(this.#words, WAKE_WORDS + threadIndex);
  }

  /** Returns the number of wake-ups of a thread so far. */
  wakeCount(threadIndex: number): number {
    return Atomics.load(this.#words, WAKE_WORDS + threadIndex);
  }

  /** Resolves when the thread has been woken more than `wakeCount` times. Does not block the event loop. */
  async woken(threadIndex: number, wakeCount: number): Promise<void> {
    const wait = Atomics.waitAsync(this.#words, WAKE_WORDS + threadIndex, wakeCount);
    if (wait.async) await wait.value;
  }
}
