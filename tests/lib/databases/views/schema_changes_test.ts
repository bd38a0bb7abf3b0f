// Views at an origin while the schema of the database changes, and the log with it.
import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { sharedPostgres, testDatabases } from "../../../support/servers/databases.ts";
import { until } from "../../../support/servers/server_process.ts";
import { Shop, untilReads, VIEWS, withOrigin } from "./shop.ts";

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
  "a table without its triggers is noticed, until init makes them",
  (database) =>
    withOrigin(database, async ({ shop, origin, client }) => {
      await shop.writer.write("DROP TRIGGER leased_change_updated_product");
      await origin.line("the triggers of its tables are missing or old");
      await shop.writer.write("UPDATE product SET name = 'Go' WHERE id = 2");
      await untilReads([client], "name:Chess", "");
      await shop.writer.write("UPDATE product SET name = 'Chess' WHERE id = 2");
      await untilReads([client], "name:Chess", "2");
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
    {
      await using origin = await shop.start();
      using client = await origin.connect();
      await untilReads([client], "name:Chess", "2");
      await unnoticed("Go");
      await origin.line("the schema has changed; all cached rows are deleted");
      await untilReads([client], "name:Chess", "");
      await untilReads([client], "name:Go", "2");
      // A query that has become wrong, until it is right again.
      await write("ALTER TABLE category RENAME COLUMN name TO title");
      await origin.line("no such column: category.name");
      await write("ALTER TABLE category RENAME COLUMN title TO name");
      await write("UPDATE product SET name = 'Ur' WHERE id = 2");
      await untilReads([client], "name:Go", "");
      await untilReads([client], "name:Ur", "2");
    }
    await unnoticed("Senet");
    await using origin = await shop.start();
    await origin.line("the schema has changed; all cached rows are deleted");
    assertEquals(origin.lines.filter((line) => line.includes("all cached rows")).length, 1);
  },
  ["SQLite"],
);

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
      // The first one is that of the new slot.
      const gaps = (): string[] =>
        origin.lines.filter((line) => line.includes("all cached rows are deleted"));
      await until(() => gaps().length > 1);
      await untilReads([client], "name:Chess", "");
      await untilReads([client], "name:CHESS", "2");
      await shop.writer.write("CREATE INDEX more ON product (code); ANALYZE product");
      await shop.writer.write("UPDATE product SET name = 'Go' WHERE id = 2");
      await untilReads([client], "name:CHESS", "");
      assertEquals(gaps().length, 2, gaps().join("\n"));
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
    await write(`${others} application_name = 'leased-origin' AND pid <> pg_backend_pid()`).catch(
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
      // The gap of the first start is over, and noted.
      await origin.line("changes of rows are applied");
    }
    {
      await using origin = await shop.start();
      using client = await origin.connect();
      await untilReads([client], "name:Chess", "2");
      const gaps = origin.lines.filter((line) => line.includes("all cached rows are deleted"));
      assertEquals(gaps, []);
    }
    await write("ALTER PUBLICATION leased DROP TABLE product");
    await write("UPDATE product SET name = 'Go' WHERE id = 2");
    await write("ALTER PUBLICATION leased ADD TABLE product");
    await using origin = await shop.start();
    await origin.line(/what views read has changed: .*; all cached rows are deleted/);
  },
  ["PostgreSQL"],
);
