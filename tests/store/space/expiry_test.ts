import { assertEquals, assertGreater } from "@std/assert";
import { MIB } from "../../../store/limits.ts";
import { CONTROL, PAGE } from "../../../store/memory/memory.ts";
import { StoreMode } from "../../../store/operation.ts";
import { STAT } from "../../../store/stats.ts";
import { held, keyIn, TestStore } from "../../support/store.ts";

/** Chunks of one slice at most, and the work of one second. */
const [SLICE_CHUNKS, SECOND_UNITS] = [1500, 4_000_000];
/** Several pages of short items. */
const ITEMS = 5000;
/** So many dead items make the sweep of their page longer than a slice. */
const DEAD = 160;
const encoder = new TextEncoder();

/** A store of short items of one class that die at instants of the store's clock. */
class DyingStore extends TestStore {
  constructor() {
    super({ memoryLimitBytes: 8 * MIB });
  }

  /** Stores an item that dies at that second; 0: never. */
  put(index: number, deadlineSec: number): void {
    this.store(StoreMode.SET, `key${index}`.padEnd(12, "_"), "v".repeat(40), { deadlineSec });
  }

  /** The offset of the row of the page that has an item. */
  rowOf(index: number): number {
    const { written } = encoder.encodeInto(`key${index}`.padEnd(12, "_"), this.input.bytes);
    const item = this.cache.peek(keyIn(this.cache, this.input, written));
    const { pages } = this.memory;
    for (let page = 0; page * PAGE.WORDS < pages.length; page++) {
      const first = this.memory.pageRef(page);
      if (item >= first && item < first + this.memory.pageBytes / 8) return page * PAGE.WORDS;
    }
    throw new Error(`item ${index} is in no page`);
  }

  /** Sweeps until no page is due. Returns the number of slices. */
  sweep(atSec: number): number {
    this.clock(1000 * atSec);
    let slices = 1;
    while (held(this.cache, () => this.cache.maintain())) slices++;
    return slices;
  }

  get items(): number {
    return this.memory.control[CONTROL.ITEM_COUNT]!;
  }

  get checked(): number {
    return this.memory.stats[STAT.crawler_items_checked]!;
  }
}

Deno.test("each sweep finds the dead items of all pages, in as many slices as it needs", () => {
  using store = new DyingStore();
  for (let round = 1; round <= 3; round++) {
    const nowSec = store.memory.control[CONTROL.NOW_SEC]!;
    for (let index = 0; index < ITEMS; index++) store.put(index, nowSec + 5);
    assertEquals(store.items, ITEMS);
    store.sweep(10 * round - 7);
    assertEquals(store.items, ITEMS, "all live");
    assertGreater(store.sweep(10 * round), ITEMS / SLICE_CHUNKS);
    assertEquals(store.items, 0, `round ${round}`);
  }
});

Deno.test("a page is looked at when its first deadline has passed, all of it, then at its next one", () => {
  using store = new DyingStore();
  const nowSec = store.memory.control[CONTROL.NOW_SEC]!;
  const [first, second, later] = [nowSec + 5, nowSec + 700, nowSec + 1000];
  for (let index = 0; index < ITEMS; index++) {
    const dies = index < 3 + DEAD ? first : later;
    store.put(index, [0, second, second + 1][index] ?? dies);
  }
  const { pages } = store.memory;
  const row = store.rowOf(1);
  const carved = pages[row + PAGE.CARVED]!;
  assertGreater(carved, 3 + DEAD);
  store.sweep(4);
  assertEquals([store.items, store.checked, pages[row + PAGE.SOONEST_SEC]], [ITEMS, 0, first]);
  assertEquals(store.sweep(5), 2);
  assertEquals([store.items, store.checked], [ITEMS - DEAD, carved]);
  assertEquals(pages[row + PAGE.SOONEST_SEC], second);
  assertEquals(store.sweep(699), 1);
  assertEquals(store.checked, carved);
  store.sweep(700);
  assertEquals([store.items, store.checked], [ITEMS - DEAD - 1, 2 * carved]);
  assertEquals(pages[row + PAGE.SOONEST_SEC], second + 1);
  store.sweep(1000);
  assertEquals(store.items, 1, "an item that never dies");
});

Deno.test("a second's work ends the sweep, and the next second goes on", () => {
  using store = new DyingStore();
  const { control } = store.memory;
  const deadline = control[CONTROL.NOW_SEC]! + 5;
  for (let index = 0; index < ITEMS; index++) store.put(index, deadline);
  store.clock(6000);
  held(store.cache, () => store.cache.maintain());
  const left = store.items;
  assertEquals(left > 0 && left < ITEMS, true, `${left}`);
  control[CONTROL.SWEEP_UNITS] = SECOND_UNITS;
  assertEquals(store.sweep(6), 1);
  assertEquals(store.items, left);
  control[CONTROL.SWEEP_UNITS] = SECOND_UNITS - 1;
  held(store.cache, () => store.cache.maintain());
  assertEquals(store.items < left, true);
  assertEquals(store.sweep(6), 1);
  store.sweep(7);
  assertEquals([store.items, control[CONTROL.SWEEP_UNITS]! < SECOND_UNITS], [0, true]);
});
