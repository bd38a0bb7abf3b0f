import { assertEquals } from "@std/assert";
import { deadlineSec, PAST_SEC } from "../../store/clock.ts";
import { FIRST_SECOND } from "../../store/limits.ts";
import { TestStore } from "../support/store.ts";

Deno.test("deadlineSec() follows memcached's rule of the 30 days", () => {
  const { memory } = new TestStore();
  const startUnix = memory.options.startedUnixSec;
  assertEquals(deadlineSec(memory, 0), 0);
  assertEquals(deadlineSec(memory, -1), PAST_SEC);
  assertEquals(deadlineSec(memory, 10), FIRST_SECOND + 10);
  assertEquals(deadlineSec(memory, 2_592_000), FIRST_SECOND + 2_592_000);
  assertEquals(deadlineSec(memory, 2_592_001), PAST_SEC);
  assertEquals(deadlineSec(memory, startUnix + 100), FIRST_SECOND + 100);
});
