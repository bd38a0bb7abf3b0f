import { quoted } from "../../../../lib/databases/base/table.ts";
import type { Dice } from "./dice.ts";
import { CHILDREN, indexOf, PARENTS } from "./random_schema.ts";

/** The table as it is now. */
export interface TableNow {
  readonly table: string;
  /** Columns that statements can write. */
  readonly columns: readonly string[];
  /** Names of the row number that no column hides; empty: it has none. */
  readonly rowNumbers: readonly string[];
  readonly values: readonly string[];
}

const OR = [
  "",
  "",
  " OR IGNORE",
  " OR REPLACE",
  " OR REPLACE",
  " OR FAIL",
  " OR ABORT",
  " OR ROLLBACK",
];

/** Returns a statement of an application. */
export function randomStatement(dice: Dice, now: TableNow, hasTextsInQuotes: boolean): string {
  if (dice.chance(12)) return dice.pick(TRANSACTIONS);
  if (dice.chance(4)) return schemaChange(dice, now, hasTextsInQuotes);
  if (dice.chance(15)) return otherTable(dice, now);
  const statement = dice.pick([insert, insert, insert, upsert, update, update, remove])(dice, now);
  return dice.chance(20) ? `${statement} RETURNING *` : statement;
}

const TRANSACTIONS = [
  "BEGIN",
  "BEGIN IMMEDIATE",
  "COMMIT",
  "COMMIT",
  "COMMIT",
  "ROLLBACK",
  "SAVEPOINT s",
  "ROLLBACK TO s",
  "RELEASE s",
];

function value(dice: Dice, { values }: TableNow): string {
  return dice.pick(values);
}

function target(dice: Dice, { columns, rowNumbers }: TableNow): string[] {
  const names = dice.chance(50) ? [...columns] : dice.some(columns);
  if (rowNumbers.length > 0 && dice.chance(25)) names.push(dice.pick(rowNumbers));
  return names;
}

function condition(dice: Dice, now: TableNow): string {
  if (dice.chance(15)) return "1";
  return `${quoted(dice.pick(now.columns))} ${dice.pick(["=", "IS", "<>", "<"])} ${
    value(dice, now)
  }`;
}

function insert(dice: Dice, now: TableNow): string {
  const verb = dice.chance(10) ? "REPLACE" : `INSERT${dice.pick(OR)}`;
  const into = `${verb} INTO ${quoted(now.table)}`;
  if (dice.chance(5)) return `${into} DEFAULT VALUES`;
  const names = target(dice, now);
  const list = names.map(quoted).join(", ");
  if (dice.chance(10)) {
    const from = names.map((name) => dice.chance(50) ? quoted(name) : value(dice, now)).join(", ");
    return `${into} (${list}) SELECT ${from} FROM ${quoted(now.table)}`;
  }
  const rows = Array.from(
    { length: dice.chance(25) ? 2 + dice.below(2) : 1 },
    () => `(${names.map(() => value(dice, now)).join(", ")})`,
  );
  return `${into} (${list}) VALUES ${rows.join(", ")}`;
}

function upsert(dice: Dice, now: TableNow): string {
  const names = dice.some(now.columns);
  const values = names.map(() => value(dice, now)).join(", ");
  const on = dice.chance(50) ? ` (${quoted(dice.pick(now.columns))})` : "";
  const name = quoted(dice.pick(now.columns));
  const set = dice.pick([value(dice, now), `excluded.${name}`]);
  const action = on !== "" && dice.chance(30) ? "NOTHING" : `UPDATE SET ${name} = ${set}`;
  return `INSERT INTO ${quoted(now.table)} (${
    names.map(quoted).join(", ")
  }) VALUES (${values}) ON CONFLICT${on} DO ${action}`;
}

function update(dice: Dice, now: TableNow): string {
  const sets = target(dice, now).slice(-3).map((name) => {
    const other = quoted(dice.pick(now.columns));
    return `${quoted(name)} = ${
      dice.chance(60) ? value(dice, now) : dice.pick([other, `${other} + 1`])
    }`;
  });
  return `UPDATE${dice.pick(OR)} ${quoted(now.table)} SET ${sets.join(", ")} WHERE ${
    condition(dice, now)
  }`;
}

function remove(dice: Dice, now: TableNow): string {
  return `DELETE FROM ${quoted(now.table)} WHERE ${condition(dice, now)}`;
}

function otherTable(dice: Dice, now: TableNow): string {
  return dice.pick([
    () =>
      `INSERT${dice.pick(OR)} INTO ${CHILDREN} VALUES (${value(dice, now)}, ${value(dice, now)})`,
    () => `UPDATE${dice.pick(OR)} ${CHILDREN} SET y = ${value(dice, now)}`,
    () => `DELETE FROM ${CHILDREN} WHERE x > ${value(dice, now)}`,
    () => `UPDATE${dice.pick(OR)} ${PARENTS} SET id = id + 10 WHERE id = ${dice.below(5)}`,
    () => `DELETE FROM ${PARENTS} WHERE id = ${dice.below(5)}`,
    () => `REPLACE INTO ${PARENTS} VALUES (${dice.below(5)}, ${dice.pick(["'a'", "'b'", "NULL"])})`,
    () => `SELECT count(*) FROM log`,
  ])();
}

function schemaChange(dice: Dice, { table, columns }: TableNow, hasTextsInQuotes: boolean): string {
  const on = quoted(table);
  return dice.pick([
    () =>
      `ALTER TABLE ${on} ADD COLUMN ${quoted(`c${dice.below(100)}`)} ${
        dice.pick([
          "",
          "TEXT DEFAULT 'a'",
          "INT NOT NULL DEFAULT 1",
          `ANY AS (${quoted(columns[0]!)})`,
        ])
      }`,
    () =>
      `ALTER TABLE ${on} RENAME COLUMN ${quoted(dice.pick(columns))} TO ${
        quoted(`r${dice.below(100)}`)
      }`,
    () => `ALTER TABLE ${on} DROP COLUMN ${quoted(dice.pick(columns))}`,
    () => `ALTER TABLE ${on} RENAME TO ${quoted(`n ${dice.below(100)}`)}`,
    () => `DROP INDEX i${dice.below(2)}`,
    () => indexOf(dice, `i${dice.below(2)}`, table, columns, hasTextsInQuotes),
    () => `DROP TRIGGER app${dice.below(2)}`,
    () => "ANALYZE",
    () => "REINDEX",
  ])();
}
