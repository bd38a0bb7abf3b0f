import { LockedError } from "../errors.ts";
import { pausesFor, takeToken } from "./put.ts";
import { type ClientFlow, step } from "./steps.ts";

/** The outcome of a write of a row. */
export type RowEnd =
  | { readonly outcome: "done"; readonly version: number }
  /** Nothing was written, and nothing will be. */
  | { readonly outcome: "failed"; readonly cause: unknown }
  /** It may have been written, or may be later. Its token stays out. */
  | { readonly outcome: "unknown"; readonly id: string; readonly cause: unknown };

/**
 * Writes a row under an update token of its own. The server executes a write once, however often it is asked.
 *
 * @param owner The tag of this write, used by no other one.
 * @throws Why no token was given: then nothing was written.
 */
export function* putRowFlow(
  key: string,
  owner: string,
  limitMs: number,
): ClientFlow<unknown, RowEnd> {
  const id = yield* takeToken(key, owner, limitMs);
  const pauses = pausesFor(limitMs);
  let spentMs: number | undefined;
  let isUncertain = false;
  for (;;) {
    const reply = yield* step({ kind: "writeRow", key, id });
    let cause: unknown;
    switch (reply.state) {
      case "done":
        return { outcome: "done", version: reply.version };
      case "ended":
        return { outcome: "failed", cause: reply.cause };
      case "refused":
        return yield* settleRowFlow(key, id, reply.cause, limitMs, isUncertain);
      case "locked":
        cause = new LockedError({ server: "", command: "uput", key });
        break;
      // An earlier attempt may still be on its way to the server.
      case "unknown":
        isUncertain = true;
        cause = reply.cause;
    }
    const pause = pauses.next(spentMs);
    if (pause.done) {
      if (reply.state === "unknown") return { outcome: "unknown", id, cause };
      return yield* settleRowFlow(key, id, cause, limitMs, isUncertain);
    }
    spentMs = yield* step({ kind: "sleep", ms: pause.value });
  }
}

/**
 * Ends the token of a write, so that no later attempt can succeed, then learns what became of the attempts before.
 *
 * @param cause Why the write failed, if it did.
 * @param isUncertain Whether an attempt may have had an effect.
 */
export function* settleRowFlow(
  key: string,
  id: string,
  cause: unknown,
  limitMs: number,
  isUncertain: boolean,
): ClientFlow<unknown, RowEnd> {
  const pauses = pausesFor(limitMs);
  let spentMs: number | undefined;
  for (;;) {
    let reason = cause;
    try {
      const isEnded = yield* step({ kind: "endToken", key, id });
      if (isEnded && !isUncertain) return { outcome: "failed", cause };
      // Under a token that has ended nothing is written: the reply tells what was.
      const reply = yield* step({ kind: "writeRow", key, id });
      if (reply.state === "done") return { outcome: "done", version: reply.version };
      if (reply.state === "ended") return { outcome: "failed", cause };
      if (reply.state !== "locked") reason = reply.cause;
    } catch (error) {
      reason = error;
    }
    const pause = pauses.next(spentMs);
    if (pause.done) return { outcome: "unknown", id, cause: reason };
    spentMs = yield* step({ kind: "sleep", ms: pause.value });
  }
}
