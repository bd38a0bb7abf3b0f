import { FIRST_SECOND, type StoreOptions } from "../limits.ts";
import { u64ToNumber } from "../base/u64.ts";
import { CLASS, CLASSES_MAX, CONTROL, type Memory, PAGE } from "../memory/memory.ts";

/** Words of `memory.control` that a snapshot keeps: those that describe pages and items. */
export const KEPT_WORDS = [
  "FLUSH_LOW",
  "FLUSH_HIGH",
  "FLUSH_AT_SEC",
  "OLDEST_LIVE_SEC",
  "HASH_BUCKETS",
  "HASH_LEVEL",
  "HASH_PAGES",
  "PAGES_EVER_USED",
  "FREE_PAGE",
  "GHOST_SETS",
  "GHOST_FIRST_PAGE",
  "ITEM_COUNT",
  "RANDOM",
  "MOVE_PAGE",
  "MOVE_TO",
  "MOVE_CHUNK",
  "SWEEP_PAGE",
  "SWEEP_CHUNK",
  "SWEEP_SOONEST_SEC",
] as const satisfies readonly (keyof typeof CONTROL)[];

type KeptWord = typeof KEPT_WORDS[number];

/** The version of the layout of items, pages and tables: it changes when their words do. */
export const LAYOUT_VERSION = 1;

/** A store of other pages may be used if it has at most this share of pages more than the limit allows. */
const PAGES_OVER_SHARE = 1 / 32;

/** The layout of a snapshot's pages. A store with the same layout can use them as they are. */
interface SnapshotLayout {
  readonly version: number;
  readonly pageShift: number;
  readonly slabLayout: StoreOptions["slabLayout"];
  readonly casEnabled: boolean;
  /** Chunk sizes of the classes from 1 on, in bytes. */
  readonly chunkBytes: readonly number[];
}

/** The description of a saved store. Plain data, written as JSON. */
export interface SnapshotHeader {
  readonly layout: SnapshotLayout;
  readonly hashSeed: readonly number[];
  /** The last id handed out. */
  readonly lastId: number;
  /** The store's clock: milliseconds since the store was made, and in all processes before. */
  readonly clockMs: number;
  /** Pages that belong to a class or to a table. */
  readonly pagesInUse: number;
  readonly control: Readonly<Record<KeptWord, number>>;
}

/** Describes a store that no thread changes any more. */
export function describeStore(memory: Memory): SnapshotHeader {
  const { control, options } = memory;
  const words = KEPT_WORDS.map((name) => [name, control[CONTROL[name]]!]);
  return {
    layout: layoutOf(memory),
    hashSeed: [...options.hashSeed],
    lastId: u64ToNumber(control[CONTROL.ID_LOW]!, control[CONTROL.ID_HIGH]!),
    clockMs: (control[CONTROL.NOW_SEC]! - FIRST_SECOND) * 1000 + control[CONTROL.NOW_MILLI]!,
    pagesInUse: control[CONTROL.PAGE_COUNT]! - control[CONTROL.FREE_PAGE_COUNT]!,
    control: Object.fromEntries(words) as Record<KeptWord, number>,
  };
}

function layoutOf({ pageShift, classes, options }: Memory): SnapshotLayout {
  const chunkBytes = Array.from(
    { length: CLASSES_MAX },
    (_, classId) => classes[classId * CLASS.WORDS + CLASS.CHUNK_BYTES]!,
  );
  // The first unused class number ends them; a small factor uses all.
  const end = chunkBytes.indexOf(0, 1);
  return {
    version: LAYOUT_VERSION,
    pageShift,
    slabLayout: options.slabLayout,
    casEnabled: options.casEnabled,
    chunkBytes: chunkBytes.slice(1, end < 0 ? CLASSES_MAX : end),
  };
}

/** Whether this version reads the items of a snapshot, whatever its pages look like. */
export function isReadable({ layout }: SnapshotHeader): boolean {
  return layout.version === LAYOUT_VERSION;
}

/** Whether an empty store can use the pages of a snapshot as they are: the same layout, and enough memory. */
export function fitsAsPages(header: SnapshotHeader, memory: Memory): boolean {
  const { control } = memory;
  const limit = control[CONTROL.MEMORY_LIMIT_PAGES]!;
  return JSON.stringify(header.layout) === JSON.stringify(layoutOf(memory)) &&
    header.control.PAGES_EVER_USED <= control[CONTROL.PAGE_COUNT]! &&
    header.pagesInUse <= limit + Math.floor(limit * PAGES_OVER_SHARE) &&
    header.hashSeed.every((word, index) => word === memory.options.hashSeed[index]);
}

/**
 * Returns the options of a store that continues a snapshot's: its clock runs on, and its ids are larger than all those
 * before.
 *
 * @param clockMs What the store's clock says at the start of the process.
 */
export function continuedOptions(
  options: StoreOptions,
  header: SnapshotHeader,
  clockMs: number,
): StoreOptions {
  return {
    ...options,
    hashSeed: Int32Array.from(header.hashSeed) as StoreOptions["hashSeed"],
    firstId: Math.max(options.firstId, header.lastId + 1),
    startedUnixSec: options.startedUnixSec - Math.floor(clockMs / 1000),
  };
}

/** Writes the kept words, and what follows from them, into an empty store. */
export function restoreWords({ control, pages }: Memory, header: SnapshotHeader): void {
  for (const name of KEPT_WORDS) control[CONTROL[name]] = header.control[name];
  control[CONTROL.FREE_PAGE_COUNT] = control[CONTROL.PAGE_COUNT]! - header.pagesInUse;
  if (control[CONTROL.SWEEP_CHUNK]! === 0) return;
  // The sweep begins its page anew: it has not learned the page's soonest deadline yet.
  pages[control[CONTROL.SWEEP_PAGE]! * PAGE.WORDS + PAGE.SOONEST_SEC] = 0;
  control[CONTROL.SWEEP_CHUNK] = 0;
}

/** Returns the length of the tables that `saveTables` makes, in bytes. */
export function tableBytes({ control }: SnapshotHeader): number {
  const words = CLASSES_MAX * CLASS.WORDS + control.HASH_PAGES +
    control.PAGES_EVER_USED * PAGE.WORDS;
  return SUMS_BYTES + words * Int32Array.BYTES_PER_ELEMENT;
}

const SUMS_BYTES = (2 + CLASSES_MAX) * Float64Array.BYTES_PER_ELEMENT;

/** The tables of a store: sums of bytes, class rows, the directory of the hash index, and page rows. */
export interface SnapshotTables {
  readonly sums: Float64Array;
  readonly classes: Int32Array;
  readonly directory: Int32Array;
  readonly pages: Int32Array;
}

/** Returns views of the tables in `bytes`, which must have `tableBytes` bytes. */
export function tablesIn(header: SnapshotHeader, bytes: Uint8Array<ArrayBuffer>): SnapshotTables {
  const { HASH_PAGES, PAGES_EVER_USED } = header.control;
  let at = bytes.byteOffset + SUMS_BYTES;
  const words = (length: number): Int32Array => {
    const view = new Int32Array(bytes.buffer, at, length);
    at += view.byteLength;
    return view;
  };
  return {
    sums: new Float64Array(bytes.buffer, bytes.byteOffset, SUMS_BYTES / 8),
    classes: words(CLASSES_MAX * CLASS.WORDS),
    directory: words(HASH_PAGES),
    pages: words(PAGES_EVER_USED * PAGE.WORDS),
  };
}

/** Returns a copy of the store's tables. */
export function saveTables(memory: Memory, header: SnapshotHeader): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(tableBytes(header));
  const tables = tablesIn(header, bytes);
  tables.sums.set(memory.sums);
  tables.classes.set(memory.classes);
  tables.directory.set(memory.directory.subarray(0, tables.directory.length));
  tables.pages.set(memory.pages.subarray(0, tables.pages.length));
  return bytes;
}

/** Writes saved tables into a store. */
export function restoreTables(memory: Memory, tables: SnapshotTables): void {
  memory.sums.set(tables.sums);
  memory.classes.set(tables.classes);
  memory.directory.set(tables.directory);
  memory.pages.set(tables.pages);
}
