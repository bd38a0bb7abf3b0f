// Uses nothing of the judge but the form of its histories.
import type { Operation } from "./operation.ts";

/** A state of the row, by the write that made it; null: the one before all writes. */
type State = Operation | null;

/**
 * Tries all orders of the operations on one key, and of the writes of unknown outcome that take effect: the slow way to
 * know whether they are those of an atomic register. Every state has at most one version, and every version is of one
 * state.
 */
export function hasAnOrder(operations: readonly Operation[]): boolean {
  const counted = operations.filter(({ operation, outcome }) =>
    operation === "get" ? outcome === "ok" : outcome !== "failed"
  );
  const versions = new Map<number, State>([[0, null]]);
  for (const each of counted) {
    if (each.operation === "get" || each.version === null) continue;
    if (versions.has(each.version)) return false;
    versions.set(each.version, each);
  }
  return continues(counted, null, versions);
}

/** Whether the operations that are left can go on from a state. @param versions Of all states, as far as known. */
function continues(
  left: readonly Operation[],
  state: State,
  versions: ReadonlyMap<number, State>,
): boolean {
  const mustEnd = left.filter(({ outcome }) => outcome === "ok");
  if (mustEnd.length === 0) return true;
  return left.some((next) => {
    if (mustEnd.some((other) => other !== next && other.end! < next.start)) return false;
    const rest = left.filter((other) => other !== next);
    if (next.operation !== "get") return continues(rest, next, versions);
    if (next.value !== (state?.value ?? null)) return false;
    if (next.version === null) return continues(rest, state, versions);
    const owner = versions.get(next.version);
    if (owner !== undefined) return owner === state && continues(rest, state, versions);
    const hasOther = state === null || [...versions.values()].includes(state);
    return !hasOther && continues(rest, state, new Map([...versions, [next.version, state]]));
  });
}
