import { assertEquals } from "@std/assert";
import type { Source } from "../support/sources.ts";
import { MeasuredTests, rowsOf } from "./test_files.ts";

function sourcesOf(texts: Readonly<Record<string, string>>): Source[] {
  return Object.entries(texts).map(([path, text]) => ({ path, text, imports: [] }));
}

Deno.test("MeasuredTests: a later run knows tests whose text is the same, and lines of files that are", () => {
  const file = Deno.makeTempFileSync();
  try {
    const texts = { "a.ts": "1", "b.ts": "2", "a_test.ts": "3", "b_test.ts": "4" };
    const first = new MeasuredTests(file, sourcesOf(texts));
    const lines = new Map([["a.ts", new Set([1, 3])], ["b.ts", new Set([2])]]);
    const test = { path: "a_test.ts", cpuSec: 2, lines };
    first.add(test);
    first.add({ ...test, path: "b_test.ts" });
    const changed = { ...texts, "b.ts": "two", "b_test.ts": "four" };
    const later = new MeasuredTests(file, sourcesOf(changed));
    assertEquals(later.get("b_test.ts"), undefined);
    assertEquals(later.get("a_test.ts"), {
      ...test,
      lines: new Map([["a.ts", new Set([1, 3])], ["b.ts", null]]),
    });
  } finally {
    Deno.removeSync(file);
  }
});

Deno.test("rowsOf() leaves out a line that was cut off, and removes it", () => {
  const file = Deno.makeTempFileSync();
  try {
    Deno.writeTextFileSync(file, '{"a":1}\n{"a":');
    assertEquals(rowsOf(file), [{ a: 1 }]);
    assertEquals(Deno.readTextFileSync(file), '{"a":1}\n');
  } finally {
    Deno.removeSync(file);
  }
  assertEquals(rowsOf(file), []);
});
