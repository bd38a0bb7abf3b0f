import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { sharedPostgres } from "../../support/servers/databases.ts";
import { HAS_POSTGRES } from "../../support/servers/postgres.ts";
import { runInit } from "../../support/servers/origin_process.ts";
import { needs } from "../../support/needs/needs.ts";

// After `init --follow` each statement of the application succeeds that succeeded before.

const OS_ERROR = 71;
const NAMES = ["--table", "articles", "--key-column", "slug", "--value-column", "body"];

interface TableCase {
  readonly name: string;
  /** Makes the table `articles` with the columns slug and body. */
  readonly sql: string;
  /** What `init` says; undefined: it succeeds. */
  readonly refused?: string;
}

const COLUMNS = "slug text NOT NULL, body text";
const PARTITIONS = "PARTITION BY HASH (slug); " +
  "CREATE TABLE part PARTITION OF articles FOR VALUES WITH (MODULUS 1, REMAINDER 0)";

// deno-fmt-ignore
const CASES: readonly TableCase[] = [
  { name: "a primary key of the key column", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug))` },
  { name: "a primary key with the key column in it", sql: `CREATE TABLE articles (lang text, ${COLUMNS}, PRIMARY KEY (lang, slug))` },
  { name: "REPLICA IDENTITY FULL, and another primary key", sql: `CREATE TABLE articles (id serial PRIMARY KEY, ${COLUMNS}, UNIQUE (slug)); ALTER TABLE articles REPLICA IDENTITY FULL` },
  { name: "REPLICA IDENTITY FULL, and no key at all", sql: `CREATE TABLE articles (${COLUMNS}); ALTER TABLE articles REPLICA IDENTITY FULL` },
  { name: "an index of the key column as identity", sql: `CREATE TABLE articles (id serial PRIMARY KEY, ${COLUMNS}); CREATE UNIQUE INDEX by_slug ON articles (slug); ALTER TABLE articles REPLICA IDENTITY USING INDEX by_slug` },
  { name: "another primary key", sql: `CREATE TABLE articles (id serial PRIMARY KEY, ${COLUMNS}, UNIQUE (slug))`,
    refused: "the log has id of an old row of table articles, and not slug" },
  { name: "a primary key that is deferrable", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug) DEFERRABLE)`,
    refused: "table articles has no key for the log" },
  { name: "no key", sql: `CREATE TABLE articles (${COLUMNS})`, refused: "table articles has no key for the log" },
  { name: "REPLICA IDENTITY NOTHING", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug)); ALTER TABLE articles REPLICA IDENTITY NOTHING`,
    refused: "table articles has no key for the log" },
  { name: "a generated key", sql: "CREATE TABLE articles (title text, body text, slug text GENERATED ALWAYS AS (lower(title)) STORED PRIMARY KEY)",
    refused: "column slug of table articles is generated" },
  { name: "a primary key with a generated column", sql: `CREATE TABLE articles (${COLUMNS}, made text GENERATED ALWAYS AS (lower(slug)) STORED, PRIMARY KEY (made, slug))` },
  { name: "partitions", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug)) ${PARTITIONS}; ALTER TABLE part REPLICA IDENTITY FULL` },
  { name: "a partition without a key for the log", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug)) ${PARTITIONS}; ALTER TABLE part REPLICA IDENTITY NOTHING`,
    refused: "table part has no key for the log" },
  { name: "partitions, and no primary key", sql: `CREATE TABLE articles (${COLUMNS}) ${PARTITIONS}; ALTER TABLE part REPLICA IDENTITY FULL`,
    refused: "table articles has no primary key that is not deferrable" },
  { name: "an heir without a key", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug)); CREATE TABLE heir () INHERITS (articles)`,
    refused: "tables inherit from table articles" },
  { name: "an unlogged table", sql: `CREATE UNLOGGED TABLE articles (${COLUMNS}, PRIMARY KEY (slug))`,
    refused: "articles is no table whose changes are in the log" },
  { name: "a publication of all tables", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug)); CREATE PUBLICATION leased FOR ALL TABLES`,
    refused: "publication leased, which has table articles or should, is not one that init has made" },
  { name: "a publication of insertions", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug)); CREATE PUBLICATION leased FOR TABLE articles WITH (publish = 'insert')`,
    refused: "is not one that init has made" },
];

for (const { name, sql, refused } of CASES) {
  Deno.test(`PostgreSQL: after init --follow the application's statements succeed: ${name}`, {
    ...needs("PostgreSQL", HAS_POSTGRES),
  }, async () => {
    const server = await sharedPostgres();
    const url = await server.createDatabase();
    const column = sql.includes("title") ? "title" : "slug";
    const lang = sql.includes("lang text") ? ["lang, ", "'en', "] : ["", ""];
    const insert = `INSERT INTO articles (${lang[0]}${column}, body) VALUES (${
      lang[1]
    }'a', 'b'), (${lang[1]}'c', 'd')`;
    await server.execute(`${sql}; ${insert}`, url);
    const { code, stderr } = await runInit({ url, folder: "" }, [...NAMES, "--follow", "--run"]);
    if (refused === undefined) assertEquals(code, 0, stderr);
    else {
      assertEquals(code, OS_ERROR, stderr);
      assertStringIncludes(stderr, refused);
    }
    await server.execute(
      `UPDATE articles SET body = 'e'; UPDATE articles SET ${column} = 'f' WHERE body = 'e' AND ${column} = 'a'; DELETE FROM articles`,
      url,
    );
  });
}

Deno.test("PostgreSQL: init mends a publication that makes the application's statements fail", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const server = await sharedPostgres();
  for (const identity of ["", "; ALTER TABLE articles REPLICA IDENTITY FULL"]) {
    const url = await server.createDatabase();
    const table =
      `CREATE TABLE articles (lang text, ${COLUMNS}, PRIMARY KEY (lang, slug))${identity}`;
    const publication = "CREATE PUBLICATION leased FOR TABLE articles (slug)";
    await server.execute(`${table}; ${publication}; INSERT INTO articles VALUES ('en', 'a')`, url);
    const update = (): Promise<string> => server.execute("UPDATE articles SET body = 'b'", url);
    await assertRejects(update, Error, "Column list used by the publication");
    const { code, stderr } = await runInit({ url, folder: "" }, [...NAMES, "--follow", "--run"]);
    assertEquals(code, 0, stderr);
    await update();
  }
});

Deno.test("PostgreSQL: after init --follow the application's migrations succeed", {
  ...needs("PostgreSQL", HAS_POSTGRES),
}, async () => {
  const server = await sharedPostgres();
  const url = await server.createDatabase();
  const insert = "INSERT INTO articles VALUES ('en', 'a')";
  await server.execute(
    `CREATE TABLE articles (lang text, ${COLUMNS}, PRIMARY KEY (lang, slug)); ${insert}`,
    url,
  );
  const { code, stderr } = await runInit({ url, folder: "" }, [...NAMES, "--follow", "--run"]);
  assertEquals(code, 0, stderr);
  for (
    const sql of [
      "ALTER TABLE articles ALTER COLUMN slug TYPE varchar(80)",
      "ALTER TABLE articles REPLICA IDENTITY FULL",
      "UPDATE articles SET body = 'b'",
      "ALTER TABLE articles DROP COLUMN lang",
      "DELETE FROM articles",
    ]
  ) await server.execute(sql, url);
});

Deno.test(
  "PostgreSQL: init publishes a table of views that a publication has without all rows, without its heirs",
  {
    ...needs("PostgreSQL", HAS_POSTGRES),
  },
  async () => {
    const server = await sharedPostgres();
    const url = await server.createDatabase();
    const publication =
      "CREATE PUBLICATION leased FOR TABLE ONLY articles (slug) WHERE (slug > 'a')";
    await server.execute(
      `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug)); CREATE TABLE heir () INHERITS (articles); ${publication}`,
      url,
    );
    const folder = await Deno.makeTempDir();
    try {
      const views = {
        query: "SELECT body FROM articles WHERE slug = {slug}",
        changes: { articles: "v:{slug}" },
      };
      await Deno.writeTextFile(`${folder}/views.jsonc`, JSON.stringify({ "v:{slug}": views }));
      const args = ["--follow", "--views", `${folder}/views.jsonc`, "--run"];
      const { code, stderr } = await runInit({ url, folder }, args);
      assertEquals(code, 0, stderr);
      const tables =
        "SELECT tablename, rowfilter, attnames FROM pg_publication_tables WHERE pubname = 'leased' AND tablename <> 'kv'";
      assertEquals(await server.execute(tables, url), "articles||{slug,body}");
      await server.execute(
        "INSERT INTO heir VALUES ('a', 'b'); UPDATE articles SET body = 'c'",
        url,
      );
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
);
