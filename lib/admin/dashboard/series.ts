import {
  countOf,
  type LatencyHistogram,
  quantileUs,
  REQUEST_KINDS,
  sumOfHistograms,
} from "../../../protocol/counts/request_times.ts";
import {
  generalStatistics,
  itemStatistics,
  latencyHistograms,
  slabStatistics,
  threadStatistics,
} from "../../../protocol/statistics.ts";
import type { Stat, StatSource } from "../../../protocol/stats/entry.ts";
import type { Cache } from "../../../store/cache.ts";

/** The figures of the plots at one moment. */
export interface Snapshot {
  readonly atMs: number;
  /** Statistics by name: of `stats`; summed over threads as `thread_…`, and over classes as `class_…`; `rows_…`. */
  readonly stats: ReadonlyMap<string, number>;
  readonly latencies: readonly (readonly [kind: string, histogram: LatencyHistogram])[];
}

/** Counters whose growth by second is plotted. */
const RATES = [
  ...["get_hits", "get_misses", "evictions", "reclaimed", "slabs_moved"],
  ...["bytes_read", "bytes_written", "total_connections", "conn_yields"],
  ...["thread_mutex_waits", "thread_mutex_wait_us", "thread_mutex_held_us"],
  ...["lease_cnt", "lease_hit", "lease_wait_hint", "lease_badval", "strict_refused"],
  ...["token_refused", "token_get", "token_release", "lock_ok", "lock_busy"],
  ...["rows_puts_committed", "rows_puts_refused", "rows_puts_revoked", "rows_puts_failed"],
  ...["rows_puts_unknown", "rows_put_groups", "rows_gets_cacheable", "rows_gets_uncacheable"],
  ...["rows_node_delete_count", "rows_node_delete_us"],
  ...["rows_database_write_count", "rows_database_write_us"],
  ...["rows_database_read_count", "rows_database_read_us", "rows_follow_keys"],
  ...["rows_node_reads", "rows_node_writes", "rows_node_failures"],
  ...["rows_verified_same", "rows_verified_lagging", "rows_verified_unclear"],
  ...["rows_verified_failed", "rows_verified_shed"],
] as const;

/** Statistics that are plotted as they are. */
const GAUGES = [
  ...["bytes", "total_malloced", "limit_maxbytes", "curr_items", "curr_connections"],
  ...["lease_curr", "lock_curr", "lock_waiting", "token_curr", "token_oldest_age"],
  ...["quarantine", "class_evicted_time", "rows_epoch", "rows_uget_unsafe"],
  ...["rows_tokens_idle", "rows_tokens_busy", "rows_tokens_unknown", "rows_tokens_oldest_age"],
  ...["rows_nodes_member", "rows_nodes_silent", "rows_nodes_lost", "rows_node_member"],
  ...["rows_follow_lag_ms", "rows_follow_lag_bytes"],
  ...["rows_verified_stale", "rows_verified_phantom", "rows_verified_wrong_day"],
  ...["rows_verified_nines_day", "rows_verified_quarantine"],
] as const;

const QUANTILES = [["p50_us", 0.5], ["p99_us", 0.99], ["p999_us", 0.999]] as const;

/** The columns of the histories. */
export const COLUMNS: readonly string[] = [
  ...REQUEST_KINDS.map((kind) => `requests_${kind}`),
  ...RATES,
  ...GAUGES,
  ...QUANTILES.map(([name]) => name),
];

/** Reads the statistics. Takes the mutex for some microseconds. */
export function takeSnapshot(
  source: StatSource & { readonly cache: Cache },
  rows: readonly Stat[],
  atMs: number,
): Snapshot {
  const { cache } = source;
  cache.enter();
  try {
    const stats = new Map<string, number>();
    addStats(stats, "", generalStatistics(source));
    addStats(stats, "class_", itemStatistics(source));
    addStats(stats, "", slabStatistics(source));
    addStats(stats, "thread_", threadStatistics(source));
    addStats(stats, "rows_", rows);
    return { atMs, stats, latencies: latencyHistograms(source.times) };
  } finally {
    cache.leave();
  }
}

/** Adds statistics under their names; sums those of classes and threads, of which the age is the least one. */
function addStats(
  stats: Map<string, number>,
  prefix: string,
  statistics: Iterable<Stat | null>,
): void {
  for (const stat of statistics) {
    if (stat === null || (prefix === "" && stat.of !== "")) continue;
    const name = prefix + stat.name;
    const value = Number(stat.value);
    const before = stats.get(name);
    if (name === "class_evicted_time") {
      if (value > 0) stats.set(name, Math.min(value, before ?? Infinity));
    } else if (Number.isFinite(value)) stats.set(name, value + (before ?? 0));
  }
}

/** Returns the numbers of `COLUMNS` between two moments; NaN: unknown. */
export function rowBetween(before: Snapshot, after: Snapshot): number[] {
  const seconds = Math.max(0.001, (after.atMs - before.atMs) / 1000);
  const rate = (now: number, then: number): number =>
    // After `stats reset`, counters begin at 0.
    (now >= then ? now - then : now) / seconds;
  const grown = after.latencies.map(([, now], index) =>
    difference(now, before.latencies[index]![1])
  );
  const all = sumOfHistograms(grown);
  return [
    ...grown.map((histogram) => countOf(histogram) / seconds),
    ...RATES.map((name) => rate(valueOf(after, name), valueOf(before, name))),
    ...GAUGES.map((name) => valueOf(after, name)),
    ...QUANTILES.map(([, share]) => countOf(all) === 0 ? NaN : quantileUs(all, share)),
  ];
}

function valueOf({ stats }: Snapshot, name: string): number {
  return stats.get(name) ?? NaN;
}

/** Returns what a histogram has more than it had; all of it after `stats reset`. */
function difference(now: LatencyHistogram, then: LatencyHistogram): LatencyHistogram {
  const isReset = now.counts.some((count, bucket) => count < then.counts[bucket]!);
  if (isReset) return now;
  return {
    counts: now.counts.map((count, bucket) => count - then.counts[bucket]!),
    sumUs: now.sumUs - then.sumUs,
  };
}
