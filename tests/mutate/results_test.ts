import { assertEquals, assertThrows } from "@std/assert";
import type { Mutant } from "./operators.ts";
import { Results } from "./results.ts";

const MUTANT: Mutant = {
  ...{ file: "a.ts", line: 1, start: 0, end: 1, replacement: "2", operator: "constant changed" },
};

Deno.test("Results: a run goes on where the file ends, with its seed, also behind a cut line", () => {
  const file = Deno.makeTempFileSync();
  Deno.removeSync(file);
  try {
    const first = new Results(file, 5, undefined, () => 7);
    first.add(MUTANT, { kind: "untested" });
    first.add({ ...MUTANT, start: 8, end: 9 }, { kind: "does not compile" });
    Deno.writeTextFileSync(file, '{"mutant":"cut', { append: true });
    const next = new Results(file, 5, undefined, () => 8);
    assertEquals([next.seed, next.tried, next.count("untested"), next.has(MUTANT)], [
      ...[7, 1, 1, true],
    ]);
    next.add({ ...MUTANT, start: 4 }, { kind: "caught", by: "a test" });
    assertEquals(new Results(file, 5, 7, () => 8).tried, 2);
    assertThrows(() => new Results(file, 6, 7, () => 8), RangeError, "another source");
    assertThrows(() => new Results(file, 5, 9, () => 8), RangeError, "--seed 7");
  } finally {
    Deno.removeSync(file);
  }
});
