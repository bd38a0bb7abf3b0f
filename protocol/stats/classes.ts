import { CLASSES_MAX } from "../../store/cache.ts";
import type { Inspector } from "../../store/inspector.ts";
import type { ThreadContext } from "../thread_context.ts";
import type { StatEntry } from "./entry.ts";

/** One slab class, as a report sees it. */
class ClassSource {
  readonly #store: Inspector;
  readonly #classId: number;

  constructor(store: Inspector, classId: number) {
    this.#store = store;
    this.#classId = classId;
  }

  word(name: Parameters<Inspector["classWord"]>[1]): number {
    return this.#store.classWord(this.#classId, name);
  }

  stat(name: Parameters<Inspector["classStat"]>[1]): number {
    return this.#store.classStat(this.#classId, name);
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

type ClassRow = readonly [name: string, value: (source: ClassSource) => number];

const never = (): number => 0;

/**
 * The lines of `stats items`. Of memcached's queues, "hot" stands for the small queue here, and
 * "warm" for the main one; a hit is not counted by queue, so all stand under warm.
 */
// deno-fmt-ignore
const ITEM_ROWS: readonly ClassRow[] = [
  ["number",                (s) => s.itemCount],
  ["number_hot",            (s) => s.word("SMALL_COUNT")],
  ["number_warm",           (s) => s.word("MAIN_COUNT")],
  ["number_cold",           never],
  ["age_hot",               (s) => s.ageSec(false)],
  ["age_warm",              (s) => s.ageSec(true)],
  ["age",                   (s) => Math.max(s.ageSec(false), s.ageSec(true))],
  ["mem_requested",         (s) => s.requestedBytes],
  ["evicted",               (s) => s.stat("evicted")],
  ["evicted_nonzero",       (s) => s.stat("evicted_nonzero")],
  ["evicted_time",          (s) => s.word("EVICTED_AGE_SEC")],
  ["outofmemory",           (s) => s.stat("outofmemory")],
  ["tailrepairs",           never],
  ["reclaimed",             (s) => s.stat("reclaimed")],
  ["expired_unfetched",     (s) => s.stat("expired_unfetched")],
  ["evicted_unfetched",     (s) => s.stat("evicted_unfetched")],
  ["evicted_active",        never],
  ["crawler_reclaimed",     (s) => s.stat("crawler_reclaimed")],
  ["crawler_items_checked", never],
  ["lrutail_reflocked",     never],
  ["moves_to_cold",         never],
  ["moves_to_warm",         (s) => s.stat("promoted")],
  ["moves_within_lru",      never],
  ["direct_reclaims",       (s) => s.stat("evicted")],
  ["hits_to_hot",           never],
  ["hits_to_warm",          (s) => s.stat("get_hits")],
  ["hits_to_cold",          never],
  ["hits_to_temp",          never],
];

/** The lines of `stats slabs` for each class. */
// deno-fmt-ignore
const SLAB_ROWS: readonly ClassRow[] = [
  ["chunk_size",      (s) => s.word("CHUNK_BYTES")],
  ["chunks_per_page", (s) => s.word("CHUNKS_PER_PAGE")],
  ["total_pages",     (s) => s.word("PAGES")],
  ["total_chunks",    (s) => s.totalChunks],
  ["used_chunks",     (s) => s.word("USED")],
  ["free_chunks",     (s) => s.totalChunks - s.word("USED")],
  ["free_chunks_end", never],
  ["get_hits",        (s) => s.stat("get_hits")],
  ["cmd_set",         (s) => s.stat("cmd_set")],
  ["delete_hits",     (s) => s.stat("delete_hits")],
  ["incr_hits",       (s) => s.stat("incr_hits")],
  ["decr_hits",       (s) => s.stat("decr_hits")],
  ["cas_hits",        (s) => s.stat("cas_hits")],
  ["cas_badval",      (s) => s.stat("cas_badval")],
  ["touch_hits",      (s) => s.stat("touch_hits")],
  ["lease_hits",      (s) => s.stat("lease_hits")],
  ["lease_badval",    (s) => s.stat("lease_badval")],
  ["lease_set",       (s) => s.stat("lease_set")],
];

/** The lines of `stats classes` for each class: what this store knows of itself and memcached has no name for. */
// deno-fmt-ignore
const CLASS_ROWS: readonly ClassRow[] = [
  ["chunk_size",    (s) => s.word("CHUNK_BYTES")],
  ["pages",         (s) => s.word("PAGES")],
  ["pages_in",      (s) => s.stat("pages_in")],
  ["pages_out",     (s) => s.stat("pages_out")],
  ["used_percent",  (s) => percent(s.word("USED"), s.totalChunks)],
  ["waste_percent", (s) => percent(s.usedBytes - s.requestedBytes, s.usedBytes)],
  ["small",         (s) => s.word("SMALL_COUNT")],
  ["main",          (s) => s.word("MAIN_COUNT")],
  ["promoted",      (s) => s.stat("promoted")],
  ["ghost_hits",    (s) => s.stat("ghost_hits")],
  ["evicted",       (s) => s.stat("evicted") - s.stat("evicted_moved")],
  ["evicted_moved", (s) => s.stat("evicted_moved")],
  ["evicted_age",   (s) => s.word("EVICTED_AGE_SEC")],
  ["expired",       (s) => s.stat("crawler_reclaimed")],
  ["reclaimed",     (s) => s.stat("reclaimed")],
];

/** With two digits behind the point. */
const percent = (part: number, whole: number): number =>
  whole === 0 ? 0 : Math.round(part / whole * 10_000) / 100;

/** `stats items`: the classes that hold items. */
export function* itemStats({ cache }: ThreadContext): Generator<StatEntry> {
  const store = cache.inspector;
  for (let classId = 1; classId < CLASSES_MAX; classId++) {
    const source = new ClassSource(store, classId);
    if (source.itemCount === 0) continue;
    for (const [name, value] of ITEM_ROWS) yield [`items:${classId}:${name}`, value(source)];
  }
}

/** `stats slabs`: the classes that hold pages. */
export function* slabStats({ cache }: ThreadContext): Generator<StatEntry> {
  const store = cache.inspector;
  let classes = 0;
  let pages = 0;
  for (let classId = 1; classId < CLASSES_MAX; classId++) {
    const source = new ClassSource(store, classId);
    if (source.word("PAGES") === 0) continue;
    classes++;
    pages += source.word("PAGES");
    for (const [name, value] of SLAB_ROWS) yield [`${classId}:${name}`, value(source)];
  }
  yield ["active_slabs", classes];
  yield ["total_malloced", pages * store.pageBytes];
}

/** `stats classes`: the classes that ever held something, then who has the pages. */
export function* classStats({ cache, work }: ThreadContext): Generator<StatEntry> {
  const store = cache.inspector;
  for (let classId = 1; classId < CLASSES_MAX; classId++) {
    const source = new ClassSource(store, classId);
    if (source.word("PAGES") === 0 && source.stat("cmd_set") === 0) continue;
    for (const [name, value] of CLASS_ROWS) yield [`${classId}:${name}`, value(source)];
  }
  // Both tables are found by walking all pages.
  work.chargeRows(2 * store.control("PAGES_EVER_USED"));
  yield ["page_bytes", store.pageBytes];
  yield ["pages", store.control("MEMORY_LIMIT_PAGES")];
  yield ["pages_hash", store.pagesOf("HASH")];
  yield ["pages_ghost", store.pagesOf("GHOST")];
}
