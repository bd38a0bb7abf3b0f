import { logConnection, logProcess } from "../log.ts";

/** Numbers of the signals, for exit statuses. */
const STOPPING_SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGUSR1: 10 } as const;
const SIGNAL_STATUS_BASE = 128;

/**
 * A signal that comes again so soon is the same one: at Ctrl-C a terminal signals the whole process group, and what
 * started us (npx) passes its own on.
 */
const ECHO_MS = 250;

/** Waits for the reason to stop: a signal, or a client's `shutdown`. The second one ends the process at once. */
export class Stop {
  readonly #requested = Promise.withResolvers<void>();
  readonly #atOnce: (status: number) => never;
  /** When the first request came; undefined: none yet. */
  #requestedAtMs: number | undefined;

  /** @param atOnce Ends the process without waiting for anything. */
  constructor(atOnce: (status: number) => never) {
    this.#atOnce = atOnce;
  }

  /** Resolves when the process shall stop. */
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
      logConnection("info", "hangup_ignored", "SIGHUP: there is nothing to read again");
    });
  }

  /** @param statusAtOnce What to exit with when this is not the first request. */
  request(reason: string, statusAtOnce: number): void {
    const nowMs = performance.now();
    if (this.#requestedAtMs !== undefined) {
      if (nowMs - this.#requestedAtMs < ECHO_MS) return;
      logProcess("warning", "stopping_at_once", `${reason} again: stopping at once`);
      this.#atOnce(statusAtOnce);
    }
    this.#requestedAtMs = nowMs;
    logProcess("info", "stopping", `${reason}: stopping when what is under way has been answered`);
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
