import { assert, assertEquals } from "@std/assert";
import { Cache } from "../../../store/cache.ts";
import { MIB } from "../../../store/limits.ts";
import { SUM } from "../../../store/memory/memory.ts";
import { Outcome } from "../../../store/outcome.ts";
import { STAT } from "../../../store/stats.ts";
import { StoreMode } from "../../../store/operation.ts";
import { TestStore } from "../../support/store.ts";

const { SET } = StoreMode;
const LENGTH = 1_000_000;
const ARRIVED = 200_000;

interface Arriving {
  readonly store: TestStore;
  /** Another thread's view. */
  readonly cache: Cache;
  /** Begins a value of LENGTH bytes, and finds memory for the first ones. Returns it. */
  begin(key: string, arrived?: number): number;
  /** How many values were dropped. */
  dropped(): number;
  /** Memory of all arriving values. */
  bytes(): number;
}

function arriving(memoryMib: number): Arriving {
  const store = new TestStore({
    memoryLimitBytes: memoryMib * MIB,
    itemSizeMaxBytes: 2 * MIB,
    connectionsMax: 200,
  });
  const cache = new Cache(store.memory);
  const { stats, sums } = store.memory;
  return {
    store,
    cache,
    begin(key, arrived = ARRIVED): number {
      const operation = store.operationOn(key, { mode: SET, valueLength: LENGTH });
      assertEquals(cache.reserved.reserve(operation), Outcome.OK);
      const value = operation.reserved;
      assert(cache.reserved.grow(value, arrived));
      return value;
    },
    dropped: () => stats[STAT.values_dropped]!,
    bytes: () => sums[SUM.RESERVED_BYTES]!,
  };
}

Deno.test("arriving values take at most a quarter of the memory: the oldest are dropped", () => {
  const { store, cache, begin, dropped, bytes } = arriving(8);
  const values = Array.from({ length: 100 }, (_, index) => begin(`key-${index}`));
  assert(bytes() <= store.memory.limitBytes / 4, `${bytes()} bytes`);
  assert(dropped() > 80, `${dropped()} dropped`);
  const kept = values.map((value) => cache.reserved.itemOf(value) !== 0);
  assertEquals(kept.lastIndexOf(false), dropped() - 1, "only the oldest were dropped");
  store.check();
  for (const value of values) cache.reserved.abandon(value);
  assertEquals(bytes(), 0);
  store.check();
});

Deno.test("the header of a long value drops nothing: its bytes may never come", () => {
  const { store, cache, begin, dropped } = arriving(8);
  const values = [begin("one", 600_000), begin("two", 600_000), begin("header", 0)];
  assertEquals(dropped(), 0);
  // Its own bytes do.
  assert(cache.reserved.grow(values[2]!, LENGTH));
  assertEquals(dropped(), 1);
  for (const value of values) cache.reserved.abandon(value);
  store.check();
});

Deno.test("the oldest value is dropped, and not newer ones, when it needs memory itself", () => {
  const { store, cache, begin, dropped } = arriving(4);
  const oldest = begin("oldest");
  const newest = begin("newest", 700_000);
  assertEquals(cache.reserved.grow(oldest, LENGTH), false);
  assertEquals(dropped(), 1);
  assert(cache.reserved.itemOf(newest) !== 0);
  const operation = store.operationOn("", { mode: SET, reserved: oldest });
  assertEquals(cache.reserved.refuse(operation), Outcome.NO_MEMORY);
  cache.reserved.abandon(newest);
  store.check();
});

Deno.test("a value alone may take more than its share", () => {
  const { store, cache, begin } = arriving(2);
  const value = begin("key");
  assert(cache.reserved.grow(value, LENGTH));
  cache.reserved.abandon(value);
  store.check();
});

Deno.test("a dropped value is refused, and what it would have replaced is removed", () => {
  const { store, cache, begin } = arriving(8);
  store.store(SET, "key", "old");
  const value = begin("key");
  const others = Array.from({ length: 20 }, (_, index) => begin(`key-${index}`));
  assertEquals(cache.reserved.itemOf(value), 0);
  assertEquals(cache.reserved.grow(value, ARRIVED), false);
  assertEquals(cache.reserved.beginReceiving(value), false);
  assertEquals(store.get("key"), "old");
  const operation = store.operationOn("", { mode: SET, reserved: value });
  assertEquals(cache.reserved.refuse(operation), Outcome.NO_MEMORY);
  assertEquals(store.get("key"), undefined);
  for (const other of others) cache.reserved.abandon(other);
  store.check();
});

Deno.test("a value that its thread receives into without the mutex is not dropped", () => {
  const { store, cache, begin } = arriving(8);
  const value = begin("key");
  assert(cache.reserved.beginReceiving(value));
  const others = Array.from({ length: 20 }, (_, index) => begin(`key-${index}`));
  assert(cache.reserved.itemOf(value) !== 0);
  cache.reserved.endReceiving(value);
  others.push(begin("one more"));
  assertEquals(cache.reserved.itemOf(value), 0);
  for (const other of [value, ...others]) cache.reserved.abandon(other);
  store.check();
});

Deno.test("values of many sizes, each in a page of its own, do not keep others from being stored", () => {
  const { store, cache } = arriving(2);
  const values: number[] = [];
  for (let length = 4200; length < 32_000; length += 500) {
    const operation = store.operationOn(`key-${length}`, { mode: SET, valueLength: length });
    assertEquals(cache.reserved.reserve(operation), Outcome.OK);
    values.push(operation.reserved);
  }
  for (let length = 1; length < 100_000; length += 1000) {
    assertEquals(store.store(SET, `small-${length}`, "v".repeat(length)), Outcome.STORED);
  }
  for (const value of values) cache.reserved.abandon(value);
  store.check();
});
