import { type Flow, stepOf } from "../../flow/flow.ts";
import type { Changes } from "../../databases/base/changes.ts";

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
  | { readonly kind: "confirm"; readonly position: bigint };

/** The result of each step. The log throws why it cannot be read. */
export interface LogResults {
  readonly empty: void;
  readonly begin: void;
  readonly next: Changes;
  readonly expel: void;
  readonly confirm: void;
}

export type LogResult = LogResults[LogStep["kind"]];

/** A flow along the log. */
export type LogFlow<Result> = Flow<LogStep, Result>;

const step = stepOf<LogStep, LogResults>();

/**
 * Follows the log: every change becomes a deletion of its keys everywhere, in the order of the commits. A position is
 * confirmed after the deletion, so a change is applied at least once.
 *
 * @param isWhole False: changes before it may be missing; everything is emptied first.
 * @throws Why the log cannot be read.
 */
export function* followLog(isWhole: boolean): LogFlow<never> {
  // Noted after all are empty: a crash in between must not hide the gap.
  if (!isWhole) yield* step({ kind: "empty" });
  yield* step({ kind: "begin" });
  for (;;) {
    const { keys, isFlood, position }: Changes = yield* step({ kind: "next" });
    if (isFlood) yield* step({ kind: "empty" });
    else if (keys.length > 0) yield* step({ kind: "expel", keys });
    yield* step({ kind: "confirm", position });
  }
}
