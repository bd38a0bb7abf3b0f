import { type Conversation, ConversationState, type Parser } from "./conversation.ts";
import type { ThreadContext } from "./thread_context.ts";

/** The text protocol. */
export class TextParser implements Parser {
  constructor(_thread: ThreadContext) {}

  run(conversation: Conversation, _start: number, end: number): number {
    conversation.pause(ConversationState.NEEDS_INPUT);
    return end;
  }
}
