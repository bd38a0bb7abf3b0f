import type { ConnectionId } from "../store/connections.ts";
import { Access } from "./auth/access.ts";
import { BinaryParser } from "./binary/parser.ts";
import { setLockReply } from "./binary/replies.ts";
import {
  Conversation,
  type ConversationOptions,
  type Parser,
  type Protocols,
} from "./conversation.ts";
import { TextAuthGate } from "./text/auth_gate.ts";
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
  /** By access. Those of peers that may not do everything are made when they are needed. */
  readonly #texts: (Parser | undefined)[] = [];
  readonly #binaries: (Parser | undefined)[] = [];
  multiget: MultigetTask = new MultigetTask();
  readonly #log: ProtocolLog | null;

  /** @param report Receives protocol errors and commands for the log; left out: nothing is logged. */
  constructor(thread: ThreadContext, report?: (event: ProtocolEvent) => void) {
    this.thread = thread;
    setLockReply(thread.settings.lockReply);
    this.#log = report === undefined ? null : new ProtocolLog(report);
    this.#texts[Access.NONE] = new TextAuthGate(thread);
    this.#texts[Access.ADMIN] = new TextParser(thread);
    this.#binaries[Access.ADMIN] = new BinaryParser(thread);
    thread.ops.name(this.textFor(Access.ADMIN).commands, this.binaryFor(Access.ADMIN).commands);
  }

  textFor(access: Access): Parser {
    return this.#texts[access] ??= new TextParser(this.thread, access);
  }

  binaryFor(access: Access): Parser {
    return this.#binaries[access] ??= new BinaryParser(this.thread, access);
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
