import { assert, assertEquals } from "@std/assert";
import { HitSampler } from "../../../../lib/rows/meter/hit_sampler.ts";
import type { HotKey, HotKeyList } from "../../../../store/memory/hot_keys.ts";

/** A made-up inspector. */
class Inspector {
  hits = 0;
  keys: Readonly<Record<string, number>> = {};

  get hotKeys(): HotKeyList {
    const keys = Object.entries(this.keys).map(([key, hits]): HotKey => ({
      ...{ key, hits, count: hits + 1000, error: 1000 },
      ...{ misses: 0, writes: 0 },
    }));
    return { samples: 1000, keys };
  }

  sumOfClasses(): number {
    return this.hits;
  }
}

/** Shares of drawn keys. */
function shares(sampler: HitSampler): Record<string, number> {
  const counts: Record<string, number> = {};
  for (let count = 0; count < 10_000; count++) {
    const key = `${sampler.draw()}`;
    counts[key] = (counts[key] ?? 0) + 1 / 10_000;
  }
  return counts;
}

Deno.test("keys are drawn by their hits since the last look, and others than rows not at all", () => {
  const inspector = new Inspector();
  const sampler = new HitSampler(inspector, (key) => key.startsWith("row"));
  assertEquals(sampler.draw(), null);
  inspector.keys = { rowA: 3, rowB: 1, item: 100, rowC: 0 };
  sampler.update();
  const first = shares(sampler);
  assertEquals(Object.keys(first).sort(), ["rowA", "rowB"]);
  assert(Math.abs(first["rowA"]! - 0.75) < 0.05);
  // A key that was there before counts by what is new.
  inspector.keys = { rowA: 3, rowB: 2, rowD: 1, item: 200 };
  sampler.update();
  const second = shares(sampler);
  assertEquals(Object.keys(second).sort(), ["rowB", "rowD"]);
  assert(Math.abs(second["rowB"]! - 0.5) < 0.05);
  // Without new samples the last ones stay; halved counts are none.
  inspector.keys = { rowA: 1, rowB: 1, rowD: 1 };
  sampler.update();
  assertEquals(Object.keys(shares(sampler)).sort(), ["rowB", "rowD"]);
});

Deno.test("hits on rows are the share of all hits that the samples show", () => {
  const inspector = new Inspector();
  inspector.hits = 500;
  const sampler = new HitSampler(inspector, (key) => key.startsWith("row"));
  inspector.hits = 600;
  sampler.update();
  // No sample tells that they are not.
  assertEquals(sampler.hits, 100);
  inspector.keys = { row: 1, item: 3 };
  inspector.hits = 1000;
  sampler.update();
  assertEquals(sampler.hits, 200);
  // `stats reset`
  inspector.hits = 0;
  sampler.update();
  assertEquals(sampler.hits, 200);
});
