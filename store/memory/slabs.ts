import { assert } from "../base/assert.ts";
import { type ItemRef, Items } from "./item.ts";
import * as itemModule from "./item.ts";
import { type Memory, pagesWithin } from "./memory.ts";
import * as memoryModule from "./memory.ts";
import * as runsModule from "./chunk_runs.ts";
import * as statsModule from "../stats.ts";

const { HEADER_BYTES, NO_ITEM, STATE, WORD } = itemModule;
const { CLASS, CLASSES_MAX, CONTROL, NO_PAGE, PAGE, PAGE_OWNER, PAGES_MIN } = memoryModule;
const { chunkCount, firstChunk, freeRun, RUN_CHUNKS_MAX, runAt } = runsModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

/**
 * Layout "leased": pages of 64 KiB, so that memory moves between classes in small steps; 32 KiB is
 * no better (`bench store`). Chunk sizes are stretched so that they fill a page. The default factor
 * is 1.075: it wastes least of all factors that need no more classes than there are numbers (4.4 %
 * of an item on average, 5.4 % with 1.1; `bench store`, fill). An item of which a page would hold
 * fewer than five becomes a chain of chunks of LARGE_CHUNK_BYTES instead, which wastes half a chunk
 * per item on average.
 */
const SMALLEST_CHUNK_BYTES = 48;
const CHUNKS_PER_PAGE_MIN = 5;
const LARGE_CHUNK_BYTES = 4096;
/** memcached's default for -n: the layout "leased" has smaller classes too and starts higher only when asked to. */
const MEMCACHED_CHUNK_SIZE_MIN = 48;
/** Added to a factor that would need more classes than there are numbers. */
const FACTOR_STEP = 0.001;

/** Layout "memcached": slabs.c's numbers. */
const MEMCACHED_ITEM_HEADER_BYTES = 48;
const MEMCACHED_CHUNK_BYTES_MAX = 512 * 1024;

const align8 = (bytes: number): number => (bytes + 7) & ~7;

/** Returns the chunk sizes of classes 1.., and the class of the chunks of chains. */
function classSizes(memory: Memory): { sizes: number[]; largeClass: number } {
  const { slabLayout, growthFactor, chunkSizeMin } = memory.options;
  const sizes: number[] = [];
  if (slabLayout === "memcached") {
    let size = align8(MEMCACHED_ITEM_HEADER_BYTES + chunkSizeMin);
    while (sizes.length < CLASSES_MAX - 2 && size < MEMCACHED_CHUNK_BYTES_MAX / growthFactor) {
      sizes.push(size);
      size = align8(Math.floor(size * growthFactor));
    }
    sizes.push(MEMCACHED_CHUNK_BYTES_MAX);
    return { sizes, largeClass: sizes.length };
  }
  const smallest = chunkSizeMin > MEMCACHED_CHUNK_SIZE_MIN
    ? align8(HEADER_BYTES + chunkSizeMin)
    : SMALLEST_CHUNK_BYTES;
  for (let factor = growthFactor;; factor += FACTOR_STEP) {
    const sizes = stretchedSizes(memory.pageBytes, smallest, factor);
    if (sizes.length > CLASSES_MAX - 2) continue;
    sizes.push(LARGE_CHUNK_BYTES);
    return { sizes, largeClass: sizes.length };
  }
}

/** Returns chunk sizes that fill a page, each at least `factor` times the one before. */
function stretchedSizes(pageBytes: number, smallest: number, factor: number): number[] {
  const stretch = (size: number): number =>
    Math.floor(pageBytes / Math.floor(pageBytes / size)) & ~7;
  const largest = stretch(Math.floor(pageBytes / CHUNKS_PER_PAGE_MIN) & ~7);
  const sizes: number[] = [];
  for (let size = smallest; size < largest;) {
    const stretched = stretch(size);
    sizes.push(stretched);
    size = Math.max(stretched + 8, align8(Math.floor(stretched * factor)));
  }
  if (sizes.at(-1) !== largest) sizes.push(largest);
  return sizes;
}

/**
 * Slab classes over pages. A page belongs to one class at a time and is cut into chunks of the class's size; a class
 * keeps a list of those of its pages that have room. A page whose last chunk is freed goes back to the pool.
 *
 * The class of chains allocates runs: one chunk, or several contiguous ones that are allocated and freed together, so
 * that a long value has few pieces (`bench ratio`, row set100k: a fifth less than with single chunks).
 */
export class Slabs {
  readonly #memory: Memory;
  readonly #items: Items;
  readonly #control: Int32Array;
  readonly #classes: Int32Array;
  readonly #pages: Int32Array;
  /** Class of an item by its size in units of 8 bytes. */
  readonly #classOfUnits: Uint8Array;
  /** Number of the last class; classes count from 1. */
  readonly classCount: number;
  /** The class whose chunks make up chains. */
  readonly largeClass: number;
  readonly largeChunkBytes: number;
  /** Items up to this size are in one chunk. */
  readonly ordinaryBytesMax: number;

  constructor(memory: Memory, items: Items) {
    this.#memory = memory;
    this.#items = items;
    this.#control = memory.control;
    this.#classes = memory.classes;
    this.#pages = memory.pages;
    const { sizes, largeClass } = classSizes(memory);
    this.classCount = sizes.length;
    this.largeClass = largeClass;
    this.largeChunkBytes = sizes[largeClass - 1]!;
    assert(memory.pageBytes / this.largeChunkBytes <= RUN_CHUNKS_MAX, "a page's runs fit a word");
    const ordinary = memory.options.slabLayout === "memcached" ? sizes : sizes.slice(0, -1);
    this.ordinaryBytesMax = ordinary.at(-1)!;
    this.#classOfUnits = new Uint8Array((this.ordinaryBytesMax >> 3) + 1);
    let classId = 1;
    for (let units = 0; units < this.#classOfUnits.length; units++) {
      while (units << 3 > ordinary[classId - 1]!) classId++;
      this.#classOfUnits[units] = classId;
    }
  }

  /** Writes the rows of the classes. Called once, by the thread that makes the store. */
  format(): void {
    const { sizes } = classSizes(this.#memory);
    sizes.forEach((chunkBytes, index) => {
      const row = (index + 1) * CLASS.WORDS;
      this.#classes[row + CLASS.CHUNK_BYTES] = chunkBytes;
      this.#classes[row + CLASS.CHUNKS_PER_PAGE] = Math.floor(this.#memory.pageBytes / chunkBytes);
      this.#classes[row + CLASS.ROOM] = NO_PAGE;
    });
  }

  /** Returns the class for an item of `bytes`: the smallest that holds it, or the class of chains. */
  classFor(bytes: number): number {
    return bytes > this.ordinaryBytesMax ? this.largeClass : this.#classOfUnits[(bytes + 7) >> 3]!;
  }

  /** Returns the class that owns a page, or one of PAGE_OWNER. */
  pageClass(page: number): number {
    return this.#pages[page * PAGE.WORDS + PAGE.CLASS]!;
  }

  classOf(item: ItemRef): number {
    return this.#pages[(item >>> this.#memory.refPageShift) * PAGE.WORDS + PAGE.CLASS]!;
  }

  chunkBytes(classId: number): number {
    return this.#classes[classId * CLASS.WORDS + CLASS.CHUNK_BYTES]!;
  }

  /** Returns how many chunks of a class are free. */
  freeChunks(classId: number): number {
    const row = classId * CLASS.WORDS;
    return this.#classes[row + CLASS.PAGES]! * this.#classes[row + CLASS.CHUNKS_PER_PAGE]! -
      this.#classes[row + CLASS.USED]!;
  }

  /** Returns how many chunks a run needs for `bytes` of a value. */
  chunkCountFor(bytes: number): number {
    return Math.ceil((HEADER_BYTES + bytes) / this.largeChunkBytes);
  }

  /** Returns how many bytes of a value a run can hold. */
  runCapacity(run: ItemRef): number {
    return this.chunkCountOf(run) * this.largeChunkBytes - HEADER_BYTES;
  }

  /** Returns how many chunks are allocated together with a chunk in use: the length of its run, or 1. */
  chunkCountOf(chunk: ItemRef): number {
    const page = chunk >>> this.#memory.refPageShift;
    if (this.#pages[page * PAGE.WORDS + PAGE.CLASS] !== this.largeClass) return 1;
    const runs = this.#pages[page * PAGE.WORDS + PAGE.RUNS]!;
    return chunkCount(runAt(runs, this.#indexOf(chunk, page)));
  }

  /** Returns the number, within its page, of a chunk of the class of chains. */
  #indexOf(chunk: ItemRef, page: number): number {
    return ((chunk - this.#memory.pageRef(page)) / (this.largeChunkBytes >> 3)) | 0;
  }

  /**
   * Allocates a chunk from a page that the class has. Its STATE is the last user's: set it at once.
   *
   * @param chunksMax In the class of chains: the longest run; `chunkCountOf` returns the length of the one allocated.
   * @returns NO_ITEM if no page of the class has a free chunk.
   */
  allocateFromRoom(classId: number, chunksMax = 1): ItemRef {
    const classRow = classId * CLASS.WORDS;
    const page = this.#classes[classRow + CLASS.ROOM]!;
    if (page === NO_PAGE) return NO_ITEM;
    const row = page * PAGE.WORDS;
    if (classId === this.largeClass) return this.#takeRun(page, chunksMax);
    let chunk = this.#pages[row + PAGE.FREE_CHUNK]!;
    if (chunk !== NO_ITEM) {
      this.#pages[row + PAGE.FREE_CHUNK] = this.#items.word(chunk, WORD.HASH_NEXT);
    } else {
      const carved = this.#pages[row + PAGE.CARVED]!;
      chunk = this.chunkAt(page, carved, classId);
      this.#pages[row + PAGE.CARVED] = carved + 1;
    }
    this.#countTaken(page, classRow, 1);
    return chunk;
  }

  #takeRun(page: number, chunksMax: number): ItemRef {
    const row = page * PAGE.WORDS;
    const classRow = this.largeClass * CLASS.WORDS;
    const runs = this.#pages[row + PAGE.RUNS]!;
    const run = freeRun(runs, this.#classes[classRow + CLASS.CHUNKS_PER_PAGE]!, chunksMax);
    const first = firstChunk(run);
    const count = chunkCount(run);
    this.#pages[row + PAGE.RUNS] = runs | run;
    const end = first + count;
    if (end > this.#pages[row + PAGE.CARVED]!) this.#pages[row + PAGE.CARVED] = end;
    this.#countTaken(page, classRow, count);
    return this.chunkAt(page, first, this.largeClass);
  }

  #countTaken(page: number, classRow: number, count: number): void {
    const row = page * PAGE.WORDS;
    this.#classes[classRow + CLASS.USED]! += count;
    const used = this.#pages[row + PAGE.USED]! + count;
    this.#pages[row + PAGE.USED] = used;
    if (used === this.#classes[classRow + CLASS.CHUNKS_PER_PAGE]) this.#unlist(page, classRow);
  }

  /** As `allocateFromRoom`, but takes a page from the pool if the class has no free chunk. */
  allocate(classId: number, chunksMax = 1): ItemRef {
    const chunk = this.allocateFromRoom(classId, chunksMax);
    if (chunk !== NO_ITEM) return chunk;
    return this.addPage(classId) ? this.allocateFromRoom(classId, chunksMax) : NO_ITEM;
  }

  /** Takes a page from the pool for a class. False when the pool is empty. */
  addPage(classId: number): boolean {
    const page = this.takePage(classId);
    if (page === NO_PAGE) return false;
    this.#addToClass(page, classId);
    return true;
  }

  #addToClass(page: number, classId: number): void {
    const classRow = classId * CLASS.WORDS;
    this.#classes[classRow + CLASS.PAGES]! += 1;
    this.#list(page, classRow);
  }

  /** Whether a page of the class has a free chunk. */
  hasRoom(classId: number): boolean {
    return this.#classes[classId * CLASS.WORDS + CLASS.ROOM] !== NO_PAGE;
  }

  /** Frees a chunk, or a whole run. A page without chunks in use goes back to the pool. */
  free(chunk: ItemRef): void {
    const page = chunk >>> this.#memory.refPageShift;
    const row = page * PAGE.WORDS;
    const classId = this.#pages[row + PAGE.CLASS]!;
    const classRow = classId * CLASS.WORDS;
    this.#items.setWord(chunk, WORD.STATE, 0);
    let freed = 1;
    if (classId === this.largeClass) {
      const runs = this.#pages[row + PAGE.RUNS]!;
      const run = runAt(runs, this.#indexOf(chunk, page));
      this.#pages[row + PAGE.RUNS] = runs & ~run;
      freed = chunkCount(run);
    } else {
      this.#items.setWord(chunk, WORD.HASH_NEXT, this.#pages[row + PAGE.FREE_CHUNK]!);
      this.#pages[row + PAGE.FREE_CHUNK] = chunk;
    }
    this.#classes[classRow + CLASS.USED]! -= freed;
    const used = this.#pages[row + PAGE.USED]! - freed;
    this.#pages[row + PAGE.USED] = used;
    const listed = this.#pages[row + PAGE.LISTED]!;
    if (listed === BEING_EMPTIED) return;
    if (used === 0) {
      if (listed === LISTED) this.#unlist(page, classRow);
      this.#releasePage(page, classRow);
    } else if (listed === NOT_LISTED) {
      this.#list(page, classRow);
    }
  }

  /** Chunk `index` of a page. */
  chunkAt(page: number, index: number, classId: number): ItemRef {
    return (this.#memory.pageRef(page) + index * (this.chunkBytes(classId) >> 3)) | 0;
  }

  /** Chunk `index` of a page, if it is in use and not the further part of a run; else NO_ITEM. */
  usedChunkAt(page: number, index: number, classId: number): ItemRef {
    const chunk = this.chunkAt(page, index, classId);
    return this.isInUse(chunk) ? chunk : NO_ITEM;
  }

  /** Whether a chunk of a class's page is in use, and no part of a run that begins before it: then it has a STATE. */
  isInUse(chunk: ItemRef): boolean {
    const page = chunk >>> this.#memory.refPageShift;
    const row = page * PAGE.WORDS;
    return this.#pages[row + PAGE.CLASS] === this.largeClass
      ? runAt(this.#pages[row + PAGE.RUNS]!, this.#indexOf(chunk, page)) !== 0
      : this.#items.state(chunk) !== 0;
  }

  /** Excludes a page from allocation, and keeps it out of the pool, while it is emptied. */
  beginEmptying(page: number): void {
    const row = page * PAGE.WORDS;
    assert(this.pageClass(page) > 0, "only a page of a class is emptied");
    if (this.#pages[row + PAGE.LISTED] === LISTED) {
      this.#unlist(page, this.#pages[row + PAGE.CLASS]! * CLASS.WORDS);
    }
    this.#pages[row + PAGE.LISTED] = BEING_EMPTIED;
  }

  /**
   * Gives the page to `to` if it is empty; otherwise it stays with its class. Returns whether it was given.
   *
   * @param to A class, or one of PAGE_OWNER.
   */
  endEmptying(page: number, to: number): boolean {
    const row = page * PAGE.WORDS;
    const classRow = this.#pages[row + PAGE.CLASS]! * CLASS.WORDS;
    assert(this.#pages[row + PAGE.LISTED] === BEING_EMPTIED, "a page is emptied from its begin on");
    this.#pages[row + PAGE.LISTED] = NOT_LISTED;
    const used = this.#pages[row + PAGE.USED]!;
    if (used > 0) {
      if (used < this.#classes[classRow + CLASS.CHUNKS_PER_PAGE]!) this.#list(page, classRow);
      return false;
    }
    if (to === PAGE_OWNER.NOBODY) {
      this.#releasePage(page, classRow);
    } else {
      this.#classes[classRow + CLASS.PAGES]! -= 1;
      this.#assignPage(page, to);
      if (to > 0) this.#addToClass(page, to);
    }
    return true;
  }

  /** Whether the pool has a page that the memory limit allows to use. */
  canTakePage(): boolean {
    const free = this.#control[CONTROL.FREE_PAGE_COUNT]!;
    return free > 0 &&
      this.#control[CONTROL.PAGE_COUNT]! - free < this.#control[CONTROL.MEMORY_LIMIT_PAGES]!;
  }

  /** Returns how many pages of the pool the memory limit allows to use. */
  get freePages(): number {
    const control = this.#control;
    const free = control[CONTROL.FREE_PAGE_COUNT]!;
    const used = control[CONTROL.PAGE_COUNT]! - free;
    return Math.max(0, Math.min(free, control[CONTROL.MEMORY_LIMIT_PAGES]! - used));
  }

  /**
   * Sets the memory limit in bytes, tables included.
   *
   * @returns False, and changes nothing, if the store was made for less memory.
   */
  setLimit(bytes: number): boolean {
    const control = this.#control;
    const pages = Math.max(PAGES_MIN, pagesWithin(this.#memory.options, bytes));
    if (pages > control[CONTROL.PAGE_COUNT]!) return false;
    control[CONTROL.MEMORY_LIMIT_PAGES] = pages;
    control[CONTROL.MEMORY_LIMIT_KIB] = Math.floor(bytes / 1024);
    return true;
  }

  /** Whether more pages are in use than the limit allows, because it was lowered. */
  isOverLimit(): boolean {
    return this.#control[CONTROL.PAGE_COUNT]! - this.#control[CONTROL.FREE_PAGE_COUNT]! >
      this.#control[CONTROL.MEMORY_LIMIT_PAGES]!;
  }

  /**
   * Takes a page out of the pool.
   *
   * @param owner A class, or one of PAGE_OWNER.
   * @returns The page, or NO_PAGE when none is left or the memory limit was lowered.
   */
  takePage(owner: number): number {
    if (!this.canTakePage()) return NO_PAGE;
    const control = this.#control;
    let page = control[CONTROL.FREE_PAGE]!;
    if (page !== NO_PAGE) {
      control[CONTROL.FREE_PAGE] = this.#pages[page * PAGE.WORDS + PAGE.NEXT]!;
    } else {
      page = control[CONTROL.PAGES_EVER_USED]!;
      control[CONTROL.PAGES_EVER_USED] = page + 1;
    }
    control[CONTROL.FREE_PAGE_COUNT]! -= 1;
    assert(this.pageClass(page) === PAGE_OWNER.NOBODY, "a page of the pool belongs to nobody");
    this.#assignPage(page, owner);
    return page;
  }

  #assignPage(page: number, owner: number): void {
    const row = page * PAGE.WORDS;
    this.#pages[row + PAGE.CLASS] = owner;
    this.#pages[row + PAGE.USED] = 0;
    this.#pages[row + PAGE.FREE_CHUNK] = NO_ITEM; // as PAGE.RUNS: none
    this.#pages[row + PAGE.CARVED] = 0;
    this.#pages[row + PAGE.SOONEST_SEC] = NEVER_SEC;
    this.#pages[row + PAGE.LISTED] = NOT_LISTED;
  }

  #releasePage(page: number, classRow: number): void {
    this.#classes[classRow + CLASS.PAGES]! -= 1;
    const row = page * PAGE.WORDS;
    assert(this.#classes[classRow + CLASS.PAGES]! >= 0, "a class counts its pages");
    assert(this.#pages[row + PAGE.USED] === 0, "a page goes back to the pool without chunks");
    assert(this.#pages[row + PAGE.LISTED] === NOT_LISTED, "a page of the pool has no room to list");
    this.#pages[row + PAGE.CLASS] = PAGE_OWNER.NOBODY;
    this.#pages[row + PAGE.NEXT] = this.#control[CONTROL.FREE_PAGE]!;
    this.#control[CONTROL.FREE_PAGE] = page;
    this.#control[CONTROL.FREE_PAGE_COUNT]! += 1;
    assert(
      this.#control[CONTROL.FREE_PAGE_COUNT]! <= this.#control[CONTROL.PAGE_COUNT]!,
      "a page goes back to the pool once",
    );
  }

  #list(page: number, classRow: number): void {
    const row = page * PAGE.WORDS;
    const next = this.#classes[classRow + CLASS.ROOM]!;
    this.#pages[row + PAGE.NEXT] = next;
    this.#pages[row + PAGE.PREVIOUS] = NO_PAGE;
    this.#pages[row + PAGE.LISTED] = LISTED;
    if (next !== NO_PAGE) this.#pages[next * PAGE.WORDS + PAGE.PREVIOUS] = page;
    this.#classes[classRow + CLASS.ROOM] = page;
  }

  #unlist(page: number, classRow: number): void {
    const row = page * PAGE.WORDS;
    const next = this.#pages[row + PAGE.NEXT]!;
    const previous = this.#pages[row + PAGE.PREVIOUS]!;
    if (next !== NO_PAGE) this.#pages[next * PAGE.WORDS + PAGE.PREVIOUS] = previous;
    if (previous !== NO_PAGE) this.#pages[previous * PAGE.WORDS + PAGE.NEXT] = next;
    else this.#classes[classRow + CLASS.ROOM] = next;
    this.#pages[row + PAGE.LISTED] = NOT_LISTED;
  }

  /** Counts a page that went from one class to another. */
  countMove(from: number, to: number): void {
    this.#memory.stats[STAT.pages_moved]! += 1;
    this.#memory.countClass(from, CLASS_STAT.pages_out);
    if (to > 0) this.#memory.countClass(to, CLASS_STAT.pages_in);
  }
}

/** A page in which nothing expires. */
export const NEVER_SEC = 0x7fffffff;

// Values of PAGE.LISTED.
/** The page has no room. */
export const NOT_LISTED = 0;
/** The page is in its class's list of pages with room. */
export const LISTED = 1;
/** The page is being emptied for another owner: nothing is allocated from it. */
export const BEING_EMPTIED = 2;

/** State of a chunk that is not free and not yet an item. */
export const CLAIMED = STATE.RESERVED;
