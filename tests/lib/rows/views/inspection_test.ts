import { DatabaseSync } from "node:sqlite";
import { assertEquals } from "@std/assert";
import { inspectPostgresView } from "../../../../lib/rows/databases/postgres/inspect.ts";
import { Session } from "../../../../lib/rows/databases/postgres/session.ts";
import { inspectSqliteView } from "../../../../lib/rows/databases/sqlite_inspect.ts";
import type { Inspection } from "../../../../lib/rows/views/inspection.ts";
import { parseViews } from "../../../../lib/rows/views/views_file.ts";
import type { View } from "../../../../lib/rows/views/view.ts";
import { sharedPostgres } from "../../../support/servers/databases.ts";
import { HAS_POSTGRES } from "../../../support/servers/postgres.ts";

const SHOP = [
  "CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, category TEXT)",
  "CREATE TABLE price (product_id INTEGER PRIMARY KEY, cents INTEGER, rate NUMERIC)",
  "CREATE INDEX by_category ON product (category)",
];

/** A view of the keys `v:…`. */
function viewOf(keys: string, query: string, changes: object, value = "object"): View {
  const file = JSON.stringify({ [keys]: { query, value, changes } });
  return parseViews(file, "views.jsonc", ["v:"])[0]!;
}

const PRODUCT = viewOf(
  "v:{id}",
  "SELECT name, cents FROM product JOIN price ON product_id = id WHERE id = {id};",
  { product: "v:{id}", price: "v:{product_id}" },
);

/** What both databases say alike: views, and parts of their mistakes in order. */
const MISTAKES: readonly (readonly [view: View, mistakes: readonly string[]])[] = [
  [viewOf("v:{id}", "SELECT nam FROM product WHERE id = {id}", { product: "v:*" }), ["nam"]],
  [viewOf("v:{id}", "SELECT 1; DELETE FROM product WHERE id = {id}", { product: "v:*" }), [""]],
  [viewOf("v:{id}", "DELETE FROM product WHERE id = {id}", { product: "v:*" }), ["syntax error"]],
  [
    viewOf("v:{id}", "SELECT name, cents FROM product, price WHERE id = {id}", { product: "v:*" }),
    ["price, which changes does not name"],
  ],
  [
    viewOf("v:{id}", "SELECT name, id FROM product WHERE id = {id}", { product: "v:*" }, "raw"),
    ["needs a query with one column, this one has 2"],
  ],
  [
    viewOf("v:{id}", "SELECT name FROM product WHERE id = {id}", { product: "v:{ident}" }),
    ["changes of product: there is no column ident: id, name, category"],
  ],
  [
    viewOf("v:{id}", "SELECT name FROM product WHERE id = {id}", { product: "v:*", none: "v:*" }),
    ["changes of none: there is no such table"],
  ],
  [
    viewOf("v:{id}", "SELECT cents FROM price WHERE product_id = {id}", { price: "v:{rate}" }),
    ["column rate is no integer, text, uuid or bool"],
  ],
];

function assertMistakes(
  inspect: (view: View) => Inspection[],
  each: typeof MISTAKES[number],
): void {
  const [view, parts] = each;
  const texts = inspect(view)[0]!.mistakes.map(({ text }) => text);
  const found = texts.map((text, index) => text.includes(parts[index] ?? "\0"));
  assertEquals([found, texts.length], [parts.map(() => true), parts.length], texts.join("; "));
}

Deno.test("SQLite: a view's parameters, columns, tables and scans", () => {
  using database = openShop();
  const { parameterTypes, columns, tables, scans, mistakes } = inspectSqliteView(database, PRODUCT);
  assertEquals([parameterTypes, columns, tables], [["int8"], ["name", "cents"], [
    "price",
    "product",
  ]]);
  assertEquals([scans, mistakes], [[], []]);
  const all = viewOf("v:{name}", "SELECT id FROM product WHERE name = {name}", { product: "v:*" });
  assertEquals(inspectSqliteView(database, all).scans, ["product"]);
  const covered = viewOf("v:{c}", "SELECT count(*) FROM product WHERE category = {c}", {
    product: "v:{category}",
  });
  assertEquals(inspectSqliteView(database, covered).tables, ["product"]);
});

for (const each of MISTAKES) {
  Deno.test(`SQLite: a mistake of ${each[0].query}`, () => {
    using database = openShop();
    assertMistakes((view) => [inspectSqliteView(database, view)], each);
  });
}

function openShop(): DatabaseSync & Disposable {
  const database = new DatabaseSync(":memory:");
  for (const sql of SHOP) database.exec(sql);
  return Object.assign(database, { [Symbol.dispose]: () => database.close() });
}

Deno.test({
  name: "PostgreSQL: views of a shop, and their mistakes",
  ignore: !HAS_POSTGRES,
  fn: async (context) => {
    const server = await sharedPostgres();
    const url = await server.createDatabase();
    const session = await Session.open({ url, timeoutMs: 30_000 });
    try {
      for (const sql of SHOP) await session.query(sql);
      const { parameterTypes, columns, tables, scans, mistakes } = await inspectPostgresView(
        session,
        PRODUCT,
      );
      assertEquals([parameterTypes, columns], [["int4"], ["name", "cents"]]);
      assertEquals(tables, ["public.price", "public.product"]);
      assertEquals([scans, mistakes], [[], []]);
      for (const each of MISTAKES) {
        await context.step(each[0].query, async () => {
          const inspection = await inspectPostgresView(session, each[0]);
          assertMistakes(() => [inspection], each);
        });
      }
      await context.step("what only PostgreSQL has", () => checkPostgresOnly(session));
    } finally {
      await session.close();
    }
  },
});

async function checkPostgresOnly(session: Session): Promise<void> {
  const one = async (view: View): Promise<string> => {
    const { mistakes } = await inspectPostgresView(session, view);
    assertEquals(mistakes.length, 1, JSON.stringify(mistakes));
    return mistakes[0]!.text.slice(mistakes[0]!.text.indexOf(": ", 6) + 2);
  };
  const byCategory = viewOf("v:{c}", "SELECT id FROM product WHERE category = {c}", {
    product: "v:{category}",
  });
  assertEquals(
    await one(byCategory),
    "changes of product: the log lacks the old category of a changed row: ALTER TABLE product REPLICA IDENTITY FULL",
  );
  await session.query("ALTER TABLE product REPLICA IDENTITY FULL");
  assertEquals((await inspectPostgresView(session, byCategory)).mistakes, []);
  await session.query("ALTER TABLE price REPLICA IDENTITY NOTHING");
  const price = viewOf("v:{id}", "SELECT cents FROM price WHERE product_id = {id}", {
    price: "v:*",
  });
  assertEquals((await one(price)).startsWith("changes of price: the log needs a key"), true);
  await session.query("CREATE TABLE sale (id int PRIMARY KEY) PARTITION BY RANGE (id)");
  await session.query("CREATE TABLE sale_1 PARTITION OF sale FOR VALUES FROM (1) TO (2)");
  const sale = viewOf("v:{id}", "SELECT id FROM sale_1 WHERE id = {id}", { "sale_1": "v:{id}" });
  assertEquals(await one(sale), "changes of sale_1: partitioned tables are not supported");
  const rate = viewOf("v:{rate}", "SELECT name FROM product WHERE id < {rate}::numeric", {
    product: "v:*",
  });
  assertEquals(
    await one(rate),
    "{rate} is no integer, text, uuid or bool: cast it, as in {rate}::text",
  );
  const locking = viewOf("v:{id}", "SELECT name FROM product WHERE id = {id} FOR UPDATE", {
    product: "v:*",
  });
  assertEquals(await one(locking), "its query writes or locks rows: only reads are allowed");
  const other = viewOf("v:{n}", "SELECT id FROM product WHERE name = {n}", { product: "v:{id}" });
  assertEquals(
    await one(other),
    "changes of product: column id is int4, and the parameter in its place text",
  );
  const scan = viewOf("v:{n}", "SELECT id FROM product WHERE name = {n}", { product: "v:*" });
  assertEquals((await inspectPostgresView(session, scan)).scans, ["public.product"]);
}
