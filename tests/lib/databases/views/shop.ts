// A shop whose tables are read by views, for tests of an origin with `--views`.
import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { Session } from "../../../../lib/databases/postgres/session.ts";
import type { TestDatabase } from "../../../support/servers/databases.ts";
import { launchOrigin, runInit, startOrigin } from "../../../support/servers/origin_process.ts";
import { type Client, type ServerProcess, until } from "../../../support/servers/server_process.ts";

const TABLES = `
CREATE TABLE category (id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE product (id integer PRIMARY KEY, name text NOT NULL, category_id integer, code text UNIQUE);
CREATE INDEX product_category ON product (category_id);
CREATE INDEX product_name ON product (name);
INSERT INTO category VALUES (1, 'Books'), (2, 'Games');
INSERT INTO product VALUES (1, 'Atlas', 1, 'a'), (2, 'Chess', 2, 'c'), (3, 'Diary', 1, 'd');
`;

export const VIEWS = `{
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

/** A busy machine may take long for a query. */
const PATIENCE = ["--db-timeout", "60000"];

/** Another program with a connection of its own. */
interface Writer extends AsyncDisposable {
  /** Executes statements in one transaction. */
  write(sql: string): Promise<void>;
  /** Executes one statement outside of a transaction. */
  writeAlone(sql: string): Promise<void>;
  /** Returns all rows of a table, in whatever order. */
  rows(table: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

export async function openWriter({ url }: TestDatabase): Promise<Writer> {
  if (url.startsWith("sqlite:")) {
    const file = new DatabaseSync(url.slice("sqlite:".length), { timeout: 10_000 });
    return {
      write: (sql) =>
        Promise.resolve().then(() => {
          try {
            file.exec(`BEGIN IMMEDIATE; ${sql}; COMMIT`);
          } finally {
            if (file.isTransaction) file.exec("ROLLBACK");
          }
        }),
      writeAlone: (sql) => Promise.resolve().then(() => file.exec(sql)),
      rows: (table) => Promise.resolve(file.prepare(`SELECT * FROM ${table}`).all()),
      [Symbol.asyncDispose]: () => Promise.resolve(file.close()),
    };
  }
  const session = await Session.open({ url, timeoutMs: 30_000 });
  return {
    write: async (sql) => {
      try {
        await session.query(sql);
      } catch (error) {
        // Of a statement BEGIN in it.
        await session.query("ROLLBACK");
        throw error;
      }
    },
    writeAlone: async (sql) => void await session.query(sql),
    rows: (table) => session.query(`SELECT * FROM ${table}`),
    [Symbol.asyncDispose]: () => session.close(),
  };
}

/** A database with tables and a file of views, ready for an origin. */
export class Shop implements AsyncDisposable {
  readonly database: TestDatabase;
  readonly writer: Writer;
  readonly path: string;

  constructor(database: TestDatabase, writer: Writer, path: string) {
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
    const patience = args.includes("--db-timeout") ? [] : PATIENCE;
    return await startOrigin(this.#place, [...this.#args, ...patience, ...args]);
  }

  launch(): ServerProcess {
    return launchOrigin(this.#place, [...this.#args, ...PATIENCE]);
  }

  /** All keys are rows, as at the nodes of the tests. */
  get #args(): readonly string[] {
    return ["--follow", "--views", this.path, "--rows", "*"];
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
export async function withOrigin(
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
export async function read(client: Client, key: string): Promise<string> {
  await client.send(`get ${key}\r\n`);
  const reply = await client.until(/END\r\n$|ERROR.*\r\n$/);
  return reply.startsWith("VALUE")
    ? reply.split("\r\n")[1]!
    : reply.replace(/^END\r\n$/, "").trim();
}

export async function untilReads(
  clients: readonly Client[],
  key: string,
  value: string,
): Promise<void> {
  for (const client of clients) await until(async () => await read(client, key) === value);
}

/** Returns status and text of `/health`, of a server with `--admin`. */
export async function healthOf(origin: ServerProcess): Promise<string> {
  const [admin] = /http:\/\/[^/]+/.exec(await origin.line("metrics are at http://"))!;
  const response = await fetch(`${admin}/health`);
  return `${response.status} ${(await response.text()).trim()}`;
}
