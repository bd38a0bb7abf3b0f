/** Failures of an address without a delay. */
const FREE_FAILURES = 5;
/** Time between two checks for an address after the next failure; it doubles with every further one. */
const GAP_MS_MIN = 25;
const GAP_MS_MAX = 250;
/** After this time without a failure, half of an address's failures are forgotten. */
const HALF_LIFE_MS = 60_000;
/** The longest that a check waits for its address. */
export const WAIT_MS_MAX = 5000;
/** Addresses remembered; the one that failed longest ago is forgotten first. */
export const ADDRESSES_MAX = 4096;

interface Row {
  failures: number;
  failedAtMs: number;
  /** Earliest time of the next check. */
  nextAtMs: number;
}

/** Delays the checks of addresses that send wrong passwords. Its memory is bounded. */
export class Throttle {
  readonly #rows = new Map<string, Row>();

  /**
   * Takes the next time at which a password from this address may be checked.
   *
   * @returns The wait in milliseconds; null when too many from this address are waiting.
   */
  reserve(address: string, nowMs: number): number | null {
    const row = this.#rows.get(address);
    if (row === undefined) return 0;
    this.#forget(row, nowMs);
    const gapMs = gapOf(row.failures);
    if (gapMs === 0) return 0;
    const atMs = Math.max(nowMs, row.nextAtMs);
    if (atMs - nowMs > WAIT_MS_MAX) return null;
    row.nextAtMs = atMs + gapMs;
    return atMs - nowMs;
  }

  /** Counts a wrong password. @returns Whether the address is slowed down from now on. */
  failed(address: string, nowMs: number): boolean {
    const row = this.#rows.get(address) ?? { failures: 0, failedAtMs: nowMs, nextAtMs: nowMs };
    this.#forget(row, nowMs);
    row.failures++;
    row.failedAtMs = nowMs;
    if (row.failures > FREE_FAILURES) {
      row.nextAtMs = Math.max(row.nextAtMs, nowMs + gapOf(row.failures));
    }
    // The map keeps the order in which addresses failed.
    this.#rows.delete(address);
    this.#rows.set(address, row);
    if (this.#rows.size > ADDRESSES_MAX) this.#rows.delete(this.#rows.keys().next().value!);
    return row.failures === FREE_FAILURES + 1;
  }

  /** Whether the address has failed lately. */
  isSuspect(address: string): boolean {
    return this.#rows.has(address);
  }

  #forget(row: Row, nowMs: number): void {
    const halvings = Math.floor((nowMs - row.failedAtMs) / HALF_LIFE_MS);
    if (halvings < 1) return;
    row.failures = halvings > 30 ? 0 : row.failures >> halvings;
    row.failedAtMs += halvings * HALF_LIFE_MS;
  }
}

function gapOf(failures: number): number {
  if (failures <= FREE_FAILURES) return 0;
  return Math.min(GAP_MS_MAX, GAP_MS_MIN * 2 ** Math.min(10, failures - FREE_FAILURES - 1));
}
