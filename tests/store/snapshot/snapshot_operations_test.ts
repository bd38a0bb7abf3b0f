import { assert, assertEquals, assertGreater, assertThrows } from "@std/assert";
import { Cache } from "../../../store/cache.ts";
import { MIB, type StoreOptions } from "../../../store/limits.ts";
import { NO_ITEM, STATE } from "../../../store/memory/item.ts";
import { CLASSES_MAX, createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { StoreMode } from "../../../store/operation.ts";
import { StoreInUseError } from "../../../store/setup.ts";
import { randomFrom } from "../../support/random.ts";
import { roundsOf } from "../../support/rounds.ts";
import { SavedStore } from "../../support/saved_store.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { type ChangedOptions, storeOptions, TestStore } from "../../support/store.ts";

/** Saves a store and restores it in another one. */
class Restarted extends TestStore {
  readonly tookPages: boolean;
  /** Items that had no place. */
  readonly dropped: number;

  constructor(
    saved: SavedStore,
    changed: ChangedOptions,
    downSec: number,
    removed: readonly string[],
  ) {
    const options: StoreOptions = saved.optionsFrom(storeOptions(changed), downSec);
    super(options);
    this.tookPages = saved.restore(this.cache, downSec, removed);
    this.dropped = saved.dropped;
  }
}

function restart(
  store: TestStore,
  changed: ChangedOptions = {},
  downSec = 0,
  removed: readonly string[] = [],
): Restarted {
  return new Restarted(new SavedStore(store.cache), changed, downSec, removed);
}

/** Item options in which the next process may differ. */
const CHANGES: readonly (readonly [name: string, changed: ChangedOptions, takesPages: boolean])[] =
  [
    ["the same options", {}, true],
    ["more memory and threads", { memoryLimitBytes: 100 * MIB, threads: 4 }, true],
    ["versions for optimistic reads", { threads: 2, optimisticReads: true }, true],
    ["layout memcached", { slabLayout: "memcached", growthFactor: 1.25 }, false],
    ["other classes", { growthFactor: 1.3 }, false],
  ];

for (const [name, changed, takesPages] of CHANGES) {
  Deno.test(`every item survives a restart with ${name}`, async () => {
    for (let round = 0; round < roundsOf(3); round++) {
      await withSeed(drawSeed(), (seed) => {
        const random = randomFrom(seed);
        let store = new TestStore();
        const model = new Map<string, { value: Uint8Array; flags: number; id: number }>();
        for (let generation = 0; generation < 3; generation++) {
          change(store, model, random);
          store.check();
          const next = restart(store, generation === 1 ? {} : changed);
          if (generation === 0) assertEquals(next.tookPages, takesPages);
          store = next;
          store.check();
          for (const [key, { value, flags, id }] of model) {
            assertEquals(store.bytes(key), value, key);
            assertEquals(store.cache.clientFlags(store.item(key)), flags);
            assertEquals(store.id(key), id);
          }
        }
      });
    }
  });
}

function change(
  store: TestStore,
  model: Map<string, { value: Uint8Array; flags: number; id: number }>,
  random: () => number,
): void {
  for (let step = 0; step < 800; step++) {
    const key = `key${Math.floor(random() * 400)}`;
    if (random() < 0.2) {
      store.remove(key);
      model.delete(key);
      continue;
    }
    const length = Math.floor(random() < 0.05 ? random() * 300_000 : random() * 1000);
    const value = new Uint8Array(length).fill(Math.floor(random() * 256));
    const flags = random() < 0.5 ? 0 : Math.floor(random() * 2 ** 32);
    const explicit = random() < 0.1 ? { explicit: true, explicitLow: step, explicitHigh: 7 } : {};
    store.store(StoreMode.SET, key, value, { clientFlags: flags | 0, ...explicit });
    model.set(key, { value, flags, id: store.id(key) });
  }
}

Deno.test("the clock goes on: an item that has expired meanwhile is gone, another lives as long as it would", () => {
  const store = new TestStore();
  store.clock(5000);
  store.store(StoreMode.SET, "short", "1", { deadlineSec: 20 });
  store.store(StoreMode.SET, "long", "1", { deadlineSec: 2 + 100 });
  for (const changed of [{}, { growthFactor: 1.3 }]) {
    using next = restart(store, changed, 60);
    assertEquals(next.get("short"), undefined);
    assertEquals(next.get("long"), "1");
    next.clock(100_000 - 1);
    assertEquals(next.get("long"), "1");
    next.clock(100_000);
    assertEquals(next.get("long"), undefined);
  }
});

Deno.test("a flush stays", () => {
  const store = new TestStore();
  store.clock(5000);
  store.store(StoreMode.SET, "a", "1");
  store.cache.flushAll(0);
  store.store(StoreMode.SET, "b", "1");
  store.cache.flushAll(100);
  for (const changed of [{}, { growthFactor: 1.3 }]) {
    using next = restart(store, changed);
    assertEquals([next.get("a"), next.get("b")], [undefined, "1"]);
    assertEquals(next.cache.inspector.control("OLDEST_LIVE_SEC"), 100);
    next.clock(200_000);
    assertEquals(next.get("b"), undefined);
  }
});

Deno.test("a store that uses every class number is loaded by its like, and by no other layout's pages", () => {
  const LENGTHS = [10, 100, 1000, 10_000, 100_000, 500_000];
  for (const [growthFactor, takesPages] of [[1.05, true], [1.075, false], [1.3, false]] as const) {
    const store = new TestStore({ growthFactor: 1.05 });
    for (const length of LENGTHS) store.store(StoreMode.SET, `k${length}`, "v".repeat(length));
    assertEquals(new SavedStore(store.cache).header.layout.chunkBytes.length, CLASSES_MAX - 1);
    using next = restart(store, { growthFactor });
    assertEquals(next.tookPages, takesPages, `${growthFactor}`);
    for (const length of LENGTHS) assertEquals(next.get(`k${length}`)?.length, length);
  }
});

Deno.test("ids go on above all earlier ones", () => {
  const store = new TestStore();
  store.store(StoreMode.SET, "a", "1");
  const lease = store.getss("b", 30);
  const before = store.cache.journal.lastId;
  assertEquals(lease, { id: before, remain: 0 });
  using next = restart(store);
  next.store(StoreMode.SET, "c", "1");
  assertGreater(next.id("c"), before);
});

Deno.test("leases are gone, and their ids fill nothing", () => {
  const store = new TestStore();
  const lease = store.getss("a", 30) as { id: number };
  using next = restart(store);
  const renewed = next.getss("a", 30) as { id: number; remain: number };
  assertEquals(renewed.remain, 0);
  assertGreater(renewed.id, lease.id);
});

Deno.test("placeholders of mg N are not saved, and a stale item can be won again with a new id", () => {
  const store = new TestStore();
  store.store(StoreMode.SET, "stub", "", { marks: STATE.STUB | STATE.WON });
  store.store(StoreMode.SET, "stale", "1", { marks: STATE.STALE | STATE.WON });
  const id = store.id("stale");
  using next = restart(store);
  assertEquals(next.get("stub"), undefined);
  const state = next.cache.items.state(next.item("stale"));
  assertEquals(state & (STATE.STALE | STATE.WON), STATE.STALE);
  assertGreater(next.id("stale"), id);
});

Deno.test("keys that are removed are neither saved nor loaded", () => {
  const rows = { rows: { prefixes: ["row:"], expiry: "refuse" } } as const;
  const store = new TestStore(rows);
  for (const key of ["row:1", "row:2", "a", "b", "c"]) store.store(StoreMode.SET, key, key);
  const read = (next: TestStore): (string | undefined)[] =>
    ["row:1", "row:2", "a", "b", "c"].map((key) => next.get(key));
  for (const changed of [rows, { ...rows, growthFactor: 1.3 }, {}]) {
    using kept = restart(store, changed);
    assertEquals(read(kept), ["row:1", "row:2", "a", "b", "c"]);
    using next = restart(store, changed, 0, ["row:", "b"]);
    next.check();
    assertEquals(read(next), [undefined, undefined, "a", undefined, "c"]);
    using empty = restart(store, changed, 0, [""]);
    assertEquals(read(empty), Array(5).fill(undefined));
  }
  const saved = new SavedStore(store.cache, ["row:"]);
  using next = new Restarted(saved, rows, 0, []);
  assertEquals(read(next), [undefined, undefined, "a", "b", "c"]);
});

Deno.test("the key of an update token has no item after the restart", () => {
  const store = new TestStore();
  store.store(StoreMode.SET, "a", "1");
  store.store(StoreMode.SET, "b", "1");
  using next = restart(store);
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  assert(next.cache.journal.restore(bytes("a"), bytes(""), bytes("peer"), 0, 7));
  assertEquals([next.get("a"), next.get("b")], [undefined, "1"]);
});

Deno.test("quarantine of an earlier process leaves no item", () => {
  const store = new TestStore();
  store.store(StoreMode.SET, "a", "1");
  using next = restart(store);
  next.cache.journal.restoreQuarantine();
  assertEquals(next.get("a"), undefined);
});

Deno.test("a store is not saved while a request uses an item", () => {
  const locked = new TestStore();
  locked.store(StoreMode.SET, "a", "1");
  locked.lock("a", 1);
  assertThrows(() => new SavedStore(locked.cache), StoreInUseError);
  const arriving = new TestStore();
  arriving.cache.reserved.reserve(
    Object.assign(arriving.operationOn("a", { mode: StoreMode.SET }), { valueLength: 100_000 }),
  );
  assertThrows(() => new SavedStore(arriving.cache), StoreInUseError);
});

Deno.test("with less memory the items go that were not read for longest", () => {
  const store = new TestStore({ memoryLimitBytes: 20 * MIB });
  const value = "v".repeat(1000);
  for (let second = 0; second < 10; second++) {
    store.clock(second * 10_000);
    for (let key = 0; key < 1000; key++) {
      store.store(StoreMode.SET, `${second}:${key}`, value);
    }
  }
  using next = restart(store, { memoryLimitBytes: 4 * MIB });
  assert(!next.tookPages);
  const kept = (second: number): number => {
    let count = 0;
    for (let key = 0; key < 1000; key++) if (next.get(`${second}:${key}`) !== undefined) count++;
    return count;
  };
  assertEquals([kept(9), kept(8), kept(7)], [1000, 1000, 1000]);
  assertEquals([kept(0), kept(3), kept(5)], [0, 0, 0]);
});

Deno.test("keys that are not loaded take no memory from items that were read before them", () => {
  const store = new TestStore({ memoryLimitBytes: 20 * MIB });
  const value = "v".repeat(1000);
  for (let key = 0; key < 1000; key++) store.store(StoreMode.SET, `a${key}`, value);
  store.clock(10_000);
  for (let key = 0; key < 8000; key++) store.store(StoreMode.SET, `row:${key}`, value);
  using next = restart(store, { memoryLimitBytes: 4 * MIB }, 0, ["row:"]);
  assert(!next.tookPages);
  let kept = 0;
  for (let key = 0; key < 1000; key++) if (next.get(`a${key}`) !== undefined) kept++;
  assertEquals([kept, next.get("row:7999"), next.dropped], [1000, undefined, 0]);
});

Deno.test("items that were all read in one second, and are too many, are counted as left out", () => {
  const store = new TestStore({ memoryLimitBytes: 20 * MIB });
  const value = "v".repeat(1000);
  for (let key = 0; key < 9000; key++) store.store(StoreMode.SET, `k${key}`, value);
  using next = restart(store, { memoryLimitBytes: 4 * MIB });
  let kept = 0;
  for (let key = 0; key < 9000; key++) if (next.get(`k${key}`) !== undefined) kept++;
  assertGreater(kept, 2000);
  assertEquals(next.dropped, 9000 - kept);
});

Deno.test("items are evicted in the order of their last access after a restart with other classes", () => {
  const store = new TestStore({ memoryLimitBytes: 4 * MIB });
  const value = "v".repeat(1000);
  for (let key = 0; key < 2000; key++) {
    store.clock(key * 1000);
    store.store(StoreMode.SET, `k${key}`, value);
  }
  using next = restart(store, { memoryLimitBytes: 4 * MIB, growthFactor: 1.3 });
  for (let key = 0; key < 2400; key++) next.store(StoreMode.SET, `new${key}`, value);
  let oldest = 0;
  let newest = 0;
  for (let key = 0; key < 500; key++) {
    if (next.get(`k${key}`) !== undefined) oldest++;
    if (next.get(`k${1500 + key}`) !== undefined) newest++;
  }
  assertEquals(oldest, 0);
  assertGreater(newest, 300);
});

Deno.test("pages that were written before damage was found are discarded", () => {
  const memory = new Memory(createSharedMemory(storeOptions()));
  const cache = Cache.format(memory);
  memory.segments[0]!.bytes.fill(0xff, 0, 10 * MIB);
  cache.snapshots.discardPages();
  using store = new TestStore();
  Object.assign(store, { memory, cache });
  store.store(StoreMode.SET, "a", "1");
  assertEquals(store.get("a"), "1");
  assertEquals(store.item("b"), NO_ITEM);
});

Deno.test("a page that moves to another class goes on moving after the restart", () => {
  const store = new TestStore({ memoryLimitBytes: 4 * MIB });
  for (let key = 0; key < 3000; key++) store.store(StoreMode.SET, `k${key}`, "v".repeat(1000));
  const move = store.cache.movePage(store.cache.links.slabs.classOf(store.item("k2999")), 1);
  store.cache.continueMove(move);
  using next = restart(store, { memoryLimitBytes: 4 * MIB });
  next.check();
  for (let slice = 0; slice < 1000; slice++) next.cache.maintain();
});

Deno.test("a restart changes no eviction: the same requests hit with and without it", () =>
  withSeed(drawSeed(), (seed) => {
    const hitsOf = (restartAt: number): number => {
      const random = randomFrom(seed);
      let store = new TestStore({ memoryLimitBytes: MIB, firstId: 1000 });
      let hits = 0;
      for (let step = 0; step < 30_000; step++) {
        if (step === restartAt) store = restart(store, { memoryLimitBytes: MIB });
        // Some keys are asked for much more often than others.
        const key = `k${Math.floor(20_000 ** random())}`;
        if (store.item(key) !== NO_ITEM) hits++;
        else store.store(StoreMode.SET, key, "v".repeat(100 + key.length * 30));
        if (step % 100 === 0) store.cache.maintain();
      }
      store.check();
      return hits;
    };
    const hits = hitsOf(-1);
    assertGreater(hits, 5000);
    assertEquals(hitsOf(15_000), hits);
  }));

Deno.test("items that are too large after the restart are dropped, and counted", () => {
  const store = new TestStore();
  store.store(StoreMode.SET, "long", "v".repeat(300_000));
  store.store(StoreMode.SET, "short", "v");
  using next = restart(store, { itemSizeMaxBytes: MIB / 8, growthFactor: 1.3 });
  assertEquals([next.get("long")?.length, next.get("short")], [undefined, "v"]);
  assertEquals(next.dropped, 1);
});
