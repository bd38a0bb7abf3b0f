import { memcachedItemBytes } from "../items/item_links.ts";
import { chunkCount, runAt } from "../memory/chunk_runs.ts";
import {
  FREQUENCY_MASK,
  HEADER_BYTES,
  type ItemRef,
  KEY_LENGTH_MASK,
  NO_ITEM,
  optionalBytes,
  STATE,
  WORD,
} from "../memory/item.ts";
import { KEY_LENGTH_MAX } from "../limits.ts";
import { CLASS, CLASSES_MAX, NO_PAGE, PAGE, PAGE_OWNER, SUM } from "../memory/memory.ts";
import { BEING_EMPTIED, LISTED, NOT_LISTED } from "../memory/slabs.ts";
import type { LinksCheck } from "./links_check.ts";
import type { SnapshotHeader, SnapshotTables } from "./snapshot_header.ts";

/** Of a ghost page: see `space/ghost.ts`. */
const GHOST_SET_BYTES = 16;

/** STATE bits of items in a snapshot: see `prepareItems`. */
const SAVED_STATE = KEY_LENGTH_MASK | FREQUENCY_MASK | STATE.MAIN | STATE.LINKED |
  STATE.HAS_FLAGS | STATE.CHAINED | STATE.FETCHED | STATE.KEY_BINARY | STATE.STALE |
  STATE.LONG_VALUE | STATE.EXPLICIT_ID | STATE.REWRITTEN;

/** Returns a word of a chunk, which may lie in any page. */
export type WordOf = (chunk: ItemRef, word: number) => number;

/** Sums of a class's items: those of each queue, and their bytes. */
interface ClassTotals {
  small: number;
  main: number;
  bytes: number;
}

/**
 * Checks the tables of a snapshot against each other, and against the pages: `fault` before any page is read,
 * `pageFault` with every page of a class, `totalsFault` at the end. Looks at each chunk once, in order, as saving does,
 * and at the chains of items. `LinksCheck` looks at queues and buckets.
 *
 * Faults are texts for people; null: none.
 */
export class TablesCheck {
  readonly #header: SnapshotHeader;
  readonly #tables: SnapshotTables;
  readonly #pageBytes: number;
  readonly #refShift: number;
  readonly #classCount: number;
  readonly #isMemcached: boolean;
  readonly #totals: ClassTotals[];
  /** Runs of chunks in the pages that are no items, minus those in the chains of items. */
  #unchained = 0;

  /** @param header One without `headerFault`. */
  constructor(header: SnapshotHeader, tables: SnapshotTables) {
    const { layout } = header;
    this.#header = header;
    this.#tables = tables;
    this.#pageBytes = 1 << layout.pageShift;
    this.#refShift = layout.pageShift - 3;
    this.#classCount = layout.chunkBytes.length;
    this.#isMemcached = layout.slabLayout === "memcached";
    this.#totals = Array.from(
      { length: this.#classCount + 1 },
      () => ({ small: 0, main: 0, bytes: 0 }),
    );
  }

  // --- the tables alone --------------------------------------------------------------------------

  fault(): string | null {
    return this.#sumsFault() ?? this.#pagesFault() ?? this.#classesFault() ?? this.#indexFault() ??
      this.#poolFault();
  }

  /** How many pages an owner has. */
  #pagesOf(owner: number): number {
    const { pages } = this.#tables;
    let count = 0;
    for (let row = 0; row < pages.length; row += PAGE.WORDS) {
      if (pages[row + PAGE.CLASS] === owner) count++;
    }
    return count;
  }

  get #pageCount(): number {
    return this.#header.control.PAGES_EVER_USED;
  }

  #sumsFault(): string | null {
    const { sums } = this.#tables;
    let all = 0;
    for (const [index, sum] of sums.entries()) {
      const classId = index - SUM.REQUESTED_BYTES;
      const isClass = classId >= 1 && classId <= this.#classCount;
      if (!(Number.isSafeInteger(sum) && sum >= 0)) return `its sum ${index} of bytes is ${sum}`;
      if (index !== SUM.ITEM_BYTES && !isClass && sum !== 0) return "a sum of no class has bytes";
      if (isClass) all += sum;
    }
    return all === sums[SUM.ITEM_BYTES] ? null : "its sums of bytes disagree";
  }

  #pagesFault(): string | null {
    const { pages } = this.#tables;
    const { control, pagesInUse } = this.#header;
    for (let page = 0; page < this.#pageCount; page++) {
      const row = page * PAGE.WORDS;
      const classId = pages[row + PAGE.CLASS]!;
      if (classId < PAGE_OWNER.GHOST || classId > this.#classCount) {
        return `page ${page} has the class ${classId}`;
      }
      if (classId <= 0) continue;
      const chunks = this.#chunksPerPage(classId);
      const carved = pages[row + PAGE.CARVED]!;
      const used = pages[row + PAGE.USED]!;
      if (!(used >= 0 && used <= carved && carved <= chunks)) {
        return `page ${page} of ${chunks} chunks has ${carved}, and uses ${used}`;
      }
      const isEmptied = page === control.MOVE_PAGE;
      const listed = isEmptied ? BEING_EMPTIED : used === chunks ? NOT_LISTED : LISTED;
      if (pages[row + PAGE.LISTED] !== listed) return `page ${page} is in a wrong list`;
      const fault = classId === this.#classCount ? this.#runsFault(page, chunks) : null;
      if (fault !== null) return fault;
    }
    const { MOVE_PAGE } = control;
    if (MOVE_PAGE !== NO_PAGE && !(pages[MOVE_PAGE * PAGE.WORDS + PAGE.CLASS]! > 0)) {
      return `page ${MOVE_PAGE}, which is emptied, has no class`;
    }
    const used = this.#pageCount - this.#pagesOf(PAGE_OWNER.NOBODY);
    return used === pagesInUse ? null : `it has ${used} pages in use instead of ${pagesInUse}`;
  }

  /** The chunks of a page of chains: each run begins where it says, and ends before the carved ones do. */
  #runsFault(page: number, chunks: number): string | null {
    const row = page * PAGE.WORDS;
    const runs = this.#tables.pages[row + PAGE.RUNS]!;
    let counted = 0;
    let rebuilt = 0;
    let end = 0;
    for (let index = 0; index < chunks; index++) {
      const run = runAt(runs, index);
      if (run === 0) continue;
      rebuilt |= run;
      counted += chunkCount(run);
      end = index + chunkCount(run);
    }
    const isRight = rebuilt === runs && counted === this.#tables.pages[row + PAGE.USED] &&
      end <= this.#tables.pages[row + PAGE.CARVED]!;
    return isRight ? null : `page ${page} has wrong runs of chunks`;
  }

  #chunksPerPage(classId: number): number {
    return Math.floor(this.#pageBytes / this.#header.layout.chunkBytes[classId - 1]!);
  }

  #classesFault(): string | null {
    const { classes, pages } = this.#tables;
    let items = 0;
    for (let classId = 0; classId < CLASSES_MAX; classId++) {
      const words = classes.subarray(classId * CLASS.WORDS, (classId + 1) * CLASS.WORDS);
      if (classId === 0 || classId > this.#classCount) {
        if (words.some((word) => word !== 0)) return `class ${classId}, which is none, has words`;
        continue;
      }
      let used = 0;
      for (let row = 0; row < pages.length; row += PAGE.WORDS) {
        if (pages[row + PAGE.CLASS] === classId) used += pages[row + PAGE.USED]!;
      }
      const isRight = words[CLASS.CHUNK_BYTES] === this.#header.layout.chunkBytes[classId - 1] &&
        words[CLASS.CHUNKS_PER_PAGE] === this.#chunksPerPage(classId) &&
        words[CLASS.PAGES] === this.#pagesOf(classId) && words[CLASS.USED] === used &&
        words[CLASS.EVICTIONS]! >= 0 && words[CLASS.EVICTED_AGE_SEC]! >= 0;
      if (!isRight) return `class ${classId} has wrong numbers`;
      const fault = this.#roomFault(classId, words[CLASS.ROOM]!) ??
        this.#queueFault(classId, words, CLASS.SMALL_NEWEST) ??
        this.#queueFault(classId, words, CLASS.MAIN_NEWEST);
      if (fault !== null) return fault;
      items += words[CLASS.SMALL_COUNT]! + words[CLASS.MAIN_COUNT]!;
    }
    const { ITEM_COUNT } = this.#header.control;
    return items === ITEM_COUNT ? null : `its queues have ${items} items instead of ${ITEM_COUNT}`;
  }

  /** The list of a class's pages with room: all of them, once. */
  #roomFault(classId: number, first: number): string | null {
    const { pages } = this.#tables;
    let listed = 0;
    for (let row = 0; row < pages.length; row += PAGE.WORDS) {
      if (pages[row + PAGE.CLASS] === classId && pages[row + PAGE.LISTED] === LISTED) listed++;
    }
    let previous = NO_PAGE;
    for (let page = first; page !== NO_PAGE;) {
      const row = page * PAGE.WORDS;
      const isRight = page >= 0 && page < this.#pageCount && listed-- > 0 &&
        pages[row + PAGE.CLASS] === classId && pages[row + PAGE.LISTED] === LISTED &&
        pages[row + PAGE.PREVIOUS] === previous;
      if (!isRight) return `class ${classId} has a wrong list of pages`;
      previous = page;
      page = pages[row + PAGE.NEXT]!;
    }
    return listed === 0 ? null : `class ${classId} does not list all of its pages`;
  }

  /** @param at The word with the newest item; the oldest one and the count follow. */
  #queueFault(classId: number, words: Int32Array, at: number): string | null {
    const [newest, oldest, count] = [words[at]!, words[at + 1]!, words[at + 2]!];
    const isRight = count === 0
      ? newest === NO_ITEM && oldest === NO_ITEM
      : count > 0 && this.#isChunk(newest, classId) && this.#isChunk(oldest, classId) &&
        (newest === oldest) === (count === 1);
    return isRight ? null : `class ${classId} has a queue with wrong ends`;
  }

  /** Whether a reference is one of a run of chunks in the class of chains: its words can be read. */
  #isRun(ref: ItemRef): boolean {
    if (!this.#isChunk(ref, this.#classCount)) return false;
    const page = ref >>> this.#refShift;
    const bytes = (ref - ((page << this.#refShift) | 0)) * 8;
    const index = bytes / this.#header.layout.chunkBytes.at(-1)!;
    return runAt(this.#tables.pages[page * PAGE.WORDS + PAGE.RUNS]!, index) !== 0;
  }

  /** Whether a reference is one of a carved chunk of the class. */
  #isChunk(ref: number, classId: number): boolean {
    const page = ref >>> this.#refShift;
    const row = page * PAGE.WORDS;
    if (page >= this.#pageCount || this.#tables.pages[row + PAGE.CLASS] !== classId) return false;
    const bytes = (ref - ((page << this.#refShift) | 0)) * 8;
    const index = bytes / this.#header.layout.chunkBytes[classId - 1]!;
    return Number.isInteger(index) && index < this.#tables.pages[row + PAGE.CARVED]!;
  }

  /** The directory of the hash index: each of its pages once. */
  #indexFault(): string | null {
    const { directory, pages } = this.#tables;
    if (this.#pagesOf(PAGE_OWNER.HASH) !== directory.length) {
      return "its hash index has a wrong number of pages";
    }
    const isRight = [...directory].every((ref) => {
      const page = ref >>> this.#refShift;
      return page < this.#pageCount && ((page << this.#refShift) | 0) === ref &&
        pages[page * PAGE.WORDS + PAGE.CLASS] === PAGE_OWNER.HASH;
    });
    return isRight && new Set(directory).size === directory.length
      ? null
      : "the directory of its hash index is wrong";
  }

  /** The list of free pages, and the ghost pages, which lie one behind the other. */
  #poolFault(): string | null {
    const { pages } = this.#tables;
    const { FREE_PAGE, GHOST_FIRST_PAGE, GHOST_SETS } = this.#header.control;
    let free = this.#pagesOf(PAGE_OWNER.NOBODY);
    for (let page = FREE_PAGE; page !== NO_PAGE;) {
      const row = page * PAGE.WORDS;
      const isRight = page >= 0 && page < this.#pageCount && free-- > 0 &&
        pages[row + PAGE.CLASS] === PAGE_OWNER.NOBODY;
      if (!isRight) return "its list of free pages is wrong";
      page = pages[row + PAGE.NEXT]!;
    }
    if (free !== 0) return "its list of free pages is wrong";
    const ghosts = GHOST_SETS * GHOST_SET_BYTES / this.#pageBytes;
    let found = 0;
    while (
      found < ghosts && pages[(GHOST_FIRST_PAGE + found) * PAGE.WORDS + PAGE.CLASS] ===
        PAGE_OWNER.GHOST
    ) found++;
    return found === ghosts && this.#pagesOf(PAGE_OWNER.GHOST) === ghosts
      ? null
      : "its ghost pages are wrong";
  }

  // --- the pages ---------------------------------------------------------------------------------

  /**
   * Compares a page of a class with its row, and adds its items up. Each page once.
   *
   * @param words Has the page from word `at` on.
   * @param links Checks the links of the items; null: they are to be stored anew.
   */
  pageFault(
    page: number,
    words: Int32Array,
    at: number,
    wordOf: WordOf,
    links: LinksCheck | null,
  ): string | null {
    const { pages } = this.#tables;
    const row = page * PAGE.WORDS;
    const classId = pages[row + PAGE.CLASS]!;
    const isLarge = classId === this.#classCount;
    const carved = pages[row + PAGE.CARVED]!;
    const soonestSec = pages[row + PAGE.SOONEST_SEC]!;
    const { SWEEP_PAGE, SWEEP_CHUNK } = this.#header.control;
    // In the middle of its sweep a page does not know its soonest deadline.
    const isSwept = page === SWEEP_PAGE && SWEEP_CHUNK > 0;
    const step = this.#header.layout.chunkBytes[classId - 1]! >>> 2;
    const totals = this.#totals[classId]!;
    const firstRef = (page << this.#refShift) | 0;
    let items = 0;
    for (let index = 0; index < carved; index++) {
      const word = at + index * step;
      const state = words[word + WORD.STATE]!;
      if (isLarge) {
        const run = runAt(pages[row + PAGE.RUNS]!, index);
        if (run === 0) continue;
        if (chunkCount(run) !== this.#runLength(words, word, state)) {
          return `page ${page} has wrong runs of chunks`;
        }
      }
      if (isLarge && state === STATE.CONTINUATION) {
        this.#unchained++;
        continue;
      }
      // The list of freed chunks shows whether they have no state.
      if (!isLarge && (state & STATE.LINKED) === 0) continue;
      if (this.#isNoItem(words, word, state, classId)) {
        return `page ${page} has no item at chunk ${index}`;
      }
      items++;
      const deadlineSec = words[word + WORD.DEADLINE_SEC]!;
      if (!isSwept && deadlineSec > 0 && deadlineSec < soonestSec) {
        return `page ${page} does not know its soonest deadline`;
      }
      totals.bytes += this.#bytesOf(words, word, state);
      if ((state & STATE.MAIN) !== 0) totals.main++;
      else totals.small++;
      const item = firstRef + ((word - at) >>> 1);
      links?.addItem(item, classId, words, word);
      const fault = this.#chainFault(item, words, word, state, wordOf);
      if (fault !== null) return fault;
    }
    if (isLarge) return null;
    return items === pages[row + PAGE.USED]
      ? this.#freeFault(page, words, at)
      : `page ${page} does not count its items`;
  }

  /** How many chunks a run has: those that its part of a value needs, or one for an item. */
  #runLength(words: Int32Array, word: number, state: number): number {
    if (state !== STATE.CONTINUATION) return 1;
    const chunkBytes = this.#header.layout.chunkBytes.at(-1)!;
    return Math.ceil((HEADER_BYTES + words[word + WORD.PIECE_LENGTH]!) / chunkBytes);
  }

  /** Whether a chunk is no item of its class: by its state, its key, its deadline, or the size of its value. */
  #isNoItem(words: Int32Array, word: number, state: number, classId: number): boolean {
    const keyLength = state & KEY_LENGTH_MASK;
    const length = valueLength(words, word, state);
    if ((state & ~SAVED_STATE) !== 0 || (state & STATE.LINKED) === 0) return true;
    if (keyLength === 0 || keyLength > KEY_LENGTH_MAX || length < 0) return true;
    if (words[word + WORD.DEADLINE_SEC]! < 0) return true;
    const { chunkBytes } = this.#header.layout;
    const sizeMax = chunkBytes[classId - 1]!;
    const keyEnd = HEADER_BYTES + optionalBytes(state) + keyLength;
    if ((state & STATE.CHAINED) !== 0) {
      const isPinned = words[word + chainWord(state) + 1] !== 0;
      return isPinned || keyEnd + Math.min(length, chunkBytes.at(-1)! - keyEnd) > sizeMax;
    }
    const bytes = this.#bytesOf(words, word, state);
    return keyEnd + length > sizeMax || bytes > sizeMax ||
      (classId > 1 && bytes <= chunkBytes[classId - 2]!);
  }

  /** A run knows its item and the run before it, so no two chains share one, and none is a ring. */
  #chainFault(
    item: ItemRef,
    words: Int32Array,
    at: number,
    state: number,
    wordOf: WordOf,
  ): string | null {
    if ((state & STATE.CHAINED) === 0) return null;
    const keyEnd = HEADER_BYTES + optionalBytes(state) + (state & KEY_LENGTH_MASK);
    const headBytes = this.#header.layout.chunkBytes.at(-1)! - keyEnd;
    let missing = Math.max(0, valueLength(words, at, state) - headBytes);
    let previous: ItemRef = NO_ITEM;
    for (let run = words[at + chainWord(state)]!; run !== NO_ITEM; run = wordOf(run, WORD.OLDER)) {
      const isRight = this.#isRun(run) && wordOf(run, WORD.STATE) === STATE.CONTINUATION &&
        wordOf(run, WORD.NEWER) === item && wordOf(run, WORD.CHAIN_PREVIOUS) === previous;
      const length = isRight ? wordOf(run, WORD.PIECE_LENGTH) : 0;
      if (length <= 0 || length > missing) return "an item has a wrong chain";
      missing -= length;
      this.#unchained--;
      previous = run;
    }
    return missing === 0 ? null : "an item has a chain that is too short";
  }

  #bytesOf(words: Int32Array, word: number, state: number): number {
    const keyLength = state & KEY_LENGTH_MASK;
    const length = valueLength(words, word, state);
    return this.#isMemcached
      ? memcachedItemBytes(
        keyLength,
        length,
        (state & STATE.HAS_FLAGS) !== 0,
        this.#header.layout.casEnabled,
      )
      : HEADER_BYTES + optionalBytes(state) + keyLength + length;
  }

  /** The list of a page's freed chunks: all of them, once. */
  #freeFault(page: number, words: Int32Array, at: number): string | null {
    const row = page * PAGE.WORDS;
    const { pages } = this.#tables;
    const classId = pages[row + PAGE.CLASS]!;
    const first = (page << this.#refShift) | 0;
    let free = pages[row + PAGE.CARVED]! - pages[row + PAGE.USED]!;
    for (let chunk = pages[row + PAGE.FREE_CHUNK]!; chunk !== NO_ITEM;) {
      if (chunk >>> this.#refShift !== page || !this.#isChunk(chunk, classId) || free-- <= 0) {
        return `page ${page} has a wrong list of free chunks`;
      }
      const word = at + (chunk - first) * 2;
      if (words[word + WORD.STATE] !== 0) return `page ${page} lists a chunk in use as free`;
      chunk = words[word + WORD.HASH_NEXT]!;
    }
    return free === 0 ? null : `page ${page} does not list its free chunks`;
  }

  /** Compares the items of all pages with the rows of the classes. */
  totalsFault(): string | null {
    if (this.#unchained !== 0) return "it has chunks that are in no chain";
    const { classes, sums } = this.#tables;
    for (let classId = 1; classId <= this.#classCount; classId++) {
      const row = classId * CLASS.WORDS;
      const { small, main, bytes } = this.#totals[classId]!;
      const isRight = classes[row + CLASS.SMALL_COUNT] === small &&
        classes[row + CLASS.MAIN_COUNT] === main &&
        sums[SUM.REQUESTED_BYTES + classId] === bytes;
      if (!isRight) return `class ${classId} does not count its items`;
    }
    return null;
  }
}

/** The length of an item's value, in bytes. */
function valueLength(words: Int32Array, word: number, state: number): number {
  if ((state & STATE.LONG_VALUE) === 0) return words[word + WORD.ID_MIDDLE_AND_LENGTH]! & 0xffff;
  // The last of the words that an item may have.
  return words[word + ((HEADER_BYTES + optionalBytes(state)) >>> 2) - 1]!;
}

/** The word of a chained item with the first chunk of its chain; the next word counts the pins. */
function chainWord(state: number): number {
  const later = state & (STATE.HAS_FLAGS | STATE.EXPLICIT_ID);
  return (HEADER_BYTES + optionalBytes(later)) >>> 2;
}
