import { assertEquals } from "@std/assert";
import {
  type AcquiredResources,
  CounterOutcome,
  Counters,
} from "../../../lib/counters/counters.ts";

const { OK, NOT_FOUND, UNAVAILABLE, NOT_ACQUIRED, NO_MEMORY } = CounterOutcome;
const U32_MAX = 2 ** 32 - 1;

/** Consumption and highest consumption of every counter. */
function sums(counters: Counters): Record<string, [number, number]> {
  const found: Record<string, [number, number]> = {};
  const all = counters.all();
  for (let next = all.next(); !next.done; next = all.next()) {
    found[next.value.name] = [next.value.consumption, counters.highest(next.value)];
  }
  return found;
}

Deno.test("acquire() takes all or nothing, up to the maximum that each brings", () => {
  const counters = new Counters(1e6);
  const [a, b]: AcquiredResources[] = [new Map(), new Map()];
  assertEquals(counters.acquire(a!, "n", 3, 5), OK);
  assertEquals(counters.acquire(b!, "n", 3, 5), UNAVAILABLE);
  assertEquals(counters.acquire(b!, "n", 2, 5), OK);
  assertEquals(counters.acquire(b!, "n", 1, 6), OK);
  assertEquals(counters.acquire(b!, "other", 6, 6), OK);
  assertEquals(sums(counters), { n: [6, 6], other: [6, 6] });
});

Deno.test("acquire() adds in full width: a sum never wraps", () => {
  const counters = new Counters(1e6);
  const [a, b]: AcquiredResources[] = [new Map(), new Map()];
  assertEquals(counters.acquire(a!, "n", U32_MAX, U32_MAX), OK);
  assertEquals(counters.acquire(b!, "n", 1, U32_MAX), UNAVAILABLE);
  assertEquals(counters.acquire(b!, "n", U32_MAX, U32_MAX), UNAVAILABLE);
  counters.releaseAll(b!);
  assertEquals(sums(counters), { n: [U32_MAX, U32_MAX] });
  counters.releaseAll(a!);
  assertEquals(sums(counters), { n: [0, U32_MAX] });
});

Deno.test("release() gives back what the client itself holds, and 0 of what it holds some", () => {
  const counters = new Counters(1e6);
  const [a, b]: AcquiredResources[] = [new Map(), new Map()];
  assertEquals(counters.release(a!, "n", 1), NOT_FOUND);
  counters.acquire(a!, "n", 5, 9);
  counters.acquire(b!, "n", 1, 9);
  assertEquals(counters.release(b!, "n", 2), NOT_ACQUIRED);
  assertEquals(counters.release(b!, "n", 0), OK);
  assertEquals(counters.release(b!, "n", 1), OK);
  assertEquals(counters.release(b!, "n", 0), NOT_ACQUIRED);
  assertEquals(counters.release(a!, "n", 2), OK);
  assertEquals(sums(counters), { n: [3, 6] });
});

Deno.test("releaseAll() gives everything back, once", () => {
  const counters = new Counters(1e6);
  const [a, b]: AcquiredResources[] = [new Map(), new Map()];
  for (const name of ["x", "y"]) {
    counters.acquire(a!, name, 2, 9);
    counters.acquire(b!, name, 3, 9);
  }
  counters.releaseAll(a!);
  counters.releaseAll(a!);
  assertEquals(sums(counters), { x: [3, 5], y: [3, 5] });
});

Deno.test("highest() begins with each interval at what is held", () => {
  const counters = new Counters(1e6);
  const a: AcquiredResources = new Map();
  counters.acquire(a, "n", 5, 9);
  counters.release(a, "n", 3);
  assertEquals(sums(counters), { n: [2, 5] });
  counters.beginInterval();
  assertEquals(sums(counters), { n: [2, 2] });
  counters.release(a, "n", 1);
  assertEquals(sums(counters), { n: [1, 2] });
});

Deno.test("dropIdle() drops what was idle when the interval began, a few at once", () => {
  const counters = new Counters(1e6);
  const a: AcquiredResources = new Map();
  for (const name of ["p", "q", "r", "held"]) counters.acquire(a, name, 1, 9);
  for (const name of ["p", "q", "r"]) counters.release(a, name, 1);
  assertEquals(counters.dropIdle(9), false);
  assertEquals(counters.count, 4);
  counters.beginInterval();
  counters.acquire(a, "q", 1, 9);
  counters.release(a, "q", 1);
  assertEquals(counters.dropIdle(1), true);
  assertEquals(counters.dropIdle(1), false);
  assertEquals(Object.keys(sums(counters)), ["q", "held"]);
  assertEquals(counters.madeCount, 4);
});

Deno.test("a counter that is held again is not idle; one that found no memory is", () => {
  const usedBy = (counters: Counters): readonly [number, AcquiredResources] => {
    const [a, b]: AcquiredResources[] = [new Map(), new Map()];
    counters.acquire(a!, "released", 1, 9);
    counters.release(a!, "released", 1);
    counters.acquire(a!, "held", 1, 9);
    return [counters.usedBytes, b!];
  };
  const roomy = new Counters(1e6);
  const [bytes, taker] = usedBy(roomy);
  assertEquals(roomy.acquire(taker, "released", 1, 9), OK);
  roomy.beginInterval();
  roomy.dropIdle(9);
  assertEquals(Object.keys(sums(roomy)), ["released", "held"]);
  const full = new Counters(bytes + 10);
  const [, late] = usedBy(full);
  assertEquals(full.acquire(late, "released", 1, 9), NO_MEMORY);
  full.beginInterval();
  full.dropIdle(9);
  assertEquals(Object.keys(sums(full)), ["held"]);
});

Deno.test("acquire() drops idle counters, the oldest first, before it runs out of memory", () => {
  const counters = new Counters(10 * 386 + 100);
  const a: AcquiredResources = new Map();
  counters.acquire(a, "idle", 1, 1);
  counters.release(a, "idle", 1);
  let count = 0;
  while (counters.acquire(a, `n${count}`, 1, 1) === OK) count++;
  assertEquals(counters.get("idle"), undefined);
  assertEquals(counters.count, count);
  assertEquals([count, counters.usedBytes], [10, 3860]);
  assertEquals(counters.acquire(a, "n0", 1, 2), OK); // costs nothing
  const b: AcquiredResources = new Map();
  assertEquals(counters.acquire(b, "n0", 1, 9), NO_MEMORY);
  assertEquals(counters.acquire(b, "long".repeat(2000), 1, 9), NO_MEMORY);
  counters.releaseAll(a);
  assertEquals(counters.acquire(b, "n0", 1, 9), OK);
  counters.releaseAll(b);
  counters.beginInterval();
  while (counters.dropIdle(5));
  assertEquals([counters.count, counters.usedBytes], [0, 0]);
});

Deno.test("acquire() never drops the counter it is asked for", () => {
  const counters = new Counters(1_000);
  const a: AcquiredResources = new Map();
  const name = "n".repeat(600);
  assertEquals(counters.acquire(a, name, 1, 1), OK);
  counters.release(a, name, 1);
  assertEquals(counters.acquire(a, name, 1, 1), OK);
  assertEquals(counters.usedBytes, 600 + 256 + 128);
});

Deno.test("the counter that has been idle longest goes first, since its last release", () => {
  const bytes = 1 + 256;
  const counters = new Counters(4 * bytes + 128);
  const a: AcquiredResources = new Map();
  const touch = (name: string): void => {
    assertEquals(counters.acquire(a, name, 1, 9), OK);
    counters.release(a, name, 1);
  };
  for (const name of ["a", "b", "c", "a"]) touch(name);
  const names = (): string => Object.keys(sums(counters)).join("");
  touch("d");
  assertEquals(names(), "abcd", "all fit, to the last byte");
  touch("e");
  assertEquals(names(), "acde");
  touch("f");
  assertEquals(names(), "adef");
  assertEquals(counters.usedBytes, 4 * bytes);
});
