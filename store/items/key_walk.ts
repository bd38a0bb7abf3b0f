import { type ItemRef, NO_ITEM, WORD } from "../memory/item.ts";
import type { ItemLinks } from "./item_links.ts";
import { CONTROL } from "../memory/memory.ts";

/**
 * Visits all live items in steps, between which other threads may change the store. An item that
 * exists all the time is visited once; one that is stored or removed during the walk, perhaps. The caller
 * holds the mutex during a step.
 */
export class KeyWalk {
  readonly #links: ItemLinks;
  /** Buckets of the index at the start. */
  readonly #buckets: number;
  readonly #level: number;
  readonly #includesDead: boolean;
  #bucket = 0;

  /** @param includesDead Visits dead items, too: some of them are notes of absent rows. */
  constructor(links: ItemLinks, includesDead = false) {
    this.#links = links;
    this.#includesDead = includesDead;
    this.#buckets = links.memory.control[CONTROL.HASH_BUCKETS]!;
    this.#level = links.memory.control[CONTROL.HASH_LEVEL]!;
  }

  /** Whether every step is done, or no item is left. */
  get isDone(): boolean {
    return this.#bucket >= this.#buckets ||
      this.#links.memory.control[CONTROL.ITEM_COUNT] === 0;
  }

  /** Goes to the next step. Until then `visit` repeats the same one. */
  next(): void {
    this.#bucket++;
  }

  /**
   * Visits the items of one bucket of the start, and of the buckets split off it since.
   *
   * @returns The number of items looked at, dead ones included.
   */
  visit(visitor: (item: ItemRef) => void): number {
    const { memory } = this.#links;
    const buckets = memory.control[CONTROL.HASH_BUCKETS]!;
    // A bucket that was not yet split at the start, in that round of growth, first splits one level higher.
    const unsplit = this.#bucket < this.#level && this.#bucket >= this.#buckets - this.#level;
    const step = unsplit ? this.#level : 2 * this.#level;
    let looked = 0;
    for (let bucket = this.#bucket; bucket < buckets; bucket += step) {
      looked += this.#visitBucket(bucket, visitor);
    }
    return looked;
  }

  #visitBucket(bucket: number, visitor: (item: ItemRef) => void): number {
    const { items, index } = this.#links;
    let looked = 0;
    for (let item = index.head(bucket); item !== NO_ITEM;) {
      const next = items.word(item, WORD.HASH_NEXT);
      looked++;
      if (this.#includesDead || !this.#links.isDead(item)) visitor(item);
      item = next;
    }
    return looked;
  }
}
