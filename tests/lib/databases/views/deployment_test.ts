// A deployment that renames a column under load: programs write by the old name, then by the new one.
import { assertEquals, assertGreater } from "@std/assert";
import { type Applied, oldReads, type Seen } from "../../../chaos/views.ts";
import { testDatabases } from "../../../support/servers/databases.ts";
import { startNode } from "../../../support/servers/origin_process.ts";
import { type Client, until } from "../../../support/servers/server_process.ts";
import { openWriter, read, Shop, untilReads } from "./shop.ts";

const ITEMS = 3;
/** Writes by each name of the column. */
const WRITES = 40;

function viewsWith(column: string): string {
  return JSON.stringify({
    "product:{id}": {
      query: `SELECT id, ${column} AS count FROM product WHERE id = {id}`,
      changes: { product: "product:{id}" },
    },
    "names": {
      query: "SELECT name FROM product ORDER BY id",
      value: "array",
      changes: { product: "names" },
    },
  });
}

testDatabases(
  "a column is renamed under load: no read is older than what was applied",
  async (database) => {
    await using shop = await Shop.open(database, viewsWith("category_id"));
    await using origin = await shop.start();
    await using node = await startNode([origin]);
    await using writer = await openWriter(database);
    using asker = await origin.connect();
    const applied: Applied[] = [];
    const seen: Seen[] = [];
    let isOver = false;
    let count = 100;

    const write = async (column: string): Promise<void> => {
      for (let round = 0; round < WRITES; round++) {
        const id = 1 + round % ITEMS;
        await writer.write(`UPDATE product SET ${column} = ${++count} WHERE id = ${id}`);
        await asker.send("follow wait now 60000\r\n");
        const isApplied = (await asker.until(/\r\n$/)) === "OK\r\n";
        if (isApplied) applied.push({ id, count, at: performance.now() });
      }
    };
    const readOn = async (client: Client): Promise<void> => {
      for (let id = 1; !isOver; id = 1 + id % ITEMS) {
        const began = performance.now();
        const value = await read(client, `product:${id}`);
        // While its view is broken, a read is an error.
        if (!value.startsWith("{")) continue;
        seen.push({ id, count: JSON.parse(value).count, began });
      }
    };

    using atOrigin = await origin.connect();
    using atNode = await node.connect();
    const readers = [atOrigin, atNode].map(readOn);
    await write("category_id");
    await shop.writer.write("ALTER TABLE product RENAME COLUMN category_id TO category");
    await write("category");
    await origin.line("view product:{id} is not cached");
    await Deno.writeTextFile(shop.path, viewsWith("category"));
    origin.signal("SIGHUP");
    await origin.line("SIGHUP: 2 views are served");
    const before = seen.length;
    await write("category");
    await until(() => seen.length > before + ITEMS);
    isOver = true;
    await Promise.all(readers);
    assertEquals(oldReads(applied, seen), []);
    assertGreater(applied.length, WRITES);
    using client = await node.connect();
    for (let id = 1; id <= ITEMS; id++) {
      const last = applied.findLast((each) => each.id === id)!;
      await untilReads([client], `product:${id}`, `{"id":${id},"count":${last.count}}`);
    }
  },
);
