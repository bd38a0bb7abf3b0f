// Every row that a statement changes or removes is noted, whatever makes SQLite remove it.
import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { sqliteSchema } from "../../../lib/databases/base/schema.ts";
import { followSchema, missingTriggers } from "../../../lib/databases/sqlite/triggers.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { Views } from "../../../lib/databases/views/view.ts";
import { parseViews } from "../../../lib/databases/views/views_file.ts";

const decoder = new TextDecoder();

/** Views of `product` by a column. */
function viewsBy(column: string): Views {
  const query = `SELECT * FROM product WHERE ${column} = {x}`;
  const file = { "v:{x}": { query, changes: { product: `v:{${column}}` } } };
  return parseViews(JSON.stringify(file), "views.jsonc", ["v:"]);
}

/** A file in memory whose changes are followed. */
function followed(tables: string, views: Views): DatabaseSync {
  const database = new DatabaseSync(":memory:");
  database.exec(sqliteSchema(DEFAULT_TABLE));
  database.exec(tables);
  database.exec(followSchema(database, DEFAULT_TABLE, views));
  return database;
}

/** Keys that a change notes, and texts that stand for all keys with them, with `*`. */
function notedBy(database: DatabaseSync, change: string): string[] {
  database.exec("DELETE FROM leased_changes");
  database.exec(change);
  const notes = database.prepare("SELECT key FROM leased_changes").all();
  return notes.map(({ key }) =>
    typeof key === "string" ? `${key}*` : decoder.decode(key as Uint8Array)
  );
}

/** The row `old` of each is removed by the change. */
const REPLACEMENTS:
  readonly (readonly [what: string, table: string, row: string, change: string])[] = [
    [
      "a primary key",
      "id INTEGER PRIMARY KEY, name TEXT",
      "1, 'old'",
      "INSERT OR REPLACE INTO product VALUES (1, 'new')",
    ],
    [
      "a unique column",
      "name TEXT, sku TEXT UNIQUE",
      "'old', 'a'",
      "REPLACE INTO product VALUES ('new', 'a')",
    ],
    [
      "a collation of the column",
      "name TEXT, sku TEXT COLLATE NOCASE UNIQUE",
      "'old', 'a'",
      "REPLACE INTO product VALUES ('new', 'A')",
    ],
    [
      "a collation of the constraint",
      "name TEXT, sku TEXT, UNIQUE (sku COLLATE NOCASE)",
      "'old', 'a'",
      "REPLACE INTO product VALUES ('new', 'A')",
    ],
    [
      "a conflict clause of the table",
      "name TEXT, sku TEXT UNIQUE ON CONFLICT REPLACE",
      "'old', 'a'",
      "INSERT INTO product VALUES ('new', 'a')",
    ],
    [
      "two columns",
      "name TEXT, a INTEGER, b TEXT, UNIQUE (a, b COLLATE RTRIM)",
      "'old', 1, 'x'",
      "REPLACE INTO product VALUES ('new', 1, 'x ')",
    ],
    [
      "the row number",
      "name TEXT",
      "'old'",
      "REPLACE INTO product (rowid, name) VALUES (1, 'new')",
    ],
    [
      "the row number beside a primary key of text",
      "name TEXT PRIMARY KEY",
      "'old'",
      "REPLACE INTO product (_rowid_, name) VALUES (1, 'new')",
    ],
    [
      "the row number under its last name",
      "rowid TEXT, _rowid_ TEXT, name TEXT",
      "'', '', 'old'",
      "REPLACE INTO product (oid, name) VALUES (1, 'new')",
    ],
    [
      "the row number without a name of its own",
      "id INTEGER PRIMARY KEY, rowid TEXT, _rowid_ TEXT, oid TEXT, name TEXT",
      "1, '', '', '', 'old'",
      "REPLACE INTO product (id, name) VALUES (1, 'new')",
    ],
    [
      "no row number",
      "id TEXT COLLATE NOCASE PRIMARY KEY, name TEXT) WITHOUT ROWID; -- ",
      "'a', 'old'",
      "REPLACE INTO product VALUES ('A', 'new')",
    ],
    [
      "a default in place of NULL",
      "name TEXT, sku TEXT NOT NULL DEFAULT 'a' UNIQUE",
      "'old', 'a'",
      "REPLACE INTO product VALUES ('new', NULL)",
    ],
    [
      "a generated column",
      "name TEXT, sku TEXT, low TEXT AS (lower(sku)) UNIQUE",
      "'old', 'a'",
      "REPLACE INTO product (name, sku) VALUES ('new', 'A')",
    ],
    [
      "an update",
      "id INTEGER PRIMARY KEY, name TEXT, sku TEXT COLLATE NOCASE UNIQUE",
      "1, 'old', 'a'), (2, 'new', 'b'",
      "UPDATE OR REPLACE product SET sku = 'A' WHERE id = 2",
    ],
    [
      "an update of the row number",
      "name TEXT",
      "'old'), ('new'",
      "UPDATE OR REPLACE product SET rowid = 1 WHERE rowid = 2",
    ],
  ];

for (const [what, table, row, change] of REPLACEMENTS) {
  Deno.test(`a row that is replaced by ${what} is noted`, () => {
    using database = followed(`CREATE TABLE product (${table});\n`, viewsBy("name"));
    database.exec(`INSERT INTO product VALUES (${row})`);
    assertEquals(new Set(notedBy(database, change)), new Set(["v:new", "v:old"]));
    assertEquals(database.prepare("SELECT name FROM product").all().map(({ name }) => name), [
      "new",
    ]);
  });
}

Deno.test("a row that is replaced by a unique index of its own is noted", () => {
  const index = (by: string): string =>
    `CREATE TABLE product (name TEXT, sku TEXT); CREATE UNIQUE INDEX own ON product (${by});
    INSERT INTO product VALUES ('old', 'a');`;
  const change = "REPLACE INTO product VALUES ('new', 'A')";
  for (const [by, noted] of [["sku COLLATE NOCASE", "v:old"], ["lower(sku)", "v:*"]] as const) {
    using database = followed(index(by), viewsBy("name"));
    assertEquals(new Set(notedBy(database, change)), new Set([noted, "v:new"]), by);
  }
});

Deno.test("rows that a foreign key removes are noted", () => {
  const tables = `CREATE TABLE shelf (id INTEGER PRIMARY KEY, label TEXT UNIQUE);
    CREATE TABLE product (name TEXT, shelf INTEGER REFERENCES shelf ON DELETE CASCADE);`;
  using database = followed(tables, viewsBy("name"));
  database.exec("INSERT INTO shelf VALUES (1, 'a'); INSERT INTO product VALUES ('old', 1)");
  assertEquals(notedBy(database, "REPLACE INTO shelf VALUES (2, 'a')"), ["v:old"]);
});

Deno.test("of an update, the row's own keys are noted once", () => {
  using database = followed(
    "CREATE TABLE product (name TEXT UNIQUE, cents INTEGER);",
    viewsBy("name"),
  );
  database.exec("INSERT INTO product VALUES ('a', 1), ('b', 1)");
  assertEquals(notedBy(database, "UPDATE product SET cents = 2 WHERE name = 'a'"), ["v:a", "v:a"]);
});

Deno.test("rows of the table of rows that are replaced are noted", () => {
  using database = followed("", Views.NONE);
  database.exec("INSERT INTO kv (rowid, key) VALUES (1, 'old')");
  assertEquals(
    new Set(notedBy(database, "REPLACE INTO kv (rowid, key) VALUES (1, 'new')")),
    new Set(["old", "new"]),
  );
  database.exec("UPDATE leased_follow SET own = 1");
  assertEquals(notedBy(database, "REPLACE INTO kv (rowid, key) VALUES (1, 'other')"), []);
});

Deno.test("a unique index that is made later makes the triggers old", () => {
  using database = followed("CREATE TABLE product (name TEXT, sku TEXT);", viewsBy("name"));
  const missing = (): string[] => missingTriggers(database, DEFAULT_TABLE, viewsBy("name"));
  assertEquals(missing(), []);
  database.exec("CREATE UNIQUE INDEX own ON product (sku)");
  assertEquals(missing(), ["leased_change_replacing_product", "leased_change_moving_product"]);
  database.exec(followSchema(database, DEFAULT_TABLE, viewsBy("name")));
  assertEquals(missing(), []);
});

Deno.test("keys of views may have any characters of texts and names of SQL", () => {
  const file = {
    "o'n''eil\\\":{x}'s": {
      query: "SELECT * FROM product WHERE name = {x}",
      changes: { product: ["o'n''eil\\\":{name}'s", "o'n''*"] },
    },
  };
  const views = parseViews(JSON.stringify(file), "views.jsonc", ["o"]);
  const database = followed("CREATE TABLE product (name TEXT)", views);
  assertEquals(missingTriggers(database, DEFAULT_TABLE, views), []);
  assertEquals(notedBy(database, "INSERT INTO product VALUES ('ann')"), [
    `o'n''eil\\":ann's`,
    "o'n''*",
  ]);
});

Deno.test("a table that views spell in two ways is noted for all of them", () => {
  const view = (table: string, prefix: string): Record<string, unknown> => ({
    [`${prefix}:{x}`]: {
      query: `SELECT * FROM ${table} WHERE name = {x}`,
      changes: { [table]: `${prefix}:{name}` },
    },
  });
  const file = { ...view("product", "a"), ...view("Product", "b"), ...view("PRODUCT", "c") };
  const views = parseViews(JSON.stringify(file), "views.jsonc", [""]);
  const database = followed("CREATE TABLE Product (name TEXT)", views);
  assertEquals(missingTriggers(database, DEFAULT_TABLE, views), []);
  assertEquals(notedBy(database, "INSERT INTO product VALUES ('x')"), ["a:x", "b:x", "c:x"]);
});
