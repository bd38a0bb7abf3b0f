import { quoted } from "../../../../lib/databases/base/table.ts";
import type { Dice } from "../sqlite_schemas/dice.ts";
import type { RandomSchema, RandomTable } from "./random_schema.ts";

/** Statements that an application makes of its schema. Some take the table's identity, or change it. */
const SCHEMA_CHANGES: readonly ((table: RandomTable) => string)[] = [
  ({ sql }) => `ALTER TABLE ${sql} ADD COLUMN IF NOT EXISTS added integer DEFAULT 7`,
  ({ sql }) => `ALTER TABLE ${sql} DROP COLUMN IF EXISTS added`,
  ({ sql }) => `ALTER TABLE ${sql} ALTER COLUMN body SET DEFAULT NULL`,
  ({ sql }) => `ALTER TABLE ${sql} ALTER COLUMN body DROP NOT NULL`,
  ({ sql }) => `ALTER TABLE ${sql} ALTER COLUMN id TYPE bigint`,
  ({ sql, key }) => `ALTER TABLE ${sql} ALTER COLUMN ${quoted(key)} TYPE varchar(80)`,
  ({ sql }) => `ALTER TABLE ${sql} ALTER COLUMN lang TYPE varchar(80)`,
  ({ sql }) => `ALTER TABLE ${sql} ADD CHECK (lang <> 'c d')`,
  ({ sql }) => `CREATE INDEX ON ${sql} (lang)`,
  ({ sql }) => `COMMENT ON TABLE ${sql} IS 'one'`,
  ({ sql }) => `ALTER TABLE ${sql} RENAME COLUMN more TO less`,
  ({ sql }) => `ALTER TABLE ${sql} RENAME COLUMN less TO more`,
  ({ sql }) => `ALTER TABLE ${sql} REPLICA IDENTITY FULL`,
  ({ sql }) => `ALTER TABLE ${sql} REPLICA IDENTITY DEFAULT`,
  ({ sql, name }) => `ALTER TABLE ${sql} DROP CONSTRAINT ${quoted(`${name}_pkey`)} CASCADE`,
  ({ name }) => `DROP INDEX IF EXISTS ${quoted(`${name} 0`)}`,
  ({ sql, name, key }) =>
    `CREATE TABLE IF NOT EXISTS ${
      quoted(`${name} later`)
    } (LIKE ${sql}); COMMENT ON COLUMN ${sql}.${quoted(key)} IS 'k'`,
  ({ name }) => `REINDEX TABLE ${quoted(name)}`,
  ({ sql }) => `CLUSTER ${sql}`,
  ({ sql }) => `LOCK TABLE ${sql}`,
];
const CONTROL = [
  "BEGIN",
  "COMMIT",
  "ROLLBACK",
  "SAVEPOINT s",
  "ROLLBACK TO s",
  "RELEASE s",
  "SET CONSTRAINTS ALL DEFERRED",
];

/** Draws a statement that an application may make. */
export function randomStatement(dice: Dice, { tables }: RandomSchema): string {
  if (dice.chance(12)) return dice.pick(CONTROL);
  const table = dice.pick(tables);
  if (dice.chance(10)) return dice.pick(SCHEMA_CHANGES)(table);
  const part = table.parts.length > 0 && dice.chance(25) ? dice.pick(table.parts) : table.sql;
  const target = dice.chance(10) ? quoted(`${table.name} seen`) : part;
  const returning = dice.chance(40)
    ? ` RETURNING ${dice.pick(["lang", "made", quoted(table.key)])}`
    : "";
  return dice.pick([
    insert,
    insert,
    insert,
    update,
    update,
    update,
    remove,
    remove,
    merge,
    move,
    truncate,
  ])(
    dice,
    target,
    table,
    returning,
  );
}

type Draw = (dice: Dice, target: string, table: RandomTable, returning: string) => string;

const insert: Draw = (dice, target, { columns, key }, returning) => {
  const names = Object.keys(columns);
  const rows = Array.from(
    { length: 1 + dice.below(3) },
    () => `(${valuesOf(dice, columns, names)})`,
  );
  const conflict = dice.pick([
    "",
    " ON CONFLICT DO NOTHING",
    ` ON CONFLICT (${quoted(key)}) DO UPDATE SET body = NULL`,
    ` ON CONFLICT (lang, ${quoted(key)}) DO UPDATE SET id = EXCLUDED.id`,
  ]);
  return `INSERT INTO ${target} (${names.join(", ")}) VALUES ${
    rows.join(", ")
  }${conflict}${returning}`;
};

const update: Draw = (dice, target, { columns }, returning) => {
  const set = dice.some(Object.keys(columns)).slice(0, 2)
    .map((name) => `${name} = ${dice.pick(columns[name]!)}`);
  return `UPDATE ${target} SET ${set.join(", ")}${where(dice, columns)}${returning}`;
};

const remove: Draw = (dice, target, { columns }, returning) =>
  `DELETE FROM ${target}${where(dice, columns)}${returning}`;

const merge: Draw = (dice, target, { columns, key }) => {
  const names = Object.keys(columns);
  const matched = dice.pick([
    "UPDATE SET body = NULL",
    "UPDATE SET id = 4",
    "DELETE",
    "DO NOTHING",
  ]);
  const key1 = quoted(key);
  return `MERGE INTO ${target} AS t USING (SELECT ${dice.pick(columns[key1]!)}::text::${
    columns[key1]![0]!.startsWith("'\\x") ? "bytea" : "text"
  } AS k) AS s ON t.${key1} = s.k WHEN MATCHED THEN ${matched} WHEN NOT MATCHED THEN INSERT (${
    names.join(", ")
  }) VALUES (${valuesOf(dice, columns, names)})`;
};

/** Rows of a table in it again, with another key. */
const move: Draw = (dice, target, { columns, key, sql }) => {
  const names = Object.keys(columns);
  const from = names.map((name) => name === quoted(key) ? dice.pick(columns[name]!) : name);
  return `INSERT INTO ${target} (${names.join(", ")}) SELECT ${
    from.join(", ")
  } FROM ${sql} LIMIT 1 ON CONFLICT DO NOTHING`;
};

const truncate: Draw = (dice, _target, { sql }) =>
  dice.chance(30) ? `TRUNCATE ${sql} CASCADE` : `DELETE FROM ${sql}`;

function where(dice: Dice, columns: RandomTable["columns"]): string {
  if (dice.chance(35)) return "";
  const name = dice.pick(Object.keys(columns).filter((each) => each !== "more"));
  return ` WHERE ${name} = ${dice.pick(columns[name]!)}`;
}

function valuesOf(dice: Dice, columns: RandomTable["columns"], names: readonly string[]): string {
  return names.map((name) => dice.pick(columns[name]!)).join(", ");
}
