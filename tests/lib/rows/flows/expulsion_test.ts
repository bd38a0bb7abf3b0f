import { assertEquals } from "@std/assert";
import type { KeySet } from "../../../../lib/databases/views/key_set.ts";
import { expel } from "../../../../lib/rows/flows/expulsion.ts";
import { keySet } from "../../../support/rows/key_sets.ts";

function deletionsOf(rows: KeySet): KeySet[] {
  return [...expel(rows)].map(({ kind, ...deletion }) => {
    assertEquals(kind, "delete");
    return deletion as unknown as KeySet;
  });
}

Deno.test("prefixes are deleted first, and then keys, whoever has locked them", () => {
  assertEquals(deletionsOf(keySet("one", "view:*", "two")), [
    keySet("view:*"),
    keySet("one", "two"),
  ]);
  assertEquals(deletionsOf(keySet("one")), [keySet("one")]);
  assertEquals(deletionsOf(keySet("*")), [keySet("*")]);
  assertEquals(deletionsOf(keySet()), []);
});

Deno.test("a large change is deleted in groups, every key once", () => {
  const keys = Array.from({ length: 2500 }, (_, index) => `k${index}`);
  const groups = deletionsOf(keySet(...keys));
  assertEquals(groups.map((group) => group.keys.length), [1000, 1000, 500]);
  assertEquals(groups.flatMap((group) => group.keys), keys);
});
