import * as bytesModule from "../../store/base/bytes.ts";
import { copyBytes } from "../../store/base/bytes.ts";
import * as cacheModule from "../../store/cache.ts";
import { deadlineSec } from "../../store/clock.ts";
import type { Found, FoundWriter, ItemRef } from "../../store/cache.ts";
import * as limitsModule from "../../store/limits.ts";
import { Outcome } from "../../store/outcome.ts";
import {
  type Conversation,
  ConversationState,
  type Multiget,
  type RequestConversation,
} from "../conversation.ts";
import * as repliesModule from "../reply/replies.ts";
import { countRead } from "../detail_counts.ts";
import { putDecimal } from "../../store/base/decimal.ts";
import type { ReplyBuffer } from "../reply/reply_buffer.ts";
import * as replyBufferModule from "../reply/reply_buffer.ts";
import { Flow } from "../request.ts";
import { readRowsAhead, RowWait } from "../row_wait.ts";
import { SendTask, SkipLineTask } from "../tasks.ts";
import type { RequestThread } from "../thread_context.ts";
import * as workBudgetModule from "../work_budget.ts";
import { answer } from "./answer.ts";

const { CR, CRLF, LF, SPACE } = bytesModule;
const { NO_ITEM, outcomeOf } = cacheModule;
const { KEY_LENGTH_MAX, LINE_LENGTH_MAX } = limitsModule;
const { OUTCOME_LINE, REFUSAL, REPLY } = repliesModule;
const { REPLY_ROOM_MIN } = replyBufferModule;
const { WORK: { REQUEST: REQUEST_UNITS } } = workBudgetModule;

// Hot path: no allocation.

// Little-endian pieces of fixed replies.
const VALU = 0x554c4156;
const E_SPACE = 0x2045;
const END_1 = 0x0d444e45; // "END\r"

/** Keys, at most, of a line of ordinary length. Such a line is answered in one slice, so that it fails as a whole. */
const KEYS_PER_LINE = LINE_LENGTH_MAX / 2;

/** mcrouter's lease token for a lease that another client holds; no id is ever 1. */
const HELD_BY_ANOTHER = 1;

/** Writes keys' lines and values. */
class ValueWriter implements FoundWriter<RequestThread> {
  readonly marksHits = true;
  readonly #withId: boolean;
  readonly #givesLease: boolean;

  /** @param givesLease Whether a miss gives a lease. */
  constructor(withId: boolean, givesLease = false) {
    this.#withId = withId;
    this.#givesLease = givesLease;
  }

  writeMiss(): boolean {
    return !this.#givesLease;
  }

  write(thread: RequestThread, found: Found): boolean {
    const { reply } = thread;
    this.putLine(thread, found);
    reply.foundValue(found);
    reply.crlf();
    return true;
  }

  /** Writes the line in front of a value. */
  putLine({ reply, input, operation }: RequestThread, found: Found): void {
    const { keyOffset, keyLength } = operation;
    const { view, bytes } = reply.region;
    let at = reply.length;
    view.setInt32(at, VALU, true);
    view.setInt16(at + 4, E_SPACE, true);
    copyBytes(reply.region, at + 6, input, keyOffset, keyLength);
    at += 6 + keyLength;
    bytes[at] = SPACE;
    at = putDecimal(bytes, at + 1, found.clientFlags);
    bytes[at] = SPACE;
    at = putDecimal(bytes, at + 1, found.valueLength);
    if (this.#withId) {
      bytes[at] = SPACE;
      reply.length = at + 1;
      reply.decimalU64(found.idLow, found.idHigh);
      at = reply.length;
    }
    view.setInt16(at, CRLF, true);
    reply.length = at + 2;
  }
}

const WITHOUT_ID = new ValueWriter(false);
const WITH_ID = new ValueWriter(true);

function putEnd(reply: ReplyBuffer): void {
  reply.region.view.setInt32(reply.length, END_1, true);
  reply.region.bytes[reply.length + 4] = LF;
  reply.length += 5;
}

/**
 * Answers `get` of the key in the operation, the hottest command. The caller ensures REPLY_ROOM_MIN.
 *
 * @returns False when the request has parked, or `conversation.task` sends the rest of the value, and END.
 */
export function getOne(conversation: Conversation): boolean {
  const { thread } = conversation;
  const { cache, reply, operation } = thread;
  if (!thread.isHolding) {
    if (cache.optimistic.read(operation, reply, thread, WITHOUT_ID)) {
      putEnd(reply);
      return true;
    }
    thread.hold();
  }
  const item = cache.get(operation);
  countRead(thread, operation, item > NO_ITEM);
  if (item < NO_ITEM) {
    reply.put(OUTCOME_LINE[outcomeOf(item)]);
    return !thread.hasParked;
  }
  if (item !== NO_ITEM && !putItem(thread, item, WITHOUT_ID)) {
    conversation.task = new SendTask(thread, item, true, MultigetTask.afterFirstKey());
    return false;
  }
  putEnd(reply);
  return true;
}

/**
 * Writes an item's line and its value.
 *
 * @returns False when the value does not fit and needs a SendTask.
 */
function putItem(thread: RequestThread, item: ItemRef, writer: ValueWriter): boolean {
  const { cache, reply } = thread;
  const found = cache.describe(item);
  writer.putLine(thread, found);
  if (!reply.value(cache, found)) return false;
  reply.crlf();
  return true;
}

/** The commands that read several keys. */
export const MultigetKind = {
  GET: 0,
  GETS: 1,
  GAT: 2,
  GATS: 3,
  GETSS: 4,
  LEASE_GET: 5,
} as const;
export type MultigetKind = typeof MultigetKind[keyof typeof MultigetKind];

/** By MultigetKind. */
const WRITERS: Readonly<Record<MultigetKind, ValueWriter>> = [
  WITHOUT_ID,
  WITH_ID,
  WITHOUT_ID,
  WITH_ID,
  new ValueWriter(true, true),
  new ValueWriter(false, true),
];

/** Why the collection of a group of keys ended. */
const Scanned = { GROUP: 0, INPUT: 1, LINE: 2, LONG_KEY: 3 } as const;
type Scanned = typeof Scanned[keyof typeof Scanned];

/**
 * Answers the keys of a line one by one. It becomes the connection's task when the line continues in the next read, or
 * when a value does not fit the reply buffer.
 */
export class MultigetTask implements Multiget {
  #kind: MultigetKind = MultigetKind.GET;
  #deadlineSec = 0;
  #keyCount = 0;
  /** Why the last key was refused, and with it the line. */
  #refusal: Uint8Array | null = null;
  #scanned: Scanned = Scanned.GROUP;

  /** Starts with a `get` whose first key has been answered. */
  static afterFirstKey(): MultigetTask {
    const task = new MultigetTask();
    task.#keyCount = 1;
    return task;
  }

  /**
   * Starts a new line.
   *
   * @param deadlineSec For GAT, GATS: of the items; for GETSS, LEASE_GET: of the leases.
   */
  begin(kind: MultigetKind, deadlineSec = 0): void {
    this.#kind = kind;
    this.#deadlineSec = deadlineSec;
    this.#keyCount = 0;
    this.#refusal = null;
  }

  /** Continues at a blank, at a key, or at the line's end. */
  run(conversation: Conversation, start: number, end: number): number {
    const { reply, cache, operation, work } = conversation.thread;
    const { prefetch } = cache;
    // Earlier replies were sent, or belong to other requests.
    const replyStart = reply.length;
    let at = start;
    for (;;) {
      at = this.#scan(conversation.thread, at, end);
      prefetch.load();
      for (let index = 0; index < prefetch.count; index++) {
        const keyOffset = prefetch.keyOffset(index);
        if (reply.room < REPLY_ROOM_MIN) {
          return this.#pause(conversation, ConversationState.UNFINISHED, keyOffset);
        }
        if (work.spent >= work.holdEnd || reply.length > reply.yieldAt) {
          if (work.isSpent && this.#keyCount >= KEYS_PER_LINE) {
            return this.#pause(conversation, ConversationState.UNFINISHED, keyOffset);
          }
          conversation.thread.yieldMutex();
        }
        work.spent += REQUEST_UNITS;
        this.#keyCount++;
        const keyLength = prefetch.keyLength(index);
        operation.setKey(keyOffset, keyLength, prefetch.hashAt(index));
        const done = this.#getKey(conversation);
        if (conversation.thread.hasParked) return this.#park(conversation, index);
        if (this.#refusal !== null) {
          return this.#refuse(conversation, replyStart, keyOffset + keyLength, this.#refusal);
        }
        if (!done) return keyOffset + keyLength;
      }
      switch (this.#scanned) {
        case Scanned.GROUP:
          continue;
        case Scanned.INPUT:
          return this.#pause(conversation, ConversationState.NEEDS_INPUT, at);
        case Scanned.LINE:
          return this.#finish(conversation, at);
        case Scanned.LONG_KEY:
          return this.#refuse(conversation, replyStart, at, REFUSAL.BAD_FORMAT);
      }
    }
  }

  /**
   * Collects the next keys. `#scanned` says why it stopped.
   *
   * @returns The offset behind the line, or of the next key.
   */
  #scan(thread: RequestThread, start: number, end: number): number {
    const { input, cache } = thread;
    const { prefetch } = cache;
    const { bytes } = input;
    prefetch.begin(input);
    let at = start;
    while (!prefetch.full) {
      while (at < end && bytes[at] === SPACE) at++;
      let keyEnd = at;
      while (keyEnd < end && bytes[keyEnd] !== SPACE && bytes[keyEnd] !== LF) keyEnd++;
      let keyLength = keyEnd - at;
      const complete = keyEnd < end;
      if (!complete && keyLength <= KEY_LENGTH_MAX + 1) {
        this.#scanned = Scanned.INPUT;
        return at;
      }
      const last = complete && bytes[keyEnd] === LF;
      if (last && keyLength > 0 && bytes[keyEnd - 1] === CR) keyLength--;
      if (keyLength > KEY_LENGTH_MAX) {
        this.#scanned = Scanned.LONG_KEY;
        return keyEnd;
      }
      if (keyLength > 0) prefetch.add(at, keyLength);
      if (last) {
        this.#scanned = Scanned.LINE;
        return keyEnd + 1;
      }
      at = keyEnd;
    }
    this.#scanned = Scanned.GROUP;
    return at;
  }

  /** Reads that change nothing go without the mutex, and so does what gives a lease, unless it misses. */
  get isOptimistic(): boolean {
    return this.#kind !== MultigetKind.GAT && this.#kind !== MultigetKind.GATS;
  }

  abandon(): void {}

  /** Answers the key in the operation. @returns False when another task sends the rest of the value. */
  #getKey(conversation: Conversation): boolean {
    const { thread } = conversation;
    const { cache, reply, operation } = thread;
    const kind = this.#kind;
    const writer = WRITERS[kind];
    if (!thread.isHolding) {
      if (cache.optimistic.read(operation, reply, thread, writer)) return true;
      thread.hold();
    }
    operation.deadlineSec = this.#deadlineSec;
    if (kind >= MultigetKind.GETSS && !this.#hasValue(thread)) return true;
    const item = kind <= MultigetKind.GETS
      ? cache.get(operation)
      : kind <= MultigetKind.GATS
      ? cache.getAndTouch(operation)
      : operation.item;
    if (item < NO_ITEM) {
      this.#refusal = OUTCOME_LINE[outcomeOf(item)];
      return true;
    }
    countRead(thread, operation, item !== NO_ITEM);
    if (item === NO_ITEM || putItem(thread, item, writer)) return true;
    conversation.task = new SendTask(thread, item, true, this.#detach(conversation));
    return false;
  }

  /** getss and lease-get: finds the value, `operation.item`, or answers with a lease. */
  #hasValue(thread: RequestThread): boolean {
    const { cache, operation } = thread;
    operation.begin(operation.keyOffset, operation.keyLength);
    operation.deadlineSec = this.#deadlineSec;
    const outcome = cache.getOrLease(operation);
    if (outcome === Outcome.OK) return true;
    if (outcome === Outcome.ROW_ERROR) this.#refusal = OUTCOME_LINE[outcome];
    if (thread.hasParked || this.#refusal !== null) return false;
    countRead(thread, operation, false);
    if (outcome === Outcome.NO_MEMORY) this.#refusal = REFUSAL.NO_LEASE;
    else if (this.#kind === MultigetKind.GETSS) putLease(thread);
    else putLeaseValue(thread);
    return false;
  }

  #finish(conversation: Conversation, next: number): number {
    const { reply } = conversation.thread;
    if (this.#keyCount > 0) putEnd(reply);
    else reply.put(REFUSAL.BAD_FORMAT);
    conversation.task = null;
    return next;
  }

  /**
   * Refuses the whole line for an over-long or a locked key: the refusal replaces all values of the line.
   */
  #refuse(
    conversation: Conversation,
    replyStart: number,
    keyEnd: number,
    line: Uint8Array,
  ): number {
    const { thread } = conversation;
    const { reply } = thread;
    thread.hold();
    reply.truncate(thread.cache, replyStart);
    reply.put(line);
    conversation.task = new SkipLineTask();
    return keyEnd;
  }

  #pause(conversation: Conversation, state: ConversationState, at: number): number {
    conversation.task = this.#detach(conversation);
    conversation.pause(state);
    return at;
  }

  /** Makes the connection wait for the row of a key of the group, and asks for those of the keys behind it. */
  #park(conversation: Conversation, first: number): number {
    const { thread } = conversation;
    const { cache: { prefetch } } = thread;
    this.#refusal = null;
    this.#keyCount--;
    conversation.task = new RowWait(thread, this.#detach(conversation));
    if (this.#kind <= MultigetKind.GETS) readRowsAhead(conversation, first + 1);
    return prefetch.keyOffset(first);
  }

  /** Detaches this task from the thread: the connection keeps it. */
  #detach({ protocols }: Conversation): MultigetTask {
    if (protocols.multiget === this) protocols.multiget = new MultigetTask();
    return this;
  }
}

/** Writes a lease as getss shows it: a value with the lease's flags that contains the remaining seconds. */
function putLease(thread: RequestThread): void {
  const { reply, operation, settings, input } = thread;
  const { view, bytes } = reply.region;
  const remainSec = operation.remainSec < 0 ? settings.leaseTimeSec : operation.remainSec;
  view.setInt32(reply.length, VALU, true);
  view.setInt16(reply.length + 4, E_SPACE, true);
  reply.length += 6;
  reply.copy(input, operation.keyOffset, operation.keyLength);
  reply.byte(SPACE);
  reply.decimal(settings.leaseFlag);
  reply.byte(SPACE);
  // The first call only counts the digits.
  const digits = putDecimal(bytes, reply.length, remainSec) - reply.length;
  reply.decimal(digits);
  reply.byte(SPACE);
  reply.decimalU64(operation.idLow, operation.idHigh);
  reply.crlf();
  reply.decimal(remainSec);
  reply.crlf();
}

/** Writes a lease as lease-get shows it. Clients that do not hold it get an id that fills nothing. */
function putLeaseValue(thread: RequestThread): void {
  const { reply, operation, input } = thread;
  reply.put(REPLY.LEASE_VALUE_SPACE);
  reply.copy(input, operation.keyOffset, operation.keyLength);
  reply.byte(SPACE);
  if (operation.remainSec === 0) reply.decimalU64(operation.idLow, operation.idHigh);
  else reply.decimal(HELD_BY_ANOTHER);
  reply.put(REPLY.LEASE_VALUE_END);
}

/** Returns whether the line at `start` ends in the input. */
export function hasLineEnd(thread: RequestThread, start: number, end: number): boolean {
  const { bytes } = thread.input;
  if (bytes[end - 1] === LF) return true;
  for (let at = start; at < end; at++) if (bytes[at] === LF) return true;
  return false;
}

/** Handles get and gets lines that the parser's fast path left. */
export function getKeys(conversation: RequestConversation, kind: MultigetKind): Flow {
  const { request } = conversation.thread;
  const { multiget } = conversation.protocols;
  multiget.begin(kind);
  conversation.task = multiget;
  request.next = request.wordStart[1]!;
  return Flow.UNDER_WAY;
}

/** Handles gat and gats: sets the expiry time of each hit. */
export function getAndTouch(conversation: RequestConversation, kind: MultigetKind): Flow {
  const { thread, protocols } = conversation;
  const { request, numbers } = thread;
  if (!numbers.int32(thread.input, request.wordStart[1]!, request.wordEnd[1]!)) {
    return answer(conversation, REFUSAL.BAD_EXPTIME);
  }
  protocols.multiget.begin(kind, deadlineSec(thread.memory, numbers.value));
  conversation.task = protocols.multiget;
  request.next = request.wordStart[2]!;
  return Flow.UNDER_WAY;
}
