import { assertEquals } from "@std/assert";
import {
  compare,
  type Comparison,
  type Hit,
  isSameHit,
} from "../../../../lib/rows/meter/comparison.ts";
import type { Found } from "../../../../lib/databases/base/backend.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** @param text Null: the row was deleted, or has never been. */
function found(version: number, text: string | null, flags = 0): Found {
  const row = text === null ? null : { flags, data: bytes(text), version };
  return { row, version, epoch: 1 };
}

/** @param expiresInSec 0: never. */
function hit(version: number, text: string | null, flags = 0, expiresInSec = 0): Hit {
  return { version, flags, data: text === null ? null : bytes(text), expiresInSec };
}

/** A result that a view with a max-age of ten seconds has at `NOW_SEC`. */
function aged(text: string): Found {
  return {
    row: { flags: 0, data: bytes(text), version: 1, expiresUnixSec: NOW_SEC + 10 },
    version: 1,
    epoch: 1,
  };
}

const NOW_SEC = 1000;

// deno-fmt-ignore
const CASES: readonly (readonly [name: string, before: readonly Found[], hit: Hit, after: Found, expected: Comparison])[] = [
  ["a row that does not change",              [found(5, "e")],                  hit(5, "e"),      found(5, "e"),  "same"],
  ["a row as it was before its change",       [found(5, "e")],                  hit(5, "e"),      found(6, "f"),  "same"],
  ["a row as it is after its change",         [found(5, "e")],                  hit(6, "f"),      found(6, "f"),  "same"],
  ["a row between two changes",               [found(5, "e")],                  hit(6, "f"),      found(7, "g"),  "same"],
  ["an older row",                            [found(5, "e")],                  hit(4, "d"),      found(5, "e"),  "older"],
  ["an older row of a key that changes",      [found(5, "e")],                  hit(4, "d"),      found(9, "i"),  "older"],
  ["a newer row",                             [found(5, "e")],                  hit(6, "f"),      found(5, "e"),  "newer"],
  ["other bytes of the same version",         [found(5, "e")],                  hit(5, "x"),      found(5, "e"),  "older"],
  ["other flags of the same version",         [found(5, "e", 7)],               hit(5, "e", 8),   found(5, "e", 7), "older"],
  ["other bytes of the version after",        [found(5, "e")],                  hit(6, "x"),      found(6, "f"),  "older"],
  ["a long row, of which only versions count", [found(5, "e")],                 hit(5, null),     found(5, "e"),  "same"],
  ["a deleted row",                           [found(6, null)],                 hit(5, "e"),      found(6, null), "older"],
  ["a row that has expired in the database",  [found(5, null)],                 hit(5, "e", 0, 10), found(5, null), "unclear"],
  ["a row that was purged after its time",    [found(6, null)],                 hit(5, "e", 0, 10), found(6, null), "unclear"],
  ["other bytes of a version that has changed", [found(5, "e")],                hit(5, "f"),      found(5, "f"),  "same"],
  ["flags that the column has as negative",   [found(5, "e", -1)],              hit(5, "e", 2 ** 32 - 1), found(5, "e", -1), "same"],
  ["a second version, where there is a first", [found(1, "a")],                 hit(2, "b"),      found(1, "a"),  "newer"],
  ["a long view",                             [found(1, "a"), found(1, "a")],   hit(1, null),     found(1, "a"),  "unclear"],
  ["an absent row",                           [found(6, null)],                 "absent",         found(6, null), "same"],
  ["a row that was deleted meanwhile",        [found(5, "e")],                  "absent",         found(6, null), "same"],
  ["a row that was made meanwhile",           [found(6, null)],                 "absent",         found(7, "g"),  "same"],
  ["absent, where there is a row",            [found(5, "e")],                  "absent",         found(5, "e"),  "older"],
  ["absent, perhaps between two changes",     [found(5, "e")],                  "absent",         found(7, "g"),  "unclear"],
  ["a view",                                  [found(1, "a"), found(1, "a")],   hit(1, "a"),      found(1, "a"),  "same"],
  ["a view as it was before its change",      [found(1, "a"), found(1, "a")],   hit(1, "a"),      found(1, "b"),  "same"],
  ["a view as it is after its change",        [found(1, "a"), found(1, "a")],   hit(1, "b"),      found(1, "b"),  "same"],
  ["a view that was another",                 [found(1, "a"), found(1, "a")],   hit(1, "x"),      found(1, "a"),  "older"],
  ["a view that was another, within its max-age", [aged("a"), aged("a")],       hit(1, "x", 0, 10), aged("a"),   "aging"],
  ["the same, at a node, which sees no max-age", [found(1, "a"), found(1, "a")], hit(1, "x", 0, 10), found(1, "a"), "aging"],
  ["the same, without a result now",          [found(0, null), found(0, null)], hit(1, "x", 0, 10), found(0, null), "aging"],
  ["a view that is kept for longer than its max-age", [aged("a"), aged("a")],   hit(1, "x", 0, 13), aged("a"),   "older"],
  ["a right one that is kept for longer",     [aged("a"), aged("a")],           hit(1, "a", 0, 13), aged("a"),   "same"],
  ["a view with a max-age that is kept for ever", [aged("a"), aged("a")],       hit(1, "x"),      aged("a"),       "older"],
  ["a view with a max-age that changes",      [aged("a"), aged("a")],           hit(1, "x", 0, 10), aged("b"),   "unclear"],
  ["a row that is older, with an expiry time", [found(5, "e")],                hit(4, "d", 0, 10), found(5, "e"), "older"],
  ["a view that changes all the time",        [found(1, "a"), found(1, "a")],   hit(1, "x"),      found(1, "b"),  "unclear"],
  ["a view that differs in one snapshot",     [found(1, "a"), found(1, "b")],   hit(1, "x"),      found(1, "a"),  "unclear"],
  ["an absent view",                          [found(0, null), found(0, null)], "absent",         found(0, null), "same"],
  ["absent, where a view has a result",       [found(1, "a"), found(1, "a")],   "absent",         found(1, "a"),  "older"],
  ["a result, where a view has none",         [found(0, null), found(0, null)], hit(1, "a"),      found(0, null), "older"],
];

for (const [name, before, cached, after, expected] of CASES) {
  Deno.test(`a hit beside the database: ${name} is ${expected}`, () => {
    assertEquals(compare(before, cached, [after], NOW_SEC), expected);
  });
}

Deno.test("two hits are the same answer when version, flags and bytes are", () => {
  assertEquals(isSameHit(hit(5, "e", 1), hit(5, "e", 1)), true);
  assertEquals(isSameHit("absent", "absent"), true);
  const others: Hit[] = [hit(6, "e", 1), hit(5, "f", 1), hit(5, "e", 2), "absent"];
  for (const other of others) assertEquals(isSameHit(hit(5, "e", 1), other), false);
});
