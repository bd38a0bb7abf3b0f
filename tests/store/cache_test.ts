import { assertEquals } from "@std/assert";
import { StoreMode } from "../../store/operation.ts";
import { MIB } from "../../store/limits.ts";
import { Outcome } from "../../store/outcome.ts";
import { TestStore } from "../support/store.ts";
import { randomFrom } from "../support/random.ts";

const { SET, ADD, REPLACE, APPEND, PREPEND, CAS } = StoreMode;

function filled(length: number, seed: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at++) bytes[at] = (at * 31 + seed * 7) & 0xff;
  return bytes;
}

Deno.test("set, get and remove", () => {
  const store = new TestStore();
  assertEquals(store.get("a"), undefined);
  assertEquals(store.store(SET, "a", "hello"), Outcome.STORED);
  assertEquals(store.get("a"), "hello");
  assertEquals(store.store(SET, "a", "world, which is longer than before"), Outcome.STORED);
  assertEquals(store.get("a"), "world, which is longer than before");
  store.check();
  assertEquals(store.remove("a"), Outcome.DELETED);
  assertEquals(store.remove("a"), Outcome.NOT_FOUND);
  store.check();
});

Deno.test("add, replace, append, prepend follow presence", () => {
  const store = new TestStore();
  assertEquals(store.store(REPLACE, "a", "1"), Outcome.NOT_STORED);
  assertEquals(store.store(APPEND, "a", "1"), Outcome.NOT_STORED);
  assertEquals(store.store(ADD, "a", "1", { clientFlags: 7 }), Outcome.STORED);
  assertEquals(store.store(ADD, "a", "1"), Outcome.NOT_STORED);
  assertEquals(store.store(APPEND, "a", "23"), Outcome.STORED);
  assertEquals(store.store(PREPEND, "a", "0"), Outcome.STORED);
  assertEquals(store.get("a"), "0123");
  assertEquals(store.cache.clientFlags(store.item("a")), 7);
  assertEquals(store.store(REPLACE, "a", "x"), Outcome.STORED);
  assertEquals(store.get("a"), "x");
  store.check();
});

Deno.test("cas compares the id, ids grow", () => {
  const store = new TestStore();
  assertEquals(store.store(CAS, "a", "1", { compareLow: 1 }), Outcome.NOT_FOUND);
  store.store(SET, "a", "1");
  const id = store.id("a");
  assertEquals(store.store(CAS, "a", "2", { compareLow: id + 1 }), Outcome.EXISTS);
  assertEquals(store.store(CAS, "a", "2", { compareLow: id }), Outcome.STORED);
  assertEquals(store.id("a") > id, true);
  assertEquals(store.get("a"), "2");
});

Deno.test("incr and decr keep the length, grow when they must", () => {
  const store = new TestStore();
  store.store(SET, "n", "99");
  assertEquals(store.add("n", 1, true), Outcome.OK);
  assertEquals(store.get("n"), "100");
  assertEquals(store.add("n", 1, false), Outcome.OK);
  assertEquals(store.get("n"), "99 ");
  store.store(SET, "n", "18446744073709551615");
  store.add("n", 1, true);
  assertEquals(store.get("n"), "0" + " ".repeat(19));
  store.store(SET, "n", "x");
  assertEquals(store.add("n", 1, true), Outcome.NOT_NUMERIC);
  store.check();
});

Deno.test("items die at their deadline and by flush", () => {
  const store = new TestStore();
  store.store(SET, "a", "1", { deadlineSec: 4 });
  store.store(SET, "b", "1");
  assertEquals(store.get("a"), "1");
  store.clock(2000);
  assertEquals(store.get("a"), undefined);
  store.cache.flushAll(0);
  assertEquals(store.get("b"), undefined);
  store.store(SET, "b", "2");
  assertEquals(store.get("b"), "2");
  store.cache.flushAll(6);
  assertEquals(store.get("b"), "2");
  store.clock(4000);
  assertEquals(store.get("b"), undefined);
  store.store(SET, "b", "3");
  assertEquals(store.get("b"), undefined);
  store.clock(5000);
  assertEquals(store.get("b"), undefined);
  store.store(SET, "b", "4");
  assertEquals(store.get("b"), "4");
  store.check();
});

for (const slabLayout of ["leased", "memcached"] as const) {
  Deno.test(`random operations on layout ${slabLayout} agree with a Map, and the store stays whole`, () => {
    for (let seed = 1; seed <= 4; seed++) {
      const random = randomFrom(seed);
      const store = new TestStore({
        memoryLimitBytes: (slabLayout === "leased" ? 2 : 8) * MIB,
        slabLayout,
        growthFactor: slabLayout === "leased" ? 1.1 : 1.25,
      });
      const model = new Map<string, Uint8Array>();
      let now = 0;
      for (let step = 0; step < 4000; step++) {
        const key = `key-${Math.floor(random() * 400)}`;
        const length = random() < 0.1
          ? Math.floor(random() * 200_000)
          : Math.floor(random() * 2000);
        const value = filled(length, step);
        const choice = random();
        if (choice < 0.5) {
          const outcome = random() < 0.5
            ? store.store(SET, key, value)
            : store.storeInPieces(SET, key, value, 5000);
          assertEquals(outcome, Outcome.STORED);
          model.set(key, value);
        } else if (choice < 0.6) {
          const outcome = store.store(APPEND, key, value);
          const old = model.get(key);
          if (outcome === Outcome.STORED) {
            model.set(key, new Uint8Array([...old!, ...value]));
          }
        } else if (choice < 0.65) {
          store.remove(key);
          model.delete(key);
        } else if (choice < 0.66) {
          now += 1000;
          store.clock(now);
        } else if (choice < 0.665) {
          store.cache.flushAll(0);
          model.clear();
        } else {
          const bytes = store.bytes(key);
          // Evicted values are gone; those that are there are right.
          if (bytes !== undefined) assertEquals(bytes, model.get(key));
        }
        if (step % 50 === 0) {
          while (store.cache.maintain());
          store.check();
        }
      }
      store.check();
    }
  });
}

Deno.test("a million small items: the index grows, all are found", () => {
  const store = new TestStore({ memoryLimitBytes: 160 * MIB });
  for (let n = 0; n < 1_000_000; n++) store.store(SET, `k${n}`, "0123456789");
  let found = 0;
  for (let n = 0; n < 1_000_000; n += 101) if (store.get(`k${n}`)) found++;
  assertEquals(found, Math.ceil(1_000_000 / 101));
});
