import { assertEquals, assertGreater } from "@std/assert";
import { pause } from "../../../lib/process/pause.ts";
import { OwnRows } from "../../../lib/rows/own_rows.ts";
import { latin1Text } from "../../../store/base/bytes.ts";
import type { Cache } from "../../../store/cache.ts";
import { formatCache } from "../../../store/row_cache.ts";
import { createSharedMemory, Memory } from "../../../store/memory/memory.ts";
import { keySet } from "../../support/rows/key_sets.ts";
import { RowsSide } from "../../support/sessions/rows_side.ts";
import { storeOptions } from "../../support/store.ts";

/** More locks than are looked at in one step. */
const LOCKED = 300;

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
  // The walk ends when no item is left: this one is no row.
  using side = new RowsSide(["--rows", "r:"]);
  side.connect().ask("set item 0 0 1\r\n1\r\n");
  await new OwnRows(side.thread.cache, ["r:"], sleep, () => stepMs * looks++).expel(keySet("*"));
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

Deno.test("keys are deleted while the mutex is held, and it is free after that", async () => {
  const cache = makeCache();
  const { removal } = cache.rows!;
  const [enter, leave] = [cache.enter.bind(cache), cache.leave.bind(cache)];
  let held = 0;
  let changes = 0;
  cache.enter = () => {
    enter();
    held++;
  };
  cache.leave = () => {
    held--;
    leave();
  };
  const watched =
    <A extends readonly unknown[], R>(change: (...args: A) => R) => (...args: A): R => {
      assertEquals(held, 1);
      changes++;
      return change(...args);
    };
  removal.invalidate = watched(removal.invalidate.bind(removal));
  removal.expel = watched(removal.expel.bind(removal));
  const own = new OwnRows(cache, [""], pause);
  assertEquals(own.invalidate(["k"], [0]), [true]);
  assertEquals([changes, held], [1, 0]);
  assertEquals(own.expel(keySet("k", "l")), undefined, "keys need no wait");
  assertEquals([changes, held], [3, 0]);
  await own.expel(keySet("k*", "m"));
  assertEquals([changes, held], [4, 0]);
});

Deno.test("a write deletes no key that another connection has locked, and says which", () => {
  using side = new RowsSide();
  const [holder, reader] = [side.connect(), side.connect()];
  holder.ask("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\nlock a\r\n");
  const own = new OwnRows(side.thread.cache, [""], pause);
  assertEquals(own.invalidate(["a", "b"], [0, 0]), [false, true]);
  side.rows.clear();
  assertEquals(reader.ask("get a b\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
});

Deno.test("when every row has changed none is served, locked or not; locks stay", async () => {
  using side = new RowsSide();
  const holder = side.connect();
  for (let index = 0; index < LOCKED; index++) {
    holder.ask(`set k${index} 0 0 1\r\n1\r\nlock k${index}\r\n`);
  }
  side.rows.clear();
  const reader = side.connect();
  const last = `k${LOCKED - 1}`;
  const held = `VALUE k0 0 1\r\n1\r\nVALUE ${last} 0 1\r\n1\r\nEND\r\n`;
  assertEquals(reader.ask(`get k0 ${last}\r\n`), held);
  await new OwnRows(side.thread.cache, [""], pause).expel(keySet("*"));
  assertEquals(reader.ask(`get k0 ${last}\r\n`), "END\r\n");
  assertEquals(reader.ask("lock list\r\n").split("LOCK ").length - 1, LOCKED);
});

Deno.test("keys that are no rows are ordinary items, which nothing deletes here", async () => {
  using side = new RowsSide(["--rows", "r:", "--rows", "ö:"]);
  const client = side.connect();
  const umlaut = latin1Text(new TextEncoder().encode("ö:"));
  const keys = ["r:1", "r:2", `${umlaut}1`, "r", "item"];
  const own = new OwnRows(side.thread.cache, ["r:", "ö:"], pause);
  const left = async (...deleted: string[]): Promise<number[]> => {
    for (const key of keys) client.ask(`set ${key} 0 0 1\r\n1\r\n`);
    client.ask(`get ${keys.join(" ")}\r\n`);
    side.rows.clear();
    await own.expel(keySet(...deleted));
    return keys.flatMap((key, index) => client.ask(`get ${key}\r\n`) === "END\r\n" ? [] : [index]);
  };
  assertEquals(await left("item", "r", "r:1"), [1, 2, 3, 4]);
  assertEquals(await left("*"), [3, 4]);
  assertEquals(await left("r*"), [2, 3, 4]);
  assertEquals(await left("r:2*", "i*"), [0, 2, 3, 4]);
  assertEquals(await left(`${umlaut}*`), [0, 1, 3, 4]);
});
