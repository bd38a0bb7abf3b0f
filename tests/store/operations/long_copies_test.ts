import { assert, assertEquals } from "@std/assert";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { Cache } from "../../../store/cache.ts";
import { Operation, StoreMode } from "../../../store/operation.ts";
import { type ItemRef, NO_ITEM } from "../../../store/memory/item.ts";
import { MIB } from "../../../store/limits.ts";
import { Outcome } from "../../../store/outcome.ts";
import { TestStore } from "../../support/store.ts";
import { randomFrom } from "../../support/random.ts";

// Values that are received or sent piece by piece, while everything else goes on around them.

const { SET } = StoreMode;

/** A view of the store's memory like another thread's. */
class View {
  readonly cache: Cache;
  readonly #operation: Operation;

  constructor(store: TestStore) {
    this.cache = new Cache(store.memory);
    this.#operation = new Operation(new ByteRegion(new ArrayBuffer(MIB)));
  }

  /** Begins to receive a value. */
  reserve(key: string, length: number): ItemRef {
    const operation = this.#prepare(key);
    operation.mode = SET;
    operation.valueLength = length;
    this.cache.reserved.reserve(operation);
    return operation.reserved;
  }

  /** Receives a piece of it. False when there is no memory. */
  fill(item: ItemRef, at: number, bytes: Uint8Array): boolean {
    if (!this.cache.reserved.grow(item, at + bytes.length)) return false;
    this.#operation.input.bytes.set(bytes);
    this.cache.reserved.fill(item, at, this.#operation.input, 0, bytes.length);
    return true;
  }

  /** Gives it up for lack of memory. */
  refuse(item: ItemRef): Outcome {
    const operation = this.#prepare("");
    operation.mode = SET;
    operation.reserved = item;
    return this.cache.reserved.refuse(operation);
  }

  commit(item: ItemRef, length: number): Outcome {
    const operation = this.#prepare("");
    operation.mode = SET;
    operation.valueLength = length;
    operation.reserved = item;
    return this.cache.reserved.commit(operation);
  }

  find(key: string): ItemRef {
    const operation = this.#prepare(key);
    this.cache.prefetch.addHash(operation);
    return this.cache.get(operation);
  }

  remove(key: string): void {
    this.cache.remove(this.#prepare(key));
  }

  read(item: ItemRef, at: number, length: number): Uint8Array {
    const to = new ByteRegion(new ArrayBuffer(length));
    this.cache.copyValue(item, at, length, to, 0);
    return to.bytes;
  }

  #prepare(key: string): Operation {
    const bytes = new TextEncoder().encode(key);
    this.#operation.input.bytes.set(bytes);
    return Object.assign(this.#operation, new Operation(this.#operation.input), {
      keyOffset: 0,
      keyLength: bytes.length,
    });
  }
}

/** Bytes that tell which value they are of, and where in it. */
function piece(seed: number, at: number, length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let index = 0; index < length; index++) {
    bytes[index] = (seed * 7 + (at + index) * 31 + ((at + index) >> 8)) & 0xff;
  }
  return bytes;
}

Deno.test("a page with a value that is being received is not given away", () => {
  using store = new TestStore({ memoryLimitBytes: 8 * MIB, evictions: false });
  const view = new View(store);
  const length = 40_000;
  let count = 0;
  while (store.store(SET, `large-${count}`, piece(count, 0, length)) === Outcome.STORED) count++;
  // The value takes the place of the first one, and its page comes to be the first that has room again.
  store.remove("large-0");
  const item = view.reserve("new", length);
  view.fill(item, 0, piece(1, 0, length / 2));
  for (let n = count - 1; n > 0; n -= 2) store.remove(`large-${n}`);
  store.remove("large-1");
  for (let n = 0; store.store(SET, `small-${n}`, piece(n, 0, 500)) === Outcome.STORED; n++);
  view.fill(item, length / 2, piece(1, length / 2, length / 2));
  assertEquals(view.commit(item, length), Outcome.STORED);
  assertEquals(store.bytes("new"), piece(1, 0, length));
});

Deno.test("a thread that starts over reads the chain that is there now", () => {
  using store = new TestStore({ memoryLimitBytes: 8 * MIB });
  const [one, other] = [new View(store), new View(store)];
  const length = 40_000;
  const write = (view: View, seed: number): ItemRef => {
    const item = view.reserve("key", length);
    view.fill(item, 0, piece(seed, 0, length));
    view.commit(item, length);
    return view.find("key");
  };
  // Keeps the page from being made anew.
  const spare = other.reserve("spare", 36_000);
  const first = write(other, 1);
  // A reader that went away early.
  one.read(first, 0, 5000);
  // The same item, with other chunks in its chain.
  other.remove("key");
  assertEquals(write(other, 2), first);
  const item = one.find("key");
  // In pieces, of which the first one ends in front of the chain.
  for (let at = 0; at < length; at += 1000) {
    assertEquals(one.read(item, at, 1000), piece(2, at, 1000), `at ${at}`);
  }
  other.cache.reserved.abandon(spare);
});

Deno.test("whoever announces large values and sends none of them takes little memory", () => {
  using store = new TestStore({
    memoryLimitBytes: 32 * MIB,
    itemSizeMaxBytes: 16 * MIB,
    connectionsMax: 100,
  });
  const view = new View(store);
  for (let n = 0; n < 10_000; n++) store.store(SET, `small-${n}`, piece(n, 0, 500));
  const items = Array.from({ length: 100 }, (_, n) => view.reserve(`large-${n}`, 15 * MIB));
  store.check();
  assert(!items.includes(NO_ITEM));
  for (let n = 0; n < 10_000; n++) assert(store.get(`small-${n}`) !== undefined);
  for (const item of items) view.cache.reserved.abandon(item);
});

Deno.test("a value whose memory runs out while it arrives removes the old one", () => {
  const store = new TestStore({
    memoryLimitBytes: 8 * MIB,
    itemSizeMaxBytes: 4 * MIB,
    evictions: false,
  });
  const view = new View(store);
  store.store(SET, "key", "old");
  for (let n = 0; store.store(SET, `large-${n}`, piece(n, 0, 500_000)) === Outcome.STORED; n++);
  const item = view.reserve("key", 3 * MIB);
  assertEquals(view.cache.reserved.grow(item, 3 * MIB), false);
  assertEquals(view.refuse(item), Outcome.NO_MEMORY);
  store.check();
  assertEquals(store.get("key"), undefined);
});

for (const evictions of [true, false]) {
  Deno.test(`random values under way on two threads, evictions ${evictions}`, () => {
    for (let seed = 1; seed <= 3; seed++) {
      const random = randomFrom(seed);
      const below = (bound: number): number => Math.floor(random() * bound);
      using store = new TestStore({ memoryLimitBytes: 8 * MIB, evictions });
      const views = [new View(store), new View(store), new View(store)];
      const lengthOf = (): number =>
        random() < 0.3 ? below(900_000) : random() < 0.5 ? 30_000 + below(70_000) : below(20_000);
      interface UnderWay {
        view: View;
        item: ItemRef;
        seed: number;
        length: number;
        done: number;
      }
      const receiving: UnderWay[] = [];
      const sending: UnderWay[] = [];
      /** The value of each key, by the last commit. */
      const model = new Map<string, { seed: number; length: number }>();
      const keys = new Map<ItemRef, string>();
      for (let step = 1; step <= 3000; step++) {
        const view = views[below(views.length)]!;
        const key = `key-${below(60)}`;
        const choice = random();
        if (choice < 0.15 && receiving.length < 8) {
          const length = lengthOf();
          const item = view.reserve(key, length);
          if (item !== NO_ITEM) receiving.push({ view, item, seed: step, length, done: 0 });
          if (item !== NO_ITEM) keys.set(item, key);
        } else if (choice < 0.45 && receiving.length > 0) {
          const index = below(receiving.length);
          const value = receiving[index]!;
          const length = Math.min(value.length - value.done, 1 + below(200_000));
          if (!value.view.fill(value.item, value.done, piece(value.seed, value.done, length))) {
            assert(!evictions || receiving.length > 1);
            receiving.splice(index, 1);
            assertEquals(value.view.refuse(value.item), Outcome.NO_MEMORY);
            model.delete(keys.get(value.item)!);
            continue;
          }
          value.done += length;
          if (value.done === value.length) {
            receiving.splice(index, 1);
            assertEquals(value.view.commit(value.item, value.length), Outcome.STORED);
            model.set(keys.get(value.item)!, value);
          } else if (random() < 0.1) {
            receiving.splice(index, 1);
            value.view.cache.reserved.abandon(value.item);
          }
        } else if (choice < 0.6) {
          const item = view.find(key);
          if (item === NO_ITEM) continue;
          const { seed, length } = model.get(key)!;
          assertEquals(view.cache.valueLength(item), length);
          if (sending.length < 8 && view.cache.pin(item)) {
            sending.push({ view, item, seed, length, done: 0 });
          } else if (length > 0) {
            assertEquals(view.read(item, 0, length), piece(seed, 0, length));
          }
        } else if (choice < 0.8 && sending.length > 0) {
          const index = below(sending.length);
          const value = sending[index]!;
          const length = Math.min(value.length - value.done, 1 + below(300_000));
          const bytes = value.view.read(value.item, value.done, length);
          assertEquals(bytes, piece(value.seed, value.done, length));
          value.done += length;
          if (value.done === value.length || random() < 0.1) {
            sending.splice(index, 1);
            value.view.cache.unpin(value.item);
          }
        } else if (choice < 0.85) {
          view.remove(key);
          model.delete(key);
        } else if (choice < 0.99) {
          for (let n = below(200); n > 0; n--) {
            const small = `small-${below(3000)}`;
            const outcome = store.store(SET, small, piece(step, 0, below(2000)));
            assert(outcome === Outcome.STORED || !evictions || outcome === Outcome.NO_MEMORY);
          }
        } else {
          store.cache.flushAll(0);
          model.clear();
        }
        if (step % 100 === 0) {
          while (store.cache.maintain());
          store.check();
        }
      }
      for (const { view, item } of receiving) view.cache.reserved.abandon(item);
      for (const { view, item } of sending) view.cache.unpin(item);
    }
  });
}
