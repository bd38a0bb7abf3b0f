import { assert, assertEquals } from "@std/assert";
import { StoreMode } from "../../../store/operation.ts";
import { KeyWalk } from "../../../store/items/key_walk.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { MIB } from "../../../store/limits.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { TestStore } from "../../support/store.ts";

function keyText(store: TestStore, item: number): string {
  const region = new ByteRegion(new ArrayBuffer(250));
  store.cache.copyKey(item, region, 0);
  return new TextDecoder().decode(region.bytes.subarray(0, store.cache.items.keyLength(item)));
}

Deno.test("KeyWalk meets every key once while the index grows under it", () => {
  const store = new TestStore({ memoryLimitBytes: 32 * MIB });
  let stored = 0;
  const grow = (count: number): void => {
    for (const end = stored + count; stored < end; stored++) {
      store.store(StoreMode.SET, `k${stored}`, "");
    }
  };
  grow(20_000);
  const first = stored;
  const walk = new KeyWalk(store.cache.links);
  const bucketsAtStart = store.memory.control[CONTROL.HASH_BUCKETS]!;
  const met = new Map<string, number>();
  for (let step = 0; !walk.isDone; step++) {
    walk.visit((item) => {
      const key = keyText(store, item);
      met.set(key, (met.get(key) ?? 0) + 1);
    });
    walk.next();
    if (step % 200 === 0) grow(500);
  }
  assert(store.memory.control[CONTROL.HASH_BUCKETS]! > 2 * bucketsAtStart, "the index has grown");
  for (let n = 0; n < first; n++) assertEquals(met.get(`k${n}`), 1, `k${n}`);
  for (const [key, times] of met) assertEquals(times, 1, key);
});

Deno.test("KeyWalk leaves out what is dead", () => {
  const store = new TestStore();
  store.store(StoreMode.SET, "dies", "", { deadlineSec: 3 });
  store.store(StoreMode.SET, "lives", "");
  store.clock(5000);
  const walk = new KeyWalk(store.cache.links);
  const met: string[] = [];
  for (; !walk.isDone; walk.next()) walk.visit((item) => met.push(keyText(store, item)));
  assertEquals(met, ["lives"]);
});

Deno.test("KeyWalk is done when no item is left, wherever it is", () => {
  const store = new TestStore();
  assertEquals(new KeyWalk(store.cache.links).isDone, true);
  store.store(StoreMode.SET, "only", "");
  const walk = new KeyWalk(store.cache.links);
  walk.next();
  assertEquals(walk.isDone, false);
  store.remove("only");
  assertEquals(walk.isDone, true);
});
