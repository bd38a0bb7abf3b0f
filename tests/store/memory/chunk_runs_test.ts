import { assertEquals } from "@std/assert";
import { StoreMode } from "../../../store/operation.ts";
import { NO_ITEM } from "../../../store/memory/item.ts";
import { MIB } from "../../../store/limits.ts";
import { Outcome } from "../../../store/outcome.ts";
import { MoveResult } from "../../../store/space/page_mover.ts";
import {
  chunkCount,
  firstChunk,
  freeRun,
  RUN_CHUNKS_MAX,
  runAt,
} from "../../../store/memory/chunk_runs.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { movePage, TestStore } from "../../support/store.ts";

Deno.test("freeRun() and runAt() agree with a list of chunks", async () => {
  await withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    const below = (bound: number): number => Math.floor(random() * bound);
    for (let round = 0; round < 200; round++) {
      const chunks = 1 + below(RUN_CHUNKS_MAX);
      /** By chunk: the first of its run, or -1. */
      const firstOf = new Array<number>(chunks).fill(-1);
      let runs = 0;
      for (let step = 0; step < 100; step++) {
        const isFull = !firstOf.includes(-1);
        const index = below(chunks);
        if (!isFull && random() < 0.6) {
          const wanted = 1 + below(chunks);
          const run = freeRun(runs, chunks, wanted);
          const stretches = freeStretches(firstOf);
          const longest = Math.max(...stretches.map(([, length]) => length));
          const length = Math.min(wanted, longest);
          const first = stretches.find((stretch) => stretch[1] >= length)![0];
          assertEquals([firstChunk(run), chunkCount(run)], [first, length]);
          firstOf.fill(first, first, first + length);
          runs |= run;
        } else if (firstOf[index] === index) {
          const run = runAt(runs, index);
          assertEquals(firstChunk(run), index);
          assertEquals(chunkCount(run), firstOf.filter((first) => first === index).length);
          runs &= ~run;
          firstOf.fill(-1, index, index + chunkCount(run));
        } else {
          assertEquals(runAt(runs, index), 0);
        }
      }
    }
  });
});

/** Starts and lengths of what is free. */
function freeStretches(firstOf: readonly number[]): [number, number][] {
  const found: [number, number][] = [];
  firstOf.forEach((first, at) => {
    if (first !== -1) return;
    const last = found.at(-1);
    if (last !== undefined && last[0] + last[1] === at) last[1]++;
    else found.push([at, 1]);
  });
  return found;
}

const LONG = "v".repeat(100_000);
/** Takes a head and a run of three chunks. */
const SHORTER = "w".repeat(14_000);

/** A store that evicts nothing and has holes of four chunks, with one long value that was there before them. */
function storeWithHoles(): TestStore {
  const store = new TestStore({
    memoryLimitBytes: 8 * MIB,
    evictions: false,
    lockLimits: { locksPerConnectionMax: 1000, memoryShareMax: 1, memorySharePerConnectionMax: 1 },
  });
  store.store(StoreMode.SET, "long", LONG);
  let count = 0;
  while (store.store(StoreMode.SET, `key-${count}`, SHORTER) === Outcome.STORED) count++;
  for (let n = 0; n < count; n += 2) store.remove(`key-${n}`);
  return store;
}

function piecesOf(store: TestStore, key: string): number {
  const { values } = store.cache;
  const item = store.item(key);
  let pieces = 0;
  for (let at = 0; at < LONG.length; pieces++) at += values.locate(item, at);
  return pieces;
}

Deno.test("a long value lies in as few pieces as there is room for", () => {
  const store = storeWithHoles();
  // Its head, the rest of the head's page, and 10 chunks of another page.
  assertEquals(piecesOf(store, "long"), 3);
  store.store(StoreMode.SET, "longer", LONG);
  // Behind the head 24 chunks, in holes of 4; the first is one shorter, and every further header needs room.
  assertEquals(piecesOf(store, "longer"), 8);
  assertEquals(store.get("longer"), LONG);
  store.check();
});

Deno.test("movePage() moves a long run to several shorter ones", () => {
  const store = storeWithHoles();
  // Its first page is then the only one of the class that may be moved.
  for (let n = 1; store.item(`key-${n}`) !== NO_ITEM; n += 2) store.lock(`key-${n}`, 1);
  const { largeClass } = store.cache.links.slabs;
  assertEquals(movePage(store.cache, largeClass, 0), MoveResult.MOVED);
  store.check();
  assertEquals(piecesOf(store, "long"), 7);
  assertEquals(store.get("long"), LONG);
});
