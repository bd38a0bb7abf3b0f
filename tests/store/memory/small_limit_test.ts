import { assert } from "@std/assert";
import { MIB } from "../../../store/limits.ts";
import { StoreMode } from "../../../store/operation.ts";
import { TestStore } from "../../support/store.ts";

for (const slabLayout of ["leased", "memcached"] as const) {
  Deno.test(`a store of 1 MiB in the layout ${slabLayout} stores, evicts and is whole`, () => {
    using store = new TestStore({ memoryLimitBytes: MIB, slabLayout });
    const value = "v".repeat(1000);
    const fill = (keys: number): number => {
      for (let key = 0; key < keys; key++) store.store(StoreMode.SET, `k${key}`, value);
      let found = 0;
      for (let key = 0; key < keys; key++) if (store.get(`k${key}`) === value) found++;
      store.check();
      return found;
    };
    const small = fill(20_000);
    assert(small > 200 && small < 5000, `${small}`);
    store.store(StoreMode.SET, "long", "x".repeat(400_000));
    store.check();
  });
}
