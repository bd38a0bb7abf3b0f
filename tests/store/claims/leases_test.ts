import { assert, assertEquals, assertLess, assertNotEquals } from "@std/assert";
import type { Operation } from "../../../store/operation.ts";
import { StoreMode } from "../../../store/operation.ts";
import { STATE } from "../../../store/memory/item.ts";
import { KEY_LENGTH_MAX } from "../../../store/limits.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { Outcome } from "../../../store/outcome.ts";
import { STAT } from "../../../store/stats.ts";
import { highHalf, lowHalf } from "../../../store/base/u64.ts";
import { TestStore } from "../../support/store.ts";

const { SET, ADD, REPLACE, APPEND, PREPEND, CAS, FILL } = StoreMode;

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

Deno.test("getOrLease() makes one lease, and shows it to others", () => {
  const store = new TestStore();
  const id = lease(store, "k", 10);
  assertEquals(store.getss("k", 99), { id, remain: 10 });
  assertEquals(store.get("k"), undefined);
  store.clock(9001);
  assertEquals(store.getss("k", 99), { id, remain: 1 });
  store.clock(10_000);
  const next = lease(store, "k", 5);
  assert(next > id);
  assertEquals(stat(store, "lease_expired"), 1);
  assertEquals(stat(store, "lease_getss"), 2);
  assertEquals(stat(store, "lease_wait_hint"), 2);
  store.check();
});

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

Deno.test("a fill under the lease's id is clean and keeps its own deadline", () => {
  const store = new TestStore();
  const id = lease(store, "k", 10);
  assertEquals(store.store(CAS, "k", "x", withId(id + 1)), Outcome.EXISTS);
  assertEquals(store.store(CAS, "k", "x", { ...withId(id), deadlineSec: 1000 }), Outcome.STORED);
  assertEquals(store.get("k"), "x");
  assertEquals(store.cache.deadlineSec(store.item("k")), 1000);
  assertEquals(store.store(CAS, "k", "y", withId(id)), Outcome.EXISTS);
  assertEquals(store.cache.leases.table.count, 0);
  assertEquals([stat(store, "lease_hit"), stat(store, "lease_badval")], [1, 1]);
  store.check();
});

Deno.test("set and add on a lease are cut to its deadline, and the key stays dirty", () => {
  for (const mode of [SET, ADD]) {
    const store = new TestStore();
    lease(store, "k", 10);
    assertEquals(store.store(mode, "k", "x"), Outcome.STORED);
    assertEquals(store.cache.deadlineSec(store.item("k")), START_SEC + 10);
    assertEquals(store.touch("k", 0), Outcome.TOUCHED);
    assertEquals(store.cache.deadlineSec(store.item("k")), START_SEC + 10);
    assertEquals(store.store(SET, "k", "y", { deadlineSec: START_SEC + 100 }), Outcome.STORED);
    assertEquals(store.cache.deadlineSec(store.item("k")), START_SEC + 10);
    assertEquals(store.store(SET, "k", "y", { deadlineSec: START_SEC + 3 }), Outcome.STORED);
    assertEquals(store.cache.deadlineSec(store.item("k")), START_SEC + 3);
    assertEquals(store.getss("k", 10), "hit");
    store.check();
    // The value is gone, the doubt is not.
    store.clock(3000);
    assertEquals(store.get("k"), undefined);
    assertEquals(store.store(SET, "k", "z"), Outcome.STORED);
    assertEquals(store.cache.deadlineSec(store.item("k")), START_SEC + 10);
    store.clock(10_000);
    assertEquals(store.get("k"), undefined);
    assertEquals(store.store(SET, "k", "z"), Outcome.STORED);
    assertEquals(store.cache.deadlineSec(store.item("k")), 0);
    assertEquals([stat(store, "lease_rewrite"), stat(store, "lease_set")], [1, 1]);
    store.check();
  }
});

Deno.test("cas on a dirty value keeps the cut, delete forgets it", () => {
  const store = new TestStore();
  lease(store, "k", 10);
  store.store(SET, "k", "x");
  assertEquals(store.store(CAS, "k", "y", withId(store.id("k"))), Outcome.STORED);
  assertEquals(store.cache.deadlineSec(store.item("k")), START_SEC + 10);
  assertEquals(store.remove("k"), Outcome.DELETED);
  store.store(SET, "k", "z");
  assertEquals(store.cache.deadlineSec(store.item("k")), 0);
  assertEquals(store.cache.leases.table.count, 0);
  store.check();
});

Deno.test("a dirty key can be held again; a fill under that lease cleans it", () => {
  const store = new TestStore();
  lease(store, "k", 10);
  store.store(SET, "k", "x", { deadlineSec: START_SEC + 2 });
  store.clock(2000);
  const id = lease(store, "k", 3);
  assertEquals(store.store(CAS, "k", "y", withId(id)), Outcome.STORED);
  assertEquals(store.cache.deadlineSec(store.item("k")), 0);
  store.check();
});

Deno.test("updates that fail on a lease renew it and keep its deadline", () => {
  const updates: [string, (store: TestStore) => Outcome, Outcome][] = [
    ["replace", (store) => store.store(REPLACE, "k", "x"), Outcome.NOT_STORED],
    ["append", (store) => store.store(APPEND, "k", "x"), Outcome.NOT_STORED],
    ["prepend", (store) => store.store(PREPEND, "k", "x"), Outcome.NOT_STORED],
    ["incr", (store) => store.add("k", 1, true), Outcome.NOT_FOUND],
    ["decr", (store) => store.add("k", 1, false), Outcome.NOT_FOUND],
    ["delete", (store) => store.remove("k"), Outcome.NOT_FOUND],
  ];
  for (const [name, update, expected] of updates) {
    const store = new TestStore();
    const id = lease(store, "k", 10);
    store.clock(2000);
    assertEquals(update(store), expected, name);
    assertEquals(remain(store, "k"), 8);
    assertEquals(store.store(CAS, "k", "old", withId(id)), Outcome.EXISTS);
    assertEquals(stat(store, "lease_cnt"), 2);
    assertEquals(stat(store, "lease_rewrite"), name === "delete" ? 0 : 1);
    assertEquals(stat(store, "lease_deletess"), name === "delete" ? 1 : 0);
    store.check();
  }
});

Deno.test("a set that is too large renews a lease; its holder's fill gives it back", () => {
  const store = new TestStore({ itemSizeMaxBytes: 1024 });
  const large = "x".repeat(2000);
  const id = lease(store, "k", 10);
  assertEquals(store.store(SET, "k", large), Outcome.TOO_LARGE);
  const renewed = store.getss("k", 10);
  assert(typeof renewed === "object" && renewed.remain === 10);
  assertNotEquals(renewed.id, id);
  assertEquals(store.store(CAS, "k", large, withId(id)), Outcome.TOO_LARGE);
  assertEquals(remain(store, "k"), 10);
  assertEquals(store.store(CAS, "k", large, withId(renewed.id)), Outcome.TOO_LARGE);
  assertEquals(remain(store, "k"), 0);
  store.check();
});

Deno.test("removeAndLease() always makes a new lease", () => {
  const store = new TestStore();
  assertEquals(store.deletess("k", 5), Outcome.NOT_FOUND);
  const first = store.changedId();
  assertEquals(store.deletess("k", 9), Outcome.DELETED);
  const second = store.changedId();
  assert(second > first);
  assertEquals(store.getss("k", 1), { id: second, remain: 9 });
  store.store(CAS, "k", "x", withId(second));
  assertEquals(store.deletess("k", 5, withId(second)), Outcome.EXISTS);
  assertEquals(store.get("k"), "x");
  assertEquals(store.deletess("k", 5, withId(store.id("k"))), Outcome.DELETED);
  assertEquals(store.get("k"), undefined);
  assertEquals(stat(store, "lease_deletess"), 3);
  store.check();
});

Deno.test("remove() with the lease's id gives it back, with another changes nothing", () => {
  const store = new TestStore();
  const id = lease(store, "k", 10);
  assertEquals(store.remove("k", withId(id + 1)), Outcome.EXISTS);
  assertEquals(store.getss("k", 10), { id, remain: 10 });
  assertEquals(store.remove("k", withId(id)), Outcome.DELETED);
  assertEquals(remain(store, "k"), 0);
});

Deno.test("FILL stores only for the holder", () => {
  const store = new TestStore();
  assertEquals(store.store(FILL, "k", "x", withId(5)), Outcome.NOT_STORED);
  store.store(SET, "k", "x");
  assertEquals(store.store(FILL, "k", "y", withId(store.id("k"))), Outcome.NOT_STORED);
  store.remove("k");
  const id = lease(store, "k", 10);
  assertEquals(store.store(FILL, "k", "y", withId(id + 1)), Outcome.NOT_STORED);
  assertEquals(store.store(FILL, "k", "y", withId(id)), Outcome.STORED);
  assertEquals(store.get("k"), "y");
});

Deno.test("a stub is a value to set, and a lease to those who ask for one", () => {
  const store = new TestStore();
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
  store.check();
});

Deno.test("flush_all ends leases and doubts", () => {
  const store = new TestStore();
  const id = lease(store, "held", 10);
  lease(store, "dirty", 10);
  store.store(SET, "dirty", "x");
  store.cache.flushAll(0);
  assertEquals(store.store(CAS, "held", "x", withId(id)), Outcome.NOT_FOUND);
  assertEquals(remain(store, "held"), 0);
  store.store(SET, "dirty", "y");
  assertEquals(store.cache.deadlineSec(store.item("dirty")), 0);
  store.check();
});

Deno.test("values that arrive in pieces are judged when they are complete", () => {
  const store = new TestStore();
  const value = new Uint8Array(100_000).fill(7);
  const id = lease(store, "k", 10);
  assertEquals(store.storeInPieces(CAS, "k", value, 10_000, withId(id + 1)), Outcome.EXISTS);
  assertEquals(store.storeInPieces(CAS, "k", value, 10_000, withId(id)), Outcome.STORED);
  assertEquals(store.bytes("k"), value);
  store.remove("k");
  lease(store, "k", 10);
  assertEquals(store.storeInPieces(SET, "k", value, 10_000), Outcome.STORED);
  assertEquals(store.cache.deadlineSec(store.item("k")), START_SEC + 10);
  store.check();
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
  const store = new TestStore({ leaseEntries: 0 });
  assertEquals(store.getss("k", 10), "none");
  store.store(SET, "k", "x");
  assertEquals(store.getss("k", 10), "hit");
  assertEquals(store.deletess("k", 10), Outcome.NO_MEMORY);
  assertEquals(store.get("k"), "x");
  store.check();
});

Deno.test("maintain() removes what is over", () => {
  const store = new TestStore();
  for (let key = 0; key < 500; key++) lease(store, `k${key}`, 1 + key % 3);
  store.clock(2000);
  while (store.cache.maintain());
  assertEquals(store.memory.control[CONTROL.LEASE_CURR], 166);
  assertEquals(stat(store, "lease_expired"), 334);
  store.check();
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

Deno.test("strict keys are stored under a lease only", () => {
  const store = new TestStore({ strictPrefixes: ["user:", "größe"] });
  const number = { vivify: true };
  assertEquals(store.store(SET, "user:1", "x"), Outcome.NOT_STORED);
  assertEquals(store.store(ADD, "user:1", "x"), Outcome.NOT_STORED);
  assertEquals(store.store(APPEND, "user:1", "x", { vivify: true }), Outcome.NOT_STORED);
  assertEquals(store.add("user:1", 1, true, number), Outcome.NOT_STORED);
  assertEquals(store.store(SET, "größer", "x"), Outcome.NOT_STORED);
  assertEquals(store.store(SET, "user", "x"), Outcome.STORED);
  const id = lease(store, "user:1", 10);
  assertEquals(store.store(SET, "user:1", "x"), Outcome.NOT_STORED);
  assertEquals(store.getss("user:1", 10), { id, remain: 10 });
  assertEquals(store.store(CAS, "user:1", "5", withId(id)), Outcome.STORED);
  assertEquals(store.store(SET, "user:1", "x"), Outcome.NOT_STORED);
  assertEquals(store.store(REPLACE, "user:1", "x"), Outcome.NOT_STORED);
  assertEquals(store.add("user:1", 1, true), Outcome.OK);
  assertEquals(store.store(CAS, "user:1", "7", withId(store.id("user:1"))), Outcome.STORED);
  assertEquals(stat(store, "strict_refused"), 8);
  store.check();
});

Deno.test("add() makes what is not there when it is asked to", () => {
  const store = new TestStore();
  const made = { vivify: true, initialLow: 40, deadlineSec: START_SEC + 50 };
  assertEquals(store.add("n", 1, true, made), Outcome.STORED);
  assertEquals(store.get("n"), "40");
  assertEquals(store.add("n", 2, true, made), Outcome.OK);
  assertEquals(store.get("n"), "42");
  lease(store, "m", 10);
  assertEquals(store.add("m", 1, true, made), Outcome.STORED);
  assertEquals(store.cache.deadlineSec(store.item("m")), START_SEC + 10);
  store.check();
});

Deno.test("an older id stores a stale value, when that is allowed", () => {
  const store = new TestStore();
  store.store(SET, "k", "1", { deadlineSec: 50 });
  const id = store.id("k");
  store.store(SET, "k", "2", { deadlineSec: 60 });
  assertEquals(store.store(CAS, "k", "3", withId(id)), Outcome.EXISTS);
  const older = { ...withId(id), allowOlder: true };
  assertEquals(store.store(CAS, "k", "3", older), Outcome.STORED);
  assertEquals(store.get("k"), "3");
  assertEquals(store.cache.deadlineSec(store.item("k")), 60);
  assert((store.cache.items.state(store.item("k")) & STATE.STALE) !== 0);
});

Deno.test("keys of every length and any bytes have leases", () => {
  const store = new TestStore({ leaseEntries: 2000 });
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
  store.check();
});
