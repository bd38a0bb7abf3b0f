import { assertEquals } from "@std/assert";
import { MIB } from "../../../store/limits.ts";
import { CONTROL, type Memory } from "../../../store/memory/memory.ts";
import { Ghost } from "../../../store/space/ghost.ts";
import { TestStore } from "../../support/store.ts";

/** The ghost table of a store, and how many sets of four hashes it has. */
function ghostOf(memoryMib: number): { ghost: Ghost; sets: number; memory: Memory } {
  const { memory, cache } = new TestStore({ memoryLimitBytes: memoryMib * MIB });
  const ghost = new Ghost(memory, cache.links.slabs);
  return { ghost, sets: memory.control[CONTROL.GHOST_SETS]!, memory };
}

Deno.test("a set keeps its last four hashes, each until it is asked for", () => {
  const { ghost, sets } = ghostOf(16);
  for (const place of [1, sets - 1]) {
    const hashes = Array.from({ length: 6 }, (_, index) => place + index * sets);
    for (const hash of hashes) ghost.add(hash);
    assertEquals(hashes.map((hash) => ghost.remove(hash)), [false, false, true, true, true, true]);
    assertEquals(hashes.map((hash) => ghost.remove(hash)), hashes.map(() => false));
  }
});

Deno.test("the table keeps four hashes for each of its sets", () => {
  const { ghost, sets } = ghostOf(16);
  for (const first of [1, 2 ** 31 - 10]) {
    const hashes = Array.from({ length: 4 * sets }, (_, index) => (first + index) | 0);
    for (const hash of hashes) ghost.add(hash);
    assertEquals(hashes.findIndex((hash) => !ghost.remove(hash)), -1);
  }
});

Deno.test("hash 0 is an empty place, and a small store has no ghost table", () => {
  const { ghost } = ghostOf(16);
  assertEquals(ghost.remove(0), false);
  ghost.add(0);
  assertEquals(ghost.remove(0), false);
  const { ghost: none, sets, memory } = ghostOf(1);
  assertEquals(sets, 0);
  const before = memory.segments.map(({ bytes }) => bytes.slice());
  none.add(7);
  assertEquals(none.remove(7), false);
  for (const [index, { bytes }] of memory.segments.entries()) {
    assertEquals(bytes.findIndex((byte, at) => byte !== before[index]![at]), -1);
  }
});
