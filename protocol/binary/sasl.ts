import { latin1Text } from "../../store/base/bytes.ts";
import { Access } from "../auth/access.ts";
import { CREDENTIAL_BYTES_MAX, type Credentials } from "../auth/password_checks.ts";
import { authenticate, type AuthReply, refuseAuthentication } from "../waits/auth_wait.ts";
import { Status } from "../reply/binary_status.ts";
import type { RequestConversation } from "../conversation.ts";
import { SASL } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import { swallowBlock } from "../store_block.ts";
import type { RequestThread } from "../thread_context.ts";
import { refuse } from "./answer.ts";
import { putError, putHeader } from "./replies.ts";
import type { BinaryRequest } from "./request.ts";

// SASL (RFC 4422) with the mechanism PLAIN (RFC 4616): `[authorization identity] NUL user NUL password`.

/** The mechanism's name, which may come in small letters. */
const PLAIN = "PLAIN";
/** Longer messages have no user's name and password. */
const PLAIN_MESSAGE_BYTES_MAX = 3 * CREDENTIAL_BYTES_MAX;
/** Longer names of mechanisms are malformed (memcached: MAX_SASL_MECH_LEN). */
const MECHANISM_LENGTH_MAX = 32;

/** SaslMechanisms: the mechanisms, with a blank between. */
export function mechanisms(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { reply, settings } = conversation.thread;
  if (!settings.enableSasl) return refuse(conversation, binary, Status.UNKNOWN_COMMAND);
  putHeader(reply, binary, Status.OK, 0, 0, SASL.MECHANISMS.length, 0, 0);
  reply.put(SASL.MECHANISMS);
  return Flow.DONE;
}

/** SaslAuth: begins an exchange, which ends at once when the client's message is there. */
export function start(conversation: RequestConversation, binary: BinaryRequest): Flow {
  return exchange(conversation, binary, true);
}

/** SaslStep: continues an exchange. */
export function step(conversation: RequestConversation, binary: BinaryRequest): Flow {
  return exchange(conversation, binary, false);
}

function exchange(
  conversation: RequestConversation,
  binary: BinaryRequest,
  isFirst: boolean,
): Flow {
  const { thread } = conversation;
  const { request, operation, input, settings } = thread;
  const { keyOffset, keyLength, valueLength } = operation;
  if (!settings.enableSasl || keyLength > MECHANISM_LENGTH_MAX) {
    refuse(conversation, binary, settings.enableSasl ? Status.INVALID : Status.UNKNOWN_COMMAND);
    return swallowBlock(conversation);
  }
  const isPlain = latin1Text(input.bytes, keyOffset, keyLength).toUpperCase() === PLAIN;
  const reply = new SaslReply(binary.copy());
  if (valueLength > PLAIN_MESSAGE_BYTES_MAX) {
    if (isFirst) conversation.saslStarted = false;
    refuseAuthentication(conversation, reply);
    swallowBlock(conversation);
    return Flow.UNDER_WAY;
  }
  request.next = request.lineEnd + valueLength;
  if (request.next > request.inputEnd) {
    conversation.valueMissing = true;
    return Flow.INCOMPLETE;
  }
  if (isFirst) conversation.saslStarted = isPlain;
  if (isPlain && isFirst && valueLength === 0) {
    putHeader(thread.reply, binary, Status.AUTH_CONTINUE, 0, 0, 0, 0, 0);
    conversation.grant(Access.NONE);
    return Flow.UNDER_WAY;
  }
  const message = input.bytes.slice(request.lineEnd, request.next);
  const credentials = isPlain && conversation.saslStarted ? readPlain(message) : null;
  // As in memcached, a step needs an exchange whose first message was no failure.
  if (isFirst) conversation.saslStarted = false;
  if (credentials === null) {
    refuseAuthentication(conversation, reply);
  } else {
    authenticate(conversation, credentials, reply);
  }
  // The rest may be for another parser: the peer's access has changed.
  return Flow.UNDER_WAY;
}

class SaslReply implements AuthReply {
  readonly #request: BinaryRequest;

  constructor(request: BinaryRequest) {
    this.#request = request;
  }

  accepted({ reply }: RequestThread): void {
    putHeader(reply, this.#request, Status.OK, 0, 0, SASL.AUTHENTICATED.length, 0, 0);
    reply.put(SASL.AUTHENTICATED);
  }

  refused({ reply }: RequestThread): void {
    putError(reply, this.#request, Status.REFUSED);
  }
}

/** Reads a message of PLAIN. Null: it is malformed, or asks for the rights of another user. */
function readPlain(message: Uint8Array): Credentials | null {
  const first = message.indexOf(0);
  const second = message.indexOf(0, first + 1);
  if (first < 0 || second < 0 || message.includes(0, second + 1)) return null;
  const user = message.slice(first + 1, second);
  const password = message.slice(second + 1);
  const identity = message.subarray(0, first);
  const isOwn = identity.length === 0 ||
    (identity.length === user.length && identity.every((byte, at) => byte === user[at]));
  return isOwn && user.length > 0 && password.length > 0 ? { user, password } : null;
}
