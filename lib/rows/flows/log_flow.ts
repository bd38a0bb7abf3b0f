import { type Flow, stepOf } from "../../flow/flow.ts";
import type { Changes } from "../../databases/base/changes.ts";
import { EVERY_ROW, type KeySet } from "../../databases/views/key_set.ts";
import { expel } from "./expulsion.ts";
import type { FlowStep } from "./steps.ts";

/** A step of the log's follower, executed by the log. */
export type LogStep =
  /** The log may be continued from here on. */
  | { readonly kind: "begin" }
  /** Waits for changes that reads see. */
  | { readonly kind: "next" }
  /** Changes up to this position are not sent again. */
  | { readonly kind: "confirm"; readonly position: bigint };

/** The result of each step. The log throws why it cannot be read. */
export interface LogResults {
  readonly begin: void;
  readonly next: Changes;
  readonly confirm: void;
}

/** A flow along the log, which deletes as flows of rows do. */
export type LogFlow<Result> = Flow<LogStep | FlowStep, Result>;

const step = stepOf<LogStep, LogResults>();

/**
 * Follows the log: every change becomes a deletion of its keys everywhere, in the order of the commits. A position is
 * confirmed after the deletion, so a change is applied at least once.
 *
 * @param isWhole False: changes before it may be missing; every row is deleted first.
 * @param note Called with what is deleted, before.
 * @throws Why the log cannot be read.
 */
export function* followLog(
  isWhole: boolean,
  note: (changed: KeySet) => void = () => {},
): LogFlow<never> {
  // The log begins after no row is left: a crash in between must not hide the gap.
  if (!isWhole) {
    note(EVERY_ROW);
    yield* expel(EVERY_ROW);
  }
  yield* step({ kind: "begin" });
  for (;;) {
    const changes: Changes = yield* step({ kind: "next" });
    note(changes);
    yield* expel(changes);
    yield* step({ kind: "confirm", position: changes.position });
  }
}
