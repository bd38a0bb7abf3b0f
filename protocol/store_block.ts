import * as bytesModule from "../store/base/bytes.ts";
import * as cacheModule from "../store/cache.ts";
import * as limitsModule from "../store/limits.ts";
import { isExtending } from "../store/operation.ts";
import { Outcome } from "../store/outcome.ts";
import type { RequestConversation } from "./conversation.ts";
import { countStore } from "./detail_counts.ts";
import { REFUSAL } from "./reply/replies.ts";
import { Flow } from "./request.ts";
import { FillTask, type StoreReply, SwallowTask } from "./tasks.ts";

const { CRLF } = bytesModule;
const { NO_ITEM } = cacheModule;
const { BUFFERED_VALUE_BYTES_MAX, PENDING_BYTES_MAX } = limitsModule;

// Hot path: no allocation.

/** Copying and freeing so many bytes, as a power of two, costs a unit of work. */
const COPY_SHIFT = 9;

/** So that the length with CR LF is an int32 (memcached: INT_MAX - 2). */
const VALUE_LENGTH_MAX = 2147483645;

/** Returned by `storeBlock` while there is no outcome. */
export const Block = {
  /** The rest of the block must arrive first, and nothing has happened: return Flow.INCOMPLETE. */
  INCOMPLETE: -1,
  /** `operation.reserved` has memory for a long value: return `fillBlock`. */
  ARRIVING: -2,
} as const;

export type Block = typeof Block[keyof typeof Block];

/**
 * Reads the data block's length into the operation. Refuses the request if it is no length; then the end of the block
 * is unknown, and the block is parsed as commands.
 */
export function readValueLength(conversation: RequestConversation, word: number): boolean {
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

/**
 * Stores the data block behind `request.lineEnd` as `operation` says. Without an outcome of the store, returns a
 * Block. After an outcome, the caller answers it and returns `afterBlock`.
 */
export function storeBlock(conversation: RequestConversation): Outcome | Block {
  const { request, operation } = conversation.thread;
  const end = request.lineEnd + operation.valueLength + request.trailerLength;
  const complete = end <= request.inputEnd;
  if (
    !complete && operation.valueLength <= BUFFERED_VALUE_BYTES_MAX &&
    end - request.start <= PENDING_BYTES_MAX
  ) {
    conversation.valueMissing = true;
    return Block.INCOMPLETE;
  }
  const outcome = complete ? storeComplete(conversation, end) : reserveBlock(conversation);
  countStore(conversation.thread, operation);
  return outcome;
}

/** Stores a data block that has arrived. @param end The byte behind it and its end marker. */
function storeComplete(conversation: RequestConversation, end: number): Outcome {
  const { request, input, operation, cache, work } = conversation.thread;
  const { trailerLength } = request;
  request.next = end;
  if (trailerLength > 0 && input.view.getInt16(end - trailerLength, true) !== CRLF) {
    return cache.refuseBadChunk(operation);
  }
  operation.valueOffset = request.lineEnd;
  const outcome = cache.store(operation);
  // A long value is copied for every piece.
  if (operation.item !== NO_ITEM && isExtending(operation)) {
    work.spent += cache.valueLength(operation.item) >> COPY_SHIFT;
  }
  return outcome;
}

/** Reserves memory for a long value that has arrived in part; without memory, skips the block. */
function reserveBlock(conversation: RequestConversation): Outcome | Block {
  const { operation, cache } = conversation.thread;
  if (cache.parking !== null && cache.parking.endsLookAhead()) return Outcome.PARKED;
  const outcome = cache.reserved.reserve(operation);
  if (outcome === Outcome.OK) return Block.ARRIVING;
  swallowBlock(conversation);
  return outcome;
}

/** After `Block.ARRIVING`: fills the value as it arrives, stores it, and answers with `reply`. */
export function fillBlock(conversation: RequestConversation, reply: StoreReply): Flow {
  const { request, operation, cache } = conversation.thread;
  const hasTrailer = request.trailerLength > 0;
  conversation.task = new FillTask(cache, operation.copy(), hasTrailer, reply);
  request.next = request.lineEnd;
  return Flow.UNDER_WAY;
}

/** After an outcome: a refused block may still have to be skipped as it arrives. */
export function afterBlock(conversation: RequestConversation): Flow {
  return conversation.task === null ? Flow.DONE : Flow.UNDER_WAY;
}

/** Skips the data block of `operation.valueLength` bytes and its end marker. */
export function swallowBlock(conversation: RequestConversation): Flow {
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
