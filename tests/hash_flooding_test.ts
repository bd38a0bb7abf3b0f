import { assertEquals, assertGreater, assertLess } from "@std/assert";
import { readCommand } from "../lib/cli/command.ts";
import { readProcessInfo } from "../lib/process/info.ts";
import type { HashSeed } from "../store/base/hash.ts";
import { WORD } from "../store/memory/item.ts";
import { CONTROL } from "../store/memory/memory.ts";
import { StoreMode } from "../store/operation.ts";
import { storeOptions, TestStore } from "./support/store.ts";

// Hash flooding: a client stores keys of which it knows that they share buckets under the hash's seed 0. Work is
// counted in items that lookups pass.

const ZERO: HashSeed = new Int32Array(2);
const KEYS = 100_000;
/** The lowest bits of the hash, which the keys have in common. */
const SHARED_BITS = 8;

/** Keys whose hashes for seed 0 agree in their lowest bits. Works for any hash: it tries. */
function collidingKeys(): string[] {
  const { cache, input } = new TestStore({ hashSeed: ZERO });
  const keys: string[] = [];
  for (let number = 0; keys.length < KEYS; number++) {
    const key = `key${number}`;
    for (let at = 0; at < key.length; at++) input.bytes[at] = key.charCodeAt(at);
    const hash = cache.links.index.hash(input, 0, key.length);
    if ((hash & ((1 << SHARED_BITS) - 1)) === 0) keys.push(key);
  }
  return keys;
}

/** Items that a lookup passes until it finds its own, on average over all items. */
function passedPerLookup({ memory, cache: { links } }: TestStore): number {
  let passed = 0;
  let items = 0;
  for (let bucket = 0; bucket < memory.control[CONTROL.HASH_BUCKETS]!; bucket++) {
    let depth = 0;
    for (let item = links.index.head(bucket); item !== 0;) {
      passed += ++depth;
      items++;
      item = links.items.word(item, WORD.HASH_NEXT);
    }
  }
  return passed / items;
}

/** The hash's seed as a server that starts now draws it. */
function drawnSeed(): HashSeed {
  const command = readCommand([], readProcessInfo());
  if (command.kind !== "run") throw new Error("cannot start without options");
  return command.options.store.hashSeed;
}

Deno.test("100,000 keys that collide under a known seed do not collide in a server", () => {
  const keys = collidingKeys();
  const passed = (hashSeed: HashSeed): number => {
    const store = new TestStore({ ...storeOptions(), hashSeed });
    for (const key of keys) store.store(StoreMode.SET, key, "x");
    // Keys that collide are kept apart nonetheless.
    assertEquals(store.memory.control[CONTROL.ITEM_COUNT], keys.length);
    return passedPerLookup(store);
  };
  assertGreater(passed(ZERO), 50);
  assertLess(passed(drawnSeed()), 2);
});
