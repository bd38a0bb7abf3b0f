import type { StoreParts } from "./parts.ts";
import type { Operation } from "../operation.ts";
import type { Lookup } from "./lookup.ts";
import type { WriteGuard } from "../claims/write_guard.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { LeaseRef, Leases } from "../claims/leases.ts";
import * as leasesModule from "../claims/leases.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { takeId } from "../memory/ids.ts";
import * as memoryModule from "../memory/memory.ts";
import { Outcome } from "../outcome.ts";
import * as statsModule from "../stats.ts";

const { NO_ITEM, STATE, WORD } = itemModule;
const { NO_LEASE } = leasesModule;
const { CONTROL } = memoryModule;
const { STAT } = statsModule;

// Hot path: no allocation.

/** The operations that give leases, take them back and show them. */
export class LeaseOperations {
  readonly #links: ItemLinks;
  readonly #lookup: Lookup;
  readonly #guard: WriteGuard;
  readonly #leases: Leases;
  readonly #stats: Float64Array;

  constructor(parts: StoreParts) {
    const { links, lookup, guard } = parts;
    this.#links = links;
    this.#lookup = lookup;
    this.#guard = guard;
    this.#leases = guard.leases;
    this.#stats = links.memory.stats;
  }

  /**
   * Returns the value, or grants a lease until `operation.deadlineSec`.
   *
   * @param item The result of reading the key.
   * @returns OK (`operation.item` is live), LEASED (`operation.idLow/High`, `remainSec`: 0 for whom it
   *   was made), UNCACHEABLE (as if another had the lease for one more second) or NO_MEMORY (no lease can be made).
   */
  get(operation: Operation, item: ItemRef): Outcome {
    operation.item = item;
    if (item !== NO_ITEM) {
      return this.#links.items.state(item) & STATE.STUB
        ? this.#showStub(operation, item)
        : Outcome.OK;
    }
    if (this.#guard.tokens.isUncacheable(operation)) {
      this.#stats[STAT.lease_wait_hint]! += 1;
      return this.refuse(operation);
    }
    let lease = this.#leases.find(operation);
    if (this.#isHeld(lease)) {
      this.#stats[STAT.lease_wait_hint]! += 1;
      this.#show(operation, lease);
      return Outcome.LEASED;
    }
    lease = this.#leases.grant(lease, operation, operation.deadlineSec);
    if (lease === NO_LEASE) return Outcome.NO_MEMORY;
    this.#stats[STAT.lease_getss]! += 1;
    this.#show(operation, lease);
    operation.remainSec = 0;
    return Outcome.LEASED;
  }

  /**
   * Removes the value and grants a lease until `operation.deadlineSec`. The new id
   * is in `operation.idLow/High`.
   *
   * @returns DELETED, NOT_FOUND, UNCACHEABLE (no value, and no lease is granted), LOCKED, EXISTS
   *   (`operation.compare`, and another id) or NO_MEMORY.
   */
  take(operation: Operation): Outcome {
    this.#links.prefetch.addHash(operation);
    const item = this.#lookup.live(operation);
    if (this.#guard.tokens.isUncacheable(operation)) {
      this.#stats[STAT.delete_misses]! += 1;
      return this.refuse(operation);
    }
    const lease = this.#leases.find(operation);
    const wasHeld = this.#isHeld(lease);
    if (item !== NO_ITEM) {
      if (this.#guard.isLockedByOther(item, operation.owner)) return Outcome.LOCKED;
      if (operation.compare && !this.#guard.hasId(item, operation)) return Outcome.EXISTS;
    } else if (wasHeld && !this.#matches(lease, operation)) return Outcome.EXISTS;
    const made = this.#leases.grant(lease, operation, operation.deadlineSec);
    if (made === NO_LEASE) return Outcome.NO_MEMORY;
    this.#stats[STAT.lease_deletess]! += 1;
    this.#show(operation, made);
    if (item !== NO_ITEM) {
      this.#links.countDeleted(item, "delete");
      this.#lookup.unlink(item, operation.hash);
      return Outcome.DELETED;
    }
    if (wasHeld) return Outcome.DELETED;
    this.#stats[STAT.delete_misses]! += 1;
    return Outcome.NOT_FOUND;
  }

  /**
   * Whether the key is held, or uncacheable, which looks as if it were; then `operation.idLow/High` and `remainSec` say
   * more.
   */
  find(operation: Operation): boolean {
    this.#links.prefetch.addHash(operation);
    if (this.#guard.tokens.isUncacheable(operation)) {
      this.refuse(operation);
      return true;
    }
    const lease = this.#leases.find(operation);
    if (!this.#isHeld(lease)) return false;
    this.#show(operation, lease);
    return true;
  }

  /**
   * Deletes a key without a live item: releases its lease if `operation` compares with the lease's
   * id, else renews it.
   *
   * @param lease The key's record.
   * @returns DELETED (released), EXISTS (another id) or NOT_FOUND.
   */
  remove(operation: Operation, lease: LeaseRef): Outcome {
    if (this.#isHeld(lease)) {
      if (operation.compare) {
        if (!this.#matches(lease, operation)) return Outcome.EXISTS;
        this.#leases.release(lease, operation.hash);
        return Outcome.DELETED;
      }
      this.#leases.renew(lease);
      this.#stats[STAT.lease_deletess]! += 1;
    }
    this.#stats[STAT.delete_misses]! += 1;
    return Outcome.NOT_FOUND;
  }

  /** Shows a lease that another client seems to hold for one more second: readers ask again, and no client fills. */
  refuse(operation: Operation): Outcome {
    const { memory } = this.#links;
    takeId(memory);
    operation.idLow = memory.control[CONTROL.ID_LOW]!;
    operation.idHigh = memory.control[CONTROL.ID_HIGH]!;
    operation.remainSec = 1;
    operation.isUncacheable = true;
    return Outcome.UNCACHEABLE;
  }

  #isHeld(lease: LeaseRef): boolean {
    return lease !== NO_LEASE && this.#leases.isHeldByClient(lease);
  }

  #matches(lease: LeaseRef, operation: Operation): boolean {
    return !operation.compare ||
      this.#leases.hasId(lease, operation.compareLow, operation.compareHigh);
  }

  #show(operation: Operation, lease: LeaseRef): void {
    operation.idLow = this.#leases.idLow(lease);
    operation.idHigh = this.#leases.idHigh(lease);
    operation.remainSec = this.#leases.remainSec(lease);
    operation.isUncacheable = false;
  }

  /** Reports a stub as a lease of another client. */
  #showStub(operation: Operation, stub: ItemRef): Outcome {
    const { items, memory } = this.#links;
    const deadlineSec = items.word(stub, WORD.DEADLINE_SEC);
    operation.idLow = items.idLow(stub);
    operation.idHigh = items.idHigh(stub);
    operation.remainSec = deadlineSec === 0 ? -1 : deadlineSec - memory.control[CONTROL.NOW_SEC]!;
    return Outcome.LEASED;
  }
}
