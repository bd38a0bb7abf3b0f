import { assert, assertEquals } from "@std/assert";
import { msToNextTick } from "../../../lib/server/ticker.ts";
import { testTransports as test } from "../../support/servers/server_process.ts";

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

test("maintenance ends the wait for a lock when its time is over", async (start) => {
  await using server = await start();
  using holder = await server.connect();
  await holder.ask("set k 0 0 1\r\nv\r\nlock k\r\n", "STORED\r\nOK\r\n");
  using waiting = await server.connect();
  await waiting.ask("lock k 50\r\n", "LOCKED\r\n");
  await server.stop();
});
