import type { BinaryRequest } from "./request.ts";
import type { Conversation } from "../conversation.ts";
import type { Flow } from "../request.ts";
import { Status } from "../binary_status.ts";
import { answer, done, refuse } from "./answer.ts";

/** Lock and LockQ. Over UDP there is no connection whose end would unlock. */
export function lock(conversation: Conversation, binary: BinaryRequest): Flow {
  const { cache, operation } = conversation.thread;
  if (conversation.udp) return refuse(conversation, binary, Status.INVALID);
  return answer(conversation, binary, cache.lock(operation));
}

/** Unlock and UnlockQ. */
export function unlock(conversation: Conversation, binary: BinaryRequest): Flow {
  const { cache, operation } = conversation.thread;
  return answer(conversation, binary, cache.unlock(operation));
}

/** UnlockAll and UnlockAllQ. */
export function unlockAll(conversation: Conversation, binary: BinaryRequest): Flow {
  conversation.thread.cache.unlockAll(conversation.owner);
  return done(conversation, binary);
}
