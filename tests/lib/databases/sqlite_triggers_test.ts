// Every row that a statement changes or removes is noted, whatever makes SQLite remove it.
import { assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { sqliteSchema } from "../../../lib/databases/base/schema.ts";
import { followSchema, viewsWithoutTriggers } from "../../../lib/databases/sqlite/triggers.ts";
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
  const missing = (): string[] => [
    ...viewsWithoutTriggers(database, DEFAULT_TABLE, viewsBy("name")).values(),
  ];
  assertEquals(missing(), []);
  database.exec("CREATE UNIQUE INDEX own ON product (sku)");
  assertEquals(missing(), ["leased_change_replacing_product"]);
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
  assertEquals(viewsWithoutTriggers(database, DEFAULT_TABLE, views).size, 0);
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
  assertEquals(viewsWithoutTriggers(database, DEFAULT_TABLE, views).size, 0);
  assertEquals(notedBy(database, "INSERT INTO product VALUES ('x')"), ["a:x", "b:x", "c:x"]);
});

Deno.test("a default is what SQLite takes it for, and no statement fails for its form", () => {
  // deno-fmt-ignore
  const defaults = [
    "normal", '"normal"', "[two words]", "`it``s`", '"it\'s ""quoted"""', "'x'", "'it''s'", "größe", "abort", "5", "-5", "+1.5", "x'ab'",
    "1e3", "0x1F", "('text')",
  ];
  // deno-fmt-ignore
  const expressions = ["TRUE", "false", "current_date", "(1 + 1)", "('a' || 'b')", "(abs(-3))", "(1 /* it's */ + 1)"];
  for (const each of [...defaults, ...expressions]) {
    const table = `CREATE TABLE product (name TEXT, sku NOT NULL DEFAULT ${each} UNIQUE)`;
    const plain = new DatabaseSync(":memory:");
    plain.exec(table);
    const noted = followed(table, viewsBy("name"));
    const changes = [
      "INSERT INTO product (name) VALUES ('old')",
      "INSERT OR REPLACE INTO product (name, sku) VALUES ('new', NULL)",
      "INSERT INTO product VALUES ('other', 'other')",
      "UPDATE OR REPLACE product SET sku = NULL WHERE name = 'other'",
    ];
    // No trigger evaluates an expression: any row may be the one that goes.
    const gone = (row: string): string => expressions.includes(each) ? "v:*" : row;
    const expected = [
      ["v:old"],
      [gone("v:old"), "v:new"],
      ["v:other"],
      [gone("v:new"), "v:other", "v:other"],
    ];
    for (const [index, change] of changes.entries()) {
      plain.exec(change);
      assertEquals(notedBy(noted, change), expected[index], `${each}: ${change}`);
      const rows = "SELECT name, sku, typeof(sku) FROM product";
      assertEquals(noted.prepare(rows).all(), plain.prepare(rows).all(), `${each}: ${change}`);
    }
  }
});

Deno.test("a file whose texts are UTF-16 is not followed: no key of it would have its bytes", () => {
  for (const encoding of ["UTF-16le", "UTF-16be"]) {
    const database = new DatabaseSync(":memory:");
    database.exec(`PRAGMA encoding = '${encoding}'; CREATE TABLE product (name TEXT)`);
    const error = assertThrows(() => followSchema(database, DEFAULT_TABLE, viewsBy("name")), Error);
    assertEquals(
      error.message.split(";")[0],
      `the texts of the file are ${encoding}: to follow its changes they must be UTF-8`,
    );
  }
});

Deno.test("a default whose function a connection lacks, or whose value changes, is evaluated by no trigger", () => {
  using database = followed("", Views.NONE);
  let calls = 0;
  database.function("next_sku", {}, () => ++calls);
  const table = "CREATE TABLE product (name TEXT, sku NOT NULL DEFAULT (next_sku()) UNIQUE)";
  database.exec(table);
  database.exec(followSchema(database, DEFAULT_TABLE, viewsBy("name")));
  database.exec("INSERT INTO product VALUES ('old', 1)");
  const change = "INSERT OR REPLACE INTO product VALUES ('new', NULL)";
  assertEquals(notedBy(database, change), ["v:*", "v:new"]);
  assertEquals(calls, 1, "as without triggers");
  assertEquals(database.prepare("SELECT name FROM product").all().length, 1);
  database.exec("UPDATE product SET name = 'x'");
  using lacking = followed(table, viewsBy("name"));
  lacking.exec("INSERT INTO product VALUES ('old', 1); UPDATE product SET sku = 2");
});

Deno.test("a key of the row number alone needs no trigger before a change, which would evaluate values twice", () => {
  for (const [id, column] of [["id", "ID"], ["rowid", "rowid"]] as const) {
    using database = followed(
      `CREATE TABLE product (${id} INTEGER PRIMARY KEY, cents INT NOT NULL, name TEXT) STRICT`,
      viewsBy(column),
    );
    let calls = 0;
    database.function("next_id", {}, () => ++calls);
    assertEquals(notedBy(database, "INSERT INTO product VALUES (next_id(), 1, 'x')"), ["v:1"]);
    assertEquals(calls, 1);
    assertEquals(notedBy(database, "REPLACE INTO product VALUES (1, 2, 'y')"), ["v:1"]);
    assertEquals(notedBy(database, "UPDATE OR REPLACE product SET rowid = 2"), ["v:1", "v:2"]);
    database.exec("INSERT INTO product VALUES (1, 1, 'x')");
    assertEquals(
      new Set(notedBy(database, `UPDATE OR REPLACE product SET ${id} = 1 WHERE ${id} = 2`)),
      new Set(["v:1", "v:2"]),
    );
    // With a trigger before it, SQLite checks the type first, and refuses it.
    database.exec("INSERT OR IGNORE INTO product VALUES (3, NULL, x'00')");
  }
});

Deno.test("a unique text beside the row number is noted, and keys of the text itself by its new row", () => {
  using database = followed(
    "CREATE TABLE product (id TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID",
    viewsBy("id"),
  );
  assertEquals(notedBy(database, "REPLACE INTO product VALUES ('a', 'x'), ('a', 'y')"), [
    "v:a",
    "v:a",
  ]);
  // Values that are one key, and two texts.
  for (
    const [type, old, now, keys] of [
      ["", "1", "1.0", ["v:1", "v:1.0"]],
      ["BLOB", "1.0", "1", ["v:1.0", "v:1"]],
      ["TEXT COLLATE NOCASE", "'a'", "'A'", ["v:a", "v:a"]],
      ["TEXT COLLATE RTRIM", "'a'", "'a '", ["v:a", "v:a "]],
    ] as const
  ) {
    using other = followed(
      `CREATE TABLE product (id ${type} PRIMARY KEY, name TEXT) WITHOUT ROWID`,
      viewsBy("id"),
    );
    other.exec(`INSERT INTO product VALUES (${old}, 'x')`);
    const noted = notedBy(other, `REPLACE INTO product VALUES (${now}, 'y')`);
    assertEquals(other.prepare("SELECT name FROM product").all().map(({ name }) => name), ["y"]);
    assertEquals(noted, [...keys], type);
  }
});

Deno.test("a column that the table lacks is refused: with it in a trigger every statement would fail", () => {
  for (const table of ["id INTEGER, name TEXT", "id INTEGER, nam TEXT, low AS (lower(nam))"]) {
    using database = new DatabaseSync(":memory:");
    database.exec(`${sqliteSchema(DEFAULT_TABLE)} CREATE TABLE product (${table})`);
    assertThrows(
      () => followSchema(database, DEFAULT_TABLE, viewsBy("naem")),
      Error,
      "views.jsonc:1: view v:{x}: table product has no column naem",
    );
  }
  using database = followed("CREATE TABLE product (Name TEXT)", viewsBy("name"));
  assertEquals(notedBy(database, "INSERT INTO product VALUES ('a')"), ["v:a"]);
});

Deno.test("a table that a mistaken foreign key names is refused: inserts would fail", () => {
  const child = (table: string): string =>
    `CREATE TABLE child (x REFERENCES ${table} (${table === "kv" ? "value" : "name"}))`;
  for (const table of ["product", "kv"]) {
    const tables = `CREATE TABLE product (name TEXT); ${child(table)}`;
    assertThrows(
      () => followed(tables, viewsBy("name")),
      Error,
      `foreign key mismatch - "child" referencing "${table}": no row of ${table} could be inserted any more`,
    );
  }
  using database = followed(
    `CREATE TABLE product (name TEXT UNIQUE); ${child("product")}`,
    viewsBy("name"),
  );
  database.exec("INSERT INTO product VALUES ('a'); INSERT INTO child VALUES ('a')");
});
