import { Decimal } from "./arithmetic.ts";
import { ByteRegion, copyBytes } from "./bytes.ts";
import { type Change, StoreMode } from "./change.ts";
import { Eviction, EvictionCause } from "./eviction.ts";
import { Expiry } from "./expiry.ts";
import { takeId } from "./ids.ts";
import { FREQUENCY_MASK, type ItemRef, Items, NO_ITEM, STATE, WORD } from "./item.ts";
import { Links, memcachedItemBytes } from "./links.ts";
import { CONTROL, type Memory, PAGE_OWNER } from "./memory.ts";
import { Mutex } from "./mutex.ts";
import { Outcome } from "./outcome.ts";
import { PageMover } from "./page_mover.ts";
import { CLAIMED } from "./slabs.ts";
import { CLASS_STAT, STAT } from "./stats.ts";
import { Values } from "./values.ts";

// Hot path: no allocation.

/**
 * The cache: the one door to the store. Every method but `enter` wants the mutex held (`enter` … `leave`), is one uninterrupted
 * step, and returns an Outcome or an item reference that is good until the next call that may store, evict or maintain.
 * Each thread has a Cache of its own over the shared memory; it keeps nothing of its own but scratch space.
 */
export class Cache {
  readonly memory: Memory;
  readonly items: Items;
  readonly links: Links;
  readonly #control: Int32Array;
  readonly #counters: Float64Array;
  readonly #mutex: Mutex;
  readonly #eviction: Eviction;
  readonly #mover: PageMover;
  readonly #expiry: Expiry;
  readonly #values: Values;
  readonly #decimal = new Decimal();
  readonly #digits: ByteRegion;
  readonly #casEnabled: boolean;

  constructor(memory: Memory) {
    this.memory = memory;
    this.#control = memory.control;
    this.#counters = memory.counters;
    this.#mutex = new Mutex(memory);
    this.links = new Links(memory);
    this.items = this.links.items;
    this.#eviction = new Eviction(this.links);
    this.#mover = new PageMover(this.links, this.#eviction);
    this.#expiry = new Expiry(this.links, this.#eviction);
    this.#values = new Values(this.links);
    this.#digits = new ByteRegion(this.#decimal.digits.buffer);
    this.#casEnabled = memory.options.casEnabled;
  }

  /** Makes an empty store of new memory. Once, before any other thread has it. */
  static format(memory: Memory): Cache {
    const cache = new Cache(memory);
    cache.links.slabs.format();
    cache.links.index.format();
    cache.#eviction.format();
    return cache;
  }

  /** Takes the mutex; may wait for another thread's batch. */
  enter(): void {
    this.#mutex.lock();
    const flushAtSec = this.#control[CONTROL.FLUSH_AT_SEC]!;
    if (flushAtSec !== 0 && flushAtSec <= this.#control[CONTROL.NOW_SEC]!) this.flushAll(0);
  }

  leave(): void {
    this.#mutex.unlock();
  }

  // --- reading -----------------------------------------------------------------------------------

  /** The live item with this key, noted as read and counted as a get; NO_ITEM on a miss. */
  get(input: ByteRegion, keyOffset: number, keyLength: number): ItemRef {
    this.#counters[STAT.cmd_get]! += 1;
    const item = this.#findForRead(input, keyOffset, keyLength);
    if (item === NO_ITEM) {
      this.#counters[STAT.get_misses]! += 1;
      return NO_ITEM;
    }
    this.memory.countClass(this.links.slabs.classOf(item), CLASS_STAT.get_hits);
    this.#noteHit(item);
    return item;
  }

  /** As `get`, but counted as a touch, and the item lives until `deadlineSec` from now on. */
  getAndTouch(
    input: ByteRegion,
    keyOffset: number,
    keyLength: number,
    deadlineSec: number,
  ): ItemRef {
    this.#counters[STAT.cmd_touch]! += 1;
    const item = this.#findForRead(input, keyOffset, keyLength);
    if (item === NO_ITEM) {
      this.#counters[STAT.touch_misses]! += 1;
      return NO_ITEM;
    }
    this.memory.countClass(this.links.slabs.classOf(item), CLASS_STAT.touch_hits);
    this.#noteHit(item);
    this.#setDeadline(item, deadlineSec);
    return item;
  }

  /** The live item with this key; nothing is counted or noted. */
  peek(input: ByteRegion, keyOffset: number, keyLength: number): ItemRef {
    const hash = this.links.index.hash(input, keyOffset, keyLength);
    return this.#findLive(input, keyOffset, keyLength, hash);
  }

  valueLength(item: ItemRef): number {
    return this.items.word(item, WORD.VALUE_LENGTH);
  }

  /** The client's flags as an unsigned 32-bit number. */
  clientFlags(item: ItemRef): number {
    return this.items.clientFlags(item) >>> 0;
  }

  /** Lower half of the cas id; 0 under `-C`. */
  idLow(item: ItemRef): number {
    if (!this.#casEnabled) return 0;
    return this.items.state(item) & STATE.EXPLICIT_ID
      ? this.items.word(item, this.items.explicitIdWord(item))
      : this.items.word(item, WORD.ID_LOW);
  }

  idHigh(item: ItemRef): number {
    if (!this.#casEnabled) return 0;
    return this.items.state(item) & STATE.EXPLICIT_ID
      ? this.items.word(item, this.items.explicitIdWord(item) + 1)
      : this.items.word(item, WORD.ID_HIGH);
  }

  /** When the item dies, in seconds of the store's clock; 0: never. */
  deadlineSec(item: ItemRef): number {
    return this.items.word(item, WORD.DEADLINE_SEC);
  }

  /** Copies the value's bytes [at, at + length). */
  copyValue(item: ItemRef, at: number, length: number, to: ByteRegion, toOffset: number): void {
    this.#values.read(item, at, length, to, toOffset);
  }

  copyKey(item: ItemRef, to: ByteRegion, toOffset: number): void {
    const from = this.memory.segments[item >>> 27]!;
    copyBytes(to, toOffset, from, this.items.keyOffset(item), this.items.keyLength(item));
  }

  /**
   * Keeps a value's bytes while they are sent piece by piece, although the item may be replaced or deleted meanwhile.
   * Only values with a chain can be pinned; shorter ones are copied whole.
   */
  pin(item: ItemRef): boolean {
    if (!(this.items.state(item) & STATE.CHAINED)) return false;
    const word = this.items.chainWord(item) + 1;
    this.items.setWord(item, word, this.items.word(item, word) + 1);
    return true;
  }

  unpin(item: ItemRef): void {
    const word = this.items.chainWord(item) + 1;
    const pins = this.items.word(item, word) - 1;
    this.items.setWord(item, word, pins);
    if (pins === 0 && !(this.items.state(item) & STATE.LINKED)) {
      this.#values.forgetWalk();
      this.links.free(item);
    }
  }

  // --- storing -----------------------------------------------------------------------------------

  /** Whether an item of this size may be stored at all (`-I`, counted as memcached counts it). */
  fits(keyLength: number, valueLength: number, clientFlags: number): boolean {
    return memcachedItemBytes(keyLength, valueLength, clientFlags !== 0, this.#casEnabled) <=
      this.memory.options.itemSizeMaxBytes;
  }

  /**
   * Stores the value in `change` by its mode.
   *
   * @returns STORED, NOT_STORED, EXISTS, NOT_FOUND, LOCKED, TOO_LARGE or NO_MEMORY.
   */
  store(change: Change): Outcome {
    const { input, keyOffset, keyLength } = change;
    change.item = NO_ITEM;
    if (!this.fits(keyLength, change.valueLength, change.clientFlags)) {
      return this.storeRefused(change, Outcome.TOO_LARGE);
    }
    const hash = this.links.index.hash(input, keyOffset, keyLength);
    const old = this.#findLive(input, keyOffset, keyLength, hash);
    const refusal = this.#refuse(change, old);
    if (refusal !== Outcome.OK) return refusal;
    const { mode } = change;
    if (mode === StoreMode.APPEND || mode === StoreMode.PREPEND) {
      return this.#extend(change, old, hash);
    }
    if (old !== NO_ITEM && this.#overwrite(change, old)) return Outcome.STORED;
    const item = this.#allocateItem(
      input,
      keyOffset,
      keyLength,
      change.valueLength,
      change,
    );
    if (item === NO_ITEM) return this.storeRefused(change, Outcome.NO_MEMORY);
    this.#values.write(item, 0, input, change.valueOffset, change.valueLength);
    this.#countStore(change, item);
    this.#replace(change, item, hash);
    return Outcome.STORED;
  }

  /**
   * Makes room for a value that will arrive in pieces: an item in no index, with the key in it.
   *
   * @returns OK (see `change.reserved`), TOO_LARGE or NO_MEMORY; on a refusal nothing else has happened.
   */
  reserve(change: Change): Outcome {
    change.reserved = NO_ITEM;
    const { input, keyOffset, keyLength, valueLength } = change;
    if (!this.fits(keyLength, valueLength, change.clientFlags)) return Outcome.TOO_LARGE;
    change.reserved = this.#allocateItem(input, keyOffset, keyLength, valueLength, change);
    return change.reserved === NO_ITEM ? Outcome.NO_MEMORY : Outcome.OK;
  }

  /** Writes a piece of a reserved item's value. */
  fillReserved(item: ItemRef, at: number, from: ByteRegion, offset: number, length: number): void {
    this.#values.write(item, at, from, offset, length);
  }

  /** As `store`, with the value of `change.reserved`. The operation is judged now, not when it was announced. */
  commitReserved(change: Change): Outcome {
    const item = change.reserved;
    change.reserved = NO_ITEM;
    change.item = NO_ITEM;
    this.#values.forgetWalk();
    const segment = this.memory.segments[item >>> 27]!;
    const keyOffset = this.items.keyOffset(item);
    const hash = this.links.index.hashOf(item);
    const old = this.#findLive(segment, keyOffset, this.items.keyLength(item), hash);
    const refusal = this.#refuse(change, old);
    if (refusal !== Outcome.OK) {
      this.links.free(item);
      return refusal;
    }
    if (change.mode === StoreMode.APPEND || change.mode === StoreMode.PREPEND) {
      const outcome = this.#joinInto(change, old, item, hash);
      this.links.free(item);
      return outcome;
    }
    this.#countStore(change, item);
    this.#replace(change, item, hash);
    return Outcome.STORED;
  }

  /** Frees a reserved item that will never be complete. */
  abandonReserved(item: ItemRef): void {
    this.#values.forgetWalk();
    this.links.free(item);
  }

  /**
   * What happens to the old item when a store is refused for its size or for lack of memory: `set` removes it, since
   * it is out of date; the others keep it. append and prepend answer NOT_STORED.
   */
  storeRefused(change: Change, outcome: Outcome): Outcome {
    const tooLarge = outcome === Outcome.TOO_LARGE;
    this.#counters[tooLarge ? STAT.store_too_large : STAT.store_no_memory]! += 1;
    if (change.mode === StoreMode.APPEND || change.mode === StoreMode.PREPEND) {
      return Outcome.NOT_STORED;
    }
    if (change.mode === StoreMode.SET) {
      const { input, keyOffset, keyLength } = change;
      const hash = this.links.index.hash(input, keyOffset, keyLength);
      const old = this.#findLive(input, keyOffset, keyLength, hash);
      if (old !== NO_ITEM && !this.#isLockedByOther(old, change.owner)) this.#unlink(old, hash);
    }
    return outcome;
  }

  // --- other changes -----------------------------------------------------------------------------

  /** Deletes. @returns DELETED, NOT_FOUND, EXISTS (another cas id) or LOCKED. */
  remove(change: Change): Outcome {
    const { input, keyOffset, keyLength } = change;
    const hash = this.links.index.hash(input, keyOffset, keyLength);
    const item = this.#findLive(input, keyOffset, keyLength, hash);
    if (item === NO_ITEM) {
      this.#counters[STAT.delete_misses]! += 1;
      return Outcome.NOT_FOUND;
    }
    if (this.#isLockedByOther(item, change.owner)) return Outcome.LOCKED;
    if (change.compare && !this.#hasId(item, change)) return Outcome.EXISTS;
    this.memory.countClass(this.links.slabs.classOf(item), CLASS_STAT.delete_hits);
    this.#unlink(item, hash);
    return Outcome.DELETED;
  }

  /** Sets the deadline. @returns TOUCHED, NOT_FOUND or LOCKED. */
  touch(change: Change): Outcome {
    const { input, keyOffset, keyLength } = change;
    this.#counters[STAT.cmd_touch]! += 1;
    const item = this.#findForRead(input, keyOffset, keyLength);
    if (item === NO_ITEM) {
      this.#counters[STAT.touch_misses]! += 1;
      return Outcome.NOT_FOUND;
    }
    if (this.#isLockedByOther(item, change.owner)) return Outcome.LOCKED;
    this.memory.countClass(this.links.slabs.classOf(item), CLASS_STAT.touch_hits);
    this.#noteHit(item);
    this.#setDeadline(item, change.deadlineSec);
    change.item = item;
    return Outcome.TOUCHED;
  }

  /**
   * Increments or decrements a stored number by `change.deltaLow/High`; the new one is in `change.resultLow/High`.
   *
   * @returns OK, NOT_FOUND, EXISTS, NOT_NUMERIC, NO_MEMORY or LOCKED.
   */
  add(change: Change, increment: boolean): Outcome {
    const { input, keyOffset, keyLength } = change;
    const hash = this.links.index.hash(input, keyOffset, keyLength);
    const item = this.#findLive(input, keyOffset, keyLength, hash);
    change.item = item;
    if (item === NO_ITEM) {
      this.#counters[increment ? STAT.incr_misses : STAT.decr_misses]! += 1;
      return Outcome.NOT_FOUND;
    }
    if (this.#isLockedByOther(item, change.owner)) return Outcome.LOCKED;
    if (change.compare && !this.#hasId(item, change)) return Outcome.EXISTS;
    const length = this.items.word(item, WORD.VALUE_LENGTH);
    const decimal = this.#decimal;
    if (this.items.state(item) & STATE.CHAINED) return Outcome.NOT_NUMERIC;
    const valueOffset = this.items.keyOffset(item) + keyLength;
    if (!decimal.parse(this.memory.segments[item >>> 27]!, valueOffset, length)) {
      return Outcome.NOT_NUMERIC;
    }
    decimal.change(change.deltaLow, change.deltaHigh, increment);
    const digits = decimal.format();
    const classId = this.links.slabs.classOf(item);
    if (digits > length && !this.#growNumber(change, item, hash, digits)) return Outcome.NO_MEMORY;
    const target = change.item;
    this.#values.write(target, 0, this.#digits, 0, digits);
    if (digits < length) {
      const start = this.items.keyOffset(target) + keyLength;
      this.memory.segments[target >>> 27]!.bytes.fill(0x20, start + digits, start + length);
    }
    if (target === item) this.#giveId(change, item);
    this.#noteHit(target);
    this.memory.countClass(classId, increment ? CLASS_STAT.incr_hits : CLASS_STAT.decr_hits);
    change.resultLow = decimal.low;
    change.resultHigh = decimal.high;
    return Outcome.OK;
  }

  /**
   * Hides everything stored so far.
   *
   * @param atSec 0: now; else the instant at which to do it, for what has been stored until then.
   */
  flushAll(atSec: number): void {
    const control = this.#control;
    const nowSec = control[CONTROL.NOW_SEC]!;
    if (atSec > nowSec) {
      control[CONTROL.FLUSH_AT_SEC] = atSec;
      return;
    }
    control[CONTROL.FLUSH_AT_SEC] = 0;
    takeId(this.memory);
    control[CONTROL.FLUSH_LOW] = control[CONTROL.ID_LOW]!;
    control[CONTROL.FLUSH_HIGH] = control[CONTROL.ID_HIGH]!;
    control[CONTROL.OLDEST_LIVE_SEC] = nowSec;
    this.#expiry.suspectAllPages();
  }

  /** `cache_memlimit`: how many bytes may be in use from now on. What is in use stays until maintenance gives it back. */
  setMemoryLimit(bytes: number): void {
    const pages = Math.floor(bytes / this.memory.pageBytes);
    this.#control[CONTROL.MEMORY_LIMIT_PAGES] = Math.min(
      pages,
      this.#control[CONTROL.PAGE_COUNT]!,
    );
  }

  /** Releases what a connection holds. */
  releaseOwner(_owner: number): void {}

  /**
   * One slice of maintenance, at most about 200 microseconds.
   *
   * @returns Whether more is due now.
   */
  maintain(): boolean {
    if (this.links.index.needsPage()) this.#mover.freePage(PAGE_OWNER.HASH);
    const control = this.#control;
    const used = control[CONTROL.PAGE_COUNT]! - control[CONTROL.FREE_PAGE_COUNT]!;
    if (used > control[CONTROL.MEMORY_LIMIT_PAGES]!) {
      return this.#mover.freePage(PAGE_OWNER.NOBODY);
    }
    return this.#expiry.sweepSlice();
  }

  // --- private -----------------------------------------------------------------------------------

  /** The live item with this key, or NO_ITEM; a dead one is removed. */
  #findLive(input: ByteRegion, keyOffset: number, keyLength: number, hash: number): ItemRef {
    const item = this.links.index.find(input, keyOffset, keyLength, hash);
    if (item === NO_ITEM || !this.links.isDead(item)) return item;
    this.#eviction.reclaim(item);
    return NO_ITEM;
  }

  /** As `#findLive`, counting what kind of death hid the item. */
  #findForRead(input: ByteRegion, keyOffset: number, keyLength: number): ItemRef {
    const hash = this.links.index.hash(input, keyOffset, keyLength);
    const item = this.links.index.find(input, keyOffset, keyLength, hash);
    if (item === NO_ITEM || !this.links.isDead(item)) return item;
    this.#counters[this.links.isExpired(item) ? STAT.get_expired : STAT.get_flushed]! += 1;
    this.#eviction.reclaim(item);
    return NO_ITEM;
  }

  #noteHit(item: ItemRef): void {
    const state = this.items.state(item);
    const noted = Eviction.noteHit(state);
    if (noted !== state) this.items.setWord(item, WORD.STATE, noted);
    this.items.setWord(item, WORD.ACCESSED_SEC, this.#control[CONTROL.NOW_SEC]!);
  }

  #setDeadline(item: ItemRef, deadlineSec: number): void {
    this.items.setWord(item, WORD.DEADLINE_SEC, deadlineSec);
    this.links.noteDeadline(item);
  }

  /** The one gate of storing operations: OK, or why not. In this order: lock, presence, id. */
  #refuse(change: Change, old: ItemRef): Outcome {
    const { mode } = change;
    if (old === NO_ITEM) {
      if (mode === StoreMode.CAS || change.compare) {
        this.#counters[STAT.cas_misses]! += 1;
        return Outcome.NOT_FOUND;
      }
      return mode === StoreMode.SET || mode === StoreMode.ADD ? Outcome.OK : Outcome.NOT_STORED;
    }
    if (this.#isLockedByOther(old, change.owner)) return Outcome.LOCKED;
    if (mode === StoreMode.ADD) {
      this.#noteHit(old);
      return Outcome.NOT_STORED;
    }
    if (mode === StoreMode.CAS || change.compare) {
      const classId = this.links.slabs.classOf(old);
      if (!this.#hasId(old, change)) {
        this.memory.countClass(classId, CLASS_STAT.cas_badval);
        return Outcome.EXISTS;
      }
      this.memory.countClass(classId, CLASS_STAT.cas_hits);
    }
    return Outcome.OK;
  }

  #isLockedByOther(_item: ItemRef, _owner: number): boolean {
    return false;
  }

  #hasId(item: ItemRef, change: Change): boolean {
    return this.#casEnabled && this.idLow(item) === change.compareLow &&
      this.idHigh(item) === change.compareHigh;
  }

  #countStore(change: Change, item: ItemRef): void {
    this.#counters[STAT.cmd_set]! += 1;
    this.memory.countClass(this.links.slabs.classOf(item), CLASS_STAT.cmd_set);
    change.item = item;
  }

  /** Gives the item a fresh id, or the one that the client chose. */
  #giveId(change: Change, item: ItemRef): void {
    takeId(this.memory);
    this.items.setWord(item, WORD.ID_LOW, this.#control[CONTROL.ID_LOW]!);
    this.items.setWord(item, WORD.ID_HIGH, this.#control[CONTROL.ID_HIGH]!);
    if (this.items.state(item) & STATE.EXPLICIT_ID) {
      const word = this.items.explicitIdWord(item);
      this.items.setWord(item, word, change.explicitLow);
      this.items.setWord(item, word + 1, change.explicitHigh);
    }
    change.idLow = this.idLow(item);
    change.idHigh = this.idHigh(item);
  }

  /** Which optional words an item made by this change has. */
  #optionalState(change: Change): number {
    return (change.clientFlags !== 0 ? STATE.HAS_FLAGS : 0) |
      (change.explicit ? STATE.EXPLICIT_ID : 0);
  }

  /** Writes the new value over the old one if it goes into the same chunk. Keeps the place in the queue. */
  #overwrite(change: Change, old: ItemRef): boolean {
    const { slabs } = this.links;
    const state = this.items.state(old);
    const optional = this.#optionalState(change);
    const wanted = STATE.HAS_FLAGS | STATE.EXPLICIT_ID | STATE.DIRTY | STATE.CHAINED;
    if ((state & wanted) !== optional) return false;
    const bytes = this.links.itemBytes(change.keyLength, change.valueLength, state);
    if (bytes > slabs.ordinaryBytesMax) return false;
    const classId = slabs.classOf(old);
    if (slabs.classFor(bytes) !== classId) return false;
    this.memory.addRequestedBytes(classId, bytes - this.links.bytesOf(old));
    this.items.setWord(old, WORD.VALUE_LENGTH, change.valueLength);
    const keep = STATE.MAIN | STATE.LINKED | STATE.LOCKED | FREQUENCY_MASK | 0xff;
    this.items.setWord(old, WORD.STATE, (state & keep) | optional);
    if (change.clientFlags !== 0) this.items.setWord(old, 9, change.clientFlags);
    this.#values.write(old, 0, change.input, change.valueOffset, change.valueLength);
    this.#setDeadline(old, change.deadlineSec);
    this.items.setWord(old, WORD.ACCESSED_SEC, this.#control[CONTROL.NOW_SEC]!);
    this.#giveId(change, old);
    this.#countStore(change, old);
    return true;
  }

  /**
   * An unlinked item with key, deadline and flags, its value still to be written; NO_ITEM when there is no memory.
   * May evict anything.
   */
  #allocateItem(
    input: ByteRegion,
    keyOffset: number,
    keyLength: number,
    valueLength: number,
    change: Change,
  ): ItemRef {
    const { slabs } = this.links;
    let state = this.#optionalState(change) | keyLength;
    const bytes = this.links.itemBytes(keyLength, valueLength, state);
    const chained = bytes > slabs.ordinaryBytesMax;
    if (chained) state |= STATE.CHAINED;
    const item = this.#allocateChunk(chained ? slabs.largeClass : slabs.classFor(bytes));
    if (item === NO_ITEM) return NO_ITEM;
    const items = this.items;
    items.setWord(item, WORD.STATE, state | STATE.RESERVED);
    items.setWord(item, WORD.DEADLINE_SEC, change.deadlineSec);
    items.setWord(item, WORD.VALUE_LENGTH, valueLength);
    items.setWord(item, WORD.ACCESSED_SEC, this.#control[CONTROL.NOW_SEC]!);
    if (change.clientFlags !== 0) items.setWord(item, 9, change.clientFlags);
    copyBytes(
      this.memory.segments[item >>> 27]!,
      items.keyOffset(item),
      input,
      keyOffset,
      keyLength,
    );
    if (chained && !this.#allocateChain(item)) return NO_ITEM;
    return item;
  }

  /** Gives a reserved item its chunks. Frees the item and returns false when there is no memory. */
  #allocateChain(item: ItemRef): boolean {
    const items = this.items;
    const chain = items.chainWord(item);
    items.setWord(item, chain, NO_ITEM);
    items.setWord(item, chain + 1, 0);
    let last = NO_ITEM;
    for (let left = this.#values.chainLength(item); left > 0; left--) {
      const chunk = this.#allocateChunk(this.links.slabs.largeClass);
      if (chunk === NO_ITEM) {
        this.links.free(item);
        return false;
      }
      items.setWord(chunk, WORD.STATE, STATE.CONTINUATION);
      items.setWord(chunk, WORD.NEWER, item);
      items.setWord(chunk, WORD.OLDER, NO_ITEM);
      if (last === NO_ITEM) items.setWord(item, chain, chunk);
      else items.setWord(last, WORD.OLDER, chunk);
      last = chunk;
    }
    return true;
  }

  #allocateChunk(classId: number): ItemRef {
    const { slabs } = this.links;
    for (;;) {
      const chunk = slabs.allocate(classId);
      if (chunk !== NO_ITEM) {
        this.items.setWord(chunk, WORD.STATE, CLAIMED);
        return chunk;
      }
      if (!this.#makeRoom(classId)) {
        this.memory.countClass(classId, CLASS_STAT.outofmemory);
        return NO_ITEM;
      }
    }
  }

  /** Frees at least one chunk of a class, or a page. May evict anything but locked, pinned and reserved items. */
  #makeRoom(classId: number): boolean {
    this.#control[CONTROL.DISTURBED] = (this.#control[CONTROL.DISTURBED]! + 1) | 0;
    if (!this.memory.options.evictions) return this.#mover.freeSpareOf(classId);
    if (this.#mover.isDue(classId)) {
      if (this.#mover.freeSpareOf(classId) || this.#mover.moveTo(classId)) return true;
    }
    return this.#eviction.evictOne(classId, EvictionCause.ROOM) || this.#mover.freePage(classId);
  }

  /** Links a filled item in place of whatever has its key now. */
  #replace(change: Change, item: ItemRef, hash: number): void {
    const items = this.items;
    const segment = this.memory.segments[item >>> 27]!;
    const keyLength = items.keyLength(item);
    const old = this.links.index.find(segment, items.keyOffset(item), keyLength, hash);
    if (old !== NO_ITEM) {
      // A new value for a known key keeps what is known of how often the key is read.
      const kept = items.state(old) & (STATE.MAIN | STATE.LOCKED | FREQUENCY_MASK);
      this.#unlink(old, hash);
      items.addState(item, kept);
    } else {
      this.#eviction.place(item, hash);
    }
    this.#giveId(change, item);
    this.links.link(item, hash);
    change.item = item;
  }

  #unlink(item: ItemRef, hash: number): void {
    this.links.unlink(item, hash);
  }

  /** append and prepend with the value still in the input. */
  #extend(change: Change, old: ItemRef, hash: number): Outcome {
    if (change.mode === StoreMode.APPEND && this.#appendInPlace(change, old)) {
      return Outcome.STORED;
    }
    const oldLength = this.items.word(old, WORD.VALUE_LENGTH);
    const item = this.#allocateJoined(change, old, oldLength + change.valueLength);
    if (item === NO_ITEM) return Outcome.NOT_STORED;
    const current = this.#findLive(change.input, change.keyOffset, change.keyLength, hash);
    if (current === NO_ITEM) {
      // Making room evicted the very item that was to be extended.
      this.links.free(item);
      return Outcome.NOT_STORED;
    }
    const append = change.mode === StoreMode.APPEND;
    this.#values.copyInto(item, append ? 0 : change.valueLength, current);
    this.#values.write(
      item,
      append ? oldLength : 0,
      change.input,
      change.valueOffset,
      change.valueLength,
    );
    this.#countStore(change, item);
    this.#replace(change, item, hash);
    return Outcome.STORED;
  }

  /** append and prepend with the value in a reserved item, which the caller frees. */
  #joinInto(change: Change, old: ItemRef, piece: ItemRef, hash: number): Outcome {
    const pieceLength = this.items.word(piece, WORD.VALUE_LENGTH);
    const oldLength = this.items.word(old, WORD.VALUE_LENGTH);
    const keyLength = this.items.keyLength(piece);
    const item = this.#allocateJoined(change, old, oldLength + pieceLength, piece);
    if (item === NO_ITEM) return Outcome.NOT_STORED;
    const segment = this.memory.segments[piece >>> 27]!;
    const current = this.#findLive(segment, this.items.keyOffset(piece), keyLength, hash);
    if (current === NO_ITEM) {
      this.links.free(item);
      return Outcome.NOT_STORED;
    }
    const append = change.mode === StoreMode.APPEND;
    this.#values.copyInto(item, append ? 0 : pieceLength, current);
    this.#values.copyInto(item, append ? oldLength : 0, piece);
    this.#values.forgetWalk();
    this.#countStore(change, item);
    this.#replace(change, item, hash);
    return Outcome.STORED;
  }

  /** A new item for a longer value, with the old one's flags and deadline. */
  #allocateJoined(
    change: Change,
    old: ItemRef,
    valueLength: number,
    keyFrom: ItemRef = NO_ITEM,
  ): ItemRef {
    const flags = this.items.clientFlags(old);
    const keyLength = this.items.keyLength(old);
    if (!this.fits(keyLength, valueLength, flags)) return NO_ITEM;
    change.clientFlags = flags;
    change.deadlineSec = this.items.word(old, WORD.DEADLINE_SEC);
    if (keyFrom === NO_ITEM) {
      return this.#allocateItem(
        change.input,
        change.keyOffset,
        keyLength,
        valueLength,
        change,
      );
    }
    const segment = this.memory.segments[keyFrom >>> 27]!;
    return this.#allocateItem(
      segment,
      this.items.keyOffset(keyFrom),
      keyLength,
      valueLength,
      change,
    );
  }

  /** Appends behind the value if its chunk has the room. */
  #appendInPlace(change: Change, old: ItemRef): boolean {
    const { slabs } = this.links;
    const state = this.items.state(old);
    const optional = STATE.CHAINED | STATE.EXPLICIT_ID | STATE.DIRTY;
    if (change.explicit || (state & optional) !== 0) return false;
    const oldLength = this.items.word(old, WORD.VALUE_LENGTH);
    const length = oldLength + change.valueLength;
    const bytes = this.links.itemBytes(change.keyLength, length, state);
    const classId = slabs.classOf(old);
    if (bytes > slabs.chunkBytes(classId)) return false;
    if (!this.fits(change.keyLength, length, this.items.clientFlags(old))) return false;
    this.#values.write(old, oldLength, change.input, change.valueOffset, change.valueLength);
    this.memory.addRequestedBytes(classId, change.valueLength);
    this.items.setWord(old, WORD.VALUE_LENGTH, length);
    this.items.dropState(old, STATE.FETCHED | STATE.STALE | STATE.WON);
    this.#giveId(change, old);
    this.#countStore(change, old);
    return true;
  }

  /** Makes room for a number that became longer. False when there is no memory. */
  #growNumber(change: Change, item: ItemRef, hash: number, digits: number): boolean {
    change.mode = StoreMode.SET;
    const longer = this.#allocateJoined(change, item, digits);
    if (longer === NO_ITEM) return false;
    this.#replace(change, longer, hash);
    return true;
  }
}
