// deno-lint-ignore-file no-console -- a bench prints
import type { Cache } from "../../store/cache.ts";
import { NO_ITEM, WORD } from "../../store/memory/item.ts";
import { MIB } from "../../store/limits.ts";
import { CONTROL } from "../../store/memory/memory.ts";
import { randomFrom } from "../support/random.ts";
import { StoreTarget } from "./replay/store_target.ts";
import { leastOf, only, spread, Timings, type Took } from "./timings.ts";

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

/** Measures the share of keys and values in the memory limit at the first eviction. */
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

/** Checks that memory of expired items is reused for items of another size. */
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

/** Measures a set that evicts, by value size. */
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

/** Growth of the index during a set. */
const Growth = { NONE: 0, BUCKETS: 1, PAGE: 2 } as const;
const GROWTH_NAMES = ["not at all", "by buckets", "by a page of buckets too"];
const INDEX_ITEMS = 10_000_000;
/** After as many deletions the index does not grow. */
const INDEX_REPLACED = 1_000_000;
const INDEX_ROUNDS = 3;

interface IndexRound {
  readonly sets: Took;
  /** Of each set. */
  readonly growth: Uint8Array;
  /** The most items of the buckets that one set has split. */
  readonly splitItemsMax: number;
  readonly overheadBytes: number;
  readonly residentMib: number;
}

/** Ten million new small items, then some that come for deleted ones. */
function fillIndex(): IndexRound {
  const resident = Deno.memoryUsage().rss;
  const target = new StoreTarget({ memoryLimitBytes: 2048 * MIB });
  const { cache, operation, memory } = target;
  const { control } = memory;
  const growth = new Uint8Array(INDEX_ITEMS + INDEX_REPLACED);
  const timings = new Timings();
  let splitItemsMax = 0;
  const set = (key: number): void => {
    const [buckets, pages] = [control[CONTROL.HASH_BUCKETS]!, control[CONTROL.HASH_PAGES]!];
    timings.start();
    target.set(key, KEY_SIZE, 100, 0);
    timings.stop();
    const bucketsNow = control[CONTROL.HASH_BUCKETS]!;
    if (bucketsNow === buckets) return;
    growth[key] = control[CONTROL.HASH_PAGES]! > pages ? Growth.PAGE : Growth.BUCKETS;
    // The item that was set is among these, or is not.
    let items = 0;
    for (let bucket = buckets; bucket < bucketsNow; bucket++) {
      const half = bucket - 2 ** Math.floor(Math.log2(bucket));
      items += itemsIn(cache, bucket) + itemsIn(cache, half);
    }
    splitItemsMax = Math.max(splitItemsMax, items);
  };
  for (let key = 0; key < INDEX_ITEMS; key++) set(key);
  const pages = control[CONTROL.PAGE_COUNT]! - control[CONTROL.FREE_PAGE_COUNT]!;
  for (let key = 0; key < INDEX_REPLACED; key++) {
    target.name(key, KEY_SIZE);
    cache.remove(operation);
    set(INDEX_ITEMS + key);
  }
  return {
    sets: timings.took,
    growth,
    splitItemsMax,
    overheadBytes: pages * memory.pageBytes / INDEX_ITEMS - KEY_SIZE - 100,
    residentMib: (Deno.memoryUsage().rss - resident) / MIB,
  };
}

function itemsIn(cache: Cache, bucket: number): number {
  let count = 0;
  let item = cache.links.index.head(bucket);
  for (; item !== NO_ITEM; count++) item = cache.items.word(item, WORD.HASH_NEXT);
  return count;
}

/** Times empty work as often, which shows the machine's own noise. */
function emptyLoop(): Took {
  const timings = new Timings();
  for (let turn = 0; turn < INDEX_ITEMS; turn++) {
    timings.start();
    timings.stop();
  }
  return timings.took;
}

/** Ten million small items: memory per item, and pauses while the index grows. */
function index(): void {
  const rounds = Array.from({ length: INDEX_ROUNDS }, fillIndex);
  const idle = Array.from({ length: INDEX_ROUNDS }, emptyLoop);
  const [first] = rounds;
  const { growth } = first!;
  print(
    "index",
    `${first!.overheadBytes.toFixed(1)} B an item beside key and value`,
    `resident ${first!.residentMib.toFixed(0)} MiB more`,
    `most items in buckets that a set split ${first!.splitItemsMax}`,
  );
  const least = leastOf(rounds.map(({ sets }) => sets));
  const rows: [name: string, one: Took, least: Took][] = [
    ["nothing at all", idle[0]!, leastOf(idle)],
    ...GROWTH_NAMES.map((name, kind): [string, Took, Took] => {
      const isOfKind = (set: number): boolean => growth[set] === kind;
      return [`grown ${name}`, only(first!.sets, isOfKind), only(least, isOfKind)];
    }),
  ];
  for (const [name, one, least] of rows) {
    print("index", `${name}: ${one.cpuUs.length}, us of CPU: ${spread(one)}`);
    print("index", `${name}: the least of ${INDEX_ROUNDS} rounds: ${spread(least)}`);
  }
}

/** Runs of the store's bench that need no trace, by name. */
export const STORE_RUNS: Record<string, () => void> = { fill, expire, cost, index };
