import { assertEquals } from "@std/assert";
import type { Backend } from "../../../../lib/databases/base/backend.ts";
import { step } from "../../../../lib/rows/flows/steps.ts";
import { pause } from "../../../../lib/process/pause.ts";
import { StepRunner } from "../../../../lib/rows/origin/step_runner.ts";
import { formatCache } from "../../../../store/row_cache.ts";
import { createSharedMemory, Memory } from "../../../../store/memory/memory.ts";
import { RowsSide } from "../../../support/sessions/rows_side.ts";
import { storeOptions } from "../../../support/store.ts";

/** More locks than are removed at a time. */
const LOCKED = 300;

Deno.test("a step changes the store while it holds the mutex, and leaves it free", async () => {
  const cache = formatCache(
    new Memory(createSharedMemory(storeOptions({ rows: { prefixes: [""], expiry: "refuse" } }))),
  );
  const runner = new StepRunner(cache, {} as Backend, pause);
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
  cache.flushAll = watched(cache.flushAll.bind(cache));
  await runner.run(step({ kind: "invalidateHere", keys: ["k"], connections: [0] }));
  await runner.run(step({ kind: "expelHere", keys: ["k", "l"] }));
  await runner.run(step({ kind: "emptyHere" }));
  assertEquals([changes, held], [4, 0]);
});

Deno.test("a step that empties the store keeps no row, locked or not", async () => {
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
  await new StepRunner(side.thread.cache, {} as Backend, pause).run(step({ kind: "emptyHere" }));
  assertEquals(reader.ask(`get k0 ${last}\r\nlock list\r\n`), "END\r\nEND\r\n");
});
