import { quoted } from "../../../../lib/databases/base/table.ts";
import type { Dice } from "../sqlite_schemas/dice.ts";

/** Column types, with the texts of a few values of each, so that keys are equal now and then. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  text: ["'a'", "'B'", "'ü'", "'😀'", "''", "'it''s'"],
  "varchar(40)": ["'a'", "'B'", "'c d'", "'ü'"],
  bytea: ["'\\x00'", "'\\x61'", "'\\xff00'"],
  integer: ["1", "2", "3", "4"],
  bigint: ["1", "2", "9007199254740993"],
  uuid: [
    "'00000000-0000-0000-0000-000000000001'",
    "'00000000-0000-0000-0000-000000000002'",
  ],
  timestamptz: ["'2026-01-01 00:00Z'", "'2026-01-02 00:00Z'"],
  jsonb: ["'{}'", "'{\"a\": 1}'"],
  mood: ["'good'", "'bad'"],
  amount: ["1", "5", "-1"],
};
const TABLES = ["articles", 'The "first"', "select", "a b", "été"];
const KEYS = ["slug", 'K "1"', "Order"];
const TYPES = `CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE DOMAIN amount AS integer CHECK (VALUE >= 0);
CREATE TABLE journal (id serial PRIMARY KEY, note text)`;
/** The columns beside the key: their names, and the types that they may have. */
const OTHERS: Readonly<Record<string, readonly string[]>> = {
  id: ["integer", "bigint"],
  lang: ["text"],
  body: ["text", "bytea"],
  more: ["uuid", "timestamptz", "jsonb", "mood", "amount", "text"],
};
/** The publication's settings: those that an earlier `init` or a person may have made. */
const SETTINGS = [
  "",
  " WITH (publish_via_partition_root = true)",
  " WITH (publish = 'insert')",
];

/** A table of an application. */
export interface RandomTable {
  readonly name: string;
  /** As SQL has it. */
  readonly sql: string;
  readonly key: string;
  /** The columns that a statement may set, with texts of values; `NULL` is one of a few. */
  readonly columns: Readonly<Record<string, readonly string[]>>;
  /** Tables that have rows of it: partitions and heirs. */
  readonly parts: readonly string[];
}

/** Tables with all that belongs to them. */
export interface RandomSchema {
  readonly tables: readonly RandomTable[];
  /** PostgreSQL may refuse some, which are then left out. */
  readonly statements: readonly string[];
}

/** Draws one to three tables, and the publications that a database may have. */
export function randomSchema(dice: Dice): RandomSchema {
  const statements = TYPES.split(";\n");
  const tables: RandomTable[] = [];
  const names = dice.some(TABLES).slice(0, 3);
  for (const name of names) tables.push(randomTable(dice, name, statements));
  for (const table of tables) addReference(dice, table, dice.pick(tables), statements);
  for (let count = dice.below(3); count > 0; count--) {
    statements.push(`CREATE PUBLICATION other${count} ${published(dice, dice.pick(tables))}`);
  }
  if (dice.chance(35)) {
    statements.push(
      `CREATE PUBLICATION leased ${published(dice, dice.pick(tables))}${dice.pick(SETTINGS)}`,
    );
  }
  return { tables, statements };
}

function randomTable(dice: Dice, name: string, statements: string[]): RandomTable {
  const sql = quoted(name);
  const keyName = dice.pick(KEYS);
  const key = quoted(keyName);
  const keyType = dice.pick(["text", "text", "varchar(40)", "bytea"]);
  const columns: Record<string, readonly string[]> = { [key]: VALUES[keyType]! };
  const parts: string[] = [];
  const definitions = [`${key} ${keyType}${dice.chance(70) ? " NOT NULL" : ""}`];
  for (const [column, types] of Object.entries(OTHERS)) {
    const type = dice.pick(types);
    columns[column] = dice.chance(60) ? VALUES[type]! : [...VALUES[type]!, "NULL"];
    definitions.push(`${column} ${type}${column === "lang" || dice.chance(30) ? " NOT NULL" : ""}`);
  }
  definitions.push("made text GENERATED ALWAYS AS (lower(lang)) STORED");
  const isPartitioned = dice.chance(25);
  const primary = dice.pick([
    "",
    key,
    key,
    `lang, ${key}`,
    `lang, ${key}`,
    "id",
    "made",
    `made, ${key}`,
  ]);
  const partitionBy = isPartitioned
    ? ` PARTITION BY ${dice.pick([`HASH (${key})`, "LIST (lang)"])}`
    : "";
  if (primary !== "") {
    definitions.push(`PRIMARY KEY (${primary})${dice.chance(15) ? " DEFERRABLE" : ""}`);
  }
  statements.push(
    `CREATE ${dice.chance(5) ? "UNLOGGED " : ""}TABLE ${sql} (${
      definitions.join(", ")
    })${partitionBy}`,
  );
  for (const [index, unique] of uniqueIndexes(key).entries()) {
    if (dice.chance(30)) statements.push(unique(quoted(`${name} ${index}`), sql));
  }
  if (isPartitioned) {
    addPartitions(dice, {
      name,
      sql,
      key,
      partitionBy,
      statements,
      parts,
      values: columns["lang"]!,
    });
  } else if (dice.chance(15)) {
    const heir = quoted(`${name} heir`);
    statements.push(
      `CREATE TABLE ${heir} (${dice.chance(50) ? `PRIMARY KEY (${key})` : ""}) INHERITS (${sql})`,
    );
    parts.push(heir);
  }
  for (const each of [sql, ...parts]) {
    const isPart = each !== sql;
    if (dice.chance(isPart ? 30 : 45)) {
      statements.push(`ALTER TABLE ${each} REPLICA IDENTITY ${identity(dice, name)}`);
    }
  }
  if (dice.chance(30)) {
    statements.push(`CREATE VIEW ${quoted(`${name} seen`)} AS SELECT * FROM ${sql}`);
  }
  for (const trigger of triggers(name, sql, key)) if (dice.chance(15)) statements.push(...trigger);
  return { name, sql, key: keyName, columns, parts };
}

function uniqueIndexes(key: string): ((name: string, table: string) => string)[] {
  return [
    (name, table) => `CREATE UNIQUE INDEX ${name} ON ${table} (${key})`,
    (name, table) => `CREATE UNIQUE INDEX ${name} ON ${table} (${key}) INCLUDE (body)`,
    (name, table) => `CREATE UNIQUE INDEX ${name} ON ${table} (id) WHERE id > 2`,
    (name, table) => `CREATE UNIQUE INDEX ${name} ON ${table} (lang, lower(body::text))`,
    (name, table) => `ALTER TABLE ${table} ADD CONSTRAINT ${name} UNIQUE (lang, ${key}) DEFERRABLE`,
    (name, table) => `CREATE UNIQUE INDEX ${name} ON ${table} (lang, ${key})`,
  ];
}

function identity(dice: Dice, name: string): string {
  const index = dice.pick([0, 1, 5]);
  return dice.pick(["FULL", "NOTHING", "DEFAULT", `USING INDEX ${quoted(`${name} ${index}`)}`]);
}

function addPartitions(
  dice: Dice,
  { name, sql, key, partitionBy, statements, parts, values }: {
    readonly name: string;
    readonly key: string;
    readonly sql: string;
    readonly partitionBy: string;
    readonly statements: string[];
    readonly parts: string[];
    readonly values: readonly string[];
  },
): void {
  const bounds = partitionBy.includes("HASH")
    ? [0, 1].map((rest) => `FOR VALUES WITH (MODULUS 2, REMAINDER ${rest})`)
    : [`FOR VALUES IN (${values[0]})`, "DEFAULT"];
  for (const [index, bound] of bounds.entries()) {
    const part = quoted(`${name} part ${index}`);
    const isAgain = dice.chance(25);
    statements.push(
      `CREATE TABLE ${part} PARTITION OF ${sql} ${bound}${
        isAgain ? ` PARTITION BY HASH (${key})` : ""
      }`,
    );
    parts.push(part);
    if (!isAgain) continue;
    const leaf = quoted(`${name} leaf ${index}`);
    statements.push(
      `CREATE TABLE ${leaf} PARTITION OF ${part} FOR VALUES WITH (MODULUS 1, REMAINDER 0)`,
    );
    parts.push(leaf);
  }
}

/** A table that refers to another, perhaps to itself. */
function addReference(dice: Dice, from: RandomTable, to: RandomTable, statements: string[]): void {
  if (!dice.chance(30)) return;
  const action = dice.pick(["ON DELETE CASCADE ON UPDATE CASCADE", "ON DELETE SET NULL", ""]);
  const column = dice.pick(["id", "body"]);
  const target = column === "id" ? "id" : quoted(to.key);
  statements.push(
    `ALTER TABLE ${from.sql} ADD FOREIGN KEY (${column}) REFERENCES ${to.sql} (${target}) ${action}`,
  );
}

function triggers(name: string, sql: string, key: string): string[][] {
  const [before, after, gone] = ["before", "after", "gone"].map((word) =>
    quoted(`${name} ${word}`)
  );
  const made = (called: string, body: string): string =>
    `CREATE FUNCTION ${called}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ${body} END $$`;
  return [
    [
      made(before!, "NEW.lang := 'B'; RETURN NEW;"),
      `CREATE TRIGGER changed BEFORE UPDATE ON ${sql} FOR EACH ROW WHEN (NEW.lang = 'a') EXECUTE FUNCTION ${before}()`,
    ],
    [
      made(after!, `INSERT INTO journal (note) VALUES (TG_OP || NEW.${key}::text); RETURN NULL;`),
      `CREATE TRIGGER added AFTER INSERT ON ${sql} FOR EACH ROW EXECUTE FUNCTION ${after}()`,
    ],
    [
      made(gone!, `UPDATE ${sql} SET lang = 'B' WHERE lang = 'ü'; RETURN NULL;`),
      `CREATE TRIGGER removed AFTER DELETE ON ${sql} FOR EACH STATEMENT EXECUTE FUNCTION ${gone}()`,
    ],
  ];
}

function published(dice: Dice, { sql, key }: RandomTable): string {
  return dice.pick([
    `FOR TABLE ${sql}`,
    `FOR TABLE ONLY ${sql}`,
    `FOR TABLE ${sql} (${quoted(key)})`,
    `FOR TABLE ${sql} (lang, ${quoted(key)})`,
    `FOR TABLE ${sql} WHERE (lang = 'a')`,
    "FOR ALL TABLES",
    "FOR TABLES IN SCHEMA public",
    "",
  ]);
}
