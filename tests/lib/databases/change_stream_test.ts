import { assert, assertEquals } from "@std/assert";
import { everyKeyOf } from "../../../lib/databases/views/key_range.ts";
import {
  CHANGED_KEYS_MAX,
  CHANGED_RANGES_MAX,
  ChangedKeys,
} from "../../../lib/databases/base/changes.ts";
import { visibleIn } from "../../../lib/databases/postgres/change_stream.ts";

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
  for (let index = 0; index <= CHANGED_KEYS_MAX; index++) changed.add(`k${index}`, "");
  changed.add("more", "");
  assertEquals([changed.isFlood, changed.size], [true, 0]);
  const sum = new ChangedKeys();
  sum.add("k", "");
  sum.merge(changed);
  assertEquals([sum.isFlood, sum.size], [true, 0]);
});

Deno.test("the keys of a view become its prefix when they are too many, and the others stay", () => {
  const changed = new ChangedKeys();
  changed.add("row", "");
  changed.add("b:1", "b:");
  for (let index = 0; index <= 2 * CHANGED_KEYS_MAX; index++) changed.add(`a:${index}`, "a:");
  assertEquals([changed.isFlood, changed.keys], [false, [everyKeyOf("a:"), "row", "b:1"]]);
  const sum = new ChangedKeys();
  sum.add("a:7", "a:");
  sum.merge(changed);
  assertEquals(sum.keys.toSorted(), ["b:1", "row", everyKeyOf("a:")]);
  for (let index = 0; index <= CHANGED_KEYS_MAX; index++) sum.add(`k${index}`, "");
  assertEquals(sum.isFlood, true);
});

Deno.test("prefixes below that of a view become it when they are too many", () => {
  const changed = new ChangedKeys();
  changed.add("row", "");
  for (let index = 1; index <= CHANGED_RANGES_MAX; index++) {
    changed.add(everyKeyOf(`page:${index}:`), "page:");
    changed.add(everyKeyOf(`page:${index}:`), "page:");
  }
  assertEquals(changed.size, CHANGED_RANGES_MAX + 1);
  const whole = new ChangedKeys();
  for (let index = 0; index < CHANGED_RANGES_MAX; index++) {
    whole.add(everyKeyOf(`page:${index}:`), "page:");
  }
  // Prefixes that became another one count no more.
  whole.addPrefix("page:");
  whole.add(everyKeyOf("other:1:"), "other:");
  assertEquals(whole.keys, [everyKeyOf("page:"), everyKeyOf("other:1:")]);
  const sum = new ChangedKeys();
  sum.add(everyKeyOf("page:0:"), "page:");
  sum.add(everyKeyOf("other:"), "other:");
  sum.merge(changed);
  for (const each of [changed, sum]) each.add(everyKeyOf("page:more:"), "page:");
  assertEquals(changed.keys, [everyKeyOf("page:"), "row"]);
  assertEquals(sum.keys.toSorted(), ["row", everyKeyOf("other:"), everyKeyOf("page:")]);
});

Deno.test("transactions that follow each other are counted together, also behind a flood", () => {
  const sum = new ChangedKeys();
  const one = new ChangedKeys();
  Object.assign(one, { count: 3 });
  one.add("a", "");
  sum.merge(one);
  sum.merge(one);
  assertEquals([sum.count, sum.keys], [6, ["a"]]);
  const flood = new ChangedKeys();
  flood.count = 5;
  flood.flood();
  sum.merge(flood);
  sum.merge(one);
  assertEquals([sum.count, sum.isFlood, sum.size], [14, true, 0]);
  const wholeView = new ChangedKeys();
  wholeView.addPrefix("v:");
  wholeView.add("v:1", "v:");
  assertEquals([wholeView.covers("v:"), wholeView.covers(""), wholeView.size], [true, false, 1]);
  wholeView.addPrefix("");
  assertEquals([wholeView.covers("w:"), wholeView.keys], [true, []]);
});
