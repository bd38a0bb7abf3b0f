import type { Proxy } from "./proxy.ts";

/** Pause between two checks. */
const CHECK_PAUSE_MS = 1000;

/**
 * Checks the epoch now and then, one read at a time: an idle proxy, too, learns that another one has taken over. Ends
 * when it has learned it, or when the proxy stops.
 *
 * @param sleep Waits for some milliseconds.
 */
export async function watchEpoch(
  proxy: Pick<Proxy, "checkEpoch" | "isDeposed">,
  sleep: (ms: number) => Promise<void>,
  isStopping: () => boolean,
): Promise<void> {
  for (;;) {
    await sleep(CHECK_PAUSE_MS);
    if (isStopping() || proxy.isDeposed) return;
    try {
      await proxy.checkEpoch();
    } catch {
      // The database does not answer; requests report it.
    }
  }
}
