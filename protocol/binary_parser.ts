import { type Conversation, ConversationState, type Parser } from "./conversation.ts";

/** The binary protocol is not spoken yet: such connections are closed. */
export class BinaryParser implements Parser {
  run(conversation: Conversation, _start: number, end: number): number {
    conversation.pause(ConversationState.CLOSING);
    return end;
  }
}
