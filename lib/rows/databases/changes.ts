/** What has changed in the table of rows, in one or more transactions that follow one another. */
export interface Changes {
  /** Keys of changed rows, a character a byte, each once; the old and the new one of a row whose key has changed. */
  readonly keys: readonly string[];
  /** Whether the keys are too many to name, or the table was truncated: every row may have changed. */
  readonly isFlood: boolean;
  /** Number of changes. */
  readonly count: number;
  /** The position after them in the database's log. */
  readonly position: bigint;
}

/** The database's log from the confirmed position on. */
export interface ChangeStream {
  /** Why changes before it may be missing; null: none is. Everything is to be emptied before `begin`. */
  readonly gap: string | null;
  /** The last position in the log that is known. */
  readonly endPosition: bigint;
  /** Everything is emptied if there was a gap: the stream may be continued after a restart from now on. */
  begin(): Promise<void>;
  /**
   * Waits for changes that reads see. Without changes for a while, an empty set has the newest position.
   *
   * @throws Why the log cannot be read.
   */
  next(): Promise<Changes>;
  /** The changes up to this position are applied: they are not sent again. */
  confirm(position: bigint): Promise<void> | void;
  /** Has `next` return soon, with the newest position if there is no change. */
  hasten(): void;
  /** Bytes of the log that the database keeps for this stream; 0: unknown. */
  readonly retainedBytes: number;
  close(): Promise<void>;
}

/** Most keys that one set of changes names. */
export const CHANGED_KEYS_MAX = 10_000;

/** Collects the keys of a transaction in bounded memory. */
export class ChangedKeys {
  readonly keys = new Set<string>();
  isFlood = false;
  count = 0;

  add(key: string): void {
    this.count++;
    if (this.isFlood) return;
    this.keys.add(key);
    if (this.keys.size > CHANGED_KEYS_MAX) this.flood();
  }

  /** Every row may have changed. */
  flood(): void {
    this.isFlood = true;
    this.keys.clear();
  }

  /** Adds those of a transaction that follows. */
  join(other: ChangedKeys): void {
    this.count += other.count;
    if (other.isFlood) this.flood();
    if (this.isFlood) return;
    for (const key of other.keys) this.keys.add(key);
    if (this.keys.size > CHANGED_KEYS_MAX) this.flood();
  }
}
