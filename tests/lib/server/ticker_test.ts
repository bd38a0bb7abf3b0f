import { assert, assertEquals } from "@std/assert";
import { msToNextTick } from "../../../lib/server/ticker.ts";

Deno.test("the clock ticks on the second, however late or early its timers are", () => {
  assertEquals(msToNextTick(0), 100);
  assertEquals(msToNextTick(40), 60);
  assertEquals(msToNextTick(999.2), 1);
  assertEquals(msToNextTick(1012.5), 88);
  for (let elapsedMs = 0; elapsedMs < 3000; elapsedMs += 0.37) {
    const tickMs = elapsedMs + msToNextTick(elapsedMs);
    assert(tickMs % 100 <= 1.001, `${elapsedMs}: ${tickMs}`);
    assertEquals(Math.floor(tickMs / 100), Math.floor(elapsedMs / 100) + 1);
  }
});
