// The lines of `stats rows`: each has its own number.
import { assertEquals } from "@std/assert";
import type { Flows } from "../../../../lib/rows/flows/flows.ts";
import type { Follower } from "../../../../lib/rows/follow/follower.ts";
import { rowStats } from "../../../../lib/rows/origin/row_stats.ts";
import { TIMED_STEPS, type TimedStep } from "../../../../lib/rows/origin/step_times.ts";

const COUNTS = {
  readsCacheable: 101,
  readsUncacheable: 102,
  writesCommitted: 103,
  writesRefused: 104,
  writesRevoked: 105,
  writesFailed: 106,
  writesUnknown: 107,
  groups: 108,
};
const FLOWS = {
  states: {
    epoch: 11,
    counts: () => ({ idle: 1, busy: 2, unknown: 3, used: 4, revoked: 5 }),
    oldestAgeSec: () => 12,
  },
  ugetKeys: { unsafe: 13 },
  counts: COUNTS,
  isDeposed: false,
};
const TIMES = Object.fromEntries(TIMED_STEPS.map(([step], index) => [
  step,
  { count: 10 * index + 1, sumMs: (10 * index + 2) / 1000 + 0.0004, failures: 10 * index + 3 },
])) as Record<TimedStep, { count: number; sumMs: number; failures: number }>;
const NODES = ["member", "member", "silent", "silent", "silent", "lost"].map((state) => ({
  name: "n",
  state: state as "member" | "silent" | "lost",
  ageMs: 0,
  fetched: 0,
}));

function statsOf(
  changed: object,
  views: { size: number; broken: readonly unknown[]; counts: { reads: number; problems: number } },
  follower?: object,
): Record<string, unknown> {
  const flows = { ...FLOWS, ...changed } as unknown as Flows;
  const executed = { times: TIMES, views } as unknown as Parameters<typeof rowStats>[1];
  const stats = [...rowStats(flows, executed, NODES, follower as Follower | undefined)];
  assertEquals(new Set(stats.map(({ name }) => name)).size, stats.length);
  return Object.fromEntries(stats.map(({ name, value }) => [name, value]));
}

const NO_VIEWS = { size: 0, broken: [], counts: { reads: 0, problems: 0 } };

Deno.test("an origin's numbers stand under their names", () => {
  const stats = statsOf({}, NO_VIEWS);
  const wanted = {
    ...{ epoch: 11, deposed: 0, nodes_member: 2, nodes_silent: 3, nodes_lost: 1 },
    ...{ tokens_idle: 1, tokens_busy: 2, tokens_unknown: 3, tokens_used: 4, tokens_revoked: 5 },
    ...{ tokens_oldest_age: 12, gets_cacheable: 101, gets_uncacheable: 102 },
    ...{ puts_committed: 103, puts_refused: 104, puts_revoked: 105, puts_failed: 106 },
    ...{ puts_unknown: 107, put_groups: 108, uget_unsafe: 13 },
  };
  for (const [name, value] of Object.entries(wanted)) assertEquals(stats[name], value, name);
  for (const [index, [, name]] of TIMED_STEPS.entries()) {
    const [count, us, failures] = [1, 2, 3].map((more) => 10 * index + more);
    assertEquals(stats[`${name}_count`], count);
    assertEquals(stats[`${name}_us`], us, name);
    assertEquals(stats[`${name}_failures`], failures);
  }
  assertEquals(Object.keys(stats).filter((name) => /^(?:follow|view)/.test(name)), []);
  assertEquals(statsOf({ isDeposed: true }, NO_VIEWS)["deposed"], 1);
});

Deno.test("numbers of the log and of views stand there when there are any", () => {
  const counts = { changes: 1, keys: 2, floods: 3, gaps: 4 };
  const follower = {
    counts,
    lagMs: 6,
    lagBytes: 7,
    retainedBytes: 8,
    isUnbounded: true,
    position: 2n ** 40n,
  };
  const stats = statsOf(
    {},
    { size: 9, broken: [1, 2], counts: { reads: 10, problems: 11 } },
    follower,
  );
  const names = Object.keys(stats).filter((name) => /^(?:follow|view)/.test(name));
  assertEquals(Object.fromEntries(names.map((name) => [name, stats[name]])), {
    ...{ follow_lag_ms: 6, follow_lag_bytes: 7, follow_retained_bytes: 8 },
    ...{
      follow_unbounded: 1,
      follow_position: 2 ** 40,
      follow_changes: 1,
      follow_keys: 2,
      follow_floods: 3,
    },
    ...{ follow_gaps: 4, views: 9, views_broken: 2, view_reads: 10, view_problems: 11 },
  });
});
