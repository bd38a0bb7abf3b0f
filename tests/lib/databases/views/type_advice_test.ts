// Types of parameters and columns for which views of PostgreSQL are refused: each mistake says what to write.
import { assertEquals, assertStringIncludes } from "@std/assert";
import { inspectPostgresViews } from "../../../../lib/databases/postgres/views.ts";
import { DEFAULT_TABLE } from "../../../../lib/databases/base/table.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { testPostgres } from "../../../support/postgres_backend.ts";

const SETUP = `
CREATE EXTENSION citext;
CREATE TYPE mood AS ENUM ('new', 'old');
CREATE DOMAIN mood_like AS mood;
CREATE DOMAIN numbers AS integer[];
CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE DOMAIN loose_text AS text COLLATE loose;
CREATE TABLE t (id bigint PRIMARY KEY, int integer, date date, at timestamptz, num numeric(8,2), double float8,
  span interval, char char(4), varchar varchar(4), text text, citext citext, loose text COLLATE loose, mood mood,
  moods mood_like, numbers numbers, json jsonb, cidr cidr);
ALTER TABLE t REPLICA IDENTITY FULL;
`;

/** A column, conditions that are refused and accepted, with the keys of changes, and a part of the mistake. */
const CASES: readonly {
  readonly column: string;
  readonly where: string;
  readonly mistake: string;
  /** Advised by the mistake. */
  readonly mended: string;
  /** Whether the advice is `*`. */
  readonly isAll?: boolean;
}[] = [
  {
    column: "id",
    where: "id::text = {k}",
    mistake: "column id of t is bigint, and the parameter text, with other texts: " +
      "compare the column as it is, with {k}::bigint, or write * for {k} in changes",
    mended: "id = {k}::bigint",
  },
  {
    column: "id",
    where: "id::text = {k}",
    mistake: "write * for {k}",
    mended: "id::text = {k}",
    isAll: true,
  },
  {
    column: "id",
    where: "id = {k}::text",
    mistake:
      "operator does not exist: bigint = text: a parameter has one type, that of its first use; " +
      "cast it to the type of its column, as in {k}::bigint",
    mended: "id = {k}::bigint",
  },
  {
    column: "text",
    where: "id = {k} OR text = {k}",
    mistake: "as in {k}::bigint",
    mended: "text = {k}",
  },
  {
    column: "text",
    where: "{k} IS NULL",
    mistake: "data type of parameter {k}: a parameter has",
    mended: "text = {k}",
  },
  {
    column: "date",
    where: "date = {k}::text::date",
    mistake: "with {k}::date",
    mended: "date = {k}::date",
  },
  {
    column: "date",
    where: "date = {k}::timestamp",
    mistake: "column date of t is date, and the parameter timestamp without time zone",
    mended: "date = {k}",
  },
  {
    column: "at",
    where: "at = {k}::timestamp",
    mistake: "with {k}::timestamp with time zone",
    mended: "at = {k}::timestamp with time zone",
  },
  {
    column: "double",
    where: "double = {k}",
    mistake: "{k} is double precision, whose equal values may have several texts: write " +
      "{k}::text::double precision, and * in the changes of its table",
    mended: "double = {k}::text::double precision",
    isAll: true,
  },
  {
    column: "double",
    where: "double = {k}::text::float8",
    mistake:
      "column double of t is double precision, whose equal values may have several texts: write * for {k}",
    mended: "double = {k}::text::float8",
    isAll: true,
  },
  {
    column: "span",
    where: "span = {k}",
    mistake: "{k}::text::interval",
    mended: "span = {k}::text::interval",
    isAll: true,
  },
  {
    column: "json",
    where: "json = {k}",
    mistake: "{k}::text::jsonb",
    mended: "json = {k}::text::jsonb",
    isAll: true,
  },
  {
    column: "numbers",
    where: "numbers = {k}",
    mistake: "{k} is integer[], whose",
    mended: "numbers = {k}::text::integer[]",
    isAll: true,
  },
  {
    column: "num",
    where: "num = {k}::numeric(8,2)",
    mistake:
      "cuts or rounds {k}, so one row has several keys: cast it without a length, as in {k}::numeric",
    mended: "num = {k}::numeric",
  },
  {
    column: "int",
    where: "int = {k}::numeric::int",
    mistake: "cuts or rounds {k}",
    mended: "int = {k}::numeric",
  },
  {
    column: "char",
    where: "char = {k}::char",
    mistake: "as in {k}::bpchar",
    mended: "char = {k}::bpchar",
  },
  {
    column: "char",
    where: "char = {k}::text",
    mistake: "with {k}::bpchar",
    mended: "char = {k}::bpchar",
  },
  {
    column: "varchar",
    where: "varchar = CAST({k} AS varchar(4))",
    mistake: "as in {k}::character varying",
    mended: "varchar = {k}::character varying",
  },
  {
    column: "citext",
    where: "citext = {k}::text",
    mistake: "with {k}::citext",
    mended: "citext = {k}::citext",
  },
  {
    column: "text",
    where: "text = {k}::citext",
    mistake: "with {k}::text",
    mended: "text = {k}::text",
  },
  { column: "cidr", where: "cidr = {k}", mistake: "with {k}::cidr", mended: "cidr = {k}::cidr" },
  {
    column: "loose",
    where: "loose = {k}",
    mistake: "column loose of t has a nondeterministic collation",
    mended: "loose = {k}",
    isAll: true,
  },
  {
    column: "text",
    where: 'text = {k} COLLATE "loose"',
    mistake: "compares by the collation loose, which is nondeterministic",
    mended: 'text = {k} COLLATE "loose"',
    isAll: true,
  },
  {
    column: "text",
    where: "text = {k}::loose_text",
    mistake: "the parameter {k} has a nondeterministic collation",
    mended: "text = {k}",
  },
  {
    column: "moods",
    where: "moods = {k}",
    mistake: "and a column of a domain to what that is over",
    mended: "moods::mood = {k}",
  },
];

testPostgres(
  "each mistake of a type says what to write, and that is accepted",
  async (url, server) => {
    await server.execute(SETUP, url);
    const mistakesOf = async (where: string, keys: string): Promise<string[]> => {
      const query = `SELECT id FROM t WHERE ${where}`;
      const views = parseViews(JSON.stringify({ "v:{k}": { query, changes: { t: keys } } }), "f", [
        "",
      ]);
      const { broken } = await inspectPostgresViews(url, views, DEFAULT_TABLE, 30_000);
      return broken.map(({ reason }) => reason).filter((reason) => !reason.includes(" init "));
    };
    for (const { column, where, mistake, mended, isAll = false } of CASES) {
      const [first, ...others] = await mistakesOf(where, `v:{${column}}`);
      assertStringIncludes(first ?? "no mistake", mistake, where);
      assertEquals(others, [], where);
      assertEquals(await mistakesOf(mended, isAll ? "v:*" : `v:{${column}}`), [], mended);
    }
  },
);

testPostgres("a parameter that would end within its value is a mistake", async (url, server) => {
  await server.execute(SETUP, url);
  for (
    const [column, between, isMistake] of [
      ["at", ":", true],
      ["at", ",", false],
      ["at", ":of:", false],
      ["date", "-", true],
      ["date", ":", false],
      ["cidr", "/", true],
      ["id", "-", false],
    ] as const
  ) {
    const cast = column === "cidr" ? "::cidr" : "";
    const query = `SELECT id FROM t WHERE ${column} = {k}${cast} AND int = {i}`;
    const file = { [`v:{k}${between}{i}`]: { query, changes: { t: "v:*" } } };
    const views = parseViews(JSON.stringify(file), "f", [""]);
    const { broken } = await inspectPostgresViews(url, views, DEFAULT_TABLE, 30_000);
    const found = broken.map(({ reason }) => reason).filter((reason) => !reason.includes(" init "));
    const what = `${column} ${between}`;
    assertEquals(found.length, isMistake ? 1 : 0, `${what}: ${found}`);
    if (isMistake) {
      assertStringIncludes(found[0]!, "write another text between it and {i} in the keys", what);
    }
  }
});
