import { ByteRegion } from "../../../store/base/bytes.ts";
import { Cache, type ItemRef } from "../../../store/cache.ts";
import { Operation, StoreMode } from "../../../store/operation.ts";
import { deadlineSec, writeClock } from "../../../store/clock.ts";
import { Hits } from "../../../store/items/hits.ts";
import { NO_ITEM, WORD } from "../../../store/memory/item.ts";
import { MIB, type StoreOptions } from "../../../store/limits.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { Outcome } from "../../../store/outcome.ts";
import type { ReplayTarget } from "./replay.ts";
import { SavedStore } from "../../support/saved_store.ts";
import { type ChangedOptions, storeOptions } from "../../support/store.ts";
import { Timings } from "../base/timings.ts";

const VALUE_OFFSET = 512;
const HEX = "0123456789abcdef";
const SMALL_VALUE_BYTES = 4096;
/** Milliseconds between two calls of maintenance, as in the server. */
const MAINTENANCE_EVERY_MS = 100;
/**
 * Without a clock to keep: how many requests pass in a millisecond. About what the project's trace
 * replayer drives a server with.
 */
const REQUESTS_PER_MS = 40;

/**
 * The real store as a target of replays: no sockets, a clock moved by the replay, every value read
 * back and compared.
 */
export class StoreTarget implements ReplayTarget {
  memory: Memory;
  cache: Cache;
  readonly operation: Operation;
  readonly #options: StoreOptions;
  readonly #delayHits: number;
  readonly #input = new ByteRegion(new ArrayBuffer(2 * MIB));
  readonly #output = new ByteRegion(new ArrayBuffer(64));
  /** The list of delayed hits; null: each hit is noted at once. */
  #hits: Hits | null;
  #requests = 0;
  #restartAt = Infinity;
  #maintainedAtMs = 0;
  /** Values that came back with other bytes or another length. */
  wrong = 0;
  /** Every slice of maintenance. */
  readonly slices = new Timings();

  /** @param delayHits Hits that are delayed until the list of them is full; 0: none. */
  constructor(changed: ChangedOptions, delayHits = 0) {
    this.#options = storeOptions(changed);
    this.#delayHits = delayHits;
    this.memory = new Memory(createSharedMemory(this.#options));
    this.cache = Cache.format(this.memory);
    this.operation = new Operation(this.#input);
    this.#hits = this.#newHits();
    for (let at = VALUE_OFFSET; at < this.#input.bytes.length; at++) {
      this.#input.bytes[at] = 97 + (at * 7) % 26;
    }
  }

  #newHits(): Hits | null {
    const { items, index } = this.cache.links;
    return this.#delayHits === 0 ? null : new Hits(this.memory, items, index, this.#delayHits);
  }

  /** Has the store stop and start, as a server does with `--snapshot`, after so many further requests. */
  restartAfter(requests: number): void {
    this.#restartAt = this.#requests + requests;
  }

  /** Whether `restartAfter` is still to come. */
  get isRestartDue(): boolean {
    return this.#restartAt < Infinity;
  }

  #restart(): void {
    this.#restartAt = Infinity;
    this.#hits?.apply();
    const saved = new SavedStore(this.cache);
    this.memory = new Memory(createSharedMemory(saved.optionsFrom(this.#options, 0)));
    this.cache = Cache.format(this.memory);
    this.#hits = this.#newHits();
    if (!saved.restore(this.cache, 0)) throw new Error("the pages were not taken as they are");
  }

  get(key: number, keySize: number, valueSize: number): boolean {
    this.#requests++;
    const keyLength = this.#writeKey(key, keySize);
    const item = this.#find(keyLength);
    if (item === NO_ITEM) return false;
    const length = Math.min(valueSize, 8);
    this.cache.copyValue(item, 0, length, this.#output, 0);
    const same = this.cache.valueLength(item) === valueSize &&
      (length < 4 || this.#output.view.getInt32(0, true) === key);
    if (!same) this.wrong++;
    return true;
  }

  /** Returns the item with the key in the input, and notes the hit. */
  #find(keyLength: number): ItemRef {
    const { operation } = this;
    const { items, index } = this.cache.links;
    const hash = index.hash(this.#input, 0, keyLength);
    operation.setKey(0, keyLength, hash);
    if (this.#hits === null) return this.cache.get(operation);
    const item = this.cache.peek(operation);
    if (item === NO_ITEM) return NO_ITEM;
    const accessedSec = items.word(item, WORD.ACCESSED_SEC);
    this.#hits.delay(item, hash, items.ownIdLow(item), items.state(item), accessedSec);
    if (this.#hits.isFull) this.#hits.apply();
    return item;
  }

  set(key: number, keySize: number, valueSize: number, ttlSeconds: number): boolean {
    this.#requests++;
    const { operation } = this;
    operation.mode = StoreMode.SET;
    this.name(key, keySize);
    operation.valueOffset = VALUE_OFFSET;
    operation.valueLength = valueSize;
    operation.deadlineSec = deadlineSec(this.memory, ttlSeconds);
    if (valueSize >= 4) this.#input.view.setInt32(VALUE_OFFSET, key, true);
    if (valueSize <= SMALL_VALUE_BYTES) return this.cache.store(operation) === Outcome.STORED;
    return this.#setInPieces(valueSize);
  }

  /** Makes `operation` be about this key. */
  name(key: number, keySize: number): void {
    this.operation.setKey(0, this.#writeKey(key, keySize), 0);
  }

  tick(milliseconds: number): void {
    if (this.#requests >= this.#restartAt) this.#restart();
    const now = Math.max(milliseconds, this.#requests / REQUESTS_PER_MS);
    if (now < this.#maintainedAtMs + MAINTENANCE_EVERY_MS) return;
    this.#maintainedAtMs = now;
    writeClock(this.memory, now);
    this.cache.enter();
    this.cache.leave();
    this.maintain();
  }

  /** All maintenance that is due, timing each slice. */
  maintain(): void {
    for (let more = true; more;) {
      this.slices.start();
      more = this.cache.maintain();
      this.slices.stop();
    }
  }

  /** Items evicted from any class. */
  get evicted(): number {
    return this.cache.inspector.sumOfClasses("evicted");
  }

  #setInPieces(valueSize: number): boolean {
    const { cache, operation } = this;
    if (cache.reserved.reserve(operation) !== Outcome.OK) return false;
    const item = operation.reserved;
    if (!cache.reserved.grow(item, valueSize)) {
      cache.reserved.refuse(operation);
      return false;
    }
    cache.reserved.fill(item, 0, this.#input, VALUE_OFFSET, valueSize);
    return cache.reserved.commit(operation) === Outcome.STORED;
  }

  /** Writes `at`, the number in hexadecimal, and underscores up to the size. */
  #writeKey(key: number, keySize: number): number {
    const { bytes } = this.#input;
    bytes[0] = 97;
    bytes[1] = 116;
    let length = 2;
    let digits = 1;
    for (let rest = key >>> 4; rest > 0; rest >>>= 4) digits++;
    for (let digit = digits - 1; digit >= 0; digit--) {
      bytes[length++] = HEX.charCodeAt((key >>> (digit * 4)) & 15);
    }
    while (length < keySize) bytes[length++] = 95;
    return length;
  }
}
