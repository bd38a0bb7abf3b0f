/** For how long connections that always have more to say may keep the thread to themselves. */
export const SLICE_MS_MAX = 4;

/**
 * Shares a thread out between connections. The runtime answers a read at once when bytes are
 * waiting, and looks at other sockets only when nothing is left to do, or rarely. So connections
 * that always have bytes waiting would keep all others waiting for a hundred milliseconds and more.
 */
export class FairScheduler {
  #spentMs = 0;
  #next: Promise<void> | null = null;

  /**
   * Notes work for a connection that probably has more waiting.
   *
   * @param ms How long it took.
   * @returns What to wait for before the next read; null: nothing.
   */
  charge(ms: number): Promise<void> | null {
    this.#spentMs += ms;
    if (this.#spentMs < SLICE_MS_MAX) return null;
    // A timer, even of 0 ms, leaves nothing to do for a moment.
    return this.#next ??= new Promise((resolve) =>
      setTimeout(() => {
        this.#spentMs = 0;
        this.#next = null;
        resolve();
      }, 0)
    );
  }
}
