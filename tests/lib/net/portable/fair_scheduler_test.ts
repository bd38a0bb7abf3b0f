import { assert, assertEquals } from "@std/assert";
import { FairScheduler } from "../../../../lib/net/portable/fair_scheduler.ts";
import { ROUND_UNITS } from "../../../../protocol/work_budget.ts";

Deno.test("FairScheduler lets the sockets go first when a round's work is done, then counts from 0", async () => {
  const scheduler = new FairScheduler();
  assertEquals(scheduler.charge(ROUND_UNITS - 1), null);
  const turn = scheduler.charge(1);
  assert(turn !== null);
  // Work that goes on until others have had a turn: it would never end if promises alone were resolved.
  let others = false;
  setTimeout(() => others = true, 0);
  for (let slices = 0; !others; slices++) {
    assert(slices < 1_000_000, "nothing but promises ran");
    await (scheduler.charge(ROUND_UNITS) ?? turn);
  }
  await turn;
  let isWaiting = true;
  const last = scheduler.charge(ROUND_UNITS)!.then(() => isWaiting = false);
  await Promise.resolve();
  assertEquals(isWaiting, true, "it continues after the sockets were polled");
  await last;
  assertEquals(scheduler.charge(ROUND_UNITS - 1), null, "a new round counts from 0");
});

Deno.test("FairScheduler resumes connections in the order in which they had to wait", async () => {
  const scheduler = new FairScheduler();
  const order: number[] = [];
  const busy = async (name: number): Promise<void> => {
    for (let slice = 0; slice < 3; slice++) {
      await scheduler.charge(ROUND_UNITS);
      order.push(name);
    }
  };
  await Promise.all([busy(1), busy(2), busy(3)]);
  assertEquals(order, [1, 2, 3, 1, 2, 3, 1, 2, 3]);
});
