import { everyKeyOf } from "../key_range.ts";

/** What has changed in the table of rows, in one or more transactions that follow one another. */
export interface Changes {
  /**
   * Keys that changed rows concern, a character a byte, each once, of the old and of the new row; and what stands for
   * all keys with a prefix: `everyKeyOf`.
   */
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
  /** Keys, and what its keys begin with: the prefix of a view, or "" for those of rows. */
  readonly #keys = new Map<string, string>();
  /** All keys with these prefixes are meant. */
  readonly #prefixes = new Set<string>();
  isFlood = false;
  count = 0;

  /** Keys, and what stands for all keys with a prefix. */
  get keys(): string[] {
    return [...[...this.#prefixes].map(everyKeyOf), ...this.#keys.keys()];
  }

  get size(): number {
    return this.#keys.size + this.#prefixes.size;
  }

  /** @param prefix What stands for the key when there are too many: the prefix of its view; "": everything. */
  add(key: string, prefix: string): void {
    if (prefix === "") this.count++;
    if (this.isFlood || this.#prefixes.has(prefix)) return;
    this.#keys.set(key, prefix);
    if (this.size > CHANGED_KEYS_MAX) this.#collapse();
  }

  /** All keys with this prefix are concerned. */
  addPrefix(prefix: string): void {
    if (this.isFlood) return;
    this.#prefixes.add(prefix);
    if (this.size > CHANGED_KEYS_MAX) this.#collapse();
  }

  /** Every row may have changed. */
  flood(): void {
    this.isFlood = true;
    this.#keys.clear();
    this.#prefixes.clear();
  }

  /** Adds those of a transaction that follows. */
  join(other: ChangedKeys): void {
    this.count += other.count;
    if (other.isFlood) this.flood();
    if (this.isFlood) return;
    for (const prefix of other.#prefixes) this.addPrefix(prefix);
    for (const [key, prefix] of other.#keys) {
      if (prefix === "" || !this.#prefixes.has(prefix)) this.#keys.set(key, prefix);
    }
    while (this.size > CHANGED_KEYS_MAX && !this.isFlood) this.#collapse();
  }

  /** Replaces the largest group of keys by their prefix. */
  #collapse(): void {
    const groups = Map.groupBy(this.#keys.values(), (prefix) => prefix);
    const [largest] = [...groups].sort(([, one], [, other]) => other.length - one.length);
    const prefix = largest?.[0] ?? "";
    if (prefix === "") return this.flood();
    for (const [key, each] of this.#keys) if (each === prefix) this.#keys.delete(key);
    this.#prefixes.add(prefix);
  }
}
