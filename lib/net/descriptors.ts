/** Descriptors of the runtime, the signals, the log and the listeners, before any thread starts. */
const BASE_DESCRIPTORS = 25;
/** Descriptors of a thread: its event loop, its ring and its wake-ups. */
const DESCRIPTORS_PER_THREAD = 9;
/** Spare descriptors for the first connections, and for files that the runtime opens. */
const SPARE_DESCRIPTORS = 8;

/** The limit of open files is too low for the threads: the runtime would end the process without a message. */
export class DescriptorError extends Error {
  override readonly name = "DescriptorError";

  /** @param needed Number of descriptors that the server needs before its first connection. */
  constructor(readonly needed: number, threads: number) {
    super(
      `too few open files: -t ${threads} needs ${needed} descriptors, and one more for each connection; ` +
        `raise the limit (ulimit -n, LimitNOFILE=) or lower -t`,
    );
  }
}

/** Returns the number of descriptors that a server needs before its first connection. */
export function descriptorsNeeded(threads: number): number {
  return BASE_DESCRIPTORS + threads * DESCRIPTORS_PER_THREAD + SPARE_DESCRIPTORS;
}

/**
 * Opens as many descriptors as the threads will need, and closes them again.
 *
 * @param open Opens a descriptor; returns a function that closes it, or null when none is left.
 * @throws DescriptorError
 */
export function requireDescriptors(threads: number, open: () => (() => void) | null): void {
  const wanted = threads * DESCRIPTORS_PER_THREAD + SPARE_DESCRIPTORS;
  const closers: (() => void)[] = [];
  try {
    while (closers.length < wanted) {
      const close = open();
      if (close === null) throw new DescriptorError(descriptorsNeeded(threads), threads);
      closers.push(close);
    }
  } finally {
    for (const close of closers) close();
  }
}
