import { assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { Backend, Database } from "../../../lib/databases/base/backend.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { openBackend } from "../../../lib/databases/open_backend.ts";
import { TableWriter } from "../../chaos/table_writer.ts";
import { type TestDatabase, testDatabases } from "../../support/servers/databases.ts";

/** Opens a database that is only read. */
function openReader({ url }: TestDatabase): Promise<Backend> {
  const database: Database = url.startsWith("sqlite:")
    ? { kind: "sqlite", path: url.slice("sqlite:".length) }
    : { kind: "postgres", url };
  return openBackend({
    ...{ database, dbConnections: 1, dbTimeoutMs: 30_000 },
    ...{ names: DEFAULT_TABLE, isReader: true },
  });
}

testDatabases("a reader makes no table, and says which is missing", async (database) => {
  await using writer = new TableWriter(database);
  await writer.query("CREATE TABLE other (id integer)");
  const error = await assertRejects(() => openReader(database));
  assertEquals(/kv/.test(`${error}`), true, `${error}`);
  // Neither of the two is there.
  for (const table of ["kv", "leased_proxy"]) {
    await writer.query(`CREATE TABLE ${table} (id integer)`);
  }
});

testDatabases("a reader reads what the origin has written", async (database) => {
  const origin = await database.open();
  const { epoch } = await origin.takeOver();
  const edit = { flags: 7, data: new TextEncoder().encode("v") };
  await origin.writeGroup([{ key: "k", tokenId: 1, edit, owner: "" }], epoch);
  const reader = await openReader(database);
  const [found] = await reader.readMany(["k"]);
  assertEquals([found!.epoch, found!.row?.flags, found!.version], [epoch, 7, 1]);
  await reader.close();
  await origin.close();
});

testDatabases("a reader waits for no writer", async (database) => {
  const origin = await database.open();
  const path = database.url.slice("sqlite:".length);
  using writer = new DatabaseSync(path);
  writer.exec("BEGIN EXCLUSIVE; INSERT INTO kv (key, version) VALUES (x'6b', 1)");
  const reader = await openReader(database);
  const [found] = await reader.readMany(["k"]);
  assertEquals(found!.version, 0);
  writer.exec("COMMIT");
  await reader.close();
  await origin.close();
}, ["SQLite"]);
