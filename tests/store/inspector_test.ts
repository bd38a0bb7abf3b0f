import { assert, assertEquals } from "@std/assert";
import { StoreMode } from "../../store/operation.ts";
import { ByteRegion } from "../../store/base/bytes.ts";
import { type ItemRef, NO_ITEM } from "../../store/cache.ts";
import { createSharedMemory, Memory } from "../../store/memory/memory.ts";
import { formatCache, RowKind } from "../../store/row_cache.ts";
import { THREAD_STAT } from "../../store/stats.ts";
import { storeOptions, TestStore } from "../support/store.ts";

const COUNT = 1000;

function filled(): TestStore {
  const store = new TestStore();
  for (let n = 0; n < COUNT; n++) store.store(StoreMode.SET, `key${n}`, "v".repeat(n % 300));
  return store;
}

/** Each slice is one hold of the mutex; something is stored between them. */
function run(store: TestStore, slices: Generator<void>): number {
  let count = 0;
  for (const _ of slices) store.store(StoreMode.SET, "between", `${++count}`);
  return count;
}

function bytesOf(text: string): ByteRegion {
  return new ByteRegion(new TextEncoder().encode(text).buffer);
}

Deno.test("walkItems meets every item once, in slices", () => {
  const store = filled();
  const { inspector } = store.cache;
  const keys = new Map<string, number>();
  const slices = run(
    store,
    inspector.walkItems(null, (item, classId) => {
      assertEquals(classId, inspector.classOf(item));
      const key = inspector.key(item);
      keys.set(key, (keys.get(key) ?? 0) + 1);
    }),
  );
  for (let n = 0; n < COUNT; n++) assertEquals(keys.get(`key${n}`), 1, `key${n}`);
  assert(slices > COUNT / 64);
});

Deno.test("walkItems visits the classes that are asked for", () => {
  const store = filled();
  const { inspector } = store.cache;
  const all = new Map<number, number>();
  run(store, inspector.walkItems(null, (_, id) => all.set(id, (all.get(id) ?? 0) + 1)));
  const [classId, count] = [...all].find(([, items]) => items > 1)!;
  let met = 0;
  run(store, inspector.walkItems(new Set([classId]), () => met++));
  assertEquals(met, count);
});

Deno.test("walkQueues meets the items of a class, the newest first", () => {
  const store = new TestStore();
  for (let n = 0; n < COUNT; n++) store.store(StoreMode.SET, `key${1000 + n}`, "value");
  const { inspector } = store.cache;
  let item: ItemRef = NO_ITEM;
  for (const _ of inspector.walkItems(null, (each) => item = each));
  const keys: string[] = [];
  for (
    const _ of inspector.walkQueues(inspector.classOf(item), (each) => {
      keys.push(inspector.key(each));
    })
  );
  assertEquals(keys.length, COUNT);
  assertEquals(keys, keys.toSorted().reverse());
});

Deno.test("keys are compared with prefixes, and asked for blanks", () => {
  const store = new TestStore();
  store.store(StoreMode.SET, "one two", "");
  const { inspector } = store.cache;
  for (
    const _ of inspector.walkItems(null, (item) => {
      assert(inspector.keyStartsWith(item, bytesOf("")));
      assert(inspector.keyStartsWith(item, bytesOf("one")));
      assert(inspector.keyStartsWith(item, bytesOf("one two")));
      assert(!inspector.keyStartsWith(item, bytesOf("two")));
      assert(!inspector.keyStartsWith(item, bytesOf("one two three")));
      assert(!inspector.isKeyOneWord(item));
    })
  );
});

Deno.test("threadStat() reads one statistic of one thread", () => {
  const { cache: { inspector, memory } } = new TestStore();
  memory.threadStats[THREAD_STAT.read_fallbacks] = 7;
  const maintenance = inspector.threadCount - 1;
  assertEquals(inspector.threadStat(maintenance, "read_fallbacks"), 7);
  assertEquals(inspector.threadStat(maintenance, "batches"), 0);
  assertEquals(inspector.threadStat(0, "read_fallbacks"), 0);
});

Deno.test("resetStats clears statistics and keeps sizes", () => {
  const { cache: { inspector } } = filled();
  assertEquals(inspector.stat("cmd_set"), COUNT);
  assertEquals(inspector.sumOfClasses("cmd_set"), COUNT);
  const bytes = inspector.itemBytes;
  inspector.resetStats();
  assertEquals(inspector.stat("cmd_set"), 0);
  assertEquals(inspector.sumOfClasses("cmd_set"), 0);
  assertEquals(inspector.itemBytes, bytes);
  assertEquals(inspector.control("ITEM_COUNT"), COUNT);
});

Deno.test("leases are listed while clients hold them", () => {
  const memory = new Memory(createSharedMemory(storeOptions({
    rows: { prefixes: ["row:"], expiry: "refuse" },
  })));
  const cache = formatCache(memory);
  const store = new TestStore({}, { memory, cache });
  const { inspector } = cache;
  const listed = (): string[] => {
    const keys: string[] = [];
    const { leaseBucketCount } = inspector;
    for (let bucket = 0; bucket < leaseBucketCount; bucket += 100) {
      const end = Math.min(bucket + 100, leaseBucketCount);
      inspector.visitLeases(bucket, end, ({ key, remainSec }) => keys.push(`${key} ${remainSec}`));
    }
    return keys.sort();
  };
  store.getss("short", 5);
  store.getss("long", 50);
  store.getss("dirty", 50);
  store.store(StoreMode.SET, "dirty", "value");
  // The database thread reads a row under a lease of its own.
  const operation = store.operationOn("row:1", { owner: 1 });
  cache.prefetch.addHash(operation);
  const slot = cache.rows!.requests.take(RowKind.READ, operation, 1, 0);
  cache.rows!.requests.submit(slot);
  assertEquals(cache.rows!.take(1).length, 1);
  assertEquals(cache.leases.count, 4);
  assertEquals(listed(), ["long 50", "short 5"]);
  store.clock(5000);
  assertEquals(cache.leases.count, 4, "nothing has been swept");
  assertEquals(listed(), ["long 45"]);
  store.cache.flushAll(0);
  assertEquals(listed(), []);
});
