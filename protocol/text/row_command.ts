import { type ItemRef, NO_ITEM } from "../../store/cache.ts";
import { KEY_LENGTH_MAX } from "../../store/limits.ts";
import { Outcome } from "../../store/outcome.ts";
import { Access } from "../auth/access.ts";
import type { RequestConversation } from "../conversation.ts";
import { OUTCOME_LINE, REFUSAL } from "../reply/replies.ts";
import { Flow } from "../request.ts";
import { fillBlock, readValueLength } from "../store_block.ts";
import { SendTask, type StoreReply } from "../tasks.ts";
import { answer } from "./answer.ts";

const KEY_WORD = 1;
const PUT_LENGTH_WORD = 3;
const NODE_LENGTH_WORD = 4;

/** Answers a command whose value arrived in pieces. */
const LATE_REPLY: StoreReply = {
  put({ reply, cache }, { item }, outcome): void {
    if (outcome !== Outcome.OK || item === NO_ITEM) return reply.put(OUTCOME_LINE[outcome]);
    const length = cache.valueLength(item);
    cache.copyValue(item, 0, length, reply.region, reply.length);
    reply.length += length;
  },
};
const NO_REPLY: StoreReply = { put(): void {} };

/** The access that `nodes` needs: every reader sees them, administrators forget them. */
export function nodesAccess({ thread: { request } }: RequestConversation): Access {
  return request.wordCount > 1 ? Access.ADMIN : Access.READ;
}

/**
 * Hands a command of update tokens or of nodes to the database thread: its line, and its value. The reply comes from
 * there. Without a database there is no such command.
 *
 * @param valueLength Of the value behind the line, without CR LF; -1: no value.
 */
export function rowCommand(conversation: RequestConversation, valueLength = -1): Flow {
  const { thread } = conversation;
  const { cache, operation, request, input, reply } = thread;
  if (cache.parking === null) return Flow.UNKNOWN;
  if (conversation.udp) return answer(conversation, REFUSAL.NOT_OVER_UDP);
  operation.begin(request.wordStart[0]!, Math.min(request.wordLength(0), KEY_LENGTH_MAX));
  operation.isCommand = true;
  operation.valueOffset = request.start;
  operation.valueLength = request.lineEnd - request.start + Math.max(0, valueLength);
  if (valueLength >= 0) {
    const end = request.lineEnd + valueLength;
    const { trailerLength } = request;
    if (end + trailerLength > request.inputEnd) return fillCommand(conversation);
    request.next = end + trailerLength;
    if (input.bytes[end] !== 0x0d || input.bytes[end + 1] !== 0x0a) {
      return answer(conversation, REFUSAL.BAD_CHUNK);
    }
  }
  const outcome = cache.parking.store(operation);
  if (outcome !== Outcome.OK) return answer(conversation, OUTCOME_LINE[outcome]);
  if (request.noreply) return Flow.DONE;
  const item: ItemRef = operation.item;
  if (reply.value(cache, cache.describe(item))) return Flow.DONE;
  conversation.task = new SendTask(thread, item, false, null);
  return Flow.UNDER_WAY;
}

/** A command whose value arrives in pieces: the line is taken for the beginning of the value. */
function fillCommand(conversation: RequestConversation): Flow {
  const { cache, operation, request } = conversation.thread;
  const outcome = cache.reserved.reserve(operation);
  if (outcome !== Outcome.OK) {
    // The end of the value is known, but the line must not be taken for another command.
    conversation.thread.reply.put(OUTCOME_LINE[outcome]);
    return Flow.CLOSE_ERROR;
  }
  const flow = fillBlock(conversation, request.noreply ? NO_REPLY : LATE_REPLY);
  request.next = request.start;
  return flow;
}

/** Answers clients that delete in each cache of a list. Its lines must not name nodes: they would delete rows. */
export function caches(conversation: RequestConversation): Flow {
  const { cache } = conversation.thread;
  return cache.parking === null ? Flow.UNKNOWN : answer(conversation, REFUSAL.NO_CACHES);
}

/** `uput <key> <flags> <bytes> <id>`, and the value. */
export function uput(conversation: RequestConversation): Flow {
  const { cache, operation } = conversation.thread;
  if (cache.parking === null) return Flow.UNKNOWN;
  if (!readValueLength(conversation, PUT_LENGTH_WORD)) return Flow.DONE;
  return rowCommand(conversation, operation.valueLength);
}

/** `node <verb> <session> <number> <bytes>`, and a block. */
export function node(conversation: RequestConversation): Flow {
  const { cache, operation } = conversation.thread;
  if (cache.parking === null) return Flow.UNKNOWN;
  if (!readValueLength(conversation, NODE_LENGTH_WORD)) return Flow.DONE;
  return rowCommand(conversation, operation.valueLength);
}

/** Whether a word of the line is a key behind which there is a database. */
export function isRowWord({ thread }: RequestConversation, word = KEY_WORD): boolean {
  const { cache, request, input } = thread;
  if (word >= request.wordCount) return false;
  const keyOffset = request.wordStart[word]!;
  return cache.isRow({ input, keyOffset, keyLength: request.wordLength(word) });
}
