// `leased views suggest` for schemas of many shapes: once its statements are executed, `views check` finds no mistake.
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { runViews } from "../../../../lib/operator/views_check.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { captured } from "../../../support/sessions/captured.ts";
import { type DatabaseKind, testDatabases } from "../../../support/servers/databases.ts";
import { prepare, statementsOf, suggest, suggested } from "./suggestions.ts";
import { openWriter } from "./shop.ts";

/** What the file for a table has. */
interface Expected {
  readonly table: string;
  /** The templates of the views, and those of their changes where they are others. */
  readonly views: readonly (string | readonly [name: string, changed: string])[];
  readonly statements?: readonly string[];
  /** Texts of comments. */
  readonly says?: readonly string[];
}

interface Schema {
  readonly name: string;
  readonly sql: string;
  readonly kinds?: readonly DatabaseKind[];
  /** Of PostgreSQL; without REPLICA IDENTITY and CONCURRENTLY, with names, they are those of SQLite. */
  readonly files: readonly Expected[];
}

const SCHEMAS: readonly Schema[] = [
  {
    name: "orders with lines",
    sql: `CREATE TABLE customer (id integer PRIMARY KEY, name text);
      CREATE TABLE orders (id integer PRIMARY KEY, customer_id integer REFERENCES customer, note text);
      CREATE TABLE line (order_id integer REFERENCES orders, number integer, amount integer, PRIMARY KEY (order_id, number));
      CREATE TABLE invoice (order_id integer PRIMARY KEY REFERENCES orders, total integer);`,
    files: [
      {
        table: "orders",
        views: [
          "orders:{id}",
          "orders_by_customer_id:{customer_id}",
          "invoice:{order_id}",
          "line_by_order_id:{order_id}",
        ],
        statements: [
          "ALTER TABLE orders REPLICA IDENTITY FULL;",
          "CREATE INDEX CONCURRENTLY ON orders (customer_id);",
        ],
      },
      { table: "line", views: ["line:{order_id},{number}", "line_by_order_id:{order_id}"] },
      { table: "invoice", views: ["invoice:{order_id}"] },
    ],
  },
  {
    name: "a tree, and two columns that refer to one table",
    sql: `CREATE TABLE node (id integer PRIMARY KEY, parent_id integer REFERENCES node);
      CREATE TABLE edge (id integer PRIMARY KEY, a integer REFERENCES node, b integer REFERENCES node);
      CREATE INDEX by_b ON edge (b, a);`,
    files: [
      {
        table: "node",
        views: ["node:{id}", "node_by_parent_id:{parent_id}", "edge_by_a:{a}", "edge_by_b:{b}"],
        statements: [
          "ALTER TABLE node REPLICA IDENTITY FULL;",
          "CREATE INDEX CONCURRENTLY ON node (parent_id);",
          "ALTER TABLE edge REPLICA IDENTITY FULL;",
          "CREATE INDEX CONCURRENTLY ON edge (a);",
        ],
      },
    ],
  },
  {
    name: "names of all kinds",
    sql:
      `CREATE TABLE "Order Book" ("Id" integer PRIMARY KEY, "select" text, "the ""owner""" integer REFERENCES "Order Book");
      CREATE TABLE "größe:{id}" ("1st" integer PRIMARY KEY, id integer REFERENCES "Order Book", "{id}" text);
      CREATE TABLE "***" ("-" integer PRIMARY KEY, ":" text);
      CREATE TABLE pair (a integer, "b c" integer, d integer, PRIMARY KEY (a, "b c", d));`,
    files: [
      {
        table: "Order Book",
        views: [
          "Order_Book:{Id}",
          ["Order_Book_by_the_owner_:{the_owner_}", "Order_Book_by_the_owner_:*"],
          ["größe_id__by_id:{id_}", "größe_id__by_id:{id}"],
        ],
        says: ['No template names "the ""owner""", which has other letters'],
      },
      {
        table: '"Order Book"',
        views: [
          "Order_Book:{Id}",
          ["Order_Book_by_the_owner_:{the_owner_}", "Order_Book_by_the_owner_:*"],
          ["größe_id__by_id:{id_}", "größe_id__by_id:{id}"],
        ],
      },
      {
        table: "größe:{id}",
        views: [["größe_id_:{_1st}", "größe_id_:*"], [
          "größe_id__by_id:{id_}",
          "größe_id__by_id:{id}",
        ]],
      },
      { table: "***", views: [["_:{_}", "_:*"]], says: ["deletes all keys of the view."] },
      {
        table: "pair",
        views: [["pair:{a},{b_c},{d}", "pair:{a},*"]],
        says: ["each change of pair deletes all keys that begin alike."],
      },
    ],
  },
  {
    name: "names of views that meet",
    sql: `CREATE TABLE a (id integer PRIMARY KEY, b_by_c integer REFERENCES a);
      CREATE TABLE a_by_b (id integer PRIMARY KEY, c integer REFERENCES a);
      CREATE TABLE "a:by:b" (id integer PRIMARY KEY, c integer REFERENCES a);`,
    files: [
      {
        table: "a",
        views: [
          "a:{id}",
          "a_by_b_by_c:{b_by_c}",
          "a_by_b_by_c_2:{c}",
          "a_by_b_by_c_3:{c}",
        ],
      },
    ],
  },
  {
    name: "texts stand last in a key",
    sql: `CREATE TABLE shop (tenant text, id integer, PRIMARY KEY (tenant, id));
      CREATE TABLE visit (id integer PRIMARY KEY, shop_tenant text, shop_id integer,
        FOREIGN KEY (shop_tenant, shop_id) REFERENCES shop (tenant, id));
      CREATE TABLE word (a text, b text, PRIMARY KEY (a, b));`,
    files: [
      {
        table: "shop",
        views: ["shop:{id},{tenant}", "visit_by_shop_id_shop_tenant:{shop_id},{shop_tenant}"],
      },
      {
        table: "word",
        views: ["word:{a},{b}"],
        says: ['A a with "," in it has no key of its own'],
      },
    ],
  },
  {
    name: "a table without a primary key",
    sql: `CREATE TABLE owner (id integer PRIMARY KEY);
      CREATE TABLE pet (code text NOT NULL, owner_id integer REFERENCES owner, name text);
      CREATE UNIQUE INDEX by_code ON pet (code);
      CREATE TABLE event (owner_id integer REFERENCES owner, at integer);`,
    files: [
      {
        table: "pet",
        views: ["pet:{code}", "pet_by_owner_id:{owner_id}"],
        statements: [
          "ALTER TABLE pet REPLICA IDENTITY FULL;",
          "CREATE INDEX CONCURRENTLY ON pet (owner_id);",
        ],
      },
      {
        table: "event",
        views: ["event_by_owner_id:{owner_id}"],
        statements: [
          "ALTER TABLE event REPLICA IDENTITY FULL;",
          "CREATE INDEX CONCURRENTLY ON event (owner_id);",
        ],
      },
    ],
  },
  {
    name: "types that no parameter has",
    sql: `CREATE TABLE rate (rate real PRIMARY KEY, name text);
      CREATE TABLE price (id integer PRIMARY KEY, rate real REFERENCES rate);`,
    files: [{
      table: "price",
      views: ["price:{id}"],
      says: ["Left out: the rows of price by rate: "],
    }],
  },
  {
    name: "a generated column",
    sql: `CREATE TABLE day (id integer PRIMARY KEY);
      CREATE TABLE hour (id integer PRIMARY KEY, day integer GENERATED ALWAYS AS (id / 24) STORED REFERENCES day);`,
    files: [
      {
        table: "day",
        views: ["day:{id}", ["hour_by_day:{day}", "hour_by_day:*"]],
        statements: ["CREATE INDEX CONCURRENTLY ON hour (day);"],
        says: ["No template names day, which is generated"],
      },
    ],
  },
  {
    name: "a table that many others name",
    sql: "CREATE TABLE hub (id integer PRIMARY KEY);" + Array.from(
      { length: 11 },
      (_, index) =>
        `CREATE TABLE s${index} (id integer PRIMARY KEY, hub_id integer REFERENCES hub);`,
    ).join("\n"),
    files: [{
      table: "hub",
      views: [
        "hub:{id}",
        ...["s0", "s1", "s10", "s2", "s3", "s4", "s5", "s6"].map((name) =>
          `${name}_by_hub_id:{hub_id}`
        ),
      ],
      says: ["Left out: the rows of s7, s8, s9: name one of these tables to have its views."],
    }],
  },
  {
    name: "long names",
    sql: `CREATE TABLE ${"n".repeat(63)} (id integer PRIMARY KEY, ${
      "c".repeat(63)
    } integer REFERENCES ${"n".repeat(63)}, ${
      Array.from({ length: 20 }, (_, index) => `column${index} text`).join(", ")
    });`,
    files: [{
      table: "n".repeat(63),
      views: [`${"n".repeat(60)}:{id}`, `${"n".repeat(60)}_2:{${"c".repeat(63)}}`],
    }],
  },
  {
    name: "types, schemas and identities",
    kinds: ["PostgreSQL"],
    sql: `CREATE EXTENSION citext; CREATE SCHEMA shop; CREATE SCHEMA "My Shop";
      CREATE TYPE mood AS ENUM ('new', 'in work'); CREATE DOMAIN moods AS mood; CREATE DOMAIN code AS varchar(9);
      CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
      CREATE TABLE shop.item (id uuid PRIMARY KEY, mail citext NOT NULL UNIQUE);
      CREATE TABLE "My Shop".item (at timestamptz, mood mood, item_id uuid REFERENCES shop.item, code code UNIQUE, PRIMARY KEY (mood, at));
      CREATE TABLE state (mood moods PRIMARY KEY);
      CREATE TABLE name (name text COLLATE loose PRIMARY KEY, day date UNIQUE);
      CREATE TABLE calendar (id bigint PRIMARY KEY, day date NOT NULL REFERENCES name (day), UNIQUE (day, id));
      CREATE TABLE note (id bigint PRIMARY KEY, name text COLLATE loose REFERENCES name, day date NOT NULL REFERENCES name (day), UNIQUE (day));
      CREATE TABLE late (id integer PRIMARY KEY DEFERRABLE);
      CREATE TABLE bare (id integer PRIMARY KEY); ALTER TABLE bare REPLICA IDENTITY NOTHING;`,
    files: [
      {
        table: "shop.item",
        views: ["shop.item:{id}", "My_Shop.item_by_item_id:{item_id}"],
        statements: [
          'ALTER TABLE "My Shop".item REPLICA IDENTITY FULL;',
          'CREATE INDEX CONCURRENTLY ON "My Shop".item (item_id);',
        ],
      },
      {
        table: '"My Shop".item',
        views: ["My_Shop.item:{at},{mood}", "My_Shop.item_by_item_id:{item_id}"],
      },
      {
        table: "calendar",
        views: ["calendar:{id}", "calendar_by_day:{day}"],
        statements: ["ALTER TABLE calendar REPLICA IDENTITY USING INDEX calendar_day_id_key;"],
      },
      {
        table: "note",
        views: ["note:{id}", "note_by_day:{day}"],
        statements: ["ALTER TABLE note REPLICA IDENTITY FULL;"],
        says: ["Left out: the rows of note by name: column name of note has a nondeterministic"],
      },
      {
        table: "late",
        views: ["late:{id}"],
        statements: ["ALTER TABLE late REPLICA IDENTITY FULL;"],
      },
      {
        table: "bare",
        views: ["bare:{id}"],
        statements: ["ALTER TABLE bare REPLICA IDENTITY USING INDEX bare_pkey;"],
      },
    ],
  },
  {
    name: "tables that refer to it and are not served",
    kinds: ["PostgreSQL"],
    sql: `CREATE TABLE item (id integer PRIMARY KEY);
      CREATE TABLE part (id integer, item_id integer REFERENCES item) PARTITION BY HASH (id);
      CREATE TABLE part_0 PARTITION OF part FOR VALUES WITH (MODULUS 1, REMAINDER 0);
      CREATE TABLE copy_of (id integer PRIMARY KEY, item_id integer REFERENCES item, note text);
      CREATE PUBLICATION theirs FOR TABLE copy_of (id, note);`,
    files: [{
      table: "item",
      views: ["item:{id}"],
      says: [
        "Left out: the rows of part: part has partitions",
        "Left out: the rows of copy_of by item_id: the log has no old item_id",
        "theirs has some of its columns",
      ],
    }, { table: "copy_of", views: ["copy_of:{id}"], statements: [] }],
  },
  {
    name: "columns of SQLite",
    kinds: ["SQLite"],
    sql: `CREATE TABLE Person (mail TEXT COLLATE NOCASE PRIMARY KEY) WITHOUT ROWID;
      CREATE TABLE pet (id INTEGER PRIMARY KEY, Owner TEXT REFERENCES person, untyped REFERENCES person, "no type" REFERENCES person, more AS (owner));
      CREATE INDEX by_owner ON pet (owner COLLATE NOCASE);
      CREATE TABLE pet_Owner (x);
      CREATE TABLE tag (word TEXT COLLATE NOCASE, mail TEXT COLLATE NOCASE REFERENCES person, PRIMARY KEY (word COLLATE BINARY));
      CREATE UNIQUE INDEX other ON tag (mail COLLATE BINARY);`,
    files: [{
      table: "tag",
      // Two rows may have keys that are equal by the collation of the column.
      views: ["tag_by_mail:{mail}"],
      statements: ["CREATE INDEX tag_mail ON tag (mail);"],
    }, {
      table: "PERSON",
      views: ["Person:{mail}", "pet_by_Owner:{Owner}", "tag_by_mail:{mail}"],
      statements: ["CREATE INDEX pet_Owner_2 ON pet (Owner);"],
      says: [
        "Left out: the rows of pet by untyped: column untyped of pet is of no type: must be",
        'Left out: the rows of pet by "no type": column no type of pet is of no type: must be',
      ],
    }],
  },
];

/** Returns what SQLite needs of the statements of PostgreSQL. */
function statementsFor(kind: DatabaseKind, statements: readonly string[]): string[] {
  if (kind === "PostgreSQL") return [...statements];
  return statements.filter((sql) => sql.startsWith("CREATE INDEX")).map((sql) =>
    sql.replace(/CONCURRENTLY ON (\w+) \((\w+)\)/, "$1_$2 ON $1 ($2)")
  );
}

/** A comment, as one line. */
function commentsOf(file: string): string {
  return file.replaceAll(/\s*\n\s*\/\/\s*/g, " ");
}

for (const { name, sql, kinds, files } of SCHEMAS) {
  testDatabases(`views suggest: ${name}`, async (database) => {
    const kind = database.folder === "" ? "PostgreSQL" : "SQLite";
    const folder = await Deno.makeTempDir();
    await using writer = await openWriter(database);
    await writer.write(sql);
    for (const { table, views, statements, says } of files) {
      const file = await suggested(database, table);
      const expected = views.map((each) => typeof each === "string" ? [each, each] : [...each]);
      const { all } = parseViews(file, "views.jsonc", [""]);
      const written = JSON.parse(file.replaceAll(/^\s*\/\/.*$/gm, "")) as Record<
        string,
        { changes: Record<string, string> }
      >;
      assertEquals(
        Object.entries(written).map(([view, { changes }]) => [view, ...Object.values(changes)]),
        expected,
      );
      // A key is of one view, whatever its parameters are.
      const prefixes = all.map(({ keys }) => keys.prefix);
      for (const prefix of prefixes) {
        assertEquals(prefixes.filter((each) => each.startsWith(prefix)), [prefix]);
      }
      if (statements !== undefined) {
        const wanted = kinds === undefined ? statementsFor(kind, statements) : [...statements];
        assertEquals(statementsOf(file), wanted);
      }
      for (const text of says ?? []) assertStringIncludes(commentsOf(file), text);
      for (const line of file.split("\n")) assert(line.length < 400, line);
      const path = `${folder}/views.jsonc`;
      await prepare(database, writer, path, file);
      const { result, stdout, stderr } = await captured(() =>
        runViews(["check", path, "--db", database.url])
      );
      assertEquals([result, stderr], [0, ""], file);
      assert(!stdout.includes("no index"), stdout);
      assertEquals(statementsOf(await suggested(database, table)), [], "nothing is lacking now");
    }
    await Deno.remove(folder, { recursive: true });
  }, kinds);
}

const REFUSED: readonly (readonly [table: string, status: number, message: string])[] = [
  ["rates", 1, "no view of rates can be served: "],
  ["heap", 1, "table heap has no primary key, no unique one of columns that are NOT NULL, and no"],
  ["seen", 1, "seen is a view: name a table that it reads"],
  ["kv", 1, "kv is the table of rows: views are of other tables"],
  ["Itm", 64, "there is no table Itm: "],
  ["x.y.z", 64, "there is no table x.y.z: "],
];
const REFUSED_BY: Readonly<Record<DatabaseKind, typeof REFUSED>> = {
  PostgreSQL: [
    ["parted", 1, "parted has partitions"],
    ["parted_0", 1, "parted_0 is a partition"],
    ["quick", 1, "quick is unlogged or temporary: its changes are not in the log"],
    ["parent", 1, "other tables inherit from parent"],
    ["frozen", 1, "frozen is a materialized view, whose changes are not in the log"],
    ["pg_class", 1, "pg_catalog.pg_class belongs to PostgreSQL"],
    ["item_pkey", 1, "item_pkey is no table"],
  ],
  SQLite: [
    ["words", 1, "words is a virtual table, whose changes cannot be noted"],
    ["sqlite_schema", 64, "there is no table sqlite_schema"],
    ["wrong", 1, "no view of wrong can be served: foreign key mismatch"],
  ],
};
const REFUSED_SQL = `CREATE TABLE item (id integer PRIMARY KEY);
  CREATE TABLE rates (rate real PRIMARY KEY); CREATE TABLE heap (a integer UNIQUE, b text);
  CREATE VIEW seen AS SELECT id FROM item; CREATE TABLE kv (key integer PRIMARY KEY);`;
const REFUSED_SQL_BY: Readonly<Record<DatabaseKind, string>> = {
  PostgreSQL: `CREATE TABLE parted (id integer PRIMARY KEY) PARTITION BY HASH (id);
    CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0);
    CREATE UNLOGGED TABLE quick (id integer PRIMARY KEY); CREATE MATERIALIZED VIEW frozen AS SELECT 1 AS one;
    CREATE TABLE parent (id integer PRIMARY KEY); CREATE TABLE heir () INHERITS (parent);`,
  SQLite:
    `CREATE VIRTUAL TABLE words USING fts5 (word); CREATE TABLE wrong (id integer PRIMARY KEY, a integer);
    CREATE TABLE other (a integer REFERENCES wrong (a));`,
};

testDatabases("views suggest: tables that it refuses", async (database) => {
  const kind = database.folder === "" ? "PostgreSQL" : "SQLite";
  await using writer = await openWriter(database);
  await writer.write(REFUSED_SQL + REFUSED_SQL_BY[kind]);
  for (const [table, status, message] of [...REFUSED, ...REFUSED_BY[kind]]) {
    const { result, stdout, stderr } = await suggest(database, table);
    assertEquals([result, stdout], [status, ""], stderr);
    assertStringIncludes(stderr, `leased: ${message}`);
  }
  const unknown = await suggest(database, "itm");
  assertMatch(unknown.stderr, /there is no table itm: .* has .*item.*; did you mean item\?/);
  const none = await suggest(database);
  assertEquals(none.result, 64);
  assertMatch(none.stderr, /name a table: .* has .*heap, .*item/);
  assert(!none.stderr.includes("kv") && !none.stderr.includes("seen"), none.stderr);
  // Another table of rows.
  assertEquals((await suggest(database, "kv", "--table", "rows")).result, 0);
});
