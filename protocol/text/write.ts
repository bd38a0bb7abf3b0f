import { type DeleteCommand, StoreMode } from "../../store/operation.ts";
import { deadlineSec } from "../../store/clock.ts";
import * as limitsModule from "../../store/limits.ts";
import { Outcome } from "../../store/outcome.ts";
import type { RequestConversation } from "../conversation.ts";
import { countDeletion } from "../detail_counts.ts";
import * as repliesModule from "../reply/replies.ts";
import { Flow } from "../request.ts";
import {
  afterBlock,
  fillBlock,
  readValueLength,
  storeBlock,
  swallowBlock,
} from "../store_block.ts";
import * as storeBlockModule from "../store_block.ts";
import type { StoreReply } from "../tasks.ts";
import { answer, answerOutcome } from "./answer.ts";

const { KEY_LENGTH_MAX } = limitsModule;
const { Block } = storeBlockModule;
const { OUTCOME_LINE, REFUSAL } = repliesModule;

// Hot path: no allocation.

// Positions of the words in a storage line.
const KEY_WORD = 1;
const FLAGS_WORD = 2;
const EXPTIME_WORD = 3;
const LENGTH_WORD = 4;
const CAS_WORD = 5;

/** Position of the amount in a line of incr or decr. */
const DELTA_WORD = 2;

/** Answers a storage line whose value arrived in pieces. */
const LATE_REPLY: StoreReply = {
  put({ reply }, _operation, outcome): void {
    reply.put(OUTCOME_LINE[outcome]);
  },
};
const NO_REPLY: StoreReply = { put(): void {} };

/** set, add, replace, append, prepend, cas: reads the line's numbers into the operation, then stores. */
export function store(conversation: RequestConversation, mode: StoreMode): Flow {
  const { request, numbers, input, operation, memory } = conversation.thread;
  const { wordStart, wordEnd } = request;
  if (!readValueLength(conversation, LENGTH_WORD)) return Flow.DONE;
  operation.begin(wordStart[KEY_WORD]!, request.wordLength(KEY_WORD));
  operation.mode = mode;
  if (operation.keyLength > KEY_LENGTH_MAX) return refuseBlock(conversation);
  if (!numbers.unsignedLong(input, wordStart[FLAGS_WORD]!, wordEnd[FLAGS_WORD]!)) {
    return refuseBlock(conversation);
  }
  operation.clientFlags = numbers.value;
  if (!numbers.long(input, wordStart[EXPTIME_WORD]!, wordEnd[EXPTIME_WORD]!)) {
    return refuseBlock(conversation);
  }
  operation.deadlineSec = deadlineSec(memory, numbers.value);
  operation.compare = mode === StoreMode.CAS;
  if (operation.compare && !readCompare(conversation)) return refuseBlock(conversation);
  return storeAndAnswer(conversation);
}

/** Stores the data block as `operation` says, and answers with a line unless `noreply` was given. */
export function storeAndAnswer(conversation: RequestConversation): Flow {
  const { request, reply } = conversation.thread;
  const outcome = storeBlock(conversation);
  if (outcome === Block.INCOMPLETE) return Flow.INCOMPLETE;
  if (outcome === Block.ARRIVING) {
    return fillBlock(conversation, request.noreply ? NO_REPLY : LATE_REPLY);
  }
  if (!request.noreply) reply.put(OUTCOME_LINE[outcome]);
  return afterBlock(conversation);
}

function readCompare(conversation: RequestConversation): boolean {
  const { request, numbers, input, operation } = conversation.thread;
  if (request.wordCount <= CAS_WORD) return false;
  if (!numbers.u64(input, request.wordStart[CAS_WORD]!, request.wordEnd[CAS_WORD]!)) return false;
  operation.compareLow = numbers.low;
  operation.compareHigh = numbers.high;
  return true;
}

/** Refuses a storage line whose data block's length is known, and skips the block. */
export function refuseBlock(conversation: RequestConversation): Flow {
  answer(conversation, REFUSAL.BAD_FORMAT);
  return swallowBlock(conversation);
}

/** Starts an operation on the key in the line's second word. Returns false when the key is too long. */
export function readKey(conversation: RequestConversation, word = KEY_WORD): boolean {
  const { request, operation } = conversation.thread;
  operation.begin(request.wordStart[word]!, request.wordLength(word));
  return operation.keyLength <= KEY_LENGTH_MAX;
}

/** `delete <key>` */
export function remove(conversation: RequestConversation): Flow {
  if (!readKey(conversation)) return answer(conversation, REFUSAL.BAD_FORMAT);
  return answerOutcome(conversation, removeKey(conversation, "delete"));
}

/** Deletes the operation's key. @param deletedBy What watchers are told. */
export function removeKey(
  conversation: RequestConversation,
  deletedBy: DeleteCommand | null,
): Outcome {
  const { operation, cache } = conversation.thread;
  operation.deletedBy = deletedBy;
  const outcome = cache.remove(operation);
  countDeletion(conversation.thread, operation);
  return outcome;
}

/** `touch <key> <exptime>` */
export function touch(conversation: RequestConversation): Flow {
  const { request, numbers, input, operation, cache, memory } = conversation.thread;
  if (!readKey(conversation)) return answer(conversation, REFUSAL.BAD_FORMAT);
  if (!numbers.int32(input, request.wordStart[2]!, request.wordEnd[2]!)) {
    return answer(conversation, REFUSAL.BAD_EXPTIME);
  }
  operation.deadlineSec = deadlineSec(memory, numbers.value);
  return answerOutcome(conversation, cache.touch(operation));
}

/** incr and decr. */
export function arithmetic(conversation: RequestConversation, increment: boolean): Flow {
  const { request, numbers, input, operation, cache, reply } = conversation.thread;
  if (!readKey(conversation)) return answer(conversation, REFUSAL.BAD_FORMAT);
  if (!numbers.u64(input, request.wordStart[DELTA_WORD]!, request.wordEnd[DELTA_WORD]!)) {
    return answer(conversation, REFUSAL.BAD_DELTA);
  }
  operation.deltaLow = numbers.low;
  operation.deltaHigh = numbers.high;
  const outcome = cache.incrDecr(operation, increment);
  if (outcome === Outcome.NO_MEMORY) return answer(conversation, REFUSAL.OUT_OF_MEMORY);
  if (outcome !== Outcome.OK) return answerOutcome(conversation, outcome);
  if (!request.noreply) {
    reply.decimalU64(operation.resultLow, operation.resultHigh);
    reply.crlf();
  }
  return Flow.DONE;
}
