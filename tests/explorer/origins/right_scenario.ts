/**
 * - `renew`: an origin asks the database for a confirmation
 * - `takeOver`: a second origin takes over
 * - `tick`: all clocks go on
 * - `drift`: the clock of the first origin loses as much as it may
 * - `shutDown`: the first origin ends, and gives its right up
 * - `kill`: the first origin is killed
 */
export type RightEvent = "renew" | "takeOver" | "tick" | "drift" | "shutDown" | "kill";

/** A rule that is broken on purpose. */
export type RightFault =
  /** A reader's thread does not look at the clock. */
  | "looksNever"
  /** A reader's thread looks at the clock before the request has been received. */
  | "looksEarly"
  /** The right begins with the database's answer. */
  | "countsFromAnswer"
  /** The right is renewed whatever epoch the database has. */
  | "renewsWhenDeposed"
  /** The second origin does not wait. */
  | "waitsNever"
  /** The second origin does not wait for what clocks may differ. */
  | "waitsWithoutMargin"
  /** An origin notes its end before it gives its right up. */
  | "notesEndEarly";

/** Two origins, one after the other, a reader of the first one's cache, and a writer at the second. */
export interface RightScenario {
  readonly name: string;
  /** Most occurrences of each event. */
  readonly events: Readonly<Partial<Record<RightEvent, number>>>;
  /** The origin that serves has a lock, which ends with its process; left out: a time. */
  readonly hasLock?: boolean;
  readonly fault?: RightFault;
  /** Steps of the shortest way to a wrong state; left out: none is wrong. */
  readonly wrongAfter?: number;
}
