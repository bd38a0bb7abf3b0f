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

// deno-fmt-ignore
const CASES: readonly TableCase[] = [
  { name: "a primary key of the key column", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug))` },
  { name: "a primary key with the key column in it", sql: `CREATE TABLE articles (lang text, ${COLUMNS}, PRIMARY KEY (lang, slug))` },
  { name: "REPLICA IDENTITY FULL, and another primary key", sql: `CREATE TABLE articles (id serial PRIMARY KEY, ${COLUMNS}, UNIQUE (slug)); ALTER TABLE articles REPLICA IDENTITY FULL` },
  { name: "REPLICA IDENTITY FULL, and no key at all", sql: `CREATE TABLE articles (${COLUMNS}); ALTER TABLE articles REPLICA IDENTITY FULL` },
  { name: "an index of the key column as identity", sql: `CREATE TABLE articles (id serial PRIMARY KEY, ${COLUMNS}); CREATE UNIQUE INDEX by_slug ON articles (slug); ALTER TABLE articles REPLICA IDENTITY USING INDEX by_slug` },
  { name: "another primary key", sql: `CREATE TABLE articles (id serial PRIMARY KEY, ${COLUMNS}, UNIQUE (slug))`,
    refused: "the log has id of an old row of table \"articles\", and not slug" },
  { name: "a primary key that is deferrable", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug) DEFERRABLE)`,
    refused: "table \"articles\" has no key for the log" },
  { name: "no key", sql: `CREATE TABLE articles (${COLUMNS})`, refused: "table \"articles\" has no key for the log" },
  { name: "REPLICA IDENTITY NOTHING", sql: `CREATE TABLE articles (${COLUMNS}, PRIMARY KEY (slug)); ALTER TABLE articles REPLICA IDENTITY NOTHING`,
    refused: "table \"articles\" has no key for the log" },
  { name: "a generated key", sql: "CREATE TABLE articles (title text, body text, slug text GENERATED ALWAYS AS (lower(title)) STORED PRIMARY KEY)",
    refused: "column slug of table \"articles\" is generated" },
];

for (const { name, sql, refused } of CASES) {
  Deno.test(`PostgreSQL: after init --follow the application's statements succeed: ${name}`, {
    ...needs("PostgreSQL", HAS_POSTGRES),
  }, async () => {
    const server = await sharedPostgres();
    const url = await server.createDatabase();
    const column = sql.includes("GENERATED") ? "title" : "slug";
    const lang = sql.includes("lang") ? ["lang, ", "'en', "] : ["", ""];
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
