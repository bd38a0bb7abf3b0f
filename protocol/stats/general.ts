import { CLASSES_MAX, CONTROL, ITEM_BYTES } from "../../store/memory/memory.ts";
import { INPUT_BYTES, REPLY_BYTES } from "../../store/limits.ts";
import { CLASS_STAT, STAT } from "../../store/stats.ts";
import { versionText } from "../replies.ts";
import type { Settings } from "../settings.ts";
import type { ProcessState, ThreadContext } from "../thread_context.ts";
import type { StatEntry } from "./entry.ts";

/** Where the values of `stats` come from. */
class Source {
  readonly thread: ThreadContext;
  readonly process: ProcessState;

  constructor(thread: ThreadContext) {
    this.thread = thread;
    this.process = thread.hooks.processState();
  }

  get settings(): Settings {
    return this.thread.settings;
  }

  stat(name: keyof typeof STAT): number {
    return this.thread.memory.stats[STAT[name]]!;
  }

  control(name: keyof typeof CONTROL): number {
    return this.thread.memory.control[CONTROL[name]]!;
  }

  /** A statistic summed over all slab classes. */
  classes(name: keyof typeof CLASS_STAT): number {
    let sum = 0;
    for (let classId = 0; classId < CLASSES_MAX; classId++) {
      sum += this.thread.memory.classStat(classId, CLASS_STAT[name]);
    }
    return sum;
  }
}

type GeneralRow = readonly [
  name: string,
  value: (source: Source) => string | number,
  /** Whether the line is there at all; always if left out. */
  shown?: (settings: Settings) => boolean,
];

/** Microseconds as memcached writes processor times. */
function secondsText(microseconds: number): string {
  const seconds = Math.floor(microseconds / 1e6);
  return `${seconds}.${String(Math.floor(microseconds - seconds * 1e6)).padStart(6, "0")}`;
}

const never = (): number => 0;

/**
 * The lines of `stats`, in memcached's order. What there is nothing of here is 0, and always will
 * be: no buffers are given to connections, no queue of log lines, no threads for LRU, crawler and
 * page moves.
 */
// deno-fmt-ignore
const ROWS: readonly GeneralRow[] = [
  ["pid",                   (s) => s.settings.pid],
  ["uptime",                (s) => s.control("NOW_SEC")],
  ["time",                  (s) => s.control("STARTED_UNIX_SEC") + s.control("NOW_SEC")],
  ["version",               (s) => versionText(s.settings.version)],
  ["libevent",              (s) => s.settings.runtime],
  ["pointer_size",          () => 64],
  ["rusage_user",           (s) => secondsText(s.process.userMicroseconds)],
  ["rusage_system",         (s) => secondsText(s.process.systemMicroseconds)],
  ["max_connections",       (s) => s.settings.connectionsMax],
  ["curr_connections",      (s) => s.thread.connections.openCount],
  ["total_connections",     (s) => s.stat("total_connections")],
  ["rejected_connections",  (s) => s.stat("rejected_connections"), (settings) => settings.maxconnsFast],
  ["connection_structures", (s) => s.thread.connections.openCount],
  ["response_obj_oom",      never],
  ["response_obj_count",    (s) => s.settings.threads],
  ["response_obj_bytes",    (s) => s.settings.threads * REPLY_BYTES],
  ["read_buf_count",        (s) => s.settings.threads],
  ["read_buf_bytes",        (s) => s.settings.threads * INPUT_BYTES],
  ["read_buf_bytes_free",   never],
  ["read_buf_oom",          never],
  ["reserved_fds",          never],
  ["cmd_get",               (s) => s.stat("cmd_get")],
  ["cmd_set",               (s) => s.stat("cmd_set")],
  ["cmd_flush",             (s) => s.stat("cmd_flush")],
  ["cmd_touch",             (s) => s.stat("cmd_touch")],
  ["cmd_meta",              (s) => s.stat("cmd_meta")],
  ["get_hits",              (s) => s.classes("get_hits")],
  ["get_misses",            (s) => s.stat("get_misses")],
  ["get_expired",           (s) => s.stat("get_expired")],
  ["get_flushed",           (s) => s.stat("get_flushed")],
  ["delete_misses",         (s) => s.stat("delete_misses")],
  ["delete_hits",           (s) => s.classes("delete_hits")],
  ["incr_misses",           (s) => s.stat("incr_misses")],
  ["incr_hits",             (s) => s.classes("incr_hits")],
  ["decr_misses",           (s) => s.stat("decr_misses")],
  ["decr_hits",             (s) => s.classes("decr_hits")],
  ["cas_misses",            (s) => s.stat("cas_misses")],
  ["cas_hits",              (s) => s.classes("cas_hits")],
  ["cas_badval",            (s) => s.classes("cas_badval")],
  ["touch_hits",            (s) => s.classes("touch_hits")],
  ["touch_misses",          (s) => s.stat("touch_misses")],
  ["store_too_large",       (s) => s.stat("store_too_large")],
  ["store_no_memory",       (s) => s.stat("store_no_memory")],
  ["auth_cmds",             (s) => s.stat("auth_cmds")],
  ["auth_errors",           (s) => s.stat("auth_errors")],
  ["idle_kicks",            (s) => s.stat("idle_kicks"), (settings) => settings.idleTimeoutSec > 0],
  ["bytes_read",            (s) => s.stat("bytes_read")],
  ["bytes_written",         (s) => s.stat("bytes_written")],
  ["limit_maxbytes",        (s) => memoryLimitBytes(s.thread)],
  ["accepting_conns",       (s) => s.process.accepting ? 1 : 0],
  ["listen_disabled_num",   (s) => s.stat("listen_disabled_num")],
  ["time_in_listen_disabled_us", (s) => s.stat("time_in_listen_disabled_us")],
  ["threads",               (s) => s.settings.threads],
  ["conn_yields",           (s) => s.stat("conn_yields")],
  ["hash_power_level",      (s) => 31 - Math.clz32(s.control("HASH_LEVEL"))],
  ["hash_bytes",            (s) => s.control("HASH_PAGES") * s.thread.memory.pageBytes],
  ["hash_is_expanding",     (s) => s.thread.cache.links.index.isGrowing ? 1 : 0],
  ["slab_reassign_rescues", (s) => s.stat("rescued_items")],
  ["slab_reassign_chunk_rescues", (s) => s.stat("rescued_chunks")],
  ["slab_reassign_inline_reclaim", never],
  ["slab_reassign_busy_items", never],
  ["slab_reassign_busy_deletes", never],
  ["slab_reassign_busy_nomem", never],
  ["slab_reassign_last_busy_status", () => "none"],
  ["slab_reassign_running", never],
  ["slabs_moved",           (s) => s.stat("pages_moved")],
  ["lru_crawler_running",   never],
  ["lru_crawler_starts",    never],
  ["lru_maintainer_juggles", never],
  ["malloc_fails",          never],
  ["log_worker_dropped",    never],
  ["log_worker_written",    (s) => s.stat("log_worker_written")],
  ["log_watcher_skipped",   (s) => s.stat("log_watcher_skipped")],
  ["log_watcher_sent",      (s) => s.stat("log_watcher_sent")],
  ["log_watchers",          (s) => s.thread.cache.links.watchLog.count],
  ["unexpected_napi_ids",   never],
  ["round_robin_fallback",  never],
  ["bytes",                 (s) => s.thread.memory.stats[ITEM_BYTES]!],
  ["curr_items",            (s) => s.control("ITEM_COUNT")],
  ["total_items",           (s) => s.stat("total_items")],
  ["slab_global_page_pool", (s) => s.thread.cache.links.slabs.freePages],
  ["expired_unfetched",     (s) => s.classes("expired_unfetched")],
  ["evicted_unfetched",     (s) => s.classes("evicted_unfetched")],
  ["evicted_active",        never],
  ["evictions",             (s) => s.classes("evicted")],
  ["reclaimed",             (s) => s.classes("reclaimed")],
  ["crawler_reclaimed",     (s) => s.stat("crawler_reclaimed")],
  ["crawler_items_checked", (s) => s.stat("crawler_items_checked")],
  ["lrutail_reflocked",     never],
  ["moves_to_cold",         never],
  ["moves_to_warm",         (s) => s.classes("promoted")],
  ["moves_within_lru",      never],
  ["direct_reclaims",       (s) => s.classes("evicted")],
  ["lru_bumps_dropped",     never],
  // Of the draft of strong cas, and ours.
  ["lease_cnt",             (s) => s.stat("lease_cnt")],
  ["lease_rewrite",         (s) => s.stat("lease_rewrite")],
  ["lease_getss",           (s) => s.stat("lease_getss")],
  ["lease_deletess",        (s) => s.stat("lease_deletess")],
  ["lease_hit",             (s) => s.stat("lease_hit")],
  ["lease_badval",          (s) => s.stat("lease_badval")],
  ["lease_set",             (s) => s.stat("lease_set")],
  ["lease_curr",            (s) => s.control("LEASE_CURR")],
  ["lease_expired",         (s) => s.stat("lease_expired")],
  ["lease_dropped",         (s) => s.stat("lease_dropped")],
  ["lease_flag_clash",      (s) => s.stat("lease_flag_clash")],
  ["lease_wait_hint",       (s) => s.stat("lease_wait_hint")],
  ["dirty_cut",             (s) => s.stat("dirty_cut")],
  ["strict_refused",        (s) => s.stat("strict_refused")],
  ["lock_curr",             (s) => s.thread.cache.locks.count],
  ["lock_waiting",          (s) => s.thread.cache.locks.waiters.count],
  ["lock_ok",               (s) => s.stat("lock_ok")],
  ["lock_busy",             (s) => s.stat("lock_busy")],
  ["lock_refused",          (s) => s.stat("lock_refused")],
  ["lock_freed_by_close",   (s) => s.stat("lock_freed_by_close")],
  ["lock_waits",            (s) => s.stat("lock_waits")],
  ["lock_wait_timeouts",    (s) => s.stat("lock_wait_timeouts")],
  ["lock_wait_ms",          (s) => s.stat("lock_wait_ms")],
];

/** `stats` without a word behind it. */
export function* generalStats(thread: ThreadContext): Generator<StatEntry> {
  const source = new Source(thread);
  for (const [name, value, shown] of ROWS) {
    if (shown === undefined || shown(thread.settings)) yield [name, value(source)];
  }
}

/** How many bytes the store may use, as `cache_memlimit` left it. */
export function memoryLimitBytes(thread: ThreadContext): number {
  return thread.memory.control[CONTROL.MEMORY_LIMIT_KIB]! * 1024;
}

/** `stats reset`: every statistic to 0. Sizes and states stay. */
export function resetStats(thread: ThreadContext): void {
  const { memory, prefixes, ops } = thread;
  memory.stats.fill(0, 0, Object.keys(STAT).length);
  const perClass = memory.classStats.length / CLASSES_MAX;
  const used = Object.keys(CLASS_STAT).length;
  for (let classId = 0; classId < CLASSES_MAX; classId++) {
    memory.classStats.fill(0, classId * perClass, classId * perClass + used);
  }
  prefixes.clear();
  ops.clear();
  new Float64Array(memory.shared.threads).fill(0);
}
