// Hot path: no allocation.

/*
 * The budget bounds the work that a thread does for one connection before it serves others. Work is counted in units of
 * about 100 ns and never measured with a clock, so that the same requests always end a slice at the same place.
 * `deno task bench fairness` shows the time of a unit for each command, and the longest stall that a command causes.
 */

/** Work in one hold of the store's mutex: 50 to 100 microseconds. Reads without the mutex count as if they held it. */
export const HOLD_UNITS = 512;
/**
 * Work for connections that have more to do, between two polls of the other sockets. A quarter of the default slice:
 * polls cost little, and a quiet client waits little longer than for the slice in progress.
 */
export const ROUND_UNITS = 2048;

/** Costs of pieces of work, in units. */
export const WORK = {
  /** Any request, or one key of a line. */
  REQUEST: 2,
  /** A listed lock, lease, update token or connection. */
  CLAIM_LINE: 16,
  /** One step of a walk over chunks. */
  WALK_STEP: 32,
} as const;

/** Empty buckets, rows or pages that cost one unit. */
const ROWS_PER_UNIT = 16;

/** Counts the work of a thread in the slice of one connection, and limits it. */
export class WorkBudget {
  readonly #sliceUnits: number;
  /** Units done since `begin`. Callers add whole numbers only: the engine stores these without allocating. */
  spent = 0;
  /** At this value of `spent` the mutex is released, or the slice ends (`isSpent`). At most the end of the slice. */
  holdEnd = HOLD_UNITS;

  /** @param sliceUnits Work in one slice: `-R` requests, by default about 1 ms. */
  constructor(sliceUnits: number) {
    this.#sliceUnits = sliceUnits;
  }

  /** Begins a slice, and its first hold. */
  begin(): void {
    this.spent = 0;
    this.beginHold();
  }

  /** Begins a hold of the mutex, which has just been taken or yielded, or reads without it. */
  beginHold(): void {
    this.holdEnd = Math.min(this.spent + HOLD_UNITS, this.#sliceUnits);
  }

  /** Charges a walk over empty buckets, rows or pages. */
  chargeRows(rows: number): void {
    this.spent += Math.ceil(rows / ROWS_PER_UNIT);
  }

  /** Charges all that is left of the slice. */
  endSlice(): void {
    this.spent = Math.max(this.spent, this.#sliceUnits);
  }

  /** Whether the slice is over: others go first. */
  get isSpent(): boolean {
    return this.spent >= this.#sliceUnits;
  }
}
