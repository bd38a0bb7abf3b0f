// The writes of one transaction of PostgreSQL, without PostgreSQL: their parameters and their results.
import { latin1Text } from "../../../store/base/bytes.ts";
import { assertEquals } from "@std/assert";
import type { Change, Edit, Write, WriteResult } from "../../../lib/databases/base/backend.ts";
import { DEFAULT_TABLE } from "../../../lib/databases/base/table.ts";
import { bytesOf, storedAs } from "../../../lib/databases/postgres/columns.ts";
import { arrayOf, failed, WriteGroup } from "../../../lib/databases/postgres/group.ts";
import { statementsFor } from "../../../lib/databases/postgres/statements.ts";

const BYTEA = statementsFor(DEFAULT_TABLE, { key: "bytea", value: "bytea" });
const WITH_TIMES = statementsFor({ ...DEFAULT_TABLE, expiry: "expires" }, BYTEA.types);
const TEXT = statementsFor(DEFAULT_TABLE, { key: "text", value: "text" });
const EPOCH = 7;
const NOW_MS = 1000;

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function writeOf(key: string, tokenId: number, edit: Edit, owner = ""): Write {
  return { key, tokenId, edit, owner };
}

function set(text: string, more: Partial<Exclude<Change, "delete">> = {}): Change {
  return { flags: 0, data: bytes(text), ...more };
}

Deno.test("the parameters of a group: each key once, with its last change and the tokens of all", () => {
  const writes = [
    writeOf("a", 11, set("one", { flags: 3 })),
    writeOf("b", 12, "delete"),
    writeOf("a", 13, set("two", { flags: 4, expiresUnixSec: 99 })),
    writeOf("c", 14, set("")),
  ];
  const group = new WriteGroup(writes, WITH_TIMES);
  assertEquals([group.isComputed, group.keys], [false, '{"\\\\x61","\\\\x62","\\\\x63"}']);
  group.decide();
  assertEquals(group.parameters(EPOCH, NOW_MS, "50"), [
    EPOCH,
    '{"\\\\x61","\\\\x62","\\\\x63"}',
    "{4,0,0}",
    '{"\\\\x74776f",NULL,"\\\\x"}',
    "{2,1,1}",
    "{11,13,12,14}",
    "{1,1,2,3}",
    "{1,0,0,0}",
    NOW_MS,
    "{false,false,false}",
    "50",
    "{99,0,0}",
  ]);
  const timeless = new WriteGroup(writes, BYTEA);
  timeless.decide();
  assertEquals(timeless.parameters(EPOCH, NOW_MS, "50")!.length, 11, "a table without times");
  assertEquals(group.committed(new Map([[11, 1], [13, 2], [14, 1]])), [1]);
  assertEquals(group.end(failed("rest")), [
    { kind: "committed", version: 1 },
    failed("rest"),
    { kind: "committed", version: 2 },
    { kind: "committed", version: 1 },
  ]);
});

Deno.test("computed changes see the row that is locked, and those before them; a key that is not found is new", () => {
  const seen: (string | null)[] = [];
  const see = (change: Change | null): Edit => (row) => {
    seen.push(row && `${new TextDecoder().decode(row.data)} ${row.flags} ${row.version}`);
    return change;
  };
  const group = new WriteGroup([
    writeOf("a", 1, see(set("x", { flags: 2 }))),
    writeOf("a", 2, see(null)),
    writeOf("a", 3, see("delete")),
    writeOf("a", 4, see(null)),
    writeOf("b", 5, see(set("new"))),
    writeOf("c", 6, set("plain")),
    writeOf("b", 7, see(null)),
  ], BYTEA);
  assertEquals(group.isComputed, true);
  group.found("a", { row: { flags: 1, data: bytes("old"), version: 8 }, version: 8 });
  group.found("c", { row: null, version: 3 });
  group.decide();
  assertEquals(seen, ["old 1 8", "x 2 9", "x 2 9", null, null, "new 0 1"]);
  const { results } = group;
  assertEquals(results[1], {
    kind: "refused",
    row: { flags: 2, data: bytes("x"), version: 9 },
  });
  assertEquals(results[3], { kind: "refused", row: null });
  assertEquals([0, 2, 4, 5].map((at) => results[at]), new Array(4).fill(undefined));
  const parameters = group.parameters(EPOCH, NOW_MS, "0")!;
  assertEquals(parameters[9], "{false,true,false}", "only b is new");
  assertEquals(parameters.slice(4, 8), ["{2,1,1}", "{1,3,5,6}", "{1,1,2,3}", "{1,0,0,0}"]);
  assertEquals(parameters[3], '{NULL,"\\\\x6e6577","\\\\x706c61696e"}');
});

Deno.test("a group that changes nothing has no parameters, and a key whose write is refused no part in them", () => {
  const nothing = new WriteGroup([writeOf("a", 1, () => null)], BYTEA);
  nothing.decide();
  assertEquals(nothing.parameters(EPOCH, NOW_MS, "0"), null);
  assertEquals(nothing.committed(new Map()), []);
  const group = new WriteGroup([
    writeOf("a", 1, () => null),
    writeOf("b", 2, () => {
      throw new Error("too large");
    }),
    writeOf("c", 3, () => set("x")),
  ], BYTEA);
  group.decide();
  assertEquals(group.results.slice(0, 2), [{ kind: "refused", row: null }, failed("too large")]);
  const [, keys, , , , tokens, positions] = group.parameters(EPOCH, NOW_MS, "0")!;
  assertEquals([keys, tokens, positions], ['{"\\\\x63"}', "{3}", "{1}"]);
});

Deno.test("the tags of the writers that have one; results of repeated writes at their places", () => {
  const group = new WriteGroup([
    writeOf("a", 1, "delete", "me"),
    writeOf("b", 2, "delete"),
    writeOf("c", 3, "delete", "you"),
  ], BYTEA);
  assertEquals(group.owners, "me you");
  const again: WriteResult[] = [failed("b"), failed("c")];
  group.committed(new Map([[1, 5]]));
  assertEquals(group.place([1, 2], again), [
    { kind: "committed", version: 5 },
    failed("b"),
    failed("c"),
  ]);
});

Deno.test("a column of text holds UTF-8 without zero bytes, and writes of other bytes fail alone", () => {
  const group = new WriteGroup([
    { ...writeOf("", 1, set("x")), key: "\xff" },
    { ...writeOf("", 2, set("x")), key: "a\0" },
    writeOf("b", 3, { flags: 0, data: new Uint8Array([0xc3]) }),
    writeOf(latin1Text(bytes("é")), 4, set('"\\')),
  ], TEXT);
  group.decide();
  const key = failed("the key is not UTF-8 without zero bytes");
  const value = failed("the value is not UTF-8 without zero bytes");
  assertEquals(group.results, [key, key, value, undefined]);
  const parameters = group.parameters(EPOCH, NOW_MS, "0")!;
  assertEquals([parameters[1], parameters[3]], ['{"é"}', '{"\\"\\\\"}']);
});

Deno.test("bytes as values of a column, and back", () => {
  const all = Uint8Array.from({ length: 256 }, (_, index) => index);
  assertEquals(storedAs(all, "bytea"), all);
  assertEquals(storedAs(all, "text"), undefined);
  assertEquals(storedAs(bytes("a\0"), "text"), undefined);
  for (const text of ["", "é", "\ufeffx", "\u{10ffff}"]) {
    assertEquals(storedAs(bytes(text), "text"), text);
    assertEquals(bytesOf(text), bytes(text));
  }
  assertEquals(bytesOf(all.subarray(3, 5)), new Uint8Array([3, 4]));
  assertEquals(arrayOf([null, "NULL", "a,b", "{}"]), '{NULL,"NULL","a,b","{}"}');
});
