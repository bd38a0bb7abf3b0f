import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { Turns } from "../../../lib/net/fair_scheduler.ts";

Deno.test("Turns gives others a turn after some milliseconds of work, then counts anew", async () => {
  const turns = new Turns();
  assertEquals(turns.take(3), null);
  const turn = turns.take(3);
  assert(turn !== null);
  assertStrictEquals(turns.take(0), turn, "all that have more to do wait for the same turn");
  let others = false;
  queueMicrotask(() => others = true);
  await turn;
  assert(others);
  assertEquals(turns.take(3), null);
});
