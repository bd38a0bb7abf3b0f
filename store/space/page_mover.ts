import { copyBytes } from "../base/bytes.ts";
import type { Eviction } from "./eviction.ts";
import { EvictionCause } from "./eviction.ts";
import {
  FREQUENCY_MASK,
  HEADER_BYTES,
  type ItemRef,
  NO_ITEM,
  STATE,
  WORD,
} from "../memory/item.ts";
import { COPY_BYTES_MAX, MIB } from "../limits.ts";
import type { ItemLinks } from "../items/item_links.ts";
import {
  CLASS,
  CLASS_REQUESTED_BYTES,
  CONTROL,
  NO_PAGE,
  PAGE,
  PAGE_OWNER,
} from "../memory/memory.ts";
import { STAT } from "../stats.ts";

// Hot path: no allocation.

/**
 * Moves pages between classes. Every so many evictions a class asks for a page. Of a few pages
 * drawn at random, so that a class gives in proportion to the pages it has, one of the class is
 * taken whose items have been cold for longest. What lives in the page is copied to other chunks of
 * its class, for which that class evicts by its own queues: so the items that happen to lie in the
 * page are not the ones that suffer.
 *
 * One page at a time is being emptied. The control words MOVE_* say which, for whom, and how far:
 * every eviction and every slice of maintenance goes a few chunks further, so that no request waits
 * for a whole page.
 */

// The numbers below were chosen by `bench:store`; the runs named are the ones that differ.

/**
 * Evictions of a class until it asks for a page: 20 follows a change of sizes (recs-ecom 0.062)
 * faster than 50 (0.066).
 */
const EVICTIONS_PER_PAGE_MIN = 20;
/** The same in parts of a page's chunks, for small ones: 1/4 copies half as many items as 20 does and keeps as many. */
const PAGE_PARTS = 4;
/** Pages drawn for a move; 1 gives recs60k-64 0.283 instead of 0.280, 5 no more than 3. */
const DRAWS = 3;
/** How much colder the giving class must be; 1.2 moves a quarter more pages for nothing. */
const COLDER = 1.5;
/** Ages below this many seconds say nothing, for the clock has no more than seconds: then any drawn page may go. */
const AGE_SEC_MIN = 2;
/** Items at the old end of a queue that are asked for their age. */
const TAIL_LOOKS = 4;
/**
 * How far one step of a move goes at most: so many chunks, and so much effort (see `ItemLinks.workDone`)
 * for what is evicted to make room for copies. The effort ends a step only where everything has
 * been read often.
 */
interface Step {
  readonly chunks: number;
  readonly workBudget: number;
}
/**
 * What one eviction does for the move under way, beside its own work: about 40 microseconds if all chunks are in use.
 * With an effort of 64 a change of sizes is followed more slowly (ecom-recs 0.329 instead of 0.328).
 */
const PER_EVICTION: Step = { chunks: 32, workBudget: 256 };
/** A slice of maintenance: about 80 microseconds if all chunks are in use. */
const PER_SLICE: Step = { chunks: 64, workBudget: 256 };
/**
 * A whole page while a request waits for it: one to three milliseconds. What then is left in it
 * goes without copies.
 */
const AT_ONCE: Step = { chunks: 0x3fffffff, workBudget: 8192 };
/** Tries to find a page that is a class's, and may be moved. */
const TRIES_MAX = 32;
/** Pages with room of a class that are compared. */
const SPARE_LOOKS = 8;
/** Evictions to make room for one copy, before its own item goes. */
const RESCUE_EVICTIONS_MAX = 8;
/** Items that each of them looks at: 16 gives recs60k-64 0.282 instead of 0.280. */
const RESCUE_LOOKS_MAX = 32;
/** Chunks looked at by a request that can get its memory no other way: about two milliseconds. */
const LAST_RESORT_CHUNKS_MAX = 200_000;
/** Larger values stay where they begin. */
const CHAIN_MOVED_BYTES_MAX = 8 * MIB;

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

/** Moves pages, by the rules above. */
export class PageMover {
  readonly #links: ItemLinks;
  readonly #eviction: Eviction;
  readonly #control: Int32Array;

  constructor(links: ItemLinks, eviction: Eviction) {
    this.#links = links;
    this.#eviction = eviction;
    this.#control = links.memory.control;
  }

  /** Whether a page is being emptied. */
  get isMoving(): boolean {
    return this.#control[CONTROL.MOVE_PAGE] !== NO_PAGE;
  }

  /** To be called for every eviction of a class: lets pages move when they should, a little at a time. */
  noteEviction(classId: number): void {
    if (this.isMoving) this.#advance(PER_EVICTION);
    const { classes } = this.#links.memory;
    const row = classId * CLASS.WORDS;
    const evictions = classes[row + CLASS.EVICTIONS]!;
    const due = classes[row + CLASS.CHUNKS_PER_PAGE]! / PAGE_PARTS;
    if (evictions < EVICTIONS_PER_PAGE_MIN || evictions < due || this.isMoving) return;
    classes[row + CLASS.EVICTIONS] = 0;
    this.begin(classId);
  }

  /**
   * A slice of maintenance: goes on with the move under way, or begins one for the memory limit,
   * for the index, or because a class has more than it needs while the pool is empty.
   *
   * @returns Whether there is more to do.
   */
  slice(): boolean {
    const { slabs, index } = this.#links;
    if (this.isMoving) {
      this.#advance(PER_SLICE);
      return true;
    }
    if (slabs.isOverLimit()) return this.begin(PAGE_OWNER.NOBODY);
    if (index.needsPage()) return this.begin(PAGE_OWNER.HASH);
    return !slabs.canTakePage() && this.beginSpare(PAGE_OWNER.NOBODY);
  }

  /**
   * Begins to empty a page of another class that is cold enough. Nothing may be moving.
   *
   * @param to The class that gets it, or one of PAGE_OWNER.
   */
  begin(to: number): boolean {
    const page = this.#choose(to);
    if (page === NO_PAGE || !this.#isMovable(page)) return false;
    this.#start(page, to);
    return true;
  }

  /**
   * Begins to empty a page of a class that has free chunks for what is in it, so that nothing need
   * be evicted; a page with little in it is emptied at once. Nothing may be moving.
   */
  beginSpare(to: number): boolean {
    const page = this.#findSpare(to);
    if (page === NO_PAGE) return false;
    this.#start(page, to);
    this.#advance(PER_SLICE);
    return true;
  }

  /** As `beginSpare`, but all of it at once: for a store that must not evict. True if the page is the class's now. */
  takeSpare(to: number): boolean {
    if (this.isMoving) this.#finishNow();
    const page = this.#findSpare(to);
    if (page === NO_PAGE) return false;
    this.#start(page, to);
    return this.#finishNow();
  }

  /** For a class that has nothing to evict: gives it a page at once, from wherever one can be had. */
  takeNow(to: number): boolean {
    if (this.isMoving) {
      const page = this.#control[CONTROL.MOVE_PAGE]!;
      const mine = this.#classOf(page) !== to;
      if (mine) this.#control[CONTROL.MOVE_TO] = to;
      if (this.#finishNow() && mine) return true;
    }
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const page = this.#draw();
      if (page === NO_PAGE || this.#classOf(page) === to || !this.#isMovable(page)) continue;
      this.#start(page, to);
      if (this.#finishNow()) return true;
    }
    return this.#takeAny(to);
  }

  /**
   * Takes a page from one class to another, whatever their evictions say.
   *
   * @param source A class, ANY_CLASS, or 0 for the pool.
   * @param target A class, or 0 for the pool.
   * @param yieldMutex Lets others change the store. They may finish the move, or find another use for the page.
   */
  move(source: number, target: number, yieldMutex: () => void): MoveResult {
    const { memory, slabs } = this.#links;
    const last = slabs.classCount;
    if (source === target) return MoveResult.SAME_CLASS;
    const from = source === ANY_CLASS ? this.#mostPages(target) : source;
    if (from < 0 || from > last || target < 0 || target > last) return MoveResult.BAD_CLASS;
    if (from === PAGE_OWNER.NOBODY) {
      return slabs.addPage(target) ? MoveResult.MOVED : MoveResult.NO_SPARE;
    }
    if (this.isMoving) this.#finishNow();
    if (memory.classes[from * CLASS.WORDS + CLASS.PAGES]! < 2) return MoveResult.NO_SPARE;
    const end = this.#control[CONTROL.PAGES_EVER_USED]!;
    const start = memory.random(end);
    for (let looks = 0; looks < end; looks++) {
      const page = (start + looks) % end;
      if (this.#classOf(page) !== from || !this.#isMovable(page)) continue;
      this.#start(page, target);
      this.#advance(AT_ONCE);
      while (this.#control[CONTROL.MOVE_PAGE] === page) {
        yieldMutex();
        if (this.#control[CONTROL.MOVE_PAGE] === page) this.#advance(AT_ONCE);
      }
      if (this.#classOf(page) === target) return MoveResult.MOVED;
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

  /** Looks at one page after another: the last resort. */
  #takeAny(to: number): boolean {
    const { memory } = this.#links;
    const end = this.#control[CONTROL.PAGES_EVER_USED]!;
    const first = memory.random(end);
    let chunks = 0;
    for (let step = 0; step < end && chunks < LAST_RESORT_CHUNKS_MAX; step++) {
      const page = (first + step) % end;
      const from = this.#classOf(page);
      if (from <= 0 || from === to) continue;
      chunks += memory.pages[page * PAGE.WORDS + PAGE.CARVED]!;
      if (!this.#isMovable(page)) continue;
      this.#start(page, to);
      if (this.#finishNow()) return true;
    }
    return false;
  }

  #classOf(page: number): number {
    return this.#links.memory.pages[page * PAGE.WORDS + PAGE.CLASS]!;
  }

  /** A page at random that some class has, or NO_PAGE. */
  #draw(): number {
    const { memory } = this.#links;
    const end = this.#control[CONTROL.PAGES_EVER_USED]!;
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const page = memory.random(end);
      if (this.#classOf(page) > 0) return page;
    }
    return NO_PAGE;
  }

  /** The page of a few that will be missed least; NO_PAGE when the class that asks would miss its own least. */
  #choose(to: number): number {
    let page = this.#draw();
    if (page === NO_PAGE) return NO_PAGE;
    let coldest = this.#coldness(this.#classOf(page));
    for (let draw = 1; draw < DRAWS; draw++) {
      const other = this.#draw();
      if (other === NO_PAGE) break;
      const coldness = this.#coldness(this.#classOf(other));
      if (coldness > coldest) {
        page = other;
        coldest = coldness;
      }
    }
    if (this.#classOf(page) === to) return NO_PAGE;
    if (to <= 0) return page;
    const own = this.#coldness(to);
    return own > 0 && coldest <= own * COLDER ? NO_PAGE : page;
  }

  /**
   * How little a class's next evictions would be missed: for how long those items have not been
   * read, times their mean size, for keeping a large item costs the places of many small ones. 0
   * when that is too short to be told.
   */
  #coldness(classId: number): number {
    const { memory, queues } = this.#links;
    const items = queues.count(classId, false) + queues.count(classId, true);
    if (items === 0) return 0;
    const ageSec = Math.max(this.#tailAgeSec(classId, false), this.#tailAgeSec(classId, true));
    if (ageSec < AGE_SEC_MIN) return 0;
    return ageSec * memory.classCounter(classId, CLASS_REQUESTED_BYTES) / items;
  }

  /** Seconds since the item was read that will be evicted next, if the old end of the queue shows it. */
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

  /** A page with room of a class that has half a page more free chunks than a page holds, or NO_PAGE. */
  #findSpare(to: number): number {
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

  /** The page with the fewest chunks in use among the first few of a class's list that may be moved, or NO_PAGE. */
  #emptiestOf(first: number): number {
    const { pages } = this.#links.memory;
    let best = NO_PAGE;
    let page = first;
    for (let look = 0; look < SPARE_LOOKS && page !== NO_PAGE; look++) {
      const row = page * PAGE.WORDS;
      const fewer = best === NO_PAGE ||
        pages[row + PAGE.USED]! < pages[best * PAGE.WORDS + PAGE.USED]!;
      if (fewer && this.#isMovable(page)) best = page;
      page = pages[row + PAGE.NEXT]!;
    }
    return best;
  }

  /** A chunk that a lock, a reader or a writer relies on stays where it is. */
  #isMovableChunk(chunk: ItemRef): boolean {
    const { items } = this.#links;
    const continuation = (items.state(chunk) & STATE.CONTINUATION) !== 0;
    const item = continuation ? items.word(chunk, WORD.NEWER) : chunk;
    if ((items.state(item) & (STATE.LINKED | STATE.LOCKED)) !== STATE.LINKED) return false;
    if ((items.state(item) & STATE.CHAINED) === 0) return true;
    // Every chunk knows its item, so moving the head of a very long chain would take long.
    const length = items.valueLength(item);
    return !this.#links.isPinned(item) && (item !== chunk || length <= CHAIN_MOVED_BYTES_MAX);
  }

  #isMovable(page: number): boolean {
    const { memory, slabs } = this.#links;
    const classId = this.#classOf(page);
    const carved = memory.pages[page * PAGE.WORDS + PAGE.CARVED]!;
    for (let index = 0; index < carved; index++) {
      const chunk = slabs.usedChunkAt(page, index, classId);
      if (chunk !== NO_ITEM && !this.#isMovableChunk(chunk)) return false;
    }
    return true;
  }

  #start(page: number, to: number): void {
    this.#links.slabs.beginEmptying(page);
    this.#control[CONTROL.MOVE_PAGE] = page;
    this.#control[CONTROL.MOVE_TO] = to;
    this.#control[CONTROL.MOVE_CHUNK] = 0;
  }

  #finishNow(): boolean {
    const page = this.#control[CONTROL.MOVE_PAGE]!;
    this.#advance(AT_ONCE);
    while (this.isMoving) this.#advance(AT_ONCE, false);
    return this.#classOf(page) === this.#control[CONTROL.MOVE_TO];
  }

  /**
   * Goes on with the move by a step, but copies no more than COPY_BYTES_MAX. The page may turn out
   * not to be movable any more: then it stays.
   *
   * @param rescue False: what is in the chunks goes, without copies, if the store may evict. So
   *   does what is in larger chunks than may be copied, which there are in the layout "memcached"
   *   only.
   */
  #advance(step: Step, rescue = true): void {
    const { memory, slabs, workDone } = this.#links;
    const page = this.#control[CONTROL.MOVE_PAGE]!;
    const row = page * PAGE.WORDS;
    const classId = this.#classOf(page);
    const carved = memory.pages[row + PAGE.CARVED]!;
    const first = this.#control[CONTROL.MOVE_CHUNK]!;
    const { evictions } = memory.options;
    let copies = evictions ? Math.floor(COPY_BYTES_MAX / slabs.chunkBytes(classId)) : carved;
    const rescues = rescue && copies > 0;
    const effortBefore = workDone[0]!;
    let end = Math.min(carved, first + step.chunks);
    for (let index = first; index < end && memory.pages[row + PAGE.USED]! > 0; index++) {
      const chunk = slabs.usedChunkAt(page, index, classId);
      if (chunk === NO_ITEM) continue;
      const spent = evictions ? (workDone[0]! - effortBefore) | 0 : 0;
      const chunks = slabs.chunkCountOf(chunk);
      if (rescue && (spent >= step.workBudget || (rescues && copies < chunks))) {
        end = index;
        break;
      }
      copies -= chunks;
      if (!this.#isMovableChunk(chunk) || !this.#clear(chunk, classId, rescues)) {
        this.#end(page);
        return;
      }
    }
    this.#control[CONTROL.MOVE_CHUNK] = end;
    if (end === carved || memory.pages[row + PAGE.USED] === 0) this.#end(page);
  }

  #end(page: number): void {
    const { slabs, index } = this.#links;
    const from = this.#classOf(page);
    const to = this.#control[CONTROL.MOVE_TO]!;
    this.#control[CONTROL.MOVE_PAGE] = NO_PAGE;
    if (!slabs.endEmptying(page, to)) return;
    if (to === PAGE_OWNER.HASH) index.adoptPage(page);
    slabs.countMove(from, to);
    if (this.#links.watch.isOn) this.#links.watchLog.pageMoved(from, to);
  }

  /** Frees a chunk of the page that is being emptied. False when that is not allowed. */
  #clear(chunk: ItemRef, classId: number, rescue: boolean): boolean {
    const { memory, items } = this.#links;
    const continuation = (items.state(chunk) & STATE.CONTINUATION) !== 0;
    const item = continuation ? items.word(chunk, WORD.NEWER) : chunk;
    if (this.#links.isDead(item)) {
      this.#eviction.reclaimForRoom(item);
      return true;
    }
    if (rescue) {
      if (continuation) this.#moveContinuation(chunk, classId);
      else this.#moveItem(chunk, classId);
    }
    // It has moved, or making place for the copy evicted it.
    if (items.state(chunk) === 0) return true;
    if (!memory.options.evictions) return false;
    this.#eviction.evictForMove(item);
    return true;
  }

  /**
   * Another chunk of the class, or a run of some, for which something may be evicted; NO_ITEM when
   * there is none, or the original went.
   */
  #placeFor(chunk: ItemRef, classId: number, chunksMax = 1): ItemRef {
    const { memory, items, slabs } = this.#links;
    const fromPool = this.#control[CONTROL.MOVE_TO] !== PAGE_OWNER.NOBODY;
    for (let tries = 0;; tries++) {
      const copy = fromPool
        ? slabs.allocate(classId, chunksMax)
        : slabs.allocateFromRoom(classId, chunksMax);
      if (copy !== NO_ITEM || tries === RESCUE_EVICTIONS_MAX) return copy;
      if (!memory.options.evictions) return NO_ITEM;
      if (!this.#eviction.evictOne(classId, EvictionCause.PAGE_MOVE, RESCUE_LOOKS_MAX)) {
        return NO_ITEM;
      }
      if (items.state(chunk) === 0) return NO_ITEM;
    }
  }

  /** Copies `length` bytes that begin so far behind the one and the other chunk's start. */
  #copy(to: ItemRef, toStart: number, from: ItemRef, fromStart: number, length: number): void {
    const { memory, items } = this.#links;
    const toOffset = items.offset(to) + toStart;
    const fromOffset = items.offset(from) + fromStart;
    copyBytes(memory.segmentOf(to), toOffset, memory.segmentOf(from), fromOffset, length);
  }

  /** Moves an item, with the beginning of its value, to another chunk, unless there is none. */
  #moveItem(item: ItemRef, classId: number): void {
    const { memory, items, slabs, index, queues } = this.#links;
    const copy = this.#placeFor(item, classId);
    if (copy === NO_ITEM) return;
    this.#copy(copy, 0, item, 0, slabs.chunkBytes(classId));
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

  /** Moves a chunk of a chain to another one, or to several shorter runs, unless there is too little room. */
  #moveContinuation(chunk: ItemRef, classId: number): void {
    const { memory, items, slabs } = this.#links;
    const item = items.word(chunk, WORD.NEWER);
    const length = items.word(chunk, WORD.PIECE_LENGTH);
    let first = NO_ITEM;
    let last = NO_ITEM;
    for (let done = 0; done < length;) {
      const copy = this.#placeFor(chunk, classId, slabs.chunkCountFor(length - done));
      if (copy === NO_ITEM) {
        this.#links.freeChain(first);
        return;
      }
      const bytes = this.#links.lengthenChain(item, last, copy, length - done);
      this.#copy(copy, HEADER_BYTES, chunk, HEADER_BYTES + done, bytes);
      if (first === NO_ITEM) first = copy;
      last = copy;
      done += bytes;
    }
    const previous = items.word(chunk, WORD.CHAIN_PREVIOUS);
    const next = items.word(chunk, WORD.OLDER);
    items.setWord(first, WORD.CHAIN_PREVIOUS, previous);
    items.setWord(last, WORD.OLDER, next);
    if (previous === NO_ITEM) items.setWord(item, items.chainWord(item), first);
    else items.setWord(previous, WORD.OLDER, first);
    if (next !== NO_ITEM) items.setWord(next, WORD.CHAIN_PREVIOUS, last);
    memory.counters[STAT.rescued_chunks]! += slabs.chunkCountOf(chunk);
    slabs.free(chunk);
  }
}
