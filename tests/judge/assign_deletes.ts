import type { Cluster } from "./cluster.ts";
import type { Operation } from "./operation.ts";

/**
 * Gives each absence that was read a deletion that may have made it, each at most once: the earliest deletion to the
 * absence of which a read ends first, and so on. If that contradicts something, every choice does:
 * docs/internals/judge.md says why.
 *
 * @param unmade Get a write each, while there are deletions left.
 * @param deletes Of unknown outcome, or without a version.
 */
export function assignDeletes(unmade: readonly Cluster[], deletes: readonly Operation[]): void {
  const ordered = unmade.toSorted((one, other) => one.firstEnd - other.firstEnd);
  const starting = deletes.toSorted((one, other) => one.start - other.start);
  for (const [index, write] of starting.entries()) ordered[index]?.assumeWrite(write);
}
