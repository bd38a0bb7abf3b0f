import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { FairScheduler } from "../../../lib/net/fair_scheduler.ts";

Deno.test("FairScheduler yields to the event loop after some milliseconds of work, then counts anew", async () => {
  const scheduler = new FairScheduler();
  assertEquals(scheduler.charge(3), null);
  const pause = scheduler.charge(3);
  assert(pause !== null);
  assertStrictEquals(
    scheduler.charge(0),
    pause,
    "all that have more to do wait for the same pause",
  );
  let others = false;
  queueMicrotask(() => others = true);
  await pause;
  assert(others);
  assertEquals(scheduler.charge(3), null);
});
