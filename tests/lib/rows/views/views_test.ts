// Views at an origin and a node, while other programs change the tables.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { Session } from "../../../../lib/rows/databases/postgres/session.ts";
import { type TestDatabase, testDatabases } from "../../../support/servers/databases.ts";
import { runInit, startNode, startProxy } from "../../../support/servers/proxy_process.ts";
import { type Client, type ServerProcess, until } from "../../../support/servers/server_process.ts";

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
    const { url } = this.database;
    const folder = `${this.database.folder}${this.database.folder && ","}${this.#folder}`;
    const { code, stderr } = await runInit({ url, folder }, [
      ...["--follow", "--views", this.path, "--run"],
    ]);
    assertEquals(code, 0, stderr);
  }

  get #folder(): string {
    return this.path.slice(0, this.path.lastIndexOf("/"));
  }

  async start(args: readonly string[] = []): Promise<ServerProcess> {
    const folder = `${this.database.folder}${this.database.folder && ","}${this.#folder}`;
    return await startProxy({ url: this.database.url, folder }, [], [
      ...["--follow", "--views", this.path, ...args],
    ]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.writer[Symbol.asyncDispose]();
    await Deno.remove(this.#folder, { recursive: true });
  }
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
  await using origin = await shop.start(["--member-time", "300"]);
  await using node = await startNode([origin]);
  using atOrigin = await origin.connect();
  using atNode = await node.connect();
  const both = [atOrigin, atNode];
  for (const client of both) {
    assertEquals(await read(client, "product:1"), '{"id":1,"name":"Atlas","category":"Books"}');
    assertEquals(
      await read(client, "category:1:names"),
      '[{"name":"Atlas"},{"name":"Diary"}]',
    );
    assertEquals(await read(client, "name:Chess"), "2");
    for (const absent of ["product:9", "product:abc", "product:01", "product:+1", "name:Go"]) {
      assertEquals(await read(client, absent), "");
    }
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
    await client.send("set product:1 0 0 1\r\nx\r\n");
    assertStringIncludes(await client.until("\r\n"), "the keys product:{id} are of a view");
    await client.send("set other 0 0 1\r\nx\r\n");
    assertEquals(await client.until("\r\n"), "STORED\r\n");
  }
});
