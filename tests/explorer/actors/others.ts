import { type Actor, ask, firstWord, INVALIDATION_SEC, readRow, set } from "../steps.ts";
import { askBinary, STATUS, statusOf } from "./binary.ts";

/** A client that knows of no leases: look, read, set. */
export function* plainSetter(): Actor {
  const got = yield ask("get k", firstWord);
  if (got.word !== "END") return;
  const row = yield readRow;
  yield set(row.word);
}

/** Extends the value's TTL. */
export function* toucher(): Actor {
  yield ask("touch k 0");
}

/** Locks the value, deletes it, and stores the row's value without a lease. */
export function* lockingSetter(): Actor {
  const locked = yield ask("lock k", firstWord);
  if (locked.word !== "OK") return;
  const row = yield readRow;
  yield ask("delete k");
  yield set(row.word);
}

/** Locks the value for a while, and does nothing to it. */
export function* lockingReader(): Actor {
  const locked = yield ask("lock k", firstWord);
  if (locked.word !== "OK") return;
  yield readRow;
  yield ask("unlock k");
}

/** Announces that everything goes a second later. */
export function* lateFlusher(): Actor {
  yield ask("flush_all 1");
}

/** Invalidates everything, beside the protocol of tokens. */
export function* flusher(): Actor {
  yield ask("flush_all");
}

/** Locks the value and reads it in one step, in the binary protocol. */
export function* lockAndGetter(): Actor {
  const locked = yield askBinary("LaG", "", (reply) => ({
    word: statusOf(reply) === STATUS.OK ? "locked" : "",
    id: 0,
  }));
  if (locked.word !== "locked") return;
  yield askBinary("Unlock", "");
}

/** An operator who takes the key's tokens from writers that may still write. */
export function* dropper(): Actor {
  yield ask("token drop k unsafe");
}

/** An operator who takes the cache out of its group and into it again. */
export function* quarantiner(): Actor {
  yield ask("quarantine on");
  yield ask("quarantine off");
}

/** Removes what is cached, and takes the lease, although nothing was written. */
export function* invalidator(): Actor {
  yield ask(`deletess ${INVALIDATION_SEC} k`);
  yield ask("delete k");
}

/** Marks the value stale, so that one client fetches it anew. */
export function* staler(): Actor {
  yield ask("md k I");
}
