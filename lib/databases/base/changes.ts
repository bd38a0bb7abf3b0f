import { everyKeyOf, prefixIn } from "../views/key_range.ts";

/** The changes of the table of rows in one or more consecutive transactions. */
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

/** Most prefixes below those of views that one set names: caches compare each of their keys with all of them. */
export const CHANGED_RANGES_MAX = 64;

/** Collects the keys of a transaction in bounded memory. */
export class ChangedKeys {
  /** Keys, and what stands for all keys of a longer prefix; with the prefix of their view, or "" for those of rows. */
  readonly #keys = new Map<string, string>();
  /** All keys with these prefixes of views are meant. */
  readonly #prefixes = new Set<string>();
  /** How many of the keys stand for prefixes. */
  #ranges = 0;
  isFlood = false;
  count = 0;

  /** Keys, and what stands for all keys with a prefix. */
  get keys(): string[] {
    return [...[...this.#prefixes].map(everyKeyOf), ...this.#keys.keys()];
  }

  get size(): number {
    return this.#keys.size + this.#prefixes.size;
  }

  /** Whether all keys with the prefix are meant already; "": everything is. */
  covers(prefix: string): boolean {
    return this.isFlood || this.#prefixes.has(prefix);
  }

  /**
   * @param key Or what stands for all keys with a prefix: `everyKeyOf`.
   * @param prefix What stands for the key when there are too many: the prefix of its view; "": everything.
   */
  add(key: string, prefix: string): void {
    if (this.covers(prefix) || this.#keys.has(key)) return;
    const range = prefixIn(key);
    if (range === prefix) return this.addPrefix(prefix);
    this.#keys.set(key, prefix);
    if (range !== null) this.#ranges++;
    if (this.#ranges > CHANGED_RANGES_MAX) this.#collapse((each) => prefixIn(each) !== null);
    if (this.size > CHANGED_KEYS_MAX) this.#collapse(() => true);
  }

  /** All keys of a view are concerned. */
  addPrefix(prefix: string): void {
    if (this.covers(prefix)) return;
    if (prefix === "") return this.flood();
    this.#prefixes.add(prefix);
    for (const [key, each] of this.#keys) if (each === prefix) this.#remove(key);
  }

  /** Every row may have changed. */
  flood(): void {
    this.isFlood = true;
    this.#keys.clear();
    this.#prefixes.clear();
    this.#ranges = 0;
  }

  /** Adds the keys of the next transaction. */
  merge(other: ChangedKeys): void {
    this.count += other.count;
    if (other.isFlood) this.flood();
    for (const prefix of other.#prefixes) this.addPrefix(prefix);
    for (const [key, prefix] of other.#keys) this.add(key, prefix);
  }

  #remove(key: string): void {
    this.#keys.delete(key);
    if (prefixIn(key) !== null) this.#ranges--;
  }

  /** Replaces the keys of the view that has most of them by its prefix. @param counts Which keys are too many. */
  #collapse(counts: (key: string) => boolean): void {
    const sizes = new Map<string, number>();
    for (const [key, prefix] of this.#keys) {
      if (counts(key)) sizes.set(prefix, (sizes.get(prefix) ?? 0) + 1);
    }
    const [largest] = [...sizes].sort(([, one], [, other]) => other - one);
    this.addPrefix(largest![0]);
  }
}
