import { EVERY_ROW, everyKeyOf, splitKeys } from "../../databases/views/key_range.ts";
import { type RowFlow, step } from "./steps.ts";

/** Keys deleted together. */
const GROUP_MAX = 1000;

/** How many nodes may have rows. */
interface Nodes {
  readonly size: number;
}

const NO_NODES: Nodes = { size: 0 };

/**
 * Deletes keys that another writer has changed, here and in every node that may have them. The change must be visible
 * to reads that begin now: a read that began before loses its lease, so it fills nothing.
 *
 * @param keys Also what stands for all keys with a prefix: `everyKeyOf`.
 */
export function* expelKeys(keys: readonly string[], nodes: Nodes = NO_NODES): RowFlow<void> {
  const { keys: single, prefixes } = splitKeys(keys);
  if (prefixes.length > 0) {
    yield* step({ kind: "expelPrefixesHere", prefixes });
    yield* invalidateNodes(nodes, prefixes.map(everyKeyOf));
  }
  for (let at = 0; at < single.length; at += GROUP_MAX) {
    const group = single.slice(at, at + GROUP_MAX);
    yield* step({ kind: "expelHere", keys: group });
    yield* invalidateNodes(nodes, group);
  }
}

/** Removes everything here, and all rows from every node. */
export function* emptyAll(nodes: Nodes = NO_NODES): RowFlow<void> {
  yield* step({ kind: "emptyHere" });
  yield* invalidateNodes(nodes, [EVERY_ROW]);
}

/** A node that joins later has no rows. */
function* invalidateNodes(nodes: Nodes, keys: readonly string[]): RowFlow<void> {
  if (nodes.size > 0) yield* step({ kind: "invalidateNodes", keys });
}
