import { assert, assertEquals } from "@std/assert";
import { Cache, type ItemRef } from "../../../store/cache.ts";
import { DELAYED_HITS_MAX } from "../../../store/items/hits.ts";
import { MIB } from "../../../store/limits.ts";
import { FREQUENCY_MASK, FREQUENCY_ONE, NO_ITEM, STATE, WORD } from "../../../store/memory/item.ts";
import { CONTROL, Memory } from "../../../store/memory/memory.ts";
import { StoreMode } from "../../../store/operation.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { keyIn, movePage, TestStore } from "../../support/store.ts";

const { SET } = StoreMode;
const encoder = new TextEncoder();

/** A store that one thread changes (`store`, `remove`, …), and another one reads without the mutex. */
class ReadStore extends TestStore {
  readonly reader = new Cache(new Memory(this.memory.shared));
  readonly hits = this.reader.links.hits;

  set(key: string, value = "value"): ItemRef {
    this.store(SET, key, value);
    return this.find(key);
  }

  /** Returns the item without a trace. */
  find(key: string): ItemRef {
    this.input.bytes.set(encoder.encode(key));
    return this.cache.peek(keyIn(this.cache, this.input, key.length));
  }

  /** Reads a key and delays the hit. */
  read(key: string): ItemRef {
    const { items, index } = this.reader.links;
    const item = this.find(key);
    assert(item !== NO_ITEM, key);
    const accessedSec = items.word(item, WORD.ACCESSED_SEC);
    const idLow = items.word(item, WORD.ID_LOW);
    this.hits.delay(item, index.hashOf(item), idLow, items.state(item), accessedSec);
    return item;
  }

  /** The words that a hit changes. */
  traces(item: ItemRef): [reads: number, fetched: boolean, accessedSec: number] {
    const { items } = this.cache.links;
    const state = items.state(item);
    return [
      (state & FREQUENCY_MASK) / FREQUENCY_ONE,
      (state & STATE.FETCHED) !== 0,
      items.word(item, WORD.ACCESSED_SEC),
    ];
  }

  /** Applies hits of items that are there no longer: not a byte changes. */
  applyInVain(): void {
    assert(this.hits.hasDelayed);
    const before = this.memory.segments.map(({ bytes }) => bytes.slice());
    this.hits.apply();
    assertEquals(this.hits.hasDelayed, false);
    for (const [segment, { bytes }] of this.memory.segments.entries()) {
      const old = before[segment]!;
      // The difference of two whole stores would not fit the memory.
      assertEquals(bytes.findIndex((byte, at) => byte !== old[at]), -1, "the first changed byte");
    }
    this.check();
  }

  get nowSec(): number {
    return this.memory.control[CONTROL.NOW_SEC]!;
  }
}

const small = (): ReadStore => new ReadStore({ memoryLimitBytes: MIB });

Deno.test("a delayed hit leaves an item alone until it is applied", () => {
  const store = small();
  const item = store.set("a");
  const storedSec = store.nowSec;
  store.clock(5000);
  store.read("a");
  store.read("a");
  assertEquals(store.traces(item), [0, false, storedSec]);
  store.hits.apply();
  assertEquals(store.traces(item), [2, true, store.nowSec]);
});

Deno.test("enter() applies what its thread has delayed", () => {
  const store = small();
  const item = store.set("a");
  store.read("a");
  store.cache.enter();
  store.cache.leave();
  assertEquals(store.traces(item), [0, false, store.nowSec]);
  store.reader.enter();
  assertEquals(store.traces(item), [1, true, store.nowSec]);
  store.reader.leave();
  assertEquals(store.hits.hasDelayed, false);
});

Deno.test("a hit that would change nothing is not delayed", () => {
  const store = small();
  const item = store.set("a");
  for (let reads = 0; reads < 3; reads++) store.read("a");
  store.hits.apply();
  store.read("a");
  assertEquals(store.hits.hasDelayed, false);
  store.clock(2000);
  store.read("a");
  store.hits.apply();
  assertEquals(store.traces(item), [3, true, store.nowSec]);
});

Deno.test("a full list drops hits until it is applied", () => {
  const store = small();
  const first = store.set("first");
  const last = store.set("last");
  for (let reads = 0; reads < DELAYED_HITS_MAX; reads++) {
    assertEquals(store.hits.isFull, false);
    store.read("first");
  }
  assertEquals(store.hits.isFull, true);
  store.read("last");
  store.hits.apply();
  assertEquals(store.traces(first), [3, true, store.nowSec]);
  assertEquals(store.traces(last), [0, false, store.nowSec]);
  assertEquals(store.hits.isFull, false);
});

Deno.test("a freed item gets no hit", () => {
  const store = small();
  store.set("a");
  store.read("a");
  store.remove("a");
  store.applyInVain();
});

Deno.test("another key's item in the memory of a freed one gets no hit", () => {
  const store = small();
  const item = store.set("a");
  store.read("a");
  store.remove("a");
  assertEquals(store.set("b"), item);
  store.applyInVain();
});

Deno.test("a value that replaces the one that was read gets no hit", () => {
  const store = small();
  const item = store.set("a", "old");
  store.read("a");
  assertEquals(store.set("a", "new"), item);
  store.applyInVain();
  store.read("a");
  store.remove("a");
  assertEquals(store.set("a", "new"), item);
  store.applyInVain();
});

Deno.test("an item gets its hit although its bucket was split, and none after its page was moved", () => {
  const store = new ReadStore();
  const item = store.set("a");
  store.read("a");
  const { control } = store.memory;
  const buckets = control[CONTROL.HASH_BUCKETS]!;
  for (let key = 0; control[CONTROL.HASH_BUCKETS]! < 3 * buckets; key++) store.set(`key${key}`);
  store.hits.apply();
  assertEquals(store.traces(item)[0], 1);
  store.read("a");
  movePage(store.cache, store.cache.links.slabs.classOf(item), 5);
  while (store.find("a") === item) {
    movePage(store.cache, store.cache.links.slabs.classOf(item), 5);
  }
  store.applyInVain();
});

Deno.test("hits with references to anything change nothing but traces of items", () => {
  withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    using store = small();
    const keys = Array.from({ length: 2000 }, (_, index) => `key${index}`);
    const key = (): string => keys[Math.floor(random() * keys.length)]!;
    for (let round = 0; round < 200; round++) {
      for (let step = 0; step < 100; step++) {
        const action = Math.floor(random() * 4);
        if (action === 0) store.remove(key());
        else if (action === 1) store.set(key(), "v".repeat(random() * 2000));
        else if (action === 2) {
          const each = key();
          if (store.find(each) !== NO_ITEM) store.read(each);
        } else {
          const [item, hash, idLow] = [0, 0, 0].map(() => (random() * 2 ** 32) | 0);
          store.hits.delay(item!, hash!, idLow!, 0, 0);
        }
      }
      store.hits.apply();
    }
  });
});
