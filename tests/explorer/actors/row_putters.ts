import { putRowFlow, type RowEnd } from "../../../lib/client/flows/put_row.ts";
import type {
  RowReply,
  Step as FlowStep,
  StepKind,
  StepResults,
} from "../../../lib/client/flows/steps.ts";
import { KEY } from "../key_record.ts";
import type { RowDatabase } from "../client_caches/row_database.ts";
import type { Act, Actor, Answer, Call, MakeActor } from "../steps.ts";
import { tokenGet, tokenRelease, uput } from "./origin_clients.ts";

// `put` of the client library for a row: its real flow, at the real flows of rows.

/** Time for one repetition of each request. */
export const LIMIT_MS = 10;

/** There was no reply. */
const LOST: Answer = { word: "lost", id: 0 };

/** A rule that the client breaks. */
export type RowFault =
  /** Takes a write whose outcome is unknown for failed. */
  | "gives up"
  /** Reports a failure without ending the token, although an attempt has got no reply. */
  | "keeps token";

/** A request whose connection may be lost. */
const fragile = (call: Call): Call => ({
  ...call,
  isRepeatable: true,
  lost: LOST,
});

/** Returns what the client understands of a reply to its write. */
export function rowReply(word: string, fault: RowFault | undefined): RowReply {
  const cause = new Error(word);
  switch (word) {
    case "committed":
      return { state: "done", version: 0 };
    case "revoked":
    case "none":
      return { state: "ended", cause };
    case "failed":
    case "refused":
      return { state: "refused", cause };
    case "locked":
      return { state: "locked" };
    default:
      return { state: fault === "keeps token" ? "refused" : "unknown", cause };
  }
}

/** The writer believes this outcome. */
function believe(id: number, { outcome }: RowEnd, fault: RowFault | undefined): Act {
  const believed = outcome === "unknown" && fault === "gives up" ? "failed" : outcome;
  return {
    kind: "act",
    note: `believes: ${believed}`,
    act: (database) => {
      if (believed !== "unknown") (database as RowDatabase).settle(id, believed);
      return undefined;
    },
  };
}

/** `put` of a row. @param isLate Whether its first attempt arrives when the flow has ended. */
export const rowPutter = (fault?: RowFault, isLate = false): MakeActor =>
  function* (name): Actor {
    const flow = putRowFlow(KEY, name, LIMIT_MS);
    let id = 0;
    let isOnItsWay = false;
    let next = flow.next();
    while (!next.done) {
      const { value } = next;
      if (value.kind === "sleep") {
        next = flow.next();
        continue;
      }
      if (value.kind === "endToken" && fault === "keeps token") {
        next = flow.next(true);
        continue;
      }
      const isHeldUp: boolean = isLate && !isOnItsWay && value.kind === "writeRow";
      isOnItsWay ||= isHeldUp;
      const answer = isHeldUp ? LOST : yield requestOf(value, id, name);
      if (value.kind === "takeToken" && answer.word === "token") ({ id } = answer);
      if (answer.word === LOST.word && value.kind !== "writeRow") {
        try {
          next = flow.throw(new Error("the connection is lost"));
        } catch {
          // No token: nothing was written.
          return;
        }
        continue;
      }
      next = flow.next(resultOf(value, answer, fault));
    }
    yield believe(id, next.value, fault);
    if (isOnItsWay) yield uput(id, 0);
  };

function requestOf({ kind }: FlowStep<unknown>, id: number, name: string): Call {
  switch (kind) {
    case "takeToken":
      return fragile(tokenGet(0, name));
    case "writeRow":
      return fragile(uput(id, 0));
    default:
      return fragile(tokenRelease(id, 0));
  }
}

function resultOf(
  { kind }: FlowStep<unknown>,
  { word, id }: Answer,
  fault: RowFault | undefined,
): StepResults<unknown>[StepKind] {
  switch (kind) {
    case "takeToken":
      return `${id}`;
    case "writeRow":
      return rowReply(word, fault);
    default:
      return word === "released";
  }
}
