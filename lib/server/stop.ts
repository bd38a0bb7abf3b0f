import { logConnection, logProcess } from "../log.ts";

/** The signals that stop the server, with their numbers for exit statuses. */
const STOPPING_SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGUSR1: 10 } as const;
const SIGNAL_STATUS_BASE = 128;

/**
 * A second signal within this time counts as the first: at Ctrl-C a terminal signals the whole process group, and a
 * wrapper such as npx forwards its own.
 */
const REPEATED_SIGNAL_MS = 250;

/** Waits for a reason to stop: a signal, or the `shutdown` command. The second one ends the process at once. */
export class Stop {
  readonly #requested = Promise.withResolvers<void>();
  readonly #exitNow: (status: number) => never;
  /** Time of the first request to stop; undefined: none yet. */
  #requestedAtMs: number | undefined;

  /** @param exitNow Ends the process immediately. */
  constructor(exitNow: (status: number) => never) {
    this.#exitNow = exitNow;
  }

  /** Resolves at the first request to stop. */
  get requested(): Promise<void> {
    return this.#requested.promise;
  }

  get isRequested(): boolean {
    return this.#requestedAtMs !== undefined;
  }

  listenToSignals(): void {
    for (const [signal, number] of Object.entries(STOPPING_SIGNALS)) {
      addSignal(signal as Deno.Signal, () => this.request(signal, SIGNAL_STATUS_BASE + number));
    }
    addSignal("SIGHUP", () => {
      logConnection("info", "hangup_ignored", "SIGHUP ignored: there is no file to reload");
    });
  }

  /** @param statusAtExit Exit status if this is not the first request. */
  request(reason: string, statusAtExit: number): void {
    const nowMs = performance.now();
    if (this.#requestedAtMs !== undefined) {
      if (nowMs - this.#requestedAtMs < REPEATED_SIGNAL_MS) return;
      logProcess("warning", "stopping_at_once", `${reason} again: closing all connections now`, {
        reason,
      });
      this.#exitNow(statusAtExit);
    }
    this.#requestedAtMs = nowMs;
    logProcess("info", "stopping", `${reason}: shutting down, finishing requests in progress`, {
      reason,
    });
    this.#requested.resolve();
  }
}

function addSignal(signal: Deno.Signal, listener: () => void): void {
  try {
    Deno.addSignalListener(signal, listener);
  } catch {
    // This operating system has no such signal.
  }
}
