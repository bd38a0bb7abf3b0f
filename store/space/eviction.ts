import { assert } from "../base/assert.ts";
import { Ghost } from "./ghost.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { ItemLinks } from "../items/item_links.ts";
import * as memoryModule from "../memory/memory.ts";
import * as statsModule from "../stats.ts";

const { FREQUENCY_MASK, FREQUENCY_ONE, NO_ITEM, STATE, WORD } = itemModule;
const { CLASS, CONTROL } = memoryModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

/**
 * S3-FIFO in each class (Yang et al., SOSP 2023): a new item enters the small queue. If it is read
 * there it moves on to the main queue; otherwise it is evicted, and a ghost table keeps its hash.
 * In the main queue an item that was read goes round again, up to three times. A hit changes two
 * bits of the item and no list.
 */

// The numbers below were chosen by `bench store`.

/**
 * The small queue's share of a class, in percent: 10 is worse on recs (60k-64: 0.284 for 0.281), 20
 * on ecom (0.1133 for 0.1126).
 */
const SMALL_PERCENT = 15;
/**
 * Reads in the small queue that promote an item: 2 is worse on recs (60k-64: 0.287 for 0.283), a
 * little better on ecom.
 */
const PROMOTION_READS = 1;
/**
 * Items looked at before the next unlocked one is evicted however often it was read: bounds the
 * time under the mutex.
 */
const LOOKS_MAX = 256;

/** Why an item is evicted, for the class's statistics. */
export const EvictionCause = { ROOM: 0, PAGE_MOVE: 1 } as const;
export type EvictionCause = typeof EvictionCause[keyof typeof EvictionCause];

/** Chooses which item of a class is evicted, and removes it. */
export class Eviction {
  readonly #links: ItemLinks;
  readonly #ghost: Ghost;

  constructor(links: ItemLinks) {
    this.#links = links;
    this.#ghost = new Ghost(links.memory, links.slabs);
  }

  /** Makes the ghost table. Called once, by the thread that makes the store. */
  format(): void {
    this.#ghost.format();
  }

  /** Chooses the queue of an item that is about to be linked: main if it was evicted recently, else small. */
  place(item: ItemRef, hash: number): void {
    if (!this.#ghost.remove(hash)) return;
    const { memory, items, slabs } = this.#links;
    items.addState(item, STATE.MAIN);
    memory.stats[STAT.ghost_hits]! += 1;
    memory.countClass(slabs.classOf(item), CLASS_STAT.ghost_hits);
  }

  /**
   * Removes one item of a class: the oldest if it is dead, else the one that S3-FIFO evicts.
   *
   * @param looksMax Items looked at before the next unlocked one is evicted.
   * @returns False if every item of the class is locked or pinned, or the class is empty.
   */
  evictOne(classId: number, cause: EvictionCause, looksMax = LOOKS_MAX): boolean {
    const { items, queues, workDone } = this.#links;
    for (let looks = 0;; looks++) {
      workDone[0]! += 1;
      const main = this.#takeFromMain(classId);
      const item = queues.oldest(classId, main);
      if (item === NO_ITEM) return false;
      const state = items.state(item);
      if (state & STATE.LOCKED || this.#links.isPinned(item)) {
        if (looks > 2 * LOOKS_MAX) return false;
        queues.moveToMain(item, classId, 0);
        continue;
      }
      const reads = (state & FREQUENCY_MASK) / FREQUENCY_ONE;
      if (this.#links.isOver(item)) {
        this.reclaimForRoom(item);
        return true;
      }
      if (looks < looksMax) {
        if (main && reads > 0) {
          queues.moveToMain(item, classId, reads - 1);
          continue;
        }
        if (state & STATE.REWRITTEN) {
          queues.renew(item, classId);
          continue;
        }
        if (!main && reads >= PROMOTION_READS) {
          queues.moveToMain(item, classId, 0);
          this.#links.memory.countClass(classId, CLASS_STAT.promoted);
          continue;
        }
      }
      this.#evict(item, classId, main, cause);
      return true;
    }
  }

  /** Removes a dead item. Counts nothing. */
  reclaim(item: ItemRef): void {
    this.#links.unlink(item, this.#links.index.hashOf(item));
  }

  /** Removes a dead item whose memory is needed or whose key is stored again, and counts it as reclaimed. */
  reclaimForRoom(item: ItemRef): void {
    this.countReclaimed(item, CLASS_STAT.reclaimed);
    this.reclaim(item);
  }

  /**
   * Counts a dead item in a CLASS_STAT, and as `expired_unfetched` if it was never read. Call it
   * before the removal.
   */
  countReclaimed(item: ItemRef, stat: number): void {
    const { memory, items, slabs } = this.#links;
    const classId = slabs.classOf(item);
    memory.countClass(classId, stat);
    if ((items.state(item) & STATE.FETCHED) === 0) {
      memory.countClass(classId, CLASS_STAT.expired_unfetched);
    }
  }

  /** Evicts an item whatever its place in the queue, because its page is being emptied. */
  evictForMove(item: ItemRef): void {
    const { items, slabs } = this.#links;
    const state = items.state(item);
    assert((state & STATE.LOCKED) === 0, "no lock is evicted with its item");
    assert((state & STATE.LINKED) !== 0, "only an item of the cache is evicted");
    const main = (state & STATE.MAIN) !== 0;
    this.#evict(item, slabs.classOf(item), main, EvictionCause.PAGE_MOVE);
  }

  #takeFromMain(classId: number): boolean {
    const { queues } = this.#links;
    const small = queues.count(classId, false);
    const main = queues.count(classId, true);
    return main > 0 && small * 100 <= (small + main) * SMALL_PERCENT;
  }

  #evict(item: ItemRef, classId: number, main: boolean, cause: EvictionCause): void {
    const { memory, items, index } = this.#links;
    const hash = index.hashOf(item);
    if (this.#links.watch.isOn) this.#links.watch.evicted(item);
    memory.countClass(classId, CLASS_STAT.evicted);
    if (cause === EvictionCause.PAGE_MOVE) memory.countClass(classId, CLASS_STAT.evicted_moved);
    else memory.classes[classId * CLASS.WORDS + CLASS.EVICTIONS]! += 1;
    if (items.word(item, WORD.DEADLINE_SEC) !== 0) {
      memory.countClass(classId, CLASS_STAT.evicted_nonzero);
    }
    if (!(items.state(item) & STATE.FETCHED)) {
      memory.countClass(classId, CLASS_STAT.evicted_unfetched);
    }
    memory.classes[classId * CLASS.WORDS + CLASS.EVICTED_AGE_SEC] =
      memory.control[CONTROL.NOW_SEC]! - items.word(item, WORD.ACCESSED_SEC);
    if (!main) this.#ghost.add(hash);
    this.#links.unlink(item, hash);
  }
}
