import { assert, assertEquals } from "@std/assert";
import { Operation, StoreMode } from "../../../store/operation.ts";
import { type ItemRef, NO_ITEM, STATE } from "../../../store/memory/item.ts";
import { CLASS, CONTROL } from "../../../store/memory/memory.ts";
import { Outcome } from "../../../store/outcome.ts";
import { randomFrom } from "../random.ts";
import { type ChangedOptions, held, keyIn, movePage, TestStore } from "../store.ts";

const { SET, ADD, REPLACE, APPEND, PREPEND } = StoreMode;
const OWNERS = 4;
/** Keys with update tokens at a time. */
const TOKENS_MAX = 20;
/** Pages that a class may have received by moves and not used. */
const EMPTY_PAGES_MAX = 20;

export interface ChaosRanges {
  readonly keys: number;
  /** Most values are at most this long, */
  readonly valueLengthMax: number;
  /** and a few up to this. */
  readonly longLengthMax: number;
  readonly operations: number;
  /** Operations between two walks through the whole store. */
  readonly checkEvery: number;
  /** Lowers and raises the memory limit. */
  readonly memoryLimit?: boolean;
}

/** The values that a key may hold if it is found. */
interface Known {
  bytes: Uint8Array;
  deadlineSec: number;
  /** Hidden by a flush; for one that is locked, from when it is unlocked. */
  flushed: boolean;
}

interface UnderWay {
  readonly item: ItemRef;
  readonly key: string;
  readonly bytes: Uint8Array;
  done: number;
}

/**
 * Random operations on a store, with values sent and received piece by piece meanwhile, pages
 * moved, time passing; everything that is read is compared with what was written, and everything
 * the store is made of must agree.
 */
export class StoreChaos {
  readonly store: TestStore;
  readonly #ranges: ChaosRanges;
  readonly #random: () => number;
  readonly #known = new Map<string, Known>();
  readonly #locked = new Map<string, number>();
  /** Ids of the update tokens that are out, by key. */
  readonly #tokens = new Map<string, number[]>();
  readonly #receiving: UnderWay[] = [];
  readonly #sending: UnderWay[] = [];
  #nowSec = 0;
  #version = 0;

  constructor(seed: number, options: ChangedOptions, ranges: ChaosRanges) {
    this.store = new TestStore(options);
    this.#ranges = ranges;
    this.#random = randomFrom(seed);
  }

  run(): void {
    const { operations, checkEvery } = this.#ranges;
    for (let count = 1; count <= operations; count++) {
      this.#step();
      if (count % checkEvery === 0) this.store.check();
    }
    for (const { item } of this.#receiving) this.store.cache.reserved.abandon(item);
    for (const { item } of this.#sending) this.store.cache.unpin(item);
    for (let owner = 1; owner <= OWNERS; owner++) this.store.cache.releaseOwner(owner);
    this.store.check();
    this.#drain();
  }

  /** After a flush and its sweep nothing is left, and every page is in the pool but those of the tables. */
  #drain(): void {
    const { cache, memory } = this.store;
    cache.setMemoryLimit(memory.options.memoryLimitBytes);
    cache.flushAll(0);
    for (let second = 0; second < 1000 && memory.control[CONTROL.ITEM_COUNT]! > 0; second++) {
      this.#advance(1);
      while (cache.maintain());
    }
    this.store.check();
    assertEquals(memory.control[CONTROL.ITEM_COUNT], 0, "everything is swept");
    while (cache.maintain());
    for (let classId = 1; classId <= cache.links.slabs.classCount; classId++) {
      const row = classId * CLASS.WORDS;
      assertEquals(memory.classes[row + CLASS.USED], 0, "no chunk is in use");
      // One that came by a move and was not used yet stays.
      assert(memory.classes[row + CLASS.PAGES]! <= EMPTY_PAGES_MAX, "an empty page is given back");
    }
  }

  #below(bound: number): number {
    return Math.floor(this.#random() * bound);
  }

  #key(): string {
    const { keys } = this.#ranges;
    const key = this.#below(this.#random() < 0.6 ? Math.ceil(keys / 10) : keys);
    return `key-${key}`.padEnd(4 + key % 40, "k");
  }

  #value(): Uint8Array {
    const { valueLengthMax, longLengthMax } = this.#ranges;
    const long = this.#random() < 0.05;
    const bytes = new Uint8Array(this.#below(1 + (long ? longLengthMax : valueLengthMax)));
    const version = ++this.#version;
    for (let at = 0; at < bytes.length; at++) {
      bytes[at] = (at * 31 + version * 7 + (at >> 8)) & 0xff;
    }
    return bytes;
  }

  #deadline(): number {
    const now = this.store.memory.control[CONTROL.NOW_SEC]!;
    return this.#random() < 0.7 ? 0 : now + 1 + this.#below(40);
  }

  #step(): void {
    const choice = this.#random();
    if (choice < 0.3) this.#set(SET);
    else if (choice < 0.34) this.#set(ADD);
    else if (choice < 0.38) this.#set(REPLACE);
    else if (choice < 0.44) this.#join();
    else if (choice < 0.65) this.#read(this.#key());
    else if (choice < 0.69) this.#remove();
    else if (choice < 0.72) this.#touch();
    else if (choice < 0.76) this.#lockOrUnlock();
    else if (choice < 0.8) this.#beginReceiving();
    else if (choice < 0.87) this.#receive();
    else if (choice < 0.92) this.#send();
    else this.#stepRarely(choice);
  }

  #stepRarely(choice: number): void {
    const { cache } = this.store;
    if (choice < 0.95) {
      cache.maintain();
    } else if (choice < 0.955) {
      const { classCount } = cache.links.slabs;
      held(
        cache,
        () => movePage(cache, this.#below(classCount + 2) - 1, this.#below(classCount + 1)),
      );
    } else if (choice < 0.96) {
      this.#advance(1 + this.#below(3));
    } else if (choice < 0.9605) {
      cache.flushAll(0);
      for (const known of this.#known.values()) known.flushed = true;
    } else if (choice < 0.962 && this.#ranges.memoryLimit) {
      const { memoryLimitBytes } = this.store.memory.options;
      cache.setMemoryLimit(memoryLimitBytes * (0.5 + this.#random()));
    } else if (choice < 0.97) {
      for (let slices = 0; slices < 20 && cache.maintain(); slices++);
    } else if (choice < 0.99) {
      if (this.#random() < 0.5) this.#getToken();
      else this.#endToken();
    } else {
      this.#read(this.#key());
    }
  }

  /** Takes an update token. Few are out at a time, so that other operations find something. */
  #getToken(): void {
    if (this.#tokens.size >= TOKENS_MAX) return;
    const key = this.#key();
    const owner = 1 + this.#below(OWNERS);
    const isLockedByOther = this.#isLocked(key) && this.#locked.get(key) !== owner;
    const token = this.store.token(key, `${this.#below(3)}`, { owner });
    assertEquals(token === Outcome.LOCKED, isLockedByOther, "only a lock refuses a token");
    if (token === Outcome.LOCKED) return;
    const ids = this.#tokens.get(key) ?? [];
    if (!ids.includes(token)) this.#tokens.set(key, [...ids, token]);
    this.#known.delete(key);
    this.#locked.delete(key);
  }

  /** Releases or drops a token; sometimes releases one that is not out, which removes the value. */
  #endToken(): void {
    const [first] = this.#tokens;
    if (first === undefined || this.#random() < 0.1) {
      const key = this.#key();
      assertEquals(this.store.releaseToken(key, 1), Outcome.NOT_FOUND);
      this.#known.delete(key);
      this.#locked.delete(key);
      return;
    }
    const [key, [id, ...others]] = first;
    if (this.#random() < 0.8) assertEquals(this.store.releaseToken(key, id!), Outcome.OK);
    else assertEquals(this.store.dropTokens(key, id), 1);
    this.#tokens.delete(key);
    if (others.length > 0) this.#tokens.set(key, others);
  }

  #advance(seconds: number): void {
    this.#nowSec += seconds;
    this.store.clock(this.#nowSec * 1000);
  }

  #isLocked(key: string): boolean {
    const item = this.#peek(key);
    return item !== NO_ITEM && (this.store.cache.items.state(item) & STATE.LOCKED) !== 0;
  }

  #peek(key: string): ItemRef {
    const { input } = this.store;
    const { written } = new TextEncoder().encodeInto(key, input.bytes);
    return this.store.cache.peek(keyIn(this.store.cache, input, written));
  }

  /** Returns whether the key's known value may be read now: neither expired nor flushed. */
  #mayBeThere(known: Known | undefined): known is Known {
    if (known === undefined || known.flushed) return false;
    const now = this.store.memory.control[CONTROL.NOW_SEC]!;
    return known.deadlineSec === 0 || known.deadlineSec > now;
  }

  #read(key: string): void {
    const known = this.#known.get(key);
    const locked = this.#isLocked(key);
    const bytes = this.store.bytes(key);
    if (bytes === undefined) {
      assert(!locked, "what is locked is there");
      if (!this.store.memory.options.evictions && this.#mayBeThere(known)) {
        throw new Error(`${key} is gone, although nothing is evicted`);
      }
      this.#known.delete(key);
      return;
    }
    assert(!this.#tokens.has(key), "nothing is there under an update token");
    assert(known !== undefined, "what is there was stored");
    assert(locked || this.#mayBeThere(known), "what is there is alive");
    assertSame(bytes, known.bytes);
  }

  #set(mode: StoreMode): void {
    const key = this.#key();
    const bytes = this.#value();
    const fields = {
      deadlineSec: this.#deadline(),
      clientFlags: this.#random() < 0.3 ? 7 : 0,
      owner: 1 + this.#below(OWNERS),
    };
    const outcome = this.#random() < 0.8
      ? this.store.store(mode, key, bytes, fields)
      : this.store.storeInPieces(mode, key, bytes, 1 + this.#below(20_000), fields);
    this.#noteStore(mode, key, bytes, fields.deadlineSec, outcome);
  }

  #noteStore(
    mode: StoreMode,
    key: string,
    bytes: Uint8Array,
    deadlineSec: number,
    outcome: Outcome,
  ): void {
    if (outcome === Outcome.STORED) {
      assert(!this.#tokens.has(key), "nothing is stored under an update token");
      this.#known.set(key, { bytes, deadlineSec, flushed: false });
    } else if (outcome === Outcome.NO_MEMORY) {
      assert(this.#mayRunOut(), "there is evictable memory");
      if (mode === SET && this.#peek(key) === NO_ITEM) this.#known.delete(key);
    } else if (outcome === Outcome.TOO_LARGE) {
      if (mode === SET && this.#peek(key) === NO_ITEM) this.#known.delete(key);
    } else {
      assert(outcome === Outcome.LOCKED || outcome === Outcome.NOT_STORED, `outcome ${outcome}`);
    }
  }

  /** Whether a store may be refused: without evictions, and where values under way and the limit leave little. */
  #mayRunOut(): boolean {
    return !this.store.memory.options.evictions || this.#ranges.memoryLimit === true ||
      this.#receiving.length + this.#sending.length + this.#locked.size > 0;
  }

  #join(): void {
    const key = this.#key();
    const bytes = this.#value();
    const mode = this.#random() < 0.5 ? APPEND : PREPEND;
    const fields = { owner: 1 + this.#below(OWNERS) };
    const outcome = this.#random() < 0.8
      ? this.store.store(mode, key, bytes, fields)
      : this.store.storeInPieces(mode, key, bytes, 1 + this.#below(20_000), fields);
    if (outcome !== Outcome.STORED) return;
    assert(!this.#tokens.has(key), "nothing is extended under an update token");
    const known = this.#known.get(key);
    assert(known !== undefined, "what is extended was there");
    const [first, second] = mode === APPEND ? [known.bytes, bytes] : [bytes, known.bytes];
    const joined = new Uint8Array(first.length + second.length);
    joined.set(first);
    joined.set(second, first.length);
    known.bytes = joined;
    known.flushed = false;
  }

  #remove(): void {
    const key = this.#key();
    const outcome = this.store.remove(key, { owner: 1 + this.#below(OWNERS) });
    if (outcome === Outcome.DELETED) this.#known.delete(key);
  }

  #touch(): void {
    const key = this.#key();
    const deadlineSec = this.#deadline();
    if (this.store.touch(key, deadlineSec, { owner: 1 }) !== Outcome.TOUCHED) return;
    this.#known.get(key)!.deadlineSec = deadlineSec;
  }

  #lockOrUnlock(): void {
    const key = this.#key();
    const owner = 1 + this.#below(OWNERS);
    const choice = this.#random();
    if (choice < 0.5) {
      if (this.#locked.size < 30 && this.store.lock(key, owner) === Outcome.OK) {
        this.#locked.set(key, owner);
      }
    } else if (choice < 0.9) {
      for (const [held, holder] of this.#locked) {
        this.store.unlock(held, holder);
        this.#locked.delete(held);
        break;
      }
    } else {
      this.store.cache.releaseOwner(owner);
      for (const [held, holder] of this.#locked) if (holder === owner) this.#locked.delete(held);
    }
  }

  #beginReceiving(): void {
    if (this.#receiving.length >= 4) return;
    const { cache } = this.store;
    const bytes = this.#value();
    const key = this.#key();
    const operation = this.#changeFor(key, bytes.length);
    const outcome = cache.reserved.reserve(operation);
    if (outcome === Outcome.NO_MEMORY) assert(this.#mayRunOut(), "there is evictable memory");
    if (outcome !== Outcome.OK) return this.#noteStore(SET, key, bytes, 0, outcome);
    this.#receiving.push({ item: operation.reserved, key, bytes, done: 0 });
  }

  #changeFor(key: string, valueLength: number): Operation {
    const { input } = this.store;
    const { written } = new TextEncoder().encodeInto(key, input.bytes);
    return Object.assign(new Operation(input), { mode: SET, keyLength: written, valueLength });
  }

  #receive(): void {
    const index = this.#below(this.#receiving.length);
    const value = this.#receiving[index];
    if (value === undefined) return;
    const { cache, input } = this.store;
    const length = Math.min(value.bytes.length - value.done, 1 + this.#below(100_000));
    if (!cache.reserved.grow(value.item, value.done + length)) return this.#giveUp(index, value);
    input.bytes.set(value.bytes.subarray(value.done, value.done + length));
    if (length > 0) cache.reserved.fill(value.item, value.done, input, 0, length);
    value.done += length;
    const complete = value.done === value.bytes.length;
    if (!complete && this.#random() < 0.9) return;
    this.#receiving.splice(index, 1);
    if (!complete) return cache.reserved.abandon(value.item);
    const operation = this.#changeFor(value.key, value.bytes.length);
    operation.reserved = value.item;
    operation.owner = 1 + this.#below(OWNERS);
    this.#noteStore(SET, value.key, value.bytes, 0, cache.reserved.commit(operation));
  }

  #giveUp(index: number, value: UnderWay): void {
    assert(this.#mayRunOut(), "there is evictable memory");
    this.#receiving.splice(index, 1);
    const operation = this.#changeFor("", value.bytes.length);
    operation.reserved = value.item;
    operation.owner = 1 + this.#below(OWNERS);
    const outcome = this.store.cache.reserved.refuse(operation);
    this.#noteStore(SET, value.key, value.bytes, 0, outcome);
  }

  #send(): void {
    const { cache } = this.store;
    const index = this.#below(this.#sending.length + 1);
    const value = this.#sending[index];
    if (value === undefined) {
      const key = this.#key();
      const item = this.#peek(key);
      if (item === NO_ITEM || this.#sending.length >= 4 || !cache.pin(item)) return;
      this.#sending.push({ item, key, bytes: this.#known.get(key)!.bytes, done: 0 });
      return;
    }
    const { input } = this.store;
    const length = Math.min(value.bytes.length - value.done, 1 + this.#below(100_000));
    cache.copyValue(value.item, value.done, length, input, 0);
    const end = value.done + length;
    assertSame(input.bytes.subarray(0, length), value.bytes.subarray(value.done, end));
    value.done = end;
    if (end < value.bytes.length && this.#random() < 0.9) return;
    this.#sending.splice(index, 1);
    cache.unpin(value.item);
  }
}

/** Like assertEquals, but fast for long values. */
function assertSame(actual: Uint8Array, expected: Uint8Array): void {
  let same = actual.length === expected.length;
  for (let at = 0; same && at < actual.length; at++) same = actual[at] === expected[at];
  assert(same, "a value's bytes are those that were stored");
}
