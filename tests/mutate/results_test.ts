import { assertEquals, assertThrows } from "@std/assert";
import type { Mutant } from "./operators.ts";
import { Results, type Tree } from "./results.ts";

const MUTANT: Mutant = {
  ...{ file: "a.ts", line: 1, start: 0, end: 1, replacement: "2", operator: "constant changed" },
};
const TREE: Tree = {
  texts: new Map([["a.ts", "12"], ["b.ts", "34"]]),
  tests: new Map([["a_test.ts", 5], ["b_test.ts", 6]]),
};

function withFile(test: (file: string) => void): void {
  const file = Deno.makeTempFileSync();
  Deno.removeSync(file);
  try {
    test(file);
  } finally {
    Deno.removeSync(file);
  }
}

Deno.test("Results: a run goes on where the file ends, with its seed, also behind a cut line", () =>
  withFile((file) => {
    const first = new Results(file, TREE, undefined, () => 7);
    first.add(MUTANT, { kind: "untested" });
    first.add({ ...MUTANT, start: 8, end: 9 }, { kind: "does not compile" });
    Deno.writeTextFileSync(file, '{"mutant":"cut', { append: true });
    const next = new Results(file, TREE, undefined, () => 8);
    assertEquals([next.seed, next.get(MUTANT)?.kind], [7, "untested"]);
    next.add({ ...MUTANT, start: 4 }, { kind: "caught", by: "a test" });
    assertEquals(new Results(file, TREE, 7, () => 8).get({ ...MUTANT, start: 4 })?.kind, "caught");
    assertThrows(() => new Results(file, TREE, 9, () => 8), RangeError, "--seed 7");
  }));

Deno.test("Results: verdicts end with the text that they are on, and those of no test with the tests", () =>
  withFile((file) => {
    const inB = { ...MUTANT, file: "b.ts" };
    const survivor = { ...inB, start: 8 };
    const first = new Results(file, TREE, undefined, () => 7);
    first.add(MUTANT, { kind: "caught", by: "a test" });
    first.add(inB, { kind: "caught", by: "a test" });
    first.add(survivor, { kind: "survives", tests: ["a_test.ts", "b_test.ts"] });
    const texts = new Map([...TREE.texts, ["a.ts", "13"]]);
    const changed = new Results(file, { ...TREE, texts }, undefined, () => 8);
    assertEquals([MUTANT, inB, survivor].map((each) => changed.get(each)?.kind), [
      undefined,
      "caught",
      "survives",
    ]);
    const tested = new Results(
      file,
      { ...TREE, tests: new Map([["a_test.ts", 7], ["b_test.ts", 6]]) },
      undefined,
      () => 8,
    );
    assertEquals([MUTANT, inB, survivor].map((each) => tested.get(each)?.kind), [
      "caught",
      "caught",
      undefined,
    ]);
  }));
