import type { BinaryRequest } from "./request.ts";
import type { RequestConversation } from "../conversation.ts";
import { Outcome } from "../../store/outcome.ts";
import { Flow } from "../request.ts";
import { Status } from "../reply/binary_status.ts";
import { answer, done, refuse } from "./answer.ts";

/** Lock and LockQ. Over UDP there is no connection whose end would unlock. */
export function lock(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { cache, operation } = conversation.thread;
  if (conversation.udp) return refuse(conversation, binary, Status.INVALID);
  const outcome = cache.lock(operation);
  return outcome === Outcome.LOCKED
    ? refuse(conversation, binary, Status.LOCKED)
    : answer(conversation, binary, outcome);
}

/** Unlock and UnlockQ. */
export function unlock(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { cache, operation } = conversation.thread;
  return answer(conversation, binary, cache.unlock(operation));
}

/** UnlockAll and UnlockAllQ. */
export function unlockAll(conversation: RequestConversation, binary: BinaryRequest): Flow {
  conversation.thread.cache.unlockAll(conversation.owner);
  return done(conversation, binary);
}
