import type { FlowStep, StepKind } from "../../../lib/rows/flows/steps.ts";
import type { Flows } from "../../../lib/rows/flows/flows.ts";
import type { CacheList } from "../../../lib/rows/flows/cache_list.ts";
import type { RecordingStates } from "./recording_states.ts";

/**
 * Events that no client of an origin causes:
 *
 * - `restart`: the first origin restarts; what it has sent may arrive later, or never
 * - `takeOver`: a second origin takes over, and the first does not know
 * - `changeList`: the list of caches is to be `laterListed`, or again `listed`
 * - `adjustList`: an origin begins to make its list what it is to be; it may at any time
 * - `cacheFails`: a cache does not answer; what it was asked took place, takes place later, or does not
 * - `databaseFails`: the database refuses what it was asked
 * - `loseCommit`: the connection is lost during a write, which is committed or not
 */
export const LISTED_EVENTS = [
  "restart",
  "takeOver",
  "changeList",
  "adjustList",
  "cacheFails",
  "databaseFails",
  "loseCommit",
] as const;
export type ListedEvent = typeof LISTED_EVENTS[number];

/** Steps whose results reach the flow in a step of their own: it goes on with shared knowledge then. */
export const LATE: readonly StepKind[] = ["invalidateListed", "writeRows", "askOutcome"];

/** ListedCaches before a database. */
export interface ListedSetup {
  /** How many origins there are at the beginning: the last one has taken over; left out: one. */
  readonly origins?: number;
  /** Caches that the origins know, by number; left out: the first. */
  readonly listed?: readonly number[];
  readonly laterListed?: readonly number[];
  /** The list of an origin that starts later; left out: that of the others. */
  readonly successorListed?: readonly number[];
  /** Values of caches outside the list may differ from the committed one: nobody may read them. */
  readonly ignoresOutside?: boolean;
  /** Most occurrences of each event; left out: none. */
  readonly events?: Readonly<Partial<Record<ListedEvent, number>>>;
  /** Left out: LATE. */
  readonly late?: readonly StepKind[];
  /** A fault: writes do not look at the epoch. */
  readonly isUnfenced?: boolean;
  /** A fault: these steps are answered, but do not take place. */
  readonly skips?: (step: FlowStep<number>) => boolean;
  /** A fault: an origin that starts later trusts its own list, whatever is noted. */
  readonly ignoresNotes?: boolean;
  /** A fault: a read joins one that runs, whenever it began. */
  readonly joinsReads?: boolean;
  /** States, or flows, with a fault. */
  readonly makeStates?: (epoch: number) => RecordingStates;
  readonly makeFlows?: (caches: CacheList<number>, states: RecordingStates) => Flows<number>;
  /** No token may be live once all clients have ended and the origins have nothing to do. */
  readonly mustEndWithoutTokens?: boolean;
}
