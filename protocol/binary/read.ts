import {
  type Found,
  type FoundWriter,
  type ItemRef,
  LOCKED_ITEM,
  NO_ITEM,
} from "../../store/cache.ts";
import { deadlineSec } from "../../store/clock.ts";
import { Outcome } from "../../store/outcome.ts";
import { OUTCOME_STATUS, putError, putHeader } from "./replies.ts";
import type { Conversation } from "../conversation.ts";
import { Flow } from "../request.ts";
import { Status } from "../binary_status.ts";
import { SendTask } from "../tasks.ts";
import type { ThreadContext } from "../thread_context.ts";

// Hot path: no allocation.

const FLAGS_LENGTH = 4;

/** Writes replies that have an item. */
class ItemWriter implements FoundWriter<ThreadContext> {
  readonly marksHits = true;
  readonly #withKey: boolean;

  constructor(withKey: boolean) {
    this.#withKey = withKey;
  }

  write(thread: ThreadContext, found: Found): boolean {
    this.putHeader(thread, found, found.valueLength);
    thread.reply.foundValue(found);
    return true;
  }

  /** Writes that there is no item, unless the command is quiet. */
  writeMiss({ input, operation, binary, reply }: ThreadContext): boolean {
    if (binary.quiet) return true;
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
  putHeader(
    { operation, binary, reply, input }: ThreadContext,
    found: Found,
    valueLength: number,
  ): void {
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
export function get(conversation: Conversation, withKey: boolean): Flow {
  const { thread } = conversation;
  const { cache, input, operation, binary, reply } = thread;
  if (!thread.isHolding) {
    const writer = withKey ? WITH_KEY : WITHOUT_KEY;
    if (cache.optimistic.read(operation, binary.hash, reply, thread, writer)) return Flow.DONE;
    thread.hold();
  }
  const item = cache.get(input, operation.keyOffset, operation.keyLength, binary.hash);
  return putFound(conversation, item, withKey);
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
  (withKey ? WITH_KEY : WITHOUT_KEY).writeMiss(thread);
  return Flow.DONE;
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
  if (outcome === Outcome.TOUCHED) WITHOUT_KEY.putHeader(thread, cache.describe(operation.item), 0);
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

/** Answers with an item. */
export function putItem(conversation: Conversation, item: ItemRef, withKey: boolean): Flow {
  const { thread } = conversation;
  const { cache, reply } = thread;
  const found = cache.describe(item);
  (withKey ? WITH_KEY : WITHOUT_KEY).putHeader(thread, found, found.valueLength);
  if (reply.value(cache, found)) return Flow.DONE;
  conversation.task = new SendTask(thread, item, false, null);
  return Flow.UNDER_WAY;
}
