import { type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { CONTROL, PAGE } from "../memory/memory.ts";
import type { ItemLinks } from "./item_links.ts";

/** Items visited between two yields: some 50 microseconds. */
const SLICE_ITEMS = 64;

/**
 * Calls `visit` with every live item of some classes, and yields from time to time so that the
 * caller can release the mutex. Items that are stored, or moved to another page, during the walk may be
 * missed or met twice.
 *
 * @param classes Null: all.
 */
export function* walkItems(
  links: ItemLinks,
  classes: ReadonlySet<number> | null,
  visit: (item: ItemRef, classId: number) => void,
): Generator<void> {
  const { memory, slabs, items } = links;
  for (let page = 0; page < memory.control[CONTROL.PAGES_EVER_USED]!; page++) {
    const row = page * PAGE.WORDS;
    for (let index = 0;; index++) {
      // Read each time: the page may have changed hands since the last yield.
      const classId = memory.pages[row + PAGE.CLASS]!;
      if (classId <= 0 || index >= memory.pages[row + PAGE.CARVED]!) break;
      if (classes !== null && !classes.has(classId)) break;
      const item = slabs.usedChunkAt(page, index, classId);
      if (item !== NO_ITEM && (items.state(item) & STATE.LINKED) !== 0 && !links.isDead(item)) {
        visit(item, classId);
      }
      if (index % SLICE_ITEMS === SLICE_ITEMS - 1) yield;
    }
    yield;
  }
}

/**
 * Calls `visit` with the live items of a class, those of the small queue first, in each queue the
 * newest first, and yields from time to time. Items that others queue again during the walk may be missed
 * or met twice.
 */
export function* walkQueues(
  links: ItemLinks,
  classId: number,
  visit: (item: ItemRef) => void,
): Generator<void> {
  for (const main of [false, true]) {
    const walk = new QueueWalk(links, classId, main);
    let more = true;
    for (let isFirst = true; more; isFirst = false) {
      more = walk.slice(isFirst, (item) => {
        if (!links.isDead(item)) visit(item);
      });
      yield;
    }
  }
}

/** Items of a queue, newest first, while others change it between two slices. */
class QueueWalk {
  readonly #links: ItemLinks;
  readonly #classId: number;
  readonly #main: boolean;
  /** The next ones at the end of the last slice, with the lower halves of their ids. */
  readonly #next: { item: ItemRef; idLow: number }[] = [];

  constructor(links: ItemLinks, classId: number, main: boolean) {
    this.#links = links;
    this.#classId = classId;
    this.#main = main;
  }

  /**
   * Calls `visit` with the next SLICE_ITEMS.
   *
   * @returns Whether there are more.
   */
  slice(isFirst: boolean, visit: (item: ItemRef) => void): boolean {
    const { items, queues } = this.#links;
    let item = isFirst ? queues.newest(this.#classId, this.#main) : this.#found();
    for (let count = 0; count < SLICE_ITEMS && item !== NO_ITEM; count++) {
      visit(item);
      item = items.word(item, WORD.OLDER);
    }
    this.#next.length = 0;
    for (
      ;
      item !== NO_ITEM && this.#next.length < SLICE_ITEMS;
      item = items.word(item, WORD.OLDER)
    ) {
      this.#next.push({ item, idLow: items.ownIdLow(item) });
    }
    return this.#next.length > 0;
  }

  /** The first of the next ones that is still in the queue, or NO_ITEM. */
  #found(): ItemRef {
    const { items, slabs } = this.#links;
    for (const { item, idLow } of this.#next) {
      if (slabs.classOf(item) !== this.#classId) continue; // its page has changed hands
      if (!slabs.isInUse(item)) continue; // or may be in the middle of another one's value
      const state = items.state(item);
      if (
        (state & (STATE.LINKED | STATE.LOCKED | STATE.CONTINUATION)) === STATE.LINKED &&
        ((state & STATE.MAIN) !== 0) === this.#main && items.ownIdLow(item) === idLow
      ) return item;
    }
    return NO_ITEM;
  }
}
