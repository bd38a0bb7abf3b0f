import { assert, assertEquals, assertGreater, assertLess } from "@std/assert";
import { StoreMode } from "../../../store/operation.ts";
import { NO_ITEM } from "../../../store/memory/item.ts";
import { MIB } from "../../../store/limits.ts";
import { WaiterState } from "../../../store/claims/waiters.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { Outcome } from "../../../store/outcome.ts";
import { STAT } from "../../../store/stats.ts";
import { u64ToNumber } from "../../../store/base/u64.ts";
import { held, TestStore } from "../../support/store.ts";

const { SET, ADD, REPLACE, APPEND, PREPEND } = StoreMode;
const A = 1;
const B = 2;
const C = 3;

function storeWith(key: string, value = "1"): TestStore {
  const store = new TestStore();
  store.store(SET, key, value);
  return store;
}

function fence(store: TestStore): number {
  return u64ToNumber(store.operation.resultLow, store.operation.resultHigh);
}

// transcripts/locks*.txt have what each command does to a locked key.

Deno.test("the lock follows its item into other chunks", () => {
  const store = storeWith("k", "9");
  store.lock("k", A);
  const steps: [string, () => Outcome][] = [
    ["incr", () => store.add("k", 1, true, { owner: A })],
    ["replace", () => store.store(REPLACE, "k", "x".repeat(500), { owner: A })],
    ["append", () => store.store(APPEND, "k", "y".repeat(700), { owner: A })],
    ["prepend", () => store.store(PREPEND, "k", "z", { owner: A })],
    ["long set", () => store.store(SET, "k", "x".repeat(100_000), { owner: A })],
    ["long append", () => store.store(APPEND, "k", "x".repeat(100_000), { owner: A })],
    ["pieces", () => store.storeInPieces(SET, "k", new Uint8Array(90_000), 5000, { owner: A })],
    ["more", () => store.storeInPieces(APPEND, "k", new Uint8Array(9000), 5000, { owner: A })],
    ["flags", () => store.store(SET, "k", "1", { owner: A, clientFlags: 3 })],
    ["touch", () => store.touch("k", 50, { owner: A })],
  ];
  for (const [name, step] of steps) {
    const outcome = step();
    assert(outcome === Outcome.STORED || outcome === Outcome.OK || outcome === Outcome.TOUCHED);
    store.check();
    assertEquals(store.store(SET, "k", "b", { owner: B }), Outcome.LOCKED, name);
    assertEquals(store.lock("k", A), Outcome.OK, name);
    assertEquals(store.cache.locks.count, 1, name);
  }
  assertEquals(store.unlock("k", A), Outcome.OK);
  store.check();
});

Deno.test("releaseOwner() frees all that the connection holds and nothing else", () => {
  using store = new TestStore();
  for (let n = 0; n < 100; n++) {
    store.store(SET, `k${n}`, "1");
    assertEquals(store.lock(`k${n}`, n % 2 === 0 ? A : B), Outcome.OK);
  }
  store.check();
  store.cache.releaseOwner(A);
  store.check();
  assertEquals(store.cache.locks.count, 50);
  assertEquals(store.memory.stats[STAT.lock_freed_by_close], 50);
  for (let n = 0; n < 100; n++) {
    assertEquals(store.lock(`k${n}`, C), n % 2 === 0 ? Outcome.OK : Outcome.LOCKED);
  }
  store.cache.unlockAll(B);
  assertEquals(store.cache.locks.count, 50);
});

Deno.test("a locked item outlives its deadline and dies when it is unlocked", () => {
  const store = new TestStore();
  for (const end of ["unlock", "close", "RaU"]) {
    const now = store.memory.control[CONTROL.NOW_SEC]!;
    store.store(SET, "k", "1", { deadlineSec: now + 2 });
    store.store(SET, "other", "1", { deadlineSec: now + 2 });
    store.lock("k", A);
    store.clock((now + 10) * 1000);
    while (store.cache.maintain());
    store.check();
    assertEquals(store.get("k"), "1");
    assertEquals(store.get("other"), undefined);
    assertEquals(store.store(ADD, "k", "2", { owner: A }), Outcome.NOT_STORED);
    if (end === "unlock") assertEquals(store.unlock("k", A), Outcome.OK);
    else if (end === "close") store.cache.releaseOwner(A);
    else {
      const past = { owner: A, unlock: true, deadlineSec: 1 };
      assertEquals(store.store(REPLACE, "k", "2", past), Outcome.STORED);
      assertEquals(store.operation.item, NO_ITEM);
    }
    assertEquals(store.get("k"), undefined);
    store.check();
  }
});

Deno.test("locked items are not evicted, nor moved with their pages", () => {
  const store = new TestStore({ memoryLimitBytes: 2 * MIB });
  const value = new Uint8Array(700);
  for (let n = 0; n < 40; n++) {
    store.store(SET, `locked-${n}`, value);
    assertEquals(store.lock(`locked-${n}`, A), Outcome.OK);
    for (let m = 0; m < 40; m++) store.store(SET, `other-${n}-${m}`, value);
  }
  for (let n = 0; n < 3000; n++) {
    const length = n % 3 === 0 ? 20 : n % 3 === 1 ? 3000 : 30_000;
    assertEquals(store.store(SET, `more-${n}`, new Uint8Array(length)), Outcome.STORED);
    if (n % 100 === 0) { while (store.cache.maintain()); }
  }
  store.check();
  for (let n = 0; n < 40; n++) assertEquals(store.bytes(`locked-${n}`), value);
  assertEquals(store.cache.locks.count, 40);
});

Deno.test("limits on locks: of a connection and in all", () => {
  using store = new TestStore({ lockLimits: { locksMax: 5, locksPerConnectionMax: 3 } });
  for (let n = 0; n < 8; n++) store.store(SET, `k${n}`, "1");
  for (let n = 0; n < 3; n++) assertEquals(store.lock(`k${n}`, A), Outcome.OK);
  assertEquals(store.lock("k3", A), Outcome.TOO_MANY_LOCKS);
  assertEquals(store.lock("k2", A), Outcome.OK, "what it holds already");
  assertEquals(store.lock("k3", B), Outcome.OK);
  assertEquals(store.lock("k4", B), Outcome.OK);
  assertEquals(store.lock("k5", B), Outcome.TOO_MANY_LOCKS);
  assertEquals(store.lock("k0", C, { waitMs: 10 }), Outcome.TOO_MANY_LOCKS);
  store.unlock("k0", A);
  assertEquals(store.lock("k5", C), Outcome.OK);
  assertEquals(store.memory.stats[STAT.lock_refused], 3);
});

Deno.test("those that wait get the lock in the order they came", () => {
  const store = storeWith("k");
  const { waiters } = store.cache.locks;
  store.lock("k", A);
  const first = fence(store);
  const rows = [B, C, 4].map((owner) => {
    assertEquals(store.lock("k", owner, { waitMs: 1000 }), Outcome.WAITING);
    return store.operation.waiter;
  });
  store.check();
  const woken: number[] = [];
  store.cache.onReady = (thread) => woken.push(thread);
  held(store.cache, () => store.unlock("k", A));
  assertEquals(woken, [0]);
  assertEquals(waiters.takeReady(0), B);
  assertEquals(waiters.takeReady(0), 0);
  assertEquals(waiters.stateOf(rows[0]!), WaiterState.GRANTED);
  assertGreater(u64ToNumber(waiters.idLow(rows[0]!), waiters.idHigh(rows[0]!)), first);
  waiters.remove(rows[0]!);
  assertEquals(store.lock("k", A), Outcome.LOCKED, "nobody overtakes those that wait");
  waiters.remove(rows[1]!);
  store.check();
  store.cache.releaseOwner(B);
  assertEquals(waiters.stateOf(rows[2]!), WaiterState.GRANTED, "who left was passed over");
  store.check();
  // Its connection ends before it knew that it has the lock.
  waiters.remove(rows[2]!);
  store.cache.releaseOwner(4);
  assertEquals(store.cache.locks.count, 0);
  assertEquals(waiters.takeReady(0), 0);
  store.check();
});

Deno.test("waiting ends when the item goes, and when the time is over", () => {
  const store = storeWith("k");
  store.store(SET, "e", "1", { deadlineSec: 3 });
  const { waiters } = store.cache.locks;
  store.lock("k", A);
  store.lock("e", A);
  store.lock("k", B, { waitMs: 5000 });
  const deleted = store.operation.waiter;
  store.lock("e", C, { waitMs: 5000 });
  const expired = store.operation.waiter;
  store.clock(2500);
  store.remove("k", { owner: A });
  store.unlock("e", A);
  assertEquals(waiters.stateOf(deleted), WaiterState.NOT_FOUND);
  assertEquals(waiters.stateOf(expired), WaiterState.NOT_FOUND);
  assertEquals([waiters.takeReady(0), waiters.takeReady(0)], [B, C]);
  waiters.remove(deleted);
  waiters.remove(expired);
  store.store(SET, "k", "1");
  store.lock("k", A);
  store.lock("k", B, { waitMs: 700 });
  const late = store.operation.waiter;
  store.clock(3100);
  store.cache.maintain();
  assertEquals(waiters.stateOf(late), WaiterState.WAITING);
  store.clock(3200);
  store.cache.maintain();
  assertEquals(waiters.stateOf(late), WaiterState.TIMED_OUT);
  waiters.remove(late);
  assertEquals(store.memory.stats[STAT.lock_wait_timeouts], 1);
  assertEquals(store.memory.stats[STAT.lock_wait_ms], 2500 + 2500 + 700);
  store.check();
});

Deno.test("a slice of maintenance ends the waiting of no more than some hundreds", () => {
  const WAITERS = 2000;
  using store = new TestStore({
    connectionsMax: WAITERS + 1,
    lockLimits: { waitersPerLockMax: WAITERS },
  });
  store.store(SET, "k", "1");
  store.lock("k", WAITERS + 1);
  for (let owner = 1; owner <= WAITERS; owner++) store.lock("k", owner, { waitMs: 1000 });
  store.clock(2000);
  const { stats } = store.memory;
  let most = 0;
  for (let more = true; more;) {
    const before = stats[STAT.lock_wait_timeouts]!;
    more = store.cache.maintain();
    most = Math.max(most, stats[STAT.lock_wait_timeouts]! - before);
  }
  assertEquals(stats[STAT.lock_wait_timeouts], WAITERS);
  assertLess(most, 500);
});

Deno.test("a slice of maintenance goes on where the last one stopped, and begins again", () => {
  const WAITERS = 8300;
  const store = new TestStore({
    connectionsMax: WAITERS + 1,
    lockLimits: { waitersPerLockMax: WAITERS },
  });
  store.store(SET, "k", "1");
  store.lock("k", WAITERS + 1);
  for (let owner = 1; owner <= WAITERS; owner++) {
    store.lock("k", owner, { waitMs: owner <= 8290 ? 10_000 : 1000 });
  }
  for (const [clockMs, timeouts] of [[2000, 10], [20_000, WAITERS]] as const) {
    store.clock(clockMs);
    for (let slice = 0; slice < 50; slice++) store.cache.maintain();
    assertEquals(store.memory.stats[STAT.lock_wait_timeouts], timeouts);
  }
});

Deno.test("when nobody waits any more, the next slice of maintenance begins at the first row", () => {
  const WAITERS = 8300;
  const store = new TestStore({
    connectionsMax: WAITERS + 1,
    lockLimits: { waitersPerLockMax: WAITERS },
  });
  const { waiters } = store.cache.locks;
  store.store(SET, "k", "1");
  store.lock("k", WAITERS + 1);
  const rows: number[] = [];
  const wait = (owner: number): void => {
    store.lock("k", owner, { waitMs: 1000 });
    rows.push(store.operation.waiter);
  };
  for (let owner = 1; owner <= WAITERS; owner++) wait(owner);
  const [first] = rows;
  assert(
    held(store.cache, () => waiters.sweepSlice()),
    "there are more rows than a slice has looks",
  );
  for (const row of rows.splice(0)) waiters.remove(row);
  assert(!held(store.cache, () => waiters.sweepSlice()));
  while (!rows.includes(first!)) wait(rows.length + 1);
  store.clock(2000);
  held(store.cache, () => waiters.sweepSlice());
  assertEquals(waiters.stateOf(first!), WaiterState.TIMED_OUT);
});

Deno.test("a queue is bounded", () => {
  using store = new TestStore({ lockLimits: { waitersPerLockMax: 2 } });
  store.store(SET, "k", "1");
  store.lock("k", A);
  assertEquals(store.lock("k", B, { waitMs: 9 }), Outcome.WAITING);
  assertEquals(store.lock("k", C, { waitMs: 9 }), Outcome.WAITING);
  assertEquals(store.lock("k", 4, { waitMs: 9 }), Outcome.TOO_MANY_LOCKS);
});

Deno.test("locked items take a share of the memory at most, so that others can store", () => {
  const store = new TestStore({ memoryLimitBytes: 8 * MIB });
  const value = new Uint8Array(30_000);
  const key = (owner: number, index: number): string => `locked:${owner}:${index}`;
  const lockAll = (owner: number): number => {
    for (let index = 0;; index++) {
      assertEquals(store.store(StoreMode.SET, key(owner, index), value), Outcome.STORED);
      const outcome = store.lock(key(owner, index), owner);
      if (outcome === Outcome.OK) continue;
      assertEquals(outcome, Outcome.TOO_MANY_LOCKS);
      return index;
    }
  };
  const held = lockAll(1);
  assert(held > 60 && held * 30_000 <= 2 * MIB, `${held} locks of one connection`);
  const heldByOther = lockAll(2);
  assert(heldByOther > 60, `${heldByOther} locks of another one`);
  assertEquals(lockAll(3), 0);
  assert(store.cache.locks.lockedBytes <= 4 * MIB);
  for (let index = 0; index < 1000; index++) {
    assertEquals(store.store(StoreMode.SET, `other:${index}`, value), Outcome.STORED);
    assertEquals(store.store(StoreMode.SET, `small:${index}`, "v"), Outcome.STORED);
  }
  for (let index = 0; index < held; index++) assert(store.item(key(1, index)) !== 0);
  store.check();
  // A locked item may change and shrink, but grow only within the share.
  const owner = { owner: 1 };
  assertEquals(store.store(StoreMode.SET, key(1, 0), value, owner), Outcome.STORED);
  const larger = new Uint8Array(200_000);
  assertEquals(store.store(StoreMode.SET, key(1, 0), larger, owner), Outcome.NO_MEMORY);
  assertEquals(store.store(StoreMode.APPEND, key(1, 0), larger, owner), Outcome.NO_MEMORY);
  // What is appended comes on top of what is there.
  assertEquals(store.store(StoreMode.APPEND, key(1, 0), value, owner), Outcome.NO_MEMORY);
  assertEquals(store.store(StoreMode.PREPEND, key(1, 0), value, owner), Outcome.NO_MEMORY);
  assertEquals(store.store(StoreMode.SET, key(1, 0), "v", owner), Outcome.STORED);
  assertEquals(store.store(StoreMode.SET, key(1, 0), value, owner), Outcome.STORED);
  for (let index = 0; index < held; index++) {
    assertEquals(store.unlock(key(1, index), 1), Outcome.OK);
  }
  assertEquals(lockAll(3), held);
  store.check();
  store.cache.releaseOwner(2);
  store.cache.releaseOwner(3);
  assertEquals(store.cache.locks.lockedBytes, 0);
});

Deno.test("lock() is refused to its own holder under yrmcdsLocks, and anybody may touch", () => {
  const store = new TestStore({ yrmcdsLocks: true });
  store.store(SET, "k", "1");
  assertEquals(store.lock("k", A), Outcome.OK);
  assertEquals(store.lock("k", A), Outcome.LOCKED);
  assertEquals(store.lock("k", A, { waitMs: 10 }), Outcome.LOCKED, "nobody waits for itself");
  assertEquals(store.lockAndGet("k", A), Outcome.LOCKED);
  assertEquals(store.touch("k", 100, { owner: B }), Outcome.TOUCHED);
  assertEquals(store.store(SET, "k", "2", { owner: B }), Outcome.LOCKED);
});

Deno.test("a set too large by the holder removes the item and the lock, by another nothing", () => {
  const store = storeWith("k");
  store.lock("k", A);
  const large = new Uint8Array(MIB + 1);
  assertEquals(store.store(SET, "k", large, { owner: B }), Outcome.TOO_LARGE);
  assertEquals(store.get("k"), "1");
  assertEquals(store.store(SET, "k", large, { owner: A }), Outcome.TOO_LARGE);
  assertEquals(store.get("k"), undefined);
  assertEquals(store.cache.locks.count, 0);
  store.check();
});

Deno.test("waits end in time when the clock of milliseconds wraps", () => {
  const BEFORE_WRAP_MS = 2 ** 31 - 500;
  using store = storeWith("k");
  const { waiters } = store.cache.locks;
  store.clock(BEFORE_WRAP_MS);
  store.lock("k", A);
  store.lock("k", B, { waitMs: 1000 });
  const { waiter } = store.operation;
  for (const afterMs of [100, 999, 1000]) {
    store.clock(BEFORE_WRAP_MS + afterMs);
    store.cache.maintain();
    const state = afterMs < 1000 ? WaiterState.WAITING : WaiterState.TIMED_OUT;
    assertEquals(waiters.stateOf(waiter), state, `after ${afterMs} ms`);
  }
  assertEquals(store.memory.stats[STAT.lock_wait_ms], 1000);
  waiters.remove(waiter);
});

Deno.test("a lock that passes to a waiter is as old as its new holder's", () => {
  using store = storeWith("k");
  const { locks } = store.cache;
  store.clock(5000);
  store.lock("k", A);
  const row = locks.rowOf(store.item("k"));
  const sinceSec = locks.sinceSec(row);
  store.lock("k", B, { waitMs: 9000 });
  const { waiter } = store.operation;
  store.clock(9000);
  assertEquals(locks.sinceSec(row), sinceSec);
  store.unlock("k", A);
  assertEquals([locks.ownerOf(row), locks.sinceSec(row)], [B, sinceSec + 4]);
  locks.waiters.remove(waiter);
});

Deno.test("an unlocked item is swept at its deadline, although the sweep passed it by before", () => {
  using store = new TestStore();
  store.store(SET, "k", "1", { deadlineSec: 20 });
  store.store(SET, "other", "1", { deadlineSec: 10 });
  store.lock("k", A);
  store.clock(15_000);
  while (store.cache.maintain());
  assertEquals(store.memory.control[CONTROL.ITEM_COUNT], 1);
  assertEquals(store.unlock("k", A), Outcome.OK);
  store.clock(30_000);
  while (store.cache.maintain());
  assertEquals(store.memory.control[CONTROL.ITEM_COUNT], 0);
});

Deno.test("a value that is locked and read has been read", () => {
  using store = storeWith("k");
  const { inspector } = store.cache;
  store.clock(7000);
  assertEquals(store.lockAndGet("k", A), Outcome.OK);
  const { item } = store.operation;
  const nowSec = store.memory.control[CONTROL.NOW_SEC]!;
  assertEquals([inspector.wasFetched(item), inspector.accessedSec(item)], [true, nowSec]);
});
