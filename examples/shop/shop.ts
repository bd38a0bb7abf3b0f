// A web shop over SQLite, with a cache: shop.ts <port> <database file> <cache> <plain|coherent>
// GET /?page=0, GET /product/7, GET /product/7/edit, POST /product/7 with price=500. Several may share file and cache.
import { createServer, type IncomingMessage } from "node:http";
import { argv } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "node:sqlite";
import { Cache } from "../../lib/client/mod.ts";

interface Product {
  readonly id: number;
  readonly name: string;
  readonly price: number;
}

const PRODUCTS = 10_000;
const PAGE_PRODUCTS = 50;
const TTL_SEC = 600;
/** What a query takes at most in a shop with more visitors. */
const QUERY_MS = 10;

const [port, file, address, mode] = argv.slice(2);
const isCoherent = mode === "coherent";
const cache = new Cache(address!);
const database = new DatabaseSync(file!, { timeout: 5000 });
database.exec(
  "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;" +
    "CREATE TABLE IF NOT EXISTS product (id INTEGER PRIMARY KEY, name TEXT, price INTEGER);" +
    `WITH RECURSIVE n(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < ${
      PRODUCTS - 1
    }) ` +
    "INSERT OR IGNORE INTO product SELECT id, 'Product ' || id, 100 FROM n",
);
const one = database.prepare("SELECT id, name, price FROM product WHERE id = ?");
const some = database.prepare("SELECT id, name, price FROM product ORDER BY id LIMIT ? OFFSET ?");
const change = database.prepare("UPDATE product SET price = ? WHERE id = ?");

/** The two ways to cache: a read gets the value of a key, a write makes the values of keys invalid. */
const { read, write } = isCoherent
  ? {
    read: <Value>(key: string, load: () => Promise<Value>) =>
      cache.getOrLoad(key, load, { ttlSec: TTL_SEC }),
    write: (keys: string[], commit: () => void) => cache.put(keys, commit),
  }
  : {
    read: async <Value>(key: string, load: () => Promise<Value>) => {
      const found = await cache.get(key) as Value | undefined;
      if (found !== undefined) return found;
      const value = await load();
      await cache.set(key, value, { ttlSec: TTL_SEC });
      return value;
    },
    write: async (keys: string[], commit: () => void) => {
      commit();
      await cache.deleteMany(keys);
    },
  };

/** A database is asked, and its answer takes some time to arrive. */
async function query<Row>(ask: () => unknown): Promise<Row> {
  const rows = ask();
  await sleep(Math.random() * QUERY_MS);
  return rows as Row;
}

function product(id: number): Promise<Product | undefined> {
  return read(`product:${id}`, () => query<Product>(() => one.get(id)));
}

async function list(page: number): Promise<string> {
  const products = await read(
    `page:${page}`,
    () => query<Product[]>(() => some.all(PAGE_PRODUCTS, page * PAGE_PRODUCTS)),
  );
  const items = products!.map(({ id, name, price }) =>
    `<li><a href="/product/${id}">${name}</a> <span id="price${id}">${price}</span>`
  );
  return `<h1>Shop</h1><ul>${items.join("\n")}</ul><a href="/?page=${page + 1}">more</a>`;
}

async function detail(id: number, isForm: boolean): Promise<string> {
  const found = await product(id);
  if (found === undefined) return "<h1>No such product</h1>";
  const form =
    `<form method="post" action="/product/${id}"><input name="price"><button>Change</button></form>`;
  return `<h1>${found.name}</h1><p id="price${id}">${found.price}</p>` +
    (isForm ? form : `<a href="/product/${id}/edit">edit</a>`);
}

async function edit(id: number, request: IncomingMessage): Promise<string> {
  let body = "";
  for await (const part of request) body += part;
  const price = Number(new URLSearchParams(body).get("price"));
  await write(
    [`product:${id}`, `page:${Math.floor(id / PAGE_PRODUCTS)}`],
    () => void change.run(price, id),
  );
  return `<p>The price is ${price}.</p><a href="/product/${id}">back</a>`;
}

const server = createServer(async (request, response) => {
  try {
    const { pathname, searchParams } = new URL(request.url!, "http://shop");
    const [, id, form] = /^\/product\/(\d+)(\/edit)?$/.exec(pathname) ?? [];
    const html = id === undefined
      ? await list(Number(searchParams.get("page") ?? 0))
      : request.method === "POST"
      ? await edit(Number(id), request)
      : await detail(Number(id), form !== undefined);
    response.setHeader("content-type", "text/html").end(`<!doctype html>${html}`);
  } catch (error) {
    response.writeHead(500).end(String(error));
  }
});
// deno-lint-ignore no-console -- who started it waits for this line
server.listen(Number(port), "127.0.0.1", () => console.log("the shop is open"));
