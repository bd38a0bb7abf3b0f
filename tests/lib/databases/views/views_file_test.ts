import { assertEquals, assertThrows } from "@std/assert";
import { rangeOf } from "../../../support/rows/key_sets.ts";
import { KeyTemplate } from "../../../../lib/databases/views/key_template.ts";
import { keyOf } from "../../../../lib/databases/views/view_mapping.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { withParameters } from "../../../../lib/databases/views/view.ts";

const GOOD = `{
  // The page of a product.
  "product:{id}": {
    "query": ["SELECT name, price FROM product JOIN price ON product_id = product.id",
      "WHERE product.id = {id}"],
    "changes": { "product": "product:{id}", "price": "product:{product_id}", "shop.tax": "product:*" },
  },
  "category:{category}:page:{page}": {
    "query": "SELECT name FROM product WHERE category = {category} OFFSET 10 * {page} LIMIT 10",
    "value": "array",
    "max-age": 60,
    "changes": { "product": ["category:{category}:page:*", "category:{category}:*"] }
  }
}`;

function mistakes(text: string, prefixes: readonly string[] = [""]): string[] {
  const error = assertThrows(() => parseViews(text, "views.json", prefixes), Error);
  return error.message.split("; ");
}

Deno.test("a file of views", () => {
  const [product, category] = parseViews(GOOD, "views.json", ["product:", "category:"]).all;
  assertEquals(product!.name, "product:{id}");
  assertEquals([product!.line, category!.line], [3, 8]);
  assertEquals([product!.result, product!.maxAgeSec], ["object", 0]);
  assertEquals([category!.result, category!.maxAgeSec], ["array", 60]);
  assertEquals(
    withParameters(category!, (index) => `$${index + 1}`),
    "SELECT name FROM product WHERE category = $1 OFFSET 10 * $2 LIMIT 10",
  );
  assertEquals(product!.changes.map(({ table }) => table), ["product", "price", "shop.tax"]);
  assertEquals(product!.changes.map(({ keys }) => keys[0]!.isPrefix), [false, false, true]);
});

Deno.test("keys of views", () => {
  const views = parseViews(GOOD, "views.json", [""]);
  const found = (key: string): unknown => {
    const view = views.find(key);
    return view && [view.view.name.slice(0, 3), ...view.values];
  };
  assertEquals(found("product:7"), ["pro", "7"]);
  assertEquals(found("product:"), ["pro", ""]);
  assertEquals(found("product:7:8"), ["pro", "7:8"]);
  assertEquals(found("products:7"), null);
  assertEquals(found("category:a:page:2"), ["cat", "a", "2"]);
  assertEquals(found("category:a:page:2:page:3"), ["cat", "a", "2:page:3"]);
  assertEquals(found("category:a:pages:2"), null);
  assertEquals(found("category:"), null);
  assertEquals(views.prefixes, ["product:", "category:"]);
  const [product, category] = views.all;
  const keys = category!.changes[0]!.keys;
  assertEquals(keyOf(keys[0]!, () => "x"), rangeOf("category:x:page:*"));
  assertEquals(keyOf(keys[1]!, () => "x"), rangeOf("category:x:*"));
  assertEquals(keyOf(keys[1]!, () => null), rangeOf("category:*"));
  assertEquals(keyOf(keys[1]!, () => "x".repeat(250)), null);
  const { keys: page } = category!;
  assertEquals(keyOf(page, (name) => name === "page" ? "2" : null), rangeOf("category:*"));
  assertEquals(keyOf(page, (name) => name === "page" ? null : "x"), rangeOf("category:x:page:*"));
  const ofProduct = product!.changes[0]!.keys[0]!;
  assertEquals(keyOf(ofProduct, () => "7"), rangeOf("product:7"));
  assertEquals(keyOf(ofProduct, () => null), rangeOf("product:*"));
  assertEquals(keyOf(ofProduct, () => "x".repeat(242))!.text.length, 250);
  assertEquals(keyOf(ofProduct, () => "x".repeat(243)), null);
});

Deno.test("the texts of a template do not overlap in a key", () => {
  const template = KeyTemplate.parse("a:{x}:b:{y}:");
  assertEquals(template.match("a:1:b:2:"), ["1", "2"]);
  assertEquals(template.match("a::b::"), ["", ""]);
  assertEquals(template.match("a::b:"), null);
  assertEquals(template.match("a:b:2:"), null);
  assertEquals(KeyTemplate.parse("a:{x}:").match("a:"), null);
});

Deno.test("letters beyond ASCII in the keys of a view", () => {
  const text =
    `{ "größe:{id}": { "query": "SELECT {id}", "max-age": 1, "changes": { "size": "größe:*" } } }`;
  const views = parseViews(text, "views.json", ["größe:"]);
  assertEquals(views.find(latin1Text(new TextEncoder().encode("größe:7")))!.values, ["7"]);
  assertEquals(mistakes(text, ["maß:"]), [
    "views.json:1: view größe:{id}: keys that begin with größe: were no rows at the start: start the server again",
  ]);
});

Deno.test("mistakes in a file of views name their line", () => {
  const view = (fields: string, name = "product:{id}"): string => `{\n"${name}": {${fields}}}`;
  const query = '"query": "SELECT {id}"';
  const changes = '"changes": {"product": "product:{id}"}';
  const cases: [string, string][] = [
    ["{", "views.json:1: no JSON: close brace expected"],
    ["[]", 'views.json:1: must be an object: {"<keys>": {"query": …, "changes": …}}'],
    ["{}", "views.json:1: there is no view"],
    [
      view(`${changes},\n"query": 1`),
      "views.json:3: view product:{id}: query must be a text, or a list of lines",
    ],
    [view(changes), "views.json:2: view product:{id}: query must be a text, or a list of lines"],
    [
      view(`"query": "SELECT 1", ${changes}`),
      "views.json:2: view product:{id}: {id} is not in its query",
    ],
    [
      view(query),
      'views.json:2: view product:{id}: changes must name each table of its query, as in {"<table>": "<keys>"}',
    ],
    [
      view(`${query},\n"changes": {"price": "prices:{product_id}"}`),
      "views.json:3: view product:{id}: changes of price: prices:{product_id} are no keys of this view",
    ],
    [
      view(`${query}, "changes": {"price": ["product:{a}:{b}"]}`),
      "views.json:2: view product:{id}: changes of price: product:{a}:{b} are no keys of this view",
    ],
    [
      view(`${query}, "changes": {"price": "product:{a}{b}"}`),
      "views.json:2: view product:{id}: changes of price: needs text between two parameters",
    ],
    [
      view(`${query}, "changes": {"price": []}`),
      "views.json:2: view product:{id}: changes of price: there are no keys",
    ],
    [
      view(`${query}, ${changes},\n\n"value": "json"`),
      "views.json:4: view product:{id}: value must be one of object, array, raw",
    ],
    [
      view(`${query}, ${changes}, "max-age": 0`),
      "views.json:2: view product:{id}: max-age must be whole seconds, 1 to 31536000",
    ],
    [
      view(`${query}, ${changes}, "ttl": 1`),
      "views.json:2: view product:{id}: unknown field ttl: query, value, max-age, changes",
    ],
    [
      view(`${query}, "changes": {"product": "product:*"}`, "product {id}"),
      'views.json:2: view product {id}: its keys: "product ": a key has no spaces and no control characters',
    ],
    [
      view(`${query}, "changes": {"product": "product:*"}`, "{id}"),
      "views.json:2: view {id}: its keys: must begin with text that all its keys have",
    ],
    [
      view(`${query}, "changes": {"product": "product:*"}`, "product:{id}:{id}"),
      "views.json:2: view product:{id}:{id}: {id} appears twice",
    ],
    [
      view(`"query": "{1}", "changes": {"product": "product:*"}`, "product:{1}"),
      'views.json:2: view product:{1}: its keys: "product:{1}": a parameter is a name between braces, as in {id}',
    ],
  ];
  for (const [text, mistake] of cases) assertEquals(mistakes(text), [mistake], text);
  assertEquals(mistakes(view(`${query}, ${changes}`), ["user:"]), [
    "views.json:2: view product:{id}: keys that begin with product: were no rows at the start: start the server again",
  ]);
  const good = view(`${query}, ${changes}`);
  assertEquals(mistakes(`${good.slice(0, -1)},\n${good.slice(2)}`), [
    "views.json:3: view: product:{id} appears twice",
  ]);
  const longer = good.replace("product:{id}", "product:{id}:price").replace(
    '": "product:{id}"',
    '": "product:*"',
  );
  assertEquals(mistakes(`${good.slice(0, -1)},\n${longer.slice(2)}`), [
    "views.json:3: view product:{id}:price: its keys fit product:{id}, which stands before it: put this one first",
  ]);
  parseViews(`${longer.slice(0, -1)},\n${good.slice(2)}`, "views.json", [""]);
});

Deno.test("a parameter in quotes is a mistake with its line; in a comment it is none", () => {
  const file = (query: string): string =>
    `{\n "p:{name}": {\n  "query": ${JSON.stringify(query)}, "changes": {"t": "p:{name}"} } }`;
  const inQuotes = [
    "SELECT * FROM t WHERE name = '{name}'",
    "SELECT * FROM t WHERE name LIKE '%{name}%' AND name = {name}",
    `SELECT * FROM t WHERE name = "{name}"`,
    "SELECT * FROM t WHERE name = `{name}`",
    "SELECT * FROM t WHERE name = 'it''s {name}'",
    "SELECT * FROM t WHERE name = E'\\'{name}'",
    "SELECT * FROM t WHERE name = $q$ {name} $q$",
  ];
  for (const query of inQuotes) {
    assertEquals(mistakes(file(query)), [
      "views.json:3: view p:{name}: {name} stands in quotes: write it without them",
    ], query);
  }
  const inComments = [
    "SELECT * FROM t -- {name}",
    "SELECT * FROM t /* '{name}' */",
    "SELECT '--' FROM t -- of {name}",
  ];
  for (const query of inComments) {
    assertEquals(mistakes(file(query)), [
      "views.json:2: view p:{name}: {name} is not in its query",
    ], query);
  }
  const right = [
    "SELECT * FROM t WHERE name = {name} -- '{name}'",
    "SELECT 'a''b' FROM t WHERE name = {name} AND x = 'it''s'",
    "SELECT '{}'::text[], '{other}' FROM t WHERE name = {name}",
    `SELECT "{", '}' FROM t WHERE name = {name}`,
    "SELECT '/*' FROM t WHERE name = {name} AND y = '*/'",
  ];
  for (const query of right) assertEquals(parseViews(file(query), "v", [""]).all.length, 1, query);
});
