import { assertEquals } from "@std/assert";
import { StoreMode } from "../../store/operation.ts";
import { MIB } from "../../store/limits.ts";
import { TestStore } from "../support/store.ts";

// transcripts/ have what each command does; chaos_test.ts plays random ones and checks the store.

Deno.test("a million small items: the index grows, all are found", () => {
  const store = new TestStore({ memoryLimitBytes: 160 * MIB });
  for (let n = 0; n < 1_000_000; n++) store.store(StoreMode.SET, `k${n}`, "0123456789");
  let found = 0;
  for (let n = 0; n < 1_000_000; n += 101) if (store.get(`k${n}`)) found++;
  assertEquals(found, Math.ceil(1_000_000 / 101));
});
