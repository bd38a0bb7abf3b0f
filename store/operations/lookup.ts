import type { Eviction } from "../space/eviction.ts";
import type { ItemRef } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { ItemLinks } from "../items/item_links.ts";
import type { Key } from "../operation.ts";
import type { Locks } from "../claims/locks.ts";
import * as statsModule from "../stats.ts";

const { NO_ITEM, STATE } = itemModule;
const { STAT } = statsModule;

// Hot path: no allocation.

/** Finds live items, and removes dead ones that it finds. */
export class Lookup {
  readonly #links: ItemLinks;
  readonly #eviction: Eviction;
  readonly #locks: Locks;
  readonly #stats: Float64Array;

  constructor(links: ItemLinks, eviction: Eviction, locks: Locks) {
    this.#links = links;
    this.#eviction = eviction;
    this.#locks = locks;
    this.#stats = links.memory.stats;
  }

  /** Returns the live item with this key, or NO_ITEM. Removes a dead one. */
  live(key: Key): ItemRef {
    const item = this.#links.index.find(key);
    if (this.#links.watch.isOn) this.#report(item, key);
    if (item === NO_ITEM || !this.#links.isDead(item)) return item;
    if (!this.#links.isKept(item)) this.#eviction.reclaim(item);
    return NO_ITEM;
  }

  /** As `live`, but counts a dead item as reclaimed, as memcached does when its key is stored again. */
  forStore(key: Key): ItemRef {
    const item = this.#links.index.find(key);
    if (this.#links.watch.isOn) this.#report(item, key);
    if (item === NO_ITEM || !this.#links.isDead(item)) return item;
    if (!this.#links.isKept(item)) this.#eviction.reclaimForRoom(item);
    return NO_ITEM;
  }

  /** As `live`, but counts a dead item as expired or flushed. */
  forRead(key: Key): ItemRef {
    const item = this.#links.index.find(key);
    if (this.#links.watch.isOn) this.#report(item, key);
    if (item === NO_ITEM || !this.#links.isDead(item)) return item;
    if (this.#links.isKept(item)) return NO_ITEM;
    this.#stats[this.#links.isExpired(item) ? STAT.get_expired : STAT.get_flushed]! += 1;
    this.#eviction.reclaim(item);
    return NO_ITEM;
  }

  /** Whether there is a live item with this key, or it is known to be an absent row. */
  knows(key: Key): boolean {
    const item = this.#links.index.find(key);
    return item !== NO_ITEM && (!this.#links.isDead(item) || this.#links.isAbsent(item));
  }

  /** Whether the key is known to be an absent row. */
  knowsAbsent(key: Key): boolean {
    const item = this.#links.index.find(key);
    return item !== NO_ITEM && this.#links.isDead(item) && this.#links.isAbsent(item);
  }

  /** Removes an item, and its lock. */
  unlink(item: ItemRef, hash: number): void {
    if (this.#links.items.state(item) & STATE.LOCKED) this.#locks.drop(item);
    this.#links.unlink(item, hash);
  }

  /** Reports the lookup to watchers. */
  #report(item: ItemRef, { input, keyOffset, keyLength }: Key): void {
    const links = this.#links;
    if (item === NO_ITEM) {
      links.watch.lookedUp(NO_ITEM, "not_found", input, keyOffset, keyLength);
    } else if (!links.isDead(item)) {
      links.watch.lookedUp(item, "found", input, keyOffset, keyLength);
    } else {
      const status = links.isExpired(item) ? "expired" : "flushed";
      links.watch.lookedUp(NO_ITEM, status, input, keyOffset, keyLength);
    }
  }
}
