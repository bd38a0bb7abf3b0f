import type { Allocator } from "./space/allocator.ts";
import { type ByteRegion, copyBytes, type KeyBytes } from "./base/bytes.ts";
import { isExtending, type Key, type Operation } from "./operation.ts";
import { ArithmeticOperations } from "./operations/arithmetic.ts";
import type { Eviction } from "./space/eviction.ts";
import type { Expiry } from "./space/expiry.ts";
import type { Lookup } from "./operations/lookup.ts";
import type { Flush } from "./space/flush.ts";
import type { WriteGuard } from "./claims/write_guard.ts";
import { type ItemRef, Items } from "./memory/item.ts";
import * as itemModule from "./memory/item.ts";
import type { Found } from "./items/found.ts";
import type { ItemLinks } from "./items/item_links.ts";
import { LockOperations } from "./operations/lock.ts";
import type { Locks } from "./claims/locks.ts";
import { OptimisticRead } from "./items/optimistic_read.ts";
import { LeaseOperations } from "./operations/lease.ts";
import type { Leases } from "./claims/leases.ts";
import * as leasesModule from "./claims/leases.ts";
import type { Prefetch } from "./items/prefetch.ts";
import * as hotKeysModule from "./memory/hot_keys.ts";
import type { Memory } from "./memory/memory.ts";
import * as memoryModule from "./memory/memory.ts";
import { MetaOperations } from "./operations/meta.ts";
import { Mutex } from "./memory/mutex.ts";
import { Outcome } from "./outcome.ts";
import type { PageMove, PageMover } from "./space/page_mover.ts";
import * as statsModule from "./stats.ts";
import { JournalOperations } from "./operations/journal.ts";
import { TokenOperations } from "./operations/token.ts";
import type { Values } from "./items/values.ts";
import type { WatchLog } from "./watch/watch_log.ts";
import { Inspector } from "./inspector.ts";
import { createParts } from "./operations/parts.ts";
import type { StoreParts } from "./operations/parts.ts";
import type { RowOperations } from "./operations/row.ts";
import type { RowParking } from "./operations/row_parking.ts";
import * as rowSessionModule from "./rows/row_session.ts";
import { SnapshotOperations } from "./snapshot/snapshot_operations.ts";
import { ReservedOperations } from "./operations/reserved.ts";
import { StoreOperations } from "./operations/store.ts";
import * as storeModule from "./operations/store.ts";

const { KeyUse } = hotKeysModule;
const { NO_ITEM, WORD } = itemModule;
const { NO_LEASE } = leasesModule;
const { CONTROL, SEGMENT_SHIFT } = memoryModule;
const { CLASS_STAT, STAT } = statsModule;
const { START_OVER } = storeModule;
const { LOCKED_ITEM } = rowSessionModule;

// The names of inner rooms that callers need.
export { type ItemRef, NO_ITEM } from "./memory/item.ts";
export type { Found, FoundWriter } from "./items/found.ts";
export { ATTEMPTS_MAX, ReadOutcome } from "./items/optimistic_read.ts";
export type { RowOperations } from "./operations/row.ts";
export type { RowParking } from "./operations/row_parking.ts";
export { LOCKED_ITEM, outcomeOf, type RowSession } from "./rows/row_session.ts";
export { CLASSES_MAX } from "./memory/memory.ts";
export { OWNER_TAG_LENGTH_MAX } from "./memory/token_record.ts";
export type { TokenView } from "./claims/token_view.ts";
export { type Waiters, WaiterState } from "./claims/waiters.ts";
export { MoveResult, type PageMove } from "./space/page_mover.ts";
export { type CloseReason, WatchEvent } from "./watch/watch_log.ts";

// Hot path: no allocation.

/**
 * The cache: the one door to the store. Every method wants the mutex held (`enter` … `leave`), but
 * `enter`, `applyHits`, `applyFullHits`, and those of `optimistic` and `prefetch`. A method is one
 * uninterrupted step, and returns an Outcome or an item reference that is good until the next call
 * that may store, evict or maintain. An operation that copies more than COPY_BYTES_MAX yields the
 * mutex between pieces, and takes effect at its end. Each thread has a Cache of its own over the
 * shared memory; it keeps nothing of its own but scratch space and delayed hits.
 */
export class Cache {
  readonly memory: Memory;
  /** For the rooms of the store, and their tests. */
  readonly items: Items;
  readonly links: ItemLinks;
  /** Locks and waiters, for reading; operations change them. */
  readonly locks: Locks;
  /** Called by `leave` for every thread with connections that `takeReady` returns. */
  onReady: (thread: number) => void = () => {};
  /** Stores whose values arrive in pieces. */
  readonly reserved: ReservedOperations;
  /** The log for watchers. */
  readonly watchLog: WatchLog;
  /** For statistics, dumps and lists. */
  readonly inspector: Inspector;
  /** Operations that only meta commands need. */
  readonly meta: MetaOperations;
  readonly #control: Int32Array;
  readonly #stats: Float64Array;
  readonly mutex: Mutex;
  readonly #eviction: Eviction;
  readonly #mover: PageMover;
  readonly #expiry: Expiry;
  readonly #flush: Flush;
  /** Locations of values. `values.locate` needs the mutex, except for pinned and reserved items. */
  readonly values: Values;
  readonly #allocator: Allocator;
  protected readonly storeOperations: StoreOperations;
  readonly #guard: WriteGuard;
  readonly #lookup: Lookup;
  protected readonly leaseOperations: LeaseOperations;
  readonly #arithmetic: ArithmeticOperations;
  protected readonly lockOperations: LockOperations;
  /** Update tokens and quarantine. */
  readonly tokens: TokenOperations;
  /** For the thread that writes their journal. */
  readonly journal: JournalOperations;
  /** Saves the whole store and restores it. */
  readonly snapshots: SnapshotOperations;
  /** The keys of the next requests, whose items are loaded before the requests are executed. */
  readonly prefetch: Prefetch;
  /** Reads that need no mutex. */
  readonly optimistic: OptimisticRead;
  /** Rows, for the thread that speaks to the database; null: no rows. See RowCache. */
  readonly rows: RowOperations | null = null;
  /** Rows, for the threads that serve connections; null as `rows`. */
  readonly parking: RowParking | null = null;
  protected readonly parts: StoreParts;
  readonly #casEnabled: boolean;
  readonly #yrmcdsLocks: boolean;

  constructor(memory: Memory) {
    this.memory = memory;
    this.#control = memory.control;
    this.#stats = memory.stats;
    this.mutex = new Mutex(memory);
    const parts = createParts(memory, () => this.yieldMutex());
    this.parts = parts;
    this.links = parts.links;
    this.items = this.links.items;
    this.prefetch = this.links.prefetch;
    this.optimistic = new OptimisticRead(this.links);
    this.values = parts.values;
    this.locks = parts.locks;
    this.#eviction = parts.eviction;
    this.#mover = parts.mover;
    this.#expiry = parts.expiry;
    this.#flush = parts.flush;
    this.#allocator = parts.allocator;
    this.#guard = parts.guard;
    this.#lookup = parts.lookup;
    this.storeOperations = new StoreOperations(parts);
    this.leaseOperations = new LeaseOperations(parts);
    this.lockOperations = new LockOperations(parts);
    this.#arithmetic = new ArithmeticOperations(parts, this.storeOperations);
    this.reserved = new ReservedOperations(parts, this.storeOperations, this.lockOperations);
    this.tokens = new TokenOperations(parts);
    this.journal = new JournalOperations(parts);
    this.snapshots = new SnapshotOperations(parts, this.storeOperations);
    this.meta = new MetaOperations(parts, this.leaseOperations, this.storeOperations);
    this.watchLog = this.links.watchLog;
    this.inspector = new Inspector(this.links, this.locks, this.leases, this.#guard.tokens);
    this.#casEnabled = memory.options.casEnabled;
    this.#yrmcdsLocks = memory.options.yrmcdsLocks;
  }

  /** Makes an empty store of new memory. Once, before any other thread has it. */
  static format(memory: Memory): Cache {
    const cache = new Cache(memory);
    cache.links.slabs.format();
    cache.links.index.format();
    cache.#eviction.format();
    return cache;
  }

  /** Takes the mutex; may wait for another thread's batch. */
  enter(): void {
    this.mutex.lock();
    if (this.links.hits.hasDelayed) this.links.hits.apply();
    const flushAtSec = this.#control[CONTROL.FLUSH_AT_SEC]!;
    if (flushAtSec !== 0 && flushAtSec <= this.#control[CONTROL.NOW_SEC]!) this.#flush.due();
  }

  /** Whether reads without the mutex have left hits to be noted. */
  get hasDelayedHits(): boolean {
    return this.links.hits.hasDelayed;
  }

  /** Takes the mutex for a moment if reads without it have left hits to be noted. */
  applyHits(): void {
    if (!this.links.hits.hasDelayed) return;
    this.enter();
    this.leave();
  }

  /** As `applyHits`, if there is no room for more hits. */
  applyFullHits(): void {
    if (this.links.hits.isFull) this.applyHits();
  }

  /**
   * Releases the mutex for a moment in the middle of something long. Item references become invalid, unless the item
   * is pinned or reserved.
   */
  yieldMutex(): void {
    this.leaveToOthers();
    this.enter();
  }

  /** As `leave`, for a thread that soon takes the mutex again: a thread that waits for it goes first. */
  leaveToOthers(): void {
    const { isAwaited } = this.mutex;
    this.leave();
    if (isAwaited) this.mutex.letOthersTake();
  }

  leave(): void {
    this.mutex.unlock();
    const { wakes } = this.memory;
    if (wakes.isAny) wakes.wakeAll(this.onReady);
    const { queue } = this.journal;
    if (queue.hasToWake) queue.wake();
  }

  /** Returns the next connection of a thread whose wait is over, or that watches and has lines to send; 0: none. */
  takeReady(thread: number): number {
    return this.locks.waiters.takeReady(thread) || this.tokens.waiters.takeReady(thread) ||
      this.watchLog.takeReady(thread);
  }

  // --- reading -----------------------------------------------------------------------------------

  /**
   * The live item with the operation's key, noted as read and counted as a get; NO_ITEM on a miss; for a row that the
   * cache lacks, PARKED_ITEM or FAILED_ITEM.
   */
  get(operation: Operation): ItemRef {
    const item = this.#lookup.forRead(operation);
    if (item === NO_ITEM) return this.miss(operation);
    this.#stats[STAT.cmd_get]! += 1;
    this.memory.hotKeys.note(operation, KeyUse.HIT);
    this.memory.countClass(this.links.slabs.classOf(item), CLASS_STAT.get_hits);
    this.links.hits.note(item);
    return item;
  }

  /** Ends a `get` that has found no item. */
  protected miss(operation: Operation): ItemRef {
    this.meta.noteMiss(operation);
    return NO_ITEM;
  }

  /** As `get`, but nothing is counted or noted yet: see `meta.noteHit` and `meta.noteMiss`. */
  find(operation: Operation): ItemRef {
    return this.meta.find(operation);
  }

  /** Whether there is a database behind the key. */
  isRow(_key: KeyBytes): boolean {
    return false;
  }

  /**
   * As `get`, but counted as a touch, and the item lives until `operation.deadlineSec` from now on.
   *
   * @returns LOCKED_ITEM when another connection holds the item's lock: nothing has changed.
   */
  getAndTouch(operation: Operation): ItemRef {
    this.#stats[STAT.cmd_touch]! += 1;
    const item = this.#lookup.forRead(operation);
    if (item === NO_ITEM) {
      this.#stats[STAT.touch_misses]! += 1;
      this.memory.hotKeys.note(operation, KeyUse.MISS);
      return NO_ITEM;
    }
    if (!this.#yrmcdsLocks && this.#guard.isLockedByOther(item, operation.owner)) {
      return LOCKED_ITEM;
    }
    this.memory.hotKeys.note(operation, KeyUse.HIT);
    this.memory.countClass(this.links.slabs.classOf(item), CLASS_STAT.touch_hits);
    this.links.hits.note(item);
    this.links.setDeadline(item, this.#guard.capFor(operation, operation.deadlineSec));
    return item;
  }

  /** The live item with this key; nothing is counted or noted. */
  peek(key: Key): ItemRef {
    return this.#lookup.live(key);
  }

  /** Returns what a reply tells of a live item, good until the next read. */
  describe(item: ItemRef): Found {
    const { found } = this.optimistic;
    found.describe(item);
    return found;
  }

  keyLength(item: ItemRef): number {
    return this.items.keyLength(item);
  }

  valueLength(item: ItemRef): number {
    return this.items.valueLength(item);
  }

  /** The client's flags as an unsigned 32-bit number. */
  clientFlags(item: ItemRef): number {
    return this.items.clientFlags(item) >>> 0;
  }

  /** Lower half of the cas id; 0 under `-C`. */
  idLow(item: ItemRef): number {
    return this.#casEnabled ? this.items.idLow(item) : 0;
  }

  idHigh(item: ItemRef): number {
    return this.#casEnabled ? this.items.idHigh(item) : 0;
  }

  /** When the item dies, in seconds of the store's clock; 0: never. */
  deadlineSec(item: ItemRef): number {
    return this.items.word(item, WORD.DEADLINE_SEC);
  }

  /** Copies the value's bytes [at, at + length). */
  copyValue(item: ItemRef, at: number, length: number, to: ByteRegion, toOffset: number): void {
    this.values.read(item, at, length, to, toOffset);
  }

  copyKey(item: ItemRef, to: ByteRegion, toOffset: number): void {
    const from = this.memory.segments[item >>> SEGMENT_SHIFT]!;
    copyBytes(to, toOffset, from, this.items.keyOffset(item), this.items.keyLength(item));
  }

  /**
   * Keeps a value's bytes while they are sent piece by piece, although the item may be replaced or
   * deleted. False for short values, which cannot be pinned: they are copied whole.
   */
  pin(item: ItemRef): boolean {
    return this.values.pin(item);
  }

  unpin(item: ItemRef): void {
    this.values.unpin(item);
  }

  // --- leases ------------------------------------------------------------------------------------

  /** The lease table. */
  get leases(): Leases {
    return this.#guard.leases;
  }

  /** getss, lease-get: the value, or the right to fill it. See `LeaseOperations.get`. */
  getOrLease(operation: Operation): Outcome {
    return this.leaseOperations.get(operation, this.get(operation));
  }

  /** Gives the right to fill a key that has no live item. See `LeaseOperations.get`. */
  lease(operation: Operation): Outcome {
    this.links.prefetch.addHash(operation);
    return this.leaseOperations.get(operation, NO_ITEM);
  }

  /** deletess: removes whatever there is and gives the key to the asker. See `LeaseOperations.take`. */
  removeAndLease(operation: Operation): Outcome {
    return this.leaseOperations.take(operation);
  }

  /**
   * Returns whether a key without a live item is held. Then `operation.idLow/High` and `remainSec` describe the lease.
   */
  findLease(operation: Operation): boolean {
    return this.leaseOperations.find(operation);
  }

  // --- storing -----------------------------------------------------------------------------------

  /**
   * Stores the value in `operation` by its mode. With `operation.unlock`, ends the item's lock with it.
   *
   * @returns STORED, NOT_STORED, EXISTS, NOT_FOUND, LOCKED, NOT_LOCKED, TOO_LARGE or NO_MEMORY.
   */
  store(operation: Operation): Outcome {
    this.noteWrite(operation);
    const outcome = this.#store(operation);
    if (this.links.watch.isOn) this.links.watch.storedFrom(operation, outcome);
    if (operation.unlock && outcome === Outcome.STORED) {
      this.lockOperations.unlockStored(operation);
    }
    return outcome;
  }

  #store(operation: Operation): Outcome {
    operation.item = NO_ITEM;
    const { keyLength } = operation;
    if (!this.storeOperations.fits(keyLength, operation.valueLength, operation.clientFlags)) {
      this.reserved.storeRefused(operation, Outcome.TOO_LARGE);
      return Outcome.TOO_LARGE;
    }
    this.links.prefetch.addHash(operation);
    const old = this.#lookup.forStore(operation);
    const refusal = this.#guard.admit(operation, old);
    if (refusal !== Outcome.OK) {
      this.storeOperations.countRefused(operation);
      return refusal;
    }
    if (old !== NO_ITEM) {
      if (isExtending(operation)) {
        const outcome = this.storeOperations.extend(operation, old, NO_ITEM);
        return outcome === START_OVER ? this.#store(operation) : outcome;
      }
      if (this.storeOperations.overwrite(operation, old)) {
        this.#guard.settle(operation);
        return Outcome.STORED;
      }
    }
    const item = this.#allocator.allocateItem(operation);
    if (item === NO_ITEM) return this.reserved.storeRefused(operation, Outcome.NO_MEMORY);
    this.values.write(item, 0, operation.input, operation.valueOffset, operation.valueLength);
    this.storeOperations.countStore(operation, item);
    this.storeOperations.replace(operation, item);
    this.#guard.settle(operation);
    return Outcome.STORED;
  }

  /** Samples the key of a write. */
  protected noteWrite(operation: Operation): void {
    this.memory.hotKeys.note(operation, KeyUse.WRITE);
  }

  /**
   * Makes sure that `operation.reserved` may be committed now: see `RowParking.awaitRoom`.
   *
   * @returns OK, PARKED, NO_MEMORY or TOO_MANY_REQUESTS.
   */
  awaitRoom(_operation: Operation): Outcome {
    return Outcome.OK;
  }

  /** As `store`, with the value of `operation.reserved`: see `ReservedOperations.commit`. */
  commit(operation: Operation): Outcome {
    return this.reserved.commit(operation);
  }

  /** Refuses a store whose value is not followed by its end marker. It counts as a set. */
  refuseBadChunk(operation: Operation): Outcome {
    this.storeOperations.countRefused(operation);
    return Outcome.BAD_CHUNK;
  }

  // --- other writes ------------------------------------------------------------------------------

  /** Deletes. @returns DELETED, NOT_FOUND, EXISTS (another cas id) or LOCKED. */
  remove(operation: Operation): Outcome {
    this.noteWrite(operation);
    this.links.prefetch.addHash(operation);
    const item = this.#lookup.live(operation);
    const lease = this.leases.find(operation);
    if (item === NO_ITEM) return this.leaseOperations.remove(operation, lease);
    if (this.#guard.isLockedByOther(item, operation.owner)) return Outcome.LOCKED;
    if (operation.compare && !this.#guard.hasId(item, operation)) return Outcome.EXISTS;
    this.links.countDeleted(item, operation.deletedBy);
    this.#lookup.unlink(item, operation.hash);
    if (lease !== NO_LEASE) this.leases.drop(lease, operation.hash);
    return Outcome.DELETED;
  }

  /** Sets the deadline. @returns TOUCHED, NOT_FOUND or LOCKED. */
  touch(operation: Operation): Outcome {
    this.noteWrite(operation);
    this.#stats[STAT.cmd_touch]! += 1;
    this.links.prefetch.addHash(operation);
    const item = this.#lookup.forRead(operation);
    if (item === NO_ITEM) {
      this.#stats[STAT.touch_misses]! += 1;
      return Outcome.NOT_FOUND;
    }
    if (!this.#yrmcdsLocks && this.#guard.isLockedByOther(item, operation.owner)) {
      return Outcome.LOCKED;
    }
    this.memory.countClass(this.links.slabs.classOf(item), CLASS_STAT.touch_hits);
    this.links.hits.note(item);
    this.links.setDeadline(item, this.#guard.capFor(operation, operation.deadlineSec));
    operation.item = item;
    return Outcome.TOUCHED;
  }

  /**
   * Increments or decrements a stored number by `operation.deltaLow/High`. The new number is in
   * `operation.resultLow/High`.
   *
   * @returns OK, STORED (`operation.vivify`: it was made), NOT_STORED, NOT_FOUND, EXISTS, NOT_NUMERIC,
   *   NO_MEMORY or LOCKED.
   */
  incrDecr(operation: Operation, increment: boolean): Outcome {
    this.noteWrite(operation);
    this.links.prefetch.addHash(operation);
    const item = this.#lookup.live(operation);
    operation.item = item;
    return item === NO_ITEM
      ? this.#arithmetic.incrDecrMissing(operation, increment)
      : this.#arithmetic.incrDecr(item, operation, increment);
  }

  // --- locks -------------------------------------------------------------------------------------

  /**
   * Lets only `operation.owner` change the key until it unlocks it or its connection ends.
   *
   * @returns OK (the fencing number is in `operation.resultLow/High`), NOT_FOUND, LOCKED (another connection holds it),
   *   WAITING (as LOCKED, but the connection waits for it: see `operation.waiter`) or TOO_MANY_LOCKS.
   */
  lock(operation: Operation): Outcome {
    return this.lockOperations.lock(operation);
  }

  /**
   * Locks the key and reads it as `get` does; with `touch` it lives until `operation.deadlineSec` from now on.
   *
   * @returns As `lock`; after OK the item is `operation.item`.
   */
  lockAndGet(operation: Operation, touch: boolean): Outcome {
    return this.lockOperations.lockAndGet(operation, touch);
  }

  /** @returns OK, NOT_FOUND, or NOT_LOCKED (no connection, or another one, holds it). */
  unlock(operation: Operation): Outcome {
    return this.lockOperations.unlock(operation);
  }

  /** Unlocks everything that a connection holds. */
  unlockAll(owner: number): void {
    this.locks.releaseAll(owner);
  }

  /** Releases what a connection holds: it has ended. */
  releaseOwner(owner: number): void {
    this.#stats[STAT.lock_freed_by_close]! += this.locks.releaseAll(owner);
  }

  /**
   * Hides all items stored so far. A locked item stays until it is unlocked.
   *
   * @param atSec 0: now; else the second of the store's clock at which to do it, for all that is stored up to its end.
   */
  flushAll(atSec: number): void {
    this.#stats[STAT.cmd_flush]! += 1;
    if (atSec === 0) this.#flush.now();
    else this.#flush.at(atSec);
  }

  /** Counts a flush that is refused, or that has nothing to hide. */
  countRefusedFlush(): void {
    this.#stats[STAT.cmd_flush]! += 1;
  }

  /**
   * `slabs reassign`: begins to take a page from a class (-1: any, 0: the pool of free pages) and to give it to another
   * (0: to the pool). While its result is MOVING, `continueMove` continues it.
   */
  movePage(source: number, target: number): PageMove {
    return this.#mover.move(source, target);
  }

  /** One step of a page move. @returns About how many chunks could have been copied instead. */
  continueMove(move: PageMove): number {
    return this.#mover.step(move);
  }

  /** `cache_memlimit`: see `Slabs.setLimit`. Pages in use stay until maintenance gives them back. */
  setMemoryLimit(bytes: number): boolean {
    return this.links.slabs.setLimit(bytes);
  }

  /**
   * One slice of maintenance, at most about 200 microseconds.
   *
   * @returns Whether more is due now.
   */
  maintain(): boolean {
    this.tokens.endQuarantine();
    const waitersAreDue = this.locks.waiters.sweepSlice();
    const leasesAreDue = this.leases.sweepSlice();
    return this.#mover.slice() || this.#expiry.sweepSlice() || leasesAreDue || waitersAreDue;
  }
}

/** The cache, as the requests of a batch see it: they leave the mutex to the batch. */
export type HeldCache = Omit<
  Cache,
  "applyFullHits" | "applyHits" | "enter" | "leave" | "mutex" | "yieldMutex"
>;
