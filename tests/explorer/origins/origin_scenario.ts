import type { Flows } from "../../../lib/rows/flows/flows.ts";
import type { RecordingStates } from "../client_caches/recording_states.ts";

/** A write of a client. */
export type Deed = "set" | "add" | "delete";

/** A client of an origin. */
export type Client =
  | { readonly kind: "reader"; readonly origin?: number }
  /** Sends all its writes at once. */
  | { readonly kind: "writer"; readonly deeds: readonly Deed[]; readonly origin?: number };

/**
 * - `takeOver`: a second origin takes over, and the first does not know
 * - `evict`: the row leaves the last origin's cache
 * - `loseCommit`: the connection is lost during a group's transaction, which takes place, now or later, or does not
 * - `lock`: another process has the database locked until the first write of a group is late; the others are postponed
 */
export type OriginEvent = "takeOver" | "evict" | "loseCommit" | "lock";

export interface OriginScenario {
  readonly name: string;
  readonly clients: readonly Client[];
  /** The row exists at the beginning. */
  readonly isFilled?: boolean;
  /** Most occurrences of each event; left out: none. */
  readonly events?: Readonly<Partial<Record<OriginEvent, number>>>;
  /** A fault: groups do not lock the epoch. */
  readonly isUnfenced?: boolean;
  /** A fault: a fill takes whatever lease the row has by then, or a new one. */
  readonly fillsWithoutLease?: boolean;
  /** A fault: a write leaves the note that the row is absent. */
  readonly keepsAbsent?: boolean;
  /** A fault: the answers of a group go to one writer further on. */
  readonly answersNext?: boolean;
  /** A fault: a read joins one that is under way. */
  readonly joinsReads?: boolean;
  readonly makeFlows?: (states: RecordingStates) => Flows;
  /** Steps of the shortest way to a wrong state; left out: none is wrong. */
  readonly wrongAfter?: number;
}
