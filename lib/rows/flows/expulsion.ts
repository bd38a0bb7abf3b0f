import type { CacheList } from "./cache_list.ts";
import { EVERY_ROW, everyKeyOf, splitKeys } from "../../databases/views/key_range.ts";
import { CacheError, type Flow, step } from "./steps.ts";

/** Keys deleted together. */
const GROUP_MAX = 1000;

/** How many nodes may have rows. */
interface Nodes {
  readonly size: number;
}

const NO_NODES: Nodes = { size: 0 };

/**
 * Deletes keys that another writer has changed, here and in every cache and node that may hold them. The change must be
 * visible to reads that begin now: a read that began before loses its lease, so it fills nothing.
 *
 * @param keys Also what stands for all keys with a prefix: `everyKeyOf`.
 * @returns Why a cache did not confirm, and the keys that are left; null: all have answered. To be repeated: a cache
 *   that leaves the list during it is asked no more.
 */
export function* expelKeys<Cache>(
  caches: CacheList<Cache>,
  keys: readonly string[],
  nodes: Nodes = NO_NODES,
): Flow<Cache, Failure | null> {
  const left: string[] = [];
  let reason = "";
  const { keys: single, prefixes } = splitKeys(keys);
  if (prefixes.length > 0) {
    const failure = yield* expelPrefixes(caches, prefixes, nodes);
    if (failure !== null) {
      reason = failure;
      left.push(...prefixes.map(everyKeyOf));
    }
  }
  for (let at = 0; at < single.length; at += GROUP_MAX) {
    const group = single.slice(at, at + GROUP_MAX);
    yield* step({ kind: "expelHere", keys: group });
    // A node that joins later has no rows.
    if (nodes.size > 0) yield* step({ kind: "invalidateNodes", keys: group });
    // Taken after the deletion here: a cache that joins was emptied after the change.
    const { all } = caches;
    if (all.length === 0) continue;
    const errors = yield* step({ kind: "invalidateListed", caches: all, keys: group });
    for (const [index, error] of errors.entries()) {
      if (error === null) continue;
      reason = error;
      left.push(group[index]!);
    }
  }
  return left.length === 0 ? null : { reason, left };
}

/** Deletes all keys with these prefixes, as `expelKeys` does. @returns Why a cache did not; null: all have. */
function* expelPrefixes<Cache>(
  caches: CacheList<Cache>,
  prefixes: readonly string[],
  nodes: Nodes,
): Flow<Cache, string | null> {
  yield* step({ kind: "expelPrefixesHere", prefixes });
  if (nodes.size > 0) yield* step({ kind: "invalidateNodes", keys: prefixes.map(everyKeyOf) });
  // A listed cache knows no prefixes: it is emptied.
  return yield* emptyListed(caches);
}

/**
 * Removes everything, here and from every cache that may hold rows, and all rows from every node. No change of the list
 * may be in progress.
 *
 * @returns Why a cache could not be emptied; null: all are empty. To be repeated.
 */
export function* emptyAll<Cache>(
  caches: CacheList<Cache>,
  nodes: Nodes = NO_NODES,
): Flow<Cache, string | null> {
  yield* step({ kind: "emptyHere" });
  if (nodes.size > 0) yield* step({ kind: "invalidateNodes", keys: [EVERY_ROW] });
  return yield* emptyListed(caches);
}

/** Empties the caches that may hold rows. @returns Why one could not be emptied; null: all are empty. */
function* emptyListed<Cache>(caches: CacheList<Cache>): Flow<Cache, string | null> {
  let failure: string | null = null;
  for (const { cache } of [...caches.members]) {
    try {
      yield* step({ kind: "quarantine", cache, on: true });
      yield* step({ kind: "quarantine", cache, on: false });
    } catch (error) {
      if (!(error instanceof CacheError)) throw error;
      failure = error.message;
    }
  }
  return failure;
}

/** Keys that a cache did not delete. */
export interface Failure {
  readonly reason: string;
  readonly left: readonly string[];
}
