import { assert, assertEquals } from "@std/assert";
import { ByteRegion, latin1Text } from "../../../store/base/bytes.ts";
import { type Found, NO_ITEM, ReadOutcome } from "../../../store/cache.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { StoreMode } from "../../../store/operation.ts";
import { type ChangedOptions, keyIn, TestStore } from "../../support/store.ts";

type Fields = Parameters<TestStore["store"]>[3];

function makeStore(changed: ChangedOptions = {}): TestStore {
  return new TestStore({ optimisticReads: true, threads: 2, ...changed });
}

function shown(found: Found): unknown {
  const { valueLength, clientFlags, idLow, idHigh, remainSec, idleSec } = found;
  const { wasFetched, isStale, isWon, isKeyBinary } = found;
  const copy = new ByteRegion(new ArrayBuffer(64));
  const value = latin1Text(copy.bytes, 0, found.copyValue(copy, 0));
  return [
    ...[value, valueLength, clientFlags, idLow, idHigh, remainSec, idleSec],
    ...[wasFetched, isStale, isWon, isKeyBinary],
  ];
}

const ITEMS: Readonly<Record<string, Fields>> = {
  plain: {},
  "with flags and a deadline": { clientFlags: -1, deadlineSec: 5000 },
};

for (const changed of [{}, { casEnabled: false }]) {
  for (const [name, fields] of Object.entries(ITEMS)) {
    Deno.test(`an item ${name} looks the same with the mutex and without, ${JSON.stringify(changed)}`, () => {
      const store = makeStore(changed);
      store.store(StoreMode.SET, "key", "value", fields);
      const { optimistic } = store.cache;
      const item = store.item("key");
      store.input.bytes.set(new TextEncoder().encode("key"));
      assertEquals(optimistic.find(keyIn(store.cache, store.input, 3)), ReadOutcome.HIT);
      const expected = shown(optimistic.found);
      assertEquals(shown(store.cache.describe(item)), expected);
      assertEquals(optimistic.found.idLow !== 0, changed.casEnabled !== false);
    });
  }
}

Deno.test("an item with an id of a client and one in a chain are described by the words of their own", () => {
  const store = makeStore();
  store.store(StoreMode.SET, "key", "v", { explicit: true, explicitLow: 7, explicitHigh: 9 });
  const { idLow, idHigh, isInOneChunk } = store.cache.describe(store.item("key"));
  assertEquals([idLow, idHigh, isInOneChunk], [7, 9, true]);
  store.store(StoreMode.SET, "key", "x".repeat(100_000));
  const found = store.cache.describe(store.item("key"));
  assertEquals([found.valueLength, found.isInOneChunk], [100_000, false]);
});

Deno.test("a lease is described as an empty item that a client was told to fill, whatever -C says", () => {
  const { cache, operation, memory } = makeStore({ casEnabled: false });
  const { found } = cache.optimistic;
  operation.begin(0, 3);
  Object.assign(operation, { idLow: 7, idHigh: 1, remainSec: 10 });
  found.describeLease(operation, false);
  assertEquals([found.item, found.idLow, found.idHigh], [NO_ITEM, 7, 1]);
  assertEquals([found.valueLength, found.clientFlags, found.remainSec], [0, 0, 10]);
  assertEquals([found.idleSec, found.wasFetched, found.isStale], [0, false, false]);
  assertEquals(found.deadlineSec, memory.control[CONTROL.NOW_SEC]! + 10);
  assert(found.isWon);
});
