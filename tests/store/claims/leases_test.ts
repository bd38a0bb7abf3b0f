import { assert, assertEquals, assertLess } from "@std/assert";
import type { Operation } from "../../../store/operation.ts";
import { StoreMode } from "../../../store/operation.ts";
import { STATE } from "../../../store/memory/item.ts";
import { KEY_LENGTH_MAX, MIB } from "../../../store/limits.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { Outcome } from "../../../store/outcome.ts";
import { STAT } from "../../../store/stats.ts";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { highHalf, lowHalf } from "../../../store/base/u64.ts";
import { TestStore } from "../../support/store.ts";

const { SET, ADD, CAS, FILL } = StoreMode;

/** The clock begins at 2. */
const START_SEC = 2;

function withId(id: number): Partial<Operation> {
  return { compare: true, compareLow: lowHalf(id), compareHigh: highHalf(id) };
}

/** Takes a lease that must not have existed. */
function lease(store: TestStore, key: string, seconds: number): number {
  const found = store.getss(key, seconds);
  assert(typeof found === "object" && found.remain === 0, "the lease is made now");
  return found.id;
}

/** Returns the answer that others get about a key. */
function remain(store: TestStore, key: string): number {
  const found = store.getss(key, 1000);
  assert(typeof found === "object");
  return found.remain;
}

function stat(store: TestStore, name: keyof typeof STAT): number {
  return store.memory.stats[STAT[name]]!;
}

// transcripts/leases*.txt have what each command does to each state of a key.

Deno.test("a lease lasts its seconds from the millisecond it was made, and shows them rounded up", () => {
  const store = new TestStore();
  store.clock(700);
  lease(store, "k", 1);
  store.clock(1100);
  assertEquals(remain(store, "k"), 1);
  store.clock(1699);
  assertEquals(remain(store, "k"), 1);
  store.clock(1700);
  assertEquals(remain(store, "k"), 0);
});

Deno.test("a dirty key can be held again; a fill under that lease cleans it", () => {
  using store = new TestStore();
  lease(store, "k", 10);
  store.store(SET, "k", "x", { deadlineSec: START_SEC + 2 });
  store.clock(2000);
  const id = lease(store, "k", 3);
  assertEquals(store.store(CAS, "k", "y", withId(id)), Outcome.STORED);
  assertEquals(store.cache.deadlineSec(store.item("k")), 0);
});

Deno.test("a stub is a value to set, and a lease to those who ask for one", () => {
  using store = new TestStore();
  const stub = { marks: STATE.STUB | STATE.WON, deadlineSec: START_SEC + 30 };
  assertEquals(store.store(SET, "k", "", stub), Outcome.STORED);
  const id = store.id("k");
  assertEquals(store.getss("k", 10), { id, remain: 30 });
  assertEquals(store.store(ADD, "k", "x"), Outcome.NOT_STORED);
  assertEquals(store.store(FILL, "k", "x", withId(id)), Outcome.STORED);
  assertEquals(store.getss("k", 10), "hit");
  store.store(SET, "k", "", stub);
  assertEquals(store.store(SET, "k", "plain"), Outcome.STORED);
  assertEquals(store.cache.deadlineSec(store.item("k")), 0);
});

Deno.test("a stub that never ends is a lease without an end", () => {
  using store = new TestStore();
  store.store(SET, "k", "", { marks: STATE.STUB | STATE.WON });
  const id = store.id("k");
  store.clock(1_000_000);
  assertEquals(store.getss("k", 10), { id, remain: -1 });
});

Deno.test("values that arrive in pieces are judged when they are complete", () => {
  using store = new TestStore();
  const value = new Uint8Array(100_000).fill(7);
  const id = lease(store, "k", 10);
  assertEquals(store.storeInPieces(CAS, "k", value, 10_000, withId(id + 1)), Outcome.EXISTS);
  assertEquals(store.storeInPieces(CAS, "k", value, 10_000, withId(id)), Outcome.STORED);
  assertEquals(store.bytes("k"), value);
  store.remove("k");
  lease(store, "k", 10);
  assertEquals(store.storeInPieces(SET, "k", value, 10_000), Outcome.STORED);
  assertEquals(store.cache.deadlineSec(store.item("k")), START_SEC + 10);
});

Deno.test("the oldest lease goes when the table is full", () => {
  const store = new TestStore({ leaseEntries: 8 });
  for (let key = 0; key < 8; key++) lease(store, `k${key}`, 10);
  lease(store, "one more", 10);
  assertEquals(stat(store, "lease_dropped"), 1);
  assertEquals(remain(store, "k1"), 10);
  assertEquals(remain(store, "k0"), 0);
  store.check();
  // A long key takes the room of several short ones.
  lease(store, "l".repeat(KEY_LENGTH_MAX), 10);
  store.check();
  assertEquals(store.cache.leases.table.count, 4);
});

Deno.test("without a table there are no leases", () => {
  using store = new TestStore({ leaseEntries: 0 });
  assertEquals(store.getss("k", 10), "none");
  store.store(SET, "k", "x");
  assertEquals(store.getss("k", 10), "hit");
  assertEquals(store.deletess("k", 10), Outcome.NO_MEMORY);
  assertEquals(store.get("k"), "x");
});

Deno.test("maintain() removes what is over", () => {
  using store = new TestStore();
  for (let key = 0; key < 500; key++) lease(store, `k${key}`, 1 + key % 3);
  store.clock(2000);
  while (store.cache.maintain());
  assertEquals(store.memory.control[CONTROL.LEASE_CURR], 166);
  assertEquals(stat(store, "lease_expired"), 334);
});

Deno.test("a slice of maintenance removes no more than some hundreds", () => {
  const store = new TestStore({ leaseEntries: 2000 });
  for (let key = 0; key < 2000; key++) lease(store, `k${key}`, 1);
  store.clock(2000);
  let most = 0;
  for (let more = true; more;) {
    const before = stat(store, "lease_expired");
    more = store.cache.maintain();
    most = Math.max(most, stat(store, "lease_expired") - before);
  }
  assertEquals(stat(store, "lease_expired"), 2000);
  assertLess(most, 500);
});

Deno.test("a slice of maintenance goes on where the last one stopped, and begins again", () => {
  const store = new TestStore({ leaseEntries: 7000 });
  for (let key = 0; key < 6000; key++) lease(store, `k${key}`, key < 5990 ? 100 : 1);
  for (const [clockMs, expired] of [[2000, 10], [200_000, 6000]] as const) {
    store.clock(clockMs);
    for (let slice = 0; slice < 50; slice++) store.cache.maintain();
    assertEquals(stat(store, "lease_expired"), expired);
  }
});

Deno.test("a slice of maintenance goes on behind a record that was removed meanwhile", () => {
  const store = new TestStore({ leaseEntries: 7000 });
  const keys = Array.from({ length: 6000 }, (_, index) => `k${index}`);
  const ids = new Map(keys.map((key) => [key, lease(store, key, 100)]));
  const { control } = store.memory;
  const { leases } = store.cache;
  while (control[CONTROL.LEASE_SWEEP] === 0) store.cache.maintain();
  const next = control[CONTROL.LEASE_SWEEP]!;
  const behind = leases.table.newer(next);
  const bytes = new ByteRegion(new ArrayBuffer(KEY_LENGTH_MAX));
  leases.copyKey(next, bytes, 0);
  const key = new TextDecoder().decode(bytes.bytes.subarray(0, leases.keyLength(next)));
  assertEquals(store.store(CAS, key, "x", withId(ids.get(key)!)), Outcome.STORED);
  assertEquals(control[CONTROL.LEASE_SWEEP], behind);
});

Deno.test("keys of every length and any bytes have leases", () => {
  using store = new TestStore({ leaseEntries: 2000 });
  const keys: string[] = [];
  for (let length = 1; length <= KEY_LENGTH_MAX; length++) {
    keys.push(
      String.fromCharCode(...Array.from({ length }, (_, at) => 1 + (at * 7 + length) % 126)),
    );
  }
  const ids = keys.map((key) => lease(store, key, 10));
  store.check();
  keys.forEach((key, index) => assertEquals(store.getss(key, 10), { id: ids[index]!, remain: 10 }));
  keys.forEach((key, index) => {
    assertEquals(store.store(CAS, key, "x", withId(ids[index]!)), Outcome.STORED);
  });
  assertEquals(store.cache.leases.table.count, 0);
});

/** The latest second up to which the key is dirty; 0: it is not. */
function dirtyUntil(store: TestStore, key: string): number {
  store.store(SET, key, "probe");
  return store.cache.deadlineSec(store.item(key));
}

Deno.test("a key is dirty until the latest deadline of the leases that plain sets met", () => {
  for (const [first, second] of [[20, 50], [50, 20]] as const) {
    using store = new TestStore();
    for (const seconds of [first, second]) {
      lease(store, "k", seconds);
      store.store(SET, "k", "x", { deadlineSec: START_SEC + 1 });
      store.clock(1000 * (seconds === first ? 1 : 2));
    }
    const last = Math.max(START_SEC + first, START_SEC + 1 + second);
    assertEquals(dirtyUntil(store, "k"), last, `${first}, then ${second}`);
  }
});

Deno.test("a lease that is given back leaves the key as it was: dirty, or not", () => {
  for (const isDirty of [true, false]) {
    using store = new TestStore();
    if (isDirty) {
      lease(store, "k", 50);
      store.store(SET, "k", "x", { deadlineSec: START_SEC + 1 });
      store.clock(1000);
    }
    const id = lease(store, "k", 20);
    assertEquals(store.remove("k", withId(id)), Outcome.DELETED);
    assertEquals(store.cache.leases.count, isDirty ? 1 : 0);
    assertEquals(dirtyUntil(store, "k"), isDirty ? START_SEC + 50 : 0);
  }
});

Deno.test("a new record has nothing of the one whose memory it gets", () => {
  using store = new TestStore();
  lease(store, "old", 500);
  store.store(SET, "old", "x");
  assertEquals(dirtyUntil(store, "old"), START_SEC + 500);
  store.remove("old");
  assertEquals(store.cache.leases.count, 0);
  const id = lease(store, "new", 10);
  assertEquals(store.remove("new", withId(id)), Outcome.DELETED);
  assertEquals(dirtyUntil(store, "new"), 0);
});

Deno.test("a record that is over is not counted as dropped when the table is full", () => {
  using store = new TestStore({ leaseEntries: 4 });
  for (let key = 0; key < 4; key++) lease(store, `k${key}`, key === 0 ? 1 : 100);
  store.clock(2000);
  lease(store, "one more", 10);
  assertEquals(stat(store, "lease_dropped"), 0);
  lease(store, "two more", 10);
  assertEquals(stat(store, "lease_dropped"), 1);
  assertEquals(store.memory.control[CONTROL.LEASE_CURR], 4);
});

Deno.test("a lease stays when there is no memory for the number that would be made", () => {
  using store = new TestStore({ memoryLimitBytes: MIB, evictions: false, leaseEntries: 16 });
  const id = lease(store, "k", 50);
  const value = "v".repeat(100);
  let stored = 0;
  for (const length of [100, 1]) {
    while (store.store(SET, `key ${stored}`, value.slice(0, length)) === Outcome.STORED) stored++;
  }
  const fields = { vivify: true, initialLow: 7 };
  assertEquals(store.add("k", 1, true, fields), Outcome.NO_MEMORY);
  assertEquals(store.getss("k", 50), { id, remain: 50 });
  for (let key = 0; key < stored; key++) store.remove(`key ${key}`);
  assertEquals(store.add("k", 1, true, fields), Outcome.STORED);
  assertEquals(store.get("k"), "7");
  assertEquals(store.cache.deadlineSec(store.item("k")), START_SEC + 50, "the key is dirty");
});
