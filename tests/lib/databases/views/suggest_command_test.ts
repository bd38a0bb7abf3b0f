// `leased views suggest`: the whole text of a file, and the words of its command line.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { runSuggest } from "../../../../lib/operator/suggest/run.ts";
import { captured } from "../../../support/sessions/captured.ts";
import { testDatabases } from "../../../support/servers/databases.ts";
import { openWriter } from "./shop.ts";
import { suggest, suggested } from "./suggestions.ts";

const [OK, USAGE, UNAVAILABLE] = [0, 64, 69];

const TABLES = `CREATE TABLE customer (id integer PRIMARY KEY, name text);
  CREATE TABLE purchase (id integer PRIMARY KEY, customer_id integer REFERENCES customer, state text,
    placed text, paid text, sent text, note_of_the_customer text);
  CREATE TABLE line (purchase_id integer REFERENCES purchase, number integer, amount integer, PRIMARY KEY (purchase_id, number));
`;

/** The file for the table `purchase`, from its first view on. */
const VIEWS = `{
  // The row of purchase with this key.
  "purchase:{id}": {
    "query": [
      "SELECT id, customer_id, state, placed, paid, sent, note_of_the_customer",
      "FROM purchase WHERE id = {id}"
    ],
    "changes": { "purchase": "purchase:{id}" }
  },
  // All rows of purchase that refer to a row of customer.
  "purchase_by_customer_id:{customer_id}": {
    "query": [
      "SELECT id, customer_id, state, placed, paid, sent, note_of_the_customer",
      "FROM purchase WHERE customer_id = {customer_id} ORDER BY id"
    ],
    "value": "array",
    "changes": { "purchase": "purchase_by_customer_id:{customer_id}" }
  },
  // All rows of line that refer to a row of purchase.
  "line_by_purchase_id:{purchase_id}": {
    "query": [
      "SELECT purchase_id, number, amount",
      "FROM line WHERE purchase_id = {purchase_id} ORDER BY purchase_id, number"
    ],
    "value": "array",
    "changes": { "line": "line_by_purchase_id:{purchase_id}" }
  }
}
`;

const SQLITE_HEAD = `// Views of purchase: a first file for --views. docs/views.md explains it.
//
// 1. Execute:
//
//   CREATE INDEX purchase_customer_id ON purchase (customer_id); -- without it, each read scans the table
//
// 2. Make what the origin follows: leased rows init --follow --views <file> --run --db <database>
// 3. Check the file: leased views check <file> --db <database>
//
// An array has all rows of its key: where these may be many, add LIMIT to its
// query.
`;
const POSTGRES_HEAD = `// Views of purchase: a first file for --views. docs/views.md explains it.
//
// 1. Execute, as the owner of the tables:
//
//   ALTER TABLE purchase REPLICA IDENTITY FULL; -- the log needs the old customer_id
//   CREATE INDEX CONCURRENTLY ON purchase (customer_id); -- without it, each read scans the table
//
// 2. Make what the origin follows: leased rows init --follow --views <file> --run --db <database>
// 3. Check the file: leased views check <file> --db <database>
// 4. Let the user of the origin read: GRANT SELECT ON purchase, line TO <user>
//
// An array has all rows of its key: where these may be many, add LIMIT to its
// query.
`;

testDatabases("views suggest: the text of a file", async (database) => {
  await using writer = await openWriter(database);
  await writer.write(TABLES);
  const head = database.folder === "" ? POSTGRES_HEAD : SQLITE_HEAD;
  assertEquals(await suggested(database, "purchase"), head + VIEWS);
  const alone = await suggested(database, "customer");
  assertStringIncludes(
    alone,
    '  "customer:{id}": {\n    "query": "SELECT id, name FROM customer WHERE id = {id}",\n',
  );
  await writer.write("CREATE TABLE word (word text PRIMARY KEY)");
  const word = await suggested(database, "word");
  assert(!word.includes("Execute") && !word.includes("LIMIT"), word);
  assertStringIncludes(word, "// 1. Make what the origin follows: ");
});

testDatabases("views suggest: names with line breaks are no end of a comment", async (database) => {
  await using writer = await openWriter(database);
  await writer.write(
    'CREATE TABLE "a\n{b" (id integer PRIMARY KEY, "c\n  */d" integer REFERENCES "a\n{b")',
  );
  const file = await suggested(database, "a\n{b");
  const lines = file.split("\n").filter((line) => !/^ *\/\//.test(line));
  assertEquals(Object.keys(JSON.parse(lines.join("\n"))), ["a_b:{id}", "a_b_by_c_d:{c_d}"]);
});

Deno.test("views suggest: the words of its command line", async () => {
  const run = (...argv: string[]) => captured(() => runSuggest(argv));
  const cases: readonly (readonly [argv: readonly string[], status: number, message: string])[] = [
    [["a", "b"], USAGE, "name one table, not a and b"],
    [["a", "--db", "x"], USAGE, '--db "x": must be'],
    [["a", "--file", "x"], USAGE, "unknown option --file"],
    [["a", "--db", "sqlite:/none/x"], UNAVAILABLE, "cannot ask /none/x: "],
    [["--db", "sqlite:/none/x"], UNAVAILABLE, "cannot ask /none/x: "],
  ];
  for (const [argv, status, message] of cases) {
    const { result, stdout, stderr } = await run(...argv);
    assertEquals([result, stdout], [status, ""], argv.join(" "));
    assertStringIncludes(stderr, message);
  }
  const help = await run("--help");
  assertEquals(help.result, OK);
  assertStringIncludes(help.stdout, "Usage: leased views suggest <table> [options]");
  assertStringIncludes(help.stdout, "  1   no view of the table can be served");
});

testDatabases("views suggest: a database without tables, and one with many", async (database) => {
  const none = await suggest(database, "--log-format", "json");
  assertEquals(none.result, USAGE);
  const { event, message } = JSON.parse(none.stderr);
  assertEquals(event, "suggest_refused");
  assertStringIncludes(message, "has no table");
  await using writer = await openWriter(database);
  const numbers = Array.from({ length: 25 }, (_, index) => index + 10);
  await writer.write(numbers.map((each) => `CREATE TABLE t${each} (id integer)`).join(";"));
  const many = await suggest(database, "t1");
  assertEquals(many.result, USAGE);
  assertStringIncludes(many.stderr, "t28, t29 and 5 more");
  assertStringIncludes(many.stderr, "; did you mean t10");
}, ["PostgreSQL"]);
