/** The signals that stop a server or an origin, with their numbers for exit statuses. */
const STOPPING_SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGUSR1: 10 } as const;
const SIGNAL_STATUS_BASE = 128;

/** @param statusAtExit Exit status of a process that this signal ends at once. */
type SignalHandler = (signal: string, statusAtExit: number) => void;

/** Until `handleSignals` is called: ends the process. */
let handler: SignalHandler = () => Deno.exit(0);
/** Until `handleSignals` is called: nothing, because no file has been read yet. */
let hangupHandler = (): void => {};

/**
 * Catches signals. Until `handleSignals` is called, SIGHUP does nothing, and the signals that stop end the process with
 * status 0.
 */
export function listenToSignals(): void {
  addSignal("SIGHUP", () => hangupHandler());
  for (const [signal, number] of Object.entries(STOPPING_SIGNALS)) {
    addSignal(signal as Deno.Signal, () => handler(signal, SIGNAL_STATUS_BASE + number));
  }
}

/** Replaces the actions of the signals. No signal is lost or handled twice. */
export function handleSignals(next: SignalHandler, nextHangup: () => void): void {
  handler = next;
  hangupHandler = nextHangup;
}

/** Adds a listener if this operating system has the signal. */
function addSignal(signal: Deno.Signal, listener: () => void): void {
  try {
    Deno.addSignalListener(signal, listener);
  } catch {
    // This operating system lacks the signal.
  }
}
