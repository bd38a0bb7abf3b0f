import {
  counter,
  gauge,
  type Stat,
  stat,
  type StatMeaning,
} from "../../../protocol/stats/entry.ts";
import type { Meter, MeterCounts } from "./meter.ts";
import { ninesOf } from "./window.ts";

// deno-fmt-ignore
const COUNTS: readonly (readonly [name: string, of: keyof MeterCounts, meaning: string])[] = [
  ["verified_same",    "same",    "compared with the database, and right"],
  ["verified_lagging", "lagging", "compared, and behind the log by less than --lag-max, or within their max-age"],
  ["verified_stale",   "stale",   "compared, and older than the database"],
  ["verified_phantom", "phantom", "compared, and newer than the database"],
  ["verified_unclear", "unclear", "that cannot be compared: they change too often, or their query has another result each time"],
  ["verified_failed",  "failed",  "that the database did not answer for, or whose log was not applied in time"],
  ["verified_shed",    "shed",    "not compared: the database has worked enough for samples"],
];

const LAG = gauge(
  "milliseconds",
  "that a lagging value was behind at most, since it was looked at",
);
const BUSY = counter(
  "milliseconds",
  "that samples have taken, the answers of the database included: more CPU time it is not",
);
const QUARANTINE = gauge("", "1: values were wrong, and no row is cached");
const HOUR = gauge("values", "compared in the last hour");
const DAY = gauge("values", "compared in the last day");
const WRONG_DAY = gauge("values", "of the last day that were stale or phantom");
const NINES_HOUR = gauge("", "nines that the last hour proves, with 95 % confidence");
const NINES_DAY = gauge("", "nines that the last day proves, with 95 % confidence");

/** Returns the statistics of `--verify`: lines of `stats rows`, and metrics. */
export function meterStats(
  { counts, window, lagMsMax, busyMs }: Meter,
  isQuarantined: boolean,
): Stat[] {
  const { hour, day } = window;
  const count = (meaning: string): StatMeaning => counter("values", meaning);
  return [
    ...COUNTS.map(([name, of, meaning]) => stat(name, counts[of], count(meaning))),
    stat("verified_lag_ms", lagMsMax, LAG),
    stat("verified_busy_ms", Math.round(busyMs), BUSY),
    stat("verified_hour", hour.compared, HOUR),
    stat("verified_day", day.compared, DAY),
    stat("verified_wrong_day", day.stale, WRONG_DAY),
    stat("verified_nines_hour", ninesOf(hour), NINES_HOUR),
    stat("verified_nines_day", ninesOf(day), NINES_DAY),
    stat("verified_quarantine", isQuarantined ? 1 : 0, QUARANTINE),
  ];
}
