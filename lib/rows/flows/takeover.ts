import { assert } from "../../../store/base/assert.ts";
import type { Takeover } from "../../databases/base/backend.ts";
import { reasonOf } from "../../process/reason.ts";
import { type RowFlow, step } from "./steps.ts";

/** A server's conduct towards another origin: it ends, waits until the other has ended, or takes over at once. */
export type TakeoverRule = "refuse" | "standby" | "force";

/** The result of a takeover: the epoch, and the mark of the previous origin. */
type Taken = Pick<Takeover, "epoch" | "mark">;

/** Another origin serves the rows of the database. */
export class OccupiedError extends Error {
  override readonly name = "OccupiedError";
}

/** Pause between two attempts to get the lock of the active origin. */
const LOCK_PAUSE_MS = 200;
/** How long a stand-by leaves the lock to the active origin after the database has lost all connections. */
const YIELD_MS = 1000;
/** How much slower the clock of the origin before may run, as a share of the time that it may still serve. */
export const DRIFT_SHARE = 0.1;
/** Beside that: a timer may be early. */
const TIMER_MS = 20;

/** The wait, in milliseconds, until a right of `rightMs` that was renewed now has ended everywhere. */
export function waitFor(rightMs: number, driftShare = DRIFT_SHARE): number {
  return rightMs === 0 ? 0 : rightMs * (1 + driftShare) + TIMER_MS;
}

/**
 * Takes the database over, and waits until the origin before answers no row from its cache any more: with the lock
 * that only one origin has, and with its time. Nothing may be served before. A stand-by tries until it succeeds,
 * whatever the database says.
 *
 * @param rightMs How long this origin may serve rows after each confirmation of the database.
 * @param onWait Called if another origin makes this one wait, and with each new problem that a stand-by has.
 * @param driftShare How much slower the clock of a node may run, as a share of the time.
 * @returns The epoch, and the mark of the origin before.
 * @throws OccupiedError under the rule `refuse`; the database's error, unless this is a stand-by.
 */
export function* takeOver(
  rule: TakeoverRule,
  rightMs: number,
  onWait: (problem: string | null) => void,
  driftShare = DRIFT_SHARE,
): RowFlow<Taken> {
  let told: string | null | undefined;
  let hasRival = false;
  const tell = (problem: string | null): void => {
    if (problem !== told) onWait(problem);
    told = problem;
    hasRival ||= problem === null;
  };
  for (;;) {
    try {
      return yield* tryTakeover(rule, rightMs, tell, driftShare);
    } catch (error) {
      if (rule !== "standby") throw error;
      tell(reasonOf(error));
      yield* step({ kind: "sleep", ms: LOCK_PAUSE_MS });
    }
    if (hasRival) yield* yieldToRival(tell);
  }
}

/**
 * Waits until the database answers again, and then for the active origin: its lock has ended with the database's
 * connections, too, and it asks for it again.
 */
function* yieldToRival(tell: (problem: string | null) => void): RowFlow<void> {
  for (;;) {
    try {
      if (yield* step({ kind: "lockOrigin" })) yield* step({ kind: "unlockOrigin" });
      break;
    } catch (error) {
      tell(reasonOf(error));
      yield* step({ kind: "sleep", ms: LOCK_PAUSE_MS });
    }
  }
  yield* step({ kind: "sleep", ms: YIELD_MS });
}

function* tryTakeover(
  rule: TakeoverRule,
  rightMs: number,
  tell: (problem: string | null) => void,
  driftShare: number,
): RowFlow<Taken> {
  let isLocked = yield* step({ kind: "lockOrigin" });
  if (!isLocked) tell(null);
  if (!isLocked && rule !== "force") {
    yield* waitForLock(rule === "standby" ? Infinity : rightMs);
    isLocked = true;
  }
  const { epoch, mark, servedMs, nodesMs = 0 } = yield* step({
    kind: "takeOver",
    rightMs,
  });
  assert(epoch > 0, "an origin that has taken over has an epoch");
  assert(isLocked || rule === "force", "one origin has the lock of the database");
  if (servedMs !== Infinity) {
    yield* sleepFor(waitFor(Math.max(servedMs, nodesMs), driftShare), isLocked);
    return { epoch, mark };
  }
  while (!isLocked) {
    yield* sleepFor(LOCK_PAUSE_MS, isLocked);
    isLocked = yield* step({ kind: "lockOrigin" });
    const epochNow = yield* step({ kind: "readEpoch" });
    if (epochNow === epoch) continue;
    throw new OccupiedError("another origin has taken over while this one waited");
  }
  // The origin before has given memberships until its end.
  if (nodesMs > 0) yield* sleepFor(waitFor(nodesMs, driftShare), isLocked);
  return { epoch, mark };
}

/**
 * Waits until this one has the lock of the active origin: of one that ends now, or whose end the database has not
 * noticed. If an origin has taken over by force meanwhile, it is let go of once, since that one asks for it more often.
 *
 * @throws OccupiedError after `waitMs` milliseconds.
 */
function* waitForLock(waitMs: number): RowFlow<void> {
  let epoch = yield* step({ kind: "readEpoch" });
  let hasRival = false;
  for (let waitedMs = 0; waitedMs < waitMs; waitedMs += LOCK_PAUSE_MS) {
    yield* step({ kind: "sleep", ms: LOCK_PAUSE_MS });
    const isLocked = yield* step({ kind: "lockOrigin" });
    const epochNow = yield* step({ kind: "readEpoch" });
    hasRival ||= epochNow !== epoch;
    epoch = epochNow;
    if (!isLocked) continue;
    if (!hasRival) return;
    hasRival = false;
    yield* step({ kind: "unlockOrigin" });
  }
  throw new OccupiedError(
    "another origin serves its rows: end it, or start this one with --standby or --take-over",
  );
}

/** Sleeps; without the lock of the active origin, it is taken as soon as the one before has ended. */
function* sleepFor(ms: number, isLocked: boolean): RowFlow<void> {
  yield* step(isLocked ? { kind: "sleep", ms } : { kind: "sleep", ms, takesLock: true });
}
