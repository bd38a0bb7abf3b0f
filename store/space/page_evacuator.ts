import { assert } from "../base/assert.ts";
import { copyBytes } from "../base/bytes.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { COPY_BYTES_MAX, MIB } from "../limits.ts";
import { HEADER_BYTES, type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { CONTROL, NO_PAGE, PAGE, PAGE_OWNER } from "../memory/memory.ts";
import { STAT } from "../stats.ts";
import { type Eviction, EvictionCause } from "./eviction.ts";

// Hot path: no allocation.

/** The most that one step of an evacuation does. */
interface EvacuationStep {
  /** Chunks it looks at. */
  readonly chunks: number;
  /**
   * Work, in units of `ItemLinks.workDone`, that evictions may do to make room for copies. It ends
   * a step only where nearly every item has been read often.
   */
  readonly workBudget: number;
}
/**
 * One eviction's share of the evacuation under way: about 40 microseconds if all chunks are in use.
 * A budget of 64 follows a change of sizes more slowly (ecom-recs 0.329 instead of 0.328).
 */
export const PER_EVICTION: EvacuationStep = { chunks: 32, workBudget: 256 };
/** A slice of maintenance: about 80 microseconds if all chunks are in use. */
export const PER_SLICE: EvacuationStep = { chunks: 64, workBudget: 256 };
/**
 * A whole page while a request waits for it: one to three milliseconds. Items that are left when
 * the budget is spent are evicted instead of copied.
 */
const AT_ONCE: EvacuationStep = { chunks: 0x3fffffff, workBudget: 8192 };
/** Evictions that may make room for one copy. After these the item itself is evicted. */
const RESCUE_EVICTIONS_MAX = 8;
/** Items that each of these evictions looks at: 16 gives recs60k-64 0.282 instead of 0.280. */
const RESCUE_LOOKS_MAX = 32;
/** An item with a longer value keeps its first chunk in place. */
const CHAIN_MOVED_BYTES_MAX = 8 * MIB;

/** Whether a page move may move or free a chunk in use: not if a lock, a reader or a writer relies on it. */
export function isMovableChunk(links: ItemLinks, chunk: ItemRef): boolean {
  const { items } = links;
  const continuation = (items.state(chunk) & STATE.CONTINUATION) !== 0;
  const item = continuation ? items.word(chunk, WORD.NEWER) : chunk;
  if ((items.state(item) & (STATE.LINKED | STATE.LOCKED)) !== STATE.LINKED) return false;
  if ((items.state(item) & STATE.CHAINED) === 0) return true;
  // Every chunk refers to its item, so moving the first chunk of a very long chain takes long.
  const length = items.valueLength(item);
  return !links.isPinned(item) && (item !== chunk || length <= CHAIN_MOVED_BYTES_MAX);
}

/**
 * Empties a page so that another class can have it. Copies each live item to another chunk of its
 * class, for which that class evicts by its own queues: the items that happen to lie in the page
 * are not the ones that suffer.
 *
 * One page at a time is being emptied. The control words MOVE_* say which page, for which class,
 * and how far the evacuation has come, so that any thread can continue it.
 */
export class PageEvacuator {
  readonly #links: ItemLinks;
  readonly #eviction: Eviction;
  readonly #control: Int32Array;

  constructor(links: ItemLinks, eviction: Eviction) {
    this.#links = links;
    this.#eviction = eviction;
    this.#control = links.memory.control;
  }

  /** Whether a page is being emptied. */
  get isActive(): boolean {
    return this.#control[CONTROL.MOVE_PAGE] !== NO_PAGE;
  }

  /** The page that is being emptied, or NO_PAGE. */
  get page(): number {
    return this.#control[CONTROL.MOVE_PAGE]!;
  }

  /** Gives the page that is being emptied to another class, or to one of PAGE_OWNER. */
  redirect(to: number): void {
    this.#control[CONTROL.MOVE_TO] = to;
  }

  /**
   * Begins to empty a page. No other may be active.
   *
   * @param to The class that gets the page, or one of PAGE_OWNER.
   */
  start(page: number, to: number): void {
    assert(!this.isActive, "one page at a time is emptied");
    this.#links.slabs.beginEmptying(page);
    this.#control[CONTROL.MOVE_PAGE] = page;
    this.#control[CONTROL.MOVE_TO] = to;
    this.#control[CONTROL.MOVE_CHUNK] = 0;
  }

  /**
   * Empties the rest of the page at once, evicting what it cannot copy within the budget.
   *
   * @returns Whether the page has its new owner; otherwise it stays where it was.
   */
  finish(): boolean {
    const { page } = this;
    assert(page !== NO_PAGE, "a move that is finished has begun");
    this.advance(AT_ONCE);
    while (this.isActive) this.advance(AT_ONCE, false);
    return this.#links.slabs.pageClass(page) === this.#control[CONTROL.MOVE_TO];
  }

  /**
   * Continues by one step, which copies no more than COPY_BYTES_MAX. Ends the evacuation and leaves
   * the page where it is if a chunk has become immovable since.
   *
   * @param rescue False: evicts items instead of copying them, if the store may evict. Chunks
   *   larger than COPY_BYTES_MAX, which only the layout "memcached" has, are never copied.
   */
  advance(step: EvacuationStep, rescue = true): void {
    const { memory, slabs, workDone } = this.#links;
    const { page } = this;
    const row = page * PAGE.WORDS;
    const classId = slabs.pageClass(page);
    const carved = memory.pages[row + PAGE.CARVED]!;
    const first = this.#control[CONTROL.MOVE_CHUNK]!;
    const { evictions } = memory.options;
    let copies = evictions ? Math.floor(COPY_BYTES_MAX / slabs.chunkBytes(classId)) : carved;
    const rescues = rescue && copies > 0;
    const workBefore = workDone[0]!;
    let end = Math.min(carved, first + step.chunks);
    for (let index = first; index < end && memory.pages[row + PAGE.USED]! > 0; index++) {
      const chunk = slabs.usedChunkAt(page, index, classId);
      if (chunk === NO_ITEM) continue;
      const spent = evictions ? (workDone[0]! - workBefore) | 0 : 0;
      const chunks = slabs.chunkCountOf(chunk);
      if (rescue && (spent >= step.workBudget || (rescues && copies < chunks))) {
        end = index;
        break;
      }
      copies -= chunks;
      if (!isMovableChunk(this.#links, chunk) || !this.#clear(chunk, classId, rescues)) {
        this.#end(page);
        return;
      }
    }
    this.#control[CONTROL.MOVE_CHUNK] = end;
    if (end === carved || memory.pages[row + PAGE.USED] === 0) this.#end(page);
  }

  #end(page: number): void {
    const { slabs, index } = this.#links;
    const from = slabs.pageClass(page);
    const to = this.#control[CONTROL.MOVE_TO]!;
    this.#control[CONTROL.MOVE_PAGE] = NO_PAGE;
    if (!slabs.endEmptying(page, to)) return;
    if (to === PAGE_OWNER.HASH) index.adoptPage(page);
    slabs.countMove(from, to);
    if (this.#links.watch.isOn) this.#links.watchLog.pageMoved(from, to);
  }

  /** Frees a chunk of the page: removes, moves or evicts its item. False if the item may not go. */
  #clear(chunk: ItemRef, classId: number, rescue: boolean): boolean {
    const { memory, items } = this.#links;
    const continuation = (items.state(chunk) & STATE.CONTINUATION) !== 0;
    const item = continuation ? items.word(chunk, WORD.NEWER) : chunk;
    if (this.#links.isOver(item)) {
      this.#eviction.reclaimForRoom(item);
      return true;
    }
    if (rescue) {
      if (continuation) this.#moveContinuation(chunk, classId);
      else this.#moveItem(chunk, classId);
    }
    // The item has moved, or was evicted to make room for its copy.
    if (items.state(chunk) === 0) return true;
    if (!memory.options.evictions) return false;
    this.#eviction.evictForMove(item);
    return true;
  }

  /**
   * Allocates the chunk, or the run of up to `chunksMax`, that `chunk` is copied to. May evict.
   *
   * @returns NO_ITEM if there is no memory, or if `chunk` itself was evicted.
   */
  #allocateCopy(chunk: ItemRef, classId: number, chunksMax = 1): ItemRef {
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

  /** Copies `length` bytes between two chunks. The offsets count from each chunk's start. */
  #copy(to: ItemRef, toStart: number, from: ItemRef, fromStart: number, length: number): void {
    const { memory, items } = this.#links;
    const toOffset = items.offset(to) + toStart;
    const fromOffset = items.offset(from) + fromStart;
    copyBytes(memory.segmentOf(to), toOffset, memory.segmentOf(from), fromOffset, length);
  }

  /** Moves an item, with the beginning of its value, to another chunk if there is one. */
  #moveItem(item: ItemRef, classId: number): void {
    const { memory, items, slabs, index, queues } = this.#links;
    const copy = this.#allocateCopy(item, classId);
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
    this.#links.lowerSoonestDeadline(copy);
    memory.stats[STAT.rescued_items]! += 1;
    assert(!this.#links.isPinned(copy), "no reader relies on an item that moves");
    slabs.free(item);
  }

  /** Moves a run of a chain to another one, or to several shorter ones, if there is room. */
  #moveContinuation(chunk: ItemRef, classId: number): void {
    const { memory, items, slabs } = this.#links;
    const item = items.word(chunk, WORD.NEWER);
    const length = items.word(chunk, WORD.PIECE_LENGTH);
    let first = NO_ITEM;
    let last = NO_ITEM;
    for (let done = 0; done < length;) {
      const copy = this.#allocateCopy(chunk, classId, slabs.chunkCountFor(length - done));
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
    memory.stats[STAT.rescued_chunks]! += slabs.chunkCountOf(chunk);
    slabs.free(chunk);
  }
}
