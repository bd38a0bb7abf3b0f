import { assert } from "../base/assert.ts";
import { ByteRegion, copyBytes } from "../base/bytes.ts";
import type { ConnectionId } from "../connections.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as layoutModule from "../memory/request_layout.ts";
import * as waiterLayoutModule from "../memory/waiter_layout.ts";
import type { Wakes } from "../memory/wakes.ts";
import { RowPool } from "../memory/row_pool.ts";
import type { Key } from "../operation.ts";
import type { Outcome } from "../outcome.ts";

const { NO_ITEM } = itemModule;
const { LIST } = waiterLayoutModule;
const { REQUEST, REQUEST_HEADER: HEADER, REQUEST_TEXT_BYTES_MAX, SPARE_SLOTS } = layoutModule;

// Hot path: no allocation.

/** The kind of a request to the database thread. */
export const RowKind = {
  /** Read a row. */
  READ: 1,
  /** Write a row, by its StoreMode. */
  STORE: 2,
  /** Delete a row; with `compare`: of that version. */
  REMOVE: 3,
  /** Change the expiry time of a row, and read it. */
  TOUCH: 4,
  /** incr, decr: see the bits DECREMENT and VIVIFY. */
  COUNT: 5,
  /** A command of update tokens or caches: its line is the value of the item. */
  COMMAND: 6,
} as const;
export type RowKind = typeof RowKind[keyof typeof RowKind];

/** Bits of a request. */
export const RowBit = {
  /** The version must be `compareLow/High`. */
  COMPARE: 1,
  /** COUNT subtracts. */
  DECREMENT: 2,
  /** append, prepend and COUNT create a missing row; COUNT with `initialLow/High`. */
  VIVIFY: 4,
  /** A client held the key's lease, with another id than the one to compare. */
  LEASED: 8,
  /** COUNT sets the expiry time of a row that is there, too. */
  TOUCHES: 16,
} as const;

/** The state of a slot. */
export const RequestState = {
  FREE: 0,
  /** In the queue of the database thread. */
  QUEUED: 1,
  /** The database thread works on it. */
  TAKEN: 2,
  /** It has its result. */
  DONE: 3,
  /** It waits for the memory of others' values, and is no request yet. */
  AWAITS_ROOM: 4,
} as const;
export type RequestState = typeof RequestState[keyof typeof RequestState];

/** Number of a slot, from 1. */
export type RequestSlot = number & { readonly unit?: "slot of a row's request" };
/** No slot. */
export const NO_REQUEST: RequestSlot = 0;

/** The words of a slot that a request brings, beside those that `submit` sets. */
type RequestWord = Exclude<keyof typeof REQUEST, "WORDS" | "STATE" | "NEXT" | "PREVIOUS">;

/**
 * Requests of connections to the database thread, in shared memory. One thread's view; everything but the bell wants
 * the store's mutex.
 *
 *   FREE → QUEUED → TAKEN → DONE → FREE
 *
 * A connection takes a slot, fills it, and submits it. The database thread takes all that is queued, works, and
 * finishes each request. The connection reads the result and releases the slot. A write that waits for memory has a
 * slot, too: FREE → AWAITS_ROOM → DONE → FREE; then it begins again. When a connection ends, its queued
 * requests are dropped, finished ones are released, and one that is taken loses its owner: its end frees it.
 * The table knows no values: who releases a slot frees its items first (`RowOperations`).
 */
export class RowRequests {
  readonly #words: Int32Array;
  readonly #bytes: ByteRegion;
  readonly #slots: number;
  readonly #start: number;
  readonly #threads: number;
  readonly #pool: RowPool;
  readonly #wakes: Wakes;
  #bellIsDue = false;

  constructor(memory: Memory) {
    const { options } = memory;
    this.#words = new Int32Array(memory.shared.rowRequests);
    this.#bytes = new ByteRegion(memory.shared.rowRequests);
    this.#slots = layoutModule.requestSlots(options);
    this.#start = layoutModule.requestSlotsStart(options);
    this.#threads = options.threads;
    this.#pool = new RowPool(this.#words, this.#start, REQUEST.WORDS, REQUEST.NEXT, this.#slots);
    this.#wakes = memory.wakes;
  }

  /** How many slots are not free. */
  get inUse(): number {
    return this.#words[HEADER.IN_USE]!;
  }

  /** Whether one more request leaves a slot for every connection. */
  get hasSpare(): boolean {
    return this.inUse < SPARE_SLOTS;
  }

  /** How many requests wait for the database thread. */
  get queued(): number {
    return this.#words[HEADER.QUEUE + LIST.COUNT]!;
  }

  // --- the connection's side -----------------------------------------------------------------------

  /**
   * Takes a free slot for a request, with this key. Its other words are 0.
   *
   * @returns NO_REQUEST when all slots are in use.
   */
  take(
    kind: RowKind,
    { input, keyOffset, keyLength }: Key,
    owner: number,
    thread: number,
  ): RequestSlot {
    const slot = this.#pool.take();
    if (slot === NO_REQUEST) return NO_REQUEST;
    const words = this.#words;
    const at = this.#at(slot);
    assert(this.stateOf(slot) === RequestState.FREE, "a slot that is taken is free");
    words.fill(0, at, at + REQUEST.KEY);
    words[at + REQUEST.KIND] = kind;
    words[at + REQUEST.OWNER] = owner;
    words[at + REQUEST.THREAD] = thread < this.#threads ? thread : 0;
    words[at + REQUEST.KEY_LENGTH] = keyLength;
    copyBytes(this.#bytes, this.keyOffset(slot), input, keyOffset, keyLength);
    words[HEADER.IN_USE]! += 1;
    return slot;
  }

  /** Appends a request to the queue, and rings the bell once the mutex is free. */
  submit(slot: RequestSlot): void {
    assert(this.stateOf(slot) === RequestState.FREE, "a request is submitted once");
    this.#words[this.#at(slot) + REQUEST.STATE] = RequestState.QUEUED;
    this.#append(HEADER.QUEUE, slot);
    this.#bellIsDue = true;
  }

  /**
   * Appends a write to those that wait for memory.
   *
   * @param bytes That it needs.
   * @param untilSec When it ends in vain, in seconds of the store's clock.
   */
  awaitRoom(slot: RequestSlot, bytes: number, untilSec: number): void {
    this.setWord(slot, REQUEST.STATE, RequestState.AWAITS_ROOM);
    this.setWord(slot, REQUEST.NUMBER_LOW, bytes);
    this.setWord(slot, REQUEST.DEADLINE_SEC, untilSec);
    this.#append(HEADER.ROOM, slot);
  }

  /** Whether writes wait for memory. */
  get isRoomAwaited(): boolean {
    return this.#words[HEADER.ROOM + LIST.COUNT] !== 0;
  }

  /** Ends the waits of the writes for which there are `bytes`, and of those whose time is over. The oldest go first. */
  giveRoom(bytes: number, nowSec: number): void {
    let left = bytes;
    for (let slot; (slot = this.#words[HEADER.ROOM + LIST.FIRST]!) !== NO_REQUEST;) {
      if (nowSec < this.word(slot, REQUEST.DEADLINE_SEC)) {
        left -= this.word(slot, REQUEST.NUMBER_LOW);
        if (left < 0) return;
      }
      this.#detach(HEADER.ROOM, slot);
      this.finish(slot, this.outcomeOf(slot));
    }
  }

  stateOf(slot: RequestSlot): RequestState {
    return this.#words[this.#at(slot) + REQUEST.STATE]! as RequestState;
  }

  kindOf(slot: RequestSlot): RowKind {
    return this.#words[this.#at(slot) + REQUEST.KIND]! as RowKind;
  }

  outcomeOf(slot: RequestSlot): Outcome {
    return this.#words[this.#at(slot) + REQUEST.OUTCOME]! as Outcome;
  }

  /** Reads a word of a slot. */
  word(slot: RequestSlot, word: number): number {
    return this.#words[this.#at(slot) + word]!;
  }

  setWord(slot: RequestSlot, word: number, value: number): void {
    this.#words[this.#at(slot) + word] = value;
  }

  /** Makes the end of a request that is not done wake its connection. */
  await(slot: RequestSlot): void {
    this.#words[this.#at(slot) + REQUEST.AWAITED] = 1;
  }

  /** Offset of the key in `bytes`. */
  keyOffset(slot: RequestSlot): number {
    return (this.#at(slot) + REQUEST.KEY) * 4;
  }

  keyLength(slot: RequestSlot): number {
    return this.word(slot, REQUEST.KEY_LENGTH);
  }

  /** The table's bytes. */
  get bytes(): ByteRegion {
    return this.#bytes;
  }

  /** The text with which the request failed; none: empty. A copy. */
  textOf(slot: RequestSlot): Uint8Array {
    const start = (this.#at(slot) + REQUEST.TEXT) * 4;
    return this.#bytes.bytes.slice(start, start + this.word(slot, REQUEST.TEXT_LENGTH));
  }

  /** Takes the slot's item out of it: it is the caller's. */
  takeItem(slot: RequestSlot, word: typeof REQUEST.ITEM | typeof REQUEST.RESULT): ItemRef {
    const at = this.#at(slot) + word;
    const item = this.#words[at]!;
    this.#words[at] = NO_ITEM;
    return item;
  }

  /** Frees a slot that is queued or done. It must have no items. */
  free(slot: RequestSlot): void {
    const words = this.#words;
    const at = this.#at(slot);
    const state = words[at + REQUEST.STATE];
    assert(words[at + REQUEST.ITEM] === NO_ITEM, "a slot that is freed has no value");
    assert(words[at + REQUEST.RESULT] === NO_ITEM, "a slot that is freed has no result");
    assert(
      state !== RequestState.TAKEN || words[at + REQUEST.OWNER] === 0,
      "the database thread works on no free slot",
    );
    if (state === RequestState.QUEUED) this.#detach(HEADER.QUEUE, slot);
    else if (state === RequestState.AWAITS_ROOM) this.#detach(HEADER.ROOM, slot);
    else if (words[at + REQUEST.AWAITED] !== 0 && state === RequestState.DONE) {
      this.#detach(this.#ready(words[at + REQUEST.THREAD]!), slot);
    }
    words[at + REQUEST.STATE] = RequestState.FREE;
    words[at + REQUEST.OWNER] = 0;
    words[HEADER.IN_USE]! -= 1;
    assert(words[HEADER.IN_USE]! >= 0, "a slot is freed once");
    this.#pool.giveBack(slot);
  }

  /**
   * Takes the owner off a request that the database thread works on: the end of the request frees the slot. A command
   * may wait for long, so the database thread is told.
   */
  orphan(slot: RequestSlot): void {
    assert(this.stateOf(slot) === RequestState.TAKEN, "only work in progress loses its connection");
    this.#words[this.#at(slot) + REQUEST.OWNER] = 0;
    this.#words[this.#at(slot) + REQUEST.AWAITED] = 0;
    if (this.kindOf(slot) !== RowKind.COMMAND) return;
    Atomics.add(this.#words, HEADER.ORPHANS, 1);
    this.#bellIsDue = true;
  }

  isOrphan(slot: RequestSlot): boolean {
    return this.#words[this.#at(slot) + REQUEST.OWNER] === 0;
  }

  /** Returns the next connection of a thread that waits for a request that is done, or 0. */
  takeReady(thread: number): ConnectionId | 0 {
    const list = this.#ready(thread);
    const slot = this.#words[list + LIST.FIRST]!;
    if (slot === NO_REQUEST) return 0;
    assert(this.stateOf(slot) === RequestState.DONE, "a connection is ready for a result");
    this.#detach(list, slot);
    this.#words[this.#at(slot) + REQUEST.AWAITED] = 0;
    return this.#words[this.#at(slot) + REQUEST.OWNER]! as ConnectionId;
  }

  // --- the database thread's side ------------------------------------------------------------------

  /** Returns the request behind another one in the queue; behind NO_REQUEST, the oldest. NO_REQUEST at the end. */
  queuedBehind(slot: RequestSlot): RequestSlot {
    return slot === NO_REQUEST
      ? this.#words[HEADER.QUEUE + LIST.FIRST]!
      : this.#words[this.#at(slot) + REQUEST.NEXT]!;
  }

  /** Takes a request out of the queue: it is TAKEN. */
  takeQueued(slot: RequestSlot): void {
    assert(this.stateOf(slot) === RequestState.QUEUED, "a request is taken out of the queue once");
    this.#detach(HEADER.QUEUE, slot);
    this.#words[this.#at(slot) + REQUEST.STATE] = RequestState.TAKEN;
  }

  /** Ends a taken request that has an owner, or a wait. Its result has been set. */
  finish(slot: RequestSlot, outcome: Outcome): void {
    const words = this.#words;
    const at = this.#at(slot);
    assert(
      this.stateOf(slot) === RequestState.TAKEN || this.stateOf(slot) === RequestState.AWAITS_ROOM,
      "a request ends once",
    );
    assert(words[at + REQUEST.OWNER] !== 0, "the end of a request has a connection to tell");
    words[at + REQUEST.OUTCOME] = outcome;
    words[at + REQUEST.STATE] = RequestState.DONE;
    if (words[at + REQUEST.AWAITED] === 0) return;
    const thread = words[at + REQUEST.THREAD]!;
    this.#append(this.#ready(thread), slot);
    this.#wakes.add(thread);
  }

  /** Sets the text with which a request fails, cut to REQUEST_TEXT_BYTES_MAX bytes; control characters become `?`. */
  setText(slot: RequestSlot, text: string): void {
    const start = (this.#at(slot) + REQUEST.TEXT) * 4;
    const length = Math.min(text.length, REQUEST_TEXT_BYTES_MAX);
    for (let at = 0; at < length; at++) {
      const code = text.charCodeAt(at);
      this.#bytes.bytes[start + at] = code < 0x20 || code > 0x7e ? 0x3f : code;
    }
    this.setWord(slot, REQUEST.TEXT_LENGTH, length);
  }

  // --- the bell: needs no mutex --------------------------------------------------------------------

  /** How many commands have lost their connection after they were taken. Wraps. */
  get orphans(): number {
    return Atomics.load(this.#words, HEADER.ORPHANS);
  }

  /** Whether requests were submitted since `ring`. */
  get bellIsDue(): boolean {
    return this.#bellIsDue;
  }

  /** Wakes the database thread. */
  ring(): void {
    this.#bellIsDue = false;
    Atomics.add(this.#words, HEADER.BELL, 1);
    if (Atomics.load(this.#words, HEADER.ASLEEP) !== 0) Atomics.notify(this.#words, HEADER.BELL);
  }

  /** How often the bell has rung. To be read before the queue is looked at; then `waitForBell`. */
  get bell(): number {
    return Atomics.load(this.#words, HEADER.BELL);
  }

  /** Resolves when the bell has rung more than `bell` times, or after `timeoutMs`. */
  async waitForBell(bell: number, timeoutMs: number): Promise<void> {
    Atomics.store(this.#words, HEADER.ASLEEP, 1);
    const { async, value } = Atomics.waitAsync(this.#words, HEADER.BELL, bell, timeoutMs);
    if (async) await value;
    Atomics.store(this.#words, HEADER.ASLEEP, 0);
  }

  // --- private -----------------------------------------------------------------------------------

  #at(slot: RequestSlot): number {
    return this.#start + slot * REQUEST.WORDS;
  }

  #ready(thread: number): number {
    return HEADER.WORDS + thread * LIST.WORDS;
  }

  #append(list: number, slot: RequestSlot): void {
    const words = this.#words;
    const at = this.#at(slot);
    const previous = words[list + LIST.LAST]!;
    words[at + REQUEST.NEXT] = NO_REQUEST;
    words[at + REQUEST.PREVIOUS] = previous;
    if (previous !== NO_REQUEST) words[this.#at(previous) + REQUEST.NEXT] = slot;
    else words[list + LIST.FIRST] = slot;
    words[list + LIST.LAST] = slot;
    words[list + LIST.COUNT]! += 1;
  }

  #detach(list: number, slot: RequestSlot): void {
    const words = this.#words;
    const at = this.#at(slot);
    const next = words[at + REQUEST.NEXT]!;
    const previous = words[at + REQUEST.PREVIOUS]!;
    if (next !== NO_REQUEST) words[this.#at(next) + REQUEST.PREVIOUS] = previous;
    else words[list + LIST.LAST] = previous;
    if (previous !== NO_REQUEST) words[this.#at(previous) + REQUEST.NEXT] = next;
    else words[list + LIST.FIRST] = next;
    words[list + LIST.COUNT]! -= 1;
    assert(
      (words[list + LIST.COUNT] === 0) === (words[list + LIST.FIRST] === NO_REQUEST),
      "a list of requests counts them",
    );
  }
}
