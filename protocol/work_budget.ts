// Hot path: no allocation.

/*
 * How much a thread does for one connection before others go first. Work is counted in units of about 100 ns and never
 * measured with a clock, so that the same requests always end a slice at the same place. `deno task bench:fairness`
 * shows what a unit takes for each command, and the longest stall that a command causes.
 */

/** Work in one hold of the store's mutex: 50 to 100 microseconds. */
export const HOLD_UNITS = 512;
/**
 * Work for connections that have more to do, between two looks at the other sockets: a third of a slice, so that a look
 * costs little and a quiet client waits little longer than for the slice that is being executed.
 */
export const ROUND_UNITS = 2048;

/** What pieces of work cost, in units. */
export const WORK = {
  /** Any request, or one key of a line. */
  REQUEST: 2,
  /** A listed lock, lease, update token or connection. */
  CLAIM_LINE: 16,
  /** Chunks that a walk passes in one step. */
  WALK_STEP: 32,
} as const;

/** Empty buckets, rows or pages that cost one unit. */
const ROWS_PER_UNIT = 16;

/** The work that a thread has done in the slice of one connection, and how much of it is allowed. */
export class WorkBudget {
  readonly #sliceUnits: number;
  /** Done since `begin`. Whoever works adds to it, whole numbers only: the engine keeps them without allocating. */
  spent = 0;
  /** From here on the mutex is released, or the slice ends: see `isSpent`. Never above the end of the slice. */
  holdEnd = HOLD_UNITS;

  /** @param sliceUnits Work in one slice: `-R` requests, by default about 1 ms. */
  constructor(sliceUnits: number) {
    this.#sliceUnits = sliceUnits;
  }

  /** A slice begins, with the mutex just taken. */
  begin(): void {
    this.spent = 0;
    this.beginHold();
  }

  /** The mutex has just been taken. */
  beginHold(): void {
    this.holdEnd = Math.min(this.spent + HOLD_UNITS, this.#sliceUnits);
  }

  /** Charges a look at so many empty buckets, rows or pages. */
  chargeRows(rows: number): void {
    this.spent += Math.ceil(rows / ROWS_PER_UNIT);
  }

  /** Whether the slice is over: others go first. */
  get isSpent(): boolean {
    return this.spent >= this.#sliceUnits;
  }
}
