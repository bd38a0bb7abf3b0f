import { type ItemRef, NO_ITEM, WORD } from "../memory/item.ts";
import type { ItemLinks } from "./item_links.ts";
import { CONTROL } from "../memory/memory.ts";

/**
 * Walks all live values, a few at a time, while others change the store in between: what is there
 * all the time is met once, what comes or goes meanwhile perhaps. Each step wants the mutex.
 */
export class KeyWalk {
  readonly #links: ItemLinks;
  /** The buckets there were at the start. */
  readonly #buckets: number;
  readonly #level: number;
  #bucket = 0;

  constructor(links: ItemLinks) {
    this.#links = links;
    this.#buckets = links.memory.control[CONTROL.HASH_BUCKETS]!;
    this.#level = links.memory.control[CONTROL.HASH_LEVEL]!;
  }

  get isDone(): boolean {
    return this.#bucket >= this.#buckets;
  }

  /** The step to take: `next` goes on, until then `visit` repeats. */
  next(): void {
    this.#bucket++;
  }

  /**
   * Visits the values of one bucket of the start, and of the buckets that have been split off it since.
   *
   * @returns How many items were looked at.
   */
  visit(visitor: (item: ItemRef) => void): number {
    const { memory } = this.#links;
    const buckets = memory.control[CONTROL.HASH_BUCKETS]!;
    // A bucket that had not been split yet in this round of the table's growth has its first new one a level higher.
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
      if (!this.#links.isDead(item)) visitor(item);
      item = next;
    }
    return looked;
  }
}
