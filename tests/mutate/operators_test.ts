import { assertEquals } from "@std/assert";
import { applied, diffOf, mutantsOf } from "./operators.ts";

/** Each mutant of a text: its operator and the text with it. */
function all(text: string): [operator: string, text: string][] {
  return mutantsOf("a.ts", text).map((mutant) => [mutant.operator, applied(mutant, text)]);
}

Deno.test("mutantsOf() negates conditions and moves comparisons by one", () => {
  assertEquals(all("if (a < b) c: for (;;) break c;"), [
    ["condition negated", "if (!(a < b)) c: for (;;) break c;"],
    ["comparison off by one", "if (a <= b) c: for (;;) break c;"],
  ]);
});

Deno.test("mutantsOf() changes constants, flips booleans, swaps arguments, drops statements", () => {
  assertEquals(all("f(x, true);"), [
    ["statement dropped", ";"],
    ["arguments swapped", "f(true, x);"],
    ["boolean flipped", "f(x, false);"],
  ]);
  assertEquals(all("const a = 0x10;"), [["constant changed", "const a = 0;"]]);
});

Deno.test("mutantsOf() returns early from functions, but not from constructors", () => {
  assertEquals(all("function f(): void { let a; }"), [
    ["early return", "function f(): void { return; let a; }"],
  ]);
  assertEquals(all("function f(): Promise<A.B | undefined> { let a; }").length, 1);
  assertEquals(all("function f(): Map<A, undefined> { let a; }"), []);
  assertEquals(all("f(() => { return a; });"), [["statement dropped", ";"]]);
  assertEquals(all("class A { constructor() { let a; } }"), []);
});

Deno.test("mutantsOf() leaves types, names of fields, assertions and commutative calls alone", () => {
  assertEquals(all("type A = 1 | 2; const a: Record<3, true> = b as 4;"), []);
  assertEquals(all("assert(ok); let a = Math.min(b, c);"), []);
  assertEquals(all("const a = { 1: b };"), []);
});

Deno.test("diffOf() shows the changed lines", () => {
  const text = "a;\nif (b) c;\nd;";
  const mutant = mutantsOf("a.ts", text).find(({ operator }) => operator === "condition negated")!;
  assertEquals(mutant.line, 2);
  assertEquals(diffOf(mutant, text), "    - if (b) c;\n    + if (!(b)) c;");
});
