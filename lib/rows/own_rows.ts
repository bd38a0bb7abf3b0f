import { latin1Bytes, latin1Text } from "../../store/base/bytes.ts";
import type { Cache } from "../../store/cache.ts";
import { commonPrefixes, type KeySet } from "../databases/views/key_set.ts";

/** How long a removal may keep the event loop: short for reads and writes of rows, long beside a timer. */
const PIECE_MS = 1;

/**
 * The rows in the cache of this process, which may have other items, too. A key that is deleted loses its leases, and
 * the note that it is absent.
 */
export class OwnRows {
  readonly #cache: Cache;
  /** Those of the keys that are rows. */
  readonly #prefixes: readonly string[];
  readonly #sleep: (ms: number) => Promise<void>;
  readonly #nowMs: () => number;

  /**
   * @param prefixes Of the keys that are rows, as options have them.
   * @param sleep Waits for some milliseconds.
   * @param nowMs The clock that measures pieces.
   */
  constructor(
    cache: Cache,
    prefixes: readonly string[],
    sleep: (ms: number) => Promise<void>,
    nowMs: () => number = () => performance.now(),
  ) {
    this.#cache = cache;
    const encoder = new TextEncoder();
    this.#prefixes = prefixes.map((prefix) => latin1Text(encoder.encode(prefix)));
    this.#sleep = sleep;
    this.#nowMs = nowMs;
  }

  /**
   * Deletes keys before writes, in one step.
   *
   * @param writers The connection that writes each; 0: none.
   * @returns By key; false: another connection holds its lock, and nothing has changed.
   */
  invalidate(keys: readonly string[], writers: readonly number[]): boolean[] {
    const cache = this.#cache;
    cache.enter();
    const freed = keys.map((key, index) => cache.rows!.removal.invalidate(key, writers[index]!));
    cache.leave();
    return freed;
  }

  /**
   * Deletes rows that have changed, whoever has locked them: the keys in one step, those of prefixes in pieces between
   * which other work of the thread is done.
   */
  expel({ keys, prefixes }: KeySet): Promise<void> | void {
    if (keys.length > 0) {
      const cache = this.#cache;
      cache.enter();
      for (const key of keys) if (this.#has(key)) cache.rows!.removal.expel(key);
      cache.leave();
    }
    const covered = commonPrefixes(this.#prefixes, prefixes);
    if (covered.length > 0) return this.#expelPrefixes(covered);
  }

  #has(key: string): boolean {
    return this.#prefixes.some((prefix) => key.startsWith(prefix));
  }

  async #expelPrefixes(prefixes: readonly string[]): Promise<void> {
    const walk = this.#cache.rows!.removal.dropRows(prefixes.map(latin1Bytes));
    for (let startMs = this.#nowMs(); !walk.next().done;) {
      if (this.#nowMs() - startMs < PIECE_MS) continue;
      await this.#sleep(0);
      startMs = this.#nowMs();
    }
  }
}
