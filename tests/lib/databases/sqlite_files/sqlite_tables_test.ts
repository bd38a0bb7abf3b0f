// Any table of an SQLite file: `init` and the start refuse it and say why, or rows and views are those of the table.
import { assert, assertEquals } from "@std/assert";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { roundsOf } from "../../../support/rounds.ts";
import { type RowBackend, withSingleRows } from "../../../support/single_rows.ts";
import { SqliteBackend } from "../../../../lib/databases/sqlite/backend.ts";
import { inspectSqliteViews } from "../../../../lib/databases/sqlite/views.ts";
import { DEFAULT_TABLE } from "../../../../lib/databases/base/table.ts";
import type { ChangeStream } from "../../../../lib/databases/base/changes.ts";
import { Views } from "../../../../lib/databases/views/view.ts";
import { parseViews } from "../../../../lib/databases/views/views_file.ts";
import { latin1Text } from "../../../../store/base/bytes.ts";
import { Dice } from "../sqlite_schemas/dice.ts";

const CASES = roundsOf(40);
const TYPES = [
  "BLOB",
  "BLOB",
  "BLOB",
  "",
  "TEXT",
  "VARCHAR(9)",
  "INTEGER",
  "REAL",
  "NUMERIC",
  "ANY",
];
const TEXTS = ["a", "A", "it's", '"q"', "ü", "😀", "a\0b", "7", "7.0", ""];
const VIEW =
  `{"v:{k}": {"query": "SELECT name FROM seen WHERE k = {k} ORDER BY rowid", "value": "array", "changes": {"seen": "v:{k}"}}}`;

/** A table of rows and one of a view, with values of any storage class. */
class RandomFile implements Disposable {
  readonly path: string;
  readonly statements: string[] = [];
  readonly database: DatabaseSync;
  readonly keyType: string;
  readonly isUtf8: boolean;
  readonly #dice: Dice;
  readonly #encoding: string;
  readonly #folder = Deno.makeTempDirSync();

  constructor(dice: Dice) {
    this.#dice = dice;
    this.path = `${this.#folder}/rows.db`;
    this.database = new DatabaseSync(this.path);
    const encoding = dice.pick(["UTF-8", "UTF-8", "UTF-8", "UTF-16le", "UTF-16be"]);
    this.#encoding = encoding;
    this.isUtf8 = encoding === "UTF-8";
    this.keyType = dice.pick(TYPES);
    this.#execute(`PRAGMA encoding = '${encoding}'`);
    const collation = dice.chance(20) ? ` COLLATE ${dice.pick(["NOCASE", "RTRIM"])}` : "";
    const isStrict = dice.chance(15);
    const typed = (type: string): string =>
      isStrict && !/^(?:BLOB|TEXT|INTEGER|REAL|ANY)$/.test(type) ? "BLOB" : type;
    const unique = dice.pick(["PRIMARY KEY", "PRIMARY KEY", "UNIQUE", ""]);
    const options = [
      ...isStrict ? ["STRICT"] : [],
      ...unique === "PRIMARY KEY" && dice.chance(25) ? ["WITHOUT ROWID"] : [],
    ].join(", ");
    this.#execute(
      `CREATE TABLE kv (key ${typed(this.keyType)}${collation} ${unique}, value ${
        typed(dice.pick(TYPES))
      }, version INTEGER NOT NULL DEFAULT 1, flags INTEGER NOT NULL DEFAULT 0) ${options}`,
    );
    this.#execute(
      `CREATE TABLE seen (k ${dice.pick(TYPES.filter((type) => type !== "ANY"))}${
        dice.pick(["", "", " COLLATE NOCASE"])
      }, name TEXT)`,
    );
    this.#execute("CREATE INDEX seen_k ON seen (k)");
    const isBytes = dice.chance(60);
    for (let count = dice.below(6); count > 0; count--) {
      const key = isBytes ? bytesOf(dice.pick(TEXTS)) : this.value();
      this.run("INSERT INTO kv (key, value) VALUES (?, ?)", key, this.value());
    }
    for (let count = 1 + dice.below(6); count > 0; count--) {
      this.run("INSERT INTO seen VALUES (?, ?)", this.value(), `${count}`);
    }
  }

  #execute(sql: string): void {
    this.statements.push(sql);
    this.database.exec(sql);
  }

  /** Draws a value of any storage class. */
  value(): SQLInputValue {
    const text = this.#dice.pick(TEXTS);
    return this.#dice.pick([text, text, bytesOf(text), bytesOf("\xff"), 7, 7.5, -1n, null]);
  }

  /** Executes a statement, which may fail: of a table in it. */
  run(sql: string, ...values: SQLInputValue[]): void {
    try {
      this.database.prepare(sql).run(...values);
      this.statements.push(`${sql} -- ${values.map(shown).join(", ")}`);
    } catch (error) {
      assert(/constraint|cannot store|mismatch/.test((error as Error).message), `${sql}: ${error}`);
    }
  }

  /** Rows with one key, as text: a plain query of bytes finds them, or one of the same text. */
  rows(key: Uint8Array): { value: Uint8Array | null }[] {
    const rows = this.database.prepare(
      "SELECT CAST(value AS BLOB) AS value, typeof(value) AS type FROM kv WHERE CAST(key AS BLOB) = ? OR key = ?",
    ).all(key, new TextDecoder().decode(key));
    return rows.map((row) => {
      const value = row["value"] as Uint8Array | null;
      if (value === null || this.isUtf8 || row["type"] === "blob") return { value };
      // The two bytes of a letter, in the order of the file.
      return { value: new TextEncoder().encode(new TextDecoder(this.#encoding).decode(value)) };
    });
  }

  get keys(): Uint8Array[] {
    const rows = this.database.prepare(
      "SELECT DISTINCT CAST(key AS BLOB) AS key FROM kv WHERE key IS NOT NULL",
    ).all();
    return rows.map(({ key }) => key as Uint8Array);
  }

  [Symbol.dispose](): void {
    this.database.close();
    Deno.removeSync(this.#folder, { recursive: true });
  }
}

function bytesOf(text: string): Uint8Array {
  return text === "\xff" ? Uint8Array.of(0xff) : new TextEncoder().encode(text);
}

function shown(value: SQLInputValue): string {
  return value instanceof Uint8Array
    ? `x'${value.toHex()}'`
    : typeof value === "bigint"
    ? `${value}`
    : JSON.stringify(value);
}

function messageOf(error: unknown): string {
  return (error as Error).message;
}

/** Opens a file as an origin and `init` do. @returns The refusal. */
function open(path: string): RowBackend | string {
  try {
    return withSingleRows(new SqliteBackend(path, DEFAULT_TABLE));
  } catch (error) {
    return messageOf(error);
  }
}

/** Whether blobs are keys of the table, and nothing else, one row each. */
function canServe({ database }: RandomFile): boolean {
  const types = database.prepare("SELECT DISTINCT typeof(key) AS type FROM kv").all();
  const [column] = database.prepare("SELECT type FROM pragma_table_info('kv') WHERE name = 'key'")
    .all();
  const unique = database.prepare(
    "SELECT count(*) AS count FROM pragma_index_list('kv') WHERE \"unique\"",
  ).get();
  return types.every(({ type }) => type === "blob") &&
    (column!["type"] === "BLOB" || column!["type"] === "") &&
    unique!["count"] !== 0;
}

async function playRows(file: RandomFile, backend: RowBackend, dice: Dice): Promise<void> {
  const { epoch } = await backend.takeOver();
  let token = 0;
  for (const key of [...file.keys, ...TEXTS.map(bytesOf)]) {
    const name = latin1Text(key);
    const where = `${shown(key)}:\n${file.statements.join(";\n")}`;
    const before = file.rows(key);
    const found = await backend.read(name);
    if (before.length === 0) assertEquals(found.row, null, where);
    else if (found.problem === undefined) {
      assertEquals(found.row?.data ?? null, before[0]!.value, where);
    }
    const data = bytesOf(`new ${token}`);
    const isDeleted = dice.chance(40);
    const result = await backend.write(
      name,
      ++token,
      epoch,
      isDeleted ? "delete" : { flags: 0, data },
    );
    const after = file.rows(key);
    if (result.kind !== "committed") {
      assertEquals(result.kind, "failed", where);
      assertEquals(after, before, where);
      continue;
    }
    assertEquals(after.length, 1, `one row after a write of ${where}`);
    assertEquals(after[0]!.value, isDeleted ? null : data, where);
    assertEquals((await backend.read(name)).row?.data ?? null, isDeleted ? null : data, where);
  }
}

/** Takes changes until those of the last row are among them. */
async function takeNotes(
  file: RandomFile,
  stream: ChangeStream,
): Promise<{ keys: string[]; prefixes: string[] }> {
  const end = BigInt(
    file.database.prepare("SELECT coalesce(max(id), 0) AS id FROM leased_changes")
      .get()!["id"] as number,
  );
  const keys: string[] = [];
  const prefixes: string[] = [];
  for (;;) {
    stream.hasten();
    const changes = await stream.next();
    keys.push(...changes.keys);
    prefixes.push(...changes.prefixes);
    if (changes.position >= end) return { keys, prefixes };
  }
}

async function playLog(file: RandomFile, backend: RowBackend, views: Views): Promise<void> {
  const stream = await backend.openChanges(false);
  await stream.begin();
  try {
    const prepared = views === Views.NONE ? null : await backend.prepareViews(views);
    const names = [
      ...TEXTS.filter((text) => text !== "").map((text) => `v:${latin1Text(bytesOf(text))}`),
      "v:7.5",
      "v:-1",
      "v:\xff",
    ];
    const ofViews = names.flatMap((name) => {
      const found = views.find(name);
      return found === null ? [] : [{ name, ...found }];
    });
    const snapshot = async (): Promise<Map<string, string>> => {
      const seen = new Map<string, string>();
      for (const key of file.keys) {
        const found = await backend.read(latin1Text(key));
        seen.set(latin1Text(key), found.row === null ? "" : latin1Text(found.row.data));
      }
      if (prepared === null) return seen;
      const values = await prepared.readMany(ofViews);
      for (const [index, { name }] of ofViews.entries()) {
        const { row, problem } = values[index]!;
        seen.set(name, problem ?? (row === null ? "" : latin1Text(row.data)));
      }
      return seen;
    };
    await takeNotes(file, stream);
    let before = await snapshot();
    for (let count = 0; count < 12; count++) {
      const table = count % 2 === 0 ? "kv" : "seen";
      const column = table === "kv" ? "value" : "name";
      const key = table === "kv" ? "key" : "k";
      const rows = file.database.prepare(`SELECT ${key} AS key FROM ${table}`).all();
      const row = rows[count % Math.max(1, rows.length)]?.["key"] as SQLInputValue ?? null;
      if (count % 3 === 0) file.run(`DELETE FROM ${table} WHERE ${key} IS ?`, row);
      else if (count % 3 === 1) {
        file.run(`UPDATE ${table} SET ${column} = ? WHERE ${key} IS ?`, `z${count}`, row);
      } else {file.run(
          `INSERT INTO ${table} (${key}, ${column}) VALUES (?, ?)`,
          table === "kv" ? bytesOf(`n${count}`) : file.value(),
          "z",
        );}
      const notes = await takeNotes(file, stream);
      const after = await snapshot();
      for (const name of new Set([...before.keys(), ...after.keys()])) {
        if ((before.get(name) ?? "") === (after.get(name) ?? "")) continue;
        const isNoted = notes.keys.includes(name) ||
          notes.prefixes.some((prefix) => name.startsWith(prefix));
        assert(
          isNoted,
          `${JSON.stringify(name)} has changed, and is not noted: ${JSON.stringify(notes)}\n${
            file.statements.join(";\n")
          }`,
        );
      }
      before = after;
    }
    await prepared?.close();
  } finally {
    await stream.close();
  }
}

/** @returns Whether the table is served. */
async function playCase(dice: Dice): Promise<boolean> {
  using file = new RandomFile(dice);
  const where = file.statements.join(";\n");
  const backend = open(file.path);
  if (typeof backend === "string") {
    assert(/\bkey\b/.test(backend) && backend.includes("kv"), `${backend}\n${where}`);
    assert(!canServe(file), `refused without a reason: ${backend}\n${where}`);
    return false;
  }
  try {
    await playRows(file, backend, dice);
    const given = dice.chance(70) ? parseViews(VIEW, "views.jsonc", [""]) : Views.NONE;
    const refusals: string[] = [];
    let views = given;
    try {
      await backend.prepareChanges(views);
      const { broken } = inspectSqliteViews(file.path, views, DEFAULT_TABLE);
      for (const { reason } of broken) throw new Error(reason);
    } catch (error) {
      refusals.push(messageOf(error));
      assert(/UTF-16|seen/.test(messageOf(error)), `${messageOf(error)}\n${where}`);
      if (!file.isUtf8) {
        const started = await backend.openChanges(false).then(() => "", messageOf);
        assert(/UTF-16/.test(started), `${started}\n${where}`);
        return true;
      }
      views = Views.NONE;
      await backend.prepareChanges(views);
    }
    assert(file.isUtf8, `a file in UTF-16 is followed:\n${where}`);
    await playLog(file, backend, views);
    return true;
  } finally {
    await backend.close();
  }
}

Deno.test("SQLite: any table is refused with a reason, or rows and views are those of the table", () =>
  withSeed(drawSeed(), async (seed) => {
    const dice = new Dice(seed);
    let served = 0;
    for (let count = 0; count < CASES; count++) if (await playCase(dice)) served++;
    assert(served > 0, "each table was refused");
  }));
