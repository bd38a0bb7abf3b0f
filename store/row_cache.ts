import type { KeyBytes } from "./base/bytes.ts";
import { clockSec } from "./clock.ts";
import { Cache } from "./cache.ts";
import type { ItemRef } from "./memory/item.ts";
import * as itemModule from "./memory/item.ts";
import type { Memory } from "./memory/memory.ts";
import type { Operation } from "./operation.ts";
import { RowOperations } from "./operations/row.ts";
import { RowParking } from "./operations/row_parking.ts";
import * as outcomeModule from "./outcome.ts";
import * as sessionModule from "./rows/row_session.ts";

const { NO_ITEM } = itemModule;
const { Outcome } = outcomeModule;
type Outcome = outcomeModule.Outcome;
const { NOT_ASKED, outcomeOf, PARKED_ITEM } = sessionModule;

// The names of inner rooms that callers need.
export type { CachedRow, RowRequest, RowResult, RowValue } from "./rows/row_request.ts";
export { RowKind } from "./rows/row_requests.ts";

// Hot path: no allocation.

/** Makes one thread's view of the store, with rows if the server has a database. */
export function openCache(memory: Memory): Cache {
  return memory.options.rows === undefined ? new Cache(memory) : new RowCache(memory);
}

/** Makes an empty store of new memory. Once, before any other thread has it. */
export function formatCache(memory: Memory): Cache {
  Cache.format(memory);
  return openCache(memory);
}

/**
 * A cache with rows: keys behind which there is a database. Reads of rows that it lacks, and all writes of rows, go to
 * the database thread: see `RowParking`. A server without a database has a Cache, which knows nothing of this.
 */
export class RowCache extends Cache {
  override readonly rows: RowOperations;
  override readonly parking: RowParking;

  constructor(memory: Memory) {
    super(memory);
    const { parts, storeOperations } = this;
    this.rows = new RowOperations(parts, storeOperations, this);
    this.parking = new RowParking(parts, this.rows, storeOperations);
  }

  override leave(): void {
    const { requests } = this.rows;
    if (requests.isRoomAwaited) this.parking.giveRoom();
    super.leave();
    if (requests.bellIsDue) requests.ring();
  }

  override takeReady(thread: number): number {
    return super.takeReady(thread) || this.rows.requests.takeReady(thread);
  }

  override isRow(key: KeyBytes): boolean {
    return this.parking.isRow(key);
  }

  override get(operation: Operation): ItemRef {
    const { parking } = this;
    if (parking.session !== null) {
      const answer = parking.answerOf(operation);
      if (answer !== PARKED_ITEM && answer !== NOT_ASKED) this.meta.noteMiss(operation);
      if (answer !== NOT_ASKED) return answer;
    }
    if (parking.isBarred(operation)) {
      return parking.read(operation, operation.owner);
    }
    return super.get(operation);
  }

  protected override miss(operation: Operation): ItemRef {
    const { parking } = this;
    return parking.lacks(operation)
      ? parking.read(operation, operation.owner)
      : super.miss(operation);
  }

  override find(operation: Operation): ItemRef {
    const { parking } = this;
    if (parking.session !== null) {
      const answer = parking.answerOf(operation);
      if (answer !== NOT_ASKED) return answer;
    }
    if (parking.isBarred(operation)) {
      return parking.read(operation, operation.owner);
    }
    const item = this.meta.find(operation);
    return item === NO_ITEM && parking.lacks(operation)
      ? parking.read(operation, operation.owner)
      : item;
  }

  override getAndTouch(operation: Operation): ItemRef {
    const { parking } = this;
    if (!parking.isRow(operation)) return super.getAndTouch(operation);
    return parking.mayTouch(operation.deadlineSec)
      ? parking.getAndTouch(operation)
      : this.get(operation);
  }

  override getOrLease(operation: Operation): Outcome {
    const item = this.get(operation);
    if (item < NO_ITEM) return outcomeOf(item);
    return item === NO_ITEM ? this.lease(operation) : this.leaseOperations.get(operation, item);
  }

  /**
   * Gives no lease on a row that the cache does not know to be absent any more: it is being written or has been since
   * the database was asked, and may even be here by now.
   */
  override lease(operation: Operation): Outcome {
    this.prefetch.addHash(operation);
    if (this.parking.mayExist(operation) && !this.findLease(operation)) {
      return this.leaseOperations.refuse(operation);
    }
    return super.lease(operation);
  }

  override removeAndLease(operation: Operation): Outcome {
    const { parking } = this;
    if (!parking.isRow(operation) || this.#holdsLease(operation)) {
      return parking.endsLookAhead() ? Outcome.PARKED : super.removeAndLease(operation);
    }
    const { deadlineSec } = operation;
    const outcome = this.#noted(operation, parking.remove(operation));
    operation.deadlineSec = deadlineSec;
    if (outcome !== Outcome.DELETED && outcome !== Outcome.NOT_FOUND) return outcome;
    if (outcome === Outcome.DELETED) this.lockOperations.removeHeld(operation);
    operation.compare = false;
    const leased = super.removeAndLease(operation);
    return leased === Outcome.NOT_FOUND ? outcome : leased;
  }

  /** Whether an operation on a row concerns but the lease that the client holds: the database is not asked. */
  #holdsLease(operation: Operation): boolean {
    return !this.parking.isReplayingWrite && this.parking.leases.holds(operation);
  }

  override lock(operation: Operation): Outcome {
    if (this.parking.isNode && this.parking.isRow(operation)) return this.parking.refuseLock();
    const row = this.#fetchForLock(operation);
    if (row < NO_ITEM && row !== NOT_ASKED) return outcomeOf(row);
    const outcome = super.lock(operation);
    return outcome === Outcome.NOT_FOUND ? this.#notLockable(operation, row) : outcome;
  }

  override lockAndGet(operation: Operation, touch: boolean): Outcome {
    if (this.parking.isNode && this.parking.isRow(operation)) return this.parking.refuseLock();
    const row = this.#fetchForLock(operation);
    if (row < NO_ITEM && row !== NOT_ASKED) return outcomeOf(row);
    const outcome = super.lockAndGet(operation, touch && !this.parking.isRow(operation));
    return outcome === Outcome.NOT_FOUND ? this.#notLockable(operation, row) : outcome;
  }

  /**
   * Fetches a row that is to be locked.
   *
   * @returns NOT_ASKED: the key is no row, or the cache knows it; or as `RowParking.read`.
   */
  #fetchForLock(operation: Operation): ItemRef {
    const { parking } = this;
    this.prefetch.addHash(operation);
    if (parking.session !== null) {
      const answer = parking.answerOf(operation);
      if (answer !== NOT_ASKED) return answer;
    }
    return parking.isBarred(operation) ||
        parking.lacks(operation)
      ? parking.read(operation, operation.owner)
      : NOT_ASKED;
  }

  /** Says why a key cannot be locked. A row that is there but could not be cached is being written. */
  #notLockable(operation: Operation, row: ItemRef): Outcome {
    operation.item = NO_ITEM;
    return row === NOT_ASKED || row === NO_ITEM ? Outcome.NOT_FOUND : Outcome.LOCKED;
  }

  override store(operation: Operation): Outcome {
    const isRow = operation.isCommand || this.parking.isRow(operation);
    if (isRow) return this.#storeRow(operation);
    return this.parking.endsLookAhead() ? Outcome.PARKED : super.store(operation);
  }

  /** RaU needs the lock, which ends when the row is stored. @param value As for `RowParking.store`. */
  #storeRow(operation: Operation, value: ItemRef = NO_ITEM): Outcome {
    const { parking } = this;
    if (operation.unlock && !parking.isReplayingWrite && !this.lockOperations.isHeld(operation)) {
      return Outcome.NOT_LOCKED;
    }
    if (this.#isGivenBack(operation)) {
      if (parking.endsLookAhead()) return Outcome.PARKED;
      super.remove(operation);
      return Outcome.STORED;
    }
    const outcome = this.#noted(operation, parking.store(operation, value));
    if (operation.unlock && outcome === Outcome.STORED) this.lockOperations.unlock(operation);
    return outcome;
  }

  /** Samples the key of a row's write, when it is answered: it was parked before. */
  #noted(operation: Operation, outcome: Outcome): Outcome {
    if (outcome !== Outcome.PARKED && !operation.isCommand) this.noteWrite(operation);
    return outcome;
  }

  /** Whether a fill under a lease has an expiry time that is over: it gives the lease back. */
  #isGivenBack(operation: Operation): boolean {
    const { deadlineSec } = operation;
    return deadlineSec !== 0 && deadlineSec <= clockSec(this.memory) && this.#holdsLease(operation);
  }

  override awaitRoom(operation: Operation): Outcome {
    const isRow = this.#isReservedRow(operation, this.reserved.itemOf(operation.reserved));
    return isRow ? this.parking.awaitRoom(operation) : Outcome.OK;
  }

  #isReservedRow({ isCommand }: Operation, item: ItemRef): boolean {
    if (isCommand) return true;
    const { items, memory } = this;
    const input = memory.segmentOf(item);
    return this.isRow({
      input,
      keyOffset: items.keyOffset(item),
      keyLength: items.keyLength(item),
    });
  }

  override commit(operation: Operation): Outcome {
    const item = this.reserved.itemOf(operation.reserved);
    if (!this.#isReservedRow(operation, item)) return super.commit(operation);
    const segment = this.memory.segmentOf(item);
    const keyOffset = this.items.keyOffset(item);
    const keyLength = this.items.keyLength(item);
    this.reserved.take(operation);
    operation.input = segment;
    operation.keyOffset = keyOffset;
    operation.keyLength = keyLength;
    const outcome = this.#storeRow(operation, item);
    if (outcome !== Outcome.PARKED) this.links.free(item);
    return outcome;
  }

  override refuseBadChunk(operation: Operation): Outcome {
    return this.parking.endsLookAhead() ? Outcome.PARKED : super.refuseBadChunk(operation);
  }

  override remove(operation: Operation): Outcome {
    if (!this.parking.isRow(operation) || this.#holdsLease(operation)) {
      return this.parking.endsLookAhead() ? Outcome.PARKED : super.remove(operation);
    }
    const outcome = this.#noted(operation, this.parking.remove(operation));
    // The lock goes with what its holder deletes.
    if (outcome === Outcome.DELETED) this.lockOperations.removeHeld(operation);
    return outcome;
  }

  override touch(operation: Operation): Outcome {
    const { parking } = this;
    if (!parking.isRow(operation)) {
      return parking.endsLookAhead() ? Outcome.PARKED : super.touch(operation);
    }
    if (parking.mayTouch(operation.deadlineSec)) {
      return this.#noted(operation, parking.touch(operation));
    }
    this.prefetch.addHash(operation);
    const item = this.get(operation);
    if (item < NO_ITEM) return outcomeOf(item);
    operation.item = item;
    return item === NO_ITEM ? Outcome.NOT_FOUND : Outcome.TOUCHED;
  }

  override incrDecr(operation: Operation, increment: boolean): Outcome {
    if (this.parking.isRow(operation)) {
      return this.#noted(operation, this.parking.count(operation, increment));
    }
    return this.parking.endsLookAhead() ? Outcome.PARKED : super.incrDecr(operation, increment);
  }
}
