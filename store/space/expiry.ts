import type { Eviction } from "./eviction.ts";
import { type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { CONTROL, PAGE } from "../memory/memory.ts";
import { NEVER_SEC } from "../memory/slabs.ts";
import { CLASS_STAT, STAT } from "../stats.ts";

/**
 * Removes dead items soon after they died, so that live ones need not be evicted. Every page knows a lower bound of the
 * next deadline in it; a sweep looks only into pages where that has passed, and writes down the true one.
 */

/** Work in a slice, in units of roughly 5 to 10 ns each: some 50 microseconds under the mutex, 90 on a slow machine. */
const SLICE_UNITS = 6_000;
const PAGE_ROW_UNITS = 1;
const CHUNK_UNITS = 4;
const REMOVAL_UNITS = 30;
/** For each chunk of a chain, a run of them counting as one. */
const CHAIN_CHUNK_UNITS = 10;
/**
 * Looking, without removals, in a second: about 3 % of a processor. Enough for every page of 128
 * MiB of small items, so there what is dead goes within two seconds; in larger stores it takes
 * longer, not more.
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

  /** Makes every page due: after a flush anything may be dead. */
  markAllPagesDue(): void {
    const { memory } = this.#links;
    const end = memory.control[CONTROL.PAGES_EVER_USED]!;
    for (let page = 0; page < end; page++) memory.pages[page * PAGE.WORDS + PAGE.SOONEST_SEC] = 0;
  }

  /**
   * One slice of the sweep, from where the last one stopped.
   *
   * @returns True when more is due now.
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

  /** Goes on with sweeping a page. False when the slice ended before the page did. */
  #sweepPage(page: number): boolean {
    const { memory, items, slabs } = this.#links;
    const { control, pages } = memory;
    const row = page * PAGE.WORDS;
    const classId = pages[row + PAGE.CLASS]!;
    const first = control[CONTROL.SWEEP_CHUNK]!;
    if (first === 0) {
      // What comes into the page meanwhile lowers this.
      pages[row + PAGE.SOONEST_SEC] = NEVER_SEC;
      control[CONTROL.SWEEP_SOONEST_SEC] = NEVER_SEC;
    }
    const carved = classId > 0 ? pages[row + PAGE.CARVED]! : 0;
    let soonest = control[CONTROL.SWEEP_SOONEST_SEC]!;
    let index = first;
    // A page whose last item goes may be in the pool at once.
    for (; index < carved && pages[row + PAGE.CLASS] === classId; index++) {
      // Not before the first chunk, or the page would count as not begun.
      if (this.#unitsLeft <= 0 && index > first) break;
      this.#spend(CHUNK_UNITS);
      const item = slabs.usedChunkAt(page, index, classId);
      if (item === NO_ITEM) continue;
      // A locked item is looked at when it is unlocked.
      if ((items.state(item) & (STATE.LINKED | STATE.LOCKED)) !== STATE.LINKED) continue;
      if (this.#links.isDead(item)) {
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

  /** Removals pay: they end a slice, but do not count as looking. */
  #remove(item: ItemRef): void {
    const { workDone, memory } = this.#links;
    const workBefore = workDone[0]!;
    memory.stats[STAT.crawler_reclaimed]! += 1;
    this.#eviction.countReclaimed(item, CLASS_STAT.crawler_reclaimed);
    this.#eviction.reclaim(item);
    this.#unitsLeft -= REMOVAL_UNITS + ((workDone[0]! - workBefore) | 0) * CHAIN_CHUNK_UNITS;
  }
}
