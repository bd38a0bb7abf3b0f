// An SQLite file as an origin uses it: its lock, its tables, and rows that an application has written.
import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import {
  type Change,
  databaseName,
  hasExpired,
  SQLITE_MEMORY,
} from "../../../lib/databases/base/backend.ts";
import { SqliteBackend } from "../../../lib/databases/sqlite/backend.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { type RowBackend, withSingleRows } from "../../support/single_rows.ts";

const TIMEOUT_MS = 60_000;
const KEY = "k";
const INTERNAL = ["leased_proxy", "leased_nodes", "leased_mark", "leased_applied"];

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function set(text: string): Change {
  return { flags: 0, data: bytes(text) };
}

async function withFolder(run: (folder: string, path: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(folder, `${folder}/rows.db`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function open(path: string, names = DEFAULT_TABLE, timeoutMs = TIMEOUT_MS): RowBackend {
  return withSingleRows(new SqliteBackend(path, names, timeoutMs));
}

function execute(path: string, sql: string): void {
  const file = new DatabaseSync(path);
  file.exec(sql);
  file.close();
}

Deno.test("one origin has the lock of a file, by whatever path, until it closes", () =>
  withFolder(async (folder, path) => {
    const first = open(path);
    assertEquals([await first.lockOrigin(), await first.lockOrigin()], [true, true]);
    assertEquals((await first.takeOver()).servedMs, 0, "an origin before has ended");
    await Deno.symlink(path, `${folder}/link.db`);
    const second = open(`${folder}/link.db`);
    for (let asked = 0; asked < 2; asked++) assertEquals(await second.lockOrigin(), false);
    assertEquals((await second.takeOver()).servedMs, Infinity, "one may serve: it has the lock");
    await first.close();
    assertEquals(await second.lockOrigin(), true);
    assertEquals((await second.takeOver()).servedMs, 0);
    const third = open(path);
    assertEquals(await third.lockOrigin(), false);
    await third.unlockOrigin();
    assertEquals(await third.lockOrigin(), false, "the lock of another stays");
    await second.unlockOrigin();
    assertEquals([await third.lockOrigin(), await second.lockOrigin()], [true, false]);
    await Promise.all([second.close(), third.close()]);
    const other = open(`${folder}/other.db`);
    assertEquals(await other.lockOrigin(), true, "each file has its own lock");
    await other.close();
  }));

Deno.test("a lock file that is a folder is named; a database in memory has no lock file", () =>
  withFolder(async (_, path) => {
    const backend = open(path);
    await Deno.mkdir(`${path}-origin`);
    const message = "rows.db-origin is a folder, not a file";
    await assertRejects(() => backend.lockOrigin(), Error, message);
    await backend.close();
    const inMemory = open(SQLITE_MEMORY);
    assertEquals(await inMemory.lockOrigin(), true);
    assertEquals((await inMemory.write(KEY, 1, 0, set("x"))).kind, "committed");
    assertThrows(() => Deno.statSync(`${SQLITE_MEMORY}-origin`), Deno.errors.NotFound);
    await inMemory.close();
  }));

Deno.test("nodes that an origin has noted are known to the next one, and an older one notes none", () =>
  withFolder(async (_, path) => {
    const [first, second] = [open(path), open(path)];
    const { epoch, nodesMs } = await first.takeOver();
    assertEquals(nodesMs, 0);
    assertEquals(await first.noteNodes(2500, epoch), true);
    const later = await second.takeOver();
    assertEquals([later.epoch, later.nodesMs], [epoch + 1, 2500]);
    assertEquals(await first.noteNodes(0, epoch), false);
    assertEquals((await first.takeOver()).nodesMs, 2500);
    assertEquals(await first.noteNodes(0, epoch + 2), true);
    assertEquals((await second.takeOver()).nodesMs, 0);
    await first.close();
    await second.close();
  }));

Deno.test("each table that a file lacks is made by the next start, and the others keep what they have", () =>
  withFolder(async (_, path) => {
    const before = open(path);
    const { epoch } = await before.takeOver();
    await before.write(KEY, 1, epoch, set("x"));
    await before.noteMark("mark", epoch);
    await before.close();
    for (const table of INTERNAL) {
      execute(path, `DROP TABLE ${table}`);
      const backend = open(path);
      const taken = await backend.takeOver();
      assertEquals((await backend.read(KEY)).version, 1, table);
      assertEquals((await backend.outcome(1)).kind === "committed", table !== "leased_applied");
      assertEquals(taken.mark, table === "leased_mark" ? "" : "mark");
      await backend.noteMark("mark", taken.epoch);
      execute(path, "INSERT OR IGNORE INTO leased_applied VALUES (1, 1, 0)");
      await backend.close();
    }
    execute(path, "DROP INDEX leased_applied_at");
    await open(path).close();
    const file = new DatabaseSync(path);
    const index = "SELECT count(*) AS count FROM sqlite_schema WHERE name = 'leased_applied_at'";
    assertEquals(file.prepare(index).get()!["count"], 1);
    assertEquals(file.prepare("PRAGMA journal_mode").get()!["journal_mode"], "wal");
    file.close();
  }));

Deno.test("an expiry column that the table lacks is named beside the others", () =>
  withFolder((_, path) => {
    execute(path, "CREATE TABLE kv (key BLOB PRIMARY KEY, value BLOB, flags INTEGER)");
    const names = { ...DEFAULT_TABLE, expiry: "until" };
    const missing = "table kv has no column version, until: rows need columns for key";
    assertThrows(() => open(path, names), Error, missing);
    execute(path, "ALTER TABLE kv ADD COLUMN version INTEGER; ALTER TABLE kv ADD COLUMN until");
    return open(path, names).close();
  }));

Deno.test("a row of an application may be text, without flags, and expire never", () =>
  withFolder(async (_, path) => {
    execute(
      path,
      "CREATE TABLE kv (key BLOB PRIMARY KEY, value, version INTEGER, flags INTEGER, until INTEGER);" +
        "INSERT INTO kv VALUES (CAST('k' AS BLOB), 'é', 3, NULL, 0), (CAST('l' AS BLOB), x'00ff', 4, 9, NULL)",
    );
    const backend = open(path, { ...DEFAULT_TABLE, expiry: "until" });
    const { epoch } = await backend.takeOver();
    assertEquals(await backend.readMany([KEY, "l"]), [
      { row: { flags: 0, data: bytes("é"), version: 3 }, version: 3, epoch },
      { row: { flags: 9, data: new Uint8Array([0, 255]), version: 4 }, version: 4, epoch },
    ]);
    await backend.purgeExpired();
    assertEquals((await backend.read(KEY)).version, 3, "a time of 0 is none");
    await backend.close();
  }));

Deno.test("a table whose keys are no BLOBs is refused: its rows would be invisible", () =>
  withFolder((folder) => {
    const table = (type: string): string => `CREATE TABLE kv (key ${type} PRIMARY KEY, value BLOB)`;
    const refusals: readonly (readonly [sql: string, what: string])[] = [
      [table("TEXT"), "is TEXT"],
      [table("varchar(250)"), "is varchar(250)"],
      [table("INTEGER"), "is INTEGER"],
      [`${table("BLOB")}; INSERT INTO kv VALUES (x'ff', 'v'), ('k', 'v')`, "has keys of type text"],
      [`${table("")}; INSERT INTO kv VALUES (7, 'v')`, "has keys of type integer"],
    ];
    for (const [index, [sql, what]] of refusals.entries()) {
      const path = `${folder}/${index}.db`;
      execute(path, sql);
      assertThrows(() => open(path), Error, `column key of table kv ${what}: must be BLOB`);
      execute(path, "INSERT INTO kv (value) VALUES ('w')");
    }
    for (const [index, type] of ["BLOB", "blob", "", "BLOB(250)"].entries()) {
      const path = `${folder}/good${index}.db`;
      execute(path, `${table(type)}; INSERT INTO kv VALUES (x'6b', 'v')`);
      assertThrows(() => open(path), Error, "version");
    }
    return Promise.resolve();
  }));

Deno.test("a deleted row keeps its version, and neither flags nor a time", () =>
  withFolder(async (_, path) => {
    const names = { ...DEFAULT_TABLE, expiry: "until" };
    const backend = open(path, names);
    const { epoch } = await backend.takeOver();
    const whole = { flags: 9, data: bytes("v"), expiresUnixSec: 2 ** 32 };
    await backend.write(KEY, 1, epoch, whole);
    const row = (): unknown => {
      const file = new DatabaseSync(path);
      const [found] = file.prepare("SELECT value, version, flags, until FROM kv").all();
      file.close();
      return { ...found };
    };
    assertEquals(row(), { value: bytes("v"), version: 1, flags: 9, until: 2 ** 32 });
    await backend.write(KEY, 2, epoch, "delete");
    assertEquals(row(), { value: null, version: 2, flags: 0, until: null });
    await backend.close();
  }));

Deno.test("a write that fails alone is computed once, and a lock that stays fails the check with its time", () =>
  withFolder(async (_, path) => {
    const backend = open(path);
    const { epoch } = await backend.takeOver();
    let computed = 0;
    const failed = await backend.write(KEY, 1, epoch, () => {
      computed++;
      throw new Error("too large");
    });
    assertEquals([failed, computed], [{ kind: "failed", reason: "too large" }, 1]);
    await backend.check();
    const other = new DatabaseSync(path);
    other.exec("BEGIN IMMEDIATE");
    const message = `${path}: another process has locked the file for 500 ms`;
    await assertRejects(() => backend.check(), Error, message);
    other.exec("ROLLBACK");
    await backend.check();
    other.exec("BEGIN IMMEDIATE; ROLLBACK");
    other.close();
    await backend.close();
  }));

Deno.test("a fenced group leaves the file free, and ids of tokens keep all their digits", () =>
  withFolder(async (_, path) => {
    const backend = open(path);
    const { epoch } = await backend.takeOver();
    assertEquals((await backend.write(KEY, 1, epoch + 1, set("x"))).kind, "fenced");
    execute(path, "PRAGMA busy_timeout = 0; BEGIN IMMEDIATE; ROLLBACK");
    const ids = [2 ** 52, 2 ** 53 - 1];
    const refused = { key: KEY, tokenId: 5, edit: () => null, owner: "" };
    await backend.writeGroup([
      refused,
      ...ids.map((tokenId) => ({ key: KEY, tokenId, edit: set("x"), owner: "" })),
    ], epoch);
    assertEquals(await Promise.all([5, ...ids, 2 ** 53 - 2].map((id) => backend.outcome(id))), [
      { kind: "notApplied" },
      { kind: "committed", version: 1 },
      { kind: "committed", version: 2 },
      { kind: "notApplied" },
    ]);
    await backend.close();
  }));

Deno.test("a row expires in the second that it names, and never without one", () => {
  assertEquals(
    [[10, 9999], [10, 10_000], [10, 10_001], [1, 1000], [0, 1e12], [-1, 1e12]].map(([sec, ms]) =>
      hasExpired(sec!, ms!)
    ),
    [false, true, true, true, false, false],
  );
});

Deno.test("log lines name a database without its password and parameters", () => {
  assertEquals(databaseName({ kind: "sqlite", path: "a:b@c?d.db" }), "a:b@c?d.db");
  assertEquals(
    databaseName({ kind: "postgres", url: "postgres://me:secret@host:1/app?password=x&sslmode=y" }),
    "postgres://me@host:1/app",
  );
});
