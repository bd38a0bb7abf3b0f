import { StoreMode } from "../../store/operation.ts";
import { deadlineSec } from "../../store/clock.ts";
import { isExtending } from "../../store/claims/write_guard.ts";
import * as limitsModule from "../../store/limits.ts";
import { Outcome } from "../../store/outcome.ts";
import * as statsModule from "../../store/stats.ts";
import type { Conversation } from "../conversation.ts";
import * as repliesModule from "../replies.ts";
import { Flow } from "../request.ts";
import { FillTask, type StoreReply, SwallowTask } from "../tasks.ts";
import { answer } from "./answer.ts";

// Copies of imported constants: the engine folds only a module's own constants into its code.
const { BUFFERED_VALUE_BYTES_MAX, KEY_LENGTH_MAX, PENDING_BYTES_MAX } = limitsModule;
const { STAT } = statsModule;
const { OUTCOME_LINE, REFUSAL } = repliesModule;

// Hot path: no allocation.

/** "\r\n" as a little-endian number. */
const CRLF = 0x0a0d;
/** So that the length with CR LF is an int32 (memcached: INT_MAX - 2). */
const VALUE_LENGTH_MAX = 2147483645;

// Where the words of a storage line stand.
const KEY_WORD = 1;
const FLAGS_WORD = 2;
const EXPTIME_WORD = 3;
const LENGTH_WORD = 4;
const CAS_WORD = 5;

class TextStoreReply implements StoreReply {
  readonly #noreply: boolean;

  constructor(noreply: boolean) {
    this.#noreply = noreply;
  }

  stored(conversation: Conversation, outcome: Outcome): void {
    if (!this.#noreply) conversation.thread.reply.put(OUTCOME_LINE[outcome]);
  }

  kept(): StoreReply {
    return this;
  }

  badChunk(conversation: Conversation): void {
    // Its memory had been found, and that is what cmd_set counts.
    conversation.thread.memory.counters[STAT.cmd_set]! += 1;
    if (!this.#noreply) conversation.thread.reply.put(REFUSAL.BAD_CHUNK);
  }
}

/** How storage lines are answered, without and with `noreply`. */
export const ANSWERED: StoreReply = new TextStoreReply(false);
export const SILENT: StoreReply = new TextStoreReply(true);

/** set, add, replace, append, prepend, cas: reads the line's numbers into the change, then stores. */
export function store(conversation: Conversation, mode: StoreMode): Flow {
  const { request, numbers, input, operation, memory } = conversation.thread;
  const { wordStart, wordEnd } = request;
  if (!readValueLength(conversation, LENGTH_WORD)) return Flow.DONE;
  operation.mode = mode;
  operation.explicit = false;
  operation.keyOffset = wordStart[KEY_WORD]!;
  operation.keyLength = request.wordLength(KEY_WORD);
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
  return storeBlock(conversation, request.noreply ? SILENT : ANSWERED);
}

/**
 * Reads how long the data block is into the change. If it cannot, the request is refused, and since
 * nobody knows where the block ends it will be read as commands.
 */
export function readValueLength(conversation: Conversation, word: number): boolean {
  const { request, numbers, input, operation, reply } = conversation.thread;
  if (
    !numbers.int32(input, request.wordStart[word]!, request.wordEnd[word]!) ||
    numbers.value < 0 || numbers.value > VALUE_LENGTH_MAX
  ) {
    // No word was looked at for `noreply` yet.
    reply.put(REFUSAL.BAD_FORMAT);
    return false;
  }
  operation.valueLength = numbers.value;
  return true;
}

function readCompare(conversation: Conversation): boolean {
  const { request, numbers, input, operation } = conversation.thread;
  if (request.wordCount <= CAS_WORD) return false;
  if (!numbers.u64(input, request.wordStart[CAS_WORD]!, request.wordEnd[CAS_WORD]!)) return false;
  operation.compareLow = numbers.low;
  operation.compareHigh = numbers.high;
  return true;
}

/**
 * Stores the data block behind `request.lineEnd`, as `operation` says, or as much of it as there is.
 */
export function storeBlock(conversation: Conversation, reply: StoreReply): Flow {
  const { request, input, operation, cache, tunables, prefixes } = conversation.thread;
  const valueOffset = request.lineEnd;
  const { trailerLength } = request;
  const end = valueOffset + operation.valueLength + trailerLength;
  const complete = end <= request.inputEnd;
  if (
    !complete && operation.valueLength <= BUFFERED_VALUE_BYTES_MAX &&
    end - request.start <= PENDING_BYTES_MAX
  ) return Flow.INCOMPLETE;
  if (tunables.detailEnabled) prefixes.countSet(input, operation.keyOffset, operation.keyLength);
  if (!complete) return beginFill(conversation, reply);
  request.next = end;
  if (trailerLength > 0 && input.view.getInt16(end - trailerLength, true) !== CRLF) {
    reply.badChunk(conversation);
    return Flow.DONE;
  }
  operation.valueOffset = valueOffset;
  // An append is refused as such when already the piece is too large.
  if (isExtending(operation) && !fitsAlone(conversation)) {
    cache.storeRefused(operation, Outcome.TOO_LARGE);
    reply.stored(conversation, Outcome.TOO_LARGE);
  } else {
    reply.stored(conversation, cache.store(operation));
  }
  return Flow.DONE;
}

function fitsAlone(conversation: Conversation): boolean {
  const { operation, cache } = conversation.thread;
  return cache.fits(operation.keyLength, operation.valueLength, operation.clientFlags);
}

/** A long value of which a part is here: makes room for it, and fills it as it comes. */
function beginFill(conversation: Conversation, reply: StoreReply): Flow {
  const { request, operation, cache } = conversation.thread;
  const outcome = cache.reserve(operation);
  if (outcome !== Outcome.OK) {
    cache.storeRefused(operation, outcome);
    reply.stored(conversation, outcome);
    return swallowBlock(conversation);
  }
  const { trailerLength } = request;
  conversation.task = new FillTask(operation, trailerLength > 0, reply.kept(conversation));
  request.next = request.lineEnd;
  return Flow.UNDER_WAY;
}

/** Refuses a storage line whose data block's length is known, and passes over the block. */
export function refuseBlock(conversation: Conversation): Flow {
  answer(conversation, REFUSAL.BAD_FORMAT);
  return swallowBlock(conversation);
}

/** Passes over the data block of `operation.valueLength` bytes and what ends it. */
export function swallowBlock(conversation: Conversation): Flow {
  const { request, operation } = conversation.thread;
  const length = operation.valueLength + request.trailerLength;
  if (request.lineEnd + length <= request.inputEnd) {
    request.next = request.lineEnd + length;
    return Flow.DONE;
  }
  conversation.task = new SwallowTask(length);
  request.next = request.lineEnd;
  return Flow.UNDER_WAY;
}

/** Takes the key from the line's second word. False when it is too long. */
export function readKey(conversation: Conversation): boolean {
  const { request, operation } = conversation.thread;
  operation.keyOffset = request.wordStart[KEY_WORD]!;
  operation.keyLength = request.wordLength(KEY_WORD);
  operation.compare = false;
  operation.explicit = false;
  return operation.keyLength <= KEY_LENGTH_MAX;
}

/** `delete <key>` */
export function remove(conversation: Conversation): Flow {
  if (!readKey(conversation)) return answer(conversation, REFUSAL.BAD_FORMAT);
  return answer(conversation, OUTCOME_LINE[removeKey(conversation)]);
}

/** Deletes, as the change says. */
export function removeKey(conversation: Conversation): Outcome {
  const { operation, cache, input, tunables, prefixes } = conversation.thread;
  if (tunables.detailEnabled) prefixes.countDelete(input, operation.keyOffset, operation.keyLength);
  return cache.remove(operation);
}

/** `touch <key> <exptime>` */
export function touch(conversation: Conversation): Flow {
  const { request, numbers, input, operation, cache, memory } = conversation.thread;
  if (!readKey(conversation)) return answer(conversation, REFUSAL.BAD_FORMAT);
  if (!numbers.int32(input, request.wordStart[2]!, request.wordEnd[2]!)) {
    return answer(conversation, REFUSAL.BAD_EXPTIME);
  }
  operation.deadlineSec = deadlineSec(memory, numbers.value);
  return answer(conversation, OUTCOME_LINE[cache.touch(operation)]);
}
