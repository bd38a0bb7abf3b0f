// DDL and `follow wait`: what is read after OK is not older than the DDL.
import { assertEquals } from "@std/assert";
import { sharedPostgres, testDatabases } from "../../../support/servers/databases.ts";
import type { Client } from "../../../support/servers/server_process.ts";
import { read, Shop, untilReads } from "../../databases/views/shop.ts";

const ROUNDS = 3;
const STORM = 10_000;
/** Transactions with DDL that concern no view. */
const OTHERS = 500;

const TABLES = `
CREATE ROLE ddl_reader;
CREATE TYPE mood AS ENUM ('m0');
CREATE TABLE person (id integer PRIMARY KEY, mood mood); INSERT INTO person VALUES (1, 'm0'), (2, 'm0');
CREATE TABLE stock (id integer PRIMARY KEY, pieces integer); INSERT INTO stock VALUES (1, 0);
CREATE TABLE spare (id integer PRIMARY KEY, pieces integer); INSERT INTO spare VALUES (1, 0);
CREATE TABLE secret (id integer PRIMARY KEY, text text); INSERT INTO secret VALUES (1, 'told');
GRANT SELECT ON secret TO ddl_reader;
CREATE VIEW told AS SELECT * FROM secret; ALTER VIEW told OWNER TO ddl_reader;
`;

function view(query: string, changes: Readonly<Record<string, string>>): unknown {
  return { query, value: "raw", changes };
}

const VIEWS = JSON.stringify({
  "mood:{id}": view("SELECT mood::text FROM person WHERE id = {id}", { person: "mood:{id}" }),
  "stock:{id}": view("SELECT pieces FROM stock WHERE id = {id}", { stock: "stock:{id}" }),
  "spare:{id}": view("SELECT pieces FROM spare WHERE id = {id}", { spare: "spare:{id}" }),
  "told:{id}": view("SELECT text FROM told WHERE id = {id}", { secret: "told:{id}" }),
});

async function waitNow(client: Client): Promise<void> {
  await client.ask("follow wait now 60000\r\n", "OK\r\n");
}

testDatabases(
  "what is read after `follow wait now` comes after DDL that was committed before",
  async (database) => {
    const server = await sharedPostgres();
    await server.execute(TABLES, database.url);
    await using shop = await Shop.open(database, VIEWS);
    const { write } = shop.writer;
    await using origin = await shop.start();
    using client = await origin.connect();
    await waitNow(client);
    /** Reads a value into the cache, executes DDL, waits, and reads once. */
    const check = async (
      key: string,
      before: string,
      sql: string,
      after: string,
    ): Promise<void> => {
      await untilReads([client], key, before);
      await waitNow(client);
      await write(sql);
      await waitNow(client);
      assertEquals(await read(client, key), after, sql);
    };
    for (let round = 1; round <= ROUNDS; round++) {
      const [old, now] = [`m${round - 1}`, `m${round}`];
      await check("mood:1", old, `ALTER TYPE mood RENAME VALUE '${old}' TO '${now}'`, now);
      const swap = "BEGIN; ALTER TABLE stock RENAME TO other; ALTER TABLE spare RENAME TO stock; " +
        `ALTER TABLE other RENAME TO spare; UPDATE stock SET pieces = ${round}; COMMIT`;
      await check("stock:1", `${round - 1}`, swap, `${round}`);
      const [enable, disable] = ["ENABLE", "DISABLE"].map((verb) =>
        `ALTER TABLE secret ${verb} ROW LEVEL SECURITY`
      );
      await check("told:1", "told", enable!, "");
      await check("told:1", "", disable!, "told");
    }
    // Behind the swap, whose tables the log must have from its start.
    const again = "BEGIN; ALTER TABLE stock RENAME TO other; ALTER TABLE spare RENAME TO stock; " +
      "ALTER TABLE other RENAME TO spare; COMMIT";
    await check("stock:1", `${ROUNDS}`, `${again}; UPDATE stock SET pieces = 100`, "100");
    await check("stock:1", "100", "UPDATE stock SET pieces = 101", "101");
  },
  ["PostgreSQL"],
);

testDatabases(
  "a storm of DDL that concerns no view empties nothing, and changes are applied meanwhile",
  async (database) => {
    await using shop = await Shop.open(database);
    await using origin = await shop.start();
    using client = await origin.connect();
    await untilReads([client], "name:Chess", "2");
    await waitNow(client);
    const gaps = await client.stat("follow_gaps", "rows");
    const server = await sharedPostgres();
    const storm = (count: number, kind: string): Promise<string> =>
      server.execute(
        `DO $$ BEGIN FOR i IN 1..${count} LOOP EXECUTE format('CREATE ${kind} storm%s ()', i); COMMIT; ` +
          `EXECUTE format('DROP TABLE storm%s', i); COMMIT; END LOOP; END $$`,
        database.url,
      );
    const storms = [storm(STORM, "TEMP TABLE"), storm(OTHERS, "TABLE")];
    for (let round = 0; round < 20; round++) {
      const [from, to] = round % 2 === 0 ? ["Chess", "Go"] : ["Go", "Chess"];
      await shop.writer.write(`UPDATE product SET name = '${to}' WHERE id = 2`);
      await waitNow(client);
      assertEquals(await read(client, `name:${from}`), "");
      assertEquals(await read(client, `name:${to}`), "2");
    }
    await Promise.all(storms);
    await waitNow(client);
    assertEquals(await client.stat("follow_gaps", "rows"), gaps);
    assertEquals(origin.lines.filter((line) => line.includes("not applied")), []);
  },
  ["PostgreSQL"],
);
