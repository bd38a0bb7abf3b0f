import type { Eviction } from "./eviction.ts";
import { STATE, WORD } from "./item.ts";
import type { Links } from "./links.ts";
import { CONTROL, PAGE } from "./memory.ts";
import { NEVER_SEC } from "./slabs.ts";
import { CLASS_STAT, STAT } from "./stats.ts";

/**
 * Removes dead items soon after they died, so that live ones need not be evicted. Every page knows a lower bound of the
 * next deadline in it; a sweep looks only into pages where that has passed, and writes down the true one.
 */

/** Work in a slice, in units of roughly 5 to 10 ns each: about 100 microseconds under the mutex. */
const SLICE_UNITS = 12_000;
const PAGE_ROW_UNITS = 1;
const CHUNK_UNITS = 4;
const REMOVAL_UNITS = 30;

export class Expiry {
  readonly #links: Links;
  readonly #eviction: Eviction;

  constructor(links: Links, eviction: Eviction) {
    this.#links = links;
    this.#eviction = eviction;
  }

  /** Makes every page due: after a flush anything may be dead. */
  suspectAllPages(): void {
    const { memory } = this.#links;
    const end = memory.control[CONTROL.PAGES_NEVER_USED]!;
    for (let page = 0; page < end; page++) memory.pages[page * PAGE.WORDS + PAGE.SOONEST_SEC] = 0;
  }

  /**
   * One slice of the sweep, from where the last one stopped.
   *
   * @returns True when the slice ended before the last page: more may be due.
   */
  sweepSlice(): boolean {
    const { memory } = this.#links;
    const { control, pages } = memory;
    const now = control[CONTROL.NOW_SEC]!;
    const end = control[CONTROL.PAGES_NEVER_USED]!;
    let units = 0;
    for (let page = control[CONTROL.SWEEP_PAGE]!; page < end; page++) {
      units += PAGE_ROW_UNITS;
      const row = page * PAGE.WORDS;
      if (pages[row + PAGE.CLASS]! > 0 && pages[row + PAGE.SOONEST_SEC]! <= now) {
        units += this.#sweepPage(page);
      }
      if (units >= SLICE_UNITS) {
        control[CONTROL.SWEEP_PAGE] = page + 1;
        return true;
      }
    }
    control[CONTROL.SWEEP_PAGE] = 0;
    return false;
  }

  /** Sweeps a page and returns what it cost, in units. */
  #sweepPage(page: number): number {
    const { memory, items, slabs } = this.#links;
    const row = page * PAGE.WORDS;
    const classId = memory.pages[row + PAGE.CLASS]!;
    const carved = memory.pages[row + PAGE.CARVED]!;
    let soonest = NEVER_SEC;
    let removed = 0;
    for (let index = 0; index < carved; index++) {
      const item = slabs.chunkAt(page, index, classId);
      // A locked item is looked at when it is unlocked.
      if ((items.state(item) & (STATE.LINKED | STATE.LOCKED)) !== STATE.LINKED) continue;
      if (this.#links.isDead(item)) {
        memory.countClass(classId, CLASS_STAT.crawler_reclaimed);
        memory.counters[STAT.crawler_reclaimed]! += 1;
        this.#eviction.reclaim(item);
        removed++;
        // The page may be back in the pool, or even have another owner's row now.
        if (memory.pages[row + PAGE.USED]! === 0) break;
      } else {
        const deadline = items.word(item, WORD.DEADLINE_SEC);
        if (deadline !== 0 && deadline < soonest) soonest = deadline;
      }
    }
    memory.counters[STAT.crawler_items_checked]! += carved;
    if (memory.pages[row + PAGE.CLASS] === classId) memory.pages[row + PAGE.SOONEST_SEC] = soonest;
    return carved * CHUNK_UNITS + removed * REMOVAL_UNITS;
  }
}
