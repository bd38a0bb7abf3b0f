import type { ConnectionId } from "../store/connections.ts";
import { BinaryParser } from "./binary/parser.ts";
import { Conversation, type ConversationOptions, type Protocols } from "./conversation.ts";
import { MultigetTask } from "./text/read.ts";
import { TextParser } from "./text/parser.ts";
import type { ThreadContext } from "./thread_context.ts";

/** The parsers of one thread, and the way to open a conversation that uses them. */
export class ThreadProtocols implements Protocols {
  readonly thread: ThreadContext;
  readonly text: TextParser;
  readonly binary: BinaryParser;
  multiget: MultigetTask = new MultigetTask();

  constructor(thread: ThreadContext) {
    this.thread = thread;
    this.text = new TextParser(thread);
    this.binary = new BinaryParser(thread);
  }

  /** @param owner Above 0, and of no other open connection; NO_OWNER for a datagram. */
  open(owner: ConnectionId, options: ConversationOptions): Conversation {
    return new Conversation(this, owner, options);
  }
}
