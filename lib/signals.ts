/** The signals that stop the server, with their numbers for exit statuses. */
const STOPPING_SIGNALS = { SIGINT: 2, SIGTERM: 15, SIGUSR1: 10 } as const;
const SIGNAL_STATUS_BASE = 128;

/** @param statusAtExit Exit status of a process that this signal ends at once. */
export type SignalHandler = (signal: string, statusAtExit: number) => void;

/** Until a server is there to shut down. */
let handler: SignalHandler = () => Deno.exit(0);

/** Catches the signals that stop the server. Until `handleSignals` is called, they end the process with status 0. */
export function listenToSignals(): void {
  for (const [signal, number] of Object.entries(STOPPING_SIGNALS)) {
    addSignal(signal as Deno.Signal, () => handler(signal, SIGNAL_STATUS_BASE + number));
  }
}

/** Sets what the signals do from now on. None is lost or caught twice in between. */
export function handleSignals(next: SignalHandler): void {
  handler = next;
}

/** Adds a listener, if this operating system has the signal. */
export function addSignal(signal: Deno.Signal, listener: () => void): void {
  try {
    Deno.addSignalListener(signal, listener);
  } catch {
    // It has not.
  }
}
