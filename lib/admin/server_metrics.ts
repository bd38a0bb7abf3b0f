import { OpCounts } from "../../protocol/counts/op_counts.ts";
import { bucketBoundUs, countOf, RequestTimes } from "../../protocol/counts/request_times.ts";
import type { Settings } from "../../protocol/settings.ts";
import {
  classStatistics,
  commandStatistics,
  generalStatistics,
  itemStatistics,
  latencyHistograms,
  slabStatistics,
  threadStatistics,
} from "../../protocol/statistics.ts";
import type { Stat, StatSource } from "../../protocol/stats/entry.ts";
import type { ProcessState, SharedState } from "../../protocol/thread_context.ts";
import type { Cache } from "../../store/cache.ts";
import { ConnectionTable } from "../../store/connections.ts";
import { threadRowCount } from "../../store/setup.ts";
import { Exposition } from "./exposition.ts";
import { cacheMetric, opMetric, rowMetric, type StatMetric, threadMetric } from "./metric_names.ts";

type Table = readonly [
  statistics: (source: StatSource) => Iterable<Stat | null>,
  metric: (stat: Stat) => StatMetric,
];

/** The tables of `stats` that are metrics. */
const TABLES: readonly Table[] = [
  [generalStatistics, cacheMetric],
  [itemStatistics, cacheMetric],
  [slabStatistics, cacheMetric],
  [classStatistics, cacheMetric],
  [threadStatistics, threadMetric],
  [commandStatistics, opMetric],
];

/** Source of the admin port's statistics: a thread that serves no connections. */
export interface AdminSource extends StatSource {
  readonly cache: Cache;
}

/** @param cache The calling thread's. */
export function statSource(
  cache: Cache,
  shared: SharedState,
  settings: Settings,
  processState: () => ProcessState,
): AdminSource {
  const thread = threadRowCount(shared.memory.options) - 1;
  const times = new RequestTimes(shared.times, thread);
  return {
    cache,
    settings,
    connections: new ConnectionTable(shared.memory.connections),
    times,
    ops: new OpCounts(shared.ops, thread, times),
    hooks: { processState },
  };
}

/**
 * Returns a function that renders the server's statistics as metrics.
 *
 * @param rowStats Returns the statistics of `stats rows`.
 */
export function serverMetrics(
  source: AdminSource,
  rowStats: () => readonly Stat[] = () => [],
): () => string {
  const { cache, settings, times } = source;
  return () => {
    const exposition = new Exposition();
    const { version, runtime } = settings;
    addConstant(exposition, "memcached_up", "1: the server answers", {});
    addConstant(exposition, "leased_build_info", "version and runtime", { version, runtime });
    for (const [statistics, metric] of TABLES) {
      for (const group of groupsOf(statistics(source), cache)) addGroup(exposition, group, metric);
    }
    addLatencies(exposition, times);
    addGroup(exposition, rowStats(), rowMetric);
    return exposition.text();
  };
}

/** Buckets of `/metrics` are powers of two: the last one of each eight of `RequestTimes`, which has finer ones. */
const BUCKETS_EACH = 8;

function addLatencies(exposition: Exposition, times: RequestTimes): void {
  const help = "seconds: from the read of a request to the sending of its reply, by kind";
  for (const [kind, { counts, sumUs }] of latencyHistograms(times)) {
    const starts = counts.keys().filter((bucket) => bucket % BUCKETS_EACH === 0).toArray();
    exposition.addHistogram(
      { name: "leased_request_duration_seconds", labels: { kind }, help },
      {
        boundsMs: starts.slice(0, -1).map((at) => bucketBoundUs(at + BUCKETS_EACH - 1) / 1000),
        counts: starts.map((at) => countOf({ counts: counts.slice(at, at + BUCKETS_EACH) })),
        sumMs: sumUs / 1000,
      },
    );
  }
}

function addConstant(
  exposition: Exposition,
  name: string,
  help: string,
  labels: Readonly<Record<string, string>>,
): void {
  exposition.add("gauge", { name, help, labels }, 1);
}

/** Yields the statistics up to each null, read together under the mutex. */
function* groupsOf(statistics: Iterable<Stat | null>, cache: Cache): Generator<Stat[]> {
  const iterator = statistics[Symbol.iterator]();
  for (let isDone = false; !isDone;) {
    const group: Stat[] = [];
    cache.enter();
    try {
      for (;;) {
        const { done, value } = iterator.next();
        isDone = done === true;
        if (isDone || value === null) break;
        group.push(value);
      }
    } finally {
      cache.leave();
    }
    yield group;
  }
}

function addGroup(
  exposition: Exposition,
  group: readonly Stat[],
  metricOf: (stat: Stat) => StatMetric,
): void {
  for (const stat of group) {
    const metric = metricOf(stat);
    const others = group.filter(({ name }) => metric.less.includes(name));
    const less = others.reduce((sum, { value }) => sum + Number(value), 0);
    exposition.addStat(less === 0 ? stat : { ...stat, value: Number(stat.value) - less }, metric);
  }
}
