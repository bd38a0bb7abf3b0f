import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { SqliteBackend } from "../../../lib/databases/sqlite/backend.ts";
import { withSingleRows } from "../../support/single_rows.ts";
import type { Change, Edit, Row, Write } from "../../../lib/databases/base/backend.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { EDIT_FORMS } from "../../support/edits.ts";
import {
  createDatabase,
  sharedPostgres,
  type TestDatabase,
  testDatabases,
} from "../../support/servers/databases.ts";

const KEY = "k\0ey";
const set = (text: string, flags = 0): Change => ({
  flags,
  data: new TextEncoder().encode(text),
});

/** A test with the edits of each form. */
function testEdits(
  name: string,
  run: (database: TestDatabase, edit: (change: Change) => Edit) => Promise<void>,
): void {
  for (const [form, edit] of EDIT_FORMS) {
    testDatabases(`${name}; edits ${form}`, (database) => run(database, edit));
  }
}

testEdits(
  "a backend writes, reads and deletes rows, and versions only grow",
  async (database, edit) => {
    const backend = await database.open();
    const { epoch } = await backend.takeOver();
    assertEquals(await backend.read(KEY), { row: null, version: 0, epoch });
    assertEquals(await backend.write(KEY, 1, epoch, edit(set("one", 7))), {
      kind: "committed",
      version: 1,
    });
    const { row } = await backend.read(KEY);
    assertEquals(row, { flags: 7, data: new TextEncoder().encode("one"), version: 1 });
    assertEquals(await backend.write(KEY, 2, epoch, edit("delete")), {
      kind: "committed",
      version: 2,
    });
    assertEquals(await backend.read(KEY), { row: null, version: 2, epoch });
    assertEquals(await backend.write(KEY, 3, epoch, edit(set(""))), {
      kind: "committed",
      version: 3,
    });
    assertEquals((await backend.read(KEY)).row?.data, new Uint8Array());
    await backend.close();
  },
);

testDatabases(
  "a write is computed from the row as it is, and refused without a trace",
  async (database) => {
    const backend = await database.open();
    const { epoch } = await backend.takeOver();
    await backend.write(KEY, 1, epoch, set("one"));
    const seen: (Row | null)[] = [];
    const refused = await backend.write(KEY, 2, epoch, (row) => {
      seen.push(row);
      return null;
    });
    assertEquals(seen[0]?.version, 1);
    assert(refused.kind === "refused" && refused.row?.version === 1);
    const failed = await backend.write(KEY, 3, epoch, () => {
      throw new Error("too large");
    });
    assertEquals(failed, { kind: "failed", reason: "too large" });
    assertEquals((await backend.read(KEY)).version, 1);
    for (const token of [2, 3]) assertEquals(await backend.outcome(token), { kind: "notApplied" });
    await backend.close();
  },
);

testDatabases(
  "the table of caches of earlier versions is neither read nor changed, and its rows need no form",
  async (database) => {
    const make = "CREATE TABLE leased_caches (remark text)";
    if (database.url.startsWith("sqlite:")) {
      using file = new DatabaseSync(database.url.slice("sqlite:".length));
      file.exec(make);
    } else {
      await (await sharedPostgres()).execute(
        `${make}; ALTER TABLE leased_caches ENABLE ROW LEVEL SECURITY`,
        database.url,
      );
    }
    for (let version = 1; version <= 2; version++) {
      const backend = await database.open();
      const { epoch } = await backend.takeOver();
      const written = await backend.write(KEY, version, epoch, set("one"));
      assertEquals(written, { kind: "committed", version });
      await backend.close();
    }
    if (!database.url.startsWith("sqlite:")) return;
    using file = new DatabaseSync(database.url.slice("sqlite:".length));
    assertEquals(file.prepare("SELECT * FROM leased_caches").all(), []);
  },
);

testEdits(
  "an origin that has been taken over is fenced in writes and sees it in reads",
  async (database, edit) => {
    const first = await database.open();
    const { epoch } = await first.takeOver();
    const second = await database.open();
    const { epoch: later } = await second.takeOver();
    assertEquals(later, epoch + 1);
    assertEquals(await first.write(KEY, 1, epoch, edit(set("x"))), { kind: "fenced", epoch: 2 });
    assertEquals((await first.read(KEY)).epoch, later);
    assertEquals((await second.write(KEY, 1, later, edit(set("x")))).kind, "committed");
    await first.close();
    await second.close();
  },
);

testEdits(
  "the database knows which tokens were applied, until it forgets them",
  async (database, edit) => {
    let nowMs = 1000;
    const backend = await database.open(DEFAULT_TABLE, () => nowMs);
    const { epoch } = await backend.takeOver();
    await backend.write(KEY, 11, epoch, edit(set("a")));
    nowMs = 5000;
    await backend.write(KEY, 12, epoch, edit(set("b")));
    assertEquals(await backend.outcome(11), { kind: "committed", version: 1 });
    const again = await backend.write(KEY, 11, epoch, edit(set("c")));
    assertEquals(again.kind, "failed", "a token is applied once");
    await backend.purgeApplied(2000);
    assertEquals(await backend.outcome(11), { kind: "notApplied" });
    assertEquals(await backend.outcome(12), { kind: "committed", version: 2 });
    await backend.close();
  },
);

testEdits(
  "a table that an application has keeps its rows, whatever its columns are called",
  async (database, edit) => {
    const names = {
      table: 'user "x"',
      key: "id",
      value: "body",
      version: "epoch",
      flags: "token",
    };
    const backend = await database.open(names);
    const { epoch } = await backend.takeOver();
    await backend.write(KEY, 1, epoch, edit(set("one")));
    await backend.write(KEY, 2, epoch, edit(set("two")));
    await backend.close();
    const again = await database.open(names);
    assertEquals((await again.read(KEY)).version, 2);
    await again.close();
  },
);

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function writeOf(key: string, tokenId: number, edit: Edit): Write {
  return { key, tokenId, edit, owner: "" };
}

/** Appends to the row. */
function append(text: string): Edit {
  return (row) => set(new TextDecoder().decode(row?.data) + text);
}

testEdits(
  "writes of a group take effect in their order, each with its own answer",
  async (database, edit) => {
    const backend = await database.open();
    const { epoch } = await backend.takeOver();
    await backend.write("b", 1, epoch, set("b"));
    const results = await backend.writeGroup([
      writeOf("b", 11, edit(set("b1"))),
      writeOf("a", 12, edit(set("a1"))),
      writeOf("b", 13, edit("delete")),
      writeOf("a", 14, edit(set("a2"))),
      writeOf("b", 15, edit(set("b2"))),
    ], epoch);
    assertEquals(results, [2, 1, 3, 2, 4].map((version) => ({ kind: "committed", version })));
    for (const [at, { version }] of [2, 1, 3, 2, 4].map((version) => ({ version })).entries()) {
      assertEquals(await backend.outcome(11 + at), { kind: "committed", version });
    }
    const rows = await backend.readMany(["a", "none", "b", "a"]);
    assertEquals(rows.map(({ row }) => row && new TextDecoder().decode(row.data)), [
      "a2",
      null,
      "b2",
      "a2",
    ]);
    assertEquals(rows.map(({ version }) => version), [2, 0, 4, 2]);
    await backend.close();
  },
);

testDatabases(
  "an edit sees the row as the writes before it in its group left it",
  async (database) => {
    const backend = await database.open();
    const { epoch } = await backend.takeOver();
    const add: Edit = (row) => row === null ? set("added") : null;
    const results = await backend.writeGroup([
      writeOf("k", 1, add),
      writeOf("k", 2, add),
      writeOf("k", 3, append("+")),
      writeOf("k", 4, set("new")),
      writeOf("k", 5, (row) => row?.version === 3 ? set("compared") : null),
      writeOf("k", 6, append("!")),
    ], epoch);
    assertEquals(results.map(({ kind }) => kind), [
      "committed",
      "refused",
      "committed",
      "committed",
      "committed",
      "committed",
    ]);
    const { row } = await backend.read("k");
    assertEquals(new TextDecoder().decode(row!.data), "compared!");
    assertEquals(row!.version, 5);
    await backend.close();
  },
);

testEdits("a write of a group that fails, fails alone", async (database, edit) => {
  const backend = await database.open();
  const { epoch } = await backend.takeOver();
  await backend.write("used", 7, epoch, set("x"));
  const results = await backend.writeGroup([
    writeOf("a", 1, edit(set("a"))),
    writeOf("b", 7, edit(set("token 7 was applied before"))),
    writeOf("c", 3, () => {
      throw new Error("too large");
    }),
    writeOf("b", 4, edit(set("b"))),
    writeOf("b", 5, append("2")),
  ], epoch);
  assertEquals(results.map(({ kind }) => kind), [
    "committed",
    "failed",
    "failed",
    "committed",
    "committed",
  ]);
  const rows = await backend.readMany(["a", "b", "c"]);
  assertEquals(rows.map(({ version }) => version), [1, 2, 0]);
  assertEquals(new TextDecoder().decode(rows[1]!.row!.data), "b2");
  await backend.close();
});

/** Refusals of a write that is made; the last one is noticed by COMMIT. */
const REFUSALS = [
  "SELECT RAISE(FAIL, 'refused')",
  "SELECT RAISE(ABORT, 'refused')",
  "SELECT RAISE(ROLLBACK, 'refused')",
  "INSERT INTO child VALUES (7)",
];

for (const refusal of REFUSALS) {
  testDatabases(
    `a write that a trigger refuses after it is made leaves no trace: ${refusal}`,
    async (database) => {
      const backend = await database.open();
      const { epoch } = await backend.takeOver();
      using file = new DatabaseSync(`${database.folder}/rows.db`);
      file.exec(
        "CREATE TABLE parent (id INTEGER PRIMARY KEY);" +
          "CREATE TABLE child (id REFERENCES parent DEFERRABLE INITIALLY DEFERRED);" +
          "CREATE TRIGGER refuse AFTER INSERT ON kv WHEN NEW.value = CAST('bad' AS BLOB) " +
          `BEGIN ${refusal}; END`,
      );
      const groups = [["bad"], ["good", "bad", "better"], ["bad", "one", "two", "bad", "three"]];
      let tokenId = 0;
      for (const [index, texts] of groups.entries()) {
        const writes = texts.map((text, at) =>
          writeOf(`${index} ${at} ${text}`, ++tokenId, set(text))
        );
        const results = await backend.writeGroup(writes, epoch);
        for (const [at, { key, tokenId }] of writes.entries()) {
          const isBad = texts[at] === "bad";
          assertEquals(results[at]!.kind, isBad ? "failed" : "committed");
          assertEquals((await backend.read(key)).version, isBad ? 0 : 1);
          assertEquals((await backend.outcome(tokenId)).kind, isBad ? "notApplied" : "committed");
        }
      }
      await backend.close();
    },
    ["SQLite"],
  );
}

testDatabases("a group that was taken over writes nothing", async (database) => {
  const first = await database.open();
  const { epoch } = await first.takeOver();
  const second = await database.open();
  const { epoch: later } = await second.takeOver();
  const writes = [writeOf("a", 1, set("x")), writeOf("b", 2, append("x"))];
  assertEquals(await first.writeGroup(writes, epoch), [
    { kind: "fenced", epoch: later },
    { kind: "fenced", epoch: later },
  ]);
  assertEquals((await second.readMany(["a", "b"])).map(({ version }) => version), [
    0,
    0,
  ]);
  await first.close();
  await second.close();
});

testDatabases(
  "a takeover learns the mark of the origin before, and no older one can note one",
  async (database) => {
    const first = await database.open();
    const { epoch, mark } = await first.takeOver();
    assertEquals(mark, "");
    assert(await first.noteMark("one", epoch));
    const second = await database.open();
    const later = await second.takeOver();
    assertEquals(later.mark, "one");
    assertEquals(await first.noteMark("two", epoch), false);
    assert(await second.noteMark("three", later.epoch));
    assertEquals((await first.takeOver()).mark, "three");
    await first.close();
    await second.close();
  },
);

testEdits("a row expires at its time, and is purged later", async (database, edit) => {
  let nowMs = 1_000_000;
  const backend = await database.open({ ...DEFAULT_TABLE, expiry: "expires at" }, () => nowMs);
  const { epoch } = await backend.takeOver();
  const expiring = { flags: 3, data: bytes("x"), expiresUnixSec: 1010 };
  assertEquals(
    await backend.writeGroup([
      writeOf("a", 1, edit(expiring)),
      writeOf("b", 2, edit(set("stays"))),
      writeOf("c", 3, edit(expiring)),
      writeOf("c", 4, edit(set("stays, too"))),
    ], epoch),
    [1, 1, 1, 2].map((version) => ({ kind: "committed", version })),
  );
  assertEquals((await backend.read("a")).row, { ...expiring, version: 1 });
  await backend.purgeExpired();
  assertEquals((await backend.read("a")).version, 1);
  nowMs = 1_010_000;
  assertEquals(await backend.read("a"), { row: null, version: 1, epoch });
  const seen: (Row | null)[] = [];
  await backend.write("a", 5, epoch, (row) => {
    seen.push(row);
    return null;
  });
  assertEquals(seen, [null]);
  await backend.purgeExpired();
  assertEquals(await backend.read("a"), { row: null, version: 2, epoch });
  const [b, c] = await backend.readMany(["b", "c"]);
  assertEquals([b!.version, c!.version], [1, 2]);
  assert(b!.row !== null && c!.row !== null);
  await backend.close();
});

Deno.test("SQLite: a table that an application has is refused with the options for its columns", async () => {
  await using database = await createDatabase("SQLite");
  const file = new DatabaseSync(`${database.folder}/rows.db`);
  file.exec("CREATE TABLE kv (id INTEGER PRIMARY KEY, value BLOB)");
  file.close();
  await assertRejects(
    async () => await database.open(),
    Error,
    "table kv has no column key, version, flags: rows need columns for key, value, version and flags: name them",
  );
});

Deno.test("SQLite: a table whose keys are not unique is refused: a write would make a second row", async () => {
  await using database = await createDatabase("SQLite");
  const file = new DatabaseSync(`${database.folder}/rows.db`);
  file.exec("CREATE TABLE kv (key BLOB, value BLOB, version INTEGER, flags INTEGER)");
  file.close();
  const reason = "column key of table kv is not unique: CREATE UNIQUE INDEX";
  await assertRejects(async () => await database.open(), Error, reason);
});

Deno.test("SQLite: a value is the text of a number, and a whole text, in each encoding", async () => {
  for (const encoding of ["UTF-8", "UTF-16le", "UTF-16be"]) {
    await using database = await createDatabase("SQLite");
    const file = new DatabaseSync(`${database.folder}/rows.db`);
    file.exec(
      `PRAGMA encoding = '${encoding}'; ` +
        "CREATE TABLE kv (key BLOB PRIMARY KEY, value, version INTEGER DEFAULT 1, flags INTEGER DEFAULT 0); " +
        "INSERT INTO kv (key, value) VALUES (x'61', 7), (x'62', -1.5), (x'63', 'ü' || char(0) || '😀'), (x'64', x'ff00')",
    );
    file.close();
    const backend = await database.open();
    const read = async (key: string): Promise<Uint8Array> => (await backend.read(key)).row!.data;
    assertEquals(await read("a"), bytes("7"), encoding);
    assertEquals(await read("b"), bytes("-1.5"), encoding);
    assertEquals(await read("c"), bytes("ü\0😀"), encoding);
    assertEquals(await read("d"), Uint8Array.of(255, 0), encoding);
    await backend.close();
  }
});

Deno.test("SQLite: a file that was deleted while it is open is noticed, and written no more", async () => {
  await using database = await createDatabase("SQLite");
  const backend = await database.open();
  const { epoch } = await backend.takeOver();
  Deno.removeSync(`${database.folder}/rows.db`);
  const result = await backend.write(KEY, 1, epoch, set("x"));
  assertEquals(result, {
    kind: "failed",
    reason: `${database.folder}/rows.db: the file was deleted or replaced`,
  });
  for (
    const ask of [() => backend.readEpoch(), () => backend.read(KEY), () => backend.endOfLog()]
  ) {
    await assertRejects(ask, Error, "the file was deleted or replaced");
  }
  await backend.close();
});

Deno.test("SQLite: a file without what SQLite keeps beside it, or an empty one, is written no more", async () => {
  const acts: readonly ((path: string) => void)[] = [
    (path) => Deno.removeSync(`${path}-wal`),
    (path) => Deno.removeSync(`${path}-shm`),
    (path) => Deno.truncateSync(path),
  ];
  for (const act of acts) {
    await using database = await createDatabase("SQLite");
    const backend = await database.open();
    const { epoch } = await backend.takeOver();
    act(`${database.folder}/rows.db`);
    const result = await backend.write(KEY, 1, epoch, set("x"));
    assertEquals(result.kind, "failed");
    for (const ask of [() => backend.readEpoch(), () => backend.endOfLog()]) {
      await assertRejects(ask, Error, "the file was deleted or replaced");
    }
    await backend.close();
  }
});

Deno.test("SQLite: a file that cannot be opened says what is needed", async () => {
  await using database = await createDatabase("SQLite");
  const path = `${database.folder}/rows.db`;
  const needs = "the folder must exist, and folder and file must be writable";
  assertThrows(() => new SqliteBackend(`${database.folder}/none/rows.db`), Error, needs);
  assertThrows(
    () => new SqliteBackend(database.folder),
    Error,
    `${database.folder} is a folder, not a file`,
  );
  Deno.writeTextFileSync(path, "another file ".repeat(100));
  assertThrows(() => new SqliteBackend(path), Error, "file is not a database");
  Deno.removeSync(path);
  const other = new DatabaseSync(path);
  other.exec("CREATE TABLE other (one); BEGIN EXCLUSIVE");
  assertThrows(
    () => new SqliteBackend(path, DEFAULT_TABLE, 50),
    Error,
    "another process has locked the file for 50 ms",
  );
  other.close();
});

Deno.test("SQLite: before a locked file the time of a write begins with its arrival", async () => {
  await using database = await createDatabase("SQLite");
  const path = `${database.folder}/rows.db`;
  const hourMs = 3_600_000;
  const backend = withSingleRows(new SqliteBackend(path, DEFAULT_TABLE, hourMs));
  const { epoch } = await backend.takeOver();
  const other = new DatabaseSync(path);
  other.exec("BEGIN EXCLUSIVE");
  const nowMs = performance.now();
  const writeOf = (tokenId: number, sinceMs?: number): Write => ({
    key: KEY,
    tokenId,
    edit: set("x"),
    owner: "",
    sinceMs,
  });
  const group = [writeOf(1, nowMs - hourMs), writeOf(2, nowMs), writeOf(3)];
  const reason = `${path}: another process has locked the file for ${hourMs} ms`;
  assertEquals(await backend.writeGroup(group, epoch), [
    { kind: "failed", reason },
    { kind: "postponed" },
    { kind: "postponed" },
  ]);
  other.exec("COMMIT");
  assertEquals(await backend.writeGroup(group.slice(1), epoch), [
    { kind: "committed", version: 1 },
    { kind: "committed", version: 2 },
  ]);
  other.close();
  await backend.close();
});

Deno.test("SQLite: reads go on while another process has the file locked, and writes name it", async () => {
  await using database = await createDatabase("SQLite");
  const backend = withSingleRows(
    new SqliteBackend(`${database.folder}/rows.db`, DEFAULT_TABLE, 200),
  );
  const { epoch } = await backend.takeOver();
  await backend.write(KEY, 1, epoch, set("x"));
  const other = new DatabaseSync(`${database.folder}/rows.db`);
  other.exec("BEGIN EXCLUSIVE");
  const written = backend.write(KEY, 2, epoch, set("y"));
  assertEquals((await backend.read(KEY)).version, 1);
  assertEquals(await written, {
    kind: "failed",
    reason: `${database.folder}/rows.db: another process has locked the file for 200 ms`,
  });
  other.exec("ROLLBACK");
  assertEquals((await backend.write(KEY, 3, epoch, set("z"))).kind, "committed");
  other.close();
  await backend.close();
});
