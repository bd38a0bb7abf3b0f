/** Most keys whose failures are kept in mind. */
const FAILED_MAX = 10_000;

/** Loads of values that have others in their place: which of them this client begins. */
export class Attempts {
  readonly #nowMs: () => number;
  readonly #running = new Set<string>();
  /** By key, when its pause ends; in the order of their failures. */
  readonly #pauses = new Map<string, number>();

  /** @param nowMs Returns the time, in ms. */
  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs;
  }

  /** Begins an attempt. @returns False: one is under way, or the last one failed a moment ago. */
  begin(key: string): boolean {
    if (this.#running.has(key)) return false;
    const pausedUntilMs = this.#pauses.get(key);
    if (pausedUntilMs !== undefined && this.#nowMs() < pausedUntilMs) return false;
    this.#running.add(key);
    return true;
  }

  /** Ends an attempt. @param backoffMs How long the next one waits. */
  end(key: string, backoffMs: number): void {
    this.#running.delete(key);
    this.#pauses.delete(key);
    if (backoffMs === 0) return;
    this.#pauses.set(key, this.#nowMs() + backoffMs);
    const [oldest] = this.#pauses.keys();
    if (this.#pauses.size > FAILED_MAX) this.#pauses.delete(oldest!);
  }
}
