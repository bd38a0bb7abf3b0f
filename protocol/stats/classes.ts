import { CLASSES_MAX } from "../../store/cache.ts";
import type { Inspector } from "../../store/inspector.ts";
import { CLASS_STAT, CLASS_STATS } from "../../store/stats.ts";
import type { Settings } from "../settings.ts";
import type { StatThread } from "../thread_context.ts";
import {
  counter,
  counterOf,
  gauge,
  linesOf,
  type Stat,
  type StatEntry,
  type StatMeaning,
  type StatSource,
} from "./entry.ts";

/** One slab class, as a report sees it. */
class ClassSource {
  readonly #store: Inspector;
  readonly #settings: Settings;
  readonly #classId: number;

  constructor({ cache, settings }: StatSource, classId: number) {
    this.#store = cache.inspector;
    this.#settings = settings;
    this.#classId = classId;
  }

  word(name: Parameters<Inspector["classWord"]>[1]): number {
    return this.#store.classWord(this.#classId, name);
  }

  stat(name: Parameters<Inspector["classStat"]>[1]): number {
    return this.#store.classStat(this.#classId, name);
  }

  /** Expired items that the sweep removed: the LRU maintainer's, as memcached counts them, or the crawler's. */
  sweptBy(lruMaintainer: boolean): number {
    return this.#settings.lruMaintainer === lruMaintainer ? this.stat("swept") : 0;
  }

  get requestedBytes(): number {
    return this.#store.requestedBytes(this.#classId);
  }

  get itemCount(): number {
    return this.word("SMALL_COUNT") + this.word("MAIN_COUNT");
  }

  get totalChunks(): number {
    return this.word("PAGES") * this.word("CHUNKS_PER_PAGE");
  }

  /** Bytes of all chunks in use. */
  get usedBytes(): number {
    return this.word("USED") * this.word("CHUNK_BYTES");
  }

  /** For how many seconds the oldest item of a queue has not been read. */
  ageSec(main: boolean): number {
    return this.#store.oldestIdleSec(this.#classId, main);
  }
}

type ClassRow = readonly [
  name: string,
  value: (source: ClassSource) => number,
  /** Left out: a constant, or said better by another line. */
  meaning?: StatMeaning,
];

/** A line with a counter of the class. */
function counted(name: string, stat = name as keyof typeof CLASS_STAT): ClassRow {
  return [name, (s) => s.stat(stat), counterOf(CLASS_STATS[CLASS_STAT[stat]]!)];
}

const never = (): number => 0;

/**
 * The lines of `stats items`. Of memcached's queues, "hot" stands for the small queue here, and
 * "warm" for the main one; a hit is not counted by queue, so all stand under warm.
 */
// deno-fmt-ignore
const ITEM_ROWS: readonly ClassRow[] = [
  ["number",                (s) => s.itemCount, gauge("items", "stored now in the slab class")],
  ["number_hot",            (s) => s.word("SMALL_COUNT"), gauge("items", "in the small queue now")],
  ["number_warm",           (s) => s.word("MAIN_COUNT"), gauge("items", "in the main queue now")],
  ["number_cold",           never],
  ["age_hot",               (s) => s.ageSec(false), gauge("seconds", "since the oldest item of the small queue was read")],
  ["age_warm",              (s) => s.ageSec(true), gauge("seconds", "since the oldest item of the main queue was read")],
  ["age",                   (s) => Math.max(s.ageSec(false), s.ageSec(true)), gauge("seconds", "since the oldest item of the slab class was read")],
  ["mem_requested",         (s) => s.requestedBytes, gauge("bytes", "of the items of the slab class")],
  counted("evicted"),
  counted("evicted_nonzero"),
  ["evicted_time",          (s) => s.word("EVICTED_AGE_SEC"), gauge("seconds", "since the last evicted item was read, at its eviction")],
  counted("outofmemory"),
  ["tailrepairs",           never],
  ["reclaimed",             (s) => s.stat("reclaimed") + s.sweptBy(true), counter("items", "expired items removed without a read")],
  counted("expired_unfetched"),
  counted("evicted_unfetched"),
  ["evicted_active",        never],
  ["crawler_reclaimed",     (s) => s.sweptBy(false), counter("items", "expired items removed by maintenance, with -o no_lru_maintainer")],
  ["crawler_items_checked", never],
  ["lrutail_reflocked",     never],
  ["moves_to_cold",         never],
  counted("moves_to_warm", "promoted"),
  ["moves_within_lru",      never],
  ["direct_reclaims",       (s) => s.stat("evicted")],
  ["hits_to_hot",           never],
  counted("hits_to_warm", "get_hits"),
  ["hits_to_cold",          never],
  ["hits_to_temp",          never],
];

/** The lines of `stats slabs` for each class. */
// deno-fmt-ignore
const SLAB_ROWS: readonly ClassRow[] = [
  ["chunk_size",      (s) => s.word("CHUNK_BYTES"), gauge("bytes", "of a chunk")],
  ["chunks_per_page", (s) => s.word("CHUNKS_PER_PAGE"), gauge("chunks", "that fit in a page")],
  ["total_pages",     (s) => s.word("PAGES"), gauge("pages", "held now")],
  ["total_chunks",    (s) => s.totalChunks, gauge("chunks", "in the pages held now")],
  ["used_chunks",     (s) => s.word("USED"), gauge("chunks", "in use now")],
  ["free_chunks",     (s) => s.totalChunks - s.word("USED"), gauge("chunks", "free now")],
  ["free_chunks_end", never],
  counted("get_hits"),
  counted("cmd_set"),
  counted("delete_hits"),
  counted("incr_hits"),
  counted("decr_hits"),
  counted("cas_hits"),
  counted("cas_badval"),
  counted("touch_hits"),
  counted("lease_hits"),
  counted("lease_badval"),
  counted("lease_set"),
];

/** The lines of `stats classes` for each class: what this store knows of itself and memcached has no name for. */
// deno-fmt-ignore
const CLASS_ROWS: readonly ClassRow[] = [
  ["chunk_size",    (s) => s.word("CHUNK_BYTES")],
  ["pages",         (s) => s.word("PAGES")],
  counted("pages_in"),
  counted("pages_out"),
  ["used_percent",  (s) => percent(s.word("USED"), s.totalChunks)],
  ["waste_percent", (s) => percent(s.usedBytes - s.requestedBytes, s.usedBytes)],
  ["small",         (s) => s.word("SMALL_COUNT")],
  ["main",          (s) => s.word("MAIN_COUNT")],
  ["promoted",      (s) => s.stat("promoted")],
  counted("ghost_hits"),
  ["evicted",       (s) => s.stat("evicted") - s.stat("evicted_moved")],
  counted("evicted_moved"),
  ["evicted_age",   (s) => s.word("EVICTED_AGE_SEC")],
  ["expired",       (s) => s.stat("swept")],
  ["reclaimed",     (s) => s.stat("reclaimed")],
];

/** With two digits behind the point. */
const percent = (part: number, whole: number): number =>
  whole === 0 ? 0 : Math.round(part / whole * 10_000) / 100;

/** Yields the statistics of one slab class, then null: see `StatEntry`. */
function* rowsOf(
  rows: readonly ClassRow[],
  source: ClassSource,
  classId: number,
): Generator<Stat | null> {
  for (const [name, value, meaning] of rows) {
    yield { name, value: value(source), meaning, of: `${classId}` };
  }
  yield null;
}

/** The statistics of `stats items`: the classes that hold items. */
export function* itemStatistics(thread: StatSource): Generator<Stat | null> {
  for (let classId = 1; classId < CLASSES_MAX; classId++) {
    const source = new ClassSource(thread, classId);
    if (source.itemCount > 0) yield* rowsOf(ITEM_ROWS, source, classId);
  }
}

/** The statistics of `stats slabs`: the classes that hold pages. */
export function* slabStatistics(thread: StatSource): Generator<Stat | null> {
  const store = thread.cache.inspector;
  let classes = 0;
  let pages = 0;
  for (let classId = 1; classId < CLASSES_MAX; classId++) {
    const source = new ClassSource(thread, classId);
    if (source.word("PAGES") === 0) continue;
    classes++;
    pages += source.word("PAGES");
    yield* rowsOf(SLAB_ROWS, source, classId);
  }
  const active = gauge("classes", "slab classes that hold pages now");
  yield { name: "active_slabs", value: classes, meaning: active, of: "" };
  const bytes = gauge("bytes", "of the pages that slab classes hold now");
  yield { name: "total_malloced", value: pages * store.pageBytes, meaning: bytes, of: "" };
}

type PageRow = readonly [name: string, value: (store: Inspector) => number, meaning: StatMeaning];

/** The totals of `stats classes`, which follow the classes' lines. */
// deno-fmt-ignore
const PAGE_ROWS: readonly PageRow[] = [
  ["page_bytes",  (store) => store.pageBytes, gauge("bytes", "of a page")],
  ["pages",       (store) => store.control("MEMORY_LIMIT_PAGES"), gauge("pages", "that -m allows")],
  ["pages_hash",  (store) => store.pagesOf("HASH"), gauge("pages", "of the hash index now")],
  ["pages_ghost", (store) => store.pagesOf("GHOST"), gauge("pages", "of the hashes of evicted items now")],
];

/** The statistics of `stats classes`: the classes that ever held something, then who has the pages. */
export function* classStatistics(thread: StatSource): Generator<Stat | null> {
  const store = thread.cache.inspector;
  for (let classId = 1; classId < CLASSES_MAX; classId++) {
    const source = new ClassSource(thread, classId);
    if (source.word("PAGES") === 0 && source.stat("cmd_set") === 0) continue;
    yield* rowsOf(CLASS_ROWS, source, classId);
  }
  for (const [name, value, meaning] of PAGE_ROWS) {
    yield { name, value: value(store), meaning, of: "" };
    yield null;
  }
}

/** `stats items` */
export function itemStats(thread: StatSource): Generator<StatEntry> {
  return linesOf(itemStatistics(thread), (classId, name) => `items:${classId}:${name}`);
}

/** `stats slabs` */
export function slabStats(thread: StatSource): Generator<StatEntry> {
  return linesOf(slabStatistics(thread), (classId, name) => `${classId}:${name}`);
}

/** `stats classes` */
export function classStats(thread: StatThread): Generator<StatEntry> {
  // Two of PAGE_ROWS are found by walking all pages.
  thread.work.chargeRows(2 * thread.cache.inspector.control("PAGES_EVER_USED"));
  return linesOf(classStatistics(thread), (classId, name) => `${classId}:${name}`);
}
