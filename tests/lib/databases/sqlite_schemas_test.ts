// Triggers of `init --follow` leave the statements of an application as they are and miss no change, in any schema.
import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { needs } from "../../support/needs/needs.ts";
import { roundsOf } from "../../support/rounds.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { isInstalled } from "../../support/servers/peers.ts";
import { quoted } from "../../../lib/databases/base/table.ts";
import type { Views } from "../../../lib/databases/views/view.ts";
import { reasonOf } from "../../../lib/process/reason.ts";
import { Dice } from "./sqlite_schemas/dice.ts";
import { PARENTS, type RandomSchema, randomSchema } from "./sqlite_schemas/random_schema.ts";
import { randomStatement } from "./sqlite_schemas/random_statements.ts";
import {
  columnsOf,
  execute,
  follow,
  planOf,
  rowNumbersOf,
  rowsOf,
  schemaVersionOf,
  viewsOf,
} from "./sqlite_schemas/followed_case.ts";
import { missedKeys, NOTES, snapshotQuery, takeSnapshot } from "./sqlite_schemas/snapshots.ts";

const SCHEMAS = roundsOf(20);
/** 60 in the gate; 300 at an effort of 10. */
const STATEMENTS = Math.min(300, roundsOf(60));
/** Makes counters of two connections equal. */
const EQUAL = "INSERT INTO log VALUES (0, 0, 0)";
/** SQLite refuses to drop a column that a trigger names: docs/follow.md. */
const IS_NAMED = /^error: error in trigger leased_change/;

/** Two files with the same schema; the changes of one are followed. */
interface Files {
  readonly schema: RandomSchema;
  readonly plain: string;
  readonly noted: string;
}

/** Makes the files of a case. @returns Null: SQLite, or `init`, refuses the schema. */
function makeFiles(dice: Dice, hasTextsInQuotes: boolean, folder: string): Files | null {
  const schema = randomSchema(dice, hasTextsInQuotes);
  const [plain, noted] = [`${folder}/plain.db`, `${folder}/noted.db`];
  for (const path of [plain, noted]) {
    using database = opened(path, [], hasTextsInQuotes);
    for (const sql of schema.statements) {
      const { result } = execute(database, sql);
      if (result.startsWith("error") && /^CREATE TABLE/.test(sql)) return null;
    }
    // `init` refuses it: an insert, too, would fail with a trigger.
    if (
      /foreign key mismatch/.test(
        execute(database, `EXPLAIN DELETE FROM ${quoted(schema.table)}`).result,
      )
    ) return null;
  }
  follow(noted, viewsOf(schema.changes));
  return { schema, plain, noted };
}

function opened(
  path: string,
  settings: readonly string[],
  hasTextsInQuotes: boolean,
): DatabaseSync {
  const database = new DatabaseSync(path, { enableDoubleQuotedStringLiterals: hasTextsInQuotes });
  database.exec("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY");
  for (const setting of settings) database.exec(setting);
  return database;
}

/** Returns the application's table: statements rename it. */
function tableIn(database: DatabaseSync): string {
  const found = database.prepare(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('p', 'c', 'log') AND name NOT LIKE 'sqlite%'",
  ).get();
  return found!["name"] as string;
}

/** Returns the rows of all tables as one text. */
function allRows(database: DatabaseSync): string {
  const tables = [tableIn(database), PARENTS, "c", "log"];
  return tables.map((table) => rowsOf(database, table).join("; ")).join("\n");
}

/** Plays random statements on both files. @returns The statements. */
function play(
  dice: Dice,
  { schema, plain: plainPath, noted: notedPath }: Files,
  hasTextsInQuotes: boolean,
): string[] {
  const { changes, settings, values } = schema;
  const views = viewsOf(changes);
  const isRecursive = settings.includes("PRAGMA recursive_triggers = 1");
  using plain = opened(plainPath, settings, hasTextsInQuotes);
  using noted = opened(notedPath, settings, hasTextsInQuotes);
  for (const each of [plain, noted]) execute(each, EQUAL);
  const done: string[] = [];
  let last = 0;
  const takeNotes = (): string[] => {
    const notes = noted.prepare(NOTES).all(last);
    last = (notes.at(-1)?.["id"] ?? last) as number;
    return notes.map(({ note }) => note as string);
  };
  let before = takeSnapshot(noted, changes);
  let version = schemaVersionOf(noted);
  let rowsBefore = allRows(noted);
  for (let count = 0; count < STATEMENTS; count++) {
    const table = tableIn(plain);
    const columns = columnsOf(plain, table);
    const now = { table, columns, rowNumbers: rowNumbersOf(plain, table), values };
    const sql = randomStatement(dice, now, hasTextsInQuotes);
    const plan = planOf(noted, sql);
    if (plan !== planOf(plain, sql)) continue;
    // With triggers, rows are visited in the order of the primary key or the row number.
    if (/ USING INDEX (?!.*=\?\))/.test(plan)) continue;
    // After an error, SQLite forgets the column until the transaction ends.
    if (noted.isTransaction && / DROP COLUMN /.test(sql)) continue;
    done.push(sql);
    const where = [...schema.statements, ...settings, "-- now:", ...done].join(";\n");
    let one = execute(noted, sql);
    if (IS_NAMED.test(one.result)) continue;
    let other = execute(plain, sql);
    // After some errors, SQLite does not take back what the statement has done, unless there are triggers.
    const [ownRows, otherRows] = [noted, plain].map(allRows);
    const isUndone = one.result.startsWith("error") && ownRows === rowsBefore;
    if (isUndone && otherRows !== rowsBefore) return done.slice(0, -1);
    // SQLite checks types of STRICT tables earlier if there are BEFORE triggers: docs/follow.md.
    if (/cannot store/.test(one.result) && one.result !== other.result) return done;
    // With recursive triggers, SQLite checks constraints again after a REPLACE that fires any: docs/follow.md.
    const isChecked = isRecursive && / constraint failed/.test(one.result);
    if (isChecked && one.result !== other.result) return done;
    if (/FOREIGN KEY constraint failed/.test(one.result)) {
      [one, other] = [one, other].map((each) => ({ ...each, lastRow: "" })) as [
        typeof one,
        typeof other,
      ];
      for (const each of [plain, noted]) execute(each, EQUAL);
    }
    assertEquals(one, other, where);
    assertEquals(noted.isTransaction, plain.isTransaction, where);
    rowsBefore = allRows(noted);
    for (const each of [tableIn(plain), PARENTS, "c", "log"]) {
      assertEquals(rowsOf(noted, each), rowsOf(plain, each), where);
    }
    if (noted.isTransaction) continue;
    const isSameSchema = schemaVersionOf(noted) === version;
    const after = takeSnapshot(noted, changes);
    const notes = takeNotes();
    if (isSameSchema) {
      if (before !== null) assertEquals(missedKeys(before, after!, notes), [], where);
      before = after;
    } else {
      // The origin empties everything; `init` makes the triggers for the new schema.
      if (after !== null && !isFollowed(notedPath, views)) return done;
      version = schemaVersionOf(noted);
      before = after;
    }
  }
  return done;
}

/** @returns False: `init` refuses the schema that statements have made. */
function isFollowed(path: string, views: Views): boolean {
  try {
    follow(path, views);
    return true;
  } catch (error) {
    if (/^foreign key mismatch/.test(reasonOf(error))) return false;
    throw error;
  }
}

/** A case for `second_build.py`. */
interface SecondCase {
  readonly plain: string;
  readonly noted: string;
  readonly schema: string;
  readonly settings: readonly string[];
  readonly statements: readonly string[];
  readonly snapshots: readonly string[];
}

Deno.test("random statements on random schemas do the same with triggers, and no change is missed", () =>
  withSeed(drawSeed(), (seed) => {
    const dice = new Dice(seed);
    let played = 0;
    for (let tried = 0; played < SCHEMAS && tried < 3 * SCHEMAS; tried++) {
      const folder = Deno.makeTempDirSync();
      try {
        const hasTextsInQuotes = dice.chance(30);
        const files = makeFiles(dice, hasTextsInQuotes, folder);
        if (files === null) continue;
        play(dice, files, hasTextsInQuotes);
        played++;
      } finally {
        Deno.removeSync(folder, { recursive: true });
      }
    }
    assertEquals(played, SCHEMAS);
  }));

const SECOND_BUILD = new URL("sqlite_schemas/second_build.py", import.meta.url).pathname;

Deno.test({
  name: "the same holds for another build of SQLite, which takes double quotes for texts",
  ...needs(
    "python3's sqlite3",
    isInstalled(["python3", "-c", "import sqlite3; assert sqlite3.sqlite_version_info >= (3, 37)"]),
  ),
  fn: () =>
    withSeed(drawSeed(), async (seed) => {
      const dice = new Dice(seed);
      const folder = Deno.makeTempDirSync();
      try {
        const cases: SecondCase[] = [];
        for (let tried = 0; cases.length < SCHEMAS && tried < 3 * SCHEMAS; tried++) {
          const own = `${folder}/${tried}`;
          Deno.mkdirSync(own);
          const made = secondCase(dice, own);
          if (made !== null) cases.push(made);
        }
        assertEquals(cases.length, SCHEMAS);
        for (const [index, { outcomes, missed }] of (await playSecond(cases)).entries()) {
          const { schema, statements } = cases[index]!;
          const where = [schema, "-- now:", ...statements].join(";\n");
          for (const [noted, plain] of outcomes) assertEquals(noted, plain, where);
          assertEquals(missed, [], where);
        }
      } finally {
        Deno.removeSync(folder, { recursive: true });
      }
    }),
});

/** Makes files that only this build has opened, and finds statements for them. */
function secondCase(dice: Dice, folder: string): SecondCase | null {
  const files = makeFiles(dice, true, folder);
  if (files === null) return null;
  const { schema, plain, noted } = files;
  const copies = [`${folder}/plain-2.db`, `${folder}/noted-2.db`] as const;
  Deno.copyFileSync(plain, copies[0]);
  Deno.copyFileSync(noted, copies[1]);
  const snapshots: string[] = [];
  {
    using database = opened(noted, [], true);
    for (const [table, templates] of Object.entries(schema.changes)) {
      snapshots.push(snapshotQuery(database, table, templates)!);
    }
  }
  const statements = play(dice, files, true);
  return {
    plain: copies[0],
    noted: copies[1],
    schema: schema.statements.join(";\n"),
    settings: schema.settings,
    statements,
    snapshots,
  };
}

async function playSecond(
  cases: readonly SecondCase[],
): Promise<{ outcomes: [string[], string[]][]; missed: string[] }[]> {
  const child = new Deno.Command("python3", {
    args: [SECOND_BUILD],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(JSON.stringify(cases)));
  await writer.close();
  const { code, stdout } = await child.output();
  assertEquals(code, 0);
  return JSON.parse(new TextDecoder().decode(stdout));
}
