import type { Eviction } from "./eviction.ts";
import { EvictionCause } from "./eviction.ts";
import { type ItemRef, NO_ITEM, STATE, WORD } from "./item.ts";
import type { Links } from "./links.ts";
import { CLASS, CONTROL, NO_PAGE, PAGE } from "./memory.ts";
import { STAT } from "./stats.ts";

/**
 * Moves pages between classes. Every so many evictions a class asks for a page; it is drawn from all pages in use, so a
 * class gives in proportion to the pages it has. What lives in the page is copied to free chunks of its class, for which the
 * class evicts by its own queues: so the page's items are not the ones that suffer.
 */

/** Evictions of a class between two pages that come in (`bench:store`). */
const EVICTIONS_PER_PAGE = 50;
/** Pages drawn before a move is given up for now. */
const DRAWS_MAX = 8;

/** What became of a page that somebody wanted moved. */
export const MoveResult = {
  MOVED: 0,
  /** Every page of the class is needed where it is by a lock, a reader or a writer. */
  BUSY: 1,
  BAD_CLASS: 2,
  NO_SPARE: 3,
  SAME_CLASS: 4,
} as const;
export type MoveResult = typeof MoveResult[keyof typeof MoveResult];

/** Stands for any class, as the one that gives a page. */
const ANY_CLASS = -1;
/** Stands for the pool of free pages. */
const POOL = 0;

export class PageMover {
  readonly #links: Links;
  readonly #eviction: Eviction;

  constructor(links: Links, eviction: Eviction) {
    this.#links = links;
    this.#eviction = eviction;
  }

  /** Whether so much was evicted from the class that it should have another page. */
  isDue(classId: number): boolean {
    return this.#links.memory.classes[classId * CLASS.WORDS + CLASS.EVICTIONS]! >=
      EVICTIONS_PER_PAGE;
  }

  /** Lets a page come from a class drawn at random. True if one came; the class may as well draw itself. */
  moveTo(classId: number): boolean {
    const { memory, slabs } = this.#links;
    memory.classes[classId * CLASS.WORDS + CLASS.EVICTIONS] = 0;
    const page = this.#draw();
    if (page === NO_PAGE) return false;
    const from = this.#classOf(page);
    if (from === classId || !this.#empty(page)) return false;
    slabs.countMove(from, classId);
    return slabs.addPage(classId);
  }

  /** For a class that has nothing to evict, or an owner that is no class: tries until a page is free. */
  freePage(exceptClass: number): boolean {
    for (let tries = 0; tries < 4 * DRAWS_MAX; tries++) {
      const page = this.#draw();
      if (page === NO_PAGE) break;
      const from = this.#classOf(page);
      if (from === exceptClass || !this.#empty(page)) continue;
      this.#links.slabs.countMove(from, exceptClass);
      return true;
    }
    return this.#freeAnyPage(exceptClass);
  }

  /**
   * Takes a page from one class to another, whatever their evictions say.
   *
   * @param source A class, POOL, or ANY_CLASS.
   * @param target A class, or POOL.
   */
  move(source: number, target: number): MoveResult {
    const { memory, slabs } = this.#links;
    const last = slabs.classCount;
    if (source === target) return MoveResult.SAME_CLASS;
    const from = source === ANY_CLASS ? this.#mostPages(target) : source;
    if (from < 0 || from > last || target < 0 || target > last) return MoveResult.BAD_CLASS;
    if (from === POOL) return slabs.addPage(target) ? MoveResult.MOVED : MoveResult.NO_SPARE;
    if (memory.classes[from * CLASS.WORDS + CLASS.PAGES]! < 2) return MoveResult.NO_SPARE;
    const end = memory.control[CONTROL.PAGES_NEVER_USED]!;
    const start = memory.random(end);
    for (let looks = 0; looks < end; looks++) {
      const page = (start + looks) % end;
      if (this.#classOf(page) !== from || !this.#isMovable(page) || !this.#empty(page)) continue;
      slabs.countMove(from, target);
      if (target !== POOL) slabs.addPage(target);
      return MoveResult.MOVED;
    }
    return MoveResult.BUSY;
  }

  /** The class with most pages, if it has one to spare; else ANY_CLASS. */
  #mostPages(exceptClass: number): number {
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
   * Frees a page without evicting anything, from a class whose free chunks would make up more than one page.
   */
  freeSpareOf(exceptClass: number): boolean {
    const { memory, slabs } = this.#links;
    for (let classId = 1; classId <= slabs.classCount; classId++) {
      const row = classId * CLASS.WORDS;
      const perPage = memory.classes[row + CLASS.CHUNKS_PER_PAGE]!;
      if (classId === exceptClass || slabs.freeChunks(classId) < perPage + (perPage >> 1)) continue;
      const page = this.#movableWithRoom(classId);
      if (page === NO_PAGE || !this.#empty(page)) continue;
      slabs.countMove(classId, exceptClass);
      return true;
    }
    return false;
  }

  /** One of the first pages of a class that have free chunks and may be emptied. */
  #movableWithRoom(classId: number): number {
    const { memory } = this.#links;
    let page = memory.classes[classId * CLASS.WORDS + CLASS.ROOM]!;
    for (let looks = 0; looks < DRAWS_MAX && page !== NO_PAGE; looks++) {
      if (this.#isMovable(page)) return page;
      page = memory.pages[page * PAGE.WORDS + PAGE.NEXT]!;
    }
    return NO_PAGE;
  }

  /** Looks at every page in turn: the last resort. */
  #freeAnyPage(exceptClass: number): boolean {
    const { memory, slabs } = this.#links;
    const end = memory.control[CONTROL.PAGES_NEVER_USED]!;
    for (let page = 0; page < end; page++) {
      const from = this.#classOf(page);
      if (from <= 0 || from === exceptClass || !this.#isMovable(page)) continue;
      if (!this.#empty(page)) continue;
      slabs.countMove(from, exceptClass);
      return true;
    }
    return false;
  }

  #classOf(page: number): number {
    return this.#links.memory.pages[page * PAGE.WORDS + PAGE.CLASS]!;
  }

  #draw(): number {
    const { memory } = this.#links;
    const end = memory.control[CONTROL.PAGES_NEVER_USED]!;
    for (let draws = 0; draws < DRAWS_MAX; draws++) {
      const page = memory.random(end);
      if (this.#classOf(page) > 0 && this.#isMovable(page)) return page;
    }
    return NO_PAGE;
  }

  /** A page with a chunk that a lock, a reader or a writer relies on stays where it is. */
  #isMovable(page: number): boolean {
    const { memory, items, slabs } = this.#links;
    const classId = this.#classOf(page);
    const carved = memory.pages[page * PAGE.WORDS + PAGE.CARVED]!;
    for (let index = 0; index < carved; index++) {
      const chunk = slabs.chunkAt(page, index, classId);
      const state = items.state(chunk);
      if (state === 0) continue;
      const item = state & STATE.CONTINUATION ? items.word(chunk, WORD.NEWER) : chunk;
      if ((items.state(item) & (STATE.LINKED | STATE.LOCKED)) !== STATE.LINKED) return false;
      if (this.#links.isPinned(item)) return false;
    }
    return true;
  }

  /** Empties a movable page into other chunks of its class. True if it went to the pool. */
  #empty(page: number): boolean {
    const { memory, items, slabs } = this.#links;
    const classId = this.#classOf(page);
    slabs.beginEmptying(page);
    const row = page * PAGE.WORDS;
    const carved = memory.pages[row + PAGE.CARVED]!;
    for (let index = 0; index < carved && memory.pages[row + PAGE.USED]! > 0; index++) {
      const chunk = slabs.chunkAt(page, index, classId);
      if (items.state(chunk) === 0) continue;
      const item = items.state(chunk) & STATE.CONTINUATION ? items.word(chunk, WORD.NEWER) : chunk;
      if (this.#links.isDead(item)) this.#eviction.reclaim(item);
      else this.#rescue(chunk, classId);
    }
    return slabs.endEmptying(page);
  }

  /** Copies a chunk elsewhere in its class, evicting to make room; if there is none, its own item goes. */
  #rescue(chunk: ItemRef, classId: number): void {
    const { items, slabs } = this.#links;
    let copy = slabs.allocateFromRoom(classId);
    for (let tries = 0; copy === NO_ITEM && tries < DRAWS_MAX; tries++) {
      if (!this.#eviction.evictOne(classId, EvictionCause.PAGE_MOVE)) break;
      if (items.state(chunk) === 0) return;
      copy = slabs.allocateFromRoom(classId);
    }
    const continuation = (items.state(chunk) & STATE.CONTINUATION) !== 0;
    if (copy === NO_ITEM) {
      this.#eviction.evictForMove(continuation ? items.word(chunk, WORD.NEWER) : chunk);
    } else if (continuation) {
      this.#moveContinuation(chunk, copy, classId);
    } else {
      this.#moveItem(chunk, copy, classId);
    }
  }

  #copyChunk(chunk: ItemRef, copy: ItemRef, classId: number): void {
    const { memory, items, slabs } = this.#links;
    const from = memory.segments[chunk >>> 27]!;
    const to = memory.segments[copy >>> 27]!;
    const start = items.offset(chunk);
    to.bytes.set(from.bytes.subarray(start, start + slabs.chunkBytes(classId)), items.offset(copy));
  }

  #moveItem(item: ItemRef, copy: ItemRef, classId: number): void {
    const { memory, items, slabs, index, queues } = this.#links;
    this.#copyChunk(item, copy, classId);
    index.replace(item, copy, index.hashOf(copy));
    queues.replace(item, copy, classId);
    if (items.state(copy) & STATE.CHAINED) {
      let chunk = items.word(copy, items.chainWord(copy));
      for (; chunk !== NO_ITEM; chunk = items.word(chunk, WORD.OLDER)) {
        items.setWord(chunk, WORD.NEWER, copy);
      }
    }
    this.#links.noteDeadline(copy);
    memory.counters[STAT.rescued_items]! += 1;
    slabs.free(item);
  }

  #moveContinuation(chunk: ItemRef, copy: ItemRef, classId: number): void {
    const { memory, items, slabs } = this.#links;
    this.#copyChunk(chunk, copy, classId);
    const item = items.word(chunk, WORD.NEWER);
    const chain = items.chainWord(item);
    if (items.word(item, chain) === chunk) {
      items.setWord(item, chain, copy);
    } else {
      let at = items.word(item, chain);
      while (items.word(at, WORD.OLDER) !== chunk) at = items.word(at, WORD.OLDER);
      items.setWord(at, WORD.OLDER, copy);
    }
    memory.counters[STAT.rescued_chunks]! += 1;
    slabs.free(chunk);
  }
}
