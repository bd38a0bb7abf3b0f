import type { Change } from "../operation.ts";
import type { Finder } from "./lookup.ts";
import type { Gate } from "../claims/write_guard.ts";
import { type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { type LeaseRef, type Leases, NO_LEASE } from "../claims/leases.ts";
import type { Links } from "../items/item_links.ts";
import { CONTROL } from "../memory/memory.ts";
import { Outcome } from "../outcome.ts";
import { STAT } from "../stats.ts";

// Hot path: no allocation.

/** The operations that give leases, take them back and show them. */
export class Leaseholding {
  readonly #links: Links;
  readonly #finder: Finder;
  readonly #gate: Gate;
  readonly #leases: Leases;
  readonly #counters: Float64Array;

  constructor(links: Links, finder: Finder, gate: Gate) {
    this.#links = links;
    this.#finder = finder;
    this.#gate = gate;
    this.#leases = gate.leases;
    this.#counters = links.memory.counters;
  }

  /**
   * The value, or the right to fill it until `change.deadlineSec`.
   *
   * @param item What reading the key gave.
   * @returns OK (`change.item` is live), LEASED (`change.idLow/High`, `remainSec`: 0 for whom it
   *   was made) or NO_MEMORY (no lease can be made).
   */
  get(change: Change, item: ItemRef, hash: number): Outcome {
    change.item = item;
    if (item !== NO_ITEM) {
      return this.#links.items.state(item) & STATE.STUB ? this.#showStub(change, item) : Outcome.OK;
    }
    const { input, keyOffset, keyLength } = change;
    let lease = this.#leases.find(input, keyOffset, keyLength, hash);
    if (this.#isHeld(lease)) {
      this.#counters[STAT.lease_wait_hint]! += 1;
      this.#show(change, lease);
      return Outcome.LEASED;
    }
    lease = this.#leases.grant(lease, input, keyOffset, keyLength, hash, change.deadlineSec);
    if (lease === NO_LEASE) return Outcome.NO_MEMORY;
    this.#counters[STAT.lease_getss]! += 1;
    this.#show(change, lease);
    change.remainSec = 0;
    return Outcome.LEASED;
  }

  /**
   * Removes whatever there is and gives the key to the asker until `change.deadlineSec`. The new id
   * is in `change.idLow/High`.
   *
   * @returns DELETED, NOT_FOUND, LOCKED, EXISTS (`change.compare`, and another id) or NO_MEMORY.
   */
  take(change: Change): Outcome {
    const { input, keyOffset, keyLength } = change;
    const hash = this.#links.index.hash(input, keyOffset, keyLength);
    const item = this.#finder.live(input, keyOffset, keyLength, hash);
    const lease = this.#leases.find(input, keyOffset, keyLength, hash);
    const wasHeld = this.#isHeld(lease);
    if (item !== NO_ITEM) {
      if (this.#gate.isLockedByOther(item, change.owner)) return Outcome.LOCKED;
      if (change.compare && !this.#gate.hasId(item, change)) return Outcome.EXISTS;
    } else if (wasHeld && !this.#matches(lease, change)) return Outcome.EXISTS;
    const made = this.#leases.grant(lease, input, keyOffset, keyLength, hash, change.deadlineSec);
    if (made === NO_LEASE) return Outcome.NO_MEMORY;
    this.#counters[STAT.lease_deletess]! += 1;
    this.#show(change, made);
    if (item !== NO_ITEM) {
      this.#links.countDeleted(item);
      this.#finder.unlink(item, hash);
      return Outcome.DELETED;
    }
    if (wasHeld) return Outcome.DELETED;
    this.#counters[STAT.delete_misses]! += 1;
    return Outcome.NOT_FOUND;
  }

  /** Whether the key is held; then `change.idLow/High` and `remainSec` say more. Nothing is counted. */
  find(change: Change): boolean {
    const { input, keyOffset, keyLength } = change;
    const hash = this.#links.index.hash(input, keyOffset, keyLength);
    const lease = this.#leases.find(input, keyOffset, keyLength, hash);
    if (!this.#isHeld(lease)) return false;
    this.#show(change, lease);
    return true;
  }

  /**
   * What delete does where there is no live item: the holder, who names the id, gives the lease
   * back; anybody else renews it.
   *
   * @param lease The key's record.
   * @returns DELETED (given back), EXISTS (another id was named) or NOT_FOUND.
   */
  remove(change: Change, lease: LeaseRef, hash: number): Outcome {
    if (this.#isHeld(lease)) {
      if (change.compare) {
        if (!this.#matches(lease, change)) return Outcome.EXISTS;
        this.#leases.giveBack(lease, hash);
        return Outcome.DELETED;
      }
      this.#leases.renew(lease);
      this.#counters[STAT.lease_deletess]! += 1;
    }
    this.#counters[STAT.delete_misses]! += 1;
    return Outcome.NOT_FOUND;
  }

  #isHeld(lease: LeaseRef): boolean {
    return lease !== NO_LEASE && this.#leases.isHeld(lease);
  }

  #matches(lease: LeaseRef, change: Change): boolean {
    return !change.compare ||
      this.#leases.hasId(lease, change.compareLow, change.compareHigh);
  }

  #show(change: Change, lease: LeaseRef): void {
    change.idLow = this.#leases.idLow(lease);
    change.idHigh = this.#leases.idHigh(lease);
    change.remainSec = this.#leases.remainSec(lease);
  }

  /** A stub is shown as a lease that somebody else has. */
  #showStub(change: Change, stub: ItemRef): Outcome {
    const { items, memory } = this.#links;
    const deadlineSec = items.word(stub, WORD.DEADLINE_SEC);
    change.idLow = items.idLow(stub);
    change.idHigh = items.idHigh(stub);
    change.remainSec = deadlineSec === 0 ? -1 : deadlineSec - memory.control[CONTROL.NOW_SEC]!;
    return Outcome.LEASED;
  }
}
