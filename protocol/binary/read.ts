import {
  ATTEMPTS_MAX,
  type ItemRef,
  LOCKED_ITEM,
  NO_ITEM,
  ReadOutcome,
} from "../../store/cache.ts";
import { deadlineSec } from "../../store/clock.ts";
import { Outcome } from "../../store/outcome.ts";
import { OUTCOME_STATUS, putError, putHeader } from "./replies.ts";
import type { Conversation } from "../conversation.ts";
import { Flow } from "../request.ts";
import { Status } from "../binary_status.ts";
import { AROUND_VALUE_ROOM } from "../reply_buffer.ts";
import { SendTask } from "../tasks.ts";
import type { ThreadContext } from "../thread_context.ts";

// Hot path: no allocation.

const FLAGS_LENGTH = 4;

/** Get, GetK and their quiet forms. */
export function get(conversation: Conversation, withKey: boolean): Flow {
  const { thread } = conversation;
  const { cache, input, operation, binary } = thread;
  if (!thread.isHolding) {
    if (getOptimistically(thread, withKey)) return Flow.DONE;
    thread.hold();
  }
  const item = cache.get(input, operation.keyOffset, operation.keyLength, binary.hash);
  return putFound(conversation, item, withKey);
}

/**
 * Answers Get and its other forms if the key can be read without the mutex.
 *
 * @returns False when the mutex is needed; then nothing has happened.
 */
function getOptimistically(thread: ThreadContext, withKey: boolean): boolean {
  const { cache: { optimistic }, input, operation, binary, reply } = thread;
  const { keyOffset, keyLength } = operation;
  const start = reply.length;
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    const outcome = optimistic.find(input, keyOffset, keyLength, binary.hash);
    if (outcome === ReadOutcome.MISS) {
      optimistic.countMiss();
      putMiss(thread, withKey);
      return true;
    }
    const { valueLength } = optimistic;
    if (outcome === ReadOutcome.BUSY || valueLength > reply.room - AROUND_VALUE_ROOM) break;
    const { clientFlags, idLow, idHigh } = optimistic;
    putFoundHeader(thread, withKey, valueLength, clientFlags, idLow, idHigh);
    optimistic.copyValue(reply.region, reply.length);
    if (optimistic.confirm()) {
      optimistic.noteHit(keyLength, binary.hash, true);
      reply.length += valueLength;
      return true;
    }
    reply.length = start;
  }
  optimistic.countFallback();
  return false;
}

/** GaT, GaTK and their quiet forms. */
export function getAndTouch(conversation: Conversation, withKey: boolean): Flow {
  const { cache, input, operation, binary, reply } = conversation.thread;
  const deadline = readDeadline(conversation);
  const { keyOffset, keyLength } = operation;
  const item = cache.getAndTouch(input, keyOffset, keyLength, deadline, conversation.owner);
  if (item !== LOCKED_ITEM) return putFound(conversation, item, withKey);
  putError(reply, binary, Status.LOCKED);
  return Flow.DONE;
}

/** Answers with an item, or that there is none. */
function putFound(conversation: Conversation, item: ItemRef, withKey: boolean): Flow {
  const { thread } = conversation;
  const { input, operation } = thread;
  const { keyOffset, keyLength } = operation;
  if (thread.tunables.detailEnabled) {
    thread.prefixes.countGet(input, keyOffset, keyLength, item !== NO_ITEM);
  }
  if (item !== NO_ITEM) return putItem(conversation, item, withKey);
  putMiss(thread, withKey);
  return Flow.DONE;
}

/** Answers that there is no item, unless the command is quiet. */
function putMiss({ input, operation, binary, reply }: ThreadContext, withKey: boolean): void {
  if (binary.quiet) return;
  const { keyOffset, keyLength } = operation;
  if (withKey) {
    putHeader(reply, binary, Status.NOT_FOUND, 0, keyLength, 0, 0, 0);
    reply.copy(input, keyOffset, keyLength);
  } else {
    putError(reply, binary, Status.NOT_FOUND);
  }
}

/** Touch: answered like a Get without the value, and a get for `stats detail` (memcached). */
export function touch(conversation: Conversation): Flow {
  const { thread } = conversation;
  const { cache, input, operation, binary, reply } = thread;
  operation.deadlineSec = readDeadline(conversation);
  const { keyOffset, keyLength } = operation;
  const outcome = cache.touch(operation);
  if (thread.tunables.detailEnabled) {
    thread.prefixes.countGet(input, keyOffset, keyLength, outcome === Outcome.TOUCHED);
  }
  if (outcome === Outcome.TOUCHED) putItemHeader(conversation, operation.item, false, 0);
  else putError(reply, binary, OUTCOME_STATUS[outcome]);
  return Flow.DONE;
}

/** LaG, LaGK and their quiet forms, which are silent about nothing. */
export function lockAndGet(conversation: Conversation, withKey: boolean): Flow {
  const { cache, operation, binary, reply } = conversation.thread;
  if (conversation.udp) {
    putError(reply, binary, Status.INVALID);
    return Flow.DONE;
  }
  const touches = binary.extrasLength > 0 && readExptime(conversation) !== KEEP_EXPTIME;
  if (touches) operation.deadlineSec = readDeadline(conversation);
  const outcome = cache.lockAndGet(operation, touches);
  if (outcome === Outcome.OK) return putItem(conversation, operation.item, withKey);
  putError(reply, binary, OUTCOME_STATUS[outcome]);
  return Flow.DONE;
}

/** LaG with this expiry time leaves the item's as it is. */
const KEEP_EXPTIME = 0xffffffff;

/** The expiry time in the extras: always above 0. */
function readExptime(conversation: Conversation): number {
  const { input, binary } = conversation.thread;
  return input.view.getUint32(binary.extrasOffset);
}

function readDeadline(conversation: Conversation): number {
  return deadlineSec(conversation.thread.memory, readExptime(conversation));
}

/** Writes header, flags and key of a reply that has an item. */
function putItemHeader(
  conversation: Conversation,
  item: ItemRef,
  withKey: boolean,
  valueLength: number,
): void {
  const { thread } = conversation;
  const { cache } = thread;
  const flags = cache.clientFlags(item);
  putFoundHeader(thread, withKey, valueLength, flags, cache.idLow(item), cache.idHigh(item));
}

/** Writes header, flags and key in front of a value. */
function putFoundHeader(
  { operation, binary, reply, input }: ThreadContext,
  withKey: boolean,
  valueLength: number,
  clientFlags: number,
  idLow: number,
  idHigh: number,
): void {
  const keyLength = withKey ? operation.keyLength : 0;
  putHeader(reply, binary, Status.OK, FLAGS_LENGTH, keyLength, valueLength, idLow, idHigh);
  reply.region.view.setInt32(reply.length, clientFlags | 0);
  reply.length += FLAGS_LENGTH;
  if (withKey) reply.copy(input, operation.keyOffset, keyLength);
}

/** Answers with an item. */
export function putItem(conversation: Conversation, item: ItemRef, withKey: boolean): Flow {
  const { thread } = conversation;
  const { cache, reply } = thread;
  const valueLength = cache.valueLength(item);
  putItemHeader(conversation, item, withKey, valueLength);
  if (reply.value(cache, item, valueLength)) return Flow.DONE;
  conversation.task = new SendTask(thread, item, false, null);
  return Flow.UNDER_WAY;
}
