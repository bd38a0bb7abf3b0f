// A query of a view before SQLite, which cannot be interrupted: it delays no one else, and ends with an error in time.
import { assertEquals, assertMatch } from "@std/assert";
import { createDatabase } from "../../../support/servers/databases.ts";
import { until } from "../../../support/servers/server_process.ts";
import { healthOf, read, Shop, untilReads, VIEWS } from "./shop.ts";

/** Counts to {n}: 200000000 take more than a minute. */
const COUNT = `"count:{n}": {
    "query": [
      "WITH RECURSIVE upto (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM upto WHERE n < CAST({n} AS INTEGER))",
      "SELECT max(n) FROM upto"
    ],
    "value": "raw",
    "changes": { "product": "count:*" }
  },
  "product:{id}"`;

Deno.test("SQLite: a slow query of a view delays no row and no other view, and is given up in time", async () => {
  await using database = await createDatabase("SQLite");
  await using shop = await Shop.open(database, VIEWS.replace('"product:{id}"', COUNT));
  await using origin = await shop.start(["--admin", "127.0.0.1:0", "--db-timeout", "6000"]);
  using slow = await origin.connect();
  using client = await origin.connect();
  await untilReads([client], "count:3", "3");
  await until(async () => (await healthOf(origin)).startsWith("200"));
  await slow.send("get count:200000000\r\n");
  let isOver = false;
  const reply = slow.until(/\r\n$/).finally(() => isOver = true);
  await client.ask("set row 0 0 1\r\nx\r\n", "STORED\r\n");
  await client.ask("get row\r\n", "VALUE row 0 1\r\nx\r\nEND\r\n");
  assertEquals(await read(client, "name:Chess"), "2");
  assertEquals(isOver, false);
  const problem =
    /view count:\{n\}: its query has been running for more than 6000 ms \(--db-timeout\)/;
  assertMatch(await reply, problem);
  assertMatch(await read(client, "count:4"), problem);
  await until(async () =>
    /^503 .*view count:\{n\}: not cached, its query/.test(await healthOf(origin))
  );
  assertEquals(await read(client, "name:Diary"), "3");
  assertEquals((await origin.stop()).code, 0);
});
