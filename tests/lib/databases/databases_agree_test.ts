// One script, two databases: whatever an origin asks of SQLite and of PostgreSQL, both answer the same.
import { shownKeys } from "../../support/rows/key_sets.ts";
import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import {
  type Change,
  type Edit,
  type Found,
  PURGE_MAX,
  type Write,
} from "../../../lib/databases/base/backend.ts";
import { DEFAULT_TABLE, type TableNames } from "../../../lib/databases/base/table.ts";
import { parseViews } from "../../../lib/databases/views/views_file.ts";
import { latin1Text } from "../../../store/base/bytes.ts";
import { needs } from "../../support/needs/needs.ts";
import {
  createDatabase,
  type DatabaseKind,
  sharedPostgres,
  type TestDatabase,
} from "../../support/servers/databases.ts";
import { HAS_POSTGRES } from "../../support/servers/postgres.ts";
import type { RowBackend } from "../../support/single_rows.ts";

const KINDS: readonly DatabaseKind[] = ["SQLite", "PostgreSQL"];
const FIRST_MS = 1_000_000;

/** The parts that a script may use. */
interface World {
  readonly database: TestDatabase;
  readonly kind: DatabaseKind;
  open(names?: TableNames): Promise<RowBackend>;
  /** Executes statements as an application does. @returns The value of `count`, if the last one selects it. */
  execute(sql: string): Promise<string>;
  nowMs: number;
}

/** Notes what a database answers, under a name. */
type Note = (name: string, answer: unknown) => void;
type Script = (world: World, note: Note) => Promise<void>;

/** Returns what a database answers to a script. */
async function answersOf(kind: DatabaseKind, script: Script): Promise<Record<string, unknown>> {
  await using database = await createDatabase(kind);
  const opened: RowBackend[] = [];
  const answers: Record<string, unknown> = {};
  const world: World = {
    database,
    kind,
    nowMs: FIRST_MS,
    open: async (names = DEFAULT_TABLE) => {
      const backend = await database.open(names, () => world.nowMs);
      opened.push(backend);
      return backend;
    },
    execute: async (sql) => {
      if (kind === "PostgreSQL") {
        return await (await sharedPostgres()).execute(sql, database.url);
      }
      using file = new DatabaseSync(`${database.folder}/rows.db`);
      if (sql.startsWith("SELECT ")) return String(file.prepare(sql).get()!["count"]);
      file.exec(sql);
      return "";
    },
  };
  try {
    await script(world, (name, answer) => answers[name] = answer);
  } finally {
    for (const backend of opened) await backend.close();
  }
  return answers;
}

/** A test whose script both databases answer with `expected`. */
function testBoth(name: string, expected: Record<string, unknown>, script: Script): void {
  Deno.test(name, needs("PostgreSQL", HAS_POSTGRES), async () => {
    for (const kind of KINDS) assertEquals(await answersOf(kind, script), expected, kind);
  });
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function set(text: string, more: Partial<Exclude<Change, "delete">> = {}): Change {
  return { flags: 0, data: bytes(text), ...more };
}

function writeOf(key: string, tokenId: number, edit: Edit): Write {
  return { key, tokenId, edit, owner: "" };
}

/** Returns the SQL of bytes. */
function blob({ kind }: World, text: string): string {
  return kind === "SQLite" ? `CAST('${text}' AS BLOB)` : `convert_to('${text}', 'UTF8')`;
}

/** `value flags version expiry`; or what there is instead. */
function shown({ row, version, problem, isKept }: Found): string {
  const kept = isKept === false ? " not kept" : "";
  if (problem !== undefined) return `problem${kept}`;
  if (row === null) return `none ${version}${kept}`;
  const until = row.expiresUnixSec === undefined ? "" : ` until ${row.expiresUnixSec}`;
  return `${new TextDecoder().decode(row.data)} ${row.flags} ${row.version}${until}${kept}`;
}

testBoth("rows with flags of 32 bits and times, over quoted names", {
  fresh: ["none 0", "none 0"],
  written: ["committed 1", "committed 2", "committed 3", "committed 1"],
  read: ["c 4294967295 3 until 2000", "none 1", "none 0"],
  cleared: "d 5 4",
  deleted: "none 5",
  again: "e 0 6 until 1001",
  late: "none 6",
  // A write of a row whose time is over finds none.
  added: ["committed 7", "added 0 7"],
  outcomes: ["committed 1", "committed 3", "notApplied", "committed 1"],
  // As an application sees the rows: a time that is none is NULL, and so is the value of a row that does not exist.
  seen: ["0", "1", "1"],
}, async (world, note) => {
  const names = {
    table: 'a "b"',
    key: 'k"',
    value: 'v"',
    version: 'n"',
    flags: 'f"',
    expiry: 'e"',
  };
  const backend = await world.open(names);
  const { epoch } = await backend.takeOver();
  const read = async (key: string): Promise<string> => shown(await backend.read(key));
  note("fresh", (await backend.readMany(["k", "l"])).map(shown));
  const results = await backend.writeGroup([
    writeOf("k", 1, set("a", { expiresUnixSec: 1001 })),
    writeOf("k", 2, set("b")),
    writeOf("k", 3, set("c", { flags: 2 ** 32 - 1, expiresUnixSec: 2000 })),
    writeOf("l", 4, "delete"),
  ], epoch);
  note("written", results.map((each) => `${each.kind} ${"version" in each ? each.version : ""}`));
  note("read", (await backend.readMany(["k", "l", "m"])).map(shown));
  await backend.write("k", 5, epoch, set("d", { flags: 5 }));
  note("cleared", await read("k"));
  await backend.write("k", 6, epoch, "delete");
  note("deleted", await read("k"));
  await backend.write("k", 7, epoch, set("e", { expiresUnixSec: 1001 }));
  note("again", await read("k"));
  world.nowMs = 1_001_000;
  note("late", await read("k"));
  const add: Edit = (row) => row === null ? set("added") : null;
  const added = await backend.write("k", 8, epoch, add);
  note("added", [`${added.kind} ${"version" in added ? added.version : ""}`, await read("k")]);
  const outcomes = await Promise.all([1, 3, 99, 4].map((id) => backend.outcome(id)));
  note("outcomes", outcomes.map((each) => [each.kind, ...Object.values(each).slice(1)].join(" ")));
  const count = (condition: string): Promise<string> =>
    world.execute(`SELECT count(*) AS count FROM "a ""b""" WHERE ${condition}`);
  note("seen", [
    await count('"e""" = 0'),
    await count('"e""" IS NULL AND "v""" IS NOT NULL'),
    await count('"e""" IS NULL AND "v""" IS NULL AND "f""" = 0'),
  ]);
});

testBoth("expired rows are purged a thousand at once, tokens by their age", {
  before: [PURGE_MAX + 1, 0],
  once: [PURGE_MAX, 1],
  twice: [PURGE_MAX + 1, 0],
  kept: ["kept 1 1 until 1002", "0 0 1"],
  purged: ["none 2", "none 2"],
  outcomes: ["notApplied", "committed", "committed"],
}, async (world, note) => {
  const backend = await world.open({ ...DEFAULT_TABLE, expiry: "until" });
  const { epoch } = await backend.takeOver();
  const keys = Array.from({ length: PURGE_MAX + 1 }, (_, index) => `k${index}`);
  await backend.writeGroup(
    keys.map((key, index) => writeOf(key, index + 1, set("x", { expiresUnixSec: 1001 }))),
    epoch,
  );
  await backend.write("kept", 5001, epoch, set("kept", { flags: 1, expiresUnixSec: 1002 }));
  await backend.write("zero", 5002, epoch, set("0"));
  // As an application may say: never.
  await world.execute(`UPDATE kv SET until = 0 WHERE key = ${blob(world, "zero")}`);
  const counts = async (): Promise<[number, number]> => {
    const versions = (await backend.readMany(keys)).map(({ version }) => version);
    const purged = versions.filter((version) => version === 2).length;
    return [purged, versions.length - purged];
  };
  world.nowMs = 1_000_999;
  await backend.purgeExpired();
  note("before", (await counts()).reverse());
  world.nowMs = 1_001_999;
  await backend.purgeExpired();
  note("once", await counts());
  await backend.purgeExpired();
  note("twice", await counts());
  note("kept", (await backend.readMany(["kept", "zero"])).map(shown));
  note("purged", (await backend.readMany(["k0", "k1000"])).map(shown));
  await world.execute("UPDATE leased_applied SET at = token WHERE token <= 3");
  await backend.purgeApplied(2);
  const outcomes = await Promise.all([1, 2, 3].map((id) => backend.outcome(id)));
  note("outcomes", outcomes.map(({ kind }) => kind));
});

testBoth("a table without a column for times: rows never expire, and nothing is purged", {
  read: "x 3 1",
  after: "x 3 1",
}, async (world, note) => {
  const backend = await world.open();
  const { epoch } = await backend.takeOver();
  await backend.write("k", 1, epoch, set("x", { flags: 3, expiresUnixSec: 1 }));
  note("read", shown(await backend.read("k")));
  await backend.purgeExpired();
  note("after", shown(await backend.read("k")));
});

testBoth("keys and values of any bytes, of every length", {
  same: true,
  versions: [1, 1, 1, 1],
}, async (world, note) => {
  const backend = await world.open();
  const { epoch } = await backend.takeOver();
  const all = Uint8Array.from({ length: 250 }, (_, index) => index + 6);
  const keys = ["\0", "\0\0", latin1Text(all), "\\x00\"'{},NULL"];
  const values = [new Uint8Array(), all, new Uint8Array(100_000).fill(7), bytes('NULL\\"')];
  await backend.writeGroup(
    keys.map((key, at) => ({
      key,
      tokenId: at + 1,
      owner: "",
      edit: { flags: 0, data: values[at]! },
    })),
    epoch,
  );
  const found = await backend.readMany(keys);
  const texts = found.map(({ row }) => latin1Text(row!.data));
  note("same", texts.every((text, at) => text === latin1Text(values[at]!)));
  note("versions", found.map(({ version }) => version));
});

testBoth("an application changes rows: its version, or none of its own, and a value that is NULL", {
  read: ["new 9 5", "none 6", "new 0 1"],
  written: [6, 7, 2],
}, async (world, note) => {
  const backend = await world.open();
  const { epoch } = await backend.takeOver();
  const [a, b, c, value] = ["a", "b", "c", "new"].map((text) => blob(world, text));
  await world.execute(
    "INSERT INTO kv (key, flags, value, version) " +
      `VALUES (${a}, 9, ${value}, 5), (${b}, 0, NULL, 6); ` +
      `INSERT INTO kv (key, value) VALUES (${c}, ${value})`,
  );
  const keys = ["a", "b", "c"];
  note("read", (await backend.readMany(keys)).map(shown));
  const results = await backend.writeGroup(
    keys.map((key, at) => writeOf(key, at + 1, set("x"))),
    epoch,
  );
  note("written", results.map((each) => "version" in each && each.version));
});

testBoth("the origin before is known by its mark; an older one notes no mark and no end", {
  first: [1, ""],
  notes: [true, false],
  second: [2, "one"],
  epochs: [2, 2],
  checked: true,
}, async (world, note) => {
  const [first, second] = [await world.open(), await world.open()];
  const one = await first.takeOver();
  note("first", [one.epoch, one.mark]);
  const isNoted = await first.noteMark("one", one.epoch);
  const two = await second.takeOver();
  note("notes", [isNoted, await first.noteMark("two", one.epoch)]);
  note("second", [two.epoch, two.mark]);
  note("epochs", [await first.readEpoch(), await second.readEpoch()]);
  await second.check();
  note("checked", true);
});

/** Kinds of columns of one table, with what both databases write for them. */
const SHOP: Record<DatabaseKind, string> = {
  SQLite: `CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, big INTEGER, bits BLOB);
    INSERT INTO item VALUES (1, 'a "b" \\ é' || char(10), 9007199254740993, x'00ff');
    INSERT INTO item VALUES (2, NULL, -1, NULL), (3, '', 0, x'');`,
  PostgreSQL: `CREATE TABLE item (id integer PRIMARY KEY, name text, big bigint, bits bytea);
    ALTER TABLE item REPLICA IDENTITY FULL;
    INSERT INTO item VALUES (1, 'a "b" \\ é' || chr(10), 9007199254740993, '\\x00ff');
    INSERT INTO item VALUES (2, NULL, -1, NULL), (3, '', 0, '');`,
};

/** Returns a file of views: keys, query and other fields of each. Parameters have the names of columns. */
function fileOf(...views: (readonly [keys: string, query: string, more?: object])[]): string {
  const named = views.map((
    [keys, query, more],
  ) => [keys, { query, changes: { item: keys }, ...more }]);
  return JSON.stringify(Object.fromEntries(named));
}

const RAW = { value: "raw" };
const FORMS = fileOf(
  ["object:{id}", "SELECT id, name, big, bits FROM item WHERE id = {id}"],
  // Names that the statement around the query may have.
  ["named:{id}", "SELECT id AS q, 7 AS value, 8 AS data FROM item WHERE id = {id}"],
  ["array:{id}", "SELECT id, big FROM item WHERE id >= {id} ORDER BY id", { value: "array" }],
  ["name:{id}", "SELECT name FROM item WHERE id = {id}", RAW],
  ["big:{id}", "SELECT big FROM item WHERE id = {id}", { ...RAW, "max-age": 60 }],
  ["bits:{id}", "SELECT bits FROM item WHERE id = {id}", RAW],
  ["text:{name}", "SELECT id FROM item WHERE name = {name}", RAW],
  ["twice:{name}:{id}", "SELECT {id} + id FROM item WHERE name = {name} AND id = {id}", RAW],
);
testBoth("views give the same texts, whatever the form of their results", {
  "object:1": '{"id":1,"name":"a \\"b\\" \\\\ é\\n","big":9007199254740993,"bits":"\\\\x00ff"} 0 1',
  "object:2": '{"id":2,"name":null,"big":-1,"bits":null} 0 1',
  "object:3": '{"id":3,"name":"","big":0,"bits":"\\\\x"} 0 1',
  "object:4": "none 0",
  "object:01": "none 0",
  "object:x": "none 0",
  "object:9223372036854775808": "none 0",
  "array:2": '[{"id":2,"big":-1},{"id":3,"big":0}] 0 1',
  "array:4": "[] 0 1",
  "name:1": 'a "b" \\ é\n 0 1',
  "name:2": "none 0",
  "name:3": " 0 1",
  "big:1": "9007199254740993 0 1 until 1060",
  "big:4": "none 0 not kept",
  "big:-": "none 0 not kept",
  "bits:1": "\\x00ff 0 1",
  "bits:2": "none 0",
  "named:2": '{"q":2,"value":7,"data":8} 0 1',
  "text:": "3 0 1",
  'text:a "b" \\ é\n': "1 0 1",
  "text:\0": "none 0",
  "twice::3": "6 0 1",
  epochs: [1, 1],
  keys: ["array:1", "object:1", "object:5"],
}, async (world, note) => {
  const backend = await world.open();
  await backend.takeOver();
  await world.execute(SHOP[world.kind]);
  const views = parseViews(FORMS, "views.jsonc", [""]);
  await backend.prepareChanges(views);
  world.nowMs = 1_000_999;
  const prepared = await backend.prepareViews(views);
  const found = (key: string): NonNullable<ReturnType<typeof views.find>> =>
    views.find(latin1Text(bytes(key)))!;
  const keys = [
    ...["object:1", "object:2", "object:3", "object:4", "object:01", "object:x"],
    ...[
      "named:2",
      "object:9223372036854775808",
      "array:2",
      "array:4",
      "name:1",
      "name:2",
      "name:3",
    ],
    ...["big:1", "big:4", "big:-", "bits:1", "bits:2", "text:", 'text:a "b" \\ é\n', "text:\0"],
    "twice::3",
  ];
  const results = await prepared.readMany(keys.map(found));
  for (const [at, key] of keys.entries()) note(key, shown(results[at]!));
  const [alone] = await prepared.readMany([found("big:4")]);
  note("epochs", [results[0]!.epoch, alone!.epoch]);
  const stream = await backend.openChanges(true);
  await stream.begin();
  await world.execute("UPDATE item SET big = 7, id = 5 WHERE id = 1");
  let changed: readonly string[] = [];
  while (changed.length === 0) changed = shownKeys(await stream.next());
  note("keys", [...changed].filter((key) => /^(?:object|array:1)/.test(key)).toSorted());
  await stream.close();
  await prepared.close();
});

testBoth(
  "of views that are read together, one whose query fails has a problem, the others have answers",
  {
    together: ["2 0 1", "problem not kept", "none 0", "problem not kept"],
    alone: ["problem not kept", "view div:{id}: "],
  },
  async (world, note) => {
    const backend = await world.open();
    await backend.takeOver();
    await world.execute(SHOP[world.kind]);
    // SQLite has no division that fails.
    const failing = world.kind === "SQLite" ? "abs(-9223372036854775807 - {id})" : "1 / ({id} - 1)";
    const query = `SELECT ${failing} AS x FROM item WHERE id = {id}`;
    const file = fileOf(
      ["id:{id}", "SELECT id FROM item WHERE id = {id}", RAW],
      ["div:{id}", query],
      ["old:{id}", query, { "max-age": 1 }],
    );
    const views = parseViews(file, "views.jsonc", [""]);
    await backend.prepareChanges(views);
    const prepared = await backend.prepareViews(views);
    const keys = ["id:2", "div:1", "div:9", "old:1"].map((key) => views.find(key)!);
    note("together", (await prepared.readMany(keys)).map(shown));
    const [alone] = await prepared.readMany([keys[1]!]);
    note("alone", [shown(alone!), alone!.problem!.slice(0, 15)]);
    await prepared.close();
  },
);
