import { ByteRegion, latin1Text } from "../base/bytes.ts";
import { highHalf, lowHalf, u64ToBigInt, u64ToNumber } from "../base/u64.ts";
import { NO_LEASE } from "../claims/leases.ts";
import type { WriteGuard } from "../claims/write_guard.ts";
import { clockSec, deadlineSec } from "../clock.ts";
import type { ConnectionId } from "../connections.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Values } from "../items/values.ts";
import { COPIED_SHARE_MAX, COPY_BYTES_MAX, KEY_LENGTH_MAX, REPLY_SHARE_MAX } from "../limits.ts";
import { ABSENT_DEADLINE_SEC, type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { CONTROL } from "../memory/memory.ts";
import { REQUEST } from "../memory/request_layout.ts";
import { Operation, type StoreMode } from "../operation.ts";
import { Outcome } from "../outcome.ts";
import { DetachedItems } from "../rows/detached_items.ts";
import type { CachedRow, RowRequest, RowResult, RowValue } from "../rows/row_request.ts";
import {
  NO_REQUEST,
  type RequestSlot,
  RowBit,
  RowKind,
  RowRequests,
} from "../rows/row_requests.ts";
import { ServingRight } from "../rows/serving_right.ts";
import type { Allocator } from "../space/allocator.ts";
import type { StoreParts } from "./parts.ts";
import { type MutexHolder, RowRemoval, setKey } from "./row_removal.ts";
import type { StoreOperations } from "./store.ts";

/**
 * How long the lease lasts under which a row is read, in seconds. It only decides how long a value may be on its way
 * from the database: later it is answered, but not cached.
 */
const LEASE_SEC = 60;
/** With which a request fails for the memory of its answer. */
const TOO_LARGE = "the row is too large, or there is no memory for it";
/** No row has a version as large as this. */
const TWO_53 = 2 ** 53;
/** A version that no row has. */
const NO_VERSION = -1;

/**
 * Rows: items behind which there is a database. Serving threads submit requests for them, and read the results; the
 * database thread takes the requests, and answers them. Methods want the mutex held, unless they say otherwise.
 */
export class RowOperations {
  /** The table of requests. */
  readonly requests: RowRequests;
  readonly detached: DetachedItems;
  readonly right: ServingRight;
  /** Takes rows out of this cache. */
  readonly removal: RowRemoval;
  readonly #links: ItemLinks;
  readonly #values: Values;
  readonly #guard: WriteGuard;
  readonly #allocator: Allocator;
  readonly #storeOperations: StoreOperations;
  readonly #mutex: MutexHolder;
  /** Whether `together` has the mutex. */
  #isTogether = false;
  /** Bytes of values that were copied since the mutex was taken. */
  #copied = 0;
  /** For the database thread: a key, and an operation on it. */
  readonly #key = new ByteRegion(new ArrayBuffer(KEY_LENGTH_MAX));
  readonly #operation = new Operation(this.#key);

  constructor(
    parts: StoreParts,
    storeOperations: StoreOperations,
    mutex: MutexHolder,
  ) {
    const { links, values, guard, allocator } = parts;
    const { memory } = links;
    this.#links = links;
    this.#values = values;
    this.#guard = guard;
    this.#allocator = allocator;
    this.#storeOperations = storeOperations;
    this.requests = new RowRequests(memory);
    this.detached = new DetachedItems(memory, links, values);
    this.right = new ServingRight(memory);
    this.#mutex = mutex;
    this.removal = new RowRemoval(parts, mutex);
  }

  // --- for the database thread ---------------------------------------------------------------------

  /**
   * Takes queued requests, the oldest first. A READ whose row the cache has by now is answered at once, and not
   * returned; for the others the row's lease is taken, before the caller checks whether the key is cacheable.
   *
   * @param max Requests to take.
   * @param copiedBytes Length of the values that the caller has copied and not answered. A write whose value would
   *   make them too many stays in the queue, and so do all later writes. One value may be of any length.
   */
  take(max: number, copiedBytes = 0): RowRequest[] {
    const { requests } = this;
    const taken: RowRequest[] = [];
    const bytesMax = this.#links.memory.limitBytes * COPIED_SHARE_MAX;
    // A value in the cache may be old by now: the process may have been stopped since the request came.
    const mayServe = this.right.isValid;
    this.#copied = 0;
    let copied = copiedBytes;
    let passed: RequestSlot = NO_REQUEST;
    while (taken.length < max) {
      const slot = requests.queuedBehind(passed);
      if (slot === NO_REQUEST) break;
      const isRead = requests.kindOf(slot) === RowKind.READ;
      const bytes = this.#valueLengthOf(slot);
      if (!isRead && (passed !== NO_REQUEST || (copied > 0 && copied + bytes > bytesMax))) {
        passed = slot;
        continue;
      }
      copied += bytes;
      requests.takeQueued(slot);
      if (isRead) this.#takeRead(slot, mayServe, taken);
      else taken.push(this.#describe(slot, 0));
    }
    return taken;
  }

  /** Answers a READ from the cache, or takes it with the lease of its row. */
  #takeRead(slot: RequestSlot, mayServe: boolean, taken: RowRequest[]): void {
    if (mayServe && this.#answerFromCache(slot)) return;
    taken.push(this.#describe(slot, this.#lease(slot)));
  }

  /**
   * Answers READs that have waited for another read of their key from the cache, as `take` does. Takes the mutex
   * itself.
   *
   * @returns Those that the cache cannot answer, with the leases of now.
   */
  takeAgain(waited: readonly RowRequest[]): RowRequest[] {
    const left: RowRequest[] = [];
    this.#begin();
    const mayServe = this.right.isValid;
    for (const request of waited) {
      const { slot, kind } = request;
      if (this.requests.isOrphan(slot)) this.free(slot);
      else if (kind === RowKind.READ) this.#takeRead(slot, mayServe, left);
      else left.push(request);
    }
    this.#end();
    return left;
  }

  #valueLengthOf(slot: RequestSlot): number {
    const item = this.requests.word(slot, REQUEST.ITEM);
    return item === NO_ITEM ? 0 : this.#links.items.valueLength(item);
  }

  /**
   * Copies the value of a taken STORE or COMMAND. Needs no mutex. Only for a request that has not been answered.
   */
  valueOf({ slot, valueLength }: RowRequest): Uint8Array {
    const data = new Uint8Array(valueLength);
    const item = this.requests.word(slot, REQUEST.ITEM);
    if (item !== NO_ITEM) {
      this.#values.read(item, 0, valueLength, new ByteRegion(data.buffer), 0);
      this.#values.forgetPosition();
    }
    return data;
  }

  /** Gives answers under few holds of the mutex, after each of which a thread is woken once. */
  together(answer: () => void): void {
    this.#mutex.enter();
    this.#isTogether = true;
    this.#copied = 0;
    answer();
    this.#isTogether = false;
    this.#mutex.leave();
  }

  #begin(): void {
    if (!this.#isTogether) this.#mutex.enter();
  }

  /** Ends an answer. Others get the mutex in between when much was copied. */
  #end(): void {
    if (this.#isTogether && this.#copied < COPY_BYTES_MAX) return;
    this.#copied = 0;
    this.#mutex.leave();
    if (this.#isTogether) this.#mutex.enter();
  }

  /**
   * Answers READs of one key with what one read of the database found, and fills the cache with it if it may. Takes the
   * mutex itself.
   *
   * @param requests Taken before the read began, and all of one key.
   * @param row Null: there is no such row.
   * @param cacheable The result of the check that was made after the requests were taken and before the read.
   */
  answerRead(requests: readonly RowRequest[], row: RowValue | null, cacheable: boolean): void {
    const first = requests[0];
    if (first === undefined) return;
    const leaseId = cacheable ? Math.max(...requests.map((each) => each.leaseId)) : 0;
    this.#begin();
    if (row === null) this.#answerAbsent(requests, leaseId);
    else this.#answerFound(requests, row, leaseId);
    this.#end();
  }

  /**
   * Answers a request that writes, or a COMMAND. Takes the mutex itself.
   *
   * @param outcome As the same operation on an ordinary item would end.
   */
  answer(request: RowRequest, outcome: Outcome, result: RowResult = {}): void {
    const { slot, key } = request;
    const { version = 0, number = 0n, row } = result;
    const { requests } = this;
    this.#begin();
    if (version !== 0 && request.kind !== RowKind.REMOVE) this.#endLease(key);
    const item = row === undefined || requests.isOrphan(slot) ? NO_ITEM : this.#make(key, row);
    if (requests.isOrphan(slot)) {
      if (item !== NO_ITEM) this.#links.free(item);
      this.free(slot);
      return this.#end();
    }
    if (row !== undefined && item === NO_ITEM) {
      this.#fail(slot, TOO_LARGE);
      return this.#end();
    }
    requests.setWord(slot, REQUEST.VERSION_LOW, lowHalf(version));
    requests.setWord(slot, REQUEST.VERSION_HIGH, highHalf(version));
    requests.setWord(slot, REQUEST.NUMBER_LOW, Number(BigInt.asIntN(32, number)));
    requests.setWord(slot, REQUEST.NUMBER_HIGH, Number(BigInt.asIntN(32, number >> 32n)));
    if (item !== NO_ITEM) {
      this.detached.add(item);
      requests.setWord(slot, REQUEST.RESULT, item);
    }
    requests.finish(slot, outcome);
    this.#end();
  }

  /** Whether the cache can hold a row of this size. Needs no mutex. */
  fits(keyLength: number, valueLength: number, flags: number): boolean {
    return this.#storeOperations.fits(keyLength, valueLength, flags);
  }

  /** Whether a command may begin whose reply may be long. Needs no mutex. */
  get hasRoomForReplies(): boolean {
    return this.detached.bytes <= this.#links.memory.limitBytes * REPLY_SHARE_MAX;
  }

  /** Answers requests with a server error that has this text. Takes the mutex itself. */
  fail(requests: readonly RowRequest[], text: string): void {
    this.#begin();
    for (const { slot } of requests) this.#fail(slot, text);
    this.#end();
  }

  // --- private -----------------------------------------------------------------------------------

  /** Ends the lease of a row that exists: there is nothing to fill. */
  #endLease(key: string): void {
    const { leases } = this.#guard;
    if (leases.count === 0) return;
    const hash = this.#setKey(key);
    const lease = leases.find(this.#operation);
    if (lease !== NO_LEASE && leases.isHeldByClient(lease)) leases.drop(lease, hash);
  }

  #fail(slot: RequestSlot, text: string): void {
    if (this.requests.isOrphan(slot)) return this.free(slot);
    this.requests.setText(slot, text);
    this.requests.finish(slot, Outcome.ROW_ERROR);
  }

  #answerAbsent(requests: readonly RowRequest[], leaseId: number): void {
    this.#setKey(requests[0]!.key);
    if (this.#isHeld(leaseId)) {
      const operation = this.#operation;
      operation.valueLength = 0;
      operation.marks = STATE.ABSENT;
      operation.deadlineSec = ABSENT_DEADLINE_SEC;
      const item = this.#allocator.allocateItem(operation);
      if (item !== NO_ITEM) this.#fill(item);
    }
    for (const { slot } of requests) {
      if (this.requests.isOrphan(slot)) this.free(slot);
      else this.requests.finish(slot, Outcome.NOT_FOUND);
    }
  }

  #answerFound(requests: readonly RowRequest[], row: RowValue, leaseId: number): void {
    const { key } = requests[0]!;
    let item = this.#make(key, row);
    if (item === NO_ITEM) {
      for (const { slot } of requests) this.#fail(slot, TOO_LARGE);
      return;
    }
    const isFilled = this.#isHeld(leaseId);
    if (isFilled) this.#fill(item);
    const { items } = this.#links;
    // A value without a chain cannot be pinned, and may be evicted before its readers come.
    if (isFilled && (items.state(item) & STATE.CHAINED) === 0) item = this.#make(key, row);
    const isDetached = item !== NO_ITEM && (items.state(item) & STATE.LINKED) === 0;
    if (isDetached) this.detached.add(item);
    for (const { slot } of requests) {
      if (item === NO_ITEM || this.requests.isOrphan(slot)) this.#fail(slot, TOO_LARGE);
      else this.#finishWith(slot, item);
    }
    // The requests are its users; `add` counted one more.
    if (isDetached) this.detached.release(item);
  }

  #finishWith(slot: RequestSlot, item: ItemRef): void {
    this.detached.hold(item);
    this.requests.setWord(slot, REQUEST.RESULT, item);
    this.requests.finish(slot, Outcome.OK);
  }

  /** Frees a request that is not taken, or whose connection has ended, with its items. */
  free(slot: RequestSlot): void {
    const { requests, detached } = this;
    const item = requests.takeItem(slot, REQUEST.ITEM);
    if (item !== NO_ITEM) detached.release(item);
    const result = requests.takeItem(slot, REQUEST.RESULT);
    if (result !== NO_ITEM) detached.release(result);
    requests.free(slot);
  }

  /** Answers a READ whose row is in the cache, or is known to be absent. */
  #answerFromCache(slot: RequestSlot): boolean {
    const { items, index } = this.#links;
    const input = this.requests.bytes;
    const keyOffset = this.requests.keyOffset(slot);
    const keyLength = this.requests.keyLength(slot);
    const hash = this.#links.prefetch.hashOf(input, keyOffset, keyLength);
    const item = index.find({ input, keyOffset, keyLength, hash });
    if (item === NO_ITEM) return false;
    if (this.#links.isDead(item)) {
      const isAbsent = this.#links.isAbsent(item);
      if (isAbsent) this.requests.finish(slot, Outcome.NOT_FOUND);
      return isAbsent;
    }
    if (items.state(item) & STATE.CHAINED) {
      this.#finishWith(slot, item);
      return true;
    }
    const length = items.valueLength(item);
    // No longer hold of the mutex; the database has the value, too.
    if (this.#copied + length > COPY_BYTES_MAX) return false;
    const data = new Uint8Array(length);
    this.#values.read(item, 0, length, new ByteRegion(data.buffer), 0);
    const copy = this.#make(this.#keyOf(slot), {
      flags: items.clientFlags(item),
      data,
      version: u64ToNumber(items.idLow(item), items.idHigh(item)),
      expiresUnixSec: this.#unixSec(items.word(item, WORD.DEADLINE_SEC)),
    });
    if (copy === NO_ITEM) return false;
    this.detached.add(copy);
    this.requests.setWord(slot, REQUEST.RESULT, copy);
    this.requests.finish(slot, Outcome.OK);
    return true;
  }

  /**
   * Returns the answer that a read of a key would get from the cache now, without a trace of having looked.
   *
   * @param key A character a byte.
   * @param bytesMax A longer value has no bytes in the answer.
   * @returns "absent": it would be told that the row is not there; null: the database would be asked.
   */
  look(key: string, bytesMax: number): CachedRow | "absent" | null {
    const links = this.#links;
    if (!this.right.isValid) return null;
    this.#setKey(key);
    const item = links.index.find(this.#operation);
    if (item === NO_ITEM) return null;
    if (links.isDead(item)) return links.isAbsent(item) ? "absent" : null;
    const { items } = links;
    const length = items.valueLength(item);
    let data: Uint8Array | null = null;
    if (length <= bytesMax) {
      data = new Uint8Array(length);
      this.#values.read(item, 0, length, new ByteRegion(data.buffer as ArrayBuffer), 0);
      this.#values.forgetPosition();
    }
    const version = u64ToNumber(items.idLow(item), items.idHigh(item));
    const endSec = items.word(item, WORD.DEADLINE_SEC);
    const expiresInSec = endSec === 0 ? 0 : endSec - clockSec(links.memory);
    return { flags: items.clientFlags(item), data, version, expiresInSec };
  }

  /**
   * Takes the lease of a READ's row, or joins the one that an earlier READ has.
   *
   * @returns Its id; 0: no lease, because a client holds it or the table is full. Then the read fills nothing.
   */
  #lease(slot: RequestSlot): number {
    const { leases } = this.#guard;
    this.#setKey(this.#keyOf(slot));
    if (this.#guard.refuses(this.#operation)) return 0;
    let lease = leases.find(this.#operation);
    if (lease !== NO_LEASE && leases.isHeldByClient(lease)) return 0;
    if (lease === NO_LEASE || !leases.isHeld(lease)) {
      lease = leases.grant(lease, this.#operation, clockSec(this.#links.memory) + LEASE_SEC, true);
      if (lease === NO_LEASE) return 0;
    }
    return u64ToNumber(leases.idLow(lease), leases.idHigh(lease));
  }

  /** Whether the lease of the operation's key still has this id, and a fill under it is not refused. */
  #isHeld(leaseId: number): boolean {
    if (leaseId === 0) return false;
    const { leases } = this.#guard;
    if (this.#guard.refuses(this.#operation)) return false;
    const lease = leases.find(this.#operation);
    return lease !== NO_LEASE && leases.isHeld(lease) &&
      leases.hasId(lease, lowHalf(leaseId), highHalf(leaseId));
  }

  /** Links an item, made by the operation that has just begun, under the key's lease, which ends. */
  #fill(item: ItemRef): void {
    const { leases } = this.#guard;
    this.#storeOperations.replace(this.#operation, item);
    leases.drop(leases.find(this.#operation), this.#operation.hash);
  }

  /** Begins an operation on a key. @returns Its hash. */
  #setKey(key: string): number {
    return setKey(this.#operation, key, this.#links);
  }

  /**
   * Makes an unlinked item of a row. Releases the mutex while it copies a long value.
   *
   * @returns NO_ITEM when it is too large, or there is no memory.
   */
  #make(key: string, { flags, data, version, expiresUnixSec = 0 }: RowValue): ItemRef {
    const operation = this.#operation;
    this.#setKey(key);
    operation.valueLength = data.length;
    operation.clientFlags = flags;
    operation.explicit = true;
    operation.explicitLow = lowHalf(version);
    operation.explicitHigh = highHalf(version);
    operation.deadlineSec = deadlineSec(this.#links.memory, expiresUnixSec);
    if (!this.#storeOperations.fits(key.length, data.length, flags)) return NO_ITEM;
    const item = this.#allocator.allocateItem(operation);
    if (item === NO_ITEM) return NO_ITEM;
    this.#storeOperations.assignId(operation, item);
    const isLong = data.length > COPY_BYTES_MAX;
    this.#copied += data.length;
    if (isLong) this.#mutex.leave();
    this.#values.write(
      item,
      0,
      new ByteRegion(data.buffer, data.byteOffset, data.length),
      0,
      data.length,
    );
    this.#values.forgetPosition();
    if (isLong) this.#mutex.enter();
    return item;
  }

  #keyOf(slot: RequestSlot): string {
    const { bytes } = this.requests.bytes;
    return latin1Text(bytes, this.requests.keyOffset(slot), this.requests.keyLength(slot));
  }

  /** Converts a deadline to Unix seconds. */
  #unixSec(deadline: number): number {
    const startedUnixSec = this.#links.memory.control[CONTROL.STARTED_UNIX_SEC]!;
    return deadline === 0 ? 0 : deadline + startedUnixSec;
  }

  #describe(slot: RequestSlot, leaseId: number): RowRequest {
    const { requests } = this;
    const word = (word: number): number => requests.word(slot, word);
    const bits = word(REQUEST.BITS);
    const version = u64ToNumber(word(REQUEST.COMPARE_LOW), word(REQUEST.COMPARE_HIGH));
    const kind = requests.kindOf(slot);
    const isCount = kind === RowKind.COUNT;
    return {
      slot,
      kind,
      key: this.#keyOf(slot),
      owner: word(REQUEST.OWNER) as ConnectionId,
      mode: word(REQUEST.MODE) as StoreMode,
      flags: word(REQUEST.CLIENT_FLAGS) >>> 0,
      valueLength: this.#valueLengthOf(slot),
      expiresUnixSec: this.#unixSec(word(REQUEST.DEADLINE_SEC)),
      compare: (bits & RowBit.COMPARE) === 0 ? null : version < TWO_53 ? version : NO_VERSION,
      vivify: (bits & RowBit.VIVIFY) !== 0,
      decrement: (bits & RowBit.DECREMENT) !== 0,
      touches: (bits & RowBit.TOUCHES) !== 0,
      delta: isCount ? u64ToBigInt(word(REQUEST.DELTA_LOW), word(REQUEST.DELTA_HIGH)) : 0n,
      initial: isCount ? u64ToBigInt(word(REQUEST.INITIAL_LOW), word(REQUEST.INITIAL_HIGH)) : 0n,
      leaseId,
    };
  }
}
