import type { Eviction } from "./eviction.ts";
import { type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { CONTROL, PAGE } from "../memory/memory.ts";
import { NEVER_SEC } from "../memory/slabs.ts";
import { CLASS_STAT, STAT } from "../stats.ts";

/**
 * Removes dead items soon after their deadline, so that live ones need not be evicted. Every page has a lower bound of
 * the next deadline in it. A sweep looks only into pages whose bound has passed, and replaces it by the true deadline.
 */

/** Work of one slice, in units of 5 to 10 ns: about 50 microseconds under the mutex, 90 on a slow machine. */
const SLICE_UNITS = 6_000;
const PAGE_ROW_UNITS = 1;
const CHUNK_UNITS = 4;
const REMOVAL_UNITS = 30;
/** For each run of chunks in the chain of a removed item. */
const CHAIN_CHUNK_UNITS = 10;
/**
 * Work of one second, without removals: about 3 % of a core. That covers every page of 128 MiB of
 * small items, where dead items are gone within two seconds. In larger stores it takes longer, but
 * no more CPU time.
 */
const UNITS_PER_SECOND = 4_000_000;

/** The sweep for dead items. */
export class Expiry {
  readonly #links: ItemLinks;
  readonly #eviction: Eviction;
  #unitsLeft = 0;

  constructor(links: ItemLinks, eviction: Eviction) {
    this.#links = links;
    this.#eviction = eviction;
  }

  /** Makes the sweep look into every page: after a flush any item may be dead. */
  markAllPagesDue(): void {
    const { memory } = this.#links;
    const end = memory.control[CONTROL.PAGES_EVER_USED]!;
    for (let page = 0; page < end; page++) memory.pages[page * PAGE.WORDS + PAGE.SOONEST_SEC] = 0;
  }

  /**
   * Runs one slice of the sweep, from where the last slice stopped.
   *
   * @returns Whether more pages are due now.
   */
  sweepSlice(): boolean {
    const { control, pages } = this.#links.memory;
    const nowSec = control[CONTROL.NOW_SEC]!;
    if (control[CONTROL.SWEEP_BUDGET_SEC] !== nowSec) {
      control[CONTROL.SWEEP_BUDGET_SEC] = nowSec;
      control[CONTROL.SWEEP_UNITS] = 0;
    }
    if (control[CONTROL.SWEEP_UNITS]! >= UNITS_PER_SECOND) return false;
    const end = control[CONTROL.PAGES_EVER_USED]!;
    this.#unitsLeft = SLICE_UNITS;
    for (let page = control[CONTROL.SWEEP_PAGE]!; page < end; page++) {
      this.#spend(PAGE_ROW_UNITS);
      const row = page * PAGE.WORDS;
      const underWay = control[CONTROL.SWEEP_CHUNK]! > 0;
      const due = pages[row + PAGE.CLASS]! > 0 && pages[row + PAGE.SOONEST_SEC]! <= nowSec;
      const done = !(due || underWay) || this.#sweepPage(page);
      if (this.#unitsLeft <= 0 || !done) {
        control[CONTROL.SWEEP_PAGE] = done ? page + 1 : page;
        return true;
      }
    }
    control[CONTROL.SWEEP_PAGE] = 0;
    return false;
  }

  #spend(units: number): void {
    this.#unitsLeft -= units;
    this.#links.memory.control[CONTROL.SWEEP_UNITS]! += units;
  }

  /** Continues the sweep of a page. Returns false if the slice ended before the page did. */
  #sweepPage(page: number): boolean {
    const { memory, items, slabs } = this.#links;
    const { control, pages } = memory;
    const row = page * PAGE.WORDS;
    const classId = pages[row + PAGE.CLASS]!;
    const first = control[CONTROL.SWEEP_CHUNK]!;
    if (first === 0) {
      // Items that are stored in the page during the sweep lower this.
      pages[row + PAGE.SOONEST_SEC] = NEVER_SEC;
      control[CONTROL.SWEEP_SOONEST_SEC] = NEVER_SEC;
    }
    const carved = classId > 0 ? pages[row + PAGE.CARVED]! : 0;
    let soonest = control[CONTROL.SWEEP_SOONEST_SEC]!;
    let index = first;
    // Removing a page's last item returns the page to the pool.
    for (; index < carved && pages[row + PAGE.CLASS] === classId; index++) {
      // Look at one chunk at least: chunk 0 stands for a page whose sweep has not begun.
      if (this.#unitsLeft <= 0 && index > first) break;
      this.#spend(CHUNK_UNITS);
      const item = slabs.usedChunkAt(page, index, classId);
      if (item === NO_ITEM) continue;
      // `Locks.release` handles a locked item when it is unlocked.
      if ((items.state(item) & (STATE.LINKED | STATE.LOCKED)) !== STATE.LINKED) continue;
      if (this.#links.isOver(item)) {
        this.#remove(item);
      } else {
        const deadline = items.word(item, WORD.DEADLINE_SEC);
        if (deadline !== 0 && deadline < soonest) soonest = deadline;
      }
    }
    memory.stats[STAT.crawler_items_checked]! += index - first;
    if (index < carved && pages[row + PAGE.CLASS] === classId) {
      control[CONTROL.SWEEP_CHUNK] = index;
      control[CONTROL.SWEEP_SOONEST_SEC] = soonest;
      return false;
    }
    control[CONTROL.SWEEP_CHUNK] = 0;
    if (soonest < pages[row + PAGE.SOONEST_SEC]!) pages[row + PAGE.SOONEST_SEC] = soonest;
    return true;
  }

  /** Removes a dead item. Its work ends the slice earlier, but does not count for UNITS_PER_SECOND. */
  #remove(item: ItemRef): void {
    const { workDone } = this.#links;
    const workBefore = workDone[0]!;
    this.#eviction.countReclaimed(item, CLASS_STAT.swept);
    this.#eviction.reclaim(item);
    this.#unitsLeft -= REMOVAL_UNITS + ((workDone[0]! - workBefore) | 0) * CHAIN_CHUNK_UNITS;
  }
}
