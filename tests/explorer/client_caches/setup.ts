import type { StepKind } from "../../../lib/rows/flows/steps.ts";
import type { Flows } from "../../../lib/rows/flows/flows.ts";
import type { RecordingStates } from "./recording_states.ts";

/**
 * Events that no client of an origin causes:
 *
 * - `restart`: the first origin restarts; what it has sent may arrive later, or never
 * - `takeOver`: a second origin takes over, and the first does not know
 * - `databaseFails`: the database refuses what it was asked
 * - `loseCommit`: the connection is lost during a write, which is committed or not
 */
export const ORIGIN_EVENTS = [
  "restart",
  "takeOver",
  "databaseFails",
  "loseCommit",
] as const;
export type OriginEvent = typeof ORIGIN_EVENTS[number];

/** Steps whose results reach the flow in a step of their own: it goes on with shared knowledge then. */
export const LATE: readonly StepKind[] = ["writeRows", "askOutcome"];

/** Origins before a database. */
export interface OriginSetup {
  /** How many origins there are at the beginning: the last one has taken over; left out: one. */
  readonly origins?: number;
  /** Most occurrences of each event; left out: none. */
  readonly events?: Readonly<Partial<Record<OriginEvent, number>>>;
  /** Left out: LATE. */
  readonly late?: readonly StepKind[];
  /** A fault: writes do not look at the epoch. */
  readonly isUnfenced?: boolean;
  /** A fault: a read joins one that runs, whenever it began. */
  readonly joinsReads?: boolean;
  /** States, or flows, with a fault. */
  readonly makeStates?: (epoch: number) => RecordingStates;
  readonly makeFlows?: (states: RecordingStates) => Flows;
  /** No token may be live once all clients have ended and the origins have nothing to do. */
  readonly mustEndWithoutTokens?: boolean;
}
