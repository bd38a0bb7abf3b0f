// The changes of the owners of keys; all threads compare their reads with it.

/** Words of a key's row. Only the key's owner writes them, but FLOOR. */
export const ROW = {
  /** Changes begun. */
  BEGUN: 0,
  /** Changes answered, and noted in the words below. Below BEGUN: one is in progress. */
  DONE: 1,
  /** The version of the last change begun. */
  VERSION_BEGUN: 2,
  /** The version of the last change answered: nothing older may be read. */
  VERSION: 3,
  /** Nothing below this version may be read: it was flushed. */
  FLOOR: 4,
  /** A Presence. */
  PRESENCE: 5,
  /** The item dies not before the first, and at the latest at the second, by the store's clock. 0: never. */
  DEADLINE_LEAST: 6,
  DEADLINE_MOST: 7,
  /** Changes begun with which the key may be missing. Meanwhile PRESENCE is UNKNOWN. */
  REMOVALS: 8,
  /** As many as a line of the processor's cache has. */
  WORDS: 16,
} as const;

/** Whether a key has a value, if the store was not in need of memory meanwhile. */
export const Presence = { ABSENT: 0, PRESENT: 1, UNKNOWN: 2 } as const;
export type Presence = typeof Presence[keyof typeof Presence];

/** Words behind the keys' rows. */
const SHARED = { FAILED: 0, ENDED: 1, WORDS: 2 } as const;

/** All keys' rows. Every access is atomic: what is read of a row is at least as new as what was read before it. */
export class Ledger {
  readonly buffer: SharedArrayBuffer;
  readonly keys: number;
  readonly #words: Int32Array;
  readonly #shared: number;

  constructor(keys: number, buffer?: SharedArrayBuffer) {
    this.keys = keys;
    this.#shared = keys * ROW.WORDS;
    this.buffer = buffer ?? new SharedArrayBuffer(4 * (this.#shared + SHARED.WORDS));
    this.#words = new Int32Array(this.buffer);
  }

  get(key: number, word: number): number {
    return Atomics.load(this.#words, key * ROW.WORDS + word);
  }

  set(key: number, word: number, value: number): void {
    Atomics.store(this.#words, key * ROW.WORDS + word, value);
  }

  /** A thread has ended. @param failed Then all others shall end, too. */
  end(failed: boolean): void {
    if (failed) Atomics.store(this.#words, this.#shared + SHARED.FAILED, 1);
    Atomics.add(this.#words, this.#shared + SHARED.ENDED, 1);
  }

  get hasFailed(): boolean {
    return Atomics.load(this.#words, this.#shared + SHARED.FAILED) !== 0;
  }

  /** How many threads have ended. */
  get ended(): number {
    return Atomics.load(this.#words, this.#shared + SHARED.ENDED);
  }
}
