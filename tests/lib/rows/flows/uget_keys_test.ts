import { assertEquals } from "@std/assert";
import { keySet } from "../../../support/rows/key_sets.ts";
import { UGET_KEYS_MAX, UgetKeys } from "../../../../lib/rows/flows/uget_keys.ts";

const NOBODY = (): boolean => false;

Deno.test("the oldest keys are forgotten first, and a key that is asked for again is new", () => {
  const keys = new UgetKeys();
  for (let key = 0; key < UGET_KEYS_MAX; key++) keys.add(`${key}`);
  keys.add("0");
  keys.add("one more");
  keys.change(keySet("0", "1", "2", "one more"), 0, NOBODY);
  assertEquals([keys.unsafe, keys.firstUnsafe], [3, "0"]);
});

Deno.test("the log's name of an own write counts no more when all up to it is applied", () => {
  const keys = new UgetKeys();
  keys.write("k", true, 5);
  keys.add("k");
  keys.change(keySet("k"), 4, NOBODY);
  assertEquals(keys.unsafe, 0);
  keys.change(keySet("k"), 5, NOBODY);
  assertEquals(keys.unsafe, 1);
  for (let key = 0; key <= UGET_KEYS_MAX; key++) keys.write(`${key}`, true, 9);
  keys.add("0");
  keys.add("1");
  keys.change(keySet("0", "1"), 8, NOBODY);
  assertEquals(keys.unsafe, 2, "the oldest write is forgotten");
});
