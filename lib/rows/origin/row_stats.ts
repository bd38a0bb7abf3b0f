import { counter, gauge, type Stat, stat } from "../../../protocol/stats/entry.ts";
import type { Unit } from "../../../store/stats.ts";
import type { ActiveViews } from "./active_views.ts";
import type { FlowCounts, Flows } from "../flows/flows.ts";
import type { NodeState } from "../flows/node_list.ts";
import type { TokenState } from "../flows/token_states.ts";
import { followStats } from "../follow/follow_stats.ts";
import type { Follower } from "../follow/follower.ts";
import { type StepTimes, TIMED_STEPS, type TimedStep } from "./step_times.ts";

type Row<Name> = readonly [name: string, of: Name, unit: Unit, meaning: string];

/** Counters of the flows. */
// deno-fmt-ignore
const COUNTS: readonly Row<keyof FlowCounts>[] = [
  ["gets_cacheable",   "readsCacheable",   "reads",        "of the database that a cache may keep"],
  ["gets_uncacheable", "readsUncacheable", "reads",        "of the database that no cache may keep"],
  ["puts_committed",   "writesCommitted",  "writes",       "committed"],
  ["puts_refused",     "writesRefused",    "writes",       "whose condition was false"],
  ["puts_revoked",     "writesRevoked",    "writes",       "whose update token was revoked"],
  ["puts_failed",      "writesFailed",     "writes",       "that wrote nothing: the database failed, or the row was locked"],
  ["puts_unknown",     "writesUnknown",    "writes",       "whose outcome the database did not say in time"],
  ["put_groups",       "groups",           "transactions", "of writes"],
];

/** Update tokens. */
const TOKENS: readonly Row<TokenState>[] = [
  ["tokens_idle", "idle", "tokens", "whose writers have not written"],
  ["tokens_busy", "busy", "tokens", "whose writes are in progress"],
  ["tokens_unknown", "unknown", "tokens", "whose writes have no known outcome"],
  ["tokens_used", "used", "tokens", "that have ended with their write, and are remembered"],
  ["tokens_revoked", "revoked", "tokens", "that were revoked, and are remembered"],
];

/** States of nodes. */
const NODES: readonly Row<NodeState["state"]>[] = [
  ["nodes_member", "member", "nodes", "that may serve rows"],
  ["nodes_silent", "silent", "nodes", "whose time is over"],
  ["nodes_lost", "lost", "nodes", "that a write went on without, and that have not joined again"],
];

/** The executor of the flows. */
interface Executed {
  readonly times: Readonly<Record<TimedStep, StepTimes>>;
  readonly views: ActiveViews;
}

/** Yields the statistics of the database thread: the lines of `stats rows`, and metrics. */
export function* rowStats(
  { states, counts, ugetKeys, isDeposed }: Flows,
  { times, views }: Executed,
  nodes: readonly NodeState[],
  follower?: Follower,
): Generator<Stat> {
  yield stat("epoch", states.epoch, gauge("", "number of this takeover of the database"));
  yield stat("deposed", isDeposed ? 1 : 0, gauge("", "1: another origin has taken over"));
  for (const [name, of, unit, meaning] of NODES) {
    yield stat(name, nodes.filter(({ state }) => state === of).length, gauge(unit, meaning));
  }
  const tokens = states.counts();
  for (const [name, of, unit, meaning] of TOKENS) {
    yield stat(name, tokens[of], gauge(unit, meaning));
  }
  const age = gauge("seconds", "age of the oldest update token that is idle, busy or unknown");
  yield stat("tokens_oldest_age", states.oldestAgeSec(), age);
  for (const [name, of, unit, meaning] of COUNTS) {
    yield stat(name, counts[of], counter(unit, meaning));
  }
  const unsafe = counter(
    "changes",
    "of keys that clients may have cached since uget, and did not delete",
  );
  yield stat("uget_unsafe", ugetKeys.unsafe, unsafe);
  for (const [step, name, meaning] of TIMED_STEPS) {
    const { count, sumMs, failures } = times[step];
    yield stat(`${name}_count`, count, counter("times", meaning));
    yield stat(`${name}_us`, Math.round(sumMs * 1000), counter("microseconds", meaning));
    yield stat(`${name}_failures`, failures, counter("failures", meaning));
  }
  if (follower !== undefined) yield* followStats(follower);
  yield* viewStats(views);
}

function* viewStats({ size, broken, counts }: ActiveViews): Generator<Stat> {
  if (size === 0) return;
  yield stat("views", size, gauge("views", "of the file of views"));
  const unfit = gauge("views", "that do not fit the schema any more: nothing of them is cached");
  yield stat("views_broken", broken.length, unfit);
  yield stat("view_reads", counts.reads, counter("keys", "of views that queries were run for"));
  yield stat("view_problems", counts.problems, counter("keys", "of views whose queries failed"));
}
