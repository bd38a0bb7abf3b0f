// Views at an origin and a node, while other programs change the tables.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { Session } from "../../../../lib/rows/databases/postgres/session.ts";
import {
  sharedPostgres,
  type TestDatabase,
  testDatabases,
} from "../../../support/servers/databases.ts";
import {
  launchProxy,
  runInit,
  startNode,
  startProxy,
} from "../../../support/servers/proxy_process.ts";
import { type Client, ServerProcess, until } from "../../../support/servers/server_process.ts";

const TABLES = `
CREATE TABLE category (id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE product (id integer PRIMARY KEY, name text NOT NULL, category_id integer, code text UNIQUE);
CREATE INDEX product_category ON product (category_id);
CREATE INDEX product_name ON product (name);
INSERT INTO category VALUES (1, 'Books'), (2, 'Games');
INSERT INTO product VALUES (1, 'Atlas', 1, 'a'), (2, 'Chess', 2, 'c'), (3, 'Diary', 1, 'd');
`;

const VIEWS = `{
  // One product with the name of its category.
  "product:{id}": {
    "query": [
      "SELECT product.id, product.name, category.name AS category",
      "FROM product JOIN category ON category.id = product.category_id WHERE product.id = {id}"
    ],
    "changes": { "product": "product:{id}", "category": "product:*" }
  },
  "category:{category}:names": {
    "query": "SELECT name FROM product WHERE category_id = {category} ORDER BY name",
    "value": "array",
    "changes": { "product": "category:{category_id}:names" }
  },
  "name:{name}": {
    "query": "SELECT id FROM product WHERE name = {name}",
    "value": "raw",
    "max-age": 3600,
    "changes": { "product": "name:{name}" }
  }
}`;

/** Another program with a connection of its own. */
interface Writer extends AsyncDisposable {
  /** Executes statements in one transaction. */
  write(sql: string): Promise<void>;
}

async function openWriter({ url }: TestDatabase): Promise<Writer> {
  if (url.startsWith("sqlite:")) {
    const file = new DatabaseSync(url.slice("sqlite:".length), { timeout: 10_000 });
    return {
      write: (sql) => Promise.resolve(file.exec(`BEGIN IMMEDIATE; ${sql}; COMMIT`)),
      [Symbol.asyncDispose]: () => Promise.resolve(file.close()),
    };
  }
  const session = await Session.open({ url, timeoutMs: 30_000 });
  return {
    write: async (sql) => void await session.query(sql),
    [Symbol.asyncDispose]: () => session.close(),
  };
}

/** A database with tables and a file of views, ready for an origin. */
class Shop implements AsyncDisposable {
  readonly database: TestDatabase;
  readonly writer: Writer;
  readonly path: string;

  private constructor(database: TestDatabase, writer: Writer, path: string) {
    this.database = database;
    this.writer = writer;
    this.path = path;
  }

  static async open(database: TestDatabase, views = VIEWS): Promise<Shop> {
    const path = `${await Deno.makeTempDir()}/views.jsonc`;
    await Deno.writeTextFile(path, views);
    const writer = await openWriter(database);
    await writer.write(TABLES);
    if (database.folder === "") await writer.write("ALTER TABLE product REPLICA IDENTITY FULL");
    const shop = new Shop(database, writer, path);
    await shop.init();
    return shop;
  }

  async init(): Promise<void> {
    const args = ["--follow", "--views", this.path, "--run"];
    const { code, stderr } = await runInit(this.#place, args);
    assertEquals(code, 0, stderr);
  }

  get #folder(): string {
    return this.path.slice(0, this.path.lastIndexOf("/"));
  }

  async start(args: readonly string[] = []): Promise<ServerProcess> {
    return await startProxy(this.#place, [], ["--follow", "--views", this.path, ...args]);
  }

  launch(): ServerProcess {
    return launchProxy(this.#place, [], ["--follow", "--views", this.path]);
  }

  get #place(): Pick<TestDatabase, "url" | "folder"> {
    const { url, folder } = this.database;
    return { url, folder: folder === "" ? this.#folder : `${folder},${this.#folder}` };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.writer[Symbol.asyncDispose]();
    await Deno.remove(this.#folder, { recursive: true });
  }
}

/** Runs a test with an origin that has a value of a view. */
async function withOrigin(
  database: TestDatabase,
  test: (parts: { shop: Shop; origin: ServerProcess; client: Client }) => Promise<void>,
): Promise<void> {
  await using shop = await Shop.open(database);
  await using origin = await shop.start();
  using client = await origin.connect();
  await untilReads([client], "name:Chess", "2");
  await test({ shop, origin, client });
}

/** @returns The value; "": there is none; or the error. */
async function read(client: Client, key: string): Promise<string> {
  await client.send(`get ${key}\r\n`);
  const reply = await client.until(/END\r\n$|ERROR.*\r\n$/);
  return reply.startsWith("VALUE")
    ? reply.split("\r\n")[1]!
    : reply.replace(/^END\r\n$/, "").trim();
}

async function untilReads(clients: readonly Client[], key: string, value: string): Promise<void> {
  for (const client of clients) await until(async () => await read(client, key) === value);
}

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
      "SELECT i, 'p' || i, NULL, NULL FROM n",
  );
  await untilReads([client], "name:p77", "77");
  await untilReads([client], "name:p30000", "30000");
  await client.ask("follow wait now 60000\r\n", "OK\r\n");
  assertEquals(await read(client, "name:p77"), "77");
  assertEquals(await read(client, "name:Chess"), "2");
  await shop.writer.write(
    database.folder === "" ? "TRUNCATE product" : "DELETE FROM product",
  );
  for (const key of ["name:p77", "name:Chess", "product:2"]) await untilReads([client], key, "");
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
  if (database.folder === "") return;
  // By another key than the primary one, and by an update.
  await shop.writer.write("INSERT OR REPLACE INTO product VALUES (8, 'Reversi', 1, 'c')");
  await untilReads([client], "name:Chess", "");
  await untilReads([client], "category:2:names", "[]");
  await shop.writer.write("UPDATE OR REPLACE product SET code = 'c' WHERE id = 1");
  await untilReads([client], "name:Reversi", "");
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
  assertMatch(await read(client, "category:1:names"), /too large/);
  assertEquals(await read(client, "product:3"), '{"id":3,"name":"Diary","category":"Books"}');
});

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
  "old values that the log lacks since the start empty the prefix",
  (database) =>
    withOrigin(database, async ({ shop, client }) => {
      await shop.writer.write("ALTER TABLE product REPLICA IDENTITY DEFAULT");
      await shop.writer.write("UPDATE product SET name = 'Go' WHERE id = 2");
      await untilReads([client], "name:Chess", "");
      await untilReads([client], "name:Go", "2");
      await untilReads([client], "category:2:names", '[{"name":"Go"}]');
      await shop.writer.write("DELETE FROM product WHERE id = 2");
      for (const key of ["name:Go", "product:2"]) await untilReads([client], key, "");
      await untilReads([client], "category:2:names", "[]");
    }),
  ["PostgreSQL"],
);

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

testDatabases(
  "a table without its triggers is noticed, until init makes them",
  (database) =>
    withOrigin(database, async ({ shop, origin, client }) => {
      await shop.writer.write("DROP TRIGGER leased_change_updated_product");
      await origin.line("trigger leased_change_updated_product is missing");
      await shop.writer.write("UPDATE product SET name = 'Go' WHERE id = 2");
      await shop.init();
      await untilReads([client], "name:Chess", "");
      await untilReads([client], "name:Go", "2");
    }),
  ["SQLite"],
);

const UPDATED = "SELECT sql FROM sqlite_schema WHERE name = 'leased_change_updated_product'";

testDatabases(
  "a change of the schema, which notes no change of a row, empties the caches",
  async (database) => {
    await using shop = await Shop.open(database);
    const { write } = shop.writer;
    const file = new DatabaseSync(shop.database.url.slice("sqlite:".length), { timeout: 10_000 });
    const updated = file.prepare(UPDATED).get()!["sql"] as string;
    file.close();
    const unnoticed = (name: string): Promise<void> =>
      write(
        "DROP TRIGGER leased_change_updated_product; " +
          `UPDATE product SET name = '${name}' WHERE id = 2; ${updated}`,
      );
    await using node = await ServerProcess.start();
    using reader = await node.connect();
    const start = (): Promise<ServerProcess> => shop.start(["--cache", `127.0.0.1:${node.port}`]);
    {
      await using origin = await start();
      using client = await origin.connect();
      await untilReads([client], "name:Chess", "2");
      await unnoticed("Go");
      await origin.line("the schema has changed; all caches are emptied");
      await untilReads([client], "name:Chess", "");
      await untilReads([client], "name:Go", "2");
      // A query that has become wrong, until it is right again.
      await write("ALTER TABLE category RENAME COLUMN name TO title");
      await origin.line("no such column: category.name");
      await write("ALTER TABLE category RENAME COLUMN title TO name");
      await write("UPDATE product SET name = 'Ur' WHERE id = 2");
      await untilReads([client], "name:Go", "");
      await untilReads([client], "name:Ur", "2");
      await client.ask("follow wait now 60000\r\n", "OK\r\n");
      await reader.ask("set name:Go 0 0 1\r\n2\r\n", "STORED\r\n");
    }
    await unnoticed("Senet");
    await using origin = await start();
    await origin.line("the schema has changed; all caches are emptied");
    using client = await origin.connect();
    await client.ask("follow wait now 60000\r\n", "OK\r\n");
    await reader.ask("get name:Go\r\n", "END\r\n");
    assertEquals(origin.lines.filter((line) => line.includes("all caches")).length, 1);
  },
  ["SQLite"],
);

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

testDatabases("views that cannot be right are refused at the start", async (database) => {
  await using shop = await Shop.open(database);
  for (const [mistake, from, to] of REFUSED) {
    const views = VIEWS.replace(from, to);
    assert(views !== VIEWS, from);
    await Deno.writeTextFile(shop.path, views);
    await using origin = shop.launch();
    const { code, stderr } = await origin.ended();
    assertEquals(code !== 0, true, `${mistake}: ${stderr}`);
    assertMatch(stderr, new RegExp(`views\\.jsonc:\\d+: .*(?:${mistake})`));
  }
});

testDatabases(
  "a table that is made anew stops the log, until the views are read again",
  (database) =>
    withOrigin(database, async ({ shop, origin, client }) => {
      await shop.writer.write(
        "DROP TABLE product; CREATE TABLE product (id integer PRIMARY KEY, name text, category_id integer, code text); " +
          "ALTER TABLE product REPLICA IDENTITY FULL; INSERT INTO product VALUES (5, 'Chess', 2, 'c')",
      );
      await origin.line("a table of views was dropped and made again");
      await shop.init();
      origin.signal("SIGHUP");
      await untilReads([client], "name:Chess", "5");
      await shop.writer.write("UPDATE product SET id = 6");
      await untilReads([client], "name:Chess", "6");
    }),
  ["PostgreSQL"],
);

testDatabases(
  "a change of a table's columns, which is not in the log, empties the caches",
  (database) =>
    withOrigin(database, async ({ shop, origin, client }) => {
      await shop.writer.write("ALTER TABLE product ALTER COLUMN name TYPE text USING upper(name)");
      await origin.line("all caches are emptied");
      await untilReads([client], "name:Chess", "");
      await untilReads([client], "name:CHESS", "2");
      await shop.writer.write("CREATE INDEX more ON product (code); ANALYZE product");
      await shop.writer.write("UPDATE product SET name = 'Go' WHERE id = 2");
      await untilReads([client], "name:CHESS", "");
      // The first one is that of the new slot.
      const gaps = origin.lines.filter((line) => line.includes("all caches are emptied"));
      assertEquals(gaps.length, 2, gaps.join("\n"));
    }),
  ["PostgreSQL"],
);

testDatabases(
  "what views call and where names are found is noticed, or has no effect",
  async (database) => {
    const server = await sharedPostgres();
    await server.execute(
      "CREATE FUNCTION mark(integer) RETURNS text LANGUAGE sql AS 'SELECT $1::text'",
      database.url,
    );
    const views = VIEWS.replace("SELECT id FROM product", "SELECT mark(id) FROM product");
    await using shop = await Shop.open(database, views);
    await using origin = await shop.start();
    using client = await origin.connect();
    const { write } = shop.writer;
    await untilReads([client], "name:Chess", "2");
    await client.ask("follow wait now 60000\r\n", "OK\r\n");
    await write(
      "CREATE OR REPLACE FUNCTION mark(integer) RETURNS text LANGUAGE sql AS 'SELECT $1 || $$!$$'",
    );
    await untilReads([client], "name:Chess", "2!");
    await client.ask("follow wait now 60000\r\n", "OK\r\n");
    // Sessions that begin later look for names where the first one did.
    await write("CREATE SCHEMA other");
    await write("CREATE TABLE other.kv (); CREATE TABLE other.leased_proxy ()");
    const { pathname } = new URL(database.url);
    await write(`ALTER DATABASE "${pathname.slice(1)}" SET search_path = other, public`);
    const others =
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND ";
    await write(`${others} application_name = 'leased-proxy' AND pid <> pg_backend_pid()`).catch(
      () => {},
    );
    await untilReads([client], "name:Diary", "3!");
    await server.execute("UPDATE public.product SET name = 'Go' WHERE id = 2", database.url);
    await untilReads([client], "name:Chess", "");
    await untilReads([client], "name:Go", "2!");
    // Another table under the name is found first: the log has none of its changes.
    await server.execute(
      "CREATE SCHEMA postgres; CREATE TABLE postgres.product (LIKE public.product INCLUDING ALL);" +
        "INSERT INTO postgres.product VALUES (7, 'Go', 2, 'x')",
      database.url,
    );
    await origin.line("table product is not in the publication");
    await server.execute("ALTER TABLE postgres.product REPLICA IDENTITY FULL", database.url);
    await server.execute(`ALTER DATABASE "${pathname.slice(1)}" RESET search_path`, database.url);
    await shop.init();
    await untilReads([client], "name:Go", "7!");
    await server.execute("UPDATE postgres.product SET name = 'Senet'", database.url);
    await untilReads([client], "name:Go", "");
  },
  ["PostgreSQL"],
);

testDatabases(
  "a table whose changes are not all in the log stops it",
  (database) =>
    withOrigin(database, async ({ shop, origin, client }) => {
      const { write } = shop.writer;
      await write("CREATE TABLE toy () INHERITS (product)");
      await origin.line("toy inherits from a table of views");
      await write("INSERT INTO toy VALUES (7, 'Kite', 2, 'k')");
      await untilReads([client], "name:Kite", "7");
      await write("DROP TABLE toy");
      await untilReads([client], "name:Kite", "");
      await write("ALTER PUBLICATION leased DROP TABLE product");
      await write("ALTER PUBLICATION leased ADD TABLE product WHERE (id > 2)");
      await origin.line("the publication leased has not all its changes");
      await untilReads([client], "name:Chess", "2");
      await write("UPDATE product SET name = 'Go' WHERE id = 2");
      await write("ALTER PUBLICATION leased DROP TABLE product");
      await shop.init();
      await untilReads([client], "name:Chess", "");
      await untilReads([client], "name:Go", "2");
    }),
  ["PostgreSQL"],
);

testDatabases(
  "changes that the publication left out while no origin ran empty the caches",
  async (database) => {
    await using shop = await Shop.open(database);
    const { write } = shop.writer;
    {
      await using origin = await shop.start();
      using client = await origin.connect();
      await untilReads([client], "name:Chess", "2");
    }
    {
      await using origin = await shop.start();
      using client = await origin.connect();
      await untilReads([client], "name:Chess", "2");
      assert(!origin.lines.some((line) => line.includes("all caches are emptied")));
    }
    await write("ALTER PUBLICATION leased DROP TABLE product");
    await write("UPDATE product SET name = 'Go' WHERE id = 2");
    await write("ALTER PUBLICATION leased ADD TABLE product");
    await using origin = await shop.start();
    await origin.line(/what views read has changed: .*; all caches are emptied/);
  },
  ["PostgreSQL"],
);

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
