// The events that a test waits for, so that its time limit can name them.

type Text = string | (() => string);

const waits = new Set<Text>();
const enders = new Set<() => void>();

/**
 * Waits for `promise`.
 *
 * @param what Names the event, for the time limit's message; a function is called only then.
 */
export async function waitingFor<T>(what: Text, promise: Promise<T>): Promise<T> {
  waits.add(what);
  try {
    return await promise;
  } finally {
    waits.delete(what);
  }
}

/** Names the events that are being waited for now. */
export function waitedFor(): string[] {
  return [...waits].map((what) => typeof what === "string" ? what : what());
}

/** Registers what ends something that the test started, in case its time is up. */
export function endAtTimeLimit(end: () => void): Disposable {
  enders.add(end);
  return { [Symbol.dispose]: () => void enders.delete(end) };
}

/** Ends what a test started that still runs, so that it can go on and clean up, and forgets its waits. */
export function endAll(): void {
  for (const end of enders) end();
  enders.clear();
  waits.clear();
}
