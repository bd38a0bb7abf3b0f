/** How the process lives, as all its threads see it. */
export const LifecyclePhase = {
  RUNNING: 0,
  /** No new connections; what was received is answered; then everything closes. */
  DRAINING: 1,
  /** Everything closes now. */
  STOPPING: 2,
} as const;

export type LifecyclePhase = typeof LifecyclePhase[keyof typeof LifecyclePhase];

const PHASE_WORD = 0;
/** How many listeners have stopped accepting for now. */
const PAUSED_WORD = 1;
/** Then one word a thread, counted up to wake it. */
const WAKE_WORDS = 2;

/**
 * The phase of the process and a bell for each thread, in shared memory: a thread that blocks in a
 * system call receives no messages, and a thread that does not may wait for its bell with `woken`.
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
  }

  /** Whether every listener accepts connections: `accepting_conns` of `stats`. */
  get accepting(): boolean {
    return Atomics.load(this.#words, PAUSED_WORD) === 0;
  }

  /** One listener stops accepting for a while: too many connections, or no descriptor left. */
  pauseAccepting(): void {
    Atomics.add(this.#words, PAUSED_WORD, 1);
  }

  resumeAccepting(): void {
    Atomics.sub(this.#words, PAUSED_WORD, 1);
  }

  /** Rings the bell of thread `threadIndex`: its `woken` resolves. Callable from every thread. */
  wake(threadIndex: number): void {
    Atomics.add(this.#words, WAKE_WORDS + threadIndex, 1);
    Atomics.notify(this.#words, WAKE_WORDS + threadIndex);
  }

  /** How often the bell of this thread was rung so far. */
  wakeCount(threadIndex: number): number {
    return Atomics.load(this.#words, WAKE_WORDS + threadIndex);
  }

  /** Resolves when the bell has been rung more than `wakeCount` times; keeps the thread free meanwhile. */
  async woken(threadIndex: number, wakeCount: number): Promise<void> {
    const wait = Atomics.waitAsync(this.#words, WAKE_WORDS + threadIndex, wakeCount);
    if (wait.async) await wait.value;
  }
}
