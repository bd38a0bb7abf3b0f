// Views that no longer fit the schema: they are read from the database or refused, and all others go on.
import { assertEquals, assertMatch } from "@std/assert";
import { testDatabases } from "../../../support/servers/databases.ts";
import { type ServerProcess, until } from "../../../support/servers/server_process.ts";
import { healthOf, read, Shop, untilReads } from "./shop.ts";

async function startBoth(shop: Shop): Promise<ServerProcess> {
  return await shop.start(["--admin", "127.0.0.1:0"]);
}

testDatabases(
  "a column that is renamed breaks its views alone, until it is named so again",
  async (database) => {
    await using shop = await Shop.open(database);
    const { write } = shop.writer;
    await using origin = await startBoth(shop);
    using client = await origin.connect();
    const product = '{"id":2,"name":"Chess","category":"Games"}';
    await untilReads([client], "product:2", product);
    await untilReads([client], "name:Chess", "2");
    await untilReads([client], "category:2:names", '[{"name":"Chess"}]');
    await write("ALTER TABLE category RENAME COLUMN name TO title");
    await origin.line("view product:{id} is not cached");
    const named = /^503 .*view product:\{id\}: not cached, .*name/;
    await until(async () => named.test(await healthOf(origin)));
    assertMatch(await client.stats("rows"), /STAT views_broken 1\r/);
    const refused = /^SERVER_ERROR .*view product:\{id\}: .*name/;
    await until(async () => refused.test(await read(client, "product:2")));
    // The other two follow the log as before.
    await write("UPDATE product SET name = 'Go' WHERE id = 2");
    await untilReads([client], "name:Chess", "");
    await untilReads([client], "name:Go", "2");
    await untilReads([client], "category:2:names", '[{"name":"Go"}]');
    await client.ask("follow wait now 60000\r\n", "OK\r\n");
    await write("ALTER TABLE category RENAME COLUMN title TO name");
    await origin.line("view product:{id} is cached again");
    await until(async () => (await healthOf(origin)).startsWith("200"));
    await untilReads([client], "product:2", product.replace("Chess", "Go"));
    await write("UPDATE category SET name = 'Play' WHERE id = 2");
    await untilReads([client], "product:2", '{"id":2,"name":"Go","category":"Play"}');
  },
);

testDatabases(
  "a view whose query runs, and whose changes the log lacks, is read from the database each time",
  async (database) => {
    await using shop = await Shop.open(database);
    const { write } = shop.writer;
    const isSqlite = database.url.startsWith("sqlite:");
    await using origin = await startBoth(shop);
    using client = await origin.connect();
    const named = (name: string): string => `{"id":2,"name":"Chess","category":"${name}"}`;
    await untilReads([client], "product:2", named("Games"));
    await untilReads([client], "name:Chess", "2");
    // As tools of migrations do with SQLite, which then has no triggers.
    await write(
      isSqlite
        ? "CREATE TABLE made (id integer PRIMARY KEY, name text NOT NULL); INSERT INTO made SELECT * FROM category; " +
          "DROP TABLE category; ALTER TABLE made RENAME TO category"
        : "ALTER PUBLICATION leased DROP TABLE category",
    );
    await origin.line("view product:{id} is not cached");
    // The log says so first, and then what is cached is deleted.
    await write("UPDATE category SET name = 'Zero' WHERE id = 2");
    await untilReads([client], "product:2", named("Zero"));
    for (const name of ["One", "Two", "Three"]) {
      await write(`UPDATE category SET name = '${name}' WHERE id = 2`);
      // At once: nothing is kept.
      assertEquals(await read(client, "product:2"), named(name));
    }
    await write("UPDATE product SET name = 'Go' WHERE id = 2");
    await untilReads([client], "name:Chess", "");
    await write("UPDATE product SET name = 'Chess' WHERE id = 2");
    await untilReads([client], "name:Chess", "2");
    await shop.init();
    await origin.line("view product:{id} is cached again");
    await untilReads([client], "product:2", named("Three"));
    await write("UPDATE category SET name = 'Four' WHERE id = 2");
    await untilReads([client], "product:2", named("Four"));
  },
);

testDatabases(
  "rights that are taken and given break a view and mend it",
  async (database) => {
    await using shop = await Shop.open(database);
    const { write } = shop.writer;
    const role = `reader${Date.now()}`;
    await write(
      `CREATE ROLE ${role} LOGIN REPLICATION IN ROLE pg_read_all_data, pg_write_all_data; ` +
        "GRANT CREATE ON SCHEMA public TO " + role,
    );
    await write(`GRANT EXECUTE ON FUNCTION pg_control_system() TO ${role}`);
    const url = new URL(database.url);
    url.username = role;
    const asReader = new Shop({ ...database, url: url.href }, shop.writer, shop.path);
    await using origin = await startBoth(asReader);
    using client = await origin.connect();
    await untilReads([client], "name:Chess", "2");
    await write(`REVOKE pg_read_all_data FROM ${role}`);
    const others = "kv, leased_proxy, leased_applied, leased_follow, category";
    await write(`GRANT SELECT, INSERT, UPDATE, DELETE ON ${others} TO ${role}`);
    await origin.line("view name:{name} is not cached");
    const refused = /^SERVER_ERROR .*permission denied/;
    await until(async () => refused.test(await read(client, "name:Chess")));
    await write(`GRANT SELECT ON product TO ${role}`);
    await origin.line("view name:{name} is cached again");
    await untilReads([client], "name:Chess", "2");
  },
  ["PostgreSQL"],
);

testDatabases(
  "a file that is replaced is read no more: reads, hits and waits fail, and health says so",
  async (database) => {
    await using shop = await Shop.open(database);
    await using origin = await startBoth(shop);
    using client = await origin.connect();
    await untilReads([client], "name:Chess", "2");
    const file = shop.database.url.slice("sqlite:".length);
    const other = `${file}-other`;
    await Deno.copyFile(file, other);
    await Deno.rename(other, file);
    const replaced = /the file was deleted or replaced/;
    // Within a second the right to serve rows ends, too.
    const refused = /the file was deleted or replaced|this origin serves no rows any more/;
    assertMatch(await read(client, "name:Atlas"), refused);
    assertMatch(await read(client, "plain"), refused);
    await client.send("follow wait now 1000\r\n");
    assertMatch(await client.until(/\r\n$/), replaced);
    const hit = /^SERVER_ERROR rows are not available: this origin serves no rows any more/;
    await until(async () => hit.test(await read(client, "name:Chess")));
    await until(async () => replaced.test(await healthOf(origin)));
    await origin.line("changes of rows are not applied: the file was deleted or replaced");
  },
  ["SQLite"],
);

testDatabases(
  "a table that loses its key leaves the publication, so that programs can write to it",
  async (database) => {
    await using shop = await Shop.open(database);
    const { write } = shop.writer;
    await using origin = await startBoth(shop);
    using client = await origin.connect();
    await untilReads([client], "name:Chess", "2");
    await write("ALTER TABLE product REPLICA IDENTITY DEFAULT, DROP CONSTRAINT product_pkey");
    await until(async () => {
      return await write("UPDATE product SET name = 'Go' WHERE id = 2").then(
        () => true,
        () => false,
      );
    });
    await origin.line(/view name:\{name\} is not cached, .*: .* has no key for the log/);
    await untilReads([client], "name:Go", "2");
    await untilReads([client], "name:Chess", "");
    await write("ALTER TABLE product ADD PRIMARY KEY (id), REPLICA IDENTITY FULL");
    await shop.init();
    await origin.line("view name:{name} is cached again");
    await untilReads([client], "name:Go", "2");
    await write("UPDATE product SET name = 'Ur' WHERE id = 2");
    await untilReads([client], "name:Go", "");
  },
  ["PostgreSQL"],
);
