import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { StoreMode } from "../../../store/operation.ts";
import { firstIdAt, takeId } from "../../../store/memory/ids.ts";
import { NO_ITEM } from "../../../store/memory/item.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import {
  compareU64,
  highHalf,
  lowHalf,
  u64ToBigInt,
  u64ToNumber,
} from "../../../store/base/u64.ts";
import { TestStore } from "../../support/store.ts";

Deno.test("firstIdAt() grows with the clock, and is random when the clock cannot be believed", () => {
  const now = 1_800_000_000_000;
  assertGreater(firstIdAt(now + 1, 0), firstIdAt(now, 0));
  assertLess(firstIdAt(now, 0), 2 ** 53);
  assertEquals(firstIdAt(0, 0), 2 ** 40);
  assertLess(firstIdAt(0, 0.999999), 2 ** 52);
});

Deno.test("takeId() carries into the upper half", () => {
  const { memory } = new TestStore({ firstId: 2 ** 32 });
  takeId(memory);
  const { control } = memory;
  assertEquals(u64ToNumber(control[CONTROL.ID_LOW]!, control[CONTROL.ID_HIGH]!), 2 ** 32);
});

Deno.test("halves and whole numbers agree", () => {
  for (const number of [0, 1, 2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, 1_800_000_000_000_000]) {
    assertEquals(u64ToNumber(lowHalf(number), highHalf(number)), number);
    assertEquals(u64ToBigInt(lowHalf(number), highHalf(number)), BigInt(number));
  }
  assertEquals(compareU64(-1, 0, 0, 1) < 0, true);
  assertEquals(compareU64(0, -1, -1, 0x7fffffff) > 0, true);
  assertEquals(compareU64(5, 5, 5, 5), 0);
});

Deno.test("items keep their ids, and flushes their bounds, while parts of the ids wrap", () => {
  // The parts: 32 bits of the item, 16 more of it, and what only the last id handed out has.
  for (const wrap of [2 ** 32, 2 ** 48, 2 ** 48 + 2 ** 32, 3 * 2 ** 48]) {
    const store = new TestStore({ firstId: wrap - 21 });
    const { SET } = StoreMode;
    const lengths = [5, 0xffff, 0x10000];
    for (let n = 0; n < 10; n++) store.store(SET, `flushed-${n}`, "v");
    store.cache.flushAll(0);
    const ids = new Map<string, number>();
    for (let n = 0; n < 20; n++) {
      store.store(SET, `key-${n}`, "v".repeat(lengths[n % lengths.length]!));
      ids.set(`key-${n}`, store.changedId());
    }
    assertEquals(ids.get("key-0"), wrap - 10);
    for (const [key, id] of ids) assertEquals(store.id(key), id);
    for (let n = 0; n < 10; n++) assertEquals(store.item(`flushed-${n}`), NO_ITEM);
    store.cache.flushAll(0);
    store.store(SET, "later", "v");
    for (const key of ids.keys()) assertEquals(store.item(key), NO_ITEM);
    assertEquals(store.get("later"), "v");
  }
});

Deno.test("ids of leases and tokens carry into the upper half", () => {
  const store = new TestStore({ firstId: 2 ** 32 - 1 });
  const ids = [store.token("locked"), ...["locked", "absent"].map((key) => store.getss(key, 10))];
  assertEquals(ids, [
    2 ** 32 - 1,
    { id: 2 ** 32, remain: 1 },
    { id: 2 ** 32 + 1, remain: 0 },
  ]);
});
