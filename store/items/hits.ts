import type { ItemRef, Items } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";
import type { HashIndex } from "./hash_index.ts";

const { FREQUENCY_MASK, FREQUENCY_ONE, STATE, WORD } = itemModule;
const { CONTROL } = memoryModule;

// Hot path: no allocation.

/** Words of a delayed hit. */
const HIT = { ITEM: 0, HASH: 1, ID_LOW: 2, WORDS: 3 } as const;

/**
 * Delayed hits of a thread. Hits that come up to 1024 reads late (four threads with full lists) change no miss ratio
 * by more than 0.002: docs/performance.md.
 */
export const DELAYED_HITS_MAX = 256;

/** STATE bits that hits change. If all are set, the next hit changes only the time of the last access. */
const HIT_BITS = FREQUENCY_MASK | STATE.FETCHED;

/**
 * Notes in items that they were read: frequency, STATE.FETCHED, time of the last access. Eviction decides by these.
 *
 * A thread that reads without the mutex must not write to items, because the memory may belong to another item by
 * then. It delays its hits in a list of its own (`delay`), and notes them when it has the mutex (`apply`). A hit is
 * dropped if its item has since been replaced, changed, moved or removed.
 *
 * Other threads see a delayed hit late, for example in meta flag `h`; the thread itself does not, because
 * `Cache.enter` applies its list.
 */
export class Hits {
  readonly #items: Items;
  readonly #index: HashIndex;
  readonly #control: Int32Array;
  readonly #delayed: Int32Array;
  /** Words of `#delayed` in use. */
  #end = 0;

  constructor(memory: Memory, items: Items, index: HashIndex, delayedMax = DELAYED_HITS_MAX) {
    this.#items = items;
    this.#index = index;
    this.#control = memory.control;
    this.#delayed = new Int32Array(delayedMax * HIT.WORDS);
  }

  /** Notes a hit. Wants the mutex held. */
  note(item: ItemRef): void {
    const items = this.#items;
    const state = items.state(item);
    const after = stateAfterHit(state);
    if (after !== state) items.setWord(item, WORD.STATE, after);
    items.setWord(item, WORD.ACCESSED_SEC, this.#control[CONTROL.NOW_SEC]!);
  }

  /** As `note`, but does not mark the item as fetched: a refused `add`, and arithmetic (memcached). */
  noteUse(item: ItemRef): void {
    const wasFetched = this.#items.state(item) & STATE.FETCHED;
    this.note(item);
    if (!wasFetched) this.#items.dropState(item, STATE.FETCHED);
  }

  /**
   * Puts a hit into the list, unless noting it would change nothing. Needs no mutex. Drops it if the list is full.
   *
   * @param hash Of the item's key.
   * @param idLow The item's WORD.ID_LOW, read together with its key: the hit is for this value only.
   * @param state The item's WORD.STATE.
   * @param accessedSec The item's WORD.ACCESSED_SEC.
   */
  delay(item: ItemRef, hash: number, idLow: number, state: number, accessedSec: number): void {
    if ((state & HIT_BITS) === HIT_BITS && accessedSec === this.#control[CONTROL.NOW_SEC]) {
      return;
    }
    const delayed = this.#delayed;
    const at = this.#end;
    if (at === delayed.length) return;
    delayed[at + HIT.ITEM] = item;
    delayed[at + HIT.HASH] = hash;
    delayed[at + HIT.ID_LOW] = idLow;
    this.#end = at + HIT.WORDS;
  }

  get hasDelayed(): boolean {
    return this.#end > 0;
  }

  /** Whether `delay` drops hits until `apply`. */
  get isFull(): boolean {
    return this.#end === this.#delayed.length;
  }

  /** Notes all delayed hits. Wants the mutex held. */
  apply(): void {
    const delayed = this.#delayed;
    for (let at = 0; at < this.#end; at += HIT.WORDS) {
      const item: ItemRef = delayed[at + HIT.ITEM]!;
      // Nothing is read through the reference before the index has confirmed it.
      if (
        this.#index.has(item, delayed[at + HIT.HASH]!) &&
        this.#items.word(item, WORD.ID_LOW) === delayed[at + HIT.ID_LOW]
      ) this.note(item);
    }
    this.#end = 0;
  }
}

/** Returns an item's WORD.STATE after one more read. */
function stateAfterHit(state: number): number {
  return ((state & FREQUENCY_MASK) === FREQUENCY_MASK ? state : state + FREQUENCY_ONE) |
    STATE.FETCHED;
}
