import {
  CONTROL,
  type Memory,
  NO_PAGE,
  PAGE_OWNER,
  SEGMENT_MASK,
  SEGMENT_SHIFT,
} from "../memory/memory.ts";
import type { Slabs } from "../memory/slabs.ts";

// Hot path: no allocation.

/** One page in this many holds hashes of evicted items (`bench store`). */
const PAGES_PER_GHOST_PAGE = 64;
/** Hashes in a set. A new one replaces the oldest. */
const WAYS = 4;
const SET_BYTES = 4 * WAYS;
/** The same in units of an item reference. */
const SET_REFS = SET_BYTES >> 3;

/**
 * The ghost table of S3-FIFO: 4-byte hashes of items evicted from a small queue. An item that is stored again soon
 * after goes to the main queue at once. The table is set-associative and lies in pages; hash 0 is an empty place.
 */
export class Ghost {
  readonly #memory: Memory;
  readonly #slabs: Slabs;

  constructor(memory: Memory, slabs: Slabs) {
    this.#memory = memory;
    this.#slabs = slabs;
  }

  /**
   * Takes the pages, which must be contiguous. Called once, by the thread that makes the store,
   * before others take any.
   */
  format(): void {
    const control = this.#memory.control;
    const wanted = Math.floor(control[CONTROL.MEMORY_LIMIT_PAGES]! / PAGES_PER_GHOST_PAGE);
    let first = NO_PAGE;
    let pages = 0;
    while (pages < wanted) {
      const page = this.#slabs.takePage(PAGE_OWNER.GHOST);
      if (page === NO_PAGE) break;
      if (pages === 0) first = page;
      pages++;
    }
    control[CONTROL.GHOST_FIRST_PAGE] = first;
    control[CONTROL.GHOST_SETS] = pages * (this.#memory.pageBytes / SET_BYTES);
  }

  add(hash: number): void {
    const sets = this.#memory.control[CONTROL.GHOST_SETS]!;
    if (sets === 0) return;
    const set = this.#setOf(hash, sets);
    const words = this.#memory.words[set >>> SEGMENT_SHIFT]!;
    const at = (set & SEGMENT_MASK) << 1;
    for (let way = WAYS - 1; way > 0; way--) words[at + way] = words[at + way - 1]!;
    words[at] = hash;
  }

  /** Removes a hash. Returns whether it was there. */
  remove(hash: number): boolean {
    const sets = this.#memory.control[CONTROL.GHOST_SETS]!;
    if (sets === 0 || hash === 0) return false;
    const set = this.#setOf(hash, sets);
    const words = this.#memory.words[set >>> SEGMENT_SHIFT]!;
    const at = (set & SEGMENT_MASK) << 1;
    for (let way = 0; way < WAYS; way++) {
      if (words[at + way] === hash) {
        words[at + way] = 0;
        return true;
      }
    }
    return false;
  }

  /** Returns the reference of the hash's set. Sets lie one after the other, over all pages. */
  #setOf(hash: number, sets: number): number {
    const start = this.#memory.pageRef(this.#memory.control[CONTROL.GHOST_FIRST_PAGE]!);
    return (start + ((hash >>> 0) % sets) * SET_REFS) | 0;
  }
}
