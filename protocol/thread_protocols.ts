import type { ConnectionId } from "../store/connections.ts";
import { BinaryParser } from "./binary/parser.ts";
import { Conversation, type ConversationOptions, type Protocols } from "./conversation.ts";
import { MultigetTask } from "./text/read.ts";
import { TextParser } from "./text/parser.ts";
import type { ThreadContext } from "./thread_context.ts";
import {
  ERRORS_VERBOSITY,
  type ProtocolEvent,
  ProtocolLog,
  TracedConversation,
} from "./traced_conversation.ts";

/** The parsers of one thread, and the way to open a conversation that uses them. */
export class ThreadProtocols implements Protocols {
  readonly thread: ThreadContext;
  readonly text: TextParser;
  readonly binary: BinaryParser;
  multiget: MultigetTask = new MultigetTask();
  readonly #log: ProtocolLog | null;

  /** @param report Receives protocol errors and commands for the log; left out: nothing is logged. */
  constructor(thread: ThreadContext, report?: (event: ProtocolEvent) => void) {
    this.thread = thread;
    this.#log = report === undefined ? null : new ProtocolLog(report);
    this.text = new TextParser(thread);
    this.binary = new BinaryParser(thread);
  }

  /**
   * Opens a conversation; one that logs if the verbosity is high enough now.
   *
   * @param owner Above 0, and of no other open connection; NO_OWNER for a datagram.
   */
  open(owner: ConnectionId, options: ConversationOptions): Conversation {
    if (this.#log !== null && this.thread.tunables.get("verbosity") >= ERRORS_VERBOSITY) {
      return new TracedConversation(this, owner, options, this.#log);
    }
    return new Conversation(this, owner, options);
  }
}
