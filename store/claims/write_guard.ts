import { assert } from "../base/assert.ts";
import { latin1Text } from "../base/bytes.ts";
import { Prefixes } from "../base/prefixes.ts";
import { isExtending, type Key, namesNoId, type Operation, StoreMode } from "../operation.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import { type LeaseRef, Leases } from "./leases.ts";
import { viewToken } from "./token_view.ts";
import { UpdateTokens } from "./update_tokens.ts";
import * as updateTokensModule from "./update_tokens.ts";
import * as leasesModule from "./leases.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Locks } from "./locks.ts";
import * as memoryModule from "../memory/memory.ts";
import { Outcome } from "../outcome.ts";
import * as statsModule from "../stats.ts";
import { compareU64 } from "../base/u64.ts";

const { NO_ITEM, STATE, WORD } = itemModule;
const { NO_LEASE } = leasesModule;
const { NO_TOKEN } = updateTokensModule;
const { CONTROL } = memoryModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

/** Whether a storing operation asks for an id. */
export function isConditional(operation: Operation): boolean {
  return operation.mode === StoreMode.CAS || operation.mode === StoreMode.FILL || operation.compare;
}

/**
 * Decides who may change a key. Every changing operation asks here, in the same order, so that the
 * protocols cannot disagree: update token, then lock, then what is there (value, stub, lease, nothing), then the id.
 * Between `admit` and `settle` it keeps what the operation does to the key's lease.
 */
export class WriteGuard {
  readonly leases: Leases;
  readonly tokens: UpdateTokens;
  readonly #links: ItemLinks;
  readonly #locks: Locks;
  readonly #stats: Float64Array;
  readonly #strict: Prefixes;
  readonly #isStrict: boolean;
  readonly #casEnabled: boolean;
  readonly #leaseFlag: number;
  readonly #leaseMask: number;
  /** The key's record in the lease table, for the operation in progress. */
  #lease: LeaseRef = NO_LEASE;
  /** Whether the operation in progress stores under the id of a lease or of a stub. */
  #usesLeaseId = false;

  constructor(links: ItemLinks, locks: Locks) {
    const { options } = links.memory;
    this.#links = links;
    this.#locks = locks;
    this.#stats = links.memory.stats;
    this.leases = new Leases(links.memory);
    this.tokens = new UpdateTokens(links.memory);
    this.#strict = new Prefixes(options.strictPrefixes);
    this.#isStrict = options.strictPrefixes.length > 0;
    this.#casEnabled = options.casEnabled;
    this.#leaseMask = options.leaseMask;
    // Under mask 0 nothing equals 1.
    this.#leaseFlag = options.leaseMask === 0 ? 1 : options.leaseFlag & options.leaseMask;
  }

  /** Whether another connection holds the item's lock. Counts it if so. */
  isLockedByOther(item: ItemRef, owner: number): boolean {
    if ((this.#links.items.state(item) & STATE.LOCKED) === 0) return false;
    if (this.#locks.isLockedBy(item, owner)) return false;
    this.#stats[STAT.lock_busy]! += 1;
    return true;
  }

  hasId(item: ItemRef, operation: Operation): boolean {
    const { items } = this.#links;
    return this.#casEnabled && items.idLow(item) === operation.compareLow &&
      items.idHigh(item) === operation.compareHigh;
  }

  /** Whether a locked item may become as large as the operation makes it. */
  #mayGrow(operation: Operation, old: ItemRef): boolean {
    const { items } = this.#links;
    if ((items.state(old) & STATE.LOCKED) === 0) return true;
    const before = isExtending(operation) ? 0 : items.valueLength(old);
    const growth = operation.valueLength - before;
    return growth <= 0 || this.#locks.mayGrow(old, growth);
  }

  /**
   * Returns OK if a storing operation may proceed, else the reason. May give `operation` an earlier
   * deadline, and marks.
   *
   * @param old The live item with the key, or NO_ITEM.
   */
  admit(operation: Operation, old: ItemRef): Outcome {
    this.#usesLeaseId = false;
    operation.isRefused = false;
    if (this.refuses(operation)) {
      this.#lease = NO_LEASE;
      operation.isRefused = true;
      return this.#refusalUnderToken(operation);
    }
    this.#lease = this.leases.find(operation);
    if (old !== NO_ITEM) {
      if (operation.unlock) {
        if (!this.#locks.isLockedBy(old, operation.owner)) return Outcome.NOT_LOCKED;
      } else if (this.isLockedByOther(old, operation.owner)) return Outcome.LOCKED;
      if (!this.#mayGrow(operation, old)) return Outcome.NO_MEMORY;
    }
    const outcome = old !== NO_ITEM
      ? this.#admitOnItem(operation, old)
      : this.#lease !== NO_LEASE && this.leases.isHeld(this.#lease)
      ? this.#admitOnLease(operation)
      : this.#admitOnNothing(operation);
    if (outcome !== Outcome.OK || this.#usesLeaseId) return outcome;
    if (this.#isStrict && this.#isRefusedAsStrict(operation, old)) {
      this.#stats[STAT.strict_refused]! += 1;
      operation.isRefused = true;
      return Outcome.NOT_STORED;
    }
    // append and prepend keep the value's deadline.
    if (old === NO_ITEM || !isExtending(operation)) {
      operation.deadlineSec = this.#capDeadline(operation.deadlineSec);
    }
    return Outcome.OK;
  }

  /**
   * Whether an update token is out on the key, or all keys are in quarantine, so that a store must be refused. Counts
   * the refusal.
   */
  refuses(key: Key): boolean {
    if (!this.tokens.isUncacheable(key)) return false;
    this.#stats[STAT.token_refused]! += 1;
    if (this.#links.watch.isOn) this.#reportRefused(key);
    return true;
  }

  /** Completes a store that was admitted: updates the key's lease. */
  settle(operation: Operation): void {
    if ((operation.clientFlags & this.#leaseMask) === this.#leaseFlag) {
      this.#stats[STAT.lease_flag_clash]! += 1;
    }
    const lease = this.#lease;
    if (lease === NO_LEASE) return;
    if (this.#usesLeaseId) {
      this.leases.drop(lease, operation.hash);
    } else if (this.leases.isHeld(lease)) {
      this.leases.makeDirty(lease);
      this.#stats[STAT.lease_set]! += 1;
      const { memory, slabs } = this.#links;
      memory.countClass(slabs.classOf(operation.item), CLASS_STAT.lease_set);
    }
    const left = this.leases.find(operation);
    assert(left === NO_LEASE || !this.leases.isHeld(left), "no key has a live value and is held");
  }

  /** Returns the deadline that a touch may give a live item: an earlier one than asked for while the key is dirty. */
  capFor(key: Key, deadlineSec: number): number {
    if (this.leases.count === 0) return deadlineSec;
    this.#lease = this.leases.find(key);
    return this.#capDeadline(deadlineSec);
  }

  /**
   * Renews a lease after an update that failed on it. The update may follow one of the database, so
   * the holder's id must not fill any more.
   */
  renew(lease: LeaseRef): void {
    this.#stats[STAT.lease_rewrite]! += 1;
    this.leases.renew(lease);
  }

  /** Reports a refused store to watchers, with the first token on the key. */
  #reportRefused(key: Key): void {
    const { watchLog } = this.#links;
    const token = this.tokens.first(key);
    if (token === NO_TOKEN) {
      const text = latin1Text(key.input.bytes, key.keyOffset, key.keyLength);
      return watchLog.token("refused", text, 0, "");
    }
    const view = viewToken(this.tokens, token);
    watchLog.token("refused", view.key, view.id, view.owner);
  }

  /** A key under an update token has no item: a store that requires an item finds none. */
  #refusalUnderToken(operation: Operation): Outcome {
    switch (operation.mode) {
      case StoreMode.CAS:
        return Outcome.NOT_FOUND;
      case StoreMode.SET:
      case StoreMode.REPLACE:
        return operation.compare || operation.unlock ? Outcome.NOT_FOUND : Outcome.NOT_STORED;
      default:
        return Outcome.NOT_STORED;
    }
  }

  #admitOnItem(operation: Operation, old: ItemRef): Outcome {
    const { mode } = operation;
    if (mode === StoreMode.ADD) {
      this.#links.hits.noteUse(old);
      return Outcome.NOT_STORED;
    }
    const { items, slabs, memory } = this.#links;
    const isStub = (items.state(old) & STATE.STUB) !== 0;
    if (mode === StoreMode.FILL && !isStub) return Outcome.NOT_STORED;
    if (!isConditional(operation)) return Outcome.OK;
    if (namesNoId(operation)) return Outcome.OK;
    const extending = isExtending(operation);
    const classId = slabs.classOf(old);
    if (this.hasId(old, operation)) {
      if (!extending) memory.countClass(classId, CLASS_STAT.cas_hits);
      this.#usesLeaseId = isStub;
      return Outcome.OK;
    }
    if (!extending && operation.allowOlder && this.#isOlder(operation, old)) {
      memory.countClass(classId, CLASS_STAT.cas_hits);
      operation.marks |= STATE.STALE | (items.state(old) & STATE.WON);
      operation.deadlineSec = items.word(old, WORD.DEADLINE_SEC);
      return Outcome.OK;
    }
    if (!extending) memory.countClass(classId, CLASS_STAT.cas_badval);
    return mode === StoreMode.FILL ? Outcome.NOT_STORED : Outcome.EXISTS;
  }

  /** Whether the id to compare was handed out before the item's. */
  #isOlder(operation: Operation, old: ItemRef): boolean {
    const { items } = this.#links;
    const { compareLow, compareHigh } = operation;
    return this.#casEnabled && (compareLow | compareHigh) !== 0 &&
      compareU64(compareLow, compareHigh, items.idLow(old), items.idHigh(old)) < 0;
  }

  #admitOnLease(operation: Operation): Outcome {
    const lease = this.#lease;
    const { mode } = operation;
    if (operation.unlock) {
      this.renew(lease);
      return Outcome.NOT_FOUND;
    }
    const extending = isExtending(operation);
    if (isConditional(operation) && mode !== StoreMode.ADD && !extending) {
      const classId = this.#classOf(operation);
      const { memory } = this.#links;
      if (this.leases.hasId(lease, operation.compareLow, operation.compareHigh)) {
        this.#stats[STAT.lease_hit]! += 1;
        memory.countClass(classId, CLASS_STAT.cas_hits);
        memory.countClass(classId, CLASS_STAT.lease_hits);
        this.#usesLeaseId = true;
        return Outcome.OK;
      }
      this.#stats[STAT.lease_badval]! += 1;
      memory.countClass(classId, CLASS_STAT.cas_badval);
      memory.countClass(classId, CLASS_STAT.lease_badval);
      return mode === StoreMode.FILL ? Outcome.NOT_STORED : Outcome.EXISTS;
    }
    if (mode === StoreMode.SET || mode === StoreMode.ADD || (extending && operation.vivify)) {
      this.#stats[STAT.lease_rewrite]! += 1;
      return Outcome.OK;
    }
    this.renew(lease);
    return Outcome.NOT_STORED;
  }

  #admitOnNothing(operation: Operation): Outcome {
    if (operation.unlock) return Outcome.NOT_FOUND;
    switch (operation.mode) {
      case StoreMode.ADD:
        return Outcome.OK;
      case StoreMode.APPEND:
      case StoreMode.PREPEND:
        return operation.vivify ? Outcome.OK : Outcome.NOT_STORED;
      case StoreMode.FILL:
        this.#stats[STAT.cas_misses]! += 1;
        return Outcome.NOT_STORED;
      case StoreMode.CAS:
        this.#stats[STAT.cas_misses]! += 1;
        return Outcome.NOT_FOUND;
      default:
        if (operation.compare) {
          this.#stats[STAT.cas_misses]! += 1;
          return Outcome.NOT_FOUND;
        }
        return operation.mode === StoreMode.SET ? Outcome.OK : Outcome.NOT_STORED;
    }
  }

  /** Whether --strict refuses the operation: it would store a whole value without an id. */
  #isRefusedAsStrict(operation: Operation, old: ItemRef): boolean {
    if (old !== NO_ITEM && (isConditional(operation) || isExtending(operation))) return false;
    // A set that has already expired only deletes.
    const { deadlineSec, mode } = operation;
    const nowSec = this.#links.memory.control[CONTROL.NOW_SEC]!;
    if (mode === StoreMode.SET && deadlineSec !== 0 && deadlineSec <= nowSec) return false;
    const { input, keyOffset, keyLength } = operation;
    return this.#strict.covers(input, keyOffset, keyLength);
  }

  #capDeadline(deadlineSec: number): number {
    if (this.#lease === NO_LEASE) return deadlineSec;
    const capped = this.leases.capDeadline(this.#lease, deadlineSec);
    if (capped !== deadlineSec) this.#stats[STAT.dirty_cut]! += 1;
    return capped;
  }

  /** Returns the slab class of an item with the operation's value. */
  #classOf(operation: Operation): number {
    const { slabs } = this.#links;
    const state = operation.clientFlags === 0 ? 0 : STATE.HAS_FLAGS;
    return slabs.classFor(this.#links.itemBytes(operation.keyLength, operation.valueLength, state));
  }
}
