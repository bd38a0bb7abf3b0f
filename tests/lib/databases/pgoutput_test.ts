// Messages of PostgreSQL's plugin pgoutput, made by hand.
import { assert, assertEquals, assertThrows } from "@std/assert";
import { hasOld, identityOf } from "../../../lib/databases/postgres/publication.ts";
import { PgoutputReader } from "../../../lib/databases/postgres/pgoutput.ts";
import { shownKeys } from "../../support/rows/key_sets.ts";
import { ViewMapping } from "../../../lib/databases/views/view_mapping.ts";
import { parseViews } from "../../../lib/databases/views/views_file.ts";

const ROWS = 70_000;
const PRODUCT = 80_000;
const OTHER = 90_000;
const BYTEA = 17;
const TEXT = 25;
const XID = 3_000_000_000;
const END = 0x1_2345_6789n;

/** Bytes of a message: texts, and numbers of 1, 2, 4 and 8 bytes. */
type Part = string | readonly [bytes: 1 | 2 | 4 | 8, number: number | bigint];

function message(...parts: readonly Part[]): Uint8Array {
  const bytes = parts.flatMap((part) => {
    if (typeof part === "string") return [...new TextEncoder().encode(part)];
    const [length, number] = part;
    const view = new DataView(new ArrayBuffer(8));
    view.setBigUint64(0, BigInt(number));
    return [...new Uint8Array(view.buffer).slice(8 - length)];
  });
  // As the stream has it: somewhere in a larger buffer.
  const buffer = new Uint8Array(bytes.length + 5);
  buffer.set(bytes, 3);
  return buffer.subarray(3, 3 + bytes.length);
}

const BEGIN = message("B", [8, 7], [8, 8], [4, XID]);
const COMMIT = message("C", [1, 0], [8, 5], [8, END], [8, 9]);

interface Column {
  readonly name: string;
  readonly type: number;
  readonly isIdentity?: boolean;
}

function relation(oid: number, table: string, columns: readonly Column[]): Uint8Array {
  const parts = columns.flatMap(({ name, type, isIdentity = false }): Part[] => [
    [1, isIdentity ? 1 : 0],
    `${name}\0`,
    [4, type],
    [4, 0xffff_ffff],
  ]);
  return message("R", [4, oid], "public\0", `${table}\0`, "d", [2, columns.length], ...parts);
}

/** A value in text; null: NULL; undefined: not in the log. */
type Value = string | null | undefined;

function tuple(values: readonly Value[]): Part[] {
  const parts = values.flatMap((value): Part[] => {
    if (value === null) return ["n"];
    if (value === undefined) return ["u"];
    return ["t", [4, new TextEncoder().encode(value).length], value];
  });
  return [[2, values.length], ...parts];
}

/** @param parts `K`, `O` or `N`, each with the values of a row. */
function change(
  letter: "I" | "U" | "D",
  oid: number,
  ...parts: readonly (readonly [letter: string, values: readonly Value[]])[]
): Uint8Array {
  return message(
    letter,
    [4, oid],
    ...parts.flatMap(([each, values]): Part[] => [each, ...tuple(values)]),
  );
}

const MAPPING = new ViewMapping(
  parseViews(
    JSON.stringify({
      "product:{id}": { query: "SELECT {id}", changes: { product: "product:{id}" } },
      "shelf:{shelf}:{id}": {
        query: "SELECT {shelf}, {id}",
        changes: { product: "shelf:{shelf}:{id}" },
      },
    }),
    "views.jsonc",
    [""],
  ),
  () => String(PRODUCT),
);

const KV: readonly Column[] = [
  { name: "value", type: BYTEA },
  { name: "key", type: BYTEA, isIdentity: true },
];
const SHELVES: readonly Column[] = [
  { name: "id", type: 23, isIdentity: true },
  { name: "shelf", type: TEXT },
];

/** A reader that knows the tables. */
function reader(rows = KV, keyName = "key"): PgoutputReader {
  const made = new PgoutputReader({ oid: String(ROWS), keyName }, () => MAPPING);
  for (
    const each of [
      relation(ROWS, "kv", rows),
      relation(PRODUCT, "product", SHELVES),
      relation(OTHER, "other", [{ name: "key", type: TEXT }]),
    ]
  ) assertEquals(made.take(each), null);
  return made;
}

/** Returns the keys of a transaction, and how many changes it has. */
function keysOf(messages: readonly Uint8Array[], from = reader()): [string[], number] {
  for (const each of [BEGIN, ...messages]) assertEquals(from.take(each), null);
  const { changed } = from.take(COMMIT)!;
  return [shownKeys(changed), changed.count];
}

Deno.test("a commit has the number of its transaction and the position after it", () => {
  const made = reader();
  made.take(BEGIN);
  const { xid, endPosition, changed } = made.take(COMMIT)!;
  assertEquals([xid, endPosition, changed.count, changed.size], [XID, END, 0, 0]);
});

/** Messages of one transaction, and the keys that they concern. */
const CASES: readonly (readonly [
  what: string,
  messages: readonly Uint8Array[],
  keys: readonly string[],
  count: number,
])[] = [
  ["an insertion", [change("I", ROWS, ["N", ["\\x01", "\\x6bff"]])], ["k\xff"], 1],
  ["an update of the value", [change("U", ROWS, ["N", ["\\x02", "\\x6b"]])], ["k"], 1],
  [
    "an update of the key",
    [change("U", ROWS, ["K", [null, "\\x6b"]], ["N", [undefined, "\\x6c"]])],
    ["k", "l"],
    1,
  ],
  [
    "an update whose old row is logged whole",
    [change("U", ROWS, ["O", ["\\x01", "\\x6b"]], ["N", ["\\x01", undefined]])],
    ["k"],
    1,
  ],
  ["a deletion", [change("D", ROWS, ["K", [null, "\\x6b"]])], ["k"], 1],
  [
    "two changes of one row",
    [
      change("I", ROWS, ["N", ["\\x", "\\x6b"]]),
      change("U", ROWS, ["N", ["\\x", "\\x6b"]]),
    ],
    ["k"],
    2,
  ],
  [
    "a row of a view",
    [change("I", PRODUCT, ["N", ["7", "é"]])],
    ["product:7", "shelf:Ã©:7"],
    1,
  ],
  [
    "a column that is NULL",
    [change("I", PRODUCT, ["N", ["7", null]])],
    ["shelf:*", "product:7"],
    1,
  ],
  [
    "an update whose old shelf is logged",
    [change("U", PRODUCT, ["O", ["7", "a"]], ["N", ["7", "b"]])],
    ["product:7", "shelf:a:7", "shelf:b:7"],
    1,
  ],
  [
    "an update whose old shelf is not logged",
    [change("U", PRODUCT, ["N", ["7", "b"]])],
    ["shelf:*", "product:7"],
    1,
  ],
  [
    "a deletion by the identity",
    [change("D", PRODUCT, ["K", ["7", null]])],
    ["shelf:*", "product:7"],
    1,
  ],
  ["a table of no view", [change("I", OTHER, ["N", ["x"]])], [], 0],
  [
    "a truncation of a view's table",
    [message("T", [4, 2], [1, 0], [4, OTHER], [4, PRODUCT])],
    ["product:*", "shelf:*"],
    2,
  ],
  ["messages of other kinds", [message("O", [8, 1], "origin\0"), message("Y", [4, 1])], [], 0],
];

for (const [what, messages, keys, count] of CASES) {
  Deno.test(`the keys of ${what}`, () => assertEquals(keysOf(messages), [[...keys], count]));
}

Deno.test("a key that is text has its bytes in UTF-8; a key column may stand anywhere", () => {
  const made = reader([{ name: "slug", type: TEXT, isIdentity: true }], "slug");
  assertEquals(keysOf([change("I", ROWS, ["N", ["\\xé"]])], made), [["\\x\xc3\xa9"], 1]);
});

Deno.test("a truncation of the rows is a flood, and the next transaction has none", () => {
  const made = reader();
  made.take(BEGIN);
  made.take(message("T", [4, 1], [1, 0], [4, ROWS]));
  // Messages behind a flood are counted.
  made.take(change("I", ROWS, ["N", ["\\x", "\\x6b"]]));
  const { changed } = made.take(COMMIT)!;
  assertEquals([shownKeys(changed), changed.count], [["*"], 2]);
  assertEquals(keysOf([change("I", ROWS, ["N", ["\\x", "\\x6b"]])], made), [["k"], 1]);
});

Deno.test("a table that is described anew has its new columns", () => {
  const made = reader();
  made.take(relation(ROWS, "kv", [...KV].reverse()));
  assertEquals(keysOf([change("I", ROWS, ["N", ["\\x6b", "\\x01"]])], made), [["k"], 1]);
});

/** A message that a program writes to the log. */
function note(flags: number, prefix: string, content: string): Uint8Array {
  const { length } = new TextEncoder().encode(content);
  return message("M", [1, flags], [8, 5], `${prefix}\0`, [4, length], content);
}

Deno.test("a commit says whether it has DDL, or describes a table", () => {
  const made = reader();
  const cases: readonly (readonly [messages: readonly Uint8Array[], concernsCatalog: boolean])[] = [
    [[note(1, "leased", "ddl")], true],
    [[note(1, "leased", "ddl"), change("I", OTHER, ["N", ["x"]])], true],
    [[relation(OTHER, "other", [{ name: "key", type: TEXT }])], true],
    // That of `follow wait now`, and those of others.
    [[note(1, "leased", "")], false],
    [[note(1, "leased", "ddl?")], false],
    [[note(1, "leased", "dd")], false],
    [[note(1, "leased2", "ddl")], false],
    [[note(1, "", "ddl"), note(1, "outbox", "é".repeat(9))], false],
    [[note(0, "leased", "ddl")], false],
    [[], false],
  ];
  for (const [messages, concernsCatalog] of cases) {
    made.take(BEGIN);
    for (const each of messages) assertEquals(made.take(each), null);
    const commit = made.take(COMMIT)!;
    assertEquals(commit.concernsCatalog, concernsCatalog);
    assertEquals(commit.changed.count, 0);
  }
});

Deno.test("messages that make no sense are refused", () => {
  const unknown = change("I", 12_345, ["N", ["x"]]);
  assertThrows(() => reader().take(unknown), RangeError, "a table that was not described");
  const part = change("I", ROWS, ["X", ["\\x", "\\x6b"]]);
  assertThrows(() => reader().take(part), RangeError, "a change with a part 88");
  const renamed = relation(ROWS, "kv", [{ name: "id", type: BYTEA }]);
  assertThrows(() => reader().take(renamed), RangeError, "table kv has no column key");
});

Deno.test("the log has the old value of a column of the identity, of every column, or of none", () => {
  const all = identityOf({ identity: '["*"]' });
  const some = identityOf({ identity: '["a","b"]' });
  const none = identityOf({ identity: null });
  assert(hasOld(all, "x") && hasOld(some, "b"));
  assert(!hasOld(some, "x") && !hasOld(some, "*") && !hasOld(none, "a"));
});
