import type { ItemLinks } from "../items/item_links.ts";
import { FREQUENCY_MASK, NO_ITEM, WORD } from "../memory/item.ts";
import { CLASS, CONTROL, NO_PAGE, PAGE } from "../memory/memory.ts";
import { isMovableChunk } from "./page_evacuator.ts";

// Hot path: no allocation.

// The numbers below were chosen by `bench store`; the runs named are the ones that differ.

/** Pages drawn for a move; 1 gives recs60k-64 0.283 instead of 0.280, 5 no more than 3. */
const DRAWS = 3;
/** How many times colder the giving class must be; 1.2 moves a quarter more pages for nothing. */
const COLDER = 1.5;
/** The clock counts seconds, so younger ages are noise: then any drawn page may go. */
const AGE_SEC_MIN = 2;
/** Items at the old end of a queue whose ages are compared. */
const TAIL_LOOKS = 4;
/** Draws until one hits a page that a class owns. */
const TRIES_MAX = 32;
/** Pages with free chunks that are compared, in one class. */
const SPARE_LOOKS = 8;

/** Stands for any class, as the one that gives a page. */
export const ANY_CLASS = -1;

/** Chooses the page that a class gives up. Every method returns NO_PAGE if it finds none. */
export class PageSelector {
  readonly #links: ItemLinks;
  readonly #control: Int32Array;

  constructor(links: ItemLinks) {
    this.#links = links;
    this.#control = links.memory.control;
  }

  /** Whether nothing in the page is locked, pinned or being written. */
  isMovable(page: number): boolean {
    const { memory, slabs } = this.#links;
    const classId = slabs.pageClass(page);
    const carved = memory.pages[page * PAGE.WORDS + PAGE.CARVED]!;
    for (let index = 0; index < carved; index++) {
      const chunk = slabs.usedChunkAt(page, index, classId);
      if (chunk !== NO_ITEM && !isMovableChunk(this.#links, chunk)) return false;
    }
    return true;
  }

  /**
   * Draws a few pages at random, so that a class gives in proportion to the pages it has, and
   * returns the one of the coldest class. It may be immovable.
   *
   * @param to The class that asks. NO_PAGE if its own items are about as cold.
   */
  coldest(to: number): number {
    let page = this.random();
    if (page === NO_PAGE) return NO_PAGE;
    const { slabs } = this.#links;
    let coldest = this.#coldness(slabs.pageClass(page));
    for (let draw = 1; draw < DRAWS; draw++) {
      const other = this.random();
      if (other === NO_PAGE) break;
      const coldness = this.#coldness(slabs.pageClass(other));
      if (coldness > coldest) {
        page = other;
        coldest = coldness;
      }
    }
    if (slabs.pageClass(page) === to) return NO_PAGE;
    if (to <= 0) return page;
    const own = this.#coldness(to);
    return own > 0 && coldest <= own * COLDER ? NO_PAGE : page;
  }

  /** A movable page of a class whose free chunks would hold one and a half pages. */
  spare(to: number): number {
    const { memory, slabs } = this.#links;
    for (let classId = 1; classId <= slabs.classCount; classId++) {
      const row = classId * CLASS.WORDS;
      const perPage = memory.classes[row + CLASS.CHUNKS_PER_PAGE]!;
      if (classId === to || slabs.freeChunks(classId) < perPage + (perPage >> 1)) continue;
      const page = this.#emptiestOf(memory.classes[row + CLASS.ROOM]!);
      if (page !== NO_PAGE) return page;
    }
    return NO_PAGE;
  }

  /** A random page that a class owns. It may be immovable. */
  random(): number {
    const { memory, slabs } = this.#links;
    const end = this.#control[CONTROL.PAGES_EVER_USED]!;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const page = memory.random(end);
      if (slabs.pageClass(page) > 0) return page;
    }
    return NO_PAGE;
  }

  /** The class with most pages, except `exceptClass`; ANY_CLASS if none has two. */
  classWithMostPages(exceptClass: number): number {
    const { memory, slabs } = this.#links;
    let most = 1;
    let found = ANY_CLASS;
    for (let classId = 1; classId <= slabs.classCount; classId++) {
      const pages = memory.classes[classId * CLASS.WORDS + CLASS.PAGES]!;
      if (classId === exceptClass || pages <= most) continue;
      most = pages;
      found = classId;
    }
    return found;
  }

  /**
   * Returns how cold the class's next victims are: seconds since they were last read, times the mean
   * item size, because a large item takes the room of many small ones; 0 if the age is too short to
   * measure. The coldest class loses a page at the least cost.
   */
  #coldness(classId: number): number {
    const { memory, queues } = this.#links;
    const items = queues.count(classId, false) + queues.count(classId, true);
    if (items === 0) return 0;
    const ageSec = Math.max(this.#tailAgeSec(classId, false), this.#tailAgeSec(classId, true));
    if (ageSec < AGE_SEC_MIN) return 0;
    return ageSec * memory.requestedBytes(classId) / items;
  }

  /** Seconds since the next item to be evicted was read, as far as the old end of the queue tells; -1: queue empty. */
  #tailAgeSec(classId: number, main: boolean): number {
    const { items, queues } = this.#links;
    const nowSec = this.#control[CONTROL.NOW_SEC]!;
    let item = queues.oldest(classId, main);
    let least = -1;
    for (let look = 0; look < TAIL_LOOKS && item !== NO_ITEM; look++) {
      const ageSec = nowSec - items.word(item, WORD.ACCESSED_SEC);
      if ((items.state(item) & FREQUENCY_MASK) === 0) return ageSec;
      if (least < 0 || ageSec < least) least = ageSec;
      item = items.word(item, WORD.NEWER);
    }
    return least;
  }

  /** The movable page with the fewest chunks in use among the first few of a list of pages. */
  #emptiestOf(first: number): number {
    const { pages } = this.#links.memory;
    let best = NO_PAGE;
    let page = first;
    for (let look = 0; look < SPARE_LOOKS && page !== NO_PAGE; look++) {
      const row = page * PAGE.WORDS;
      const fewer = best === NO_PAGE ||
        pages[row + PAGE.USED]! < pages[best * PAGE.WORDS + PAGE.USED]!;
      if (fewer && this.isMovable(page)) best = page;
      page = pages[row + PAGE.NEXT]!;
    }
    return best;
  }
}
