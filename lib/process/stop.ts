import { handleSignals } from "./signals.ts";
import { logProcess } from "./log.ts";

/**
 * A second signal within this time counts as the first: at Ctrl-C a terminal signals the whole process group, and a
 * wrapper such as npx forwards its own.
 */
const REPEATED_SIGNAL_MS = 250;

/** Waits for a reason to stop: a signal, or the `shutdown` command. The second one ends the process at once. */
export class Stop {
  readonly #requested = Promise.withResolvers<void>();
  /** Time of the first request to stop; undefined: none yet. */
  #requestedAtMs: number | undefined;
  /** Actions of SIGHUP. */
  readonly #reloads: (() => void)[] = [];

  /** @param exitNow Ends the process immediately. */
  constructor(readonly exitNow: (status: number) => never) {}

  /** Resolves at the first request to stop. */
  get requested(): Promise<void> {
    return this.#requested.promise;
  }

  get isRequested(): boolean {
    return this.#requestedAtMs !== undefined;
  }

  /** Handles the signals that `listenToSignals` catches. */
  handleSignals(): void {
    handleSignals(
      (signal, statusAtExit) => this.request(signal, statusAtExit),
      () => this.#reload(),
    );
  }

  #reload(): void {
    if (this.#reloads.length === 0) {
      logProcess("info", "hangup_ignored", "SIGHUP ignored: there is no file to reload");
    }
    for (const reload of this.#reloads) reload();
  }

  /** Adds an action of SIGHUP, which reloads a file. */
  onHangup(reload: () => void): void {
    this.#reloads.push(reload);
  }

  /** @param statusAtExit Exit status if this is not the first request. */
  request(reason: string, statusAtExit: number): void {
    const nowMs = performance.now();
    if (this.#requestedAtMs !== undefined) {
      if (nowMs - this.#requestedAtMs < REPEATED_SIGNAL_MS) return;
      logProcess("warning", "stopping_at_once", `${reason} again: closing all connections now`, {
        reason,
      });
      this.exitNow(statusAtExit);
    }
    this.#requestedAtMs = nowMs;
    logProcess("info", "stopping", `${reason}: shutting down, finishing requests in progress`, {
      reason,
    });
    this.#requested.resolve();
  }
}
