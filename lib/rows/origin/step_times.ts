import type { StepKind } from "../flows/steps.ts";

/** The steps whose time is taken, and the beginning of the names of their statistics. */
export const TIMED_STEPS = [
  [
    "delete",
    "node_delete",
    "deletions of rows that waited for nodes, or for a walk through the cache",
  ],
  ["readRows", "database_read", "reads of rows, several together"],
  ["readEpoch", "database_confirm", "questions whether another origin has taken over"],
  ["writeRows", "database_write", "transactions of groups of writes"],
  ["askOutcome", "database_outcome", "questions for the outcome of a write"],
] as const satisfies readonly (readonly [StepKind, name: string, meaning: string])[];

export type TimedStep = (typeof TIMED_STEPS)[number][0];

/** How long the steps of one kind took, those that failed included. */
export class StepTimes {
  count = 0;
  sumMs = 0;
  failures = 0;

  add(ms: number, failures: number): void {
    this.count++;
    this.sumMs += ms;
    this.failures += failures;
  }
}
