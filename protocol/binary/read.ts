import {
  type Found,
  type FoundWriter,
  type ItemRef,
  NO_ITEM,
  outcomeOf,
} from "../../store/cache.ts";
import { deadlineSec } from "../../store/clock.ts";
import { Outcome } from "../../store/outcome.ts";
import { countRead } from "../detail_counts.ts";
import { OUTCOME_STATUS, putError, putHeader } from "./replies.ts";
import type { BinaryRequest } from "./request.ts";
import type { Conversation, RequestConversation } from "../conversation.ts";
import { Flow } from "../request.ts";
import { Status } from "../reply/binary_status.ts";
import { SendTask } from "../tasks.ts";

// Hot path: no allocation.

const FLAGS_LENGTH = 4;

/** Writes replies that have an item. */
class ItemWriter implements FoundWriter<BinaryRequest> {
  readonly marksHits = true;
  readonly #withKey: boolean;

  constructor(withKey: boolean) {
    this.#withKey = withKey;
  }

  write(binary: BinaryRequest, found: Found): boolean {
    this.putHeader(binary, found, found.valueLength);
    binary.thread.reply.foundValue(found);
    return true;
  }

  /** Writes that there is no item, unless the command is quiet. */
  writeMiss(binary: BinaryRequest): boolean {
    if (binary.quiet) return true;
    const { input, operation, reply } = binary.thread;
    const { keyOffset, keyLength } = operation;
    if (this.#withKey) {
      putHeader(reply, binary, Status.NOT_FOUND, 0, keyLength, 0, 0, 0);
      reply.copy(input, keyOffset, keyLength);
    } else {
      putError(reply, binary, Status.NOT_FOUND);
    }
    return true;
  }

  /** Writes header, flags and key in front of a value. */
  putHeader(binary: BinaryRequest, found: Found, valueLength: number): void {
    const { operation, reply, input } = binary.thread;
    const keyLength = this.#withKey ? operation.keyLength : 0;
    const { idLow, idHigh } = found;
    putHeader(reply, binary, Status.OK, FLAGS_LENGTH, keyLength, valueLength, idLow, idHigh);
    reply.region.view.setInt32(reply.length, found.clientFlags | 0);
    reply.length += FLAGS_LENGTH;
    if (keyLength > 0) reply.copy(input, operation.keyOffset, keyLength);
  }
}

const WITHOUT_KEY = new ItemWriter(false);
const WITH_KEY = new ItemWriter(true);

/** Get, GetK and their quiet forms. */
export function get(conversation: Conversation, binary: BinaryRequest, withKey: boolean): Flow {
  const { thread } = conversation;
  const { cache, operation, reply } = thread;
  if (!thread.isHolding) {
    const writer = withKey ? WITH_KEY : WITHOUT_KEY;
    if (cache.optimistic.read(operation, reply, binary, writer)) return Flow.DONE;
    thread.hold();
  }
  return putFound(conversation, binary, cache.get(operation), withKey);
}

/** GaT, GaTK and their quiet forms. */
export function getAndTouch(
  conversation: RequestConversation,
  binary: BinaryRequest,
  withKey: boolean,
): Flow {
  const { cache, operation } = conversation.thread;
  operation.deadlineSec = readDeadline(conversation, binary);
  cache.prefetch.addHash(operation);
  const item = cache.getAndTouch(operation);
  return putFound(conversation, binary, item, withKey);
}

/** Answers with an item, or with "not found". */
function putFound(
  conversation: RequestConversation,
  binary: BinaryRequest,
  item: ItemRef,
  withKey: boolean,
): Flow {
  const { thread } = conversation;
  if (item < NO_ITEM) {
    putError(thread.reply, binary, OUTCOME_STATUS[outcomeOf(item)]);
    return Flow.DONE;
  }
  countRead(thread, thread.operation, item !== NO_ITEM);
  if (item !== NO_ITEM) return putItem(conversation, binary, item, withKey);
  (withKey ? WITH_KEY : WITHOUT_KEY).writeMiss(binary);
  return Flow.DONE;
}

/** Touch: answered like a Get without the value, and a get for `stats detail` (memcached). */
export function touch(conversation: RequestConversation, binary: BinaryRequest): Flow {
  const { thread } = conversation;
  const { cache, operation, reply } = thread;
  operation.deadlineSec = readDeadline(conversation, binary);
  const outcome = cache.touch(operation);
  countRead(thread, operation, outcome === Outcome.TOUCHED);
  if (outcome === Outcome.TOUCHED) WITHOUT_KEY.putHeader(binary, cache.describe(operation.item), 0);
  else putError(reply, binary, OUTCOME_STATUS[outcome]);
  return Flow.DONE;
}

/** LaG, LaGK and their quiet forms, which are silent about nothing. */
export function lockAndGet(
  conversation: RequestConversation,
  binary: BinaryRequest,
  withKey: boolean,
): Flow {
  const { cache, operation, reply } = conversation.thread;
  if (conversation.udp) {
    putError(reply, binary, Status.INVALID);
    return Flow.DONE;
  }
  const touches = binary.extrasLength > 0 && readExptime(conversation, binary) !== KEEP_EXPTIME;
  if (touches) operation.deadlineSec = readDeadline(conversation, binary);
  const outcome = cache.lockAndGet(operation, touches);
  if (outcome === Outcome.OK) return putItem(conversation, binary, operation.item, withKey);
  // A client that asks for a lock knows its replies, whatever `-o lock_reply` says.
  putError(reply, binary, outcome === Outcome.LOCKED ? Status.LOCKED : OUTCOME_STATUS[outcome]);
  return Flow.DONE;
}

/** LaG with this expiry time leaves the item's as it is. */
const KEEP_EXPTIME = 0xffffffff;

/** The expiry time in the extras: always above 0. */
function readExptime(conversation: RequestConversation, binary: BinaryRequest): number {
  const { input } = conversation.thread;
  return input.view.getUint32(binary.extrasOffset);
}

function readDeadline(conversation: RequestConversation, binary: BinaryRequest): number {
  return deadlineSec(conversation.thread.memory, readExptime(conversation, binary));
}

/** Answers with an item. */
export function putItem(
  conversation: RequestConversation,
  binary: BinaryRequest,
  item: ItemRef,
  withKey: boolean,
): Flow {
  const { thread } = conversation;
  const { cache, reply } = thread;
  const found = cache.describe(item);
  (withKey ? WITH_KEY : WITHOUT_KEY).putHeader(binary, found, found.valueLength);
  if (reply.value(cache, found)) return Flow.DONE;
  conversation.task = new SendTask(thread, item, false, null);
  return Flow.UNDER_WAY;
}
