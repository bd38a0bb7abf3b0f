import { setImmediate } from "node:timers";
import { ROUND_UNITS } from "../../../protocol/work_budget.ts";

/**
 * Shares a thread between connections of the runtime's sockets. The runtime resolves a read at once when bytes are
 * waiting, and polls other sockets only when no promise is left to run. So connections that always have bytes waiting
 * would stall all others.
 */
export class FairScheduler {
  /** Work done since the runtime last polled the sockets. */
  #spentUnits = 0;
  /** Connections that have more to do, the first to continue first. */
  readonly #waiting: (() => void)[] = [];
  #isScheduled = false;

  /**
   * Charges work of a connection that probably has more to do.
   *
   * @param units See `WorkBudget`.
   * @returns A promise to await before the connection continues, or null if others need not go first.
   */
  charge(units: number): Promise<void> | null {
    this.#spentUnits += units;
    const isRoundOver = this.#spentUnits >= ROUND_UNITS;
    if (!isRoundOver && this.#waiting.length === 0) return null;
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
      if (isRoundOver) this.#schedule();
      else this.#waiting.shift()!();
    });
  }

  /** Lets the first one continue after the sockets were polled: immediates run after that. */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#spentUnits = 0;
      this.#waiting.shift()?.();
      // The resumed connection may never charge again, so it cannot be the one that resumes the next.
      if (this.#waiting.length > 0) this.#schedule();
    });
  }
}
