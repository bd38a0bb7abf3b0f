import { u64ToNumber } from "./base/u64.ts";
import { ByteRegion, equalBytes, isOneWord, latin1Text } from "./base/bytes.ts";
import { type TokenView, viewToken } from "./claims/token_view.ts";
import { NO_TOKEN, type UpdateTokens } from "./claims/update_tokens.ts";
import { type Leases, NO_LEASE } from "./claims/leases.ts";
import type { Locks } from "./claims/locks.ts";
import type { ItemLinks } from "./items/item_links.ts";
import { walkItems, walkQueues } from "./items/item_walk.ts";
import { KeyWalk } from "./items/key_walk.ts";
import { KEY_LENGTH_MAX } from "./limits.ts";
import { type HotKeyList, SAMPLE_EVERY } from "./memory/hot_keys.ts";
import { type ItemRef, NO_ITEM, STATE, WORD } from "./memory/item.ts";
import {
  CLASS,
  CLASSES_MAX,
  CONTROL,
  journalRow,
  type Memory,
  PAGE,
  PAGE_OWNER,
  SUM,
  threadRowCount,
} from "./memory/memory.ts";
import { WATCH_RING_BYTES } from "./memory/watch_layout.ts";
import { CLASS_STAT, STAT, THREAD_STAT } from "./stats.ts";

/** A lease, as lists show it. */
interface LeaseView {
  /** Bytes as characters below 256. */
  readonly key: string;
  readonly idLow: number;
  readonly idHigh: number;
  /** Whole seconds. */
  readonly remainSec: number;
}

/**
 * The store as statistics, dumps and lists see it: it changes nothing but the statistics that
 * `resetStats` clears. Everything wants the mutex held.
 */
export class Inspector {
  readonly #memory: Memory;
  readonly #links: ItemLinks;
  readonly #locks: Locks;
  readonly #leases: Leases;
  readonly #tokens: UpdateTokens;

  constructor(links: ItemLinks, locks: Locks, leases: Leases, tokens: UpdateTokens) {
    this.#memory = links.memory;
    this.#links = links;
    this.#locks = locks;
    this.#leases = leases;
    this.#tokens = tokens;
  }

  // --- statistics --------------------------------------------------------------------------------

  /** A statistic summed over all threads. */
  stat(name: keyof typeof STAT): number {
    return this.#memory.stat(STAT[name]);
  }

  /** A word of the control buffer: sizes and states. */
  control(name: keyof typeof CONTROL): number {
    return this.#memory.control[CONTROL[name]]!;
  }

  /** A statistic of one slab class, summed over all threads. */
  classStat(classId: number, name: keyof typeof CLASS_STAT): number {
    return this.#memory.classStat(classId, CLASS_STAT[name]);
  }

  /** A statistic summed over all slab classes. */
  sumOfClasses(name: keyof typeof CLASS_STAT): number {
    let sum = 0;
    for (let classId = 0; classId < CLASSES_MAX; classId++) sum += this.classStat(classId, name);
    return sum;
  }

  /** A word of a class's row: sizes and states. */
  classWord(classId: number, name: keyof typeof CLASS): number {
    return this.#memory.classes[classId * CLASS.WORDS + CLASS[name]]!;
  }

  /** The sizes of a class's items, in bytes. */
  requestedBytes(classId: number): number {
    return this.#memory.requestedBytes(classId);
  }

  /** The sizes of all items, in bytes. */
  get itemBytes(): number {
    return this.#memory.sums[SUM.ITEM_BYTES]!;
  }

  /** Memory of items that are reserved for values still arriving. */
  get reservedBytes(): number {
    return this.#memory.sums[SUM.RESERVED_BYTES]!;
  }

  /** For how many seconds the oldest item of a class's queue has not been read; 0 when it is empty. */
  oldestIdleSec(classId: number, main: boolean): number {
    const item = this.#links.queues.oldest(classId, main);
    if (item === NO_ITEM) return 0;
    return this.control("NOW_SEC") - this.#links.items.word(item, WORD.ACCESSED_SEC);
  }

  /** How many pages a table of the store has. */
  pagesOf(owner: keyof typeof PAGE_OWNER): number {
    const { pages } = this.#memory;
    let count = 0;
    for (let page = 0; page < this.control("PAGES_EVER_USED"); page++) {
      if (pages[page * PAGE.WORDS + PAGE.CLASS] === PAGE_OWNER[owner]) count++;
    }
    return count;
  }

  get pageBytes(): number {
    return this.#memory.pageBytes;
  }

  get freePages(): number {
    return this.#links.slabs.freePages;
  }

  /** The largest chunk of the ordinary classes, in bytes. */
  get chunkBytesMax(): number {
    return this.#links.slabs.ordinaryBytesMax;
  }

  get isHashGrowing(): boolean {
    return this.#links.index.isGrowing;
  }

  get watcherCount(): number {
    return this.#links.watchLog.count;
  }

  /** Of one watcher's buffer, in bytes. */
  get watchRingBytes(): number {
    return this.#memory.options.watchRingBytes ?? WATCH_RING_BYTES;
  }

  get lockedBytes(): number {
    return this.#locks.lockedBytes;
  }

  get lockCount(): number {
    return this.#locks.count;
  }

  /** Connections that wait for a lock. */
  get lockWaiterCount(): number {
    return this.#locks.waiters.count;
  }

  /** Returns the thread number of the journal of update tokens, or -1 without a journal. */
  get journalThread(): number {
    const { options } = this.#memory;
    return options.tokenPersistence === "journal" ? journalRow(options) : -1;
  }

  /** Threads with statistics: the last one is maintenance. */
  get threadCount(): number {
    return threadRowCount(this.#memory.options);
  }

  /** The keys of the most requests, of all threads. */
  get hotKeys(): HotKeyList {
    return this.#memory.hotKeys.read();
  }

  /** Requests of which one is sampled for `hotKeys`, on average. */
  get requestsPerSample(): number {
    return SAMPLE_EVERY;
  }

  /** A statistic of one thread. */
  threadStat(threadIndex: number, name: keyof typeof THREAD_STAT): number {
    return this.#memory.threadStat(threadIndex, THREAD_STAT[name]);
  }

  /** Sets every statistic to 0. Sizes and states stay. */
  resetStats(): void {
    this.#memory.resetStats();
    this.#memory.hotKeys.reset();
  }

  // --- items -------------------------------------------------------------------------------------

  /** The key's bytes as characters below 256. */
  key(item: ItemRef): string {
    return this.#links.watch.keyOf(item);
  }

  keyStartsWith(item: ItemRef, prefix: ByteRegion): boolean {
    const { items } = this.#links;
    const { length } = prefix.bytes;
    if (items.keyLength(item) < length) return false;
    return equalBytes(prefix, 0, this.#memory.segmentOf(item), items.keyOffset(item), length);
  }

  /** Whether a key has no blank and no control character. */
  isKeyOneWord(item: ItemRef): boolean {
    const { items } = this.#links;
    const start = items.keyOffset(item);
    return isOneWord(this.#memory.segmentOf(item).bytes, start, start + items.keyLength(item));
  }

  /** Whether meta commands write the key in base64. */
  isKeyBinary(item: ItemRef): boolean {
    return (this.#links.items.state(item) & STATE.KEY_BINARY) !== 0;
  }

  wasFetched(item: ItemRef): boolean {
    return (this.#links.items.state(item) & STATE.FETCHED) !== 0;
  }

  /** Its size as the layout counts it. */
  bytes(item: ItemRef): number {
    return this.#links.bytesOf(item);
  }

  classOf(item: ItemRef): number {
    return this.#links.slabs.classOf(item);
  }

  /** When the item was last read, on the store's clock. */
  accessedSec(item: ItemRef): number {
    return this.#links.items.word(item, WORD.ACCESSED_SEC);
  }

  /** See `walkItems`. */
  walkItems(
    classes: ReadonlySet<number> | null,
    visit: (item: ItemRef, classId: number) => void,
  ): Generator<void> {
    return walkItems(this.#links, classes, visit);
  }

  /** See `walkQueues`. */
  walkQueues(classId: number, visit: (item: ItemRef) => void): Generator<void> {
    return walkQueues(this.#links, classId, visit);
  }

  walkKeys(): KeyWalk {
    return new KeyWalk(this.#links);
  }

  // --- leases ------------------------------------------------------------------------------------

  get leaseBucketCount(): number {
    return this.#leases.table.bucketCount;
  }

  /** Calls `visit` with the leases that clients hold in the buckets [start, end). */
  visitLeases(start: number, end: number, visit: (lease: LeaseView) => void): void {
    const leases = this.#leases;
    const { table } = leases;
    const key = new ByteRegion(new ArrayBuffer(KEY_LENGTH_MAX));
    for (let bucket = start; bucket < end; bucket++) {
      let lease = table.head(bucket);
      for (; lease !== NO_LEASE; lease = table.next(lease)) {
        if (!leases.isHeldNow(lease) || !leases.isHeldByClient(lease)) continue;
        leases.copyKey(lease, key, 0);
        visit({
          key: latin1Text(key.bytes, 0, leases.keyLength(lease)),
          idLow: leases.idLow(lease),
          idHigh: leases.idHigh(lease),
          remainSec: leases.remainSec(lease),
        });
      }
    }
  }

  get tokenBucketCount(): number {
    return this.#tokens.table.bucketCount;
  }

  /** Update tokens that are out. */
  get tokenCount(): number {
    return this.#tokens.table.count;
  }

  /** Returns the age of the oldest update token in seconds; 0 without tokens. */
  get oldestTokenAgeSec(): number {
    const { oldest } = this.#tokens;
    return oldest === NO_TOKEN ? 0 : this.#tokens.ageSec(oldest);
  }

  get isQuarantined(): boolean {
    return this.#tokens.isQuarantined;
  }

  /**
   * Visits update tokens, the oldest first, except pending ones.
   *
   * @param afterId Only tokens with a higher id: ids only grow.
   * @param most How many at most.
   * @returns How many tokens were passed over.
   */
  visitTokensAfter(afterId: number, most: number, visit: (token: TokenView) => void): number {
    const tokens = this.#tokens;
    let passed = 0;
    let visited = 0;
    for (let token = tokens.oldest; token !== NO_TOKEN && visited < most;) {
      const id = u64ToNumber(tokens.idLow(token), tokens.idHigh(token));
      if (id <= afterId || tokens.isPending(token)) passed++;
      else {
        visit(viewToken(tokens, token));
        visited++;
      }
      token = tokens.newer(token);
    }
    return passed;
  }

  /** Visits the update tokens of the buckets [start, end), except pending ones. */
  visitTokens(start: number, end: number, visit: (token: TokenView) => void): void {
    const tokens = this.#tokens;
    const { table } = tokens;
    for (let bucket = start; bucket < end; bucket++) {
      for (let token = table.head(bucket); token !== NO_TOKEN; token = table.next(token)) {
        if (!tokens.isPending(token)) visit(viewToken(tokens, token));
      }
    }
  }
}
