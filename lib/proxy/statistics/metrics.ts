import { type Durations, Exposition, type Metric, ownName } from "../../admin/exposition.ts";
import type { Stat } from "../../../protocol/stats/entry.ts";
import type { Proxy } from "../proxy.ts";
import { proxyStatistics } from "./statistics.ts";
import { BOUNDS_MS, TIMED_STEPS } from "./step_times.ts";

/** Statistics that are one metric with a label: how their names begin, the metric, its label, its meaning. */
const LABELLED: readonly (readonly [start: string, name: string, label: string, help: string])[] = [
  ["tokens_", "leased_proxy_tokens", "state", "tokens: update tokens by state"],
  ["puts_", "leased_proxy_puts_total", "result", "writes: by what became of them"],
  [
    "gets_",
    "leased_proxy_gets_total",
    "mark",
    "reads: of the database, by whether caches may keep them",
  ],
];

/** Renders the proxy's statistics as metrics. */
export function proxyMetrics(proxy: Proxy, version: string): string {
  const exposition = new Exposition();
  const build = { name: "leased_build_info", help: "version", labels: { version } };
  exposition.add("gauge", build, 1);
  for (const stat of proxyStatistics(proxy)) exposition.addStat(stat, metricOf(stat));
  for (const [step, name, meaning] of TIMED_STEPS) {
    const { counts, sumMs, failures } = proxy.times[step];
    const durations: Durations = { boundsMs: BOUNDS_MS, counts, sumMs };
    const metric = `leased_proxy_${name}`;
    const help = `seconds: ${meaning}`;
    exposition.addHistogram({ name: `${metric}_duration_seconds`, labels: {}, help }, durations);
    const failed = { name: `${metric}_failures_total`, labels: {}, help: `${meaning} that failed` };
    exposition.add("counter", failed, failures);
  }
  return exposition.text();
}

function metricOf(stat: Stat): Metric {
  const row = LABELLED.find(([start]) => stat.name.startsWith(start));
  if (row === undefined) return { name: ownName("leased_proxy_", stat), labels: {} };
  const [start, name, label, help] = row;
  return { name, labels: { [label]: stat.name.slice(start.length) }, help };
}
