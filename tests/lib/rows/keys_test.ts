// Small rules about keys: slices of a read, and prefixes that stand for keys.
import { assertEquals } from "@std/assert";
import type { Read } from "../../../lib/rows/flows/flows.ts";
import {
  commonPrefixes,
  EVERY_ROW,
  hasEveryRow,
  keySetOf,
} from "../../../lib/databases/views/key_set.ts";
import { keySet, rangeOf } from "../../support/rows/key_sets.ts";
import { inSlices } from "../../../lib/rows/key_slices.ts";
import { readsRows } from "../../../lib/rows/command_lane.ts";
import { latin1Bytes } from "../../../store/base/bytes.ts";

/** Returns the sizes of the slices in which keys are read whose values have these lengths. */
async function slicesOf(lengths: readonly number[]): Promise<number[]> {
  const sizes: number[] = [];
  const read = (keys: readonly string[]): Promise<Read[]> =>
    Promise.resolve(keys.map((key): Read => {
      const data = new Uint8Array(lengths[Number(key)]!);
      const row = data.length === 0 ? null : { flags: 0, version: 1, data };
      return { row, version: 1, epoch: 1, cacheable: true };
    }));
  let next = 0;
  for await (const { first, reads } of inSlices(lengths.map((_, at) => String(at)), read)) {
    assertEquals([first, reads.length > 0], [next, true]);
    next += reads.length;
    sizes.push(reads.length);
  }
  return sizes;
}

Deno.test("slices of short values grow up to 64 keys, those of long ones shrink to one", async () => {
  const KIB = 1024;
  assertEquals(await slicesOf([]), []);
  assertEquals(await slicesOf(new Array(200).fill(0)), [4, 8, 16, 32, 64, 64, 12]);
  assertEquals(await slicesOf(new Array(12).fill(16 * KIB)), [4, 8]);
  assertEquals(await slicesOf(new Array(12).fill(16 * KIB + 1)), [4, 2, 4, 2]);
  assertEquals(await slicesOf(new Array(9).fill(100 * KIB)), [4, 2, 1, 1, 1]);
});

Deno.test("a set of keys and prefixes has both in their order; the empty prefix is every row", () => {
  const ranges = ["a", "b*", "c", "*"].map(rangeOf);
  assertEquals(keySetOf(ranges), { keys: ["a", "c"], prefixes: ["b", ""] });
  assertEquals([EVERY_ROW, keySetOf(ranges), keySet("a", "b*")].map(hasEveryRow), [
    ...[true, true, false],
  ]);
});

Deno.test("the prefixes that keys of two lists of prefixes have", () => {
  assertEquals(commonPrefixes(["a:", "b:"], ["a:x", "b:", "c:"]), ["a:x", "b:"]);
  assertEquals(commonPrefixes(["a:1", "a:2", "b:"], ["a:"]), ["a:1", "a:2"]);
  assertEquals([commonPrefixes([""], ["x"]), commonPrefixes(["x"], [""])], [["x"], ["x"]]);
});

Deno.test("commands that read rows wait in a lane, those of nodes and of their clients too", () => {
  for (
    const [line, isRead] of [
      ["uget k", true],
      ["  uget   k", true],
      ["uread k", true],
      ["node read s 0 5\nabcde", true],
      ["node   read s 0 5", true],
      ["node command s 0 6\nuget k", true],
      ["node command s 0 6\n  uget k", true],
      ["node command s 0 7\nuread k", true],
      ["ugets k", false],
      ["uget", false],
      ["uread", false],
      ["uput uget 0 1 1\nx", false],
      ["token get k", false],
      ["node poll s 0 0", false],
      ["node write s 0 6\nuget k", false],
      ["node command s 0 9\nudelete k", false],
      ["node command s 0 0\n", false],
      ["", false],
    ] as const
  ) assertEquals(readsRows(latin1Bytes(line)), isRead, line);
});
