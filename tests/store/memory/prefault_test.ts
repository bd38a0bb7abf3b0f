import { assertEquals } from "@std/assert";
import { StoreMode } from "../../../store/operation.ts";
import { MIB } from "../../../store/limits.ts";
import { CONTROL } from "../../../store/memory/memory.ts";
import { Prefault } from "../../../store/memory/prefault.ts";
import { TestStore } from "../../support/store.ts";

const PAGES_AHEAD = 8 * MIB / 65_536;

function prefaultAll(ahead: Prefault): number {
  let pages = 0;
  while (ahead.prefaultPage()) pages++;
  return pages;
}

Deno.test("Prefault goes 8 MiB ahead of the pages in use, and on when more are", () => {
  using store = new TestStore();
  const { control } = store.memory;
  const ahead = new Prefault(store.memory);
  assertEquals(prefaultAll(ahead), PAGES_AHEAD);
  const used = control[CONTROL.PAGES_EVER_USED]!;
  for (let key = 0; key < 500; key++) {
    store.store(StoreMode.SET, `key-${key}`, `${key}`.repeat(300));
  }
  assertEquals(prefaultAll(ahead), control[CONTROL.PAGES_EVER_USED]! - used);
  for (let key = 0; key < 500; key++) assertEquals(store.get(`key-${key}`), `${key}`.repeat(300));
});

Deno.test("Prefault leaves pages alone that are in use, and those beyond the limit", () => {
  const store = new TestStore({ memoryLimitBytes: 4 * MIB, memoryCeilingBytes: 64 * MIB });
  const { control } = store.memory;
  const limit = control[CONTROL.MEMORY_LIMIT_PAGES]!;
  const ahead = new Prefault(store.memory);
  assertEquals(prefaultAll(ahead), limit - control[CONTROL.PAGES_EVER_USED]!);
  store.cache.setMemoryLimit(64 * MIB);
  assertEquals(prefaultAll(ahead), control[CONTROL.PAGES_EVER_USED]! + PAGES_AHEAD - limit);
  store.cache.setMemoryLimit(4 * MIB);
  assertEquals(prefaultAll(ahead), 0);
});

Deno.test("Prefault finds its way in stores of several segments, in either layout", () => {
  for (const slabLayout of ["leased", "memcached"] as const) {
    const store = new TestStore({ slabLayout, memoryLimitBytes: 2500 * MIB });
    const { control, pageShift } = store.memory;
    const ahead = new Prefault(store.memory);
    control[CONTROL.PAGES_EVER_USED] = (1 << (30 - pageShift)) - 2;
    assertEquals(prefaultAll(ahead), 8 * MIB >> pageShift);
  }
});
