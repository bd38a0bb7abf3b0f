import { assertEquals } from "@std/assert";
import { StoreMode } from "../../store/change.ts";
import { CLASS, CONTROL } from "../../store/memory.ts";
import { MoveResult } from "../../store/page_mover.ts";
import { TestStore } from "../support/store.ts";

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
  const store = new TestStore();
  const source = fill(store, 1000);
  for (let n = 0; n < 1000; n += 3) store.remove(`key-${n}`);
  const pages = pagesOf(store, source);
  assertEquals(store.cache.movePage(source, 1), MoveResult.MOVED);
  assertEquals(pagesOf(store, source), pages - 1);
  assertEquals(pagesOf(store, 1), 1);
  for (let n = 0; n < 1000; n++) {
    assertEquals(store.get(`key-${n}`), n % 3 === 0 ? undefined : `${n}`.padEnd(1000, "."));
  }
  store.check();
});

Deno.test("movePage() to 0 gives the page to the pool, and from 0 takes it there", () => {
  const store = new TestStore();
  const source = fill(store, 1000);
  const free = store.memory.control[CONTROL.FREE_PAGE_COUNT]!;
  assertEquals(store.cache.movePage(-1, 0), MoveResult.MOVED);
  assertEquals(store.memory.control[CONTROL.FREE_PAGE_COUNT], free + 1);
  assertEquals(store.cache.movePage(0, source), MoveResult.MOVED);
  assertEquals(store.memory.control[CONTROL.FREE_PAGE_COUNT], free);
  store.check();
});

Deno.test("movePage() refuses what cannot be", () => {
  const store = new TestStore();
  assertEquals(store.cache.movePage(1, 1), MoveResult.SAME_CLASS);
  assertEquals(store.cache.movePage(-1, 1), MoveResult.BAD_CLASS);
  assertEquals(store.cache.movePage(-2, 1), MoveResult.BAD_CLASS);
  assertEquals(store.cache.movePage(1, 63), MoveResult.BAD_CLASS);
  assertEquals(store.cache.movePage(1, 2), MoveResult.NO_SPARE);
  const source = fill(store, 1);
  assertEquals(store.cache.movePage(source, 0), MoveResult.NO_SPARE);
  store.check();
});

Deno.test("movePage() leaves pages alone in which every chunk is locked", () => {
  const store = new TestStore({ lockLimits: { locksPerConnectionMax: 65_536 } });
  const source = fill(store, 200);
  for (let n = 0; n < 200; n++) store.lock(`key-${n}`, 1);
  assertEquals(store.cache.movePage(source, 0), MoveResult.BUSY);
  store.check();
});
