import type { KeySet } from "../../databases/views/key_set.ts";
import { type RowFlow, step } from "./steps.ts";

/** Keys deleted together. */
const GROUP_MAX = 1000;

/**
 * Deletes rows that another writer has changed, in every place that may have them. The change must be visible to reads
 * that begin now: a read that began before loses its lease, so it fills nothing.
 */
export function* expel({ keys, prefixes }: KeySet): RowFlow<void> {
  if (prefixes.length > 0) yield* step({ kind: "delete", keys: [], prefixes });
  for (let at = 0; at < keys.length; at += GROUP_MAX) {
    yield* step({ kind: "delete", keys: keys.slice(at, at + GROUP_MAX), prefixes: [] });
  }
}
