// Views without a database: their keys, their parameters, and results that cannot become values.
import { assertEquals, assertThrows } from "@std/assert";
import { KeyTemplate } from "../../../../lib/databases/views/key_template.ts";
import {
  resultMistakes,
  type View,
  Views,
  ViewsError,
  withParameters,
} from "../../../../lib/databases/views/view.ts";
import { ViewMapping } from "../../../../lib/databases/views/view_mapping.ts";
import { parseViews, readViewsFile } from "../../../../lib/databases/views/views_file.ts";

function viewOf(keys: string, more: Partial<View> = {}): View {
  const template = KeyTemplate.parse(keys);
  const fields = { query: "SELECT 1", result: "object", maxAgeSec: 0, changes: [] } as const;
  return { name: keys, keys: template, line: 1, ...fields, ...more };
}

Deno.test("results that cannot become a value", () => {
  const of = (result: View["result"], ...columns: string[]): string[] => [
    ...resultMistakes(viewOf("v:{x}", { result }), columns),
  ];
  assertEquals([of("raw", "a"), of("object", "a", "b"), of("array"), of("object")], [
    [],
    [],
    [],
    [],
  ]);
  const raw = (count: number): string =>
    `value raw needs a query with one column, this one has ${count}`;
  assertEquals([of("raw"), of("raw", "a", "b")], [[raw(0)], [raw(2)]]);
  const twice = "its result has two columns b: name one AS another";
  assertEquals(of("array", "a", "b", "b"), [twice]);
  assertEquals(of("raw", "b", "a", "b"), [raw(3), twice]);
});

Deno.test("parameters of a query are those of the keys, by their places; other braces stay", () => {
  const query = "SELECT {b}, {a}, {b}, '{c}', {}, {1}";
  const view = viewOf("v:{a}:{b}", { query });
  assertEquals(
    withParameters(view, (index) => `$${index + 1}`),
    "SELECT $2, $1, $2, '{c}', {}, {1}",
  );
});

Deno.test("views: the first that a key fits, prefixes once each, and the file of mistakes", () => {
  const views = new Views(
    [viewOf("a:1:{x}"), viewOf("a:{x}"), viewOf("a:{x}:y"), viewOf("b:")],
    "f",
  );
  assertEquals(views.find("a:1:2")?.view.name, "a:1:{x}");
  assertEquals(views.find("a:2:y")?.values, ["2:y"]);
  assertEquals([views.find("b:")?.values, views.find("b:1"), views.find("")], [[], null, null]);
  assertEquals([views.prefixes, views.path, Views.NONE.path], [["a:1:", "a:", "b:"], "f", ""]);
  const mistakes = [{ line: 2, text: "one" }, { line: 2, text: "one" }, { line: 3, text: "two" }];
  assertEquals(new ViewsError("f", mistakes).message, "f:2: one; f:3: two");
});

Deno.test("keys of changes are keys of their view", () => {
  const view = KeyTemplate.parse("a:{x}:b:{y}");
  const isPart = (text: string): boolean => KeyTemplate.parse(text, true).isPartOf(view);
  for (
    const text of ["a:{p}:b:{q}", "a:{p}:b:*", "a:{p}:*", "a:*", "a*", "a:{p}*", "a:{p}:b:{q}*"]
  ) {
    assertEquals(isPart(text), true, text);
  }
  for (
    const text of [
      "a:{p}",
      "a:{p}:b:",
      "a:{p}:c:{q}",
      "b:*",
      "a:{p}:c*",
      "a{p}:b:*",
      "a:{p}:{q}*",
      "a:{p}:b:{q}:*",
      "a:{p}:b:{q}:c",
    ]
  ) {
    assertEquals(isPart(text), false, text);
  }
  const longer = "a:{p}:b:{q}:{r}*";
  assertEquals(isPart(longer), false, "it has more parameters");
  const plain = KeyTemplate.parse("a:*");
  assertEquals([plain.isPrefix, plain.match("a:*"), plain.match("a:x")], [false, [], null]);
  assertEquals(KeyTemplate.parse("a:{x}").sample, "a:0");
});

Deno.test("a table's keys are those of all views, and its columns each once", () => {
  const changes = (table: string, ...keys: string[]): Partial<View> => ({
    changes: [{ table, keys: keys.map((each) => KeyTemplate.parse(each, true)) }],
  });
  const views = new Views([
    viewOf("a:{x}", changes("t", "a:{one}")),
    viewOf("b:{x}:{y}", changes("t", "b:{one}:{two}", "b:{two}:*")),
    viewOf("c:{x}", changes("u", "c:*")),
  ]);
  const mapping = new ViewMapping(views);
  assertEquals(mapping.tables, ["t", "u"]);
  assertEquals(mapping.templatesOf("t").map(({ prefix }) => prefix), ["a:", "b:", "b:"]);
  assertEquals(mapping.templatesOf("none"), []);
  assertEquals(new ViewMapping(views, () => "7").templatesOf("7").length, 4);
});

Deno.test("a file of views may have comments and several lines a query; its mistakes are named with its path", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/views.jsonc`;
  const read = (text: string): Views => {
    Deno.writeTextFileSync(path, text);
    return readViewsFile(path, ["a:"]);
  };
  const views = read(
    `// one
    {"a:{x}": {"query": ["SELECT {x} -- ;", " , 2 ; "], "changes": {"t": "a:*"}},}`,
  );
  assertEquals([views.path, views.all[0]!.query], [path, "SELECT {x} -- ;\n , 2"]);
  assertEquals([views.all[0]!.line, views.all[0]!.maxAgeSec], [2, 0]);
  assertThrows(() => read("{"), ViewsError, `${path}:1: no JSON: close brace expected`);
  await Deno.remove(path);
  assertThrows(() => readViewsFile(path, ["a:"]), Error, `${path}: `);
  await Deno.remove(folder);
});

Deno.test("ages of values: whole seconds up to a year", () => {
  const ageOf = (age: string): number => {
    const text = `{"a:{x}": {"query": "SELECT {x}", "changes": {"t": "a:*"}, "max-age": ${age}}}`;
    return parseViews(text, "f", [""]).all[0]!.maxAgeSec;
  };
  assertEquals([ageOf("1"), ageOf("31536000")], [1, 31_536_000]);
  for (const age of ["0", "-1", "1.5", "31536001", '"1"', "null", "true"]) {
    assertThrows(() => ageOf(age), ViewsError, "max-age must be whole seconds, 1 to 31536000");
  }
});
