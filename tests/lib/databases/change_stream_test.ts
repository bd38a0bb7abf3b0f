import { assert, assertEquals } from "@std/assert";
import { rangeOf, shownKeys } from "../../support/rows/key_sets.ts";
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
  for (let index = 0; index <= CHANGED_KEYS_MAX; index++) changed.add(rangeOf(`k${index}`), "");
  changed.add(rangeOf("more"), "");
  assertEquals([changed.isFlood, shownKeys(changed)], [true, ["*"]]);
  const sum = new ChangedKeys();
  sum.add(rangeOf("k"), "");
  sum.merge(changed);
  assertEquals([sum.isFlood, shownKeys(sum)], [true, ["*"]]);
});

Deno.test("the keys of a view become its prefix when they are too many, and the others stay", () => {
  const changed = new ChangedKeys();
  changed.add(rangeOf("row"), "");
  changed.add(rangeOf("b:1"), "b:");
  for (let index = 0; index <= 2 * CHANGED_KEYS_MAX; index++) {
    changed.add(rangeOf(`a:${index}`), "a:");
  }
  assertEquals([changed.isFlood, shownKeys(changed)], [false, ["a:*", "row", "b:1"]]);
  const sum = new ChangedKeys();
  sum.add(rangeOf("a:7"), "a:");
  sum.merge(changed);
  assertEquals(shownKeys(sum).toSorted(), ["a:*", "b:1", "row"]);
  for (let index = 0; index <= CHANGED_KEYS_MAX; index++) sum.add(rangeOf(`k${index}`), "");
  assertEquals(sum.isFlood, true);
});

Deno.test("prefixes below that of a view become it when they are too many", () => {
  const changed = new ChangedKeys();
  changed.add(rangeOf("row"), "");
  for (let index = 1; index <= CHANGED_RANGES_MAX; index++) {
    changed.add(rangeOf(`page:${index}:*`), "page:");
    changed.add(rangeOf(`page:${index}:*`), "page:");
  }
  assertEquals(changed.size, CHANGED_RANGES_MAX + 1);
  const whole = new ChangedKeys();
  for (let index = 0; index < CHANGED_RANGES_MAX; index++) {
    whole.add(rangeOf(`page:${index}:*`), "page:");
  }
  // Prefixes that became another one count no more.
  whole.addPrefix("page:");
  whole.add(rangeOf("other:1:*"), "other:");
  assertEquals(shownKeys(whole), ["page:*", "other:1:*"]);
  const sum = new ChangedKeys();
  sum.add(rangeOf("page:0:*"), "page:");
  sum.add(rangeOf("other:*"), "other:");
  sum.merge(changed);
  for (const each of [changed, sum]) each.add(rangeOf("page:more:*"), "page:");
  assertEquals(shownKeys(changed), ["page:*", "row"]);
  assertEquals(shownKeys(sum).toSorted(), ["other:*", "page:*", "row"]);
});

Deno.test("transactions that follow each other are counted together, also behind a flood", () => {
  const sum = new ChangedKeys();
  const one = new ChangedKeys();
  Object.assign(one, { count: 3 });
  one.add(rangeOf("a"), "");
  sum.merge(one);
  sum.merge(one);
  assertEquals([sum.count, shownKeys(sum)], [6, ["a"]]);
  const flood = new ChangedKeys();
  flood.count = 5;
  flood.flood();
  sum.merge(flood);
  sum.merge(one);
  assertEquals([sum.count, shownKeys(sum)], [14, ["*"]]);
  const wholeView = new ChangedKeys();
  wholeView.addPrefix("v:");
  wholeView.add(rangeOf("v:1"), "v:");
  assertEquals([wholeView.covers("v:"), wholeView.covers(""), wholeView.size], [true, false, 1]);
  wholeView.addPrefix("");
  assertEquals([wholeView.covers("w:"), shownKeys(wholeView)], [true, ["*"]]);
});
