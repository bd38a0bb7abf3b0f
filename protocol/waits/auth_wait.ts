import type { ConnectionId } from "../../store/connections.ts";
import { STAT } from "../../store/stats.ts";
import type { RequestConversation } from "../conversation.ts";
import type { RequestThread } from "../thread_context.ts";
import { Wait } from "./wait.ts";
import { Access } from "../auth/access.ts";
import { CREDENTIAL_BYTES_MAX, type Credentials } from "../auth/password_checks.ts";

/** Writes a protocol's reply to an authentication. */
export interface AuthReply {
  accepted(thread: RequestThread): void;
  refused(thread: RequestThread): void;
}

/** Begins to check a password; the connection waits for the verdict. */
export function authenticate(
  conversation: RequestConversation,
  credentials: Credentials,
  reply: AuthReply,
): void {
  const { user, password } = credentials;
  if (Math.max(user.length, password.length) > CREDENTIAL_BYTES_MAX) {
    return refuseAuthentication(conversation, reply);
  }
  conversation.thread.auth!.begin(conversation.owner, credentials);
  conversation.task = new AuthWait(conversation.owner, reply);
}

/** Refuses credentials that no user can have. */
export function refuseAuthentication(conversation: RequestConversation, reply: AuthReply): void {
  decide(conversation, Access.NONE, reply);
}

function decide(conversation: RequestConversation, access: Access, reply: AuthReply): void {
  const { thread } = conversation;
  const { stats } = thread.memory;
  stats[STAT.auth_cmds]! += 1;
  if (access === Access.NONE) stats[STAT.auth_errors]! += 1;
  conversation.grant(access);
  if (access === Access.NONE) reply.refused(thread);
  else reply.accepted(thread);
}

/** A connection waits until its password is checked. */
class AuthWait extends Wait {
  readonly #owner: ConnectionId;
  readonly #reply: AuthReply;

  constructor(owner: ConnectionId, reply: AuthReply) {
    super(true);
    this.#owner = owner;
    this.#reply = reply;
  }

  protected isOver({ auth }: RequestThread): boolean {
    return auth!.verdictOf(this.#owner) !== null;
  }

  protected answer(conversation: RequestConversation): void {
    decide(conversation, conversation.thread.auth!.verdictOf(this.#owner)!, this.#reply);
  }

  abandon({ auth }: RequestThread): void {
    auth!.end(this.#owner);
  }
}
