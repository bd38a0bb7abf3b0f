import { ByteRegion, CR, CRLF_LENGTH, LF } from "../store/base/bytes.ts";
import type { Operation } from "../store/operation.ts";
import type { HeldCache, ItemRef } from "../store/cache.ts";
import { Activity } from "../store/connections.ts";
import * as cacheModule from "../store/cache.ts";
import * as limitsModule from "../store/limits.ts";
import { Outcome } from "../store/outcome.ts";
import * as statsModule from "../store/stats.ts";
import { type Conversation, ConversationState, type Task } from "./conversation.ts";
import * as replyBufferModule from "./reply/reply_buffer.ts";
import { RowWait } from "./row_wait.ts";
import type { RequestThread } from "./thread_context.ts";

const { NO_ITEM } = cacheModule;
const {
  COPY_BYTES_MAX,
  RESERVED_AHEAD_BYTES,
  RESERVED_AHEAD_FACTOR,
  RESERVED_AHEAD_LEAST_BYTES,
} = limitsModule;
const { STAT } = statsModule;
const { TRAILER_ROOM } = replyBufferModule;

// Tasks: requests that a connection is in the middle of. Only a value or a line that does not fit one
// buffer needs a task; short requests do without.

/** Less than this of a long value is not worth a piece of its own. */
const PIECE_ROOM_MIN = 4096;

/** Passes over a data block that was refused. */
export class SwallowTask implements Task {
  readonly activity = Activity.SWALLOWING;
  #left: number;

  constructor(length: number) {
    this.#left = length;
  }

  run(conversation: Conversation, start: number, end: number): number {
    const length = Math.min(this.#left, end - start);
    this.#left -= length;
    if (this.#left === 0) conversation.task = null;
    else conversation.pause(ConversationState.NEEDS_INPUT);
    return start + length;
  }

  abandon(): void {}
}

/** Passes over the rest of a line. */
export class SkipLineTask implements Task {
  run(conversation: Conversation, start: number, end: number): number {
    const { bytes } = conversation.thread.input;
    let at = start;
    while (at < end && bytes[at] !== LF) at++;
    if (at < end) {
      conversation.task = null;
      return at + 1;
    }
    conversation.pause(ConversationState.NEEDS_INPUT);
    return end;
  }

  abandon(): void {}
}

/** How a protocol answers a store whose value arrived after its request. Keeps what it needs of the request. */
export interface StoreReply {
  /** @param operation Holds the results. */
  put(thread: RequestThread, operation: Operation, outcome: Outcome): void;
}

/** Fills a reserved item with a value as it arrives, then stores it. */
export class FillTask implements Task {
  readonly activity = Activity.VALUE;
  readonly #operation: Operation;
  readonly #reply: StoreReply;
  /** See `ReservedOperations`. */
  readonly #value: number;
  readonly #item: ItemRef;
  readonly #length: number;
  /** Whether CR LF follows the value. */
  readonly #crlf: boolean;
  #filled = 0;
  /** Bytes of the value that have memory. */
  #room = 0;
  /** Received bytes that `bytes_read` does not include yet. */
  #uncounted = 0;

  /** @param operation As `reserve` left it; the task's own. */
  constructor(cache: HeldCache, operation: Operation, crlf: boolean, reply: StoreReply) {
    this.#operation = operation;
    this.#reply = reply;
    this.#value = operation.reserved;
    this.#item = cache.reserved.itemOf(this.#value);
    this.#length = operation.valueLength;
    this.#crlf = crlf;
  }

  /** The item whose value is being received. Good between `beginReceiving` and `endReceiving`. */
  get item(): ItemRef {
    return this.#item;
  }

  /** How many bytes of the value have been received. */
  get filled(): number {
    return this.#filled;
  }

  /** How many are still to come. */
  get missing(): number {
    return this.#length - this.#filled;
  }

  /** How many more can be received in their place: there is memory for them. */
  get room(): number {
    return this.#room - this.#filled;
  }

  /**
   * Begins to receive bytes into their place without the mutex, which is held now.
   *
   * @param least Reserves memory if fewer bytes are available.
   * @returns False when there is no memory, or the value was dropped: `run` tells the client when the next bytes come.
   */
  beginReceiving(cache: HeldCache, least: number): boolean {
    if (this.room < Math.min(this.missing, least)) this.#makeRoom(cache);
    return this.room > 0 && cache.reserved.beginReceiving(this.#value);
  }

  /** @param length Bytes just received directly into the item. */
  endReceiving(cache: HeldCache, length: number): void {
    cache.reserved.endReceiving(this.#value);
    this.#filled += length;
    this.#uncounted += length;
  }

  /**
   * Finds memory for more, under the mutex.
   *
   * @param arrived Bytes that are in the input already.
   * @returns False without memory, or when the value was dropped.
   */
  #makeRoom(cache: HeldCache, arrived = 0): boolean {
    const ahead = Math.max(
      arrived,
      RESERVED_AHEAD_LEAST_BYTES,
      Math.min(this.#filled * RESERVED_AHEAD_FACTOR, RESERVED_AHEAD_BYTES),
    );
    const room = Math.min(this.#length, this.#filled + ahead);
    if (!cache.reserved.grow(this.#value, room)) return false;
    this.#room = room;
    return true;
  }

  run(conversation: Conversation, start: number, end: number): number {
    const { cache, input, memory } = conversation.thread;
    memory.stats[STAT.bytes_read]! += this.#uncounted;
    this.#uncounted = 0;
    const length = Math.min(this.missing, end - start);
    const dropped = cache.reserved.itemOf(this.#value) === NO_ITEM;
    if (dropped || (length > this.room && !this.#makeRoom(cache, length))) {
      return this.#refuse(conversation, start);
    }
    if (length > 0) cache.reserved.fill(this.#value, this.#filled, input, start, length);
    this.#filled += length;
    const at = start + length;
    if (this.#filled < this.#length || (this.#crlf && end - at < CRLF_LENGTH)) {
      conversation.pause(ConversationState.NEEDS_INPUT);
      return at;
    }
    const room = cache.awaitRoom(this.#operation);
    if (room === Outcome.PARKED) {
      conversation.task = new RowWait(conversation.thread, this);
      return at;
    }
    if (room !== Outcome.OK) return this.#refuse(conversation, at);
    const outcome = this.#store(conversation.thread, at);
    if (outcome === Outcome.PARKED) {
      const answer = new StoredRow(this.#operation, this.#reply);
      conversation.task = new RowWait(conversation.thread, answer);
    } else {
      conversation.task = null;
      this.#reply.put(conversation.thread, this.#operation, outcome);
    }
    return this.#crlf ? at + CRLF_LENGTH : at;
  }

  /** @param at Where the value's end marker is in the input. */
  #store({ cache, input }: RequestThread, at: number): Outcome {
    if (!this.#crlf || (input.bytes[at] === CR && input.bytes[at + 1] === LF)) {
      return cache.commit(this.#operation);
    }
    cache.reserved.abandon(this.#value);
    return cache.refuseBadChunk(this.#operation);
  }

  abandon(thread: RequestThread): void {
    thread.cache.reserved.abandon(this.#value);
  }

  /** There is no memory for the value, whose rest is skipped. */
  #refuse(conversation: Conversation, start: number): number {
    const { thread } = conversation;
    const outcome = thread.cache.reserved.refuse(this.#operation);
    this.#reply.put(thread, this.#operation, outcome);
    conversation.task = new SwallowTask(this.missing + (this.#crlf ? CRLF_LENGTH : 0));
    return start;
  }
}

/** Answers a store of a row whose value arrived in pieces. */
class StoredRow implements Task {
  readonly #operation: Operation;
  readonly #reply: StoreReply;

  constructor(operation: Operation, reply: StoreReply) {
    this.#operation = operation;
    this.#reply = reply;
  }

  run(conversation: Conversation, start: number, _end: number): number {
    const { thread } = conversation;
    const outcome = thread.cache.store(this.#operation);
    this.#reply.put(thread, this.#operation, outcome);
    conversation.task = null;
    return start;
  }

  abandon(): void {}
}

/** Sends the value of an item piece by piece. */
export class SendTask implements Task {
  /** Pinned, or NO_ITEM when the value was copied aside because such items cannot be pinned. */
  readonly #item: ItemRef;
  readonly #copy: ByteRegion | null;
  readonly #length: number;
  readonly #crlf: boolean;
  readonly #successor: Task | null;
  #sent = 0;

  /**
   * Call it while `item` is good. If it cannot be pinned, its value is copied: garbage in the
   * layout "memcached", where the reply buffer may have too little room for it, never in the other
   * one.
   *
   * @param crlf Whether CR LF follows the value.
   * @param successor What the connection does after it.
   */
  constructor(thread: RequestThread, item: ItemRef, crlf: boolean, successor: Task | null) {
    const { cache } = thread;
    this.#length = cache.valueLength(item);
    this.#crlf = crlf;
    this.#successor = successor;
    if (cache.pin(item)) {
      this.#item = item;
      this.#copy = null;
    } else {
      this.#item = NO_ITEM;
      this.#copy = new ByteRegion(new ArrayBuffer(this.#length));
      cache.copyValue(item, 0, this.#length, this.#copy, 0);
    }
  }

  run(conversation: Conversation, start: number, _end: number): number {
    const { cache, reply } = conversation.thread;
    while (this.#sent < this.#length) {
      if (reply.room < PIECE_ROOM_MIN) {
        conversation.pause(ConversationState.UNFINISHED);
        return start;
      }
      const length = Math.min(this.#length - this.#sent, reply.room - TRAILER_ROOM);
      if (this.#valueSegment(conversation.thread, length)) continue;
      conversation.thread.yieldMutex();
      this.#copyPiece(conversation.thread, Math.min(length, COPY_BYTES_MAX));
    }
    if (this.#crlf) reply.crlf();
    if (this.#item !== NO_ITEM) cache.unpin(this.#item);
    conversation.task = this.#successor;
    return start;
  }

  abandon(thread: RequestThread): void {
    if (this.#item !== NO_ITEM) thread.cache.unpin(this.#item);
    this.#successor?.abandon(thread);
  }

  #valueSegment(thread: RequestThread, length: number): boolean {
    const { cache, reply } = thread;
    if (this.#item === NO_ITEM || !reply.valueSegment(cache, this.#item, this.#sent, length)) {
      return false;
    }
    this.#sent += length;
    return true;
  }

  #copyPiece(thread: RequestThread, length: number): void {
    const { cache, reply } = thread;
    if (this.#copy !== null) reply.copy(this.#copy, this.#sent, length);
    else {
      cache.copyValue(this.#item, this.#sent, length, reply.region, reply.length);
      reply.length += length;
    }
    this.#sent += length;
  }
}
