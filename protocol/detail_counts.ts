import type { KeyBytes } from "../store/base/bytes.ts";
import { Outcome } from "../store/outcome.ts";
import type { RequestThread } from "./thread_context.ts";

// Hot path: no allocation.

// `stats detail` counts a write with its outcome. A parked one has none: it is executed once more.

/** Counts a store for `stats detail`. @param outcome Or a `Block`: the value arrives later. */
export function countStore(
  { tunables, prefixes }: RequestThread,
  key: KeyBytes,
  outcome: number,
): void {
  if (tunables.detailEnabled && outcome !== Outcome.PARKED) prefixes.countSet(key);
}

/** Counts a deletion for `stats detail`. */
export function countDeletion(
  { tunables, prefixes }: RequestThread,
  key: KeyBytes,
  outcome: Outcome,
): void {
  if (tunables.detailEnabled && outcome !== Outcome.PARKED) prefixes.countDelete(key);
}
