import type { KeySet } from "../../databases/views/key_set.ts";

/** Keys that are remembered of each kind; the oldest is forgotten first. */
export const UGET_KEYS_MAX = 4096;

/**
 * The keys that `uget` has answered with C, and that nothing has deleted in the caches of clients since. The origin
 * does not know these caches: only a writer with an update token of its own deletes in them.
 */
export class UgetKeys {
  /** Clients may keep their rows. */
  readonly #kept = new Set<string>();
  /** When this origin wrote them: the log names them once more. */
  readonly #written = new Map<string, number>();
  /** Changes of kept keys that no writer deleted in the caches of clients. */
  unsafe = 0;
  /** The first of them; "": there is none. */
  firstUnsafe = "";

  /** A client may keep the row from here on. */
  add(key: string): void {
    this.#kept.delete(key);
    this.#kept.add(key);
    forgetOldest(this.#kept);
  }

  /** Notes a write of this origin. @param isDeleted Whether its writer has deleted the key in the caches of clients. */
  write(key: string, isDeleted: boolean, nowMs: number): void {
    this.#written.delete(key);
    this.#written.set(key, nowMs);
    forgetOldest(this.#written);
    if (this.#kept.delete(key) && !isDeleted) this.#count(key);
  }

  /**
   * Notes changes in the log.
   *
   * @param appliedMs All changes that were made by then had been applied before.
   * @param hasToken Whether an update token is out on a key: its writer deletes in the caches of clients.
   */
  change(changed: KeySet, appliedMs: number, hasToken: (key: string) => boolean): void {
    const take = (key: string): void => {
      const isOwn = (this.#written.get(key) ?? -Infinity) > appliedMs;
      if (!isOwn && !hasToken(key) && this.#kept.delete(key)) this.#count(key);
    };
    for (const key of changed.keys) take(key);
    for (const prefix of changed.prefixes) {
      for (const kept of this.#kept) if (kept.startsWith(prefix)) take(kept);
    }
  }

  #count(key: string): void {
    this.unsafe++;
    if (this.firstUnsafe === "") this.firstUnsafe = key;
  }
}

function forgetOldest(keys: Set<string> | Map<string, number>): void {
  if (keys.size <= UGET_KEYS_MAX) return;
  const [oldest] = keys.keys();
  keys.delete(oldest!);
}
