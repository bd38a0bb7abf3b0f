import type { FlowCounts, Flows } from "./flows/flows.ts";
import type { RowStats } from "./messages.ts";
import { type StepTimes, TIMED_STEPS, type TimedStep } from "./step_times.ts";

/** Counters of the flows, by their names in `stats`. */
const COUNTS: readonly (readonly [name: string, count: keyof FlowCounts])[] = [
  ["gets_cacheable", "readsCacheable"],
  ["gets_uncacheable", "readsUncacheable"],
  ["puts_committed", "writesCommitted"],
  ["puts_refused", "writesRefused"],
  ["puts_revoked", "writesRevoked"],
  ["puts_failed", "writesFailed"],
  ["puts_unknown", "writesUnknown"],
  ["put_groups", "groups"],
  ["cache_errors", "cacheErrors"],
];

/** Returns what `stats` shows of the database thread. */
export function rowStats<Cache>(
  { states, caches, counts, isDeposed }: Flows<Cache>,
  times: Readonly<Record<TimedStep, StepTimes>>,
): RowStats {
  const stats: [name: string, value: number][] = [
    ["epoch", states.epoch],
    ["deposed", isDeposed ? 1 : 0],
    ["caches", caches.all.length],
    ["caches_outside", caches.outside.length],
    ["caches_epoch", caches.epoch],
  ];
  for (const [state, count] of Object.entries(states.counts())) {
    stats.push([`tokens_${state}`, count]);
  }
  for (const [name, count] of COUNTS) stats.push([name, counts[count]]);
  for (const [step, name] of TIMED_STEPS) {
    const { count, sumMs, failures } = times[step];
    stats.push([`${name}_count`, count], [`${name}_us`, Math.round(sumMs * 1000)]);
    stats.push([`${name}_failures`, failures]);
  }
  return stats;
}
