/** The longest time slice of connections that always have bytes waiting. */
export const SLICE_MS_MAX = 4;

/**
 * Shares a thread between connections. The runtime resolves a read at once when bytes are waiting,
 * and polls other sockets only when no promise is left to run, or rarely. So connections that always
 * have bytes waiting would stall all others for a hundred milliseconds and more.
 */
export class FairScheduler {
  #spentMs = 0;
  #next: Promise<void> | null = null;

  /**
   * Charges work of a connection that probably has more to do.
   *
   * @param ms How long the work took.
   * @returns A promise to await before the connection continues, or null if its slice is not used up.
   */
  charge(ms: number): Promise<void> | null {
    this.#spentMs += ms;
    if (this.#spentMs < SLICE_MS_MAX) return null;
    // Until a timer fires, even one of 0 ms, no promise is left to run, and the runtime polls all sockets.
    return this.#next ??= new Promise((resolve) =>
      setTimeout(() => {
        this.#spentMs = 0;
        this.#next = null;
        resolve();
      }, 0)
    );
  }
}
