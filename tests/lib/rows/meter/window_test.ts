import { assertEquals } from "@std/assert";
import { ninesOf, SampleWindow } from "../../../../lib/rows/meter/window.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

Deno.test("samples count for the hour and the day behind them, to a minute", () => {
  let nowMs = 12_345;
  const window = new SampleWindow(() => nowMs);
  window.add(true);
  for (let count = 0; count < 4; count++) window.add(false);
  assertEquals([window.hour, window.day], [{ compared: 5, stale: 1 }, { compared: 5, stale: 1 }]);
  nowMs += HOUR_MS - MINUTE_MS;
  window.add(false);
  assertEquals(window.hour, { compared: 6, stale: 1 });
  nowMs += MINUTE_MS;
  assertEquals(window.hour, { compared: 1, stale: 0 });
  assertEquals(window.day, { compared: 6, stale: 1 });
  nowMs += 23 * HOUR_MS - MINUTE_MS;
  assertEquals(window.day, { compared: 6, stale: 1 });
  nowMs += MINUTE_MS;
  assertEquals(window.day, { compared: 1, stale: 0 });
  nowMs += 1000 * HOUR_MS;
  window.add(false);
  assertEquals(window.day, { compared: 1, stale: 0 });
});

Deno.test("nines are a bound: without a stale value 3/n, with each one fewer", () => {
  const nines = (compared: number, stale = 0): number => ninesOf({ compared, stale });
  assertEquals([0, 1, 3, 30, 3000, 8640, 3_000_000].map((compared) => nines(compared)), [
    ...[0, 0, 0, 1, 3, 3.4, 6],
  ]);
  assertEquals([0, 1, 10, 1000].map((stale) => nines(3000, stale)), [3, 2.6, 2.1, 0.4]);
});
