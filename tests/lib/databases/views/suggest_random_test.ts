// `leased views suggest` for every table of random schemas: it prints a file that `views check` accepts once its
// statements are executed, or says why there is none.
import { assert, assertEquals, assertMatch } from "@std/assert";
import { quoted } from "../../../../lib/databases/base/table.ts";
import { runViews } from "../../../../lib/operator/views_check.ts";
import { captured } from "../../../support/sessions/captured.ts";
import { roundsOf } from "../../../support/rounds.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import {
  createDatabase,
  type DatabaseKind,
  type TestDatabase,
  testDatabases,
} from "../../../support/servers/databases.ts";
import { Dice } from "../sqlite_schemas/dice.ts";
import { randomSchema } from "../sqlite_schemas/random_schema.ts";
import { openWriter } from "./shop.ts";
import { prepare, statementsOf, suggest } from "./suggestions.ts";

const SCHEMAS = roundsOf(12);
const TABLES = 4;
// deno-fmt-ignore
const TABLE_NAMES = ["item", "Item 2", "größe", 'it\'s "q"', "{id}", "order", "a:b", "--", "/*", "select", "UPPER", "x*", "*/"];
// deno-fmt-ignore
const COLUMN_NAMES = ["id", "Id 2", "größe", "it's", 'q"q', "{id}", "group", "a:b", "--x", "/*", "select", "UPPER", "1st", "_", "x*"];
const TYPES: Readonly<Record<DatabaseKind, readonly string[]>> = {
  // deno-fmt-ignore
  PostgreSQL: [
    "integer", "bigint", "text", "varchar(9)", "char(3)", "uuid", "numeric(8,2)", "boolean", "date", "timestamptz", "real",
    "interval", "inet", "mood", "moods", "code", 'text COLLATE "C"', "text COLLATE loose", "citext", "bytea", "integer[]", '"char"', "name",
  ],
  SQLite: [
    "INTEGER",
    "INT",
    "TEXT",
    "TEXT COLLATE NOCASE",
    "TEXT COLLATE RTRIM",
    "REAL",
    "",
    "BLOB",
    "NUMERIC",
    "VARCHAR(9)",
  ],
};
const SETUP: Readonly<Record<DatabaseKind, string>> = {
  PostgreSQL:
    `CREATE EXTENSION citext; CREATE TYPE mood AS ENUM ('new'); CREATE DOMAIN moods AS mood; CREATE DOMAIN code AS varchar(9);
    CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
  SQLite: "SELECT 1",
};
const REASONS =
  /: (?:no view of [^]* can be served: |table [^]* has no primary key, no unique one|[^]* is the table of rows|[^]* has partitions|[^]* is unlogged)/;

interface Made {
  readonly name: string;
  /** Lists of columns that a foreign key may name, with their types. */
  readonly keys: readonly (readonly (readonly [name: string, type: string])[])[];
}

function some<Item>(dice: Dice, items: readonly Item[], most: number): Item[] {
  return items.filter(() => dice.chance(50)).slice(0, most);
}

/** Makes tables that the database may refuse. @returns The names of those that it has taken. */
async function makeTables(
  dice: Dice,
  kind: DatabaseKind,
  write: (sql: string) => Promise<void>,
): Promise<string[]> {
  const isPostgres = kind === "PostgreSQL";
  const made: Made[] = [];
  const mayFail = async (sql: string): Promise<boolean> => {
    try {
      await write(sql);
      return true;
    } catch {
      return false;
    }
  };
  for (let tries = 0; made.length < TABLES && tries < 5 * TABLES; tries++) {
    const schema = isPostgres && dice.chance(20) ? "shop." : "";
    const table = dice.pick(TABLE_NAMES);
    const name = schema + quoted(table);
    const columns = new Map(
      Array.from(
        { length: 2 + dice.below(4) },
        () => [dice.pick(COLUMN_NAMES), dice.pick(TYPES[kind])],
      ),
    );
    const isKeyed = dice.chance(75);
    const key = some(dice, [...columns], 2);
    const parts = [...columns].map(([column, type]) =>
      `${quoted(column)} ${type}${dice.chance(30) ? " NOT NULL" : ""}`
    );
    const listOf = (names: readonly (readonly [string, string])[]): string =>
      names.map(([column]) => quoted(column)).join(", ");
    if (isKeyed && key.length > 0) {
      parts.push(
        `PRIMARY KEY (${listOf(key)})${isPostgres && dice.chance(15) ? " DEFERRABLE" : ""}`,
      );
    }
    const targets = [
      ...made.flatMap((each) => each.keys.map((list) => ({ name: each.name, list }))),
      {
        name,
        list: key,
      },
    ].filter(({ list }) => list.length > 0);
    for (const [index, { name: parent, list }] of some(dice, targets, 3).entries()) {
      const own = list.map(([, type], place) =>
        [`${dice.pick(COLUMN_NAMES)}${index}${place}`, type] as const
      );
      const generated = isPostgres ? " GENERATED ALWAYS AS (NULL) STORED" : " AS (NULL)";
      for (const [column, type] of own) {
        parts.push(
          `${quoted(column)} ${type}${
            dice.chance(10) ? generated : dice.chance(40) ? " NOT NULL" : ""
          }`,
        );
      }
      parts.push(`FOREIGN KEY (${listOf(own)}) REFERENCES ${parent} (${listOf(list)})`);
      if (dice.chance(40)) parts.push(`UNIQUE (${listOf([...own, ...some(dice, key, 1)])})`);
    }
    const columnLists = parts.filter((part) => /^(?:PRIMARY|FOREIGN|UNIQUE)/.test(part));
    const first = parts.filter((part) => !columnLists.includes(part));
    const kindOf = isPostgres && dice.chance(5) ? "UNLOGGED TABLE" : "TABLE";
    const options = !isPostgres && isKeyed && dice.chance(20) ? " WITHOUT ROWID" : "";
    if (
      !await mayFail(
        `CREATE ${kindOf} ${name} (${[...first, ...columnLists].join(", ")})${options}`,
      )
    ) {
      continue;
    }
    for (let index = 0; index < dice.below(3); index++) {
      const [column] = dice.pick([...columns]);
      const unique = dice.chance(40) ? "UNIQUE " : "";
      const by = dice.pick([
        quoted(column),
        `${quoted(column)} DESC`,
        `lower(${quoted(column)}::text)`,
      ]);
      const where = dice.chance(20) ? ` WHERE ${quoted(column)} IS NOT NULL` : "";
      const label = `i${tries}_${index}`;
      await mayFail(`CREATE ${unique}INDEX ${label} ON ${name} (${by})${where}`);
    }
    if (isPostgres && dice.chance(20)) {
      await mayFail(`ALTER TABLE ${name} REPLICA IDENTITY ${dice.pick(["FULL", "NOTHING"])}`);
    }
    if (isPostgres && dice.chance(10)) {
      const [column] = dice.pick([...columns]);
      await mayFail(`CREATE PUBLICATION p${tries} FOR TABLE ${name} (${quoted(column)})`);
    }
    made.push({ name, keys: isKeyed && key.length > 0 ? [key] : [] });
  }
  return made.map(({ name }) => name);
}

/** @returns Whether there is a file. */
async function assertFits(
  database: TestDatabase,
  writer: Awaited<ReturnType<typeof openWriter>>,
  table: string,
  path: string,
): Promise<boolean> {
  const { result, stdout, stderr } = await suggest(database, "--of", table);
  if (result === 1) {
    assertEquals(stdout, "");
    assertMatch(stderr, REASONS);
    return false;
  }
  assertEquals([result, stderr], [0, ""], table);
  await prepare(database, writer, path, stdout);
  const checked = await captured(() => runViews(["check", path, "--db", database.url]));
  assertEquals([checked.result, checked.stderr], [0, ""], stdout);
  assert(!checked.stdout.includes("no index"), `${checked.stdout}\n${stdout}`);
  const { stdout: again } = await suggest(database, "--of", table);
  assertEquals(statementsOf(again), [], again);
  return true;
}

testDatabases("views suggest: random schemas", async (database) => {
  const kind = database.folder === "" ? "PostgreSQL" : "SQLite";
  let fitCount = 0;
  for (let round = 0; round < SCHEMAS; round++) {
    await withSeed(drawSeed(), async (seed) => {
      await using own = await createDatabase(kind);
      const path = `${await Deno.makeTempDir()}/views.jsonc`;
      await using writer = await openWriter(own);
      await writer.write(SETUP[kind]);
      if (kind === "PostgreSQL") await writer.write("CREATE SCHEMA shop");
      for (const name of await makeTables(new Dice(seed), kind, writer.writeAlone)) {
        if (await assertFits(own, writer, name, path)) fitCount++;
      }
      await Deno.remove(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    });
  }
  assert(fitCount > 0, "files were made");
});

testDatabases("views suggest: random schemas of other tests", async (database) => {
  let fitCount = 0;
  for (let round = 0; round < SCHEMAS; round++) {
    await withSeed(drawSeed(), async (seed) => {
      await using own = await createDatabase(database.folder === "" ? "PostgreSQL" : "SQLite");
      const path = `${await Deno.makeTempDir()}/views.jsonc`;
      await using writer = await openWriter(own);
      const { table, statements } = randomSchema(new Dice(seed), false);
      for (const sql of statements) await writer.writeAlone(sql).catch(() => {});
      for (const name of [quoted(table), "p", "c"]) {
        if ((await suggest(own, name)).result === 64) continue;
        if (await assertFits(own, writer, name, path)) fitCount++;
      }
      await Deno.remove(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    });
  }
  assert(fitCount > 0, "files were made");
}, ["SQLite"]);
