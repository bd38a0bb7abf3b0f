import { assert } from "../base/assert.ts";
import { ByteRegion } from "../base/bytes.ts";
import { hashKey } from "../base/hash.ts";
import { takeId } from "../memory/ids.ts";
import { KEY_LENGTH_MAX } from "../limits.ts";
import type { Memory } from "../memory/memory.ts";
import type { Key } from "../operation.ts";
import * as memoryModule from "../memory/memory.ts";
import { NO_SLOT, slotsFor, SlotTable } from "../memory/slot_table.ts";
import * as statsModule from "../stats.ts";

const { CONTROL } = memoryModule;
const { STAT } = statsModule;

// Hot path: no allocation.

/**
 * Leases: the right to fill a missing key, and the *dirty* mark of a key that was stored without a lease.
 *
 *   state   who brings it about               who may do what                     when it ends
 *   none    –                                 anyone may store                    –
 *   held    the first getss or lease-get      the holder of the id fills (cas,    at its deadline; when filled;
 *           that misses; deletess; renewed,   lease-set, ms C) or gives back      when the table is full and it is
 *           with a new id and the same        (md C); others are told to wait;    the oldest; by delete, deletess,
 *           deadline, by delete and by        a plain set or add stores, cut to   flush_all; at a restart
 *           updates that fail on it           the deadline, and makes the key
 *                                             dirty
 *   dirty   a plain set or add on a held key  anyone may store, touch and read;   at the deadline the lease had; by
 *                                             nothing outlives the deadline the   delete, flush_all, a fill under a
 *                                             lease had                           later lease
 *
 * A dirty key may be held at the same time, when its value is gone and a client asked for a lease.
 * No key has a live value and is held. No read but getss, lease-get, mg with N and the listings
 * sees any of this. A lease refuses stores by its id, which is never handed out again;
 * deadlines only decide how long others wait.
 *
 * The table has a size of its own, taken out of the memory limit when the store is made. When it is
 * full the oldest record goes: dropping one is always safe, its holder's fill is refused. No value
 * is ever evicted for a lease, and a scan of absent keys cannot take memory from values. Its size is
 * fixed, because a full cache would have no page to give when leases are needed most. By default it
 * has 1/64 of the memory: about 0.1 points of the hit ratio (`bench store`), 14,000 leases in 64 MB.
 *
 * A record of the table (see slot_table.ts) has the key as its bytes, and these words:
 *
 *   word 3  deadline of the lease, whole seconds of the store's clock (its milliseconds are in STATE)
 *   word 4  id, lower half; 5  upper half
 *   word 6  dirty until this second; 0: not dirty
 *   word 7  STATE: key length (8 bits), HELD, FOR_READ, milliseconds of the deadline from bit 16 on
 */
export type LeaseRef = number & { readonly unit?: "record of the lease table" };

/** No record. */
export const NO_LEASE: LeaseRef = NO_SLOT;

const WORD = {
  DEADLINE_SEC: 3,
  ID_LOW: 4,
  ID_HIGH: 5,
  DIRTY_UNTIL_SEC: 6,
  STATE: 7,
} as const;

const KEY_LENGTH_MASK = 0xff;
const HELD = 1 << 8;
/** The lease of a read of a row, which clients do not see. */
const FOR_READ = 1 << 9;
const MILLI_SHIFT = 16;

/** Records looked at in one slice of maintenance: some 50 microseconds. */
const SLICE_LOOKS = 5_000;
/** Looks charged for a record that is changed or removed. */
const CHANGED_LOOKS = 20;

/** One thread's view of the lease table. */
export class Leases {
  readonly #memory: Memory;
  readonly #control: Int32Array;
  readonly #stats: Float64Array;
  readonly #table: SlotTable;
  readonly #key = new ByteRegion(new ArrayBuffer(KEY_LENGTH_MAX));

  constructor(memory: Memory) {
    this.#memory = memory;
    this.#control = memory.control;
    this.#stats = memory.stats;
    this.#table = new SlotTable(memory.shared.leases, memory.options.leaseEntries);
  }

  /** Returns the number of records, including some that are over and not swept yet. */
  get count(): number {
    return this.#table.count;
  }

  /** Returns the key's record if it is held or dirty, else NO_LEASE. Costs one comparison while the table is empty. */
  find(key: Key): LeaseRef {
    const table = this.#table;
    if (table.count === 0) return NO_LEASE;
    const { hash } = key;
    let lease = table.head(table.bucketOf(hash));
    while (lease !== NO_LEASE) {
      if (this.#hasKey(lease, key)) {
        return this.#refresh(lease, hash) ? lease : NO_LEASE;
      }
      lease = table.next(lease);
    }
    return NO_LEASE;
  }

  isHeld(lease: LeaseRef): boolean {
    return (this.#word(lease, WORD.STATE) & HELD) !== 0;
  }

  /** Whether a client holds the lease, not a read of a row. */
  isHeldByClient(lease: LeaseRef): boolean {
    return (this.#word(lease, WORD.STATE) & (HELD | FOR_READ)) === HELD;
  }

  idLow(lease: LeaseRef): number {
    return this.#word(lease, WORD.ID_LOW);
  }

  idHigh(lease: LeaseRef): number {
    return this.#word(lease, WORD.ID_HIGH);
  }

  hasId(lease: LeaseRef, low: number, high: number): boolean {
    return this.#word(lease, WORD.ID_LOW) === low && this.#word(lease, WORD.ID_HIGH) === high;
  }

  /** Returns the time left of a held lease, in seconds rounded up, at least 1. */
  remainSec(lease: LeaseRef): number {
    const milli = this.#word(lease, WORD.STATE) >>> MILLI_SHIFT;
    const whole = this.#word(lease, WORD.DEADLINE_SEC) - this.#control[CONTROL.NOW_SEC]!;
    return Math.max(1, milli > this.#control[CONTROL.NOW_MILLI]! ? whole + 1 : whole);
  }

  /** Returns the deadline of a plain write: the earlier of its own (0: never) and the record's. */
  capDeadline(lease: LeaseRef, deadlineSec: number): number {
    const until = this.isHeld(lease)
      ? this.#word(lease, WORD.DEADLINE_SEC)
      : this.#word(lease, WORD.DIRTY_UNTIL_SEC);
    return deadlineSec === 0 || deadlineSec > until ? until : deadlineSec;
  }

  /**
   * Makes the key held, with a fresh id.
   *
   * @param lease The result of `find` for the key.
   * @param deadlineSec In seconds of the store's clock; the milliseconds are those of now.
   * @param isForRead Whether a read of a row holds it.
   * @returns NO_LEASE if the table is too small for the key.
   */
  grant(lease: LeaseRef, key: Key, deadlineSec: number, isForRead = false): LeaseRef {
    let made = lease;
    if (made === NO_LEASE) {
      const { input, keyOffset, keyLength, hash } = key;
      made = this.#allocate(keyLength);
      if (made === NO_LEASE) return NO_LEASE;
      this.#setWord(made, WORD.DIRTY_UNTIL_SEC, 0);
      this.#setWord(made, WORD.STATE, keyLength);
      this.#table.write(made, keyLength, 0, keyLength, input, keyOffset);
      this.#table.insert(made, hash);
    }
    const state = this.#word(made, WORD.STATE);
    assert((state & KEY_LENGTH_MASK) === key.keyLength, "a lease that is granted is of its key");
    if ((state & HELD) === 0) this.#control[CONTROL.LEASE_CURR]! += 1;
    const milli = this.#control[CONTROL.NOW_MILLI]! << MILLI_SHIFT;
    const held = isForRead ? HELD | FOR_READ : HELD;
    this.#setWord(made, WORD.STATE, (state & KEY_LENGTH_MASK) | held | milli);
    this.#setWord(made, WORD.DEADLINE_SEC, deadlineSec);
    this.#assignId(made);
    return made;
  }

  /** Gives a held lease a new id, so that the holder of the old id cannot fill any more. Keeps the deadline. */
  renew(lease: LeaseRef): void {
    assert(this.isHeld(lease), "a lease that is renewed is held");
    this.#assignId(lease);
  }

  /** After a plain write: ends the lease, and marks the key dirty until the lease's deadline. */
  makeDirty(lease: LeaseRef): void {
    if (!this.isHeld(lease)) return;
    const until = this.#word(lease, WORD.DEADLINE_SEC);
    if (until > this.#word(lease, WORD.DIRTY_UNTIL_SEC)) {
      this.#setWord(lease, WORD.DIRTY_UNTIL_SEC, until);
    }
    this.#endHold(lease);
  }

  /** Releases a lease for its holder. The key stays dirty if it was dirty before. */
  release(lease: LeaseRef, hash: number): void {
    this.#endHold(lease);
    this.#refresh(lease, hash);
  }

  /** Removes the key's record: the key was filled under its lease, or its dirty value was deleted. */
  drop(lease: LeaseRef, hash: number): void {
    this.#remove(lease, hash);
  }

  /** Removes records that are over. Returns whether the slice ended before the newest record. */
  sweepSlice(): boolean {
    const control = this.#control;
    if (this.#table.count === 0) return false;
    let lease = control[CONTROL.LEASE_SWEEP]!;
    if (lease === NO_LEASE) lease = this.#table.oldest;
    for (let looks = 0; lease !== NO_LEASE && looks < SLICE_LOOKS; looks++) {
      const newer = this.#table.newer(lease);
      if (!this.#isCurrent(lease)) {
        this.#refresh(lease, this.#hashOf(lease));
        looks += CHANGED_LOOKS;
      }
      lease = newer;
    }
    control[CONTROL.LEASE_SWEEP] = lease;
    return lease !== NO_LEASE;
  }

  // --- for listings and checks ---------------------------------------------------------------------

  /** The records, by bucket. */
  get table(): SlotTable {
    return this.#table;
  }

  /** Whether the record is held now, considering its deadline and flushes. */
  isHeldNow(lease: LeaseRef): boolean {
    return this.isHeld(lease) && !this.#isFlushed(lease) && !this.#leaseIsOver(lease);
  }

  keyLength(lease: LeaseRef): number {
    return this.#word(lease, WORD.STATE) & KEY_LENGTH_MASK;
  }

  dirtyUntilSec(lease: LeaseRef): number {
    return this.#word(lease, WORD.DIRTY_UNTIL_SEC);
  }

  copyKey(lease: LeaseRef, to: ByteRegion, toOffset: number): void {
    const length = this.keyLength(lease);
    this.#table.read(lease, length, 0, length, to, toOffset);
  }

  // --- private -----------------------------------------------------------------------------------

  #word(lease: LeaseRef, word: number): number {
    return this.#table.word(lease, word);
  }

  #setWord(lease: LeaseRef, word: number, value: number): void {
    this.#table.setWord(lease, word, value);
  }

  #assignId(lease: LeaseRef): void {
    takeId(this.#memory);
    this.#setWord(lease, WORD.ID_LOW, this.#control[CONTROL.ID_LOW]!);
    this.#setWord(lease, WORD.ID_HIGH, this.#control[CONTROL.ID_HIGH]!);
    this.#stats[STAT.lease_cnt]! += 1;
  }

  #leaseIsOver(lease: LeaseRef): boolean {
    const whole = this.#word(lease, WORD.DEADLINE_SEC) - this.#control[CONTROL.NOW_SEC]!;
    if (whole !== 0) return whole < 0;
    return this.#word(lease, WORD.STATE) >>> MILLI_SHIFT <= this.#control[CONTROL.NOW_MILLI]!;
  }

  /** Whether flush_all came after the record: its id was handed out before the flush. */
  #isFlushed(lease: LeaseRef): boolean {
    const flushHigh = this.#control[CONTROL.FLUSH_HIGH]!;
    const high = this.#word(lease, WORD.ID_HIGH);
    if (high !== flushHigh) return high < flushHigh;
    return this.#word(lease, WORD.ID_LOW) >>> 0 < this.#control[CONTROL.FLUSH_LOW]! >>> 0;
  }

  #isDirty(lease: LeaseRef): boolean {
    return this.#word(lease, WORD.DIRTY_UNTIL_SEC) > this.#control[CONTROL.NOW_SEC]!;
  }

  #isCurrent(lease: LeaseRef): boolean {
    return !this.#isFlushed(lease) &&
      (this.isHeld(lease) ? !this.#leaseIsOver(lease) : this.#isDirty(lease));
  }

  /** Applies deadlines and flushes to a record. Returns whether it still exists. */
  #refresh(lease: LeaseRef, hash: number): boolean {
    if (this.#isFlushed(lease)) {
      this.#remove(lease, hash);
      return false;
    }
    if (this.isHeld(lease)) {
      if (!this.#leaseIsOver(lease)) return true;
      this.#stats[STAT.lease_expired]! += 1;
      this.#endHold(lease);
    }
    if (this.#isDirty(lease)) return true;
    this.#remove(lease, hash);
    return false;
  }

  #endHold(lease: LeaseRef): void {
    assert(this.#control[CONTROL.LEASE_CURR]! > 0, "LEASE_CURR counts every lease that is held");
    this.#setWord(lease, WORD.STATE, this.#word(lease, WORD.STATE) & KEY_LENGTH_MASK);
    this.#control[CONTROL.LEASE_CURR]! -= 1;
  }

  #hasKey(lease: LeaseRef, { input, keyOffset, keyLength }: Key): boolean {
    return this.keyLength(lease) === keyLength &&
      this.#table.equals(lease, keyLength, 0, keyLength, input, keyOffset);
  }

  #hashOf(lease: LeaseRef): number {
    this.copyKey(lease, this.#key, 0);
    return hashKey(this.#key, 0, this.keyLength(lease), this.#memory.options.hashSeed);
  }

  /** Allocates a record. Drops the oldest ones if the table is full. */
  #allocate(keyLength: number): LeaseRef {
    if (slotsFor(keyLength) > this.#table.slots) return NO_LEASE;
    for (;;) {
      const lease = this.#table.allocate(keyLength);
      if (lease !== NO_LEASE) return lease;
      this.#dropOldest();
    }
  }

  #dropOldest(): void {
    const { oldest } = this.#table;
    assert(oldest !== NO_LEASE, "a table of leases without room has a record to drop");
    if (this.#isCurrent(oldest)) this.#stats[STAT.lease_dropped]! += 1;
    this.#remove(oldest, this.#hashOf(oldest));
  }

  #remove(lease: LeaseRef, hash: number): void {
    if (this.isHeld(lease)) this.#endHold(lease);
    const control = this.#control;
    if (control[CONTROL.LEASE_SWEEP] === lease) {
      control[CONTROL.LEASE_SWEEP] = this.#table.newer(lease);
    }
    this.#table.remove(lease, hash, this.keyLength(lease));
  }
}
