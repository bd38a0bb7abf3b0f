// deno-lint-ignore-file no-console -- a bench prints
import { MIB } from "../../store/limits.ts";
import { CONTROL } from "../../store/memory.ts";
import { randomFrom } from "../support/random.ts";
import { StoreTarget } from "./replay/store_target.ts";

/** The key size that the project's trace replayer uses for `fill` and `expire`. */
const KEY_SIZE = 16;

const print = (name: string, ...cells: string[]): void =>
  console.log([name.padEnd(13), ...cells].join("  "));

/** Sets new keys, from `first` on, until something is evicted or refused, or `most` are in. Returns how many are in. */
function setUntilEviction(
  target: StoreTarget,
  first: number,
  valueSize: number,
  ttlSeconds: number,
  most = Infinity,
): number {
  const evicted = target.evicted;
  let count = 0;
  while (count < most) {
    if (!target.set(first + count, KEY_SIZE, valueSize, ttlSeconds)) break;
    if (count++ % 500 === 0 && target.evicted > evicted) break;
  }
  return count;
}

/** How much of the limit is key and value when the first item is evicted. */
function fill(): void {
  const least = { 32: 0.46, 100: 0.68, 300: 0.84, 1000: 0.9 };
  for (const [size, wanted] of Object.entries(least)) {
    const limit = 64 * MIB;
    const target = new StoreTarget({ memoryLimitBytes: limit });
    setUntilEviction(target, 0, Number(size), 0);
    const share = target.items * (KEY_SIZE + Number(size)) / limit;
    print(
      `fill-${size}`,
      share.toFixed(4),
      `>= ${wanted}`,
      share >= wanted ? "ok  " : "MISS",
      `items ${target.items}`,
      `${
        (limit / target.items - KEY_SIZE - Number(size)).toFixed(1)
      } B an item beside key and value`,
    );
  }
}

/** Whether the memory of expired items goes to items of another size. */
function expire(): void {
  const limit = 64 * MIB;
  const target = new StoreTarget({ memoryLimitBytes: limit });
  setUntilEviction(target, 0, 100, 2, Math.floor(limit * 0.5 / (KEY_SIZE + 100)));
  const shortLived = target.items;
  target.tick(5000);
  const left = target.items;
  const fresh = setUntilEviction(target, 1_000_000, 400, 0);
  print(
    "expire",
    String(fresh),
    ">= 100000",
    fresh >= 100_000 ? "ok  " : "MISS",
    `short-lived ${shortLived}, of these left ${left}`,
  );
}

/** What a set costs that has to evict, by the size of the value. */
function cost(): void {
  for (const valueSize of [10, 100, 1000, 10_000]) {
    const target = new StoreTarget({ memoryLimitBytes: 64 * MIB });
    const random = randomFrom(valueSize);
    let key = setUntilEviction(target, 0, valueSize, 0);
    const size = (): number => Math.max(1, Math.floor(valueSize * (0.5 + random())));
    // The classes find their shares.
    for (let warm = 0; warm < key; warm += 2) target.set(key + warm, KEY_SIZE, size(), 0);
    key *= 2;
    const sets = Math.min(key, 1_000_000);
    const sizes = Int32Array.from({ length: sets }, size);
    let longest = 0;
    let over = 0;
    const start = performance.now();
    for (let at = 0; at < sets; at++) {
      const before = performance.now();
      target.set(key + at, KEY_SIZE, sizes[at]!, 0);
      const took = performance.now() - before;
      if (took > 0.1) over++;
      longest = Math.max(longest, took);
    }
    const took = performance.now() - start;
    print(
      `cost-${valueSize}`,
      `${(took * 1000 / sets).toFixed(2)} us a set that evicts`,
      `longest ${(longest * 1000).toFixed(0)} us, above 100 us: ${over} of ${sets}`,
      `moved ${target.stat("pages_moved")}, rescued ${target.stat("rescued_items")}`,
    );
  }
}

/** Ten million small items: what one takes, and how long the growth of the index keeps anybody waiting. */
function index(): void {
  const limit = 2048 * MIB;
  const target = new StoreTarget({ memoryLimitBytes: limit });
  const items = 10_000_000;
  const rss = Deno.memoryUsage().rss;
  let longest = 0;
  const start = performance.now();
  for (let key = 0; key < items; key++) {
    const before = performance.now();
    target.set(key, KEY_SIZE, 100, 0);
    longest = Math.max(longest, performance.now() - before);
  }
  const took = performance.now() - start;
  const control = target.memory.control;
  const pages = control[CONTROL.PAGE_COUNT]! - control[CONTROL.FREE_PAGE_COUNT]!;
  print(
    "index",
    `items ${target.items}`,
    `${
      (pages * target.memory.pageBytes / items - KEY_SIZE - 100).toFixed(1)
    } B an item beside key and value`,
    `${(took * 1000 / items).toFixed(2)} us a set, longest ${longest.toFixed(2)} ms`,
    `resident ${((Deno.memoryUsage().rss - rss) / MIB).toFixed(0)} MiB more`,
  );
}

/** Runs of the store's bench that need no trace, by name. */
export const STORE_RUNS: Record<string, () => void> = { fill, expire, cost, index };
