import { ByteRegion } from "../base/bytes.ts";
import { Prefixes } from "../base/prefixes.ts";
import { NO_LEASE } from "../claims/leases.ts";
import type { WriteGuard } from "../claims/write_guard.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { KeyWalk } from "../items/key_walk.ts";
import { KEY_LENGTH_MAX } from "../limits.ts";
import { ABSENT_DEADLINE_SEC, type ItemRef, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { Operation } from "../operation.ts";
import type { Lookup } from "./lookup.ts";
import type { StoreParts } from "./parts.ts";

/** Items and buckets that `dropRows` looks at under one hold of the mutex. */
const DROP_MAX = 1000;
/** Takes and releases the mutex, as `Cache` does. */
export interface MutexHolder {
  enter(): void;
  leave(): void;
  leaveToOthers(): void;
}

/**
 * Takes rows out of this cache, before a write commits or after another program has written. Methods want the mutex
 * held, unless they say otherwise.
 */
export class RowRemoval {
  readonly #links: ItemLinks;
  readonly #lookup: Lookup;
  readonly #guard: WriteGuard;
  readonly #mutex: MutexHolder;
  readonly #key = new ByteRegion(new ArrayBuffer(KEY_LENGTH_MAX));
  readonly #operation = new Operation(this.#key);

  constructor({ links, lookup, guard }: StoreParts, mutex: MutexHolder) {
    this.#links = links;
    this.#lookup = lookup;
    this.#guard = guard;
    this.#mutex = mutex;
  }

  /**
   * Removes the key from this cache: its value, the note that it is absent, and the lease of its reads. The lock of the
   * connection that writes stays, and so does a client's lease, until the row exists: see `answer`.
   *
   * @param key A character a byte.
   * @param owner The connection that writes; 0: a writer with an update token, which ends a client's lease, too.
   * @returns False if another connection holds the row's lock: nothing has changed.
   */
  invalidate(key: string, owner: number): boolean {
    const hash = setKey(this.#operation, key, this.#links);
    const item = this.#links.index.find(this.#operation);
    if (item !== NO_ITEM && this.#guard.isLockedByOther(item, owner)) return false;
    this.#expel(item, hash, owner === 0);
    return true;
  }

  /**
   * Removes the key from this cache: its value, the note that it is absent, and every lease. A lock stays, whoever
   * holds it. For a change that another program has committed.
   */
  expel(key: string): void {
    const hash = setKey(this.#operation, key, this.#links);
    this.#expel(this.#links.index.find(this.#operation), hash, true);
  }

  #expel(item: ItemRef, hash: number, endsClientLease: boolean): void {
    if (item !== NO_ITEM) this.#remove(item, hash);
    const { leases } = this.#guard;
    const lease = leases.find(this.#operation);
    if (lease !== NO_LEASE && (endsClientLease || !leases.isHeldByClient(lease))) {
      leases.drop(lease, hash);
    }
  }

  /**
   * Removes rows from this cache, the notes of absent ones, and every lease of such a key. A locked row loses its value
   * and stays locked. A step takes the mutex itself; others get it in between. What was read before the first step is
   * not there after the last one; a lease that is given between steps stays.
   *
   * @param prefixes Of the keys, as `Prefixes` takes them; "" for all rows.
   */
  *dropRows(prefixes: readonly (string | Uint8Array)[]): Generator<void> {
    const covered = new Prefixes(prefixes);
    // First: no value that was read before is filled behind the walk.
    yield* this.#dropLeases(covered);
    const { items, memory, prefetch } = this.#links;
    const drop = (item: ItemRef): void => {
      const segment = memory.segmentOf(item);
      const keyOffset = items.keyOffset(item);
      const keyLength = items.keyLength(item);
      if (!covered.covers(segment, keyOffset, keyLength)) return;
      this.#remove(item, prefetch.hashOf(segment, keyOffset, keyLength));
    };
    const walk = new KeyWalk(this.#links, true);
    while (!walk.isDone) {
      this.#mutex.enter();
      for (let looked = 0; looked < DROP_MAX && !walk.isDone; walk.next()) {
        looked += 1 + walk.visit(drop);
      }
      this.#mutex.leaveToOthers();
      yield;
    }
  }

  *#dropLeases(covered: Prefixes): Generator<void> {
    const { leases } = this.#guard;
    const { table } = leases;
    const { prefetch } = this.#links;
    for (let bucket = 0; bucket < table.bucketCount;) {
      this.#mutex.enter();
      for (let looked = 0; looked < DROP_MAX && bucket < table.bucketCount; bucket++) {
        looked++;
        for (let lease = table.head(bucket), next; lease !== NO_LEASE; lease = next) {
          next = table.next(lease);
          looked++;
          leases.copyKey(lease, this.#key, 0);
          const length = leases.keyLength(lease);
          if (covered.covers(this.#key, 0, length)) {
            leases.drop(lease, prefetch.hashOf(this.#key, 0, length));
          }
        }
      }
      this.#mutex.leaveToOthers();
      yield;
    }
  }

  #remove(item: ItemRef, hash: number): void {
    if (this.#links.items.state(item) & STATE.LOCKED) this.#void(item, hash);
    else this.#lookup.unlink(item, hash);
  }

  /** Takes the value of a locked row from its readers. The lock stays. */
  #void(item: ItemRef, hash: number): void {
    const { items, memory } = this.#links;
    const begun = memory.versions.begin(hash);
    items.addState(item, STATE.VOID);
    items.setWord(item, WORD.DEADLINE_SEC, ABSENT_DEADLINE_SEC);
    memory.versions.end(begun);
  }
}

/** Begins an operation on a key. @param key A character a byte. @returns Its hash. */
export function setKey(operation: Operation, key: string, { index }: ItemLinks): number {
  const { input } = operation;
  for (let at = 0; at < key.length; at++) input.bytes[at] = key.charCodeAt(at);
  operation.begin(0, key.length);
  return operation.hash = index.hash(input, 0, key.length);
}
