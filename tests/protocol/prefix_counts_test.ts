import { assert, assertEquals } from "@std/assert";
import { PrefixTable } from "../../protocol/prefix_counts.ts";
import { ByteRegion, type KeyBytes } from "../../store/base/bytes.ts";
import { WorkBudget } from "../../protocol/work_budget.ts";

const WORK = new WorkBudget(1000);

const input = new ByteRegion(new ArrayBuffer(512));

function key(text: string): KeyBytes {
  input.bytes.set(new TextEncoder().encode(text), 3);
  return { input, keyOffset: 3, keyLength: text.length };
}

Deno.test("counts stand under what precedes the first delimiter", () => {
  const table = new PrefixTable(PrefixTable.createShared(), ":", WORK);
  table.countSet(key("user:1"));
  table.countGet(key("user:2:3"), true);
  table.countGet(key("user:"), false);
  table.countDelete(key("u:1"));
  table.countGet(key("none"), true);
  table.countSet(key(":x"));
  assertEquals([...table], [
    { prefix: "user", get: 2, hit: 1, set: 1, delete: 0 },
    { prefix: "u", get: 0, hit: 0, set: 0, delete: 1 },
    { prefix: "", get: 0, hit: 0, set: 1, delete: 0 },
  ]);
  table.clear();
  assertEquals([...table], []);
  table.countDelete(key("other:1"));
  assertEquals([...table], [{ prefix: "other", get: 0, hit: 0, set: 0, delete: 1 }]);
});

Deno.test("all threads see the same counts", () => {
  const shared = PrefixTable.createShared();
  new PrefixTable(shared, "/", WORK).countSet(key("a/b"));
  assertEquals([...new PrefixTable(shared, "/", WORK)].length, 1);
});

Deno.test("long prefixes are counted until their memory is full, and none is cut", () => {
  const table = new PrefixTable(PrefixTable.createShared(), ":", WORK);
  const prefixOf = (number: number): string => `${number}`.padStart(250, "p");
  const count = 10_000;
  for (let number = 0; number < count; number++) table.countSet(key(`${prefixOf(number)}:`));
  table.countSet(key(`${prefixOf(0)}:`));
  const rows = [...table];
  assert(rows.length > 8000 && rows.length < count, `${rows.length} prefixes`);
  for (const [number, { prefix, set }] of rows.entries()) {
    assertEquals([prefix, set], [prefixOf(number), number === 0 ? 2 : 1]);
  }
  // Shorter ones may still fit, and then count on.
  for (const _ of [1, 2]) table.countSet(key("short:"));
  assertEquals([...table].slice(rows.length).map(({ prefix, set }) => [prefix, set]), [
    ["short", 2],
  ]);
});

Deno.test("what goes beyond the table's size is not counted", () => {
  const table = new PrefixTable(PrefixTable.createShared(), ":", WORK);
  for (let number = 0; number < 66_000; number++) table.countSet(key(`${number}:`));
  table.countSet(key("0:"));
  const rows = [...table];
  assertEquals(rows.length, 65536);
  assertEquals(rows[0]!.set, 2);
});
