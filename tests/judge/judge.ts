import { type Cluster, endOf } from "./cluster.ts";
import { clustersOfKey, type Violation } from "./clusters_of_key.ts";
import { type Operation, operationText, quoted, valueText } from "./operation.ts";
import { type Contradiction, contradictionsOf } from "./zones.ts";

export type { Violation } from "./clusters_of_key.ts";

/** Contradictions of a key of which the shortest is shown. */
const COMPARED_MAX = 100;

/** What became of a history. */
export interface Verdict {
  readonly keys: number;
  readonly operations: number;
  /** Reads that may have met one absence or another: only a value that was there meanwhile contradicts them. */
  readonly unclear: number;
  /** Reads that say nothing, as they have not ended well. */
  readonly leftOut: number;
  /** Those that are wrong by themselves, of each key; of a key without such, the shortest contradiction. */
  readonly violations: readonly Violation[];
}

/**
 * Decides whether each key of a history is an atomic register: whether its operations have an order, in which one that
 * ended before another started comes first, and in which each read returns what the write before it has written.
 *
 * @throws {HistoryError} When two writes of a key have the same value.
 */
export function judge(operations: readonly Operation[]): Verdict {
  const byKey = Map.groupBy(operations, ({ key }) => key);
  const violations: Violation[] = [];
  let [unclear, leftOut] = [0, 0];
  for (const [key, ofKey] of byKey) {
    const grouped = clustersOfKey(key, ofKey);
    unclear += grouped.unclear.length;
    leftOut += grouped.leftOut;
    if (grouped.violations.length > 0) violations.push(...grouped.violations);
    else violations.push(...shortest(key, contradictionsOf(grouped.clusters, grouped.unclear)));
  }
  return { keys: byKey.size, operations: operations.length, unclear, leftOut, violations };
}

/** Returns a violation as lines for people. */
export function violationText({ key, reason, operations }: Violation): string {
  return [`key ${quoted(key)}: ${reason}`, ...operations.map(operationText)].join("\n  ");
}

/** Returns the contradiction that needs the fewest operations, the earliest of those; none if there is none. */
function shortest(key: string, contradictions: readonly Contradiction[]): Violation[] {
  return contradictions.slice(0, COMPARED_MAX).map((each) => explain(key, each))
    .sort(({ operations: one }, { operations: other }) =>
      one.length - other.length || one.at(-2)!.start - other.at(-2)!.start
    )
    .slice(0, 1);
}

/** Returns operations that show why each of two states must come before the other. */
function explain(key: string, [one, other]: Contradiction): Violation {
  for (const [outer, inner] of [[one, other], [other, one]] as const) {
    const between = inner.operations().find((operation) =>
      outer.firstEnd < operation.start && endOf(operation) < outer.lastStart
    );
    if (between === undefined) continue;
    const [last, then] = [lastOf(outer), valueText(between.value)];
    const [first, again] = [valueText(last.value), outer.isInitial ? "as before all" : "again"];
    return {
      key,
      reason: `${first}, then ${then}, then ${first} ${again}`,
      operations: [...firstOf(outer), between, last],
    };
  }
  const pairs = [...firstOf(one), lastOf(other), ...firstOf(other), lastOf(one)];
  const [first, second] = [one, other].map((cluster) => valueText(lastOf(cluster).value));
  return { key, reason: `${first} before ${second}, ${second} before ${first}`, operations: pairs };
}

/** Returns the operation that ends first; none if that is the write before the history. */
function firstOf(cluster: Cluster): Operation[] {
  const first = cluster.operations().find((operation) => endOf(operation) === cluster.firstEnd);
  return first === undefined ? [] : [first];
}

/** Returns the operation that starts last. */
function lastOf(cluster: Cluster): Operation {
  return cluster.operations().find(({ start }) => start === cluster.lastStart)!;
}
