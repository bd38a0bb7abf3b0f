import { assert } from "../base/assert.ts";
import type { Prefixes } from "../base/prefixes.ts";
import { clockSec } from "../clock.ts";
import { FREQUENCY_MASK, NO_ITEM, STATE, WORD } from "../memory/item.ts";
import { CONTROL } from "../memory/memory.ts";
import { Operation } from "../operation.ts";
import type { StoreOperations } from "../operations/store.ts";
import type { StoreParts } from "../operations/parts.ts";
import { restoreQueues } from "./restore_queues.ts";
import type { SavedItem, SnapshotPages } from "./snapshot_pages.ts";

/** STATE bits that an item keeps in another store. */
const KEPT_STATE = STATE.MAIN | FREQUENCY_MASK | STATE.FETCHED | STATE.KEY_BINARY | STATE.STALE |
  STATE.REWRITTEN;

/** The share of the memory limit that items fill: the rest is lost at the ends of chunks and pages. */
const FILLED_SHARE = 0.9;
/** Of an item in the hash index. */
const INDEX_BYTES = 8;

/**
 * Stores the items of a snapshot as new ones, in a store with other classes or with less memory. If they do not fit,
 * the ones that have not been read for longest are left out.
 */
export class Readmission {
  /** Items that are in the store in the end, and items that there was no memory for or that are too large. */
  stored = 0;
  dropped = 0;
  readonly #parts: StoreParts;
  readonly #operations: StoreOperations;
  readonly #removed: Prefixes | null;
  readonly #pages: SnapshotPages;
  /** Items that have not been read since are left out. */
  #accessedSinceSec = 0;

  /** @param removed Keys whose items are left out; null: none. */
  constructor(
    parts: StoreParts,
    operations: StoreOperations,
    removed: Prefixes | null,
    pages: SnapshotPages,
  ) {
    this.#parts = parts;
    this.#operations = operations;
    this.#removed = removed;
    this.#pages = pages;
  }

  /** Stores the items. Yields between pages; the caller holds the mutex, or is the only thread. */
  *run(): Generator<void> {
    yield* this.#chooseAge();
    yield* this.#pages.items((item) => {
      if (this.#isLeftOut(item)) return;
      if (item.accessedSec < this.#accessedSinceSec || !this.#store(item)) this.dropped++;
      else this.stored++;
    });
    // Later items may have evicted earlier ones, if many were read in the same second.
    const left = this.#parts.links.memory.control[CONTROL.ITEM_COUNT]!;
    assert(left <= this.stored, "an item of a snapshot comes back once");
    this.dropped += this.stored - left;
    this.stored = left;
    yield* restoreQueues(this.#parts.links);
  }

  /** Finds out how old the oldest items are that fit the memory. */
  *#chooseAge(): Generator<void> {
    const bytesBySecond = new Map<number, number>();
    let all = 0;
    yield* this.#pages.verifiedItems((item) => {
      if (this.#isLeftOut(item)) return;
      const { accessedSec, keyLength, valueLength, state } = item;
      const bytes = this.#parts.links.itemBytes(keyLength, valueLength, state) + INDEX_BYTES;
      bytesBySecond.set(accessedSec, (bytesBySecond.get(accessedSec) ?? 0) + bytes);
      all += bytes;
    });
    const room = this.#parts.links.memory.limitBytes * FILLED_SHARE;
    if (all <= room) return;
    let kept = 0;
    for (const [second, bytes] of [...bytesBySecond].sort(([a], [b]) => b - a)) {
      if (kept > 0 && kept + bytes > room) return;
      kept += bytes;
      this.#accessedSinceSec = second;
    }
  }

  /** Whether an item has expired or has a removed key: it needs no memory. */
  #isLeftOut({ deadlineSec, bytes, keyOffset, keyLength }: SavedItem): boolean {
    return deadlineSec > 0 && deadlineSec <= clockSec(this.#parts.links.memory) ||
      this.#removed?.covers(bytes, keyOffset, keyLength) === true;
  }

  /** Stores one item. @returns False if it has no place in this store. */
  #store(saved: SavedItem): boolean {
    const { links, allocator, values } = this.#parts;
    const { items } = links;
    const { bytes, keyOffset, keyLength, valueLength, state } = saved;
    if (!this.#operations.fits(keyLength, valueLength, saved.clientFlags)) return false;
    const operation = new Operation(bytes);
    operation.begin(keyOffset, keyLength);
    operation.clientFlags = saved.clientFlags;
    operation.deadlineSec = saved.deadlineSec;
    operation.explicit = (state & STATE.EXPLICIT_ID) !== 0;
    const item = allocator.allocate(operation, valueLength);
    if (item === NO_ITEM) return false;
    values.write(item, 0, bytes, keyOffset + keyLength, saved.headLength);
    let at = saved.headLength;
    this.#pages.readChain(saved, (piece, length) => {
      values.write(item, at, piece, 0, length);
      at += length;
    });
    values.forgetPosition();
    items.addState(item, state & KEPT_STATE);
    items.setWord(item, WORD.ACCESSED_SEC, saved.accessedSec);
    items.setOwnId(item, saved.idLow, saved.idHigh);
    if (operation.explicit) {
      const word = items.explicitIdWord(item);
      items.setWord(item, word, saved.explicitLow);
      items.setWord(item, word + 1, saved.explicitHigh);
    }
    links.link(item, links.index.hashOf(item));
    return true;
  }
}
