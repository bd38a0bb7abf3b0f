/**
 * - `leave`: a client's connection ends
 * - `time`: the time for which a write may wait is over
 */
export type RoomEvent = "leave" | "time";

/** A rule that is broken on purpose. */
export type RoomFault =
  /** The end of a write gives its memory to nobody. */
  | "givesNothing"
  /** A write takes memory in front of those that wait. */
  | "overtakes"
  /** A write whose wait has ended does not look whether there is memory. */
  | "looksOnce"
  /** The wait of a connection that has ended goes on. */
  | "keepsWait";

/** Writes of rows that wait for the memory of other values. */
export interface RoomScenario {
  readonly name: string;
  /** Length of each client's value. */
  readonly lengths: readonly number[];
  /** Bytes that values on their way to the database may take. */
  readonly bytesMax: number;
  /** Most occurrences of each event; left out: none. */
  readonly events?: Readonly<Partial<Record<RoomEvent, number>>>;
  readonly fault?: RoomFault;
  /** Steps of the shortest way to a wrong state; left out: none is wrong. */
  readonly wrongAfter?: number;
}
