import { assertEquals, assertGreater } from "@std/assert";
import { removeRows } from "../../../lib/rows/row_removal.ts";
import type { Cache } from "../../../store/cache.ts";
import { formatCache } from "../../../store/row_cache.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { storeOptions } from "../../support/store.ts";

function makeCache(): Cache {
  const options = storeOptions({ rows: { prefixes: [""], expiry: "refuse" }, leaseEntries: 100 });
  return formatCache(new Memory(createSharedMemory(options)));
}

/** Removes all rows. @returns How often other work was let in; and the steps, of a clock that moves by this in each. */
async function removal(stepMs: number): Promise<{ sleeps: number; looks: number }> {
  let [sleeps, looks] = [0, 0];
  const sleep = (): Promise<void> => {
    sleeps++;
    return Promise.resolve();
  };
  await removeRows(makeCache(), [""], sleep, () => stepMs * looks++);
  return { sleeps, looks };
}

Deno.test("a removal lets other work in once in a millisecond, not after every step", async () => {
  const { sleeps: none, looks } = await removal(0);
  assertEquals(none, 0);
  assertGreater(looks, 3);
  const { sleeps: all } = await removal(1);
  assertEquals(all, looks - 1);
  const { sleeps: some } = await removal(0.25);
  assertGreater(some, 0);
  assertGreater(all, 2 * some);
});
