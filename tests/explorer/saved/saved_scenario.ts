/**
 * - `stop`: a clean stop; the origin notes its mark, and writes a snapshot
 * - `kill`: the origin is killed
 * - `other`: another origin takes over, writes, and ends with a mark of its own
 * - `otherKilled`: the same, and it is killed
 * - `copy`: somebody copies the database
 * - `restore`: the database becomes the copy, while no origin runs
 */
export type SavedEvent = "stop" | "kill" | "other" | "otherKilled" | "copy" | "restore";

/** A rule that is broken on purpose. */
export type SavedFault =
  /** Rows are kept, whatever the mark. */
  | "keepsAlways"
  /** The database has no mark: epochs are compared. */
  | "comparesEpochs"
  /** Marks are compared, not the epochs in them. */
  | "comparesNames"
  /** The mark is noted at the start. */
  | "marksEarly"
  /** Rows are served before the log was applied. */
  | "servesEarly"
  /** A snapshot is loaded again after a kill, by an origin that compares no epochs. */
  | "loadsAgain";

/** A client of the row. `direct` writes to the table of a followed database. */
export type SavedClient = "reader" | "writer" | "direct";

/** An origin that restarts with a snapshot. The row exists at the beginning, and is cached. */
export interface SavedScenario {
  readonly name: string;
  readonly clients: readonly SavedClient[];
  /** Whether the origin follows the log, which has changes of direct writers only. */
  readonly follows?: boolean;
  /** Most occurrences of each event; left out: none. */
  readonly events: Readonly<Partial<Record<SavedEvent, number>>>;
  readonly fault?: SavedFault;
  /** Steps of the shortest way to a wrong state; left out: none is wrong. */
  readonly wrongAfter?: number;
}
