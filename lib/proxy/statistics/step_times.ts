import type { StepKind, StepResults } from "../../rows/flows/steps.ts";

/** Upper bounds of the buckets, in milliseconds. */
export const BOUNDS_MS: readonly number[] = [
  ...[0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000],
];

/** The steps whose time is taken, and the beginning of the names of their statistics. */
export const TIMED_STEPS = [
  ["invalidate", "cache_delete", "deletions in all caches before a write"],
  ["readRow", "database_read", "reads of rows"],
  ["writeRow", "database_write", "write transactions"],
  ["askOutcome", "database_outcome", "questions for the outcome of a write"],
  ["noteCaches", "database_note", "notes of the list of caches"],
] as const satisfies readonly (readonly [StepKind, name: string, meaning: string])[];

export type TimedStep = (typeof TIMED_STEPS)[number][0];

/** How long the steps of one kind took, those that failed included. */
export class StepTimes {
  /** By bucket, and one above the last bound. */
  readonly counts: number[] = new Array(BOUNDS_MS.length + 1).fill(0);
  sumMs = 0;
  failures = 0;

  get count(): number {
    return this.counts.reduce((sum, count) => sum + count, 0);
  }

  add(ms: number, hasFailed: boolean): void {
    const bucket = BOUNDS_MS.findIndex((boundMs) => ms <= boundMs);
    this.counts[bucket < 0 ? BOUNDS_MS.length : bucket]!++;
    this.sumMs += ms;
    if (hasFailed) this.failures++;
  }
}

/** Whether the database has answered that it could not do a step. */
export function isFailure(result: StepResults[StepKind]): boolean {
  return typeof result === "object" && "kind" in result &&
    (result.kind === "failed" || result.kind === "unknown");
}
