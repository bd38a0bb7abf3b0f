// The table of changes of an SQLite file, as an origin reads it: other writers use connections of their own.
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { mock } from "node:test";
import {
  CHANGED_KEYS_MAX,
  type Changes,
  type ChangeStream,
} from "../../../lib/databases/base/changes.ts";
import type { PreparedViews } from "../../../lib/databases/base/backend.ts";
import { SqliteBackend } from "../../../lib/databases/sqlite/backend.ts";
import { sqliteFollowSchema } from "../../../lib/databases/base/schema.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { keySet, shownKeys } from "../../support/rows/key_sets.ts";
import { Views } from "../../../lib/databases/views/view.ts";
import { parseViews } from "../../../lib/databases/views/views_file.ts";
import { latin1Text } from "../../../store/base/bytes.ts";
import { type RowBackend, withSingleRows } from "../../support/single_rows.ts";

const NEW_TRIGGERS = "the triggers are new";
const DROPPED = "the triggers are new, or changes have been dropped";
const OTHER_SCHEMA = "the schema has changed";
const PRODUCT = "CREATE TABLE product (id INTEGER PRIMARY KEY, name TEXT, shelf TEXT);";
const BY_SHELF = parseViews(
  JSON.stringify({
    "é:{shelf}:{id}": {
      query: "SELECT name FROM product WHERE shelf = {shelf} AND id = {id}",
      changes: { product: "é:{shelf}:{id}" },
    },
  }),
  "views.jsonc",
  ["é:"],
);
const PREFIX = text("é:");

/** As keys have it: UTF-8, a character a byte. */
function text(characters: string): string {
  return latin1Text(new TextEncoder().encode(characters));
}

interface Followed {
  readonly backend: RowBackend;
  readonly epoch: number;
  /** Another writer. */
  readonly other: DatabaseSync;
  readonly open: () => Promise<ChangeStream>;
  /** Null: there are none. */
  readonly views: PreparedViews | null;
}

/** Runs a test with a file whose changes are noted. */
async function withFile(
  run: (file: Followed) => Promise<void>,
  views = Views.NONE,
  tables = "",
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const backend = withSingleRows(new SqliteBackend(`${folder}/rows.db`, DEFAULT_TABLE, 60_000));
  const other = new DatabaseSync(`${folder}/rows.db`);
  if (tables !== "") other.exec(tables);
  try {
    const { epoch } = await backend.takeOver();
    assertEquals(await backend.prepareChanges(views), []);
    const prepared = views === Views.NONE ? null : await backend.prepareViews(views);
    await run({ backend, epoch, other, views: prepared, open: () => backend.openChanges(true) });
    await prepared?.close();
  } finally {
    other.close();
    await backend.close();
    await Deno.remove(folder, { recursive: true });
  }
}

function bytes(key: string): Uint8Array {
  return new TextEncoder().encode(key);
}

/** Takes what is there without the pause that an empty table makes. */
async function next(stream: ChangeStream): Promise<Changes> {
  stream.hasten();
  return await stream.next();
}

/** Lets all promises go on that can. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await Promise.resolve();
}

function countOf(other: DatabaseSync, table: string): unknown {
  return other.prepare(`SELECT count(*) AS count FROM ${table}`).get()!["count"];
}

const INSERT = "INSERT INTO kv (key, value) VALUES (CAST(? AS BLOB), x'00')";

Deno.test("the keys of other writers' changes are read once each, those of the origin's writes never", () =>
  withFile(async ({ backend, epoch, other, open }) => {
    const stream = await open();
    assertEquals([stream.gap, stream.endPosition], [NEW_TRIGGERS, 0n]);
    await stream.begin();
    await backend.write("own", 1, epoch, { flags: 0, data: bytes("x") });
    other.prepare(INSERT).run("a");
    other.exec("UPDATE kv SET key = CAST('b' AS BLOB) WHERE key = CAST('a' AS BLOB)");
    other.exec("DELETE FROM kv WHERE key = CAST('b' AS BLOB)");
    const changes = await next(stream);
    assertEquals(changes, { keys: ["a", "b"], prefixes: [], count: 4, position: 4n });
    assertEquals([stream.endPosition, await backend.endOfLog()], [4n, 4n]);
    await stream.confirm(4n);
    await backend.write("own", 2, epoch, { flags: 0, data: bytes("y") });
    assertEquals(await next(stream), { keys: [], prefixes: [], count: 0, position: 4n });
    assertEquals(await backend.endOfLog(), 4n, "positions are not used again");
    await stream.close();
  }));

Deno.test("changes are read again after a restart until they are confirmed, from the first one left on", () =>
  withFile(async ({ other, open }) => {
    const first = await open();
    await first.begin();
    for (const key of ["a", "b", "c"]) other.prepare(INSERT).run(key);
    assertEquals((await next(first)).keys, ["a", "b", "c"]);
    await first.confirm(2n);
    await first.close();
    const second = await open();
    assertEquals(second.gap, null);
    const changes = await next(second);
    assertEquals([changes.keys, changes.count, changes.position], [["a", "b", "c"], 3, 3n]);
    await second.close();
  }));

Deno.test("a thousand applied changes stay, and the lock on the file is not taken; more are deleted, but the last", () =>
  withFile(async ({ other, open }) => {
    const stream = await open();
    await stream.begin();
    const add = (from: number, to: number): void => {
      other.exec("BEGIN");
      for (let number = from; number <= to; number++) other.prepare(INSERT).run(`k${number}`);
      other.exec("COMMIT");
    };
    add(1, 1000);
    assertEquals((await next(stream)).position, 1000n);
    // Whoever has the lock is not waited for.
    other.exec("BEGIN IMMEDIATE");
    await stream.confirm(1000n);
    other.exec("ROLLBACK");
    assertEquals(countOf(other, "leased_changes"), 1000);
    add(1001, 1001);
    assertEquals((await next(stream)).position, 1001n);
    await stream.confirm(1001n);
    assertEquals(countOf(other, "leased_changes"), 1, "the last one keeps the count");
    assertEquals(await next(stream), { keys: [], prefixes: [], count: 0, position: 1001n });
    add(1002, 1002);
    assertEquals((await next(stream)).keys, ["k1002"]);
    await stream.close();
  }));

Deno.test("there is a gap until everything was emptied, and again after a change of the schema", () =>
  withFile(async ({ other, open }) => {
    for (let opened = 0; opened < 2; opened++) {
      const unbegun = await open();
      assertEquals(unbegun.gap, NEW_TRIGGERS);
      await unbegun.close();
    }
    const begun = await open();
    await begun.begin();
    await begun.close();
    assertEquals((await open()).gap, null);
    other.exec("CREATE TABLE more (one)");
    assertEquals((await open()).gap, OTHER_SCHEMA);
  }));

Deno.test("a log that is read ends with a change of the schema, and names a trigger that is missing", async () => {
  for (
    const [views, option] of [[Views.NONE, ""], [BY_SHELF, " --views <file>"]] as const
  ) {
    await withFile(
      async ({ other, open }) => {
        const stream = await open();
        await stream.begin();
        other.exec("CREATE TABLE more (one)");
        await assertRejects(() => next(stream), Error, "the schema has changed");
        other.exec("DROP TRIGGER leased_change_deleted_kv");
        const missing = "the trigger leased_change_deleted_kv is missing or another one: " +
          `start \`leased rows init --follow${option} --run --db <database>\``;
        await assertRejects(() => next(stream), Error, missing);
        await assertRejects(() => open(), Error, missing);
        await stream.close();
      },
      views,
      PRODUCT,
    );
  }
});

Deno.test("the end of a log that may lack changes is not known until the log has ended", () =>
  withFile(async ({ backend, other, open }) => {
    const stream = await open();
    await stream.begin();
    assertEquals(await backend.endOfLog(), 0n);
    other.exec("DROP TRIGGER leased_change_inserted_kv");
    other.prepare(INSERT).run("unnoticed");
    await assertRejects(() => backend.endOfLog(), Error, "the schema has changed");
    assertEquals(await backend.endOfLogOnDisk(), 0n);
    await stream.close();
    assertEquals(await backend.endOfLog(), 0n);
  }));

Deno.test("a view that cannot be read from its tables any more is broken, and the log goes on", () =>
  withFile(
    async ({ views, other, open }) => {
      assertEquals(views!.broken, []);
      other.exec("ALTER TABLE product RENAME COLUMN name TO title");
      await (await open()).close();
      assertEquals(views!.broken.map(({ reason }) => reason), ["no such column: name"]);
      other.exec("ALTER TABLE product RENAME COLUMN title TO name");
      await (await open()).close();
      assertEquals(views!.broken, []);
    },
    BY_SHELF,
    PRODUCT,
  ));

Deno.test("a view whose table was rebuilt, with its triggers, is not broken", () =>
  withFile(
    async ({ views, other, open }) => {
      const triggers = other.prepare(
        "SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'product'",
      ).all().map(({ sql }) => `${sql};`);
      assert(triggers.length > 0);
      other.exec(
        `BEGIN; ${PRODUCT.replace("product", "copied")} DROP TABLE product;` +
          `ALTER TABLE copied RENAME TO product; ${triggers.join("")} COMMIT`,
      );
      await (await open()).close();
      assertEquals(views!.broken, []);
    },
    BY_SHELF,
    PRODUCT,
  ));

Deno.test("views that are refused change nothing: the log is opened with the triggers of those before", () =>
  withFile(
    async ({ backend, other, open }) => {
      const query = "SELECT id FROM product WHERE name = {name}";
      const further = { "n:{name}": { query, changes: { product: "n:{name}" } } };
      const views = parseViews(JSON.stringify(further), "views.jsonc", ["n:"]);
      const message = "the triggers of its tables are missing or old";
      await assertRejects(() => backend.prepareViews(views), Error, message);
      const stream = await open();
      await stream.begin();
      other.exec("INSERT INTO product VALUES (1, 'a', 'b')");
      assertEquals(shownKeys(await next(stream)), shownKeys(keySet(`${PREFIX}b:1`)));
      await stream.close();
    },
    BY_SHELF,
    PRODUCT,
  ));

Deno.test("positions do not depend on sqlite_sequence, which applications reset", () =>
  withFile(async ({ backend, other, open }) => {
    const resets = ["DELETE FROM sqlite_sequence", "UPDATE sqlite_sequence SET seq = 0"];
    const stream = await open();
    await stream.begin();
    let count = 0;
    const change = async (): Promise<void> => {
      other.prepare(INSERT).run(`key ${++count}`);
      const { keys, position } = await next(stream);
      assertEquals([keys, position], [[`key ${count}`], BigInt(count)]);
    };
    await change();
    for (const reset of resets) {
      for (const isConfirmed of [true, false]) {
        await change();
        if (isConfirmed) await stream.confirm(BigInt(count));
        other.exec(reset);
        assertEquals(await backend.endOfLog(), BigInt(count), reset);
        await change();
      }
    }
    await stream.close();
  }));

Deno.test("a table of changes that someone has emptied ends the log, and the next one empties the caches", () =>
  withFile(async ({ other, open }) => {
    const stream = await open();
    await stream.begin();
    for (const key of ["a", "b"]) other.prepare(INSERT).run(key);
    await next(stream);
    other.exec("DELETE FROM leased_changes; DELETE FROM sqlite_sequence");
    other.prepare(INSERT).run("c");
    await assertRejects(() => next(stream), Error, "the oldest changes were dropped");
    await stream.close();
    assertEquals((await open()).gap, DROPPED);
  }));

Deno.test("a log that is closed is read no more", () =>
  withFile(async ({ other, open }) => {
    const stream = await open();
    await stream.begin();
    other.prepare(INSERT).run("a");
    await stream.close();
    await assertRejects(() => stream.next(), Error, "the table of changes is read no more");
    await stream.confirm(1n);
    assertEquals(countOf(other, "leased_changes"), 1, "nothing is confirmed");
  }));

Deno.test("without changes the newest position comes after a second, and in haste after one look", () =>
  withFile(async ({ open }) => {
    const stream = await open();
    await stream.begin();
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      // A haste serves one call.
      for (const [hastens, looks] of [[true, 1], [false, 50], [true, 1]] as const) {
        if (hastens) stream.hasten();
        let changes: Changes | null = null;
        void stream.next().then((result) => changes = result);
        for (let look = 1; look <= looks; look++) {
          await settled();
          assertEquals(changes, null);
          mock.timers.tick(20);
        }
        await settled();
        assertEquals(changes, { keys: [], prefixes: [], count: 0, position: 0n });
      }
    } finally {
      mock.timers.reset();
    }
    await stream.close();
  }));

Deno.test("a column that is NULL stands for all keys with the texts before it, in UTF-8", () =>
  withFile(
    async ({ other, open }) => {
      const stream = await open();
      await stream.begin();
      const insert = other.prepare("INSERT INTO product (shelf) VALUES (?)");
      insert.run("ö");
      assertEquals((await next(stream)).keys, [text("é:ö:1")]);
      insert.run("ö");
      insert.run(null);
      assertEquals(shownKeys(await next(stream)), [`${PREFIX}*`]);
      await stream.close();
    },
    BY_SHELF,
    PRODUCT,
  ));

Deno.test("many changes are read and confirmed in pieces, and many keys of a view become its prefix", () =>
  withFile(
    async ({ other, open }) => {
      const stream = await open();
      await stream.begin();
      const rows = 2500;
      const many = (count: number): string =>
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})`;
      other.exec(`${many(rows)} INSERT INTO kv (key) SELECT CAST('r' || i AS BLOB) FROM n`);
      const few = await next(stream);
      assertEquals([few.keys.length, few.count, few.prefixes], [rows, rows, []]);
      assertEquals([few.keys[0], few.keys.at(-1)], ["r1", `r${rows}`]);
      other.exec(
        `${many(CHANGED_KEYS_MAX + 1)} INSERT INTO product (id, shelf) SELECT i, 's' FROM n`,
      );
      other.prepare(INSERT).run("row");
      const view = await next(stream);
      assertEquals(shownKeys(view), [`${PREFIX}*`, "row"]);
      assertEquals(view.count, CHANGED_KEYS_MAX + 2);
      const all = rows + CHANGED_KEYS_MAX + 2;
      assertEquals(view.position, BigInt(all));
      await stream.confirm(view.position - 1n);
      assertEquals(countOf(other, "leased_changes"), 1);
      other.exec(`UPDATE kv SET version = 7 WHERE key <> CAST('row' AS BLOB)`);
      const more = 2 * CHANGED_KEYS_MAX + 2;
      other.exec(`${many(more)} INSERT INTO kv (key) SELECT CAST('m' || i AS BLOB) FROM n`);
      const flood = await next(stream);
      assertEquals(shownKeys(flood), ["*"]);
      assertEquals(flood.position, BigInt(all + 2 * rows + more), "the whole log is passed");
      assertEquals(flood.count, 2 * rows + more);
      await stream.close();
    },
    BY_SHELF,
    PRODUCT,
  ));

Deno.test("a write that is fenced, or that a trigger ends with its transaction, hides no change of others", () =>
  withFile(async ({ backend, epoch, other, open }) => {
    const stream = await open();
    await stream.begin();
    const write = { flags: 0, data: bytes("x") };
    assertEquals((await backend.write("k", 1, epoch - 1, write)).kind, "fenced");
    other.prepare(INSERT).run("a");
    assertEquals((await next(stream)).keys, ["a"]);
    other.exec(
      "CREATE TRIGGER ends BEFORE INSERT ON kv WHEN NEW.key = CAST('end' AS BLOB) " +
        "BEGIN SELECT RAISE(ROLLBACK, 'ended'); END",
    );
    const writes = ["one", "end", "two"].map((key, at) => ({
      key,
      tokenId: 10 + at,
      edit: write,
      owner: "",
    }));
    const results = await backend.writeGroup(writes, epoch);
    assertEquals(results.map(({ kind }) => kind), ["committed", "failed", "committed"]);
    assert(results[1]!.kind === "failed");
    assertMatch(results[1]!.reason, /rows\.db: ended$/);
    assertEquals(countOf(other, "kv"), 3, "all but one of the group are written");
    other.prepare(INSERT).run("b");
    assertEquals(countOf(other, "leased_changes"), 2, "b is noted");
    await stream.close();
  }));

Deno.test("changes that nobody reads are bounded, and the next log knows that the oldest are gone", () =>
  withFile(async ({ other, open }) => {
    other.exec(`DROP TRIGGER leased_changes_bound; ${sqliteFollowSchema(1500)}`);
    const count = (): number =>
      other.prepare("SELECT count(*) AS count FROM leased_changes").get()!["count"] as number;
    const change = (times: number): void => {
      other.exec("BEGIN");
      const insert = other.prepare("REPLACE INTO kv (key, value) VALUES (?, 'x')");
      for (let index = 0; index < times; index++) insert.run(`key ${index % 7}`);
      other.exec("COMMIT");
    };
    const first = await open();
    assertEquals(first.gap, NEW_TRIGGERS);
    await first.begin();
    await first.close();
    // At first these are all, then the oldest go.
    change(100);
    const whole = await open();
    assertEquals([whole.gap, (await next(whole)).count > 100], [null, true]);
    const { position } = await next(whole);
    await whole.confirm(position);
    change(100);
    for (let round = 0; round < 20; round++) {
      change(500);
      assert(count() <= 2500, `${count()} changes are kept`);
    }
    // A stream that was open all the time has missed some.
    await assertRejects(() => next(whole), Error, "the oldest changes were dropped");
    await whole.close();
    const later = await open();
    assertEquals(later.gap, DROPPED);
    await later.begin();
    // Too many once more, before it looks for the first time.
    for (let round = 0; round < 10; round++) change(500);
    await assertRejects(() => next(later), Error, "the oldest changes were dropped");
    await later.close();
    const last = await open();
    await last.begin();
    await next(last);
    await last.close();
  }));
