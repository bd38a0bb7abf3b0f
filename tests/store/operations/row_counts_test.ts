import { assertEquals } from "@std/assert";
import { ByteRegion } from "../../../store/base/bytes.ts";
import { CLASSES_MAX, createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { Operation, StoreMode } from "../../../store/operation.ts";
import { countWrite } from "../../../store/operations/row_counts.ts";
import { Outcome } from "../../../store/outcome.ts";
import { formatCache } from "../../../store/row_cache.ts";
import { REQUEST } from "../../../store/memory/request_layout.ts";
import { RowBit, RowKind } from "../../../store/rows/row_requests.ts";
import { CLASS_STAT, STAT } from "../../../store/stats.ts";
import { storeOptions } from "../../support/store.ts";

const { STORE, REMOVE, COUNT, TOUCH } = RowKind;
const { STORED, DELETED, NOT_FOUND, OK, TOUCHED } = Outcome;

/** A write's kind, outcome, mode and bits, and the statistics that it counts in. */
const CASES: readonly (readonly [RowKind, Outcome, StoreMode, number, readonly string[]])[] = [
  [STORE, STORED, StoreMode.SET, 0, ["cmd_set"]],
  [STORE, NOT_FOUND, StoreMode.CAS, 0, ["cmd_set", "cas_misses"]],
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

Deno.test("a write of a row counts as the same operation on an ordinary item", () => {
  const rows = { prefixes: [""], expiry: "refuse" } as const;
  const memory = new Memory(createSharedMemory(storeOptions({ rows })));
  const cache = formatCache(memory);
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

/** Every statistic of the store and of all its classes, by name. */
function countsOf(memory: Memory): Map<string, number> {
  const counts = new Map(Object.entries(STAT).map(([name, at]) => [name, memory.stat(at)]));
  for (const [name, at] of Object.entries(CLASS_STAT)) {
    const classes = Array.from({ length: CLASSES_MAX }, (_, id) => memory.classStat(id, at));
    counts.set(name, classes.reduce((sum, count) => sum + count));
  }
  return counts;
}
