import { assert, assertEquals, assertGreater, assertLess } from "@std/assert";
import type { Operation } from "../../../store/operation.ts";
import { StoreMode } from "../../../store/operation.ts";
import { deadlineSec } from "../../../store/clock.ts";
import { MIB } from "../../../store/limits.ts";
import { type ItemRef, NO_ITEM, STATE } from "../../../store/memory/item.ts";
import { CLASS_STAT, STAT } from "../../../store/stats.ts";
import { keyIn, TestStore } from "../../support/store.ts";

const encoder = new TextEncoder();
const VALUE = "v".repeat(1000);
const MEMORY_BYTES = 8 * MIB;
/** More than fit. */
const FLOOD = 20_000;

/** A store of items of one class. */
class OneClassStore extends TestStore {
  readonly classId: number;
  #stored = 0;

  constructor() {
    super({ memoryLimitBytes: MEMORY_BYTES });
    this.set("first");
    this.classId = this.cache.links.slabs.classOf(this.peek("first"));
    this.remove("first".padEnd(16, "_"));
  }

  set(key: string, fields: Partial<Operation> = {}): void {
    this.store(StoreMode.SET, key.padEnd(16, "_"), VALUE, fields);
  }

  /** Reads a key. Returns whether it is there. */
  has(key: string): boolean {
    return this.get(key.padEnd(16, "_")) !== undefined;
  }

  /** A key's item, or NO_ITEM, without reading it. */
  peek(key: string): ItemRef {
    const { written } = encoder.encodeInto(key.padEnd(16, "_"), this.input.bytes);
    return this.cache.peek(keyIn(this.cache, this.input, written));
  }

  /** Stores keys that were never there before and nobody asks for. */
  flood(count: number): void {
    for (let stored = 0; stored < count; stored++) this.set(`flood${this.#stored++}`);
  }

  count(stat: number): number {
    return this.memory.classStat(this.classId, stat);
  }
}

/** Reads the keys. Returns how many of them are there. */
function readAll(store: OneClassStore, keys: readonly string[]): number {
  return keys.filter((key) => store.has(key)).length;
}

/** How many of the keys are there, without reading them. */
function present(store: OneClassStore, keys: readonly string[]): number {
  return keys.filter((key) => store.peek(key) !== NO_ITEM).length;
}

function names(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${index}`);
}

/** Stores keys, reads them, and lets them go on to the main queue. */
function storedInMain(store: OneClassStore, keys: readonly string[]): void {
  for (const key of keys) {
    store.set(key);
    // An eviction that meets only items that were read evicts one of them in the end.
    store.flood(1);
  }
  assertEquals(readAll(store, keys), keys.length);
  store.flood(FLOOD);
  const { links } = store.cache;
  const inMain = keys.filter((key) => links.items.state(store.peek(key)) & STATE.MAIN);
  assertEquals(inMain.length, keys.length);
}

/** Stores a new key, reads it and lets it go on to the main queue in time. */
function pushIntoMain(store: OneClassStore, number: number): boolean {
  store.set(`push${number}`);
  store.flood(2);
  return store.has(`push${number}`);
}

Deno.test("an item that is read in the small queue is promoted and outlives a flood of items that are not", () => {
  using store = new OneClassStore();
  const [read, unread] = [names("read", 100), names("unread", 100)];
  for (const key of [...read, ...unread]) store.set(key);
  assertEquals(readAll(store, read), read.length);
  store.flood(FLOOD);
  assertEquals(store.count(CLASS_STAT.promoted), read.length);
  assertEquals(present(store, read), read.length);
  assertEquals(present(store, unread), 0);
});

Deno.test("a flood takes from the small queue only, while that has more than its share", () => {
  const store = new OneClassStore();
  const keys = names("main", 3000);
  storedInMain(store, keys);
  store.flood(5 * FLOOD);
  assertEquals(present(store, keys), keys.length);
});

Deno.test("an item of the main queue goes round once for each read, up to three times", () => {
  const store = new OneClassStore();
  const groups = [0, 1, 3].map((reads) => ({ reads, keys: names(`read${reads}-`, 500) }));
  const inTurn = groups[0]!.keys.flatMap((_, index) => groups.map(({ keys }) => keys[index]!));
  storedInMain(store, inTurn);
  for (const { reads, keys } of groups) {
    for (let read = 0; read < reads; read++) assertEquals(readAll(store, keys), keys.length);
  }
  // New keys that are read enter the main queue and push out what is oldest there.
  let pushed = 0;
  for (const [index, { keys }] of groups.slice(0, -1).entries()) {
    while (present(store, keys) > 0) {
      assertLess(pushed, 100_000);
      for (let count = 0; count < 100; count++) assertEquals(pushIntoMain(store, pushed++), true);
    }
    for (const later of groups.slice(index + 1)) {
      assertEquals(present(store, later.keys), later.keys.length);
    }
  }
});

Deno.test("a key stored again soon after its eviction from the small queue goes to the main queue", () => {
  const store = new OneClassStore();
  const keys = names("back", 100);
  for (const key of keys) store.set(key);
  while (present(store, keys) > 0) store.flood(100);
  for (const key of keys) store.set(key);
  assertEquals(store.count(CLASS_STAT.ghost_hits), keys.length);
  assertEquals(store.memory.stats[STAT.ghost_hits], keys.length);
  store.flood(2 * FLOOD);
  assertEquals(present(store, keys), keys.length);
});

Deno.test("a new value for a key of the main queue goes to the main queue, whatever its class", () => {
  const store = new OneClassStore();
  storedInMain(store, ["rewritten"]);
  store.store(StoreMode.SET, "rewritten".padEnd(16, "_"), VALUE.repeat(2));
  assert(store.cache.links.items.state(store.peek("rewritten")) & STATE.MAIN);
});

Deno.test("evictions count what had an expiry time and what was never read", () => {
  const store = new OneClassStore();
  const deadline = deadlineSec(store.memory, 1000);
  const keys = names("counted", FLOOD);
  for (const [index, key] of keys.entries()) {
    store.set(key, { deadlineSec: index % 2 === 0 ? 0 : deadline });
    if (index % 3 === 0) assert(store.has(key));
  }
  const gone = keys.map((key, index) => ({ key, index })).filter(({ key }) =>
    store.peek(key) === NO_ITEM
  );
  assertGreater(gone.length, FLOOD / 4);
  assertEquals(store.count(CLASS_STAT.evicted), gone.length);
  const { length: mortal } = gone.filter(({ index }) => index % 2 !== 0);
  assertEquals(store.count(CLASS_STAT.evicted_nonzero), mortal);
  const { length: unread } = gone.filter(({ index }) => index % 3 !== 0);
  assertEquals(store.count(CLASS_STAT.evicted_unfetched), unread);
});

Deno.test("an expired item whose memory is needed is reclaimed, not evicted", () => {
  const store = new OneClassStore();
  const keys = names("mortal", 1000);
  const deadline = deadlineSec(store.memory, 1);
  for (const key of keys) store.set(key, { deadlineSec: deadline });
  store.clock(2000);
  // Nothing evicts before its memory is needed; a flood that fits evicts nothing.
  while (store.count(CLASS_STAT.reclaimed) < keys.length) {
    assertEquals(store.count(CLASS_STAT.evicted), 0);
    store.flood(1);
  }
  assertEquals(store.count(CLASS_STAT.expired_unfetched), keys.length);
});
