import type { DeleteCommand } from "../operation.ts";
import { HashIndex } from "./hash_index.ts";
import { Hits } from "./hits.ts";
import { type ItemRef, Items, optionalBytes } from "../memory/item.ts";
import * as itemModule from "../memory/item.ts";
import type { Memory } from "../memory/memory.ts";
import * as memoryModule from "../memory/memory.ts";
import { ItemWatch } from "../watch/item_watch.ts";
import { Prefetch } from "./prefetch.ts";
import { Queues } from "./queues.ts";
import { Slabs } from "../memory/slabs.ts";
import * as statsModule from "../stats.ts";
import { WatchLog } from "../watch/watch_log.ts";

const { HEADER_BYTES, KEY_LENGTH_MASK, NO_ITEM, STATE, WORD } = itemModule;
const { CONTROL, PAGE } = memoryModule;
const { CLASS_STAT, STAT } = statsModule;

// Hot path: no allocation.

/**
 * Links items into the cache and out of it: the index, a queue, and the sums of items and bytes. Every insertion and
 * removal goes through here, so that these cannot disagree.
 */
export class ItemLinks {
  readonly memory: Memory;
  readonly items: Items;
  readonly slabs: Slabs;
  readonly index: HashIndex;
  readonly hits: Hits;
  readonly prefetch: Prefetch;
  readonly queues: Queues;
  readonly watchLog: WatchLog;
  readonly watch: ItemWatch;
  /**
   * One word that counts work in units of about 100 ns: items that eviction looks at, chunks of chains that are freed.
   * Callers that work in slices end a slice by it.
   */
  readonly workDone = new Int32Array(1);
  readonly #memcachedAccounting: boolean;

  constructor(memory: Memory) {
    this.memory = memory;
    this.items = new Items(memory);
    this.slabs = new Slabs(memory, this.items);
    this.index = new HashIndex(memory, this.items, this.slabs);
    this.hits = new Hits(memory, this.items, this.index);
    this.prefetch = new Prefetch(memory, this.index);
    this.queues = new Queues(memory, this.items);
    this.watchLog = new WatchLog(memory);
    this.watch = new ItemWatch(this.watchLog, memory, this.items, this.slabs);
    this.#memcachedAccounting = memory.options.slabLayout === "memcached";
  }

  /**
   * Returns an item's size in bytes, as the layout counts it: header, optional words, key and value.
   * Layout "memcached" counts as memcached does: 48 header, 8 cas id, key and NUL, value and CR LF,
   * 4 if there are flags.
   */
  itemBytes(keyLength: number, valueLength: number, state: number): number {
    return this.#memcachedAccounting
      ? memcachedItemBytes(
        keyLength,
        valueLength,
        (state & STATE.HAS_FLAGS) !== 0,
        this.memory.options.casEnabled,
      )
      : HEADER_BYTES + optionalBytes(state) + keyLength + valueLength;
  }

  bytesOf(item: ItemRef): number {
    const state = this.items.state(item);
    return this.itemBytes(state & KEY_LENGTH_MASK, this.items.valueLength(item), state);
  }

  /**
   * Links a complete item into the cache, at the new end of the queue that its STATE names. A locked
   * item enters no queue.
   */
  link(item: ItemRef, hash: number): void {
    const classId = this.slabs.classOf(item);
    const state = (this.items.state(item) & ~STATE.RESERVED) | STATE.LINKED;
    this.items.setWord(item, WORD.STATE, state);
    if ((state & STATE.LOCKED) === 0) this.queues.push(item, classId);
    this.memory.addRequestedBytes(classId, this.bytesOf(item));
    this.memory.stats[STAT.total_items]! += 1;
    this.lowerSoonestDeadline(item);
    this.index.insert(item, hash);
  }

  /** Unlinks an item from the cache and frees its memory. If the item is pinned, the last unpin frees it. */
  unlink(item: ItemRef, hash: number): void {
    const classId = this.slabs.classOf(item);
    this.index.remove(item, hash);
    if ((this.items.state(item) & STATE.LOCKED) === 0) this.queues.remove(item, classId);
    this.memory.addRequestedBytes(classId, -this.bytesOf(item));
    this.items.dropState(item, STATE.LINKED | STATE.LOCKED);
    if (!this.isPinned(item)) this.free(item);
  }

  /** Counts an item that a client deletes, and reports it to watchers of `command`. Call it before `unlink`. */
  countDeleted(item: ItemRef, command: DeleteCommand | null): void {
    this.memory.countClass(this.slabs.classOf(item), CLASS_STAT.delete_hits);
    if (command !== null && this.watch.isOn) this.watch.deleted(item, command);
  }

  /** Frees the memory of an unlinked item, its chain included. */
  free(item: ItemRef): void {
    if (this.items.state(item) & STATE.CHAINED) {
      this.freeChain(this.items.word(item, this.items.chainWord(item)));
    }
    this.slabs.free(item);
  }

  /** Frees a chunk of a chain and all chunks after it. */
  freeChain(first: ItemRef): void {
    for (let chunk = first; chunk !== NO_ITEM;) {
      const next = this.items.word(chunk, WORD.OLDER);
      this.slabs.free(chunk);
      this.workDone[0]! += 1;
      chunk = next;
    }
  }

  /**
   * Appends a run of chunks to a chain, behind `last`, or begins a chain if `last` is NO_ITEM.
   *
   * @param item The item that owns the chain.
   * @param missing Bytes of the value that have no memory yet.
   * @returns How many of them the run holds.
   */
  lengthenChain(item: ItemRef, last: ItemRef, run: ItemRef, missing: number): number {
    const { items } = this;
    const length = Math.min(missing, this.slabs.runCapacity(run));
    items.setWord(run, WORD.STATE, STATE.CONTINUATION);
    items.setWord(run, WORD.PIECE_LENGTH, length);
    items.setWord(run, WORD.NEWER, item);
    items.setWord(run, WORD.OLDER, NO_ITEM);
    items.setWord(run, WORD.CHAIN_PREVIOUS, last);
    if (last !== NO_ITEM) items.setWord(last, WORD.OLDER, run);
    return length;
  }

  /** Whether a reader relies on the item's memory. Only items with a chain can be pinned. */
  isPinned(item: ItemRef): boolean {
    return (this.items.state(item) & STATE.CHAINED) !== 0 &&
      this.items.word(item, this.items.chainWord(item) + 1) !== 0;
  }

  setDeadline(item: ItemRef, deadlineSec: number): void {
    this.items.setWord(item, WORD.DEADLINE_SEC, deadlineSec);
    this.lowerSoonestDeadline(item);
  }

  /** Lowers the bound of the next deadline in the item's page, if the item's deadline is sooner. */
  lowerSoonestDeadline(item: ItemRef): void {
    const deadline = this.items.word(item, WORD.DEADLINE_SEC);
    if (deadline <= 0) return;
    const at = (item >>> this.memory.refPageShift) * PAGE.WORDS + PAGE.SOONEST_SEC;
    if (deadline < this.memory.pages[at]!) this.memory.pages[at] = deadline;
  }

  isExpired(item: ItemRef): boolean {
    const deadline = this.items.word(item, WORD.DEADLINE_SEC);
    return deadline !== 0 && deadline <= this.memory.control[CONTROL.NOW_SEC]!;
  }

  /** Whether a flush_all hides the item: its id is older than the flush. */
  isFlushed(item: ItemRef): boolean {
    const flushHigh = this.memory.control[CONTROL.FLUSH_HIGH]!;
    const flushLow = this.memory.control[CONTROL.FLUSH_LOW]!;
    if ((flushHigh | flushLow) === 0) return false;
    const high = this.items.ownIdHigh(item);
    if (high !== flushHigh) return high < flushHigh;
    return this.items.ownIdLow(item) >>> 0 < flushLow >>> 0;
  }

  /** Whether the item is expired or flushed, and not locked: a locked item stays until it is unlocked. */
  isDead(item: ItemRef): boolean {
    return (this.isExpired(item) || this.isFlushed(item)) &&
      (this.items.state(item) & (STATE.LOCKED | STATE.ABSENT | STATE.VOID)) !== STATE.LOCKED;
  }

  /** Whether a dead item stands for an absent row: it stays until it is evicted or flushed. */
  isAbsent(item: ItemRef): boolean {
    return (this.items.state(item) & STATE.ABSENT) !== 0 && !this.isFlushed(item);
  }

  /** Whether a dead item stays: it stands for an absent row, or keeps the lock of a row. */
  isKept(item: ItemRef): boolean {
    return (this.items.state(item) & STATE.LOCKED) !== 0 || this.isAbsent(item);
  }

  /** Whether an item's memory is to be given back: it is dead, and does not stay. */
  isOver(item: ItemRef): boolean {
    return this.isDead(item) && !this.isKept(item);
  }
}

/** Returns memcached's size of an item (items.h, item_make_header). Both layouts compare it with `-I`. */
export function memcachedItemBytes(
  keyLength: number,
  valueLength: number,
  hasFlags: boolean,
  casEnabled: boolean,
): number {
  return 48 + (casEnabled ? 8 : 0) + keyLength + 1 + valueLength + 2 + (hasFlags ? 4 : 0);
}
