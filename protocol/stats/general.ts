import { INPUT_BYTES, REPLY_BYTES } from "../../store/limits.ts";
import type { Inspector } from "../../store/inspector.ts";
import { versionText } from "../replies.ts";
import type { Settings } from "../settings.ts";
import type { ProcessState, ThreadContext } from "../thread_context.ts";
import type { StatEntry } from "./entry.ts";

/** The source of the values of `stats`. */
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

  get store(): Inspector {
    return this.thread.cache.inspector;
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
 * The lines of `stats`, in memcached's order. Lines for parts that this server does not have are
 * always 0: no buffers are given to connections, no queue of log lines, no threads for LRU, crawler and
 * page moves.
 */
// deno-fmt-ignore
const ROWS: readonly GeneralRow[] = [
  ["pid",                   (s) => s.settings.pid],
  ["uptime",                (s) => s.store.control("NOW_SEC")],
  ["time",                  (s) => s.store.control("STARTED_UNIX_SEC") + s.store.control("NOW_SEC")],
  ["version",               (s) => versionText(s.settings.version)],
  ["libevent",              (s) => s.settings.runtime],
  ["pointer_size",          () => 64],
  ["rusage_user",           (s) => secondsText(s.process.userMicroseconds)],
  ["rusage_system",         (s) => secondsText(s.process.systemMicroseconds)],
  ["max_connections",       (s) => s.settings.connectionsMax],
  ["curr_connections",      (s) => s.thread.connections.openCount],
  ["total_connections",     (s) => s.store.stat("total_connections")],
  ["rejected_connections",  (s) => s.store.stat("rejected_connections"), (settings) => settings.maxconnsFast],
  ["connection_structures", (s) => s.thread.connections.openCount],
  ["response_obj_oom",      never],
  ["response_obj_count",    (s) => s.settings.threads],
  ["response_obj_bytes",    (s) => s.settings.threads * REPLY_BYTES],
  ["read_buf_count",        (s) => s.settings.threads],
  ["read_buf_bytes",        (s) => s.settings.threads * INPUT_BYTES],
  ["read_buf_bytes_free",   never],
  ["read_buf_oom",          never],
  ["reserved_fds",          never],
  ["cmd_get",               (s) => s.store.stat("cmd_get")],
  ["cmd_set",               (s) => s.store.stat("cmd_set")],
  ["cmd_flush",             (s) => s.store.stat("cmd_flush")],
  ["cmd_touch",             (s) => s.store.stat("cmd_touch")],
  ["cmd_meta",              (s) => s.store.stat("cmd_meta")],
  ["get_hits",              (s) => s.store.sumOfClasses("get_hits")],
  ["get_misses",            (s) => s.store.stat("get_misses")],
  ["get_expired",           (s) => s.store.stat("get_expired")],
  ["get_flushed",           (s) => s.store.stat("get_flushed")],
  ["delete_misses",         (s) => s.store.stat("delete_misses")],
  ["delete_hits",           (s) => s.store.sumOfClasses("delete_hits")],
  ["incr_misses",           (s) => s.store.stat("incr_misses")],
  ["incr_hits",             (s) => s.store.sumOfClasses("incr_hits")],
  ["decr_misses",           (s) => s.store.stat("decr_misses")],
  ["decr_hits",             (s) => s.store.sumOfClasses("decr_hits")],
  ["cas_misses",            (s) => s.store.stat("cas_misses")],
  ["cas_hits",              (s) => s.store.sumOfClasses("cas_hits")],
  ["cas_badval",            (s) => s.store.sumOfClasses("cas_badval")],
  ["touch_hits",            (s) => s.store.sumOfClasses("touch_hits")],
  ["touch_misses",          (s) => s.store.stat("touch_misses")],
  ["store_too_large",       (s) => s.store.stat("store_too_large")],
  ["store_no_memory",       (s) => s.store.stat("store_no_memory")],
  ["auth_cmds",             (s) => s.store.stat("auth_cmds")],
  ["auth_errors",           (s) => s.store.stat("auth_errors")],
  ["idle_kicks",            (s) => s.store.stat("idle_kicks"), (settings) => settings.idleTimeoutSec > 0],
  ["bytes_read",            (s) => s.store.stat("bytes_read")],
  ["bytes_written",         (s) => s.store.stat("bytes_written")],
  ["limit_maxbytes",        (s) => memoryLimitBytes(s.thread)],
  ["accepting_conns",       (s) => s.process.accepting ? 1 : 0],
  ["listen_disabled_num",   (s) => s.store.stat("listen_disabled_num")],
  ["time_in_listen_disabled_us", (s) => s.store.stat("time_in_listen_disabled_us")],
  ["threads",               (s) => s.settings.threads],
  ["conn_yields",           (s) => s.store.stat("conn_yields")],
  ["hash_power_level",      (s) => 31 - Math.clz32(s.store.control("HASH_LEVEL"))],
  ["hash_bytes",            (s) => s.store.control("HASH_PAGES") * s.store.pageBytes],
  ["hash_is_expanding",     (s) => s.store.isHashGrowing ? 1 : 0],
  ["slab_reassign_rescues", (s) => s.store.stat("rescued_items")],
  ["slab_reassign_chunk_rescues", (s) => s.store.stat("rescued_chunks")],
  ["slab_reassign_inline_reclaim", never],
  ["slab_reassign_busy_items", never],
  ["slab_reassign_busy_deletes", never],
  ["slab_reassign_busy_nomem", never],
  ["slab_reassign_last_busy_status", () => "none"],
  ["slab_reassign_running", never],
  ["slabs_moved",           (s) => s.store.stat("pages_moved")],
  ["lru_crawler_running",   never],
  ["lru_crawler_starts",    never],
  ["lru_maintainer_juggles", never],
  ["malloc_fails",          never],
  ["log_worker_dropped",    never],
  ["log_worker_written",    (s) => s.store.stat("log_worker_written")],
  ["log_watcher_skipped",   (s) => s.store.stat("log_watcher_skipped")],
  ["log_watcher_sent",      (s) => s.store.stat("log_watcher_sent")],
  ["log_watchers",          (s) => s.store.watcherCount],
  ["ssl_new_sessions",      (s) => s.store.stat("ssl_new_sessions"), ({ tls }) => tls?.sessionCache === true],
  ["ssl_handshake_errors",  (s) => s.store.stat("ssl_handshake_errors"), ({ tls }) => tls !== null],
  ["ssl_proto_errors",      (s) => s.store.stat("ssl_proto_errors"), ({ tls }) => tls !== null],
  ["time_since_server_cert_refresh", (s) => s.process.certificateAgeSec ?? 0, ({ tls }) => tls !== null],
  ["unexpected_napi_ids",   never],
  ["round_robin_fallback",  never],
  ["bytes",                 (s) => s.store.itemBytes],
  ["curr_items",            (s) => s.store.control("ITEM_COUNT")],
  ["total_items",           (s) => s.store.stat("total_items")],
  ["slab_global_page_pool", (s) => s.store.freePages],
  ["expired_unfetched",     (s) => s.store.sumOfClasses("expired_unfetched")],
  ["evicted_unfetched",     (s) => s.store.sumOfClasses("evicted_unfetched")],
  ["evicted_active",        never],
  ["evictions",             (s) => s.store.sumOfClasses("evicted")],
  ["reclaimed",             (s) => s.store.sumOfClasses("reclaimed")],
  ["crawler_reclaimed",     (s) => s.store.stat("crawler_reclaimed")],
  ["crawler_items_checked", (s) => s.store.stat("crawler_items_checked")],
  ["lrutail_reflocked",     never],
  ["moves_to_cold",         never],
  ["moves_to_warm",         (s) => s.store.sumOfClasses("promoted")],
  ["moves_within_lru",      never],
  ["direct_reclaims",       (s) => s.store.sumOfClasses("evicted")],
  ["lru_bumps_dropped",     never],
  // Of the draft of strong cas, and ours.
  ["lease_cnt",             (s) => s.store.stat("lease_cnt")],
  ["lease_rewrite",         (s) => s.store.stat("lease_rewrite")],
  ["lease_getss",           (s) => s.store.stat("lease_getss")],
  ["lease_deletess",        (s) => s.store.stat("lease_deletess")],
  ["lease_hit",             (s) => s.store.stat("lease_hit")],
  ["lease_badval",          (s) => s.store.stat("lease_badval")],
  ["lease_set",             (s) => s.store.stat("lease_set")],
  ["lease_curr",            (s) => s.store.control("LEASE_CURR")],
  ["lease_expired",         (s) => s.store.stat("lease_expired")],
  ["lease_dropped",         (s) => s.store.stat("lease_dropped")],
  ["lease_flag_clash",      (s) => s.store.stat("lease_flag_clash")],
  ["lease_wait_hint",       (s) => s.store.stat("lease_wait_hint")],
  ["dirty_cut",             (s) => s.store.stat("dirty_cut")],
  ["strict_refused",        (s) => s.store.stat("strict_refused")],
  ["udp_dropped",           (s) => s.store.stat("udp_dropped")],
  ["values_arriving",       (s) => s.store.control("RESERVED_ITEMS")],
  ["values_arriving_bytes", (s) => s.store.reservedBytes],
  ["values_dropped",        (s) => s.store.stat("values_dropped")],
  ["lock_curr",             (s) => s.store.lockCount],
  ["lock_bytes",            (s) => s.store.lockedBytes],
  ["lock_waiting",          (s) => s.store.lockWaiterCount],
  ["lock_ok",               (s) => s.store.stat("lock_ok")],
  ["lock_busy",             (s) => s.store.stat("lock_busy")],
  ["lock_refused",          (s) => s.store.stat("lock_refused")],
  ["lock_freed_by_close",   (s) => s.store.stat("lock_freed_by_close")],
  ["lock_waits",            (s) => s.store.stat("lock_waits")],
  ["lock_wait_timeouts",    (s) => s.store.stat("lock_wait_timeouts")],
  ["lock_wait_ms",          (s) => s.store.stat("lock_wait_ms")],
  ["token_curr",            (s) => s.store.tokenCount],
  ["token_get",             (s) => s.store.stat("token_get")],
  ["token_release",         (s) => s.store.stat("token_release")],
  ["token_release_unknown", (s) => s.store.stat("token_release_unknown")],
  ["token_dropped",         (s) => s.store.stat("token_dropped")],
  ["token_refused",         (s) => s.store.stat("token_refused")],
  ["token_oldest_age",      (s) => s.store.oldestTokenAgeSec],
  ["token_journal_syncs",   (s) => s.store.stat("token_journal_syncs")],
  ["token_journal_errors",  (s) => s.store.stat("token_journal_errors")],
  ["quarantine",            (s) => s.store.isQuarantined ? 1 : 0],
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
  return thread.cache.inspector.control("MEMORY_LIMIT_KIB") * 1024;
}

/** Cost of setting the counters of a thread to 0: at most 20 microseconds, if they are in another processor's cache. */
const RESET_UNITS = 200;

/** `stats reset`: every statistic to 0. Sizes and states stay. */
export function resetStats({ cache, prefixes, ops, work }: ThreadContext): void {
  work.spent += RESET_UNITS * cache.inspector.threadCount;
  cache.inspector.resetStats();
  prefixes.clear();
  ops.reset();
}
