import { assert, assertEquals } from "@std/assert";
import { CHANGED_KEYS_MAX, ChangedKeys } from "../../../../lib/rows/databases/changes.ts";
import { visibleIn } from "../../../../lib/rows/databases/postgres/change_stream.ts";

Deno.test("a snapshot sees transactions before its end that were not in progress", () => {
  const isVisible = visibleIn("100:105:100,103");
  assert(isVisible(99) && isVisible(101) && isVisible(104));
  assert(!(isVisible(100) || isVisible(103) || isVisible(105) || isVisible(106)));
});

Deno.test("numbers of transactions are circular", () => {
  const isVisible = visibleIn(`${2n ** 32n - 2n}:${2n ** 32n + 3n}:${2n ** 32n + 1n}`);
  assert(isVisible(2 ** 32 - 1) && isVisible(0) && isVisible(2));
  assert(!(isVisible(1) || isVisible(3)));
});

Deno.test("the keys of a transaction are bounded: more are a flood", () => {
  const changed = new ChangedKeys();
  for (let index = 0; index <= CHANGED_KEYS_MAX; index++) changed.add(`k${index}`);
  changed.add("more");
  assertEquals([changed.isFlood, changed.keys.size], [true, 0]);
  const sum = new ChangedKeys();
  sum.add("k");
  sum.join(changed);
  assertEquals([sum.isFlood, sum.keys.size, sum.count], [true, 0, CHANGED_KEYS_MAX + 3]);
});
