import type { KeyRange, KeySet } from "../views/key_set.ts";

/**
 * The keys that changed rows concern, the old and the new ones, each once, in one or more consecutive transactions.
 * They are those of every row if there are too many to name, or if the table was truncated.
 */
export interface Changes extends KeySet {
  /** Number of changes. */
  readonly count: number;
  /** The position after them in the database's log. */
  readonly position: bigint;
}

/** The log can be opened when something in the database has ended, which the message names. */
export class LogBusyError extends Error {
  override readonly name = "LogBusyError";
}

/** The database's log from the confirmed position on. */
export interface ChangeStream {
  /** What operators should change in the database; null: nothing. */
  readonly warning: string | null;
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
export class ChangedKeys implements KeySet {
  /** With the prefix of their view, or "" for keys of rows. */
  readonly #keys = new Map<string, string>();
  /** Prefixes below those of views, with these. */
  readonly #ranges = new Map<string, string>();
  /** All keys with these prefixes of views are meant; "": every row. */
  readonly #prefixes = new Set<string>();
  count = 0;

  get keys(): string[] {
    return [...this.#keys.keys()];
  }

  get prefixes(): string[] {
    return [...this.#prefixes, ...this.#ranges.keys()];
  }

  get size(): number {
    return this.#keys.size + this.#ranges.size + this.#prefixes.size;
  }

  /** Whether every row may have changed. */
  get isFlood(): boolean {
    return this.covers("");
  }

  /** Whether all keys with the prefix are meant already; "": everything is. */
  covers(prefix: string): boolean {
    return this.#prefixes.has("") || this.#prefixes.has(prefix);
  }

  /** @param prefix What stands for the key when there are too many: the prefix of its view; "": everything. */
  add({ text, isPrefix }: KeyRange, prefix: string): void {
    if (isPrefix && text === prefix) return this.addPrefix(prefix);
    const texts = isPrefix ? this.#ranges : this.#keys;
    if (this.covers(prefix) || texts.has(text)) return;
    texts.set(text, prefix);
    if (this.#ranges.size > CHANGED_RANGES_MAX) this.#collapse([this.#ranges]);
    if (this.size > CHANGED_KEYS_MAX) this.#collapse([this.#keys, this.#ranges]);
  }

  /** All keys of a view are concerned. */
  addPrefix(prefix: string): void {
    if (this.covers(prefix)) return;
    if (prefix === "") return this.flood();
    this.#prefixes.add(prefix);
    for (const texts of [this.#keys, this.#ranges]) {
      for (const [text, each] of texts) if (each === prefix) texts.delete(text);
    }
  }

  /** Every row may have changed. */
  flood(): void {
    for (const texts of [this.#keys, this.#ranges, this.#prefixes]) texts.clear();
    this.#prefixes.add("");
  }

  /** Adds the keys of the next transaction. */
  merge(other: ChangedKeys): void {
    this.count += other.count;
    for (const prefix of other.#prefixes) this.addPrefix(prefix);
    for (const [text, prefix] of other.#ranges) this.add({ text, isPrefix: true }, prefix);
    for (const [text, prefix] of other.#keys) this.add({ text, isPrefix: false }, prefix);
  }

  /** Replaces the texts of the view that has most of them by its prefix. */
  #collapse(maps: readonly ReadonlyMap<string, string>[]): void {
    const sizes = new Map<string, number>();
    for (const texts of maps) {
      for (const prefix of texts.values()) sizes.set(prefix, (sizes.get(prefix) ?? 0) + 1);
    }
    const [largest] = [...sizes].sort(([, one], [, other]) => other - one);
    this.addPrefix(largest![0]);
  }
}
