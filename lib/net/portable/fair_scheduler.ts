import { setImmediate } from "node:timers";
import { ROUND_UNITS } from "../../../protocol/work_budget.ts";

/** After this much work the runtime is made to poll the sockets. */
const POLL_MS = 5;
const NOTHING = new Uint8Array(0);

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
  /** When the runtime was last made to poll the sockets. */
  #polledAtMs = 0;

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

  /**
   * Lets the first one continue after the sockets were polled. While immediates are left the runtime polls the sockets
   * on every 61st turn of its event loop only, unless `bindPortable` may change that. It polls them too when it sleeps,
   * because nothing is left but work of another thread: a digest is such work, and takes a few dozen microseconds.
   */
  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    if (performance.now() - this.#polledAtMs < POLL_MS) setImmediate(this.#resume);
    else crypto.subtle.digest("SHA-1", NOTHING).then(this.#resumePolled);
  }

  readonly #resumePolled = (): void => {
    this.#polledAtMs = performance.now();
    this.#resume();
  };

  readonly #resume = (): void => {
    this.#isScheduled = false;
    this.#spentUnits = 0;
    this.#waiting.shift()?.();
    // The resumed connection may never charge again, so it cannot be the one that resumes the next.
    if (this.#waiting.length > 0) this.#schedule();
  };
}
