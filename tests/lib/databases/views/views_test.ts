// Views at an origin and a node, while other programs change the tables.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { testDatabases } from "../../../support/servers/databases.ts";
import { startNode } from "../../../support/servers/origin_process.ts";
import { until } from "../../../support/servers/server_process.ts";
import { read, Shop, untilReads, VIEWS } from "./shop.ts";

testDatabases("views are read, kept, and deleted when their tables change", async (database) => {
  await using shop = await Shop.open(database);
  await using origin = await shop.start();
  await using node = await startNode([origin]);
  using atOrigin = await origin.connect();
  using atNode = await node.connect();
  const both = [atOrigin, atNode];
  await untilReads(both, "product:1", '{"id":1,"name":"Atlas","category":"Books"}');
  await untilReads(both, "category:1:names", '[{"name":"Atlas"},{"name":"Diary"}]');
  await untilReads(both, "name:Chess", "2");
  for (
    const absent of ["9", "abc", "01", "+1", "-0", "2147483648", "9223372036854775808"].map((id) =>
      `product:${id}`
    )
  ) {
    await untilReads(both, absent, "");
  }
  await shop.writer.write("UPDATE product SET name = 'Map', category_id = 2 WHERE id = 1");
  await untilReads(both, "product:1", '{"id":1,"name":"Map","category":"Games"}');
  await untilReads(both, "category:1:names", '[{"name":"Diary"}]');
  await untilReads(both, "name:Map", "1");
  await untilReads(both, "name:Atlas", "");
  await shop.writer.write("UPDATE category SET name = 'Toys' WHERE id = 2");
  await untilReads(both, "product:1", '{"id":1,"name":"Map","category":"Toys"}');
  await shop.writer.write("DELETE FROM product WHERE id = 1");
  await untilReads(both, "product:1", "");
  await untilReads(both, "name:Map", "");
  await shop.writer.write("INSERT INTO product VALUES (9, 'Go', 2, 'g')");
  await untilReads(both, "product:9", '{"id":9,"name":"Go","category":"Toys"}');
  await untilReads(both, "name:Go", "9");
  for (const client of both) {
    for (
      const request of [
        "set product:1 0 0 1\r\nx\r\n",
        "delete product:1\r\n",
        "incr product:1 1\r\n",
      ]
    ) {
      await client.send(request);
      assertStringIncludes(await client.until("\r\n"), "the keys product:{id} are of a view");
    }
    await client.send("set other 0 0 1\r\nx\r\n");
    assertEquals(await client.until("\r\n"), "STORED\r\n");
  }
});

testDatabases("many changes of a table empty its views, and the rows stay", async (database) => {
  await using shop = await Shop.open(database);
  await using origin = await shop.start();
  using client = await origin.connect();
  await client.send("set row 0 0 1\r\nx\r\n");
  assertEquals(await client.until("\r\n"), "STORED\r\n");
  assertEquals(await read(client, "row"), "x");
  assertEquals(await read(client, "name:Chess"), "2");
  assertEquals(await read(client, "name:p77"), "");
  await shop.writer.write(
    "INSERT INTO product WITH RECURSIVE n (i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) " +
      "SELECT i, 'p' || i, NULL, NULL FROM n; UPDATE product SET name = 'Go' WHERE id = 2",
  );
  await untilReads([client], "name:p77", "77");
  // One view has been emptied by the first row: the others have all their changes.
  await untilReads([client], "name:Chess", "");
  await untilReads([client], "name:p30000", "30000");
  await client.ask("follow wait now 60000\r\n", "OK\r\n");
  assertEquals(await read(client, "name:p77"), "77");
  assertEquals(await read(client, "name:Go"), "2");
  await shop.writer.write(
    database.folder === "" ? "TRUNCATE product" : "DELETE FROM product",
  );
  for (const key of ["name:p77", "name:Go", "product:2"]) await untilReads([client], key, "");
  assertEquals(await client.stat("follow_floods", "rows"), "0");
  assertEquals(await read(client, "row"), "x");
});

testDatabases("a row that another one replaces is deleted from its views", async (database) => {
  await using shop = await Shop.open(database);
  await using origin = await shop.start();
  using client = await origin.connect();
  const fill = async (): Promise<void> => {
    await untilReads([client], "category:2:names", '[{"name":"Chess"}]');
    await untilReads([client], "name:Chess", "2");
  };
  await fill();
  await shop.writer.write(
    database.folder === ""
      ? "INSERT INTO product VALUES (2, 'Mill', 1, 'm') ON CONFLICT (id) DO UPDATE SET name = 'Mill', category_id = 1"
      : "INSERT OR REPLACE INTO product VALUES (2, 'Mill', 1, 'm')",
  );
  await untilReads([client], "category:2:names", "[]");
  await untilReads([client], "name:Chess", "");
  await shop.writer.write(
    "UPDATE product SET name = 'Chess', category_id = 2, code = 'c' WHERE id = 2",
  );
  await fill();
  // By another key than the primary one, and by an update.
  await untilReads([client], "name:Reversi", "");
  await shop.writer.write(
    database.folder === ""
      ? "INSERT INTO product VALUES (8, 'Reversi', 1, 'c') " +
        "ON CONFLICT (code) DO UPDATE SET id = 8, name = 'Reversi', category_id = 1"
      : "INSERT OR REPLACE INTO product VALUES (8, 'Reversi', 1, 'c')",
  );
  await untilReads([client], "name:Chess", "");
  await untilReads([client], "category:2:names", "[]");
  // Cached before the next statement: it is deleted by that.
  await untilReads([client], "name:Reversi", "8");
  await untilReads([client], "product:8", '{"id":8,"name":"Reversi","category":"Books"}');
  await shop.writer.write(
    database.folder === ""
      ? "WITH other AS (DELETE FROM product WHERE code = 'c') UPDATE product SET name = 'Map' WHERE id = 1"
      : "UPDATE OR REPLACE product SET code = 'c', name = 'Map' WHERE id = 1",
  );
  await untilReads([client], "name:Reversi", "");
  await untilReads([client], "product:8", "");
  await untilReads([client], "name:Map", "1");
});

testDatabases("columns without a value empty the prefix before them", async (database) => {
  const views = VIEWS.replace("WHERE category_id =", "WHERE coalesce(category_id, 7) =");
  await using shop = await Shop.open(database, views);
  await using origin = await shop.start();
  using client = await origin.connect();
  assertEquals(await read(client, "category:2:names"), '[{"name":"Chess"}]');
  await untilReads([client], "category:7:names", "[]");
  await shop.writer.write("UPDATE product SET category_id = NULL WHERE id = 2");
  await untilReads([client], "category:2:names", "[]");
  await untilReads([client], "category:7:names", '[{"name":"Chess"}]');
  await shop.writer.write("UPDATE product SET name = 'Go' WHERE id = 2");
  await untilReads([client], "category:7:names", '[{"name":"Go"}]');
  await shop.writer.write("UPDATE product SET name = 'Chess' WHERE id = 2");
  await shop.writer.write("UPDATE product SET category_id = 2 WHERE id = 2");
  await untilReads([client], "category:2:names", '[{"name":"Chess"}]');
});

testDatabases("SIGHUP reads the views again; mistakes change nothing", async (database) => {
  await using shop = await Shop.open(database);
  await using origin = await shop.start();
  using client = await origin.connect();
  assertEquals(await read(client, "name:Chess"), "2");
  await Deno.writeTextFile(
    shop.path,
    VIEWS.replace("SELECT id FROM product", "SELECT ident FROM product"),
  );
  origin.signal("SIGHUP");
  const refused = await origin.line("SIGHUP: the views stay as they are");
  assertMatch(refused, /views\.jsonc:15: view name:\{name\}: .*ident/);
  assertEquals(await read(client, "name:Chess"), "2");
  await Deno.writeTextFile(
    shop.path,
    VIEWS.replace("SELECT id FROM product", "SELECT -id AS id FROM product"),
  );
  origin.signal("SIGHUP");
  await origin.line("SIGHUP: 3 views are served");
  await untilReads([client], "name:Chess", "-2");
  await shop.writer.write("UPDATE product SET name = 'Go' WHERE id = 2");
  await untilReads([client], "name:Chess", "");
  await untilReads([client], "name:Go", "-2");
  // Its keys are rows now.
  await Deno.writeTextFile(
    shop.path,
    VIEWS.replace('"name:{name}": {', '"other:{name}": {')
      .replace('"name:{name}" }', '"other:{name}" }'),
  );
  await shop.init();
  origin.signal("SIGHUP");
  await untilReads([client], "other:Go", "2");
  await untilReads([client], "name:Go", "");
});

testDatabases(
  "a value is read again after its longest age, and so is an absence",
  async (database) => {
    const now = database.folder === "" ? "clock_timestamp()" : "julianday('now')";
    const views = VIEWS.replace("SELECT id FROM product", `SELECT ${now} FROM product`)
      .replace('"max-age": 3600', '"max-age": 1');
    await using shop = await Shop.open(database, views);
    await using origin = await shop.start();
    using client = await origin.connect();
    await client.ask("follow wait now 60000\r\n", "OK\r\n");
    const first = await read(client, "name:Chess");
    await until(async () => await read(client, "name:Chess") !== first);
    const reads = async (): Promise<number> => Number(await client.stat("view_reads", "rows"));
    const before = await reads();
    await until(async () => {
      assertEquals(await read(client, "name:nobody"), "");
      return await reads() >= before + 3;
    });
  },
);

testDatabases("a view that fails or is too large fails alone", async (database) => {
  const division = database.folder === ""
    ? "1 / (id - 2)"
    : "json(CASE id WHEN 2 THEN '{' ELSE '1' END)";
  const text = database.folder === ""
    ? "repeat('x', 2000000)"
    : "replace(hex(zeroblob(1000000)), '00', 'xx')";
  const views = VIEWS.replace("SELECT id FROM product", `SELECT ${division} FROM product`)
    .replace("SELECT name FROM product", `SELECT ${text} AS name FROM product`);
  await using shop = await Shop.open(database, views);
  await using origin = await shop.start();
  using client = await origin.connect();
  await client.send("get product:2 name:Chess name:Diary\r\n");
  const reply = await client.until(/END\r\n$|ERROR.*\r\n$/);
  assertMatch(reply, /^SERVER_ERROR .*view name:\{name\}: /m);
  assertEquals(await read(client, "product:2"), '{"id":2,"name":"Chess","category":"Games"}');
  assertEquals(await read(client, "name:Diary"), "1");
  const large = /: its result is too large: more than 1048576 bytes \(-I\)/;
  assertMatch(await read(client, "category:1:names"), large);
  assertEquals(await read(client, "product:3"), '{"id":3,"name":"Diary","category":"Books"}');
});

testDatabases(
  "results larger than -I are errors, and rows are read no further",
  async (database) => {
    const isPostgres = database.folder === "";
    const text = isPostgres
      ? "repeat('x', 2000000)"
      : "replace(hex(zeroblob(1000000)), '00', 'xx')";
    const rows = isPostgres
      ? "SELECT generate_series({id} + 0, 1000000000000) AS n"
      : "WITH RECURSIVE n (n) AS (SELECT {id} + 0 UNION ALL SELECT n + 1 FROM n) SELECT n FROM n";
    const views = JSON.stringify({
      "endless:{id}": { query: rows, value: "array", changes: { product: "endless:*" } },
      "few:{id}": { query: `${rows} LIMIT 3`, value: "array", changes: { product: "few:*" } },
      "object:{id}": { query: `SELECT {id} AS id, ${text} AS x`, changes: { product: "object:*" } },
      "raw:{id}": {
        query: `SELECT {id} || ${text} AS x`,
        value: "raw",
        changes: { product: "raw:*" },
      },
    });
    await using shop = await Shop.open(database, views);
    await using origin = await shop.start();
    using client = await origin.connect();
    assertEquals(await read(client, "few:1"), '[{"n":1},{"n":2},{"n":3}]');
    for (const name of ["endless", "object", "raw"]) {
      assertMatch(
        await read(client, `${name}:1`),
        /: its result is too large: more than 1048576 bytes \(-I\)/,
      );
    }
  },
);

testDatabases("prefixes and keys beyond ASCII are deleted, too", async (database) => {
  const views = VIEWS.replaceAll('"name:{name}"', '"größe:{name}"')
    .replace('"product": "größe:{name}"', '"product": "größe:{name}", "category": "größe:*"')
    .replace("SELECT id FROM product", "SELECT product.id || category.name FROM product, category")
    .replace("WHERE name = {name}", "WHERE product.name = {name} AND category.id = 2");
  await using shop = await Shop.open(database, views);
  await using origin = await shop.start();
  await using node = await startNode([origin]);
  using atOrigin = await origin.connect();
  using atNode = await node.connect();
  const both = [atOrigin, atNode];
  const key = (text: string): string => latin1Text(new TextEncoder().encode(text));
  const write = (sql: string): Promise<void> => shop.writer.write(sql);
  await write("UPDATE product SET name = 'Bär' WHERE id = 2");
  await untilReads(both, key("größe:Bär"), "2Games");
  await write("UPDATE category SET name = 'Toys' WHERE id = 2");
  await untilReads(both, key("größe:Bär"), "2Toys");
  await write("UPDATE product SET name = 'Fuß' WHERE id = 2");
  await untilReads(both, key("größe:Bär"), "");
  await untilReads(both, key("größe:Fuß"), "2Toys");
});

testDatabases(
  "a change beside a long value that the log leaves out is applied",
  async (database) => {
    await using shop = await Shop.open(database);
    await shop.writer.write("ALTER TABLE product ADD COLUMN picture text");
    await shop.writer.write("ALTER TABLE product ALTER COLUMN picture SET STORAGE EXTERNAL");
    await shop.writer.write("UPDATE product SET picture = repeat('x', 100000)");
    await using origin = await shop.start();
    using client = await origin.connect();
    await untilReads([client], "name:Chess", "2");
    await shop.writer.write("UPDATE product SET name = 'Go' WHERE id = 2");
    await untilReads([client], "name:Chess", "");
    await untilReads([client], "name:Go", "2");
  },
  ["PostgreSQL"],
);

testDatabases("a view by a boolean has the rows of its value", async (database) => {
  const views = `{
    "sold:{sold}": {
      "query": "SELECT name FROM product WHERE sold = {sold} ORDER BY id", "value": "raw",
      "changes": { "product": "sold:{sold}" }
    }
  }`;
  await using shop = await Shop.open(database, views);
  await shop.writer.write("ALTER TABLE product ADD COLUMN sold boolean NOT NULL DEFAULT false");
  await shop.writer.write("UPDATE product SET sold = true WHERE id = 2");
  await using origin = await shop.start();
  using client = await origin.connect();
  assertEquals(await read(client, "sold:t"), "Chess");
  assertEquals(await read(client, "sold:f"), "Atlas");
  await shop.writer.write("UPDATE product SET sold = id = 1");
  await untilReads([client], "sold:t", "Atlas");
  await untilReads([client], "sold:f", "Chess");
}, ["PostgreSQL"]);

const REFUSED: readonly [mistake: string, from: string, to: string][] = [
  ["has no column nosuch", 'name:{name}" }', 'name:{nosuch}" }'],
  ["its query reads table .*category, which changes must name", ', "category": "product:*"', ""],
  [
    "there is no table nowhere|nowhere is no table",
    '"category": "product:*"',
    '"category": "product:*", "nowhere": "product:*"',
  ],
  [
    "value raw needs a query with one column",
    "SELECT id FROM product",
    "SELECT id, code FROM product",
  ],
  ["is the table of rows", '"category": "product:*"', '"category": "product:*", "kv": "product:*"'],
  [
    "syntax error",
    "SELECT id FROM product WHERE name = {name}",
    "DELETE FROM product WHERE name = {name}",
  ],
  [
    "column name of product is text|triggers of its tables",
    "category:{category_id}:names",
    "category:{name}:names",
  ],
];

testDatabases("views that cannot be right are refused", async (database) => {
  await using shop = await Shop.open(database);
  await using origin = await shop.start();
  for (const [mistake, from, to] of REFUSED) {
    const views = VIEWS.replace(from, to);
    assert(views !== VIEWS, from);
    await Deno.writeTextFile(shop.path, views);
    origin.signal("SIGHUP");
    await origin.line(new RegExp(`views stay as they are.*views\\.jsonc:\\d+: .*(?:${mistake})`));
  }
  await origin.stop();
  await using next = shop.launch();
  const { code, stderr } = await next.ended();
  assert(code !== 0, stderr);
  assertMatch(stderr, new RegExp(`views\\.jsonc:\\d+: .*(?:${REFUSED.at(-1)![0]})`));
});

testDatabases("a lock and an update token on a view keep no old value", async (database) => {
  await using shop = await Shop.open(database);
  await using origin = await shop.start();
  using client = await origin.connect();
  using other = await origin.connect();
  for (const key of ["name:Chess", "product:2"]) await read(client, key);
  await client.ask("lock name:Chess\r\n", "OK\r\n");
  await client.send("token get product:2\r\n");
  assertMatch(await client.until("\r\n"), /^TOKEN \d+\r\n$/);
  await shop.writer.write("UPDATE product SET name = 'Go' WHERE id = 2");
  for (const each of [client, other]) {
    await untilReads([each], "name:Chess", "");
    await until(async () => (await read(each, "product:2")).includes("Go"));
  }
});
