import type { Cluster } from "./cluster.ts";

/** Two clusters of which each must come before the other. */
export type Contradiction = readonly [Cluster, Cluster];

/**
 * Returns contradictions between clusters; none: their operations have an order in which each read returns the write
 * before it. This is the theorem of Gibbons and Korach: no two forward zones overlap, and no backward zone lies in a
 * forward one. docs/internals/judge.md proves it. Clusters whose write starts after a read has ended are not for it.
 *
 * @param unclear Of absences of which nobody knows to which cluster they belong: they may lie in that of an absence.
 */
export function contradictionsOf(
  clusters: readonly Cluster[],
  unclear: readonly Cluster[] = [],
): Contradiction[] {
  const contradictions: Contradiction[] = [];
  const forward = clusters.filter(({ isForward }) => isForward)
    .sort((one, other) => one.firstEnd - other.firstEnd || one.lastStart - other.lastStart);
  for (const [index, zone] of forward.entries()) {
    const before = forward[index - 1];
    if (before !== undefined && zone.firstEnd < before.lastStart) {
      contradictions.push([before, zone]);
    }
  }
  const outerOf = (zone: Cluster): Cluster | null => {
    const outer = forward[firstAtOrAfter(forward, zone.lastStart) - 1];
    return outer !== undefined && zone.firstEnd < outer.lastStart ? outer : null;
  };
  for (const zone of clusters) {
    const outer = zone.isForward ? null : outerOf(zone);
    if (outer !== null) contradictions.push([outer, zone]);
  }
  for (const zone of unclear) {
    const outer = outerOf(zone);
    if (outer !== null && !outer.isAbsence) contradictions.push([outer, zone]);
  }
  return contradictions;
}

/** Returns the index of the first zone that begins at the moment or later: those before it begin earlier. */
function firstAtOrAfter(forward: readonly Cluster[], moment: number): number {
  let [low, high] = [0, forward.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (forward[middle]!.firstEnd < moment) low = middle + 1;
    else high = middle;
  }
  return low;
}
