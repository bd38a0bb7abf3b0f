import { assert, assertEquals } from "@std/assert";

// The types of the standard library's modules are written by hand: what they name must exist.

const text = Deno.readTextFileSync(new URL("../types/std.d.ts", import.meta.url));
const imports: Record<string, string> =
  JSON.parse(Deno.readTextFileSync(new URL("../deno.json", import.meta.url))).imports;

const MODULE = /^declare module "([^"]+)" \{\n([^]*?)^\}/gm;
const VALUE = /^ {2}export (?:function|class|const) (\w+)/gm;

for (const [, name, body] of text.matchAll(MODULE)) {
  Deno.test(`types/std.d.ts: all it says of ${name} is there`, async () => {
    assert(name! in imports, "an alias of deno.json");
    const module = await import(name!);
    const names = [...body!.matchAll(VALUE)].map(([, value]) => value!);
    assert(names.length > 0);
    assertEquals(names.filter((value) => typeof module[value] !== "function"), []);
  });
}

Deno.test("types/std.d.ts describes every alias of the standard library", () => {
  const described = [...text.matchAll(MODULE)].map(([, name]) => name);
  const aliases = Object.keys(imports).filter((name) => name.startsWith("@std/"));
  assertEquals(described.toSorted(), aliases.toSorted());
});
