import type { Changes } from "../../databases/base/changes.ts";
import type { Failure } from "./expulsion.ts";

/** A step of the log's follower, executed by the log or by the caches. */
export type LogStep =
  /** Removes everything, everywhere: `emptyAll`. */
  | { readonly kind: "empty" }
  /** The log may be continued from here on. */
  | { readonly kind: "begin" }
  /** Waits for changes that reads see. */
  | { readonly kind: "next" }
  /** Deletes keys, everywhere: `expelKeys`. */
  | { readonly kind: "expel"; readonly keys: readonly string[] }
  /** Changes up to this position are not sent again. */
  | { readonly kind: "confirm"; readonly position: bigint }
  /** A cache has not answered: waits before the next attempt. */
  | { readonly kind: "retryLater"; readonly reason: string };

/** The result of each step. The log throws why it cannot be read. */
export interface LogResults {
  /** Why a cache could not be emptied; null: all are empty. */
  readonly empty: string | null;
  readonly begin: void;
  readonly next: Changes;
  /** Why a cache did not confirm, and the keys that are left; null: all have answered. */
  readonly expel: Failure | null;
  readonly confirm: void;
  readonly retryLater: void;
}

export type LogResult = LogResults[LogStep["kind"]];

/** A flow along the log: see `Flow`. */
export type LogFlow<Result> = Generator<LogStep, Result, LogResult>;

/**
 * Follows the log: every change becomes a deletion of its keys everywhere, in the order of the commits. A position is
 * confirmed after all have answered, so a change is applied at least once.
 *
 * @param isWhole False: changes before it may be missing; everything is emptied first.
 * @throws Why the log cannot be read.
 */
export function* followLog(isWhole: boolean): LogFlow<never> {
  // Noted after all are empty: a crash in between must not hide the gap.
  if (!isWhole) yield* emptyEverything();
  yield* step({ kind: "begin" });
  for (;;) {
    const { keys, isFlood, position }: Changes = yield* step({ kind: "next" });
    if (isFlood) yield* emptyEverything();
    else yield* expelEverywhere(keys);
    yield* step({ kind: "confirm", position });
  }
}

function* emptyEverything(): LogFlow<void> {
  for (;;) {
    const reason = yield* step({ kind: "empty" });
    if (reason === null) return;
    yield* step({ kind: "retryLater", reason });
  }
}

function* expelEverywhere(keys: readonly string[]): LogFlow<void> {
  for (let left = keys; left.length > 0;) {
    const failure = yield* step({ kind: "expel", keys: left });
    if (failure === null) return;
    left = failure.left;
    yield* step({ kind: "retryLater", reason: failure.reason });
  }
}

/** Yields one step. @returns Its result. */
function* step<Kind extends LogStep["kind"]>(
  request: LogStep & { readonly kind: Kind },
): LogFlow<LogResults[Kind]> {
  return (yield request) as LogResults[Kind];
}
