import { assertThrows } from "@std/assert";
import { StoreMode } from "../../../store/operation.ts";
import { LOCK, LOCK_HEADER, lockRowsStart, OWNER } from "../../../store/memory/lock_layout.ts";
import { LIST, WAITER_HEADER, waiterQueuesStart } from "../../../store/memory/waiter_layout.ts";
import { WORD } from "../../../store/memory/item.ts";
import { CLASS, CONTROL, PAGE, SUM } from "../../../store/memory/memory.ts";
import { TestStore } from "../../support/store.ts";

const OWNER_NUMBER = 7;

/** A store with an item of each kind: plain, promoted, mortal, chained, locked; and a lease, and one that waits. */
function filledStore(): TestStore {
  const store = new TestStore();
  for (const key of ["plain", "other", "locked"]) store.store(StoreMode.SET, key, "value");
  store.store(StoreMode.SET, "mortal", "value", { deadlineSec: 1000 });
  store.store(StoreMode.SET, "chained", "c".repeat(200_000));
  store.lock("locked", OWNER_NUMBER);
  store.lock("locked", OWNER_NUMBER + 1, { waitMs: 1000 });
  store.getss("leased", 100);
  store.check();
  return store;
}

/** The lock's row is the first one. */
const ROW = 1;

/** How the store is damaged, by what the check says then. */
const DAMAGES: Readonly<Record<string, (store: TestStore) => void>> = {
  "ITEM_COUNT counts the index": ({ memory }) => memory.control[CONTROL.ITEM_COUNT]! += 1,
  "an item is in its key's bucket": (store) => {
    const item = store.item("plain");
    store.memory.segmentOf(item).bytes[store.cache.items.keyOffset(item)]! ^= 1;
  },
  "queue links agree": (store) => store.cache.items.setWord(store.item("other"), WORD.NEWER, 8),
  "a queue counts its items": (store) => {
    const classId = store.cache.links.slabs.classOf(store.item("plain"));
    store.memory.classes[classId * CLASS.WORDS + CLASS.SMALL_COUNT]! += 1;
  },
  "the store counts its bytes": ({ memory }) => memory.sums[SUM.ITEM_BYTES]! += 1,
  "a page counts its chunks in use": (store) => {
    const page = store.item("plain") >>> store.memory.refPageShift;
    store.memory.pages[page * PAGE.WORDS + PAGE.USED]! += 1;
  },
  "a page knows its soonest deadline": (store) => {
    const page = store.item("mortal") >>> store.memory.refPageShift;
    store.memory.pages[page * PAGE.WORDS + PAGE.SOONEST_SEC] = 2000;
  },
  "a chunk knows its item": (store) => {
    const { items } = store.cache;
    const item = store.item("chained");
    items.setWord(items.word(item, items.chainWord(item)), WORD.NEWER, store.item("plain"));
  },
  "the pool counts its pages": ({ memory }) => memory.control[CONTROL.FREE_PAGE_COUNT]! -= 1,
  "arriving values are counted": ({ memory }) => memory.control[CONTROL.RESERVED_ITEMS]! += 1,
  "memory of arriving values is counted": ({ memory }) => memory.sums[SUM.RESERVED_BYTES]! += 8,
  "a locked item knows its lock": (store) =>
    store.cache.items.setWord(store.item("locked"), WORD.NEWER, ROW + 1),
  "the table counts its locks": ({ memory }) =>
    new Int32Array(memory.shared.locks)[LOCK_HEADER.COUNT]! += 1,
  "a connection counts its locks": ({ memory }) => {
    const words = new Int32Array(memory.shared.locks);
    words[LOCK_HEADER.WORDS + OWNER_NUMBER * OWNER.WORDS + OWNER.COUNT]! += 1;
  },
  "a lock has an owner": ({ memory }) => {
    const words = new Int32Array(memory.shared.locks);
    words[lockRowsStart(memory.options) + ROW * LOCK.WORDS + LOCK.OWNER] = 0;
  },
  "a list of waiters counts them": ({ memory }) => {
    const words = new Int32Array(memory.shared.lockWaiters);
    words[waiterQueuesStart(memory.options) + ROW * LIST.WORDS + LIST.COUNT]! += 1;
  },
  "the table counts those that wait": ({ memory }) =>
    new Int32Array(memory.shared.lockWaiters)[WAITER_HEADER.COUNT]! += 1,
  "LEASE_CURR counts what is held": ({ memory }) => memory.control[CONTROL.LEASE_CURR]! += 1,
  "no key has a live value and is held": (store) => {
    // The lease as it was, beside the value that a set puts in its place.
    const { control, shared } = store.memory;
    const leases = new Int32Array(shared.leases);
    const [leasesBefore, controlBefore] = [leases.slice(), control.slice()];
    store.store(StoreMode.SET, "leased", "value");
    leases.set(leasesBefore);
    for (const [name, word] of Object.entries(CONTROL)) {
      if (name.startsWith("LEASE_")) control[word] = controlBefore[word]!;
    }
  },
};

for (const [message, damage] of Object.entries(DAMAGES)) {
  Deno.test(`the check notices damage: ${message}`, () => {
    const store = filledStore();
    damage(store);
    assertThrows(() => store.check(), Error, message);
  });
}
