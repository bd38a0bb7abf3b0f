import { counter, gauge, type Stat, type StatMeaning } from "../../../protocol/stats/entry.ts";
import type { Follower } from "./follower.ts";

/** Yields the statistics of `--follow`: lines of `stats rows`, and metrics. */
export function* followStats(follower: Follower): Generator<Stat> {
  const { counts } = follower;
  yield stat(
    "follow_lag_ms",
    follower.lagMs,
    gauge("milliseconds", "since a moment whose changes are all applied"),
  );
  yield stat(
    "follow_lag_bytes",
    follower.lagBytes,
    gauge("bytes", "of the database's log that are not applied"),
  );
  yield stat(
    "follow_retained_bytes",
    follower.retainedBytes,
    gauge("bytes", "of the log that the database keeps for this server"),
  );
  yield stat(
    "follow_position",
    Number(follower.position),
    gauge("", "in the log, up to which changes are applied"),
  );
  yield stat("follow_changes", counts.changes, counter("changes", "of rows in the log"));
  yield stat("follow_keys", counts.keys, counter("keys", "deleted for changes in the log"));
  yield stat(
    "follow_floods",
    counts.floods,
    counter("times", "all was emptied for many changes together"),
  );
  yield stat(
    "follow_gaps",
    counts.gaps,
    counter("times", "all was emptied because changes may be missing"),
  );
  yield stat(
    "follow_retries",
    counts.retries,
    counter("times", "a cache did not confirm a deletion, which was repeated"),
  );
}

function stat(name: string, value: number, meaning: StatMeaning): Stat {
  return { name, value, meaning, of: "" };
}
