import { compareU64 } from "../base/u64.ts";
import { assert } from "../base/assert.ts";
import type { Operation } from "../operation.ts";
import type { Eviction } from "../space/eviction.ts";
import { takeId } from "../memory/ids.ts";
import { type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import type { LockLimits } from "../limits.ts";
import type { ItemLinks } from "../items/item_links.ts";
import {
  LOCK,
  LOCK_HEADER as HEADER,
  lockRowsStart,
  OWNER,
  ownerPlaces,
} from "../memory/lock_layout.ts";
import { LockWaiters } from "./lock_waiters.ts";
import { NO_WAITER } from "./waiters.ts";
import { CONTROL } from "../memory/memory.ts";
import { RowPool } from "../memory/row_pool.ts";
import { Outcome } from "../outcome.ts";
import { STAT } from "../stats.ts";

// Hot path: no allocation.

/**
 * Locks: only the holder of a key's lock may change the key. The states of a key that has an item, and the transitions:
 *
 *   FREE      lock, LaG by a                                     → HELD(a)
 *   HELD(a)   a may change the item; every connection may read it; changes by others are refused
 *             lock, LaG by a                                     → HELD(a)      the same lock, the same fencing number
 *             lock by b                                          → HELD(a)      b is refused, or waits
 *             unlock, unlock_all, RaU by a; a's connection ends  → HELD(b)      b has waited longest
 *                                                                → FREE         no connection waits
 *                                                                → the item goes: it has expired or was flushed
 *             a deletes the item                                 → the item goes, the lock with it
 *
 * A locked item is never expired, flushed, evicted or moved: it is in no queue, and its WORD.NEWER
 * holds the row of its lock instead, so that finding the owner needs no search. When another item
 * replaces it, `transfer` gives that item the row.
 *
 * Every lock gets a fencing number from the generator of ids when it is taken: larger than that of
 * any earlier lock, and than any id that the item got before.
 */

/** Number of a lock's row, from 1. */
type LockRow = number;
const NO_LOCK: LockRow = 0;

/** Sizes of locked items are counted in units, so that they fit a word. */
const UNIT_BYTES = 8;
/** One thread's view of the locks. */
export class Locks {
  readonly waiters: LockWaiters;
  readonly #links: ItemLinks;
  readonly #eviction: Eviction;
  readonly #words: Int32Array;
  readonly #control: Int32Array;
  readonly #stats: Float64Array;
  readonly #limits: LockLimits;
  readonly #ownerMask: number;
  /** Whether a lock is refused to its own holder, as yrmcds does. */
  readonly #refuseRelock: boolean;
  /** The word at which the rows start. */
  readonly #rows: number;
  readonly #pool: RowPool;

  constructor(links: ItemLinks, eviction: Eviction) {
    const { memory } = links;
    const { options } = memory;
    this.#links = links;
    this.#eviction = eviction;
    this.#words = new Int32Array(memory.shared.locks);
    this.#control = memory.control;
    this.#stats = memory.stats;
    this.#limits = options.lockLimits;
    this.waiters = new LockWaiters(memory);
    this.#ownerMask = ownerPlaces(options) - 1;
    this.#rows = lockRowsStart(options);
    const { locksMax } = options.lockLimits;
    this.#pool = new RowPool(this.#words, this.#rows, LOCK.WORDS, LOCK.NEXT, locksMax);
    this.#refuseRelock = options.yrmcdsLocks;
  }

  // --- asking ------------------------------------------------------------------------------------

  /** The row of a locked item. */
  rowOf(item: ItemRef): LockRow {
    return this.#links.items.word(item, WORD.NEWER);
  }

  /** Whether this connection holds the item's lock. */
  isLockedBy(item: ItemRef, owner: number): boolean {
    return (this.#links.items.state(item) & STATE.LOCKED) !== 0 && owner !== 0 &&
      this.#words[this.#row(this.rowOf(item)) + LOCK.OWNER] === owner;
  }

  /** Returns how many locks are held. */
  get count(): number {
    return this.#words[HEADER.COUNT]!;
  }

  /** Returns how many locks a connection holds. */
  countOf(owner: number): number {
    return this.#words[this.#owner(owner) + OWNER.COUNT]!;
  }

  /** Returns the size of all locked items, in bytes. */
  get lockedBytes(): number {
    return this.#words[HEADER.UNITS]! * UNIT_BYTES;
  }

  /** Whether the limits allow the connection another lock. */
  #mayTake(owner: number, item: ItemRef): boolean {
    return this.countOf(owner) < this.#limits.locksPerConnectionMax &&
      this.#words[HEADER.COUNT]! < this.#limits.locksMax &&
      this.#hasRoom(owner, this.#unitsOf(item));
  }

  /** Whether a locked item may grow by so many bytes: a lock on a small value is no way around the limits. */
  mayGrow(item: ItemRef, bytes: number): boolean {
    return this.#hasRoom(this.ownerOf(this.rowOf(item)), bytes / UNIT_BYTES);
  }

  /**
   * Locked items are neither evicted nor moved, so they are bounded by shares of the memory: others must be able to
   * store, whatever one client locks.
   */
  #hasRoom(owner: number, units: number): boolean {
    const ofAll = this.#links.memory.limitBytes / UNIT_BYTES;
    return this.#words[HEADER.UNITS]! + units <= ofAll * this.#limits.memoryShareMax &&
      this.#words[this.#owner(owner) + OWNER.UNITS]! + units <=
        ofAll * this.#limits.memorySharePerConnectionMax;
  }

  #unitsOf(item: ItemRef): number {
    return Math.ceil(this.#links.bytesOf(item) / UNIT_BYTES);
  }

  /** Rows are 1..rowEnd - 1. */
  get rowEnd(): LockRow {
    return this.#words[HEADER.EVER_USED]! + 1;
  }

  /** The item of a row, or NO_ITEM when the row is free. */
  itemOf(row: LockRow): ItemRef {
    return this.#words[this.#row(row) + LOCK.ITEM]!;
  }

  ownerOf(row: LockRow): number {
    return this.#words[this.#row(row) + LOCK.OWNER]!;
  }

  /** When the lock was taken, in seconds of the store's clock. */
  sinceSec(row: LockRow): number {
    return this.#words[this.#row(row) + LOCK.SINCE_SEC]!;
  }

  /** Lower half of the fencing number. */
  fenceLow(row: LockRow): number {
    return this.#words[this.#row(row) + LOCK.FENCE_LOW]!;
  }

  fenceHigh(row: LockRow): number {
    return this.#words[this.#row(row) + LOCK.FENCE_HIGH]!;
  }

  // --- changing ----------------------------------------------------------------------------------

  /**
   * Locks a live item for `operation.owner`, or enqueues that connection as a waiter.
   *
   * @returns OK (the fencing number is in `operation.resultLow/High`), LOCKED, WAITING
   *   (`operation.waiter`) or TOO_MANY_LOCKS.
   */
  acquire(operation: Operation, item: ItemRef): Outcome {
    const { owner } = operation;
    let row;
    if (this.#links.items.state(item) & STATE.LOCKED) {
      row = this.rowOf(item);
      assert(this.itemOf(row) === item, "a locked item is the one of its lock");
      const again = this.isLockedBy(item, owner);
      if (!again || this.#refuseRelock) {
        this.#stats[STAT.lock_busy]! += 1;
        return again || operation.waitMs === 0 ? Outcome.LOCKED : this.#wait(operation, row);
      }
    } else {
      if (!this.#mayTake(owner, item)) return this.#refuse();
      row = this.#take(item, owner);
    }
    operation.resultLow = this.fenceLow(row);
    operation.resultHigh = this.fenceHigh(row);
    return Outcome.OK;
  }

  #wait(operation: Operation, row: LockRow): Outcome {
    if (!this.#mayTake(operation.owner, this.itemOf(row))) return this.#refuse();
    operation.waiter = this.waiters.enqueue(
      row,
      operation.owner,
      operation.thread,
      operation.waitMs,
    );
    return operation.waiter === NO_WAITER ? this.#refuse() : Outcome.WAITING;
  }

  #refuse(): Outcome {
    this.#stats[STAT.lock_refused]! += 1;
    return Outcome.TOO_MANY_LOCKS;
  }

  /** Locks an item that is not locked. */
  #take(item: ItemRef, owner: number): LockRow {
    const { items, queues, slabs } = this.#links;
    assert((items.state(item) & STATE.LINKED) !== 0, "only an item of the cache is locked");
    queues.remove(item, slabs.classOf(item));
    const row = this.#pool.take();
    assert(row !== NO_LOCK, "a lock within the limit has a row");
    items.addState(item, STATE.LOCKED);
    items.setWord(item, WORD.NEWER, row);
    this.#words[this.#row(row) + LOCK.ITEM] = item;
    this.#assign(row, owner);
    return row;
  }

  /**
   * Releases a lock. The longest waiter gets it, if the item is still live.
   *
   * @returns The item, or NO_ITEM if it had expired or was flushed and is now removed.
   */
  release(row: LockRow): ItemRef {
    const item = this.itemOf(row);
    const { items, queues, slabs } = this.#links;
    assert(item !== NO_ITEM, "a lock is released once");
    this.#unassign(row);
    const isVoid = (items.state(item) & STATE.VOID) !== 0;
    const dead = this.#links.isExpired(item) || this.#links.isFlushed(item);
    const next = this.waiters.firstOwner(row);
    if (next !== 0 && (!dead || isVoid)) {
      const low = this.fenceLow(row);
      const high = this.fenceHigh(row);
      this.#assign(row, next);
      assert(
        compareU64(this.fenceLow(row), this.fenceHigh(row), low, high) > 0,
        "the next holder of a lock has a larger fencing number",
      );
      this.waiters.grantFirst(row, this.fenceLow(row), this.fenceHigh(row));
      return item;
    }
    this.#freeRow(row);
    items.dropState(item, STATE.LOCKED);
    queues.push(item, slabs.classOf(item));
    this.#links.lowerSoonestDeadline(item);
    if (!dead) return item;
    this.#eviction.reclaim(item);
    return NO_ITEM;
  }

  /** Releases all locks of a connection. Returns how many there were. */
  releaseAll(owner: number): number {
    const words = this.#words;
    let released = 0;
    let row = words[this.#owner(owner) + OWNER.FIRST]!;
    while (row !== NO_LOCK) {
      const next = words[this.#row(row) + LOCK.NEXT]!;
      if (words[this.#row(row) + LOCK.OWNER] === owner) {
        this.release(row);
        released++;
      }
      row = next;
    }
    const first = words[this.#owner(owner) + OWNER.FIRST]!;
    assert(first === NO_LOCK || this.ownerOf(first) !== owner, "a released owner holds no lock");
    return released;
  }

  /** Transfers the lock of `from` to `to`, an unlinked item that is about to replace it. */
  transfer(from: ItemRef, to: ItemRef): void {
    const { items } = this.#links;
    const row = this.rowOf(from);
    assert(this.itemOf(row) === from, "a lock goes over from the item that has it");
    items.addState(to, STATE.LOCKED);
    items.setWord(to, WORD.NEWER, row);
    this.#words[this.#row(row) + LOCK.ITEM] = to;
    this.#countUnits(row, -1);
    this.#words[this.#row(row) + LOCK.UNITS] = this.#unitsOf(to);
    this.#countUnits(row, 1);
  }

  /** Adds the row's item to what its owner has locked, by 1, or takes it away, by -1. */
  #countUnits(row: LockRow, by: 1 | -1): void {
    const words = this.#words;
    const at = this.#row(row);
    const units = by * words[at + LOCK.UNITS]!;
    words[this.#owner(words[at + LOCK.OWNER]!) + OWNER.UNITS]! += units;
    words[HEADER.UNITS]! += units;
    assert(words[HEADER.UNITS]! >= 0, "the size of an item is taken off as it was counted");
  }

  /** Drops the lock of an item that its holder is about to remove. */
  drop(item: ItemRef): void {
    const row = this.rowOf(item);
    this.#unassign(row);
    this.#freeRow(row);
  }

  // --- private -----------------------------------------------------------------------------------

  #owner(owner: number): number {
    return HEADER.WORDS + (owner & this.#ownerMask) * OWNER.WORDS;
  }

  #row(row: LockRow): number {
    return this.#rows + row * LOCK.WORDS;
  }

  /** Frees a row that has no owner, and fails its waiters. */
  #freeRow(row: LockRow): void {
    this.waiters.failWaiters(row);
    assert(this.waiters.countOf(row) === 0, "a lock that is freed has no waiters");
    const words = this.#words;
    const at = this.#row(row);
    words[at + LOCK.ITEM] = NO_ITEM;
    words[at + LOCK.OWNER] = 0;
    this.#pool.giveBack(row);
  }

  /** Makes a connection the owner of a row, with a new fencing number. */
  #assign(row: LockRow, owner: number): void {
    const words = this.#words;
    const at = this.#row(row);
    const place = this.#owner(owner);
    const next = words[place + OWNER.FIRST]!;
    takeId(this.#links.memory);
    const low = this.#control[CONTROL.ID_LOW]!;
    const high = this.#control[CONTROL.ID_HIGH]!;
    words[at + LOCK.OWNER] = owner;
    words[at + LOCK.FENCE_LOW] = low;
    words[at + LOCK.FENCE_HIGH] = high;
    words[at + LOCK.SINCE_SEC] = this.#control[CONTROL.NOW_SEC]!;
    words[at + LOCK.NEXT] = next;
    words[at + LOCK.PREVIOUS] = NO_LOCK;
    if (next !== NO_LOCK) words[this.#row(next) + LOCK.PREVIOUS] = row;
    words[place + OWNER.FIRST] = row;
    words[place + OWNER.COUNT]! += 1;
    words[HEADER.COUNT]! += 1;
    words[at + LOCK.UNITS] = this.#unitsOf(words[at + LOCK.ITEM]!);
    this.#countUnits(row, 1);
    this.#stats[STAT.lock_ok]! += 1;
  }

  /** Takes a row out of its owner's list. */
  #unassign(row: LockRow): void {
    const words = this.#words;
    const at = this.#row(row);
    const place = this.#owner(words[at + LOCK.OWNER]!);
    const next = words[at + LOCK.NEXT]!;
    const previous = words[at + LOCK.PREVIOUS]!;
    if (next !== NO_LOCK) words[this.#row(next) + LOCK.PREVIOUS] = previous;
    if (previous !== NO_LOCK) words[this.#row(previous) + LOCK.NEXT] = next;
    else words[place + OWNER.FIRST] = next;
    words[place + OWNER.COUNT]! -= 1;
    words[HEADER.COUNT]! -= 1;
    assert(
      (words[place + OWNER.COUNT] === 0) === (words[place + OWNER.FIRST] === NO_LOCK),
      "a connection counts the locks in its list",
    );
    this.#countUnits(row, -1);
  }
}
