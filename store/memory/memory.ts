import { assert } from "../base/assert.ts";
import { ByteRegion } from "../base/bytes.ts";
import { CounterRows } from "../base/counter_rows.ts";
import { HotKeys } from "./hot_keys.ts";
import { ConnectionTable } from "../connections.ts";
import { FIRST_SECOND, MEMORY_LIMIT_MIB_MAX, MIB, type StoreOptions } from "../limits.ts";
import { arrivingBytesNeeded } from "./arriving_layout.ts";
import { lockBytesNeeded } from "./lock_layout.ts";
import { CLASS_STATS, STORE_STATS, THREAD_STATS } from "../stats.ts";
import { highHalf, lowHalf } from "../base/u64.ts";
import { SlotTable, slotTableBytes } from "./slot_table.ts";
import { requestBytesNeeded } from "./request_layout.ts";
import { tokenQueueBytes } from "./token_layout.ts";
import { versionBytesNeeded, Versions } from "./versions.ts";
import { lockQueues, waiterBytesNeeded } from "./waiter_layout.ts";
import { Wakes } from "./wakes.ts";
import { WATCH_RING_BYTES, watchBytesNeeded } from "./watch_layout.ts";

/**
 * The store's memory: `-m` bytes, all of it laid out here.
 *
 *   control   one SharedArrayBuffer: the words below, sums of bytes, class rows, the directory of the
 *             hash index, and a row for every page
 *   threads   one SharedArrayBuffer: statistics, a row for each thread. It is not part of `-m`.
 *   leases    one SharedArrayBuffer, see leases.ts
 *   tokens    one SharedArrayBuffer, see update_tokens.ts, and one for the queue of their journal
 *   segments  SharedArrayBuffers of at most 1 GiB, divided into pages. More than 2^31 bytes in one array would make
 *             V8 leave 32-bit arithmetic (measured: 5.5 times slower).
 *
 * A page belongs to a slab class, to the hash index, to the ghost table, or to no one (the pool of free pages).
 */

/** Words that every read needs and that change seldom: they share no processor's cache line with the others. */
const READ_WORDS = [
  "NOW_SEC", // the store's clock, see clock.ts
  "FLUSH_LOW", // items with an id below this are dead
  "FLUSH_HIGH",
  "FLUSH_AT_SEC", // when the next flush falls due; 0: none
  "ID_HIGH", // of the last id handed out
  "HASH_BUCKETS", // buckets in use
  "HASH_LEVEL", // the power of two at or below HASH_BUCKETS
  "WATCHED", // WatchEvent bits of all watchers
] as const;

/** The other words. */
const WORDS = [
  "MUTEX",
  "ID_LOW", // of the last id handed out
  "NOW_MS",
  "NOW_MILLI", // 0..999, within NOW_SEC
  "STARTED_UNIX_SEC",
  "RESUMED_SEC", // what the clock had counted when the process started; not 0 after a restart with a snapshot
  "OLDEST_LIVE_SEC", // when the last flush happened, for `stats settings`
  "PAGE_COUNT",
  "PAGES_EVER_USED", // pages ever allocated; pages well beyond have never been touched, see prefault.ts
  "FREE_PAGE", // head of the list of pages given back, or NO_PAGE
  "FREE_PAGE_COUNT", // pages in the pool: given back or never used
  "MEMORY_LIMIT_PAGES", // `cache_memlimit`: how many pages may be in use
  "MEMORY_LIMIT_KIB", // as it was given
  "HASH_PAGES",
  "GHOST_SETS",
  "GHOST_FIRST_PAGE",
  "ITEM_COUNT", // items in the index
  "RANDOM", // state of the generator that picks pages
  "MOVE_PAGE", // the page that is being emptied, or NO_PAGE; see page_evacuator.ts
  "MOVE_TO", // the class that gets it, or one of PAGE_OWNER
  "MOVE_CHUNK", // the next chunk to be emptied
  "SWEEP_PAGE", // the next page of the sweep for dead items, see expiry.ts
  "SWEEP_CHUNK",
  "SWEEP_SOONEST_SEC",
  "SWEEP_BUDGET_SEC", // the second in which the sweep did SWEEP_UNITS
  "SWEEP_UNITS",
  "RESERVED_ITEMS", // reserved for values still arriving, see arriving_values.ts
  "LEASE_CURR", // leases held, see leases.ts
  "LEASE_SWEEP", // the next lease of the sweep for ended ones
  "UNCACHEABLE", // how many update tokens are out, and bits for quarantine; see update_tokens.ts
  "QUARANTINE_END_SEC", // when quarantine ends by itself; 0: never
  "CLOCK_SHIFT_SEC", // how far the clock was moved by hand, see clock.ts
  "CLOCK_STOPPED", // 1: the clock stands still
  "DISTURBED", // counts evictions, moves and sweeps: item references read before may be invalid
] as const;

/** At least the READ_WORDS, and a processor's cache line of 16 words unused: a buffer may begin within a line. */
const WORDS_START = 32;
const CONTROL_WORDS = WORDS_START + WORDS.length;

/** Words of `memory.control`, by name. */
export const CONTROL = Object.fromEntries([
  ...READ_WORDS.map((name, index) => [name, index]),
  ...WORDS.map((name, index) => [name, WORDS_START + index]),
]) as {
  readonly [Name in typeof READ_WORDS[number] | typeof WORDS[number]]: number;
};

/** Stands for no page. */
export const NO_PAGE = -1;

/** Words of a page's row. */
export const PAGE = {
  CLASS: 0, // slab class, or one of PAGE_OWNER
  USED: 1, // chunks in use
  FREE_CHUNK: 2, // head of the list of freed chunks (item references), or 0
  RUNS: 2, // instead, in pages of the class of chains: see chunk_runs.ts
  CARVED: 3, // chunks ever handed out; those behind were never used
  NEXT: 4, // of the class's pages with room, or of the free pages
  PREVIOUS: 5,
  SOONEST_SEC: 6, // no item here dies before this instant
  LISTED: 7, // NOT_LISTED, LISTED or BEING_EMPTIED: see slabs.ts
  WORDS: 8,
} as const;

/** Owners of pages beside the slab classes, which are numbered from 1. */
export const PAGE_OWNER = { NOBODY: 0, HASH: -1, GHOST: -2 } as const;

/** Words of a class's row. */
export const CLASS = {
  CHUNK_BYTES: 0,
  CHUNKS_PER_PAGE: 1,
  PAGES: 2,
  USED: 3, // chunks in use
  ROOM: 4, // head of the list of pages with room, or NO_PAGE
  SMALL_NEWEST: 5, // the small queue, see eviction.ts
  SMALL_OLDEST: 6,
  SMALL_COUNT: 7,
  MAIN_NEWEST: 8,
  MAIN_OLDEST: 9,
  MAIN_COUNT: 10,
  EVICTIONS: 11, // since a page last came in
  EVICTED_AGE_SEC: 12, // how long the last evicted item had not been read
  WORDS: 13,
} as const;

/** One more than the largest class number. memcached has as many, and its tools know that. */
export const CLASSES_MAX = 64;

/** Doubles of `memory.sums`: bytes that decisions depend on, changed and read under the mutex. */
export const SUM = {
  ITEM_BYTES: 0, // the sizes of all linked items
  RESERVED_BYTES: 1, // memory of items that are reserved for values still arriving
  REQUESTED_BYTES: 2, // of each class from here on: the sizes of its linked items
} as const;
const SUMS = SUM.REQUESTED_BYTES + CLASSES_MAX;

/** Counters of a thread's row: THREAD_STATS, then STORE_STATS, then CLASS_STATS of each class. */
const STORE_COUNTERS = THREAD_STATS.length;
const CLASS_COUNTERS = STORE_COUNTERS + STORE_STATS.length;
const CLASS_STRIDE = CLASS_STATS.length;
const COUNTERS = CLASS_COUNTERS + CLASSES_MAX * CLASS_STRIDE;

/** The fewest pages that make a working store. */
export const PAGES_MIN = 4;
/** Segments hold 2^30 bytes. An item reference counts 8 bytes, so 27 bits of it are inside a segment. */
const SEGMENT_BYTES = 1024 * MIB;
/** Shift from an item reference to the number of its segment. */
export const SEGMENT_SHIFT = 27;
/** Segment numbers that 32 bits can have. */
const SEGMENT_NUMBERS = 2 ** (32 - SEGMENT_SHIFT);
/** Bits of an item reference that give the place within its segment. */
export const SEGMENT_MASK = (1 << SEGMENT_SHIFT) - 1;

const PAGE_SHIFT = { leased: 16, memcached: 20 } as const;

/** Returns the size of a page, as a power of two. */
export function pageShiftOf(slabLayout: StoreOptions["slabLayout"]): number {
  return PAGE_SHIFT[slabLayout];
}

/** The shared buffers of a store: plain data, so that it can be posted to workers. */
export interface SharedMemory {
  readonly options: StoreOptions;
  readonly control: SharedArrayBuffer;
  readonly segments: readonly SharedArrayBuffer[];
  readonly connections: SharedArrayBuffer;
  readonly locks: SharedArrayBuffer;
  readonly lockWaiters: SharedArrayBuffer;
  readonly tokenWaiters: SharedArrayBuffer;
  /** The list of values that arrive, see arriving_layout.ts. */
  readonly arriving: SharedArrayBuffer;
  /** A SlotTable. */
  readonly leases: SharedArrayBuffer;
  /** A SlotTable of update tokens. */
  readonly tokens: SharedArrayBuffer;
  /** Records for their journal, see token_queue.ts. */
  readonly tokenQueue: SharedArrayBuffer;
  /** Requests for rows, see rows/row_requests.ts. */
  readonly rowRequests: SharedArrayBuffer;
  readonly watch: SharedArrayBuffer;
  /** Of Versions. */
  readonly versions: SharedArrayBuffer;
  /** CounterRows of `threadRowCount` threads. */
  readonly threads: SharedArrayBuffer;
  /** Of HotKeys. */
  readonly hotKeys: SharedArrayBuffer;
}

/**
 * Returns the number of rows of statistics: one for each worker (`-t`), then one for the
 * writer of the journal if there is one, one for the database thread if there is one, and one for maintenance.
 */
export function threadRowCount(options: StoreOptions): number {
  return databaseRow(options) + (options.rows === undefined ? 1 : 2);
}

/** The row of the thread that writes the journal of update tokens, if there is one. */
export function journalRow(options: StoreOptions): number {
  return options.threads;
}

/** The row of the database thread, if there is one. */
export function databaseRow(options: StoreOptions): number {
  return options.threads + (options.tokenPersistence === "journal" ? 1 : 0);
}

interface ControlLayout {
  sums: number;
  classes: number;
  directory: number;
  pages: number;
  bytes: number;
}

/** Returns where the parts of the control buffer start, in bytes. */
function layoutControl(pageCount: number): ControlLayout {
  const sums = Math.ceil(CONTROL_WORDS / 2) * 8;
  const classes = sums + SUMS * 8;
  const directory = classes + CLASSES_MAX * CLASS.WORDS * 4;
  const pages = directory + pageCount * 4;
  return {
    sums,
    classes,
    directory,
    pages,
    bytes: pages + pageCount * PAGE.WORDS * 4,
  };
}

/**
 * Makes the memory of a store. Accesses no page, so the system provides memory only as pages are used.
 *
 * @throws RangeError when the limit is outside 1 MiB..15 GiB, or too small for the layout's pages.
 */
export function createSharedMemory(options: StoreOptions): SharedMemory {
  const limitPages = limitPagesOf(options);
  const { pageCount, segments } = makePages(options, limitPages);
  return {
    options,
    control: createControl(options, pageCount, limitPages),
    segments,
    connections: new SharedArrayBuffer(ConnectionTable.bytesNeeded(options.connectionsMax)),
    locks: new SharedArrayBuffer(lockBytesNeeded(options)),
    lockWaiters: new SharedArrayBuffer(waiterBytesNeeded(options, lockQueues(options))),
    tokenWaiters: new SharedArrayBuffer(waiterBytesNeeded(options, 1)),
    arriving: new SharedArrayBuffer(arrivingBytesNeeded(options)),
    leases: SlotTable.create(options.leaseEntries),
    tokens: SlotTable.create(options.tokenEntries),
    tokenQueue: new SharedArrayBuffer(tokenQueueBytes(options.tokenPersistence === "journal")),
    rowRequests: new SharedArrayBuffer(requestBytesNeeded(options)),
    watch: new SharedArrayBuffer(watchBytesNeeded(options.watchRingBytes ?? WATCH_RING_BYTES)),
    versions: new SharedArrayBuffer(versionBytesNeeded(options.optimisticReads ?? false)),
    threads: CounterRows.createShared(threadRowCount(options), COUNTERS),
    hotKeys: HotKeys.createShared(threadRowCount(options)),
  };
}

/** The memory limit in pages. With pages of 1 MiB a store takes more than a small limit, as memcached does. */
function limitPagesOf(options: StoreOptions): number {
  const { memoryLimitBytes } = options;
  const bytesMax = MEMORY_LIMIT_MIB_MAX * MIB;
  if (!(memoryLimitBytes >= MIB && memoryLimitBytes <= bytesMax)) {
    throw new RangeError(
      `Cannot make a store of ${memoryLimitBytes} bytes: must be ${MIB}..${bytesMax}`,
    );
  }
  return Math.max(PAGES_MIN, pagesWithin(options, memoryLimitBytes));
}

/** Makes the control buffer, with the words that do not start as 0. */
function createControl(
  options: StoreOptions,
  pageCount: number,
  limitPages: number,
): SharedArrayBuffer {
  const control = new SharedArrayBuffer(layoutControl(pageCount).bytes);
  const words = new Int32Array(control);
  words[CONTROL.PAGE_COUNT] = pageCount;
  words[CONTROL.MEMORY_LIMIT_PAGES] = limitPages;
  words[CONTROL.MEMORY_LIMIT_KIB] = Math.floor(options.memoryLimitBytes / 1024);
  words[CONTROL.FREE_PAGE] = NO_PAGE;
  words[CONTROL.MOVE_PAGE] = NO_PAGE;
  words[CONTROL.FREE_PAGE_COUNT] = pageCount;
  words[CONTROL.STARTED_UNIX_SEC] = options.startedUnixSec - FIRST_SECOND;
  words[CONTROL.NOW_SEC] = FIRST_SECOND;
  words[CONTROL.ID_LOW] = lowHalf(options.firstId - 1);
  words[CONTROL.ID_HIGH] = highHalf(options.firstId - 1);
  words[CONTROL.RANDOM] = options.hashSeed[0]! | 1;
  return control;
}

/** Returns how many pages fit a memory limit beside the tables. */
export function pagesWithin(options: StoreOptions, limitBytes: number): number {
  const pageBytes = 1 << PAGE_SHIFT[options.slabLayout];
  // First guess the pages, then give up as many as the tables need.
  const guess = Math.floor(limitBytes / pageBytes);
  const tableBytes = layoutControl(guess).bytes + slotTableBytes(options.leaseEntries) +
    slotTableBytes(options.tokenEntries) +
    tokenQueueBytes(options.tokenPersistence === "journal");
  return Math.floor((limitBytes - tableBytes) / pageBytes);
}

/** Reserves address space for pages up to the ceiling, or up to the limit if the system refuses that much. */
function makePages(
  options: StoreOptions,
  limitPages: number,
): { pageCount: number; segments: SharedArrayBuffer[] } {
  const ceilingPages = pagesWithin(options, options.memoryCeilingBytes ?? 0);
  if (ceilingPages > limitPages) {
    try {
      return { pageCount: ceilingPages, segments: makeSegments(options, ceilingPages) };
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }
  return { pageCount: limitPages, segments: makeSegments(options, limitPages) };
}

function makeSegments(options: StoreOptions, pageCount: number): SharedArrayBuffer[] {
  const pageBytes = 1 << PAGE_SHIFT[options.slabLayout];
  const segments: SharedArrayBuffer[] = [];
  for (let left = pageCount * pageBytes; left > 0; left -= SEGMENT_BYTES) {
    segments.push(new SharedArrayBuffer(Math.min(left, SEGMENT_BYTES)));
  }
  return segments;
}

/** One thread's views of the shared memory. */
export class Memory {
  readonly shared: SharedMemory;
  readonly options: StoreOptions;
  /** CONTROL words. */
  readonly control: Int32Array;
  /** SUM doubles. */
  readonly sums: Float64Array;
  /** Counters of all threads. This thread's row is `threadStats`, `stats` and `#classStats`. */
  readonly #counters: CounterRows;
  /** THREAD_STAT counters of this thread. */
  readonly threadStats: Float64Array;
  /** STAT counters of this thread, which may add to them without the mutex. */
  readonly stats: Float64Array;
  /** CLASS_STAT counters of this thread, of each class. */
  readonly #classStats: Float64Array;
  /** CLASS words of each class. */
  readonly classes: Int32Array;
  /** References of the starts of the hash index's pages, in order. */
  readonly directory: Int32Array;
  /** PAGE words of each page. */
  readonly pages: Int32Array;
  /** The segments as bytes. */
  readonly segments: ByteRegion[];
  /** The segments as 32-bit words. */
  readonly words: Int32Array[];
  /** As `words`, with an empty array for every other segment number: for references that may be anything. */
  readonly wordsOfAnyRef: Int32Array[];
  /** Threads to wake when this one releases the mutex. */
  readonly wakes: Wakes;
  /** The keys of the most requests. */
  readonly hotKeys: HotKeys;
  /** Versions of groups of buckets. */
  readonly versions: Versions;
  readonly pageShift: number;
  readonly pageBytes: number;
  /** From an item reference to its page. */
  readonly refPageShift: number;

  /** @param threadIndex The thread whose view it is; maintenance if left out. */
  constructor(shared: SharedMemory, threadIndex = threadRowCount(shared.options) - 1) {
    this.shared = shared;
    this.options = shared.options;
    this.wakes = new Wakes(shared.options.threads);
    const { control } = shared;
    this.control = new Int32Array(control, 0, CONTROL_WORDS);
    const pageCount = this.control[CONTROL.PAGE_COUNT]!;
    const layout = layoutControl(pageCount);
    assert(layout.bytes === control.byteLength, "the control buffer has another layout");
    this.sums = new Float64Array(control, layout.sums, SUMS);
    this.#counters = new CounterRows(shared.threads, COUNTERS, threadIndex);
    const { own } = this.#counters;
    this.threadStats = own.subarray(0, STORE_COUNTERS);
    this.stats = own.subarray(STORE_COUNTERS, CLASS_COUNTERS);
    this.#classStats = own.subarray(CLASS_COUNTERS);
    this.classes = new Int32Array(control, layout.classes, CLASSES_MAX * CLASS.WORDS);
    this.directory = new Int32Array(control, layout.directory, pageCount);
    this.pages = new Int32Array(control, layout.pages, pageCount * PAGE.WORDS);
    this.segments = shared.segments.map((segment) => new ByteRegion(segment));
    this.words = shared.segments.map((segment) => new Int32Array(segment));
    const noWords = new Int32Array(new SharedArrayBuffer(0));
    this.wordsOfAnyRef = Array.from(
      { length: SEGMENT_NUMBERS },
      (_, segment) => this.words[segment] ?? noWords,
    );
    this.hotKeys = new HotKeys(shared.hotKeys, threadIndex);
    this.versions = new Versions(shared.versions);
    this.pageShift = PAGE_SHIFT[shared.options.slabLayout];
    this.pageBytes = 1 << this.pageShift;
    this.refPageShift = this.pageShift - 3;
  }

  /** How much of the pages may be in use, in bytes. */
  get limitBytes(): number {
    return this.control[CONTROL.MEMORY_LIMIT_PAGES]! * this.pageBytes;
  }

  /** Returns the segment in which a chunk lies. Hot paths index `segments` by hand. */
  segmentOf(ref: number): ByteRegion {
    return this.segments[ref >>> SEGMENT_SHIFT]!;
  }

  /** Returns the reference of a page's start. */
  pageRef(page: number): number {
    return (page << this.refPageShift) | 0;
  }

  /** Adds one to a statistic of a class. */
  countClass(classId: number, stat: number): void {
    this.#classStats[classId * CLASS_STRIDE + stat]! += 1;
  }

  /** Returns a THREAD_STAT of one thread. */
  threadStat(threadIndex: number, stat: number): number {
    return this.#counters.ofThread(threadIndex, stat);
  }

  /** Returns a STAT, summed over all threads. */
  stat(stat: number): number {
    return this.#counters.sum(STORE_COUNTERS + stat);
  }

  /** Returns a CLASS_STAT of a class, summed over all threads. */
  classStat(classId: number, stat: number): number {
    return this.#counters.sum(CLASS_COUNTERS + classId * CLASS_STRIDE + stat);
  }

  /** Sets all statistics of all threads to 0. */
  resetStats(): void {
    this.#counters.reset();
  }

  /** Returns the sizes of a class's linked items, in bytes. */
  requestedBytes(classId: number): number {
    return this.sums[SUM.REQUESTED_BYTES + classId]!;
  }

  addRequestedBytes(classId: number, bytes: number): void {
    this.sums[SUM.REQUESTED_BYTES + classId]! += bytes;
    this.sums[SUM.ITEM_BYTES]! += bytes;
  }

  /** Whole pseudo-random number in 0..bound-1, from a state that all threads share (xorshift). */
  random(bound: number): number {
    let state = this.control[CONTROL.RANDOM]!;
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    this.control[CONTROL.RANDOM] = state;
    return (state >>> 0) % bound;
  }
}
