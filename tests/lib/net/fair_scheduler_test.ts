import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { FairScheduler } from "../../../lib/net/fair_scheduler.ts";

Deno.test("FairScheduler yields to the event loop after some milliseconds of work, then counts anew", async () => {
  const scheduler = new FairScheduler();
  assertEquals(scheduler.take(3), null);
  const turn = scheduler.take(3);
  assert(turn !== null);
  assertStrictEquals(scheduler.take(0), turn, "all that have more to do wait for the same turn");
  let others = false;
  queueMicrotask(() => others = true);
  await turn;
  assert(others);
  assertEquals(scheduler.take(3), null);
});
