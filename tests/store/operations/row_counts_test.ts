import { assertEquals } from "@std/assert";
import { ByteRegion } from "../../../store/base/bytes.ts";
import type { Cache } from "../../../store/cache.ts";
import { NO_ITEM } from "../../../store/memory/item.ts";
import { CLASSES_MAX, createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { Operation, StoreMode } from "../../../store/operation.ts";
import { countWrite } from "../../../store/operations/row_counts.ts";
import { Outcome } from "../../../store/outcome.ts";
import { formatCache } from "../../../store/row_cache.ts";
import { REQUEST } from "../../../store/memory/request_layout.ts";
import { RowBit, RowKind } from "../../../store/rows/row_requests.ts";
import { CLASS_STAT, STAT } from "../../../store/stats.ts";
import { type ChangedOptions, storeOptions, TestStore } from "../../support/store.ts";

const { STORE, REMOVE, COUNT, TOUCH } = RowKind;
const { STORED, NOT_STORED, EXISTS, DELETED, NOT_FOUND, OK, TOUCHED, LOCKED } = Outcome;

/** A write's kind, outcome, mode and bits, and the statistics that it counts in. */
const CASES: readonly (readonly [RowKind, Outcome, StoreMode, number, readonly string[]])[] = [
  [STORE, STORED, StoreMode.SET, 0, ["cmd_set"]],
  [STORE, NOT_FOUND, StoreMode.CAS, 0, ["cmd_set", "cas_misses"]],
  [STORE, STORED, StoreMode.CAS, 0, ["cmd_set", "cas_hits"]],
  [STORE, EXISTS, StoreMode.CAS, 0, ["cmd_set", "cas_badval"]],
  [STORE, EXISTS, StoreMode.SET, 0, ["cmd_set"]],
  [STORE, NOT_STORED, StoreMode.ADD, 0, ["cmd_set"]],
  [STORE, LOCKED, StoreMode.CAS, 0, ["cmd_set"]],
  [REMOVE, EXISTS, StoreMode.SET, 0, []],
  [COUNT, STORED, StoreMode.SET, 0, ["incr_hits"]],
  [COUNT, Outcome.NOT_NUMERIC, StoreMode.SET, RowBit.DECREMENT, []],
  [STORE, NOT_FOUND, StoreMode.REPLACE, 0, ["cmd_set"]],
  [REMOVE, DELETED, StoreMode.SET, 0, ["delete_hits"]],
  [REMOVE, NOT_FOUND, StoreMode.SET, 0, ["delete_misses"]],
  [COUNT, OK, StoreMode.SET, 0, ["incr_hits"]],
  [COUNT, OK, StoreMode.SET, RowBit.DECREMENT, ["decr_hits"]],
  [COUNT, NOT_FOUND, StoreMode.SET, 0, ["incr_misses"]],
  [COUNT, NOT_FOUND, StoreMode.SET, RowBit.DECREMENT, ["decr_misses"]],
  [TOUCH, TOUCHED, StoreMode.SET, 0, ["cmd_touch", "touch_hits"]],
  [TOUCH, NOT_FOUND, StoreMode.SET, 0, ["cmd_touch", "touch_misses"]],
];

/** Makes a store with rows. */
function madeWith(rows: ChangedOptions["rows"]): { memory: Memory; cache: Cache } {
  const memory = new Memory(createSharedMemory(storeOptions({ ...rows && { rows } })));
  return { memory, cache: formatCache(memory) };
}

Deno.test("a write of a row counts as the same operation on an ordinary item", () => {
  const rows = { prefixes: [""], expiry: "refuse" } as const;
  const { memory, cache } = madeWith(rows);
  const { requests } = cache.rows!;
  const { input, keyOffset, keyLength } = new Operation(new ByteRegion(new ArrayBuffer(1)));
  for (const [kind, outcome, mode, bits, counted] of CASES) {
    const before = countsOf(memory);
    cache.enter();
    const slot = requests.take(kind, { input, keyOffset, keyLength, hash: 0 }, 1, 0);
    requests.setWord(slot, REQUEST.BITS, bits);
    countWrite(cache.links, requests, slot, outcome, mode);
    requests.free(slot);
    cache.leave();
    const changed = [...countsOf(memory)].filter(([name, count]) => count !== before.get(name));
    assertEquals(changed.map(([name]) => name).sort(), [...counted].sort());
  }
});

Deno.test("a store of a row counts in the class of its value", () => {
  const rows = { prefixes: [""], expiry: "refuse" } as const;
  const store = new TestStore({}, madeWith(rows));
  const { cache, memory } = store;
  const { requests } = cache.rows!;
  for (const length of [1, 1000, 100_000]) {
    const operation = store.operationOn("key", { valueLength: length });
    assertEquals(cache.reserved.reserve(operation), Outcome.OK);
    const item = cache.reserved.itemOf(operation.reserved);
    const slot = requests.take(STORE, { ...operation, hash: 0 }, 1, 0);
    requests.setWord(slot, REQUEST.ITEM, item);
    const classId = cache.links.slabs.classOf(item);
    const counted = (): number[] =>
      [CLASS_STAT.cmd_set, CLASS_STAT.cas_hits].map((stat) => memory.classStat(classId, stat));
    const before = counted();
    countWrite(cache.links, requests, slot, STORED, StoreMode.CAS);
    assertEquals(counted(), before.map((count) => count + 1), `${length} bytes`);
    requests.setWord(slot, REQUEST.ITEM, NO_ITEM);
    requests.free(slot);
    cache.reserved.abandon(operation.reserved);
  }
});

/** Every statistic of the store and of all its classes, by name. */
function countsOf(memory: Memory): Map<string, number> {
  const counts = new Map(Object.entries(STAT).map(([name, at]) => [name, memory.stat(at)]));
  for (const [name, at] of Object.entries(CLASS_STAT)) {
    const classes = Array.from({ length: CLASSES_MAX }, (_, id) => memory.classStat(id, at));
    counts.set(name, classes.reduce((sum, count) => sum + count));
  }
  return counts;
}
