import { assertEquals } from "@std/assert";
import { RowKind } from "../../../../store/row_cache.ts";
import { latin1Bytes, latin1Text } from "../../../../store/base/bytes.ts";
import { StoreMode } from "../../../../store/operation.ts";
import { Outcome } from "../../../../store/outcome.ts";
import { changeOf, type Row } from "../../../../lib/databases/base/backend.ts";
import { type ClientWrite, RowEdit } from "../../../../lib/rows/flows/row_edit.ts";

const WISH: ClientWrite = {
  kind: RowKind.STORE,
  key: "k",
  mode: StoreMode.SET,
  flags: 5,
  valueLength: 3,
  expiresUnixSec: 99,
  compare: null,
  vivify: false,
  decrement: false,
  touches: false,
  delta: 0n,
  initial: 0n,
};
const VALUE_MAX = 10;

/** Version 7, flags 1. */
function rowOf(value: string): Row {
  return { flags: 1, data: latin1Bytes(value), version: 7, expiresUnixSec: 50 };
}

/** @returns The outcome, and what is written: `<flags> <value> <expiry time>`, `delete`, or null. */
function edit(
  wish: Partial<ClientWrite>,
  row: Row | null,
  value = "new",
): [Outcome, string | null] {
  const fits = (length: number): boolean => length <= VALUE_MAX;
  const work = new RowEdit({ ...WISH, ...wish }, latin1Bytes(value), fits);
  const change = changeOf(work.edit, row);
  if (change === null || change === "delete") return [work.outcome, change];
  return [work.outcome, `${change.flags} ${latin1Text(change.data)} ${change.expiresUnixSec}`];
}

const OLD = rowOf("old");

Deno.test("a store depends on the row by its mode", () => {
  const store = (mode: StoreMode, row: Row | null, wish: Partial<ClientWrite> = {}) =>
    edit({ mode, ...wish }, row);
  const stored: [Outcome, string] = [Outcome.STORED, "5 new 99"];
  const refused: [Outcome, null] = [Outcome.NOT_STORED, null];
  for (const row of [OLD, null]) assertEquals(store(StoreMode.SET, row), stored);
  assertEquals(store(StoreMode.ADD, null), stored);
  assertEquals(store(StoreMode.ADD, OLD), refused);
  assertEquals(store(StoreMode.REPLACE, OLD), stored);
  assertEquals(store(StoreMode.REPLACE, null), refused);
  assertEquals(store(StoreMode.APPEND, OLD), [Outcome.STORED, "1 oldnew 50"]);
  assertEquals(store(StoreMode.PREPEND, OLD), [Outcome.STORED, "1 newold 50"]);
  for (const mode of [StoreMode.APPEND, StoreMode.PREPEND]) {
    assertEquals(store(mode, null), refused);
    assertEquals(store(mode, null, { vivify: true }), stored);
  }
});

Deno.test("a version that is compared decides, except over a row that is not to be there", () => {
  const cas = (compare: number, row: Row | null, wish: Partial<ClientWrite> = {}): Outcome =>
    edit({ mode: StoreMode.CAS, compare, ...wish }, row)[0];
  assertEquals(cas(7, OLD), Outcome.STORED);
  assertEquals(cas(6, OLD), Outcome.EXISTS);
  assertEquals(cas(8, OLD), Outcome.EXISTS);
  assertEquals(cas(7, null), Outcome.NOT_FOUND);
  assertEquals(cas(6, OLD, { mode: StoreMode.ADD }), Outcome.NOT_STORED);
  assertEquals(cas(6, OLD, { mode: StoreMode.SET }), Outcome.EXISTS);
  assertEquals(cas(6, OLD, { kind: RowKind.REMOVE }), Outcome.EXISTS);
  assertEquals(edit({ kind: RowKind.REMOVE, compare: 7 }, OLD), [Outcome.DELETED, "delete"]);
  assertEquals(cas(7, null, { kind: RowKind.REMOVE }), Outcome.NOT_FOUND);
});

Deno.test("a value that grows too large is refused", () => {
  const append = (value: string): Outcome => edit({ mode: StoreMode.APPEND }, OLD, value)[0];
  assertEquals(append("7 bytes"), Outcome.STORED);
  assertEquals(append("8 bytes!"), Outcome.TOO_LARGE);
});

Deno.test("a touch keeps the value, and a count its flags and time unless it touches", () => {
  assertEquals(edit({ kind: RowKind.TOUCH }, OLD), [Outcome.TOUCHED, "1 old 99"]);
  assertEquals(edit({ kind: RowKind.TOUCH }, null), [Outcome.NOT_FOUND, null]);
  const count = (value: string | null, wish: Partial<ClientWrite>): [Outcome, string | null] =>
    edit({ kind: RowKind.COUNT, delta: 2n, ...wish }, value === null ? null : rowOf(value));
  assertEquals(count("8", {}), [Outcome.OK, "1 10 50"]);
  assertEquals(count("8  ", { touches: true }), [Outcome.OK, "1 10 99"]);
  assertEquals(count("1", { decrement: true }), [Outcome.OK, "1 0 50"]);
  assertEquals(count("18446744073709551615", {}), [Outcome.OK, "1 1 50"]);
  for (const value of [" 8", "+8", "08", "8 apples", "8\0"]) {
    assertEquals(count(value, {}), [Outcome.OK, "1 10 50"]);
  }
  for (const value of ["", "x", "-1", "8,5", "18446744073709551616"]) {
    assertEquals(count(value, {}), [Outcome.NOT_NUMERIC, null]);
  }
  assertEquals(count("8", { compare: 6 }), [Outcome.EXISTS, null]);
  assertEquals(count(null, {}), [Outcome.NOT_FOUND, null]);
  assertEquals(count(null, { vivify: true, initial: 4n }), [Outcome.STORED, "0 4 99"]);
});

Deno.test("an edit has the number of a count and the row of a touch, or what the origin of a node says", () => {
  const worked = (wish: Partial<ClientWrite>, row: Row | null): RowEdit => {
    const work = new RowEdit({ ...WISH, ...wish });
    changeOf(work.edit, row);
    return work;
  };
  const count = { kind: RowKind.COUNT, delta: 2n };
  assertEquals(worked(count, rowOf("8")).number, 10n);
  assertEquals(worked({ ...count, decrement: true }, rowOf("8")).number, 6n);
  assertEquals(worked({ ...count, decrement: true, delta: 9n }, rowOf("8")).number, 0n);
  assertEquals(worked({ ...count, vivify: true, initial: 4n }, null).number, 4n);
  assertEquals(worked({ kind: RowKind.TOUCH }, OLD).row, { ...OLD, expiresUnixSec: 99 });
  assertEquals(worked({}, OLD).row, null);
  // The same edit over another row: a group that goes again.
  const again = worked(count, null);
  assertEquals(again.outcome, Outcome.NOT_FOUND);
  changeOf(again.edit, rowOf("1"));
  assertEquals([again.outcome, again.number], [Outcome.OK, 3n]);
  again.settle(Outcome.EXISTS, 7n, OLD);
  assertEquals([again.outcome, again.number, again.row], [Outcome.EXISTS, 7n, OLD]);
  const plain = new RowEdit({ ...WISH, mode: StoreMode.SET, compare: null }, latin1Bytes("x"));
  assertEquals(plain.edit, { flags: 5, data: latin1Bytes("x"), expiresUnixSec: 99 });
  assertEquals([plain.outcome, plain.data], [Outcome.STORED, latin1Bytes("x")]);
});
