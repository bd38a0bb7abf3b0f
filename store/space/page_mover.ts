import type { ItemLinks } from "../items/item_links.ts";
import { CLASS, CONTROL, NO_PAGE, PAGE, PAGE_OWNER } from "../memory/memory.ts";
import type { Eviction } from "./eviction.ts";
import { PageEvacuator, PER_EVICTION, PER_SLICE } from "./page_evacuator.ts";
import { ANY_CLASS, PageSelector } from "./page_selector.ts";

// Hot path: no allocation.

/**
 * Evictions of a class until it asks for a page: 20 follows a change of sizes (recs-ecom 0.062)
 * faster than 50 (0.066). Chosen by `bench store`, as is PAGE_PARTS.
 */
const EVICTIONS_PER_PAGE_MIN = 20;
/**
 * A class with small chunks waits for a page's chunks divided by this: 1/4 copies half as many
 * items as 20 evictions do and has the same miss ratio.
 */
const PAGE_PARTS = 4;
/** Pages drawn for a class that cannot get memory otherwise. */
const TRIES_MAX = 32;
/** Chunks that the search of last resort looks at: about two milliseconds. */
const LAST_RESORT_CHUNKS_MAX = 200_000;

/** Chunks that are tested for locks in the time in which one is copied. */
const CHUNKS_PER_LOOK = 32;
/** Pages of other classes that one step of a move passes over. */
const PAGES_PER_STEP = 512;

/** How a page move ended. */
export const MoveResult = {
  MOVED: 0,
  /** A lock, a reader or a writer relies on every page of the class. */
  BUSY: 1,
  BAD_CLASS: 2,
  NO_SPARE: 3,
  SAME_CLASS: 4,
  /** There is more to do: see `PageMover.step`. */
  MOVING: 5,
} as const;
export type MoveResult = typeof MoveResult[keyof typeof MoveResult];

/** A page move that a client has asked for. */
export class PageMove {
  result: MoveResult = MoveResult.MOVING;
  /** The page that is being emptied, or NO_PAGE. */
  page: number = NO_PAGE;
  /** How many pages have been looked at, from page `start` on. */
  looks = 0;

  constructor(readonly from: number, readonly target: number, readonly start: number) {}
}

/**
 * Decides when a page moves from one class to another. A class asks for a page after a number of
 * evictions; PageSelector chooses the page, and PageEvacuator empties it. Every eviction and every
 * slice of maintenance continues the evacuation by a few chunks, so that no request waits for a
 * whole page.
 */
export class PageMover {
  readonly #links: ItemLinks;
  readonly #selector: PageSelector;
  readonly #evacuator: PageEvacuator;
  readonly #control: Int32Array;

  constructor(links: ItemLinks, eviction: Eviction) {
    this.#links = links;
    this.#selector = new PageSelector(links);
    this.#evacuator = new PageEvacuator(links, eviction);
    this.#control = links.memory.control;
  }

  /** Whether a page is being emptied. */
  get isMoving(): boolean {
    return this.#evacuator.isActive;
  }

  /** Call it for every eviction of a class: continues a move, or begins one when the class is due. */
  noteEviction(classId: number): void {
    if (this.isMoving) this.#evacuator.advance(PER_EVICTION);
    const { classes } = this.#links.memory;
    const row = classId * CLASS.WORDS;
    const evictions = classes[row + CLASS.EVICTIONS]!;
    const due = classes[row + CLASS.CHUNKS_PER_PAGE]! / PAGE_PARTS;
    if (evictions < EVICTIONS_PER_PAGE_MIN || evictions < due || this.isMoving) return;
    classes[row + CLASS.EVICTIONS] = 0;
    this.begin(classId);
  }

  /**
   * A slice of maintenance: continues the move under way, or begins one for the memory limit, for
   * the index, or because a class has pages to spare while the pool is empty.
   *
   * @returns Whether there is more to do.
   */
  slice(): boolean {
    const { slabs, index } = this.#links;
    if (this.isMoving) {
      this.#evacuator.advance(PER_SLICE);
      return true;
    }
    if (slabs.isOverLimit()) return this.begin(PAGE_OWNER.NOBODY);
    if (index.needsPage()) return this.begin(PAGE_OWNER.HASH);
    return !slabs.canTakePage() && this.beginSpare(PAGE_OWNER.NOBODY);
  }

  /**
   * Begins to empty a page of a class that is cold enough. No move may be under way.
   *
   * @param to The class that gets the page, or one of PAGE_OWNER.
   * @returns False if no such page was found.
   */
  begin(to: number): boolean {
    const page = this.#selector.coldest(to);
    if (page === NO_PAGE || !this.#selector.isMovable(page)) return false;
    this.#evacuator.start(page, to);
    return true;
  }

  /**
   * Begins to empty a page of a class whose free chunks can hold its items, so that nothing need be
   * evicted. Finishes at once if the page holds little. No move may be under way.
   *
   * @returns False if no such page was found.
   */
  beginSpare(to: number): boolean {
    const page = this.#selector.spare(to);
    if (page === NO_PAGE) return false;
    this.#evacuator.start(page, to);
    this.#evacuator.advance(PER_SLICE);
    return true;
  }

  /**
   * As `beginSpare`, but all at once: for a store that must not evict.
   *
   * @returns Whether class `to` has got the page.
   */
  takeSpare(to: number): boolean {
    if (this.isMoving) this.#evacuator.finish();
    const page = this.#selector.spare(to);
    if (page === NO_PAGE) return false;
    this.#evacuator.start(page, to);
    return this.#evacuator.finish();
  }

  /**
   * Gives a page at once to a class that has nothing to evict, from any other class.
   *
   * @returns False if no page could be moved.
   */
  takeNow(to: number): boolean {
    const { slabs } = this.#links;
    if (this.isMoving) {
      const isOthers = slabs.pageClass(this.#evacuator.page) !== to;
      if (isOthers) this.#evacuator.redirect(to);
      if (this.#evacuator.finish() && isOthers) return true;
    }
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const page = this.#selector.random();
      if (page === NO_PAGE || slabs.pageClass(page) === to) continue;
      if (this.#evacuate(page, to)) return true;
    }
    return this.#takeAny(to);
  }

  /**
   * Begins to move a page from one class to another, whatever their evictions say. `step` continues it.
   *
   * @param source A class, ANY_CLASS, or 0 for the pool.
   * @param target A class, or 0 for the pool.
   */
  move(source: number, target: number): PageMove {
    const { slabs } = this.#links;
    const last = slabs.classCount;
    const from = source === ANY_CLASS ? this.#selector.classWithMostPages(target) : source;
    const move = new PageMove(from, target, this.#links.memory.random(Math.max(1, this.#pageEnd)));
    if (source === target) move.result = MoveResult.SAME_CLASS;
    else if (from < 0 || from > last || target < 0 || target > last) {
      move.result = MoveResult.BAD_CLASS;
    } else if (from === PAGE_OWNER.NOBODY) {
      move.result = slabs.addPage(target) ? MoveResult.MOVED : MoveResult.NO_SPARE;
    }
    return move;
  }

  /**
   * Continues a move, for about as long as a slice of maintenance takes. Between two steps other threads may finish
   * it, or give the page away.
   *
   * @returns About how many chunks could have been copied instead.
   */
  step(move: PageMove): number {
    const { slabs } = this.#links;
    if (this.isMoving) {
      this.#evacuator.advance(PER_SLICE);
      if (this.isMoving) return PER_SLICE.chunks;
    }
    if (move.page === NO_PAGE) return this.#findPage(move);
    if (slabs.pageClass(move.page) === move.target) move.result = MoveResult.MOVED;
    else move.page = NO_PAGE;
    return PER_SLICE.chunks;
  }

  /** Looks for a page that can be moved, tests one at most, and begins to empty it. */
  #findPage(move: PageMove): number {
    const { memory, slabs } = this.#links;
    if (memory.classes[move.from * CLASS.WORDS + CLASS.PAGES]! < 2) {
      move.result = MoveResult.NO_SPARE;
      return 1;
    }
    const end = this.#pageEnd;
    for (let looks = 1; looks <= PAGES_PER_STEP; looks++) {
      if (move.looks === end) {
        move.result = MoveResult.BUSY;
        return looks;
      }
      const page = (move.start + move.looks++) % end;
      if (slabs.pageClass(page) !== move.from) continue;
      if (this.#selector.isMovable(page)) {
        this.#evacuator.start(page, move.target);
        move.page = page;
      }
      const carved = memory.pages[page * PAGE.WORDS + PAGE.CARVED]!;
      return looks + Math.ceil(carved / CHUNKS_PER_LOOK);
    }
    return PAGES_PER_STEP;
  }

  get #pageEnd(): number {
    return this.#control[CONTROL.PAGES_EVER_USED]!;
  }

  /** Tries one page after another: the last resort. */
  #takeAny(to: number): boolean {
    const { memory, slabs } = this.#links;
    const end = this.#pageEnd;
    const first = memory.random(end);
    let chunks = 0;
    for (let step = 0; step < end && chunks < LAST_RESORT_CHUNKS_MAX; step++) {
      const page = (first + step) % end;
      const from = slabs.pageClass(page);
      if (from <= 0 || from === to) continue;
      chunks += memory.pages[page * PAGE.WORDS + PAGE.CARVED]!;
      if (this.#evacuate(page, to)) return true;
    }
    return false;
  }

  /** Moves one page at once. False if something in it may not move. */
  #evacuate(page: number, to: number): boolean {
    if (!this.#selector.isMovable(page)) return false;
    this.#evacuator.start(page, to);
    return this.#evacuator.finish();
  }
}
