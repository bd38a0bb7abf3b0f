import { assertEquals } from "@std/assert";
import { Stop } from "../../lib/process/stop.ts";

Deno.test("a second request ends the process at once, but for the echo of the first", async () => {
  let nowMs = 1000;
  const { now } = performance;
  performance.now = () => nowMs;
  const statuses: number[] = [];
  const exitNow = (status: number): never => void statuses.push(status) as never;
  try {
    const stop = new Stop(exitNow);
    assertEquals(stop.isRequested, false);
    stop.request("SIGINT", 130);
    await stop.requested;
    assertEquals(stop.isRequested, true);
    nowMs += 249;
    stop.request("SIGINT", 130);
    assertEquals(statuses, []);
    nowMs += 1;
    stop.request("SIGTERM", 143);
    assertEquals(statuses, [143]);
  } finally {
    performance.now = now;
  }
});
