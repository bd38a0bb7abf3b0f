import { assert } from "@std/assert";
import { u64ToNumber } from "../../../store/base/u64.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import type { Cache } from "../../../store/cache.ts";
import { NO_LEASE } from "../../../store/claims/leases.ts";
import { type ItemRef, NO_ITEM } from "../../../store/memory/item.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { REQUEST } from "../../../store/memory/request_layout.ts";
import { type Key, Operation } from "../../../store/operation.ts";
import { formatCache, RowKind, type RowRequest } from "../../../store/row_cache.ts";
import { type RequestSlot, RequestState } from "../../../store/rows/row_requests.ts";
import type { Outcome } from "../../../store/outcome.ts";
import { SavedStore } from "../../support/saved_store.ts";
import { held, keyIn, storeOptions } from "../../support/store.ts";
import { KEY } from "../key_record.ts";

const KEY_BYTES = new ByteRegion(new TextEncoder().encode(KEY).buffer);

/** The result of a connection's request. */
export interface Result {
  readonly outcome: Outcome;
  /** A READ's row: its version. A write's: the version that it made. */
  readonly version: number;
}

/** The store of an origin, with one row. `start` puts everything back. */
export class OriginStore {
  readonly cache: Cache;
  readonly #slots = new Set<RequestSlot>();

  /** @param rightFrom The source of the right to serve; left out: it has no end. */
  constructor(rightFrom?: string) {
    const rows = { prefixes: [""], expiry: "refuse", rightFrom } as const;
    const options = storeOptions({ rows, leaseEntries: 8 });
    this.cache = formatCache(new Memory(createSharedMemory(options)));
  }

  start(): void {
    const { cache } = this;
    const rows = cache.rows!;
    this.take();
    const { requests } = rows;
    cache.enter();
    rows.removal.invalidate(KEY, 0);
    for (const slot of this.#slots) {
      if (requests.stateOf(slot) !== RequestState.DONE) requests.finish(slot, 0);
      cache.rows!.free(slot);
    }
    cache.leave();
    this.#slots.clear();
  }

  /** Submits a request, as a connection does. */
  submit(kind: RowKind, owner: number): RequestSlot {
    const { cache } = this;
    const { requests } = cache.rows!;
    cache.enter();
    const slot = requests.take(kind, this.#key, owner, 0);
    requests.submit(slot);
    requests.await(slot);
    cache.leave();
    this.#slots.add(slot);
    return slot;
  }

  get queued(): number {
    return this.cache.rows!.requests.queued;
  }

  /** Takes all that is queued, as the database thread does. */
  take(): RowRequest[] {
    return held(this.cache, () => this.cache.rows!.take(100));
  }

  /** Takes the result of a request, if it is done. */
  result(slot: RequestSlot): Result | undefined {
    const { cache } = this;
    const { requests } = cache.rows!;
    if (requests.stateOf(slot) !== RequestState.DONE) return undefined;
    const item = requests.word(slot, REQUEST.RESULT);
    const version = item === NO_ITEM
      ? u64ToNumber(requests.word(slot, REQUEST.VERSION_LOW), 0)
      : this.#versionOf(item);
    const outcome = requests.outcomeOf(slot);
    held(cache, () => cache.rows!.free(slot));
    this.#slots.delete(slot);
    return { outcome, version };
  }

  /** Answers a read from the cache alone. @returns The row's version; null: the cache cannot, or must not, answer. */
  hit(mayServe: boolean, owner: number): number | null {
    const { cache } = this;
    const parking = cache.parking!;
    cache.enter();
    parking.mayServe = mayServe;
    const operation = new Operation(KEY_BYTES);
    operation.setKey(0, KEY.length, this.#key.hash);
    operation.owner = owner;
    const item = cache.get(operation);
    const version = item > NO_ITEM ? this.#versionOf(item) : null;
    if (parking.session !== null) parking.abandon(parking.session);
    parking.session = null;
    cache.leave();
    return version;
  }

  /** The version that is cached; "absent": the cache knows that there is no row; null: it knows nothing. */
  get cached(): number | "absent" | null {
    const item = this.#find();
    if (item === NO_ITEM) return null;
    const { links } = this.cache;
    if (links.isAbsent(item)) return "absent";
    return links.isDead(item) ? null : this.#versionOf(item);
  }

  get leaseId(): number {
    const { leases } = this.cache;
    const lease = leases.find(this.#key);
    if (lease === NO_LEASE || !leases.isHeld(lease)) return 0;
    return u64ToNumber(leases.idLow(lease), leases.idHigh(lease));
  }

  /** Removes the value and its lease, as a write does. */
  delete(): void {
    const { cache } = this;
    held(cache, () => cache.rows!.removal.invalidate(KEY, 0));
  }

  /** Removes the value and every lease, as the follower of the log does. */
  expel(): void {
    const { cache } = this;
    held(cache, () => cache.rows!.removal.expel(KEY));
  }

  /** Saves the store, as a clean stop does. @param removed Prefixes of rows that are not saved. */
  save(removed: readonly string[]): SavedStore {
    return new SavedStore(this.cache, removed);
  }

  /** Loads a store that was saved, into this one, which is empty. */
  load(saved: SavedStore): void {
    assert(saved.restore(this.cache, 0), "the pages fit");
  }

  /** Removes all rows. */
  dropRows(): void {
    for (const _ of this.cache.rows!.removal.dropRows([""]));
  }

  /** Removes the value, as an eviction does. */
  evict(): void {
    const { cache } = this;
    cache.enter();
    const item = this.#find();
    if (item !== NO_ITEM) cache.links.unlink(item, this.#key.hash);
    cache.leave();
  }

  get #key(): Key {
    return keyIn(this.cache, KEY_BYTES, KEY.length);
  }

  #find(): ItemRef {
    return this.cache.links.index.find(this.#key);
  }

  #versionOf(item: ItemRef): number {
    return u64ToNumber(this.cache.idLow(item), this.cache.idHigh(item));
  }
}
