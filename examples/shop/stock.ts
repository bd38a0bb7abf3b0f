// The products of the shop in an SQLite file, with a cache in front: by `get`, `set` and `delete`, or by the client's flows.
import { setTimeout as sleep } from "node:timers/promises";
import { DatabaseSync } from "node:sqlite";
import { Cache } from "../../lib/client/mod.ts";

/** A product as pages show it. */
export interface Product {
  readonly id: number;
  readonly name: string;
  readonly price: number;
}

/** How the shop reads and changes its products. */
export interface Stock {
  product(id: number): Promise<Product | undefined>;
  /** The products of a page. */
  page(page: number): Promise<readonly Product[]>;
  change(id: number, price: number): Promise<void>;
}

export type Way = "plain" | "coherent";

export const PRODUCTS = 10_000;
export const PAGE_PRODUCTS = 50;
const TTL_SEC = 600;
/** What a query takes at most in a shop with more visitors. */
const QUERY_MS = 10;

/** Opens the products of a file, behind a cache. */
export function products(way: Way, file: string, address: string): Stock {
  const cache = new Cache(address);
  const database = new DatabaseSync(file, { timeout: 5000 });
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
  const { read, write } = way === "coherent"
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

  return {
    product: (id) => read(`product:${id}`, () => query<Product | undefined>(() => one.get(id))),
    page: async (page) =>
      await read(
        `page:${page}`,
        () => query<Product[]>(() => some.all(PAGE_PRODUCTS, page * PAGE_PRODUCTS)),
      ) ?? [],
    change: (id, price) =>
      write(
        [`product:${id}`, `page:${Math.floor(id / PAGE_PRODUCTS)}`],
        () => void change.run(price, id),
      ),
  };
}

/** A database is asked, and its answer takes some time to arrive. */
async function query<Row>(ask: () => unknown): Promise<Row> {
  const rows = ask();
  await sleep(Math.random() * QUERY_MS);
  return rows as Row;
}
