/** Descriptors of the runtime, the signals, the log and the listeners, before any thread starts. */
const BASE_DESCRIPTORS = 25;
/** An event loop and what it is woken with. */
const DESCRIPTORS_PER_THREAD = 8;
/** For the first connections, and what the runtime opens now and then. */
const SPARE_DESCRIPTORS = 8;

/** The limit of open files does not allow the threads: the runtime would end the process without a word. */
export class DescriptorError extends Error {
  override readonly name = "DescriptorError";

  /** @param needed How many descriptors the server needs before its first connection. */
  constructor(readonly needed: number, threads: number) {
    super(
      `too few open files: -t ${threads} needs ${needed} descriptors, and one more for each connection; ` +
        `raise the limit (ulimit -n, LimitNOFILE=) or lower -t`,
    );
  }
}

/**
 * Opens as many descriptors as the threads will need, and closes them again.
 *
 * @param open Opens one; returns what closes it, or null when there is none left.
 * @throws DescriptorError
 */
export function requireDescriptors(threads: number, open: () => (() => void) | null): void {
  const wanted = threads * DESCRIPTORS_PER_THREAD + SPARE_DESCRIPTORS;
  const closers: (() => void)[] = [];
  try {
    while (closers.length < wanted) {
      const close = open();
      if (close === null) throw new DescriptorError(BASE_DESCRIPTORS + wanted, threads);
      closers.push(close);
    }
  } finally {
    for (const close of closers) close();
  }
}
