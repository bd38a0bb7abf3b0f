import { Access } from "../auth/access.ts";
import type { Conversation } from "../conversation.ts";
import { REFUSAL } from "../replies.ts";
import { Flow } from "../request.ts";
import { readValueLength, swallowBlock } from "../store_block.ts";
import { answer } from "./answer.ts";

/**
 * Refuses a command that the peer's user may not give, and skips its data block.
 *
 * @param needed The access that the command needs.
 * @param lengthWord As `CommandRow` has it.
 */
export function refuseAccess(conversation: Conversation, needed: Access, lengthWord: number): Flow {
  if (lengthWord > 0 && !readValueLength(conversation, lengthWord)) return Flow.DONE;
  answer(conversation, needed === Access.ADMIN ? REFUSAL.NEEDS_ADMIN : REFUSAL.NEEDS_WRITE);
  return lengthWord > 0 ? swallowBlock(conversation) : Flow.DONE;
}
