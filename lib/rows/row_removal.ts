import type { Cache } from "../../store/cache.ts";

/** How long a removal may keep the event loop: short for reads and writes of rows, long beside a timer. */
const PIECE_MS = 1;

/**
 * Removes rows, as `dropRows` of the store does, in pieces between which other work of the thread is done.
 *
 * @param sleep Waits for some milliseconds.
 * @param nowMs The clock that measures pieces.
 */
export async function removeRows(
  cache: Cache,
  prefixes: readonly (string | Uint8Array)[],
  sleep: (ms: number) => Promise<void>,
  nowMs: () => number = () => performance.now(),
): Promise<void> {
  const walk = cache.rows!.removal.dropRows(prefixes);
  for (let startMs = nowMs(); !walk.next().done;) {
    if (nowMs() - startMs < PIECE_MS) continue;
    await sleep(0);
    startMs = nowMs();
  }
}
