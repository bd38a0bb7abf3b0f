// The events that a test waits for: each has a limit of its own, and the limit of the test can name them.

type Text = string | (() => string);

/** Longest wait for one event: far above what any takes on a busy machine, and below the limit of the test. */
const WAIT_LIMIT_MS = 60_000;

const waits = new Set<Text>();
const enders = new Set<() => void>();

/**
 * Waits for `promise`.
 *
 * @param what Names the event, for messages; a function is called only then.
 * @param limitMs Infinity: only the test's own limit ends the wait, as for work that takes long.
 * @throws Error after the limit.
 */
export async function waitingFor<T>(
  what: Text,
  promise: Promise<T>,
  limitMs = WAIT_LIMIT_MS,
): Promise<T> {
  waits.add(what);
  const { promise: timeIsUp, reject } = Promise.withResolvers<never>();
  const timer = limitMs === Infinity ? undefined : setTimeout(
    () => reject(new Error(`waited in vain for ${limitMs} ms for: ${nameOf(what)}`)),
    limitMs,
  );
  try {
    return await Promise.race([promise, timeIsUp]);
  } finally {
    clearTimeout(timer);
    waits.delete(what);
  }
}

function nameOf(what: Text): string {
  return typeof what === "string" ? what : what();
}

/** Names the events that are being waited for now. */
export function waitedFor(): string[] {
  return [...waits].map(nameOf);
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
