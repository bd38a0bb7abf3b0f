import type { Conversation } from "../conversation.ts";
import { REPLY } from "../replies.ts";
import type { Flow } from "../request.ts";
import { answer } from "./answer.ts";

export function stats(conversation: Conversation): Flow {
  return answer(conversation, REPLY.END);
}
