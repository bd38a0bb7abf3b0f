import { numberBytes } from "../../support/sessions/binary_text.ts";
import {
  type Act,
  type Actor,
  AGAIN,
  type Answer,
  ask,
  cas,
  commit,
  completing,
  firstWord,
  INVALIDATION_SEC,
  NOTHING,
  readRow,
} from "../steps.ts";
import { askBinary } from "./binary.ts";

const deletess = ask(`deletess ${INVALIDATION_SEC} k`);
const deletessKeepingId = ask(
  `deletess ${INVALIDATION_SEC} k`,
  (reply) => ({ word: "lease", id: Number(/ (\d+)/.exec(reply)![1]) }),
);
const remove = ask("delete k");
const updateUncommitted: Act = {
  kind: "act",
  note: "updates the row, not committed yet",
  act: () => undefined,
};

/** The rules: invalidate after the commit. */
export function* writer(): Actor {
  yield commit;
  for (;;) {
    const answer = yield ask(`deletess ${INVALIDATION_SEC} k`, lockedOrDone);
    if (answer !== AGAIN) return;
  }
}

/** Like `writer`, in the binary protocol. */
export function* binaryWriter(): Actor {
  yield commit;
  yield askBinary("DeleteSS", numberBytes(INVALIDATION_SEC, 4), () => undefined);
}

function lockedOrDone(reply: string): Answer {
  return reply.startsWith("LOCKED") ? AGAIN : NOTHING;
}

/** Like `writer`, but its invalidation leaves no lease. */
export function* deletingWriter(): Actor {
  yield commit;
  yield remove;
}

/** Marks the value stale instead of removing it. */
export function* stalingWriter(): Actor {
  yield commit;
  yield ask("md k I");
}

/** Invalidates everything. */
export function* flushingWriter(): Actor {
  yield commit;
  yield ask("flush_all");
}

/**
 * Counts the value up with the row; where that fails, or may have gone wrong, it is satisfied that
 * nothing is there.
 */
export function* countingWriter(): Actor {
  yield commit;
  const counted = yield ask("incr k 1", firstWord);
  if (counted.word !== "NOT_FOUND") yield remove;
}

/** Breaks a rule: deletes before the commit, and stores the new value under the id of that deletess. */
export function* deleteFirstWriter(): Actor {
  const got = yield deletessKeepingId;
  const row = yield commit;
  yield cas(row.word, got.id);
}

/** Like `deleteFirstWriter`, but invalidates again when another client was faster. */
export function* carefulDeleteFirstWriter(): Actor {
  const got = yield deletessKeepingId;
  const row = yield commit;
  const stored = yield cas(row.word, got.id);
  if (stored.word !== "STORED") yield deletess;
}

/** Breaks a rule: fills with the value it wrote, without reading the row again. */
export function* selfFillingWriter(): Actor {
  const row = yield commit;
  const got = yield completing(deletessKeepingId);
  yield cas(row.word, got.id);
}

/** Like `selfFillingWriter`, but reads the row again, as a reader under its invalidation's lease. */
export function* warmingWriter(): Actor {
  yield commit;
  const got = yield completing(deletessKeepingId);
  const row = yield readRow;
  yield cas(row.word, got.id);
}

/** Breaks a rule: it deletes inside its transaction, which others cannot see yet. */
export function* inTransactionWriter(): Actor {
  yield updateUncommitted;
  yield remove;
  yield commit;
}
