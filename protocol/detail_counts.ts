import type { KeyBytes } from "../store/base/bytes.ts";
import type { RequestThread } from "./thread_context.ts";

// Hot path: no allocation.

// `stats detail` counts a request when its operation has an outcome: a parked one is executed once more.

/** Counts a read for `stats detail`. @param isHit Whether there was a value. */
export function countRead(thread: RequestThread, key: KeyBytes, isHit: boolean): void {
  if (thread.tunables.detailEnabled && !thread.hasParked) thread.prefixes.countGet(key, isHit);
}

/** Counts a store for `stats detail`. */
export function countStore(thread: RequestThread, key: KeyBytes): void {
  if (thread.tunables.detailEnabled && !thread.hasParked) thread.prefixes.countSet(key);
}

/** Counts a deletion for `stats detail`. */
export function countDeletion(thread: RequestThread, key: KeyBytes): void {
  if (thread.tunables.detailEnabled && !thread.hasParked) thread.prefixes.countDelete(key);
}
