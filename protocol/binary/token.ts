import { OWNER_TAG_LENGTH_MAX } from "../../store/cache.ts";
import { Outcome } from "../../store/outcome.ts";
import { Status } from "../reply/binary_status.ts";
import type { RequestConversation } from "../conversation.ts";
import { Flow } from "../request.ts";
import { swallowBlock } from "../store_block.ts";
import type { RequestThread } from "../thread_context.ts";
import { chargeTokens, readTokenOwner, type TokenReply, TokenWait } from "../waits/token_wait.ts";
import { done, refuse } from "./answer.ts";
import { OUTCOME_STATUS, putError, putHeader } from "./replies.ts";
import type { BinaryRequest } from "./request.ts";

/** An id as extras. */
const ID_LENGTH = 8;

/** Answers a TokenGet when the request is no longer known. */
class KeptTokenReply implements TokenReply {
  readonly #request: BinaryRequest;

  constructor(request: BinaryRequest) {
    this.#request = request.copy();
  }

  granted(thread: RequestThread, idLow: number, idHigh: number): void {
    putId(thread, this.#request, idLow, idHigh);
  }

  failed({ reply }: RequestThread): void {
    putError(reply, this.#request, Status.TEMPORARY_FAILURE);
  }
}

/** TokenGet: the value is the owner's tag. */
export function getToken(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { thread } = conversation;
  const { operation, cache, request } = thread;
  const { valueLength } = operation;
  if (isOfRow(conversation)) {
    refuse(conversation, binary, Status.UNKNOWN_COMMAND);
    return swallowBlock(conversation);
  }
  if (conversation.udp || valueLength > OWNER_TAG_LENGTH_MAX) {
    refuse(conversation, binary, Status.INVALID);
    return swallowBlock(conversation);
  }
  const valueEnd = request.lineEnd + valueLength;
  if (valueEnd > request.inputEnd) {
    conversation.valueMissing = true;
    return Flow.INCOMPLETE;
  }
  request.next = valueEnd;
  if (!readTokenOwner(conversation, request.lineEnd, valueEnd)) {
    return refuse(conversation, binary, Status.INVALID);
  }
  chargeTokens(thread);
  const outcome = cache.tokens.get(operation);
  if (outcome === Outcome.WAITING) {
    conversation.task = new TokenWait(thread, new KeptTokenReply(binary));
    return Flow.UNDER_WAY;
  }
  if (outcome !== Outcome.OK) return refuse(conversation, binary, OUTCOME_STATUS[outcome]);
  putId(thread, binary, operation.idLow, operation.idHigh);
  return Flow.DONE;
}

/** Whether the key is a row's: its update tokens are the database thread's, which has them by text commands only. */
function isOfRow({ thread: { cache, operation } }: RequestConversation): boolean {
  return cache.isRow(operation);
}

/** TokenRelease: the extras are the id. The quiet form answers only failures. */
export function releaseToken(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { operation, cache, input } = conversation.thread;
  if (isOfRow(conversation)) return refuse(conversation, binary, Status.UNKNOWN_COMMAND);
  if (conversation.udp) return refuse(conversation, binary, Status.INVALID);
  operation.compareHigh = input.view.getInt32(binary.extrasOffset);
  operation.compareLow = input.view.getInt32(binary.extrasOffset + 4);
  chargeTokens(conversation.thread);
  const outcome = cache.tokens.release(operation);
  return outcome === Outcome.OK
    ? done(conversation, binary)
    : refuse(conversation, binary, OUTCOME_STATUS[outcome]);
}

function putId(
  { reply }: RequestThread,
  request: BinaryRequest,
  idLow: number,
  idHigh: number,
): void {
  putHeader(reply, request, Status.OK, ID_LENGTH, 0, 0, 0, 0);
  const { view } = reply.region;
  view.setInt32(reply.length, idHigh);
  view.setInt32(reply.length + 4, idLow);
  reply.length += ID_LENGTH;
}
