// `leased views check` and `leased rows init` over SQLite, in this process: what they print, and with which status.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { runInit } from "../../../../lib/operator/init.ts";
import { runViews } from "../../../../lib/operator/views_check.ts";
import { captured } from "../../../support/sessions/captured.ts";

const [OK, DIFFERENT, USAGE, UNAVAILABLE] = [0, 1, 64, 69];
const SHOP = `CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, "o'k" INTEGER);
  CREATE TABLE price (product_id INTEGER PRIMARY KEY, cents INTEGER);`;

const PRODUCT = {
  query: "SELECT name, cents FROM product JOIN price ON product_id = id WHERE id = {id}",
  changes: { product: ["product:{id}", "product:{id}"], price: "product:{product_id}" },
};
const NAMES = { query: "SELECT name FROM product", value: "array", changes: { product: "names" } };
const VIEWS = {
  "product:{id}": PRODUCT,
  "names": NAMES,
  "page:{name}:{page}": {
    query: "SELECT id FROM product WHERE name = {name} LIMIT {page}",
    value: "array",
    changes: { product: "page:{name}:*" },
  },
};

/** Runs a test with a shop, and a file of views in one line each. */
async function withShop(
  run: (folder: string, db: string[], views: string) => Promise<void>,
  views: object = VIEWS,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/shop.db`;
  try {
    using file = new DatabaseSync(path);
    file.exec(SHOP);
    const lines = Object.entries(views).map((each) => JSON.stringify(Object.fromEntries([each])));
    const text = `{\n${lines.map((line) => line.slice(1, -1)).join(",\n")}\n}`;
    await Deno.writeTextFile(`${folder}/views.jsonc`, text);
    await run(folder, ["--db", `sqlite:${path}`], `${folder}/views.jsonc`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Executes the SQL that init prints. */
async function follow(db: readonly string[], views: string): Promise<string> {
  const { result, stdout, stderr } = await captured(() =>
    runInit([...db, "--follow", "--views", views])
  );
  assertEquals([result, stderr], [OK, ""]);
  using file = new DatabaseSync(db[1]!.slice("sqlite:".length));
  file.exec(stdout);
  return stdout;
}

Deno.test("views check: parameters, tables, scans, and the keys of a change", () =>
  withShop(async (_, db, views) => {
    const check = (...more: string[]) => captured(() => runViews(["check", views, ...db, ...more]));
    const before = await check();
    assertEquals(before.result, DIFFERENT);
    assertStringIncludes(
      before.stderr,
      `${views}:2: view product:{id} and 2 more: the triggers of its tables are missing or old`,
    );
    await follow(db, views);
    const { result, stdout, stderr } = await check();
    assertEquals([result, stderr], [OK, ""]);
    assertEquals(stdout.split("\n"), [
      "product:{id}",
      "  parameters: id is bigint",
      "  reads: product, price",
      "names",
      "  parameters: none",
      "  reads: product",
      "  no index: reads all of product",
      "page:{name}:{page}",
      "  parameters: name is text, page is text",
      "  reads: product",
      "  no index: reads all of product",
      "",
    ]);
    const changed = async (row: string): Promise<string> =>
      (await check("--change", row)).stdout.split("\n").at(-2)!;
    assertEquals(
      await changed('product {"id": 7, "name": "é"}'),
      "product: deletes product:7 names page:é:*",
    );
    assertEquals(
      await changed('product{"id":true,"name":null}'),
      "product: deletes product:t names page:*",
    );
    assertEquals(await changed('price  {"product_id": false}'), "price: deletes product:f");
    const exact = "product: deletes product:9007199254740993 names page:*";
    assertEquals(await changed('product {"id": 9007199254740993}'), exact);
    for (const table of ["other", "Product", "public.product"]) {
      const { result, stderr } = await check("--change", `${table} {"id": 1}`);
      assertEquals(result, USAGE);
      assertStringIncludes(
        stderr,
        `--change: no view names table ${table}: must be product or price`,
      );
    }
    assertEquals(
      await changed(`product {"id": 1, "name": "${"n".repeat(300)}"}`),
      "product: deletes product:1 names",
    );
    for (const text of ["price", '{"a": 1}', "price {", "price 7"]) {
      const refused = await check("--change", text);
      assertEquals([refused.result, refused.stdout], [USAGE, ""]);
      assertStringIncludes(
        refused.stderr,
        `--change ${JSON.stringify(text)}: must be a table and a row`,
      );
    }
  }));

Deno.test("views check warns of a view that grows old unnoticed", () =>
  withShop(async (_, db, views) => {
    await follow(db, views);
    const { result, stdout, stderr } = await captured(() => runViews(["check", views, ...db]));
    assertEquals([result, stderr], [OK, ""]);
    const warning = "no change of which is noticed: give it a max-age";
    assertStringIncludes(stdout, `\n  warning: its result depends on random(), ${warning}\n`);
  }, { "names": { ...NAMES, query: "SELECT name FROM product ORDER BY random()" } }));

Deno.test("views check: the words of its command line", () =>
  withShop(async (folder, db, views) => {
    const check = (...argv: string[]) => captured(() => runViews(argv));
    for (
      const [argv, status, message] of [
        [[], USAGE, "the commands are check and suggest"],
        [["check"], USAGE, "name one file of views"],
        [["check", views, views], USAGE, "name one file of views"],
        [["show", views], USAGE, "the commands are check and suggest"],
        [["check", views, "--db", "x"], USAGE, '--db "x": must be'],
        [["check", `${folder}/none`, ...db], USAGE, "none"],
        [["check", views, "--db", "sqlite:/none/x"], UNAVAILABLE, "cannot ask /none/x: "],
      ] as const
    ) {
      const { result, stderr } = await check(...argv);
      assertEquals(result, status, argv.join(" "));
      assertStringIncludes(stderr, message);
    }
    const help = await check("--help");
    assertEquals(help.result, OK);
    assertStringIncludes(help.stdout, "Usage: leased views check <file> [options]");
    assertStringIncludes(help.stdout, "  64  a mistake in the command line");
    const json = await check("check", `${folder}/none`, "--log-format", "json");
    assertEquals(JSON.parse(json.stderr).event, "views_refused");
  }));

/** Views that SQLite cannot serve, and why; the table of each is `item`. */
const MISTAKES:
  readonly (readonly [table: string, column: string, query: string, mistake: string])[] = [
    ["id REAL", "id", "id = {x}", "column id of item is REAL: must be an integer, or text whose"],
    ["id BLOB", "id", "id = {x}", "column id of item is BLOB: must be an integer, or text whose"],
    ["id TEXT COLLATE RTRIM", "id", "id = {x}", "column id of item is TEXT COLLATE RTRIM: must be"],
    ["id TEXT", "id", "id = {x} COLLATE NOCASE", "its query compares text by a collation"],
    ["id TEXT COLLATE NOCASE", "id", "id = {x} COLLATE RTRIM", "its query compares text by a"],
    ["id TEXT", "none", "id = {x}", "table item has no column none"],
  ];
/** Views that it can serve, with the types of their parameters. */
const TYPES: readonly (readonly [table: string, column: string, query: string, type: string])[] = [
  ["id INTEGER", "id", "id = {x}", "bigint"],
  ["id unsigned big int", "id", "id = {x}", "bigint"],
  ["id VARCHAR(20)", "id", "id = {x}", "text"],
  ["id clob", "id", "id = {x}", "text"],
  ["id CHARINT", "id", "id = {x}", "bigint"],
  ["id INTEGER, name TEXT COLLATE NOCASE", "id", "id = {x}", "bigint"],
  ["id INT, name TEXT COLLATE NOCASE", "name", "name = {x}", "text without case"],
  ["id INT, name TEXT COLLATE `nocase`", "name", "name = {x} COLLATE NOCASE", "text without case"],
  ["id TEXT, name TEXT COLLATE NOCASE", "id", "id = {x}", "text"],
  ["id INTEGER", "id", "id = {x} AND '' = '' COLLATE NOCASE", "bigint"],
];

for (const [isGood, cases] of [[false, MISTAKES], [true, TYPES]] as const) {
  for (const [table, column, query, expected] of cases) {
    Deno.test(`views check: ${table} by ${column}, ${query}: ${expected}`, () =>
      withShop(async (_, db, views) => {
        using file = new DatabaseSync(db[1]!.slice("sqlite:".length));
        file.exec(`CREATE TABLE item (${table})`);
        if (isGood) await follow(db, views);
        const { result, stdout, stderr } = await captured(() => runViews(["check", views, ...db]));
        if (isGood) return assertStringIncludes(stdout, `parameters: x is ${expected}\n`);
        assertEquals(result, DIFFERENT);
        assertStringIncludes(stderr, `${views}:2: view v:{x}: ${expected}`);
      }, {
        "v:{x}": { query: `SELECT * FROM item WHERE ${query}`, changes: { item: `v:{${column}}` } },
      }));
  }
}

Deno.test("views check: tables that are rows, or none, and parameters of two types", () =>
  withShop(async (_, db, views) => {
    using file = new DatabaseSync(db[1]!.slice("sqlite:".length));
    file.exec("CREATE TABLE kv (key BLOB PRIMARY KEY); CREATE TABLE t (id TEXT)");
    const { stdout, stderr } = await captured(() => runViews(["check", views, ...db]));
    for (
      const mistake of [
        ":2: view a:{x}: Kv is the table of rows: views are of other tables",
        ":3: view b:{x}: there is no table gone",
        ":4: view c:{x}: its query reads table price, which changes must name",
      ]
    ) assertStringIncludes(stderr, `${views}${mistake}`);
    assertStringIncludes(stdout, "c:{x}\n  parameters: x is bigint\n");
    // One of another name.
    const other = await captured(() => runViews(["check", views, ...db, "--table", "rows"]));
    assert(!other.stderr.includes("the table of rows"));
  }, {
    "a:{x}": { query: "SELECT 1 AS one FROM kv WHERE key = {x}", changes: { Kv: "a:*" } },
    "b:{x}": { query: "SELECT {x} AS x", changes: { gone: "b:{x}" } },
    "c:{x}": {
      query: "SELECT * FROM product, (SELECT id AS other FROM t), price WHERE id = {x}",
      changes: { product: "c:{id}", t: "c:{id}" },
    },
  }));

Deno.test("init prints the tables, and with --follow the triggers of a file that may be missing", () =>
  withShop(async (folder, db, views) => {
    const init = (...argv: string[]) => captured(() => runInit(argv));
    const plain = await init(...db);
    assertEquals([plain.result, plain.stderr], [OK, ""]);
    assert(plain.stdout.endsWith("(at);\n") && !plain.stdout.includes("TRIGGER"));
    assert(!plain.stdout.includes("expires"));
    const names = ["--table", "t", "--key-column", "k", "--value-column", "v"];
    const missing = await init("--db", `sqlite:${folder}/none.db`, ...names, "--follow");
    assertStringIncludes(
      missing.stdout,
      'CREATE TABLE IF NOT EXISTS "t" (\n  "k" BLOB PRIMARY KEY',
    );
    assertStringIncludes(missing.stdout, 'CREATE TRIGGER "leased_change_inserted_t"');
    using made = new DatabaseSync(":memory:");
    made.exec(missing.stdout);
    made.exec("INSERT INTO t (k) VALUES (x'61')");
    assertEquals(made.prepare("SELECT count(*) AS count FROM leased_changes").get()!["count"], 1);
    const printed = await follow(db, views);
    assertStringIncludes(printed, 'ON "price"');
    const again = await init(...db, "--follow", "--views", views);
    assert(!again.stdout.includes('TRIGGER "'), "nothing is missing");
    const less = await init(...db, "--follow");
    assertStringIncludes(less.stdout, 'DROP TRIGGER "leased_change_updated_price";');
    const postgres = await init("--db", "postgres://h/x", "--follow", "--views", views);
    assertStringIncludes(postgres.stdout, "CREATE PUBLICATION leased FOR TABLE");
    assertStringIncludes(postgres.stdout, "followed regclass := 'price'");
    const tables = await init("--db", "postgres://h/x");
    assert(!tables.stdout.includes("PUBLICATION"));
    const alone = await init(...db, "--views", views);
    assertEquals(alone.result, USAGE);
    assertStringIncludes(alone.stderr, "--views: needs --follow");
    const none = await init(...db, "--follow", "--views", `${folder}/none`);
    assertEquals(none.result, USAGE);
    assertStringIncludes(none.stderr, "--views: ");
    const help = await init("--help");
    assertStringIncludes(help.stdout, "Usage: leased rows init [options]");
    const times = await init(...db, "--row-expiry", "column", "--expiry-column", "until");
    assertStringIncludes(times.stdout, '"until" INTEGER');
  }));

Deno.test("views check: the keys of a change have the form that reads accept", () =>
  withShop(async (_, db, views) => {
    using file = new DatabaseSync(db[1]!.slice("sqlite:".length));
    file.exec("CREATE TABLE person (mail TEXT COLLATE NOCASE PRIMARY KEY)");
    await follow(db, views);
    const change = ["--change", 'person {"mail": "Jo@X.ÖRG"}'];
    const { stdout } = await captured(() => runViews(["check", views, ...db, ...change]));
    assertStringIncludes(stdout, "person: deletes p:jo@x.Örg\n");
  }, {
    "p:{mail}": {
      query: "SELECT mail FROM person WHERE mail = {mail}",
      changes: { person: "p:{mail}" },
    },
  }));
