import type { ReplayTarget } from "./replay.ts";

/**
 * Plain caches to compare the store with: one heap of bytes without pages or classes, in which an
 * item takes its key, its value and `overheadBytes`. So they show what the policy does, not what
 * the memory layout costs.
 */
const NONE = -1;

/** State of every key, by key number. Grows with the keys. */
class Entries {
  bytes = new Int32Array(0);
  deadlineMs = new Float64Array(0);
  newer = new Int32Array(0);
  older = new Int32Array(0);
  mark = new Uint8Array(0);

  reach(key: number): void {
    if (key < this.bytes.length) return;
    const length = Math.max(key + 1, this.bytes.length * 2, 1 << 16);
    this.bytes = grown(this.bytes, new Int32Array(length));
    this.deadlineMs = grown(this.deadlineMs, new Float64Array(length));
    this.newer = grown(this.newer, new Int32Array(length));
    this.older = grown(this.older, new Int32Array(length));
    this.mark = grown(this.mark, new Uint8Array(length));
  }
}

function grown<A extends { set(from: A): void }>(from: A, to: A): A {
  to.set(from);
  return to;
}

/** A doubly linked list through the entries. */
class List {
  newest = NONE;
  oldest = NONE;
  bytes = 0;
  readonly #entries: Entries;

  constructor(entries: Entries) {
    this.#entries = entries;
  }

  push(key: number): void {
    const { newer, older, bytes } = this.#entries;
    older[key] = this.newest;
    newer[key] = NONE;
    if (this.newest !== NONE) newer[this.newest] = key;
    else this.oldest = key;
    this.newest = key;
    this.bytes += bytes[key]!;
  }

  remove(key: number): void {
    const { newer, older, bytes } = this.#entries;
    if (newer[key] !== NONE) older[newer[key]!] = older[key]!;
    else this.newest = older[key]!;
    if (older[key] !== NONE) newer[older[key]!] = newer[key]!;
    else this.oldest = newer[key]!;
    this.bytes -= bytes[key]!;
  }
}

/** Base of the policies: sizes, expiry, and the loop that makes room. An entry of 0 bytes is not cached. */
abstract class ByteHeap implements ReplayTarget {
  protected readonly entries = new Entries();
  protected readonly limitBytes: number;
  readonly #overheadBytes: number;
  protected usedBytes = 0;
  items = 0;
  evictions = 0;
  #now = 0;

  constructor(limitBytes: number, overheadBytes: number) {
    this.limitBytes = limitBytes;
    this.#overheadBytes = overheadBytes;
  }

  tick(milliseconds: number): void {
    this.#now = milliseconds;
  }

  get(key: number): boolean {
    const { entries } = this;
    entries.reach(key);
    if (entries.bytes[key] === 0) return false;
    if (entries.deadlineMs[key]! <= this.#now) {
      this.#drop(key);
      return false;
    }
    this.hit(key);
    return true;
  }

  set(key: number, keySize: number, valueSize: number, ttlSeconds: number): boolean {
    const { entries } = this;
    entries.reach(key);
    if (entries.bytes[key] !== 0) this.#drop(key);
    const bytes = this.itemBytes(keySize, valueSize);
    entries.bytes[key] = bytes;
    entries.deadlineMs[key] = ttlSeconds === 0 ? Infinity : this.#now + ttlSeconds * 1000;
    while (!this.fits(bytes)) {
      const victim = this.victim(bytes);
      if (victim === NONE) {
        entries.bytes[key] = 0;
        return false;
      }
      this.#drop(victim);
      this.evictions++;
    }
    this.usedBytes += bytes;
    this.items++;
    this.link(key);
    return true;
  }

  protected itemBytes(keySize: number, valueSize: number): number {
    return keySize + valueSize + this.#overheadBytes;
  }

  protected fits(bytes: number): boolean {
    return this.usedBytes + bytes <= this.limitBytes;
  }

  #drop(key: number): void {
    this.unlink(key);
    this.usedBytes -= this.entries.bytes[key]!;
    this.entries.bytes[key] = 0;
    this.items--;
  }

  protected abstract hit(key: number): void;
  protected abstract link(key: number): void;
  protected abstract unlink(key: number): void;
  /** Returns the key to evict for an item of `bytes` bytes, or NONE. */
  protected abstract victim(bytes: number): number;
}

export class Lru extends ByteHeap {
  readonly #list = new List(this.entries);

  protected hit(key: number): void {
    this.#list.remove(key);
    this.#list.push(key);
  }

  protected link(key: number): void {
    this.#list.push(key);
  }

  protected unlink(key: number): void {
    this.#list.remove(key);
  }

  protected victim(): number {
    return this.#list.oldest;
  }
}

/** First in, first out: reads change nothing. */
export class Fifo extends Lru {
  protected override hit(): void {}
}

/** CLOCK with a counter of 0..3: an item that was read goes round again, once per read it counts. */
export class Clock extends ByteHeap {
  readonly #list = new List(this.entries);

  protected hit(key: number): void {
    this.entries.mark[key] = Math.min(3, this.entries.mark[key]! + 1);
  }

  protected link(key: number): void {
    this.entries.mark[key] = 0;
    this.#list.push(key);
  }

  protected unlink(key: number): void {
    this.#list.remove(key);
  }

  protected victim(): number {
    const { mark } = this.entries;
    for (;;) {
      const key = this.#list.oldest;
      if (key === NONE || mark[key] === 0) return key;
      mark[key]! -= 1;
      this.#list.remove(key);
      this.#list.push(key);
    }
  }
}

/** SIEVE (Zhang et al., NSDI 2024): items keep their place; a hand moves from old to new. */
export class Sieve extends ByteHeap {
  readonly #list = new List(this.entries);
  #hand = NONE;

  protected hit(key: number): void {
    this.entries.mark[key] = 1;
  }

  protected link(key: number): void {
    this.entries.mark[key] = 0;
    this.#list.push(key);
  }

  protected unlink(key: number): void {
    if (this.#hand === key) this.#hand = this.entries.newer[key]!;
    this.#list.remove(key);
  }

  protected victim(): number {
    const { mark, newer } = this.entries;
    if (this.#list.oldest === NONE) return NONE;
    let key = this.#hand === NONE ? this.#list.oldest : this.#hand;
    while (mark[key] !== 0) {
      mark[key] = 0;
      key = newer[key] === NONE ? this.#list.oldest : newer[key]!;
    }
    this.#hand = newer[key]!;
    return key;
  }
}

/** S3-FIFO (Yang et al., SOSP 2023) over all bytes at once: what the store's own policy would do without classes. */
export class S3Fifo extends ByteHeap {
  readonly #small = new List(this.entries);
  readonly #main = new List(this.entries);
  readonly #inMain = new Set<number>();
  readonly #ghost = new Set<number>();

  protected hit(key: number): void {
    this.entries.mark[key] = Math.min(3, this.entries.mark[key]! + 1);
  }

  protected link(key: number): void {
    this.entries.mark[key] = 0;
    if (this.#ghost.delete(key)) {
      this.#inMain.add(key);
      this.#main.push(key);
    } else {
      this.#small.push(key);
    }
  }

  protected unlink(key: number): void {
    if (this.#inMain.delete(key)) this.#main.remove(key);
    else this.#small.remove(key);
  }

  protected victim(): number {
    const { mark } = this.entries;
    for (;;) {
      const fromMain = this.#small.bytes * 10 <= this.limitBytes && this.#main.oldest !== NONE;
      const queue = fromMain ? this.#main : this.#small;
      const key = queue.oldest;
      if (key === NONE) return NONE;
      if (mark[key] === 0) {
        if (!fromMain) this.#remember(key);
        return key;
      }
      mark[key] = fromMain ? mark[key]! - 1 : 0;
      queue.remove(key);
      this.#inMain.add(key);
      this.#main.push(key);
    }
  }

  #remember(key: number): void {
    this.#ghost.add(key);
    if (this.#ghost.size <= this.items) return;
    for (const oldest of this.#ghost) {
      this.#ghost.delete(oldest);
      break;
    }
  }
}

const MIB = 1024 * 1024;
const PAGE_SHARE = 0.5;

/**
 * memcached's own memory: pages of 1 MiB, classes 1.25 apart, 59 bytes beside key and value, a hot,
 * a warm and a cold queue in each class, pages staying where they went first (its page mover works
 * by the clock and does nothing in a replay's seconds).
 */
export class Segments extends ByteHeap {
  readonly #sizes: number[] = [];
  readonly #pages: number[] = [];
  readonly #chunksUsed: number[] = [];
  readonly #queues: { hot: List; warm: List; cold: List }[] = [];
  readonly #queueOf: List[] = [];
  readonly #classOf: number[] = [];
  #pagesLeft: number;

  constructor(limitBytes: number) {
    super(limitBytes, 59);
    this.#pagesLeft = Math.floor(limitBytes / MIB);
    for (let size = 96; size < MIB * PAGE_SHARE / 1.25; size = (Math.floor(size * 1.25) + 7) & ~7) {
      this.#sizes.push(size);
    }
    this.#sizes.push(MIB * PAGE_SHARE);
    for (const _size of this.#sizes) {
      this.#pages.push(0);
      this.#chunksUsed.push(0);
      const { entries } = this;
      this.#queues.push({
        hot: new List(entries),
        warm: new List(entries),
        cold: new List(entries),
      });
    }
  }

  protected hit(key: number): void {
    const queues = this.#queues[this.#classOf[key]!]!;
    const queue = this.#queueOf[key]!;
    const { mark } = this.entries;
    if (mark[key] === 0) mark[key] = 1;
    else if (queue === queues.cold) this.#move(key, queues.warm);
  }

  #move(key: number, to: List): void {
    this.#queueOf[key]!.remove(key);
    to.push(key);
    this.#queueOf[key] = to;
  }

  protected link(key: number): void {
    const classId = this.#class(this.entries.bytes[key]!);
    this.#classOf[key] = classId;
    this.#queueOf[key] = this.#queues[classId]!.hot;
    this.#queueOf[key]!.push(key);
    this.entries.mark[key] = 0;
    this.#chunksUsed[classId]! += this.#chunks(this.entries.bytes[key]!, classId);
  }

  protected unlink(key: number): void {
    const classId = this.#classOf[key]!;
    this.#queueOf[key]!.remove(key);
    this.#chunksUsed[classId]! -= this.#chunks(this.entries.bytes[key]!, classId);
  }

  #class(bytes: number): number {
    const classId = this.#sizes.findIndex((size) => bytes <= size);
    return classId < 0 ? this.#sizes.length - 1 : classId;
  }

  #chunks(bytes: number, classId: number): number {
    return Math.ceil(bytes / this.#sizes[classId]!);
  }

  protected override fits(bytes: number): boolean {
    const classId = this.#class(bytes);
    const wanted = this.#chunksUsed[classId]! + this.#chunks(bytes, classId);
    const perPage = Math.floor(MIB / this.#sizes[classId]!);
    while (wanted > this.#pages[classId]! * perPage) {
      // A class without a page may have its first beyond the limit (slabs.c).
      if (this.#pagesLeft <= 0 && this.#pages[classId] !== 0) return false;
      this.#pagesLeft--;
      this.#pages[classId]! += 1;
    }
    return true;
  }

  protected victim(bytes: number): number {
    const { hot, warm, cold } = this.#queues[this.#class(bytes)]!;
    this.#trim(hot, warm, cold, 0.2, hot);
    this.#trim(warm, warm, cold, 0.4, hot);
    for (let looks = 0; looks < 5; looks++) {
      const key = cold.oldest;
      if (key === NONE) break;
      if (this.entries.mark[key] === 0) return key;
      this.entries.mark[key] = 0;
      this.#move(key, warm);
    }
    if (cold.oldest !== NONE) return cold.oldest;
    return hot.oldest !== NONE ? hot.oldest : warm.oldest;
  }

  /** Shrinks a queue that is too long: items that were read move to warm, the rest to cold. */
  #trim(queue: List, active: List, idle: List, share: number, hot: List): void {
    const total = hot.bytes + active.bytes + idle.bytes;
    for (let looks = 0; looks < 5 && queue.bytes > total * share; looks++) {
      const key = queue.oldest;
      if (key === NONE) return;
      const read = this.entries.mark[key] !== 0;
      this.entries.mark[key] = 0;
      this.#move(key, read ? active : idle);
    }
  }
}
