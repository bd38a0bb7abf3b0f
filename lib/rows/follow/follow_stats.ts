import { counter, gauge, type Stat, stat } from "../../../protocol/stats/entry.ts";
import type { Follower } from "./follower.ts";

const LAG_MS = gauge("milliseconds", "since all changes were known to be applied");
const LAG_BYTES = gauge("bytes", "of the database's log that are not applied");
const RETAINED = gauge("bytes", "of the log that the database keeps for this server");
const UNBOUNDED = gauge("", "1: the database keeps its log without bound while no server reads it");
const POSITION = gauge("", "in the log, up to which changes are applied");
const CHANGES = counter("changes", "of rows in the log");
const KEYS = counter("keys", "deleted for changes in the log");
const FLOODS = counter("times", "all cached rows were deleted for many changes together");
const GAPS = counter("times", "all cached rows were deleted because changes may be missing");

/** Returns the statistics of `--follow`: lines of `stats rows`, and metrics. */
export function followStats(follower: Follower): Stat[] {
  const { counts } = follower;
  return [
    stat("follow_lag_ms", follower.lagMs, LAG_MS),
    stat("follow_lag_bytes", follower.lagBytes, LAG_BYTES),
    stat("follow_retained_bytes", follower.retainedBytes, RETAINED),
    stat("follow_unbounded", Number(follower.isUnbounded), UNBOUNDED),
    stat("follow_position", Number(follower.position), POSITION),
    stat("follow_changes", counts.changes, CHANGES),
    stat("follow_keys", counts.keys, KEYS),
    stat("follow_floods", counts.floods, FLOODS),
    stat("follow_gaps", counts.gaps, GAPS),
  ];
}
