import { ByteRegion, equalBytes, type KeyBytes } from "../base/bytes.ts";
import { Prefixes } from "../base/prefixes.ts";
import { clockSec } from "../clock.ts";
import * as connectionsModule from "../connections.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Values } from "../items/values.ts";
import * as limitsModule from "../limits.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import * as layoutModule from "../memory/request_layout.ts";
import { isExtending, type Key, namesNoId, Operation, StoreMode } from "../operation.ts";
import * as outcomeModule from "../outcome.ts";
import type { DetachedItems } from "../rows/detached_items.ts";
import { RowSession } from "../rows/row_session.ts";
import * as sessionModule from "../rows/row_session.ts";
import type { RequestSlot, RowRequests } from "../rows/row_requests.ts";
import * as requestsModule from "../rows/row_requests.ts";
import type { ServingRight } from "../rows/serving_right.ts";
import type { Allocator } from "../space/allocator.ts";
import type { Lookup } from "./lookup.ts";
import type { StoreParts } from "./parts.ts";
import type { RowOperations } from "./row.ts";
import { countWrite } from "./row_counts.ts";
import { RowLeases } from "./row_leases.ts";
import type { StoreOperations } from "./store.ts";

const { NO_OWNER } = connectionsModule;
const { DETACHED_SHARE_MAX, ROOM_WAIT_SEC } = limitsModule;
const { NO_ITEM } = itemModule;
const { REQUEST } = layoutModule;
const { Outcome } = outcomeModule;
type Outcome = outcomeModule.Outcome;
const { NO_REQUEST, RequestState, RowBit, RowKind } = requestsModule;
type RowKind = requestsModule.RowKind;
const { FAILED_ITEM, LOCKED_ITEM, NOT_ASKED, PARKED_ITEM, REQUESTS_PER_CONNECTION_MAX } =
  sessionModule;

/**
 * Rows, for the threads that serve connections. An operation on a row submits a request and says PARKED. The
 * connection waits, and executes the same request once more when the answer is there: then the same operation
 * returns the result. So every protocol writes its replies in one place, whether a key is a row or not.
 *
 * A connection looks ahead while it parks: requests behind the one that waits are executed too, as long as they do no
 * more than submit requests of the same kind. They are not answered; they are executed once more in their turn.
 */
export class RowParking {
  readonly requests: RowRequests;
  readonly detached: DetachedItems;
  readonly leases: RowLeases;
  /** Whether rows may be answered from the cache in this batch. */
  mayServe = true;
  /** The requests of the connection that is being served; null: it waits for none. */
  session: RowSession | null = null;
  /** The thread that serves it. */
  thread = 0;
  /** Whether requests are executed ahead of their turn. */
  isAhead = false;
  /** Whether the look ahead met what does more than submit a request of the same kind. */
  hasLeftAhead = false;
  /** Whether the last operation said PARKED. Set to false by who has asked. */
  hasParked = false;
  /** The request that it waits for. */
  awaited: RequestSlot = NO_REQUEST;
  /** Why the last operation returned ROW_ERROR, or a read FAILED_ITEM: the text of a server error. */
  failure = "";
  /** Called with each `failure`. */
  onFailure: (text: string, isClients: boolean) => void = () => {};
  readonly #rows: RowOperations;
  readonly #right: ServingRight;
  readonly #links: ItemLinks;
  readonly #lookup: Lookup;
  readonly #values: Values;
  readonly #allocator: Allocator;
  readonly #storeOperations: StoreOperations;
  readonly #prefixes: Prefixes;
  readonly #isAll: boolean;
  readonly #expiry: "refuse" | "ignore" | "column";
  readonly #casEnabled: boolean;
  /** Whether another server has the database. */
  readonly isNode: boolean;
  /** For reads that change an expiry time. */
  readonly #operation = new Operation(new ByteRegion(new ArrayBuffer(0)));
  /** The result that was returned last: in use until the next one. */
  #result: ItemRef = NO_ITEM;

  constructor(
    { links, lookup, values, allocator, guard }: StoreParts,
    rows: RowOperations,
    storeOperations: StoreOperations,
  ) {
    const { options } = links.memory;
    const { prefixes, expiry, isNode = false } = options.rows!;
    this.requests = rows.requests;
    this.detached = rows.detached;
    this.#rows = rows;
    this.#right = rows.right;
    this.#links = links;
    this.#lookup = lookup;
    this.#values = values;
    this.#allocator = allocator;
    this.leases = new RowLeases(guard.leases, links);
    this.#storeOperations = storeOperations;
    this.#prefixes = new Prefixes(prefixes);
    this.#isAll = prefixes.includes("");
    this.#expiry = expiry;
    this.isNode = isNode;
    this.#casEnabled = options.casEnabled;
  }

  /**
   * Begins a batch of requests of one connection. Call it when their bytes have been received, and before the first
   * lookup: a process that was stopped for longer than its right answers none of them from the cache.
   *
   * @param session The connection's requests in progress.
   */
  begin(session: RowSession | null): void {
    this.session = session;
    this.mayServe = this.#right.isValid;
  }

  /** Whether a key is a row that must not be answered from the cache now: then `read` says why. */
  isBarred(key: Key): boolean {
    return !this.mayServe && this.isRow(key);
  }

  /** Whether there is a database behind a key. */
  isRow({ input, keyOffset, keyLength }: KeyBytes): boolean {
    return this.#isAll || this.#prefixes.covers(input, keyOffset, keyLength);
  }

  /** Whether a look ahead may submit reads; it ends if not. */
  get #mayReadAhead(): boolean {
    if (this.session!.isWriting || !this.#mayAskMore) this.hasLeftAhead = true;
    return !this.hasLeftAhead;
  }

  /** Whether the connection may have one more request, ahead of its turn. */
  get #mayAskMore(): boolean {
    return this.session!.slots.length < REQUESTS_PER_CONNECTION_MAX && this.requests.hasSpare;
  }

  /** Whether operations belong to requests that are executed once more. */
  get isReplaying(): boolean {
    return this.session !== null && !this.isAhead;
  }

  /** Whether the next operation is a write that was submitted before. */
  get isReplayingWrite(): boolean {
    return this.isReplaying && this.session!.isWriting;
  }

  /** During a look-ahead: ends it and returns true; the caller, an operation on an ordinary item, does nothing. */
  endsLookAhead(): boolean {
    if (this.isAhead) this.#leaveAhead();
    return this.isAhead;
  }

  /** Ends a look ahead at an operation that has to wait for its turn. */
  #leaveAhead(): Outcome {
    this.hasLeftAhead = true;
    return this.#park();
  }

  #park(): Outcome {
    this.hasParked = true;
    return Outcome.PARKED;
  }

  #parkRead(): ItemRef {
    this.hasParked = true;
    return PARKED_ITEM;
  }

  // --- reading -----------------------------------------------------------------------------------

  /**
   * Reads a row that the cache does not have.
   *
   * @param owner The connection that asks.
   * @returns The row, good until the next operation; NO_ITEM: absent; PARKED_ITEM or FAILED_ITEM.
   */
  read(key: Key, owner: number): ItemRef {
    if (owner === NO_OWNER) return this.#failRead("rows are not available over UDP");
    if (!this.mayServe) {
      const { isTimed, source } = this.#right;
      const reason = isTimed
        ? `no confirmation from ${source}`
        : "this origin serves no rows any more";
      return this.#failRead(`rows are not available: ${reason}`);
    }
    const slot = this.requests.take(RowKind.READ, key, owner, this.thread);
    if (slot === NO_REQUEST) return this.#failRead("too many requests wait for the database");
    this.#submit(slot, false);
    return this.#parkRead();
  }

  /** Whether a key that the cache does not have is a row, and not known to be absent. */
  lacks(key: Key): boolean {
    return this.isRow(key) && !this.#lookup.knows(key);
  }

  /** Whether a key is a row, and not known to be absent. */
  mayExist(key: Key): boolean {
    return this.isRow(key) && !this.#lookup.knowsAbsent(key);
  }

  /**
   * Finds the answer to an earlier read; ahead of its turn, submits a read if the cache does not have the row.
   *
   * @returns As `read`; or NOT_ASKED: read the cache.
   */
  answerOf(operation: Operation): ItemRef {
    if (!this.isAhead) return this.#replayRead(operation);
    return this.#mayReadAhead && this.lacks(operation)
      ? this.read(operation, operation.owner)
      : this.#parkRead();
  }

  /** Reads a row and changes its expiry time. @returns As `read`, or LOCKED_ITEM. */
  getAndTouch({ input, keyOffset, keyLength, owner, deadlineSec }: Operation): ItemRef {
    const operation = this.#operation;
    operation.input = input;
    operation.begin(keyOffset, keyLength);
    operation.owner = owner;
    operation.deadlineSec = deadlineSec;
    switch (this.touch(operation)) {
      case Outcome.TOUCHED:
        return operation.item;
      case Outcome.PARKED:
        return PARKED_ITEM;
      case Outcome.NOT_FOUND:
        return NO_ITEM;
      case Outcome.LOCKED:
        return LOCKED_ITEM;
      default:
        return FAILED_ITEM;
    }
  }

  /** Finds the answer to a read that was submitted before. */
  #replayRead(key: Key): ItemRef {
    const session = this.session!;
    if (session.isWriting) return NOT_ASKED;
    const { slots } = session;
    for (let index = 0; index < slots.length; index++) {
      const slot = slots[index]!;
      if (!this.#hasKey(slot, key)) continue;
      this.awaited = slot;
      if (this.requests.stateOf(slot) !== RequestState.DONE) return this.#parkRead();
      slots.splice(index, 1);
      if (slots.length === 0) this.session = null;
      return this.#takeRead(slot);
    }
    return NOT_ASKED;
  }

  /** Submits a read for a key that the cache does not have and that comes up soon, if the connection may. */
  readAhead(key: Key, owner: number): void {
    if (this.session === null || !this.#mayAskMore) return;
    if (this.lacks(key)) this.read(key, owner);
    // No operation waits for it.
    this.hasParked = false;
  }

  #takeRead(slot: RequestSlot): ItemRef {
    const { requests } = this;
    const outcome = requests.outcomeOf(slot);
    if (outcome === Outcome.ROW_ERROR) this.#readFailure(slot);
    this.#keepResult(slot);
    this.#rows.free(slot);
    if (outcome === Outcome.ROW_ERROR) return FAILED_ITEM;
    return outcome === Outcome.OK || outcome === Outcome.TOUCHED ? this.#result : NO_ITEM;
  }

  #failRead(text: string): ItemRef {
    if (this.isAhead) {
      this.hasLeftAhead = true;
      return this.#parkRead();
    }
    this.#explain(text);
    return FAILED_ITEM;
  }

  // --- writing -----------------------------------------------------------------------------------

  /**
   * Stores a row by `operation.mode`, or hands a command to the database thread.
   *
   * @param value A reserved item with the value; NO_ITEM: it is in the input.
   */
  store(operation: Operation, value: ItemRef = NO_ITEM): Outcome {
    if (this.isReplayingWrite) return this.#replay(operation);
    const { keyLength, valueLength, clientFlags } = operation;
    operation.item = NO_ITEM;
    if (!this.#storeOperations.fits(keyLength, valueLength, clientFlags)) {
      return this.#refuse(Outcome.TOO_LARGE);
    }
    if (
      operation.mode === StoreMode.FILL && !operation.isCommand && !this.leases.holds(operation)
    ) {
      return this.#refuse(Outcome.NOT_STORED);
    }
    const kind = operation.isCommand ? RowKind.COMMAND : RowKind.STORE;
    return this.#write(kind, operation, value);
  }

  /** Deletes a row. */
  remove(operation: Operation): Outcome {
    operation.deadlineSec = 0;
    return this.#write(RowKind.REMOVE, operation);
  }

  /** Refuses to mark a row as stale, or to empty it. */
  refuseMark(): Outcome {
    return this.#fail("rows can neither be marked stale nor emptied");
  }

  /** Refuses to lock a row: another server has its lock. */
  refuseLock(): Outcome {
    return this.#fail("rows cannot be locked at a node: lock them at its origin");
  }

  /** incr, decr. */
  count(operation: Operation, increment: boolean): Outcome {
    return this.#write(RowKind.COUNT, operation, NO_ITEM, increment ? 0 : RowBit.DECREMENT);
  }

  /** Changes a row's expiry time; the row is `operation.item`. */
  touch(operation: Operation): Outcome {
    return this.#write(RowKind.TOUCH, operation);
  }

  /** Whether an expiry time changes a row at all, or is refused; else a touch is but a read. */
  mayTouch(deadlineSec: number): boolean {
    return this.#expiry === "column" || (this.#expiry === "refuse" && deadlineSec !== 0);
  }

  #write(kind: RowKind, operation: Operation, value: ItemRef = NO_ITEM, bits = 0): Outcome {
    if (this.isReplayingWrite) return this.#replay(operation);
    const { requests, session } = this;
    operation.item = NO_ITEM;
    operation.isRefused = false;
    if (session !== null) {
      if (this.isAhead && (!session.isWriting || !this.#mayAskMore)) {
        return this.#leaveAhead();
      }
      // Reads that were submitted ahead, and not needed.
      if (!session.isWriting && !session.awaitsRoom) this.abandon(session);
    }
    if (operation.owner === NO_OWNER) {
      return this.#fail("rows are not available over UDP", false);
    }
    if (this.#expiry === "refuse" && operation.deadlineSec !== 0) {
      return this.#fail("rows have no expiry time; see --row-expiry");
    }
    if (hasValue(kind) && value === NO_ITEM) {
      const outcome = this.awaitRoom(operation);
      if (outcome !== Outcome.OK) return outcome;
    }
    const item = value !== NO_ITEM || !hasValue(kind) ? value : this.#copyValue(operation);
    if (hasValue(kind) && item === NO_ITEM) return this.#refuse(Outcome.NO_MEMORY);
    const slot = requests.take(kind, operation, operation.owner, this.thread);
    if (slot === NO_REQUEST) {
      if (item !== NO_ITEM && value === NO_ITEM) this.#links.free(item);
      return this.#refuse(Outcome.TOO_MANY_REQUESTS);
    }
    if (item !== NO_ITEM) {
      this.detached.add(item);
      requests.setWord(slot, REQUEST.ITEM, item);
    }
    this.#setWrite(slot, kind, operation, bits);
    this.#submit(slot, true);
    return this.#park();
  }

  /** Copies what a write asks for into its slot, and keeps the rules of leases. A store that fills becomes an add. */
  #setWrite(slot: RequestSlot, kind: RowKind, operation: Operation, bits: number): void {
    const { requests } = this;
    const isFill = kind === RowKind.STORE && !isExtending(operation) &&
      this.leases.holds(operation);
    let asked = bits | bitsOf(operation);
    if (isFill) asked &= ~RowBit.COMPARE;
    else if (heedsLeases(kind) && this.leases.note(operation)) asked |= RowBit.LEASED;
    requests.setWord(slot, REQUEST.BITS, asked);
    requests.setWord(slot, REQUEST.MODE, isFill ? StoreMode.ADD : operation.mode);
    requests.setWord(slot, REQUEST.CLIENT_FLAGS, operation.clientFlags);
    const deadlineSec = this.#expiry === "column" ? operation.deadlineSec : 0;
    requests.setWord(slot, REQUEST.DEADLINE_SEC, deadlineSec);
    requests.setWord(slot, REQUEST.COMPARE_LOW, operation.compareLow);
    requests.setWord(slot, REQUEST.COMPARE_HIGH, operation.compareHigh);
    requests.setWord(slot, REQUEST.DELTA_LOW, operation.deltaLow);
    requests.setWord(slot, REQUEST.DELTA_HIGH, operation.deltaHigh);
    requests.setWord(slot, REQUEST.INITIAL_LOW, operation.initialLow);
    requests.setWord(slot, REQUEST.INITIAL_HIGH, operation.initialHigh);
  }

  /**
   * Makes sure that a value may be on its way to the database: together they take a share of the memory. A write whose
   * value does not fit waits for others to end, behind those that wait already.
   *
   * @returns OK; PARKED: the connection waits, and executes the same request once more; or NO_MEMORY.
   */
  awaitRoom({ input, valueLength, owner }: Operation): Outcome {
    const { requests, session } = this;
    const { memory } = this.#links;
    let untilSec = 0;
    if (session !== null && session.awaitsRoom) {
      this.awaited = session.slots[0]!;
      if (requests.stateOf(this.awaited) !== RequestState.DONE) return this.#park();
      untilSec = requests.word(this.awaited, REQUEST.DEADLINE_SEC);
      this.abandon(session);
      this.session = null;
    }
    const mayPass = untilSec !== 0 || !requests.isRoomAwaited;
    if (mayPass && valueLength <= this.#room) return Outcome.OK;
    if (this.isAhead) return this.#refuse(Outcome.NO_MEMORY);
    untilSec ||= clockSec(memory) + ROOM_WAIT_SEC;
    if (clockSec(memory) >= untilSec || valueLength > this.#roomMax) return Outcome.NO_MEMORY;
    const noKey = { input, keyOffset: 0, keyLength: 0, hash: 0 };
    const slot = requests.take(RowKind.STORE, noKey, owner, this.thread);
    if (slot === NO_REQUEST) return Outcome.TOO_MANY_REQUESTS;
    requests.awaitRoom(slot, valueLength, untilSec);
    // Reads that were submitted ahead, and not needed.
    if (session !== null && !session.isWriting) this.abandon(session);
    this.session = new RowSession();
    this.session.awaitsRoom = true;
    this.session.slots.push(slot);
    this.awaited = slot;
    return this.#park();
  }

  /** Ends the waits of writes for which there is memory by now. */
  giveRoom(): void {
    this.requests.giveRoom(this.#room, clockSec(this.#links.memory));
  }

  /** Bytes that values on their way to the database may take in all. */
  get #roomMax(): number {
    return this.#links.memory.limitBytes * DETACHED_SHARE_MAX;
  }

  get #room(): number {
    return this.#roomMax - this.detached.bytes;
  }

  /** Copies the value in the input into an item of its own, or returns NO_ITEM. */
  #copyValue(operation: Operation): ItemRef {
    const item = this.#allocator.allocateItem(operation);
    if (item === NO_ITEM) return NO_ITEM;
    this.#values.write(item, 0, operation.input, operation.valueOffset, operation.valueLength);
    this.#values.forgetPosition();
    return item;
  }

  /** Returns the result of the oldest write, which is this operation's. */
  #replay(operation: Operation): Outcome {
    const { requests } = this;
    const slot = this.session!.slots[0]!;
    this.awaited = slot;
    if (requests.stateOf(slot) !== RequestState.DONE) return this.#park();
    this.session!.slots.shift();
    const outcome = this.#outcomeOf(slot, operation.mode);
    if (outcome === Outcome.ROW_ERROR) this.#readFailure(slot);
    operation.idLow = this.#casEnabled ? requests.word(slot, REQUEST.VERSION_LOW) : 0;
    operation.idHigh = this.#casEnabled ? requests.word(slot, REQUEST.VERSION_HIGH) : 0;
    operation.resultLow = requests.word(slot, REQUEST.NUMBER_LOW);
    operation.resultHigh = requests.word(slot, REQUEST.NUMBER_HIGH);
    operation.isRefused = false;
    countWrite(this.#links, requests, slot, outcome, operation.mode);
    this.#keepResult(slot);
    operation.item = this.#result;
    this.#rows.free(slot);
    if (this.session!.slots.length === 0) this.session = null;
    return outcome;
  }

  /** Returns the outcome of a write as the same operation on an ordinary item would end. */
  #outcomeOf(slot: RequestSlot, mode: StoreMode): Outcome {
    const { requests } = this;
    const outcome = requests.outcomeOf(slot);
    const isLeased = (requests.word(slot, REQUEST.BITS) & RowBit.LEASED) !== 0;
    if (outcome === Outcome.NOT_FOUND) return isLeased ? Outcome.EXISTS : outcome;
    // A store under a lease became an add.
    const isFill = mode !== StoreMode.ADD && mode !== StoreMode.FILL &&
      requests.word(slot, REQUEST.MODE) === StoreMode.ADD &&
      requests.kindOf(slot) === RowKind.STORE;
    return isFill && outcome === Outcome.NOT_STORED ? Outcome.EXISTS : outcome;
  }

  /** Refuses a write before it is submitted. Ahead of its turn it is refused only then. */
  #refuse(outcome: Outcome): Outcome {
    return this.isAhead ? this.#leaveAhead() : outcome;
  }

  #fail(text: string, isClients = true): Outcome {
    if (!this.isAhead) this.#explain(text, isClients);
    return this.#refuse(Outcome.ROW_ERROR);
  }

  /** @param isClients Whether the request is wrong; else the server or the database cannot execute it. */
  #explain(text: string, isClients = false): void {
    this.failure = text;
    this.onFailure(text, isClients);
  }

  // --- the connection's requests -----------------------------------------------------------------

  #submit(slot: RequestSlot, isWriting: boolean): void {
    this.session ??= new RowSession();
    this.session.isWriting = isWriting;
    this.session.slots.push(slot);
    this.awaited = slot;
    this.requests.submit(slot);
  }

  /** Whether a request has been answered; if not, its answer wakes the connection. */
  isAnswered(slot: RequestSlot): boolean {
    if (this.requests.stateOf(slot) === RequestState.DONE) return true;
    this.requests.await(slot);
    return false;
  }

  /** Gives up the requests of a connection: queued writes are not made. */
  abandon(session: RowSession): void {
    for (const slot of session.slots) {
      if (this.requests.stateOf(slot) === RequestState.TAKEN) this.requests.orphan(slot);
      else this.#rows.free(slot);
    }
    session.slots.length = 0;
  }

  /** Ends the use of the last result. */
  dropResult(): void {
    if (this.#result !== NO_ITEM) this.detached.release(this.#result);
    this.#result = NO_ITEM;
  }

  get hasResult(): boolean {
    return this.#result !== NO_ITEM;
  }

  #keepResult(slot: RequestSlot): void {
    this.dropResult();
    this.#result = this.requests.takeItem(slot, REQUEST.RESULT);
  }

  #readFailure(slot: RequestSlot): void {
    this.#explain(decoder.decode(this.requests.textOf(slot)));
  }

  #hasKey(slot: RequestSlot, { input, keyOffset, keyLength }: Key): boolean {
    const { requests } = this;
    return requests.keyLength(slot) === keyLength &&
      equalBytes(requests.bytes, requests.keyOffset(slot), input, keyOffset, keyLength);
  }
}

const decoder = new TextDecoder();

function hasValue(kind: RowKind): boolean {
  return kind === RowKind.STORE || kind === RowKind.COMMAND;
}

/** Whether a lease on its key concerns a write. */
function heedsLeases(kind: RowKind): boolean {
  return kind !== RowKind.COMMAND && kind !== RowKind.TOUCH;
}

function bitsOf(operation: Operation): number {
  const compares = operation.compare && !namesNoId(operation);
  return (compares ? RowBit.COMPARE : 0) | (operation.vivify ? RowBit.VIVIFY : 0) |
    (operation.touches ? RowBit.TOUCHES : 0);
}
