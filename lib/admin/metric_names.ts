import type { Stat } from "../../protocol/stats/entry.ts";
import { type Labels, type Metric, ownName } from "./exposition.ts";

// The metrics of the server's statistics: names and labels of Prometheus's memcached_exporter 0.16.0
// (pkg/exporter/exporter.go) where it has such a metric, otherwise `leased_…`.

/** A metric of memcached_exporter. */
interface Known {
  readonly name: string;
  readonly labels?: Labels;
  /** Statistics beside it whose sum is not part of it. */
  readonly less?: readonly string[];
}

/** Meanings of metrics that several statistics share. */
const SHARED_HELP: Readonly<Record<string, string>> = {
  "memcached_commands_total": "keys or commands, by what was asked for and what became of it",
  "memcached_slab_commands_total": "keys or commands, by what was asked for and what became of it",
};

/** The commands of a table of statistics, with the endings of their names and what these mean. */
function commandNames(name: string, statuses: Readonly<Record<string, string>>): [string, Known][] {
  const known: [string, Known][] = [
    ["cas_badval", { name, labels: { command: "cas", status: "badval" } }],
    // memcached counts a cas as a set too.
    ["cmd_set", {
      name,
      labels: { command: "set", status: "hit" },
      less: ["cas_misses", "cas_hits", "cas_badval"],
    }],
  ];
  for (const command of ["get", "delete", "incr", "decr", "cas", "touch"]) {
    for (const [suffix, status] of Object.entries(statuses)) {
      known.push([`${command}_${suffix}`, { name, labels: { command, status } }]);
    }
  }
  return known;
}

function plain(names: readonly (readonly [stat: string, name: string])[]): [string, Known][] {
  return names.map(([stat, name]) => [stat, { name }]);
}

/** Of `stats`, `stats items`, `stats slabs` and `stats classes` together. */
const GENERAL: ReadonlyMap<string, Known> = new Map([
  ...commandNames("memcached_commands_total", { hits: "hit", misses: "miss" }),
  ["cmd_flush", { name: "memcached_commands_total", labels: { command: "flush", status: "hit" } }],
  ...plain([
    ["uptime", "memcached_uptime_seconds"],
    ["time", "memcached_time_seconds"],
    ["version", "memcached_version"],
    ["rusage_user", "memcached_process_user_cpu_seconds_total"],
    ["rusage_system", "memcached_process_system_cpu_seconds_total"],
    ["max_connections", "memcached_max_connections"],
    ["curr_connections", "memcached_current_connections"],
    ["total_connections", "memcached_connections_total"],
    ["rejected_connections", "memcached_connections_rejected_total"],
    ["conn_yields", "memcached_connections_yielded_total"],
    ["listen_disabled_num", "memcached_connections_listener_disabled_total"],
    ["accepting_conns", "memcached_accepting_connections"],
    ["bytes_read", "memcached_read_bytes_total"],
    ["bytes_written", "memcached_written_bytes_total"],
    ["bytes", "memcached_current_bytes"],
    ["limit_maxbytes", "memcached_limit_bytes"],
    ["total_malloced", "memcached_malloced_bytes"],
    ["curr_items", "memcached_current_items"],
    ["total_items", "memcached_items_total"],
    ["evictions", "memcached_items_evicted_total"],
    ["reclaimed", "memcached_items_reclaimed_total"],
    ["store_too_large", "memcached_item_too_large_total"],
    ["store_no_memory", "memcached_item_no_memory_total"],
    ["direct_reclaims", "memcached_direct_reclaims_total"],
    ["crawler_reclaimed", "memcached_lru_crawler_reclaimed_total"],
    ["crawler_items_checked", "memcached_lru_crawler_items_checked_total"],
    ["moves_to_warm", "memcached_lru_crawler_moves_to_warm_total"],
  ]),
]);

/** Of a slab class. */
const SLAB: ReadonlyMap<string, Known> = new Map([
  ...commandNames("memcached_slab_commands_total", { hits: "hit" }),
  ["hits_to_warm", { name: "memcached_slab_lru_hits_total", labels: { lru: "warm" } }],
  ...plain([
    ["number", "memcached_slab_current_items"],
    ["number_hot", "memcached_slab_hot_items"],
    ["number_warm", "memcached_slab_warm_items"],
    ["age", "memcached_slab_items_age_seconds"],
    ["age_hot", "memcached_slab_hot_age_seconds"],
    ["age_warm", "memcached_slab_warm_age_seconds"],
    ["mem_requested", "memcached_slab_mem_requested_bytes"],
    ["evicted", "memcached_slab_items_evicted_total"],
    ["evicted_nonzero", "memcached_slab_items_evicted_nonzero_total"],
    ["evicted_time", "memcached_slab_items_evicted_time_seconds"],
    ["evicted_unfetched", "memcached_slab_items_evicted_unfetched_total"],
    ["expired_unfetched", "memcached_slab_items_expired_unfetched_total"],
    ["outofmemory", "memcached_slab_items_outofmemory_total"],
    ["reclaimed", "memcached_slab_items_reclaimed_total"],
    ["crawler_reclaimed", "memcached_slab_items_crawler_reclaimed_total"],
    ["moves_to_warm", "memcached_slab_items_moves_to_warm"],
    ["chunk_size", "memcached_slab_chunk_size_bytes"],
    ["chunks_per_page", "memcached_slab_chunks_per_page"],
    ["total_pages", "memcached_slab_current_pages"],
    ["total_chunks", "memcached_slab_current_chunks"],
    ["used_chunks", "memcached_slab_chunks_used"],
    ["free_chunks", "memcached_slab_chunks_free"],
  ]),
]);

/** A metric, and the statistics beside it whose sum is not part of it. */
export interface StatMetric extends Metric {
  readonly less: readonly string[];
}

/** Returns the metric of a statistic of `stats`, or of a slab class. */
export function cacheMetric(stat: Stat): StatMetric {
  const { name, of } = stat;
  const slab: Labels = of === "" ? {} : { slab: of };
  const known = (of === "" ? GENERAL : SLAB).get(name);
  if (known === undefined) {
    return { name: ownName(of === "" ? "leased_" : "leased_slab_", stat), labels: slab, less: [] };
  }
  return {
    name: known.name,
    labels: { ...slab, ...known.labels },
    help: SHARED_HELP[known.name],
    less: known.less ?? [],
  };
}

/** Returns the metric of a statistic of `stats threads`. */
export function threadMetric(stat: Stat): StatMetric {
  return { name: ownName("leased_thread_", stat), labels: { thread: stat.of }, less: [] };
}

/** Returns the metric of a statistic of `stats rows`. */
export function rowMetric(stat: Stat): StatMetric {
  return { name: ownName("leased_rows_", stat), labels: {}, less: [] };
}

/** Returns the metric of a statistic of `stats ops`. */
export function opMetric({ name, of }: Stat): StatMetric {
  return { name: "leased_requests_total", labels: { protocol: of, command: name }, less: [] };
}
