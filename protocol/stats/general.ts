import { INPUT_BYTES, REPLY_BYTES } from "../../store/limits.ts";
import type { Inspector } from "../../store/inspector.ts";
import { versionText } from "../reply/replies.ts";
import { CLASS_STAT, CLASS_STATS, STAT, STORE_STATS } from "../../store/stats.ts";
import type { Settings } from "../settings.ts";
import type { ProcessState, StatThread } from "../thread_context.ts";
import {
  counter,
  counterOf,
  gauge,
  info,
  linesOf,
  type Stat,
  type StatEntry,
  type StatMeaning,
  type StatSource,
} from "./entry.ts";

/** The source of the values of `stats`. */
class Source {
  readonly thread: StatSource;
  readonly process: ProcessState;

  constructor(thread: StatSource) {
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
  /** Left out: a constant, or said better by another line. */
  meaning?: StatMeaning,
  /** Whether the line is there at all; always if left out. */
  shown?: (settings: Settings) => boolean,
];

/** A line with a counter of the store. */
function counted(
  name: string,
  stat = name as keyof typeof STAT,
  shown?: (settings: Settings) => boolean,
): GeneralRow {
  const value = (s: Source): number => s.store.stat(stat);
  const meaning = counterOf(STORE_STATS[STAT[stat]]!);
  return shown === undefined ? [name, value, meaning] : [name, value, meaning, shown];
}

/** A line with a counter summed over all slab classes. */
function summed(name: string, stat = name as keyof typeof CLASS_STAT): GeneralRow {
  const meaning = counterOf(CLASS_STATS[CLASS_STAT[stat]]!);
  return [name, (s) => s.store.sumOfClasses(stat), meaning];
}

/** Microseconds as memcached writes processor times. */
function secondsText(microseconds: number): string {
  const seconds = Math.floor(microseconds / 1e6);
  return `${seconds}.${String(Math.floor(microseconds - seconds * 1e6)).padStart(6, "0")}`;
}

const never = (): number => 0;

/** As memcached counts expired items that no request met: the LRU maintainer's are `reclaimed`. */
const reclaimed = ({ store, settings }: Source): number =>
  store.sumOfClasses("reclaimed") + (settings.lruMaintainer ? store.sumOfClasses("swept") : 0);

const crawlerReclaimed = ({ store, settings }: Source): number =>
  settings.lruMaintainer ? 0 : store.sumOfClasses("swept");

/**
 * The lines of `stats`, in memcached's order. Lines for parts that this server does not have are
 * always 0: no buffers are given to connections, no queue of log lines, no threads for LRU, crawler and
 * page moves.
 */
// deno-fmt-ignore
const ROWS: readonly GeneralRow[] = [
  ["pid",                   (s) => s.settings.pid],
  ["uptime",                (s) => s.store.control("NOW_SEC") - s.store.control("RESUMED_SEC"), gauge("seconds", "since the start")],
  ["time",                  (s) => s.store.control("STARTED_UNIX_SEC") + s.store.control("NOW_SEC"), gauge("seconds", "clock of the server, Unix time")],
  ["version",               (s) => versionText(s.settings.version), info("version of memcached that the server speaks")],
  ["libevent",              (s) => s.settings.runtime],
  ["pointer_size",          () => 64],
  ["rusage_user",           (s) => secondsText(s.process.userMicroseconds), counter("seconds", "processor time in user mode")],
  ["rusage_system",         (s) => secondsText(s.process.systemMicroseconds), counter("seconds", "processor time in the kernel")],
  ["max_connections",       (s) => s.settings.connLimit, gauge("connections", "most that may be open: -c")],
  ["curr_connections",      (s) => s.thread.connections.openCount, gauge("connections", "open now")],
  counted("total_connections"),
  counted("rejected_connections", "rejected_connections", (settings) => settings.maxconnsFast),
  ["connection_structures", (s) => s.thread.connections.openCount],
  ["response_obj_oom",      never],
  ["response_obj_count",    (s) => s.settings.threads],
  ["response_obj_bytes",    (s) => s.settings.threads * REPLY_BYTES],
  ["read_buf_count",        (s) => s.settings.threads],
  ["read_buf_bytes",        (s) => s.settings.threads * INPUT_BYTES],
  ["read_buf_bytes_free",   never],
  ["read_buf_oom",          never],
  ["reserved_fds",          never],
  counted("cmd_get"),
  counted("cmd_set"),
  counted("cmd_flush"),
  counted("cmd_touch"),
  counted("cmd_meta"),
  summed("get_hits"),
  counted("get_misses"),
  counted("get_expired"),
  counted("get_flushed"),
  counted("delete_misses"),
  summed("delete_hits"),
  counted("incr_misses"),
  summed("incr_hits"),
  counted("decr_misses"),
  summed("decr_hits"),
  counted("cas_misses"),
  summed("cas_hits"),
  summed("cas_badval"),
  summed("touch_hits"),
  counted("touch_misses"),
  counted("store_too_large"),
  counted("store_no_memory"),
  counted("auth_cmds"),
  counted("auth_errors"),
  counted("idle_kicks", "idle_kicks", (settings) => settings.idleTimeoutSec > 0),
  counted("bytes_read"),
  counted("bytes_written"),
  ["limit_maxbytes",        (s) => memoryLimitBytes(s.thread), gauge("bytes", "memory that the store may use: -m")],
  ["accepting_conns",       (s) => s.process.accepting ? 1 : 0, gauge("", "1 while every listener accepts connections, else 0")],
  counted("listen_disabled_num"),
  counted("time_in_listen_disabled_us"),
  ["threads",               (s) => s.settings.threads, gauge("threads", "worker threads: -t")],
  counted("conn_yields"),
  ["hash_power_level",      (s) => 31 - Math.clz32(s.store.control("HASH_LEVEL"))],
  ["hash_bytes",            (s) => s.store.control("HASH_PAGES") * s.store.pageBytes, gauge("bytes", "of the hash index")],
  ["hash_is_expanding",     (s) => s.store.isHashGrowing ? 1 : 0, gauge("", "1 while the hash index grows, else 0")],
  counted("slab_reassign_rescues", "rescued_items"),
  counted("slab_reassign_chunk_rescues", "rescued_chunks"),
  ["slab_reassign_inline_reclaim", never],
  ["slab_reassign_busy_items", never],
  ["slab_reassign_busy_deletes", never],
  ["slab_reassign_busy_nomem", never],
  ["slab_reassign_last_busy_status", () => "none"],
  ["slab_reassign_running", never],
  counted("slabs_moved", "pages_moved"),
  ["lru_crawler_running",   never],
  ["lru_crawler_starts",    never],
  ["lru_maintainer_juggles", never],
  ["malloc_fails",          never],
  ["log_worker_dropped",    never],
  counted("log_worker_written"),
  counted("log_watcher_skipped"),
  counted("log_watcher_sent"),
  ["log_watchers",          (s) => s.store.watcherCount, gauge("connections", "that watch events now")],
  counted("ssl_new_sessions", "ssl_new_sessions", ({ tls }) => tls?.sessionCache === true),
  counted("ssl_handshake_errors", "ssl_handshake_errors", ({ tls }) => tls !== null),
  counted("ssl_proto_errors", "ssl_proto_errors", ({ tls }) => tls !== null),
  ["time_since_server_cert_refresh", (s) => s.process.certificateAgeSec ?? 0, gauge("seconds", "since the certificates were loaded"), ({ tls }) => tls !== null],
  ["unexpected_napi_ids",   never],
  ["round_robin_fallback",  never],
  ["bytes",                 (s) => s.store.itemBytes, gauge("bytes", "of all items, as the slab layout counts them")],
  ["curr_items",            (s) => s.store.control("ITEM_COUNT"), gauge("items", "stored now")],
  counted("total_items"),
  ["slab_global_page_pool", (s) => s.store.freePages, gauge("pages", "free now")],
  summed("expired_unfetched"),
  summed("evicted_unfetched"),
  ["evicted_active",        never],
  summed("evictions", "evicted"),
  ["reclaimed",             reclaimed, counter("items", "expired items removed without a read")],
  ["crawler_reclaimed",     crawlerReclaimed, counter("items", "expired items removed by maintenance, with -o no_lru_maintainer")],
  counted("crawler_items_checked"),
  ["lrutail_reflocked",     never],
  ["moves_to_cold",         never],
  summed("moves_to_warm", "promoted"),
  ["moves_within_lru",      never],
  summed("direct_reclaims", "evicted"),
  ["lru_bumps_dropped",     never],
  // Of the draft of strong cas, and ours.
  counted("lease_cnt"),
  counted("lease_rewrite"),
  counted("lease_getss"),
  counted("lease_deletess"),
  counted("lease_hit"),
  counted("lease_badval"),
  counted("lease_set"),
  ["lease_curr",            (s) => s.store.control("LEASE_CURR"), gauge("leases", "held now")],
  counted("lease_expired"),
  counted("lease_dropped"),
  counted("lease_flag_clash"),
  counted("lease_wait_hint"),
  counted("dirty_cut"),
  counted("strict_refused"),
  counted("udp_dropped"),
  ["values_arriving",       (s) => s.store.control("RESERVED_ITEMS"), gauge("values", "of which the header has come, but not yet the whole data")],
  ["values_arriving_bytes", (s) => s.store.reservedBytes, gauge("bytes", "of memory that arriving values hold")],
  counted("values_dropped"),
  ["lock_curr",             (s) => s.store.lockCount, gauge("locks", "held now")],
  ["lock_bytes",            (s) => s.store.lockedBytes, gauge("bytes", "of items that are locked now")],
  ["lock_waiting",          (s) => s.store.lockWaiterCount, gauge("connections", "that wait for a lock now")],
  counted("lock_ok"),
  counted("lock_busy"),
  counted("lock_refused"),
  counted("lock_freed_by_close"),
  counted("lock_waits"),
  counted("lock_wait_timeouts"),
  counted("lock_wait_ms"),
  ["token_curr",            (s) => s.store.tokenCount, gauge("tokens", "update tokens that are out now")],
  counted("token_get"),
  counted("token_release"),
  counted("token_release_unknown"),
  counted("token_dropped"),
  counted("token_refused"),
  ["token_oldest_age",      (s) => s.store.oldestTokenAgeSec, gauge("seconds", "age of the oldest update token that is out")],
  counted("token_journal_syncs"),
  counted("token_journal_errors"),
  ["quarantine",            (s) => s.store.isQuarantined ? 1 : 0, gauge("", "1 while the server stores nothing for fear of lost update tokens, else 0")],
];

/** The statistics of `stats` without a word behind it. */
export function* generalStatistics(thread: StatSource): Generator<Stat> {
  const source = new Source(thread);
  for (const [name, value, meaning, shown] of ROWS) {
    if (shown !== undefined && !shown(thread.settings)) continue;
    yield { name, value: value(source), meaning, of: "" };
  }
}

/** `stats` without a word behind it. */
export function generalStats(thread: StatSource): Generator<StatEntry> {
  return linesOf(generalStatistics(thread), (_of, name) => name);
}

/** How many bytes the store may use, as `cache_memlimit` left it. */
export function memoryLimitBytes(thread: StatSource): number {
  return thread.cache.inspector.control("MEMORY_LIMIT_KIB") * 1024;
}

/** Cost of setting the counters of a thread to 0: at most 20 microseconds, if they are in another processor's cache. */
const RESET_UNITS = 200;

/** `stats reset`: every statistic to 0. Sizes and states stay. */
export function resetStats({ cache, prefixes, ops, times, work }: StatThread): void {
  work.spent += RESET_UNITS * cache.inspector.threadCount;
  cache.inspector.resetStats();
  prefixes.clear();
  ops.reset();
  times.reset();
}
