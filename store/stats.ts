/** The unit of a statistic; "": a state. */
// deno-fmt-ignore
export type Unit =
  | "" | "batches" | "bytes" | "caches" | "changes" | "chunks" | "classes" | "commands" | "connections"
  | "datagrams" | "failures" | "items" | "keys" | "leases" | "lines" | "locks" | "memberships"
  | "microseconds" | "milliseconds" | "nodes" | "pages" | "reads" | "requests" | "rows" | "seconds"
  | "sessions" | "threads" | "times" | "tokens" | "transactions" | "values" | "views" | "waits" | "writes";

/**
 * One row a statistic. Each thread counts in a row of its own (base/counter_rows.ts), without the
 * mutex: `stats[STAT.cmd_get]! += 1` costs a few nanoseconds. Reports show the sum over the threads.
 */
export type StatRow = readonly [name: string, unit: Unit, meaning: string];

// deno-fmt-ignore
export const STORE_STATS = [
  // name                 unit     meaning
  ["cmd_get",             "keys",  "keys asked for by get, gets, mg and their binary forms"],
  ["cmd_set",             "items", "storing commands that got their memory"],
  ["cmd_flush",           "commands", "flush_all"],
  ["cmd_touch",           "keys",  "touch, gat, gats"],
  ["cmd_meta",            "commands", "meta debug commands"],
  ["get_misses",          "keys",  "reads that found nothing"],
  ["get_expired",         "keys",  "reads that found an expired item"],
  ["get_flushed",         "keys",  "reads that found an item hidden by flush_all"],
  ["delete_misses",       "keys",  "deletions of what was not there"],
  ["incr_misses",         "keys",  "increments of what was not there"],
  ["decr_misses",         "keys",  "decrements of what was not there"],
  ["cas_misses",          "keys",  "cas on what was not there"],
  ["touch_misses",        "keys",  "touches of what was not there"],
  ["store_too_large",     "items", "stores refused: larger than the item size limit"],
  ["store_no_memory",     "items", "stores refused: no memory"],
  ["auth_cmds",           "commands", "authentications"],
  ["auth_errors",         "commands", "authentications that failed"],
  ["ssl_new_sessions",    "sessions", "TLS sessions that a client may resume"],
  ["ssl_handshake_errors", "connections", "closed because the TLS handshake failed or took too long"],
  ["ssl_proto_errors",    "connections", "closed because of bytes that are no TLS record"],
  ["idle_kicks",          "connections", "closed for being idle"],
  ["bytes_read",          "bytes", "received from clients"],
  ["bytes_written",       "bytes", "sent to clients"],
  ["total_connections",   "connections", "accepted since the start"],
  ["rejected_connections", "connections", "refused: too many"],
  ["listen_disabled_num", "times", "accepting stopped: no descriptor, or too many connections"],
  ["time_in_listen_disabled_us", "microseconds", "for how long accepting was stopped, summed over the threads"],
  ["conn_yields",         "times", "a slice of a connection ended, and there was more to do"],
  ["udp_dropped",         "datagrams", "lost because the receive buffer of a UDP socket was full"],
  ["values_dropped",      "values", "dropped before all their bytes had arrived, to make room for newer ones"],
  ["total_items",         "items", "linked since the start"],
  ["pages_moved",         "pages", "pages taken from a class for another"],
  ["rescued_items",       "items", "copied out of a page that was moved"],
  ["rescued_chunks",      "chunks", "copied out of a page that was moved"],
  ["crawler_items_checked", "items", "looked at by maintenance"],
  ["ghost_hits",          "items", "stored again soon after their eviction"],
  ["lock_ok",             "locks", "locks taken"],
  ["lock_busy",           "keys",  "locks and changes refused: another connection holds the key"],
  ["lock_freed_by_close", "locks", "freed because their connection ended"],
  ["lock_refused",        "locks", "refused by a limit on locks or on those that wait"],
  ["lock_waits",          "waits", "connections that began to wait for a lock"],
  ["lock_wait_timeouts",  "waits", "ended without the lock: its time was over"],
  ["lock_wait_ms",        "milliseconds", "spent waiting for locks, by waits that are over"],
  ["lease_cnt",           "leases", "made or renewed"],
  ["lease_rewrite",       "commands", "updates other than cas that met a lease"],
  ["lease_getss",         "leases", "made by a miss of getss or lease-get"],
  ["lease_deletess",      "leases", "made by deletess, or renewed by delete"],
  ["lease_hit",           "commands", "cas on a lease with the right id"],
  ["lease_badval",        "commands", "cas on a lease with another id"],
  ["lease_set",           "items", "stored on a lease without its id"],
  ["lease_expired",       "leases", "ended by their deadline, not filled"],
  ["lease_dropped",       "leases", "dropped for newer ones: the table was full"],
  ["lease_flag_clash",    "items", "stored with client flags that look like a lease's"],
  ["lease_wait_hint",     "keys",  "asked for with getss or lease-get, and held by another or uncacheable"],
  ["dirty_cut",           "items", "given an earlier expiry time, because the key is dirty"],
  ["strict_refused",      "commands", "stores without a lease refused under --strict"],
  ["token_get",           "tokens", "update tokens given"],
  ["token_release",       "tokens", "update tokens released"],
  ["token_release_unknown", "commands", "releases of an update token that was not out"],
  ["token_dropped",       "tokens", "update tokens dropped by an operator"],
  ["token_refused",       "commands", "stores refused: an update token is out, or quarantine"],
  ["token_journal_syncs", "times", "the journal of update tokens was synced to the disk"],
  ["token_journal_errors", "tokens", "update tokens refused: the journal could not be written"],
  ["log_worker_written",  "lines", "events that a watcher asked for"],
  ["log_watcher_sent",    "lines", "put into the buffers of watchers"],
  ["log_watcher_skipped", "lines", "that a watcher lost, its buffer being full"],
] as const satisfies readonly StatRow[];

// deno-fmt-ignore
export const CLASS_STATS = [
  // name                 unit     meaning
  ["get_hits",            "keys",  "reads that found a value"],
  ["cmd_set",             "items", "stores into this class"],
  ["delete_hits",         "keys",  "deleted"],
  ["incr_hits",           "keys",  "incremented"],
  ["decr_hits",           "keys",  "decremented"],
  ["cas_hits",            "keys",  "cas with the right id"],
  ["cas_badval",          "keys",  "cas with another id"],
  ["touch_hits",          "keys",  "touched"],
  ["evicted",             "items", "removed to make room"],
  ["evicted_nonzero",     "items", "with an expiry time, removed to make room"],
  ["evicted_unfetched",   "items", "never read, removed to make room"],
  ["evicted_moved",       "items", "removed so that a page could go to another class"],
  ["outofmemory",         "items", "stores that found no memory"],
  ["reclaimed",           "items", "expired items removed to make room, or because their key was stored again"],
  ["expired_unfetched",   "items", "expired and removed without ever being read"],
  ["swept",               "items", "expired items removed by maintenance"],
  ["pages_in",            "pages", "taken from other classes"],
  ["pages_out",           "pages", "given to other classes"],
  ["promoted",            "items", "moved from the small queue to the main one"],
  ["ghost_hits",          "items", "stored again soon after their eviction"],
  ["lease_hits",          "commands", "cas on a lease with the right id"],
  ["lease_badval",        "commands", "cas on a lease with another id"],
  ["lease_set",           "items", "stored on a lease without its id"],
] as const satisfies readonly StatRow[];

/** Of each thread, and of maintenance. Times are measured at each 61st hold and spin, and each sleep. */
// deno-fmt-ignore
export const THREAD_STATS = [
  // name                 unit     meaning
  ["batches",             "batches", "of requests executed together, mostly those that one read brought"],
  ["mutex_waits",         "times", "another thread held the mutex"],
  ["mutex_wait_us",       "microseconds", "spent waiting for the mutex, about"],
  ["mutex_held_us",       "microseconds", "for which it held the mutex, about"],
  ["read_retries",        "times", "a read without the mutex met a change of its group of buckets"],
  ["read_fallbacks",      "keys",  "read with the mutex after all: after several retries, or because the item needs it"],
] as const satisfies readonly StatRow[];

type IndexOf<Rows extends readonly StatRow[]> = { readonly [Name in Rows[number][0]]: number };

function indexRows<Rows extends readonly StatRow[]>(rows: Rows): IndexOf<Rows> {
  return Object.fromEntries(rows.map((row, index) => [row[0], index])) as IndexOf<Rows>;
}

/** The index of each statistic in `memory.stats`, the thread's own, and for `memory.stat`, the sum. */
export const STAT: IndexOf<typeof STORE_STATS> = indexRows(STORE_STATS);
/** The index of each statistic of a thread in `memory.threadStats`. */
export const THREAD_STAT: IndexOf<typeof THREAD_STATS> = indexRows(THREAD_STATS);
/** The index of each statistic of a class, for `memory.countClass` and `memory.classStat`. */
export const CLASS_STAT: IndexOf<typeof CLASS_STATS> = indexRows(CLASS_STATS);
