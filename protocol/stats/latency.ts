import {
  bucketBoundUs,
  countOf,
  type LatencyHistogram,
  quantileUs,
  REQUEST_KINDS,
  type RequestTimes,
  sumOfHistograms,
} from "../counts/request_times.ts";
import { counter, gauge, linesOf, type Stat, type StatEntry, type StatSource } from "./entry.ts";

const COUNT = counter("requests", "answered");
const MEAN = gauge("microseconds", "mean latency");

/** The shares of requests whose latencies are shown, by name. */
const QUANTILES = { p50: 0.5, p90: 0.9, p99: 0.99, p999: 0.999 } as const;

/** The latency that the requests of a share stay below. */
const QUANTILE = gauge("microseconds", "latency that this share of the requests stays below");
const MAX = gauge("microseconds", "upper bound of the longest latency");

/** Returns the histogram of each kind of request. */
export function latencyHistograms(
  times: RequestTimes,
): readonly (readonly [kind: string, histogram: LatencyHistogram])[] {
  return REQUEST_KINDS.map((kind, index) => [kind, times.histogram(index)]);
}

/** The statistics of `stats latency`: of each kind of request, and of all. */
export function* latencyStatistics({ times }: Pick<StatSource, "times">): Generator<Stat> {
  const kinds = latencyHistograms(times);
  const all = sumOfHistograms(kinds.map(([, histogram]) => histogram));
  for (const [of, histogram] of [["all", all] as const, ...kinds]) {
    const count = countOf(histogram);
    const meanUs = count === 0 ? 0 : Math.round(histogram.sumUs / count);
    yield { name: "count", value: count, meaning: COUNT, of };
    yield { name: "mean_us", value: meanUs, meaning: MEAN, of };
    for (const [name, share] of Object.entries(QUANTILES)) {
      const value = quantileUs(histogram, share);
      yield { name: `${name}_us`, value, meaning: QUANTILE, of };
    }
    const longest = histogram.counts.findLastIndex((inBucket) => inBucket > 0);
    yield { name: "max_us", value: longest < 0 ? 0 : bucketBoundUs(longest), meaning: MAX, of };
  }
}

/** `stats latency`: how long requests took, by kind. */
export function latencyStats(thread: Pick<StatSource, "times">): Generator<StatEntry> {
  return linesOf(latencyStatistics(thread), (of, name) => `${of}:${name}`);
}
