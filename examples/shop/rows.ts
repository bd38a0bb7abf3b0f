// The products of the shop as rows of a server with --db, or of a node of it: SQLite or PostgreSQL behind the cache.
import { Cache } from "../../lib/client/mod.ts";
import { PAGE_PRODUCTS, type Product, PRODUCTS, type Stock } from "./stock.ts";

const PRICE = 100;
/** Writes in progress while the table is filled. */
const FILL_WRITES = 500;
const REPLY_MS = 20_000;

const keyOf = (id: number): string => `product:${id}`;

/** Opens the products of a server of rows, and fills its table when it is empty. */
export async function rows(address: string): Promise<Stock> {
  const cache = new Cache<Product>(address, { replyMs: REPLY_MS });
  if (await cache.get(keyOf(PRODUCTS - 1)) === undefined) await fill(cache);
  return {
    product: (id) => cache.get(keyOf(id)),
    page: async (page) => {
      const keys = Array.from(
        { length: PAGE_PRODUCTS },
        (_, at) => keyOf(page * PAGE_PRODUCTS + at),
      );
      const found = await cache.getMany(keys);
      return keys.flatMap((key) => found.get(key) ?? []);
    },
    change: async (id, price) => {
      const product = await cache.get(keyOf(id));
      if (product !== undefined) await cache.putRow(keyOf(id), { ...product, price });
    },
  };
}

async function fill(cache: Cache<Product>): Promise<void> {
  for (let first = 0; first < PRODUCTS; first += FILL_WRITES) {
    const products = Array.from({ length: FILL_WRITES }, (_, at) => {
      const id = first + at;
      return [keyOf(id), { id, name: `Product ${id}`, price: PRICE }] as const;
    });
    await cache.setMany(products);
  }
}
