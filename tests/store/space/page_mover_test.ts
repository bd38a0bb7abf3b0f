import { assert, assertEquals, assertGreater, assertLess, assertLessOrEqual } from "@std/assert";
import { StoreMode } from "../../../store/operation.ts";
import { CLASS, CONTROL, NO_PAGE, PAGE, PAGE_OWNER } from "../../../store/memory/memory.ts";
import { MIB } from "../../../store/limits.ts";
import { Outcome } from "../../../store/outcome.ts";
import { Eviction } from "../../../store/space/eviction.ts";
import { ANY_CLASS, PageSelector } from "../../../store/space/page_selector.ts";
import { MoveResult, PageMove, PageMover } from "../../../store/space/page_mover.ts";
import { STAT } from "../../../store/stats.ts";
import { movePage, TestStore } from "../../support/store.ts";

function pagesOf(store: TestStore, classId: number): number {
  return store.memory.classes[classId * CLASS.WORDS + CLASS.PAGES]!;
}

/** A store with values of one size on some pages. Returns the class they are in. */
function fill(store: TestStore, count: number): number {
  for (let n = 0; n < count; n++) {
    store.store(StoreMode.SET, `key-${n}`, `${n}`.padEnd(1000, "."));
  }
  for (let classId = 1;; classId++) if (pagesOf(store, classId) > 0) return classId;
}

Deno.test("movePage() takes a page from a class to another, and what lived in it is still there", () => {
  using store = new TestStore();
  const source = fill(store, 1000);
  for (let n = 0; n < 1000; n += 3) store.remove(`key-${n}`);
  const pages = pagesOf(store, source);
  assertEquals(movePage(store.cache, source, 1), MoveResult.MOVED);
  assertEquals(pagesOf(store, source), pages - 1);
  assertEquals(pagesOf(store, 1), 1);
  for (let n = 0; n < 1000; n++) {
    assertEquals(store.get(`key-${n}`), n % 3 === 0 ? undefined : `${n}`.padEnd(1000, "."));
  }
});

Deno.test("movePage() from any class takes a page of the one with most, which needs two", () => {
  using store = new TestStore();
  const move = (target: number): MoveResult => movePage(store.cache, ANY_CLASS, target);
  assertEquals(move(1), MoveResult.BAD_CLASS);
  store.store(StoreMode.SET, "key-0", ".".repeat(1000));
  assertEquals(move(1), MoveResult.BAD_CLASS);
  const most = fill(store, 1000);
  for (let n = 0; n < 100; n++) store.store(StoreMode.SET, `larger-${n}`, ".".repeat(3000));
  const other = store.cache.links.slabs.classOf(store.item("larger-0"));
  // So that what lives in a page has room in the others.
  for (let n = 0; n < 1000; n += 3) store.remove(`key-${n}`);
  for (let n = 0; n < 100; n += 3) store.remove(`larger-${n}`);
  const [pages, others] = [pagesOf(store, most), pagesOf(store, other)];
  assertGreater(pages, others);
  assertGreater(others, 1);
  assertEquals(move(1), MoveResult.MOVED);
  assertEquals([pagesOf(store, most), pagesOf(store, other)], [pages - 1, others]);
  assertEquals(move(most), MoveResult.MOVED);
  assertEquals([pagesOf(store, most), pagesOf(store, other)], [pages, others - 1]);
});

Deno.test("movePage() removes nothing from a full store that must not evict", () => {
  using store = new TestStore({ evictions: false, memoryLimitBytes: 2 * MIB });
  const value = ".".repeat(1000);
  const isStored = (n: number): boolean =>
    store.store(StoreMode.SET, `key-${n}`, value) === Outcome.STORED;
  let count = 0;
  while (isStored(count)) count++;
  const source = fill(store, 1);
  assertEquals(movePage(store.cache, source, 1), MoveResult.BUSY);
  for (let n = 0; n < count; n++) assert(store.get(`key-${n}`) !== undefined, `key-${n}`);
});

Deno.test("movePage() to 0 gives the page to the pool, and from 0 takes it there", () => {
  using store = new TestStore();
  const source = fill(store, 1000);
  const free = store.memory.control[CONTROL.FREE_PAGE_COUNT]!;
  assertEquals(movePage(store.cache, -1, 0), MoveResult.MOVED);
  assertEquals(store.memory.control[CONTROL.FREE_PAGE_COUNT], free + 1);
  assertEquals(movePage(store.cache, 0, source), MoveResult.MOVED);
  assertEquals(store.memory.control[CONTROL.FREE_PAGE_COUNT], free);
});

Deno.test("a class with many free chunks spares a page, one of the emptiest", () => {
  using store = new TestStore();
  const source = fill(store, 1000);
  const { links } = store.cache;
  const selector = new PageSelector(links);
  assertEquals(selector.spare(0), NO_PAGE);
  for (let n = 0; n < 800; n++) store.remove(`key-${n}`);
  const { classes, pages } = store.memory;
  const used = (page: number): number => pages[page * PAGE.WORDS + PAGE.USED]!;
  const page = selector.spare(0);
  assertEquals(links.slabs.pageClass(page), source);
  assertLessOrEqual(used(page), used(classes[source * CLASS.WORDS + CLASS.ROOM]!));
  assertEquals(selector.spare(source), NO_PAGE);
});

Deno.test("movePage() refuses what cannot be", () => {
  using store = new TestStore();
  assertEquals(movePage(store.cache, 1, 1), MoveResult.SAME_CLASS);
  assertEquals(movePage(store.cache, -1, 1), MoveResult.BAD_CLASS);
  assertEquals(movePage(store.cache, -2, 1), MoveResult.BAD_CLASS);
  assertEquals(movePage(store.cache, 1, 63), MoveResult.BAD_CLASS);
  assertEquals(movePage(store.cache, 1, 2), MoveResult.NO_SPARE);
  const source = fill(store, 1);
  assertEquals(movePage(store.cache, source, 0), MoveResult.NO_SPARE);
});

Deno.test("movePage() leaves pages alone in which every chunk is locked", () => {
  using store = new TestStore({ lockLimits: { locksPerConnectionMax: 65_536 } });
  const source = fill(store, 200);
  for (let n = 0; n < 200; n++) store.lock(`key-${n}`, 1);
  assertEquals(movePage(store.cache, source, 0), MoveResult.BUSY);
});

Deno.test("an item that is locked while its page is emptied stays where it is", () => {
  using store = new TestStore();
  const count = 5000;
  for (let n = 0; n < count; n++) store.store(StoreMode.SET, `key-${n}`, "v");
  const { links } = store.cache;
  const mover = new PageMover(links, new Eviction(links));
  assert(mover.begin(PAGE_OWNER.NOBODY));
  const page = store.memory.control[CONTROL.MOVE_PAGE]!;
  const keys = Array.from({ length: count }, (_, n) => `key-${n}`);
  const inPage = keys.filter((key) => store.item(key) >>> store.memory.refPageShift === page);
  const last = inPage.reduce((a, b) => store.item(a) > store.item(b) ? a : b);
  const item = store.item(last);
  assert(mover.slice());
  assertEquals(store.lock(last, 1), Outcome.OK);
  while (mover.isMoving) mover.slice();
  assertEquals(store.item(last), item);
  assertEquals(store.lock(last, 2), Outcome.LOCKED);
  assertEquals(store.unlock(last, 1), Outcome.OK);
});

/** The most effort that a call of `act` took, of so many. */
function workOf(store: TestStore, calls: number, act: (call: number) => void): number {
  const { workDone } = store.cache.links;
  let most = 0;
  for (let call = 0; call < calls; call++) {
    const before = workDone[0]!;
    act(call);
    most = Math.max(most, workDone[0]! - before);
  }
  return most;
}

Deno.test("where everything was read often, pages move for little effort at a time", () => {
  using store = new TestStore({ memoryLimitBytes: 4 * MIB });
  let keys = 0;
  while (store.memory.stats[STAT.total_items] === store.memory.control[CONTROL.ITEM_COUNT]) {
    store.store(StoreMode.SET, `key-${keys++}`, "v");
  }
  for (let reads = 0; reads < 3; reads++) {
    for (let key = 0; key < keys; key++) store.item(`key-${key}`);
  }
  const setLarger = (call: number): void => {
    store.store(StoreMode.SET, `larger-${call}`, "v".repeat(3000));
  };
  assertLess(workOf(store, 1, setLarger), 10_000, "a page at once");
  assertLess(workOf(store, 300, (call) => setLarger(1 + call)), 1000, "beside an eviction");
  assertLess(workOf(store, 300, () => store.cache.maintain()), 500, "a slice");
  store.cache.setMemoryLimit(3 * MIB);
  assertLess(workOf(store, 300, () => store.cache.maintain()), 500, "a slice, for the limit");
  assertGreater(store.memory.stats[STAT.pages_moved]!, 10);
});

Deno.test("a slice removes a few long values only", () => {
  using store = new TestStore({ memoryLimitBytes: 32 * MIB });
  for (let key = 0; key < 20; key++) {
    store.store(StoreMode.SET, `key-${key}`, "v".repeat(1_000_000));
  }
  store.cache.flushAll(0);
  assertLess(workOf(store, 100, () => store.cache.maintain()), 1000);
  assertEquals(store.memory.control[CONTROL.ITEM_COUNT], 0);
});

Deno.test("the index gets no more pages than its items need, although it uses them only when items come", () => {
  using store = new TestStore({ memoryLimitBytes: 12 * MIB });
  const { SET } = StoreMode;
  for (let n = 0; n < 10_000; n++) store.store(SET, `large-${n}`, "v".repeat(3000));
  for (let n = 0; n < 60_000; n++) store.store(SET, `small-${n}`, "v");
  const { control, pageBytes } = store.memory;
  // Two slots of four bytes for each item.
  const needed = Math.ceil(control[CONTROL.ITEM_COUNT]! * 8 / pageBytes);
  assertGreater(needed, 2);
  assertLess(control[CONTROL.HASH_PAGES]!, needed + 1);
});

Deno.test("a page to spare that holds little moves at once", () => {
  using store = new TestStore();
  const source = fill(store, 1000);
  for (let n = 0; n < 990; n++) store.remove(`key-${n}`);
  const pages = pagesOf(store, source);
  const { links } = store.cache;
  const mover = new PageMover(links, new Eviction(links));
  assert(mover.beginSpare(PAGE_OWNER.NOBODY));
  assert(!mover.isMoving);
  assertEquals(pagesOf(store, source), pages - 1);
});

Deno.test("a step of a move is charged with the pages that it has passed over", () => {
  using store = new TestStore({ memoryLimitBytes: 64 * MIB });
  // Behind the tables the class of the source has the first pages, and the other class the rest.
  const { control } = store.memory;
  const tables = control[CONTROL.PAGES_EVER_USED]!;
  for (let n = 0; control[CONTROL.PAGES_EVER_USED]! < tables + 3; n++) {
    store.store(StoreMode.SET, `source-${n}`, "v");
  }
  for (let n = 0; control[CONTROL.PAGES_EVER_USED]! < 620; n++) {
    store.store(StoreMode.SET, `other-${n}`, "v".repeat(6000));
  }
  const { slabs } = store.cache.links;
  const source = slabs.classOf(store.item("source-0"));
  assertGreater(source, 0);
  const pages = [...Array(620).keys()].filter((page) => slabs.pageClass(page) === source);
  const move = new PageMove(source, 0, pages.at(-1)! + 1);
  let looks = 0;
  for (let steps = 0; steps < 2; steps++) {
    if (move.page !== NO_PAGE) break;
    const effort = store.cache.continueMove(move);
    if (move.page === NO_PAGE) assertEquals(move.looks - looks, effort);
    looks = move.looks;
  }
  assertGreater(looks, 512);
});
