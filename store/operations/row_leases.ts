import { type LeaseRef, type Leases, NO_LEASE } from "../claims/leases.ts";
import { isConditional } from "../claims/write_guard.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { type Operation, StoreMode } from "../operation.ts";

/** What the leases that clients hold on rows mean for writes of those rows. */
export class RowLeases {
  readonly #leases: Leases;
  readonly #links: ItemLinks;

  constructor(leases: Leases, links: ItemLinks) {
    this.#leases = leases;
    this.#links = links;
  }

  /** Whether an operation brings the id of the lease of a row that is absent: then a store makes the row. */
  holds(operation: Operation): boolean {
    if (!operation.compare || operation.mode === StoreMode.ADD) return false;
    const lease = this.#find(operation);
    return lease !== NO_LEASE &&
      this.#leases.hasId(lease, operation.compareLow, operation.compareHigh);
  }

  /**
   * Keeps the rules for a write that does not hold the lease: one without an id renews it, so that its holder does not
   * fill.
   *
   * @returns Whether it has an id, and there is a lease: then an absent row is one with another id.
   */
  note(operation: Operation): boolean {
    const lease = this.#find(operation);
    if (lease === NO_LEASE) return false;
    if (isConditional(operation)) return true;
    this.#leases.renew(lease);
    return false;
  }

  /** Returns the lease that a client holds on the operation's key, or NO_LEASE. */
  #find(operation: Operation): LeaseRef {
    const leases = this.#leases;
    if (leases.count === 0) return NO_LEASE;
    this.#links.prefetch.addHash(operation);
    const lease = leases.find(operation);
    return lease !== NO_LEASE && leases.isHeldByClient(lease) ? lease : NO_LEASE;
  }
}
