import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { replay, REPLAY_DEFAULTS, type ReplayTarget } from "../../bench/replay/replay.ts";
import { StoreTarget } from "../../bench/replay/store_target.ts";
import type { Trace } from "../../bench/replay/traces.ts";
import { MIB } from "../../../store/limits.ts";
import { randomFrom } from "../../support/random.ts";

// Miss ratios on short generated traces. Each bound lies between the store, which pays for its headers, pages and
// classes, and what FIFO and LRU reach in the same memory without paying for anything but keys and values. It also lies
// below what the store reaches without promotion, without a second chance or with a small queue of 95 %.

const MEMORY_BYTES = 8 * MIB;
const REQUESTS = 150_000;
const KEY_BYTES = 16;
/** Keys that are asked for again and again, the first ones most often. */
const POPULAR_KEYS = 40_000;

/**
 * LRU, or FIFO: a heap of bytes without pages, classes or headers, in which an item takes its key and
 * its value.
 */
class Lru implements ReplayTarget {
  /** Bytes and deadline of each item, the oldest first. */
  readonly #items = new Map<number, { readonly bytes: number; readonly deadlineMs: number }>();
  #usedBytes = 0;
  #nowMs = 0;

  /** @param movesHits Otherwise the first in are the first out: reads change nothing. */
  constructor(readonly limitBytes: number, readonly movesHits = true) {}

  tick(milliseconds: number): void {
    this.#nowMs = milliseconds;
  }

  get(key: number): boolean {
    const item = this.#items.get(key);
    if (item === undefined) return false;
    if (item.deadlineMs <= this.#nowMs) {
      this.#drop(key);
      return false;
    }
    if (this.movesHits) {
      this.#items.delete(key);
      this.#items.set(key, item);
    }
    return true;
  }

  set(key: number, keySize: number, valueSize: number, ttlSeconds: number): boolean {
    this.#drop(key);
    const bytes = keySize + valueSize;
    if (bytes > this.limitBytes) return false;
    for (const oldest of this.#items.keys()) {
      if (this.#usedBytes + bytes <= this.limitBytes) break;
      this.#drop(oldest);
    }
    const deadlineMs = ttlSeconds === 0 ? Infinity : this.#nowMs + ttlSeconds * 1000;
    this.#items.set(key, { bytes, deadlineMs });
    this.#usedBytes += bytes;
    return true;
  }

  #drop(key: number): void {
    this.#usedBytes -= this.#items.get(key)?.bytes ?? 0;
    this.#items.delete(key);
  }
}

type Draw = () => number;

/** Draws 0..`count` - 1, number n with a weight of 1 / (n + 1) ** `exponent`. */
function zipf(count: number, exponent: number, random: Draw): Draw {
  const sums = new Float64Array(count);
  let sum = 0;
  for (let n = 0; n < count; n++) sums[n] = sum += (n + 1) ** -exponent;
  return () => {
    const drawn = random() * sum;
    let low = 0;
    for (let high = count - 1; low < high;) {
      const middle = (low + high) >> 1;
      if (sums[middle]! < drawn) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}

/** Popular keys among others that are asked for once; `once` is their share. */
function withOneHitWonders(exponent: number, once: number, random: Draw): Draw {
  const popular = zipf(POPULAR_KEYS, exponent, random);
  let fresh = POPULAR_KEYS;
  return () => random() < once ? fresh++ : popular();
}

/** A hot set, and now and then a scan over more keys than fit. */
function withScans(random: Draw): Draw {
  const HOT_KEYS = 8000;
  const SCANNED_KEYS = 30_000;
  const hot = zipf(HOT_KEYS, 0.8, random);
  let request = 0;
  let scanned = 0;
  return () => request++ % 20_000 < 12_000 ? hot() : HOT_KEYS + scanned++ % SCANNED_KEYS;
}

function traceOf(draw: Draw, valueBytes: (key: number) => number): Trace {
  const keys = Int32Array.from({ length: REQUESTS }, draw);
  return {
    rows: REQUESTS,
    seconds: new Int32Array(REQUESTS),
    keys,
    keySizes: new Uint8Array(REQUESTS).fill(KEY_BYTES),
    valueSizes: keys.map(valueBytes),
    ttlSeconds: new Int32Array(REQUESTS),
    keyCount: keys.reduce((most, key) => Math.max(most, key), 0) + 1,
  };
}

function missRatio(trace: Trace, target: ReplayTarget): number {
  const { gets, misses } = replay(trace, target, { ...REPLAY_DEFAULTS, batch: 1 });
  return misses / gets;
}

const ONE_KB = (): number => 1000;
/** 200 to 2199 bytes, by the key. */
const MIXED = (key: number): number => 200 + (Math.imul(key, 0x9e3779b1) >>> 0) % 2000;

/** The bound is the largest miss ratio the store may have. */
const CASES: readonly [name: string, draw: Draw, sizes: (key: number) => number, bound: number][] =
  [
    ["popular keys", zipf(POPULAR_KEYS, 1, randomFrom(3)), ONE_KB, 0.2115],
    ["one-hit wonders", withOneHitWonders(0.9, 0.3, randomFrom(1)), ONE_KB, 0.5375],
    ["a hot set and scans", withScans(randomFrom(2)), ONE_KB, 0.4725],
    ["values of mixed sizes", withOneHitWonders(0.9, 0.25, randomFrom(5)), MIXED, 0.5355],
  ];

for (const [name, draw, sizes, bound] of CASES) {
  Deno.test(`the store misses less than LRU and FIFO do: ${name}`, () => {
    const trace = traceOf(draw, sizes);
    const store = new StoreTarget({ memoryLimitBytes: MEMORY_BYTES });
    assertLess(missRatio(trace, store), bound);
    assertEquals(store.wrong, 0);
    assertGreater(missRatio(trace, new Lru(MEMORY_BYTES)), bound, "LRU");
    assertGreater(missRatio(trace, new Lru(MEMORY_BYTES, false)), bound, "FIFO");
  });
}

Deno.test("a restart with a snapshot changes no miss ratio by more than 0.001", () => {
  const trace = traceOf(withOneHitWonders(0.9, 0.25, randomFrom(5)), MIXED);
  const [steady, restarted] = [false, true].map((restarts) => {
    const store = new StoreTarget({ memoryLimitBytes: MEMORY_BYTES });
    if (restarts) store.restartAfter(REQUESTS / 2);
    const ratio = missRatio(trace, store);
    assertEquals([store.wrong, store.isRestartDue], [0, false]);
    return ratio;
  });
  assertLess(Math.abs(restarted! - steady!), 0.001);
});
