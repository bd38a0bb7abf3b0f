import { Outcome } from "../../store/outcome.ts";
import { OUTCOME_STATUS, putDone, putError } from "./replies.ts";
import type { BinaryRequest } from "./request.ts";
import type { RequestConversation } from "../conversation.ts";
import { Flow } from "../request.ts";
import { Status } from "../reply/binary_status.ts";
import { swallowBlock } from "../store_block.ts";

/** Answers with success and no body, unless the request is quiet. */
export function done(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { reply } = conversation.thread;
  if (!binary.quiet) putDone(reply, binary, 0, 0);
  return Flow.DONE;
}

/** Answers with a status and its text, also when the request is quiet. */
export function refuse(
  conversation: RequestConversation,
  binary: BinaryRequest,
  status: Status,
): Flow {
  const { reply } = conversation.thread;
  putError(reply, binary, status);
  return Flow.DONE;
}

/** Answers with how an operation ended that tells nothing else. */
export function answer(
  conversation: RequestConversation,
  binary: BinaryRequest,
  outcome: Outcome,
): Flow {
  return outcome === Outcome.OK
    ? done(conversation, binary)
    : refuse(conversation, binary, OUTCOME_STATUS[outcome]);
}

/** Refuses a command that the peer's user may not give, and skips its value. */
export function refuseAccess(conversation: RequestConversation, binary: BinaryRequest): Flow {
  refuse(conversation, binary, Status.REFUSED);
  return swallowBlock(conversation);
}
