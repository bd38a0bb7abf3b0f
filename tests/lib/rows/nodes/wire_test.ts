import { assert, assertEquals, AssertionError, assertThrows } from "@std/assert";
import * as wire from "../../../../lib/rows/nodes/wire.ts";
import type { Read } from "../../../../lib/rows/flows/flows.ts";
import { StoreMode } from "../../../../store/operation.ts";
import { Outcome } from "../../../../store/outcome.ts";
import { RowKind } from "../../../../store/row_cache.ts";
import { randomFrom } from "../../../support/random.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";

// Every field of every record arrives: all fields of a block have different values, so that none stands for another.
// And whatever bytes arrive, they are a block of this form or a WireError.

const ROUNDS = 200;
const MEMBER_MS = 2000;

/** Draws values of which no two are equal. */
class Values {
  readonly #random: () => number;
  readonly #drawn = new Set<unknown>();

  constructor(seed: number) {
    this.#random = randomFrom(seed);
  }

  whole(below: number): number {
    return this.#fresh(() => 1 + Math.floor(this.#random() * (below - 1)));
  }

  big(): bigint {
    return this.#fresh(() => BigInt(this.whole(2 ** 32)) << 32n | BigInt(this.whole(2 ** 32)));
  }

  bytes(): Uint8Array {
    const text = this.#fresh(() => String(this.whole(2 ** 40)));
    return Uint8Array.from(text, (character) => character.charCodeAt(0) + 128 * this.flag());
  }

  key(): string {
    return this.#fresh(() => `k\xe9${this.whole(2 ** 40)}`);
  }

  flag(): number {
    return this.#random() < 0.5 ? 0 : 1;
  }

  one<T>(list: readonly T[]): T {
    return list[Math.floor(this.#random() * list.length)]!;
  }

  #fresh<T>(draw: () => T): T {
    for (;;) {
      const value = draw();
      if (this.#drawn.has(value)) continue;
      this.#drawn.add(value);
      return value;
    }
  }
}

function eachRound(name: string, run: (values: Values) => void): void {
  Deno.test(name, () =>
    withSeed(drawSeed(), (seed) => {
      for (let round = 0; round < ROUNDS; round++) run(new Values(seed + round));
    }));
}

function writeOf(values: Values, kind: RowKind): wire.SentWrite {
  const data = values.bytes();
  const request = {
    kind,
    mode: values.one(Object.values(StoreMode)),
    key: values.key(),
    flags: values.whole(2 ** 32),
    valueLength: data.length,
    expiresUnixSec: values.whole(2 ** 33),
    compare: values.flag() === 0 ? null : values.whole(2 ** 52),
    vivify: values.flag() === 1,
    decrement: values.flag() === 1,
    touches: values.flag() === 1,
    delta: values.big(),
    initial: values.big(),
  };
  return { request, data };
}

const KINDS = [RowKind.STORE, RowKind.REMOVE, RowKind.TOUCH, RowKind.COUNT] as const;
/** An outcome of a committed write of each kind. */
const COMMITTED = new Map<RowKind, Outcome>([
  [RowKind.STORE, Outcome.STORED],
  [RowKind.REMOVE, Outcome.DELETED],
  [RowKind.TOUCH, Outcome.TOUCHED],
  [RowKind.COUNT, Outcome.OK],
]);

eachRound("writes arrive with every field", (values) => {
  const writes = Array.from({ length: 5 }, () => writeOf(values, values.one(KINDS)));
  const blocks = wire.packWrites(writes);
  assertEquals(blocks.flatMap((each) => each.writes), writes);
  assertEquals(blocks.flatMap(({ block }) => wire.unpackWrites(block)), writes);
});

Deno.test("each bit of a write arrives alone", () => {
  const { request, data } = writeOf(new Values(1), RowKind.COUNT);
  const none = { ...request, compare: null, vivify: false, decrement: false, touches: false };
  for (
    const bit of [{}, { compare: 0 }, { vivify: true }, { decrement: true }, { touches: true }]
  ) {
    const write = { request: { ...none, ...bit }, data };
    assertEquals(wire.unpackWrites(wire.packWrites([write])[0]!.block), [write]);
  }
});

function replyTo({ request }: wire.SentWrite, values: Values): wire.SentReply {
  const version = (request.compare ?? 0) + values.whole(2 ** 40);
  const reason = values.key();
  const [number, outcome] = [values.big(), Outcome.EXISTS];
  switch (values.one(["committed", "refused", "locked", "unknown", "failed"] as const)) {
    case "committed": {
      const row = {
        flags: values.whole(2 ** 32),
        version,
        expiresUnixSec: values.whole(2 ** 33),
        data: values.bytes(),
      };
      return {
        reply: { kind: "committed", version },
        outcome: COMMITTED.get(request.kind)!,
        number,
        row: request.kind === RowKind.TOUCH ? row : null,
      };
    }
    case "refused": {
      const row = { flags: 0, version, data: new Uint8Array() };
      return {
        reply: { kind: "refused", row: values.one([row, null]) },
        outcome,
        number,
        row: null,
      };
    }
    case "locked":
      return { reply: { kind: "locked" }, outcome, number, row: null };
    case "unknown":
      return { reply: { kind: "unknown", reason }, outcome, number, row: null };
    case "failed":
      return { reply: { kind: "failed", reason }, outcome, number, row: null };
  }
}

eachRound("replies arrive with every field", (values) => {
  const writes = Array.from({ length: 6 }, () => writeOf(values, values.one(KINDS)));
  const replies = writes.map((write) => replyTo(write, values));
  assertEquals(wire.unpackReplies(wire.packReplies(replies), writes), replies);
});

function readOf(values: Values): Read {
  const [version, epoch, cacheable] = [values.whole(2 ** 52), 0, values.flag() === 1];
  const row = {
    flags: values.whole(2 ** 32),
    version,
    expiresUnixSec: values.whole(2 ** 33),
    data: values.bytes(),
  };
  const problem = values.key();
  return values.one<Read>([
    { row, version, epoch, cacheable },
    { row: null, version, epoch, cacheable },
    { row: null, version, epoch, cacheable, problem },
  ]);
}

eachRound("reads arrive with every field", (values) => {
  const reads = Array.from({ length: 6 }, () => readOf(values));
  const received = wire.unpackReads(wire.packReads(reads));
  assertEquals(received.map((read) => ({ ...read!, epoch: 0 })), reads);
});

Deno.test("a row that expires expires at a node, in the same second", () => {
  const row = { flags: 1, version: 2, expiresUnixSec: 3, data: new Uint8Array() };
  const [read] = wire.unpackReads(
    wire.packReads([{ row, version: 2, epoch: 0, cacheable: true }]),
  );
  assertEquals(read!.row!.expiresUnixSec, 3);
});

eachRound("keys, deletions and renewals arrive with every field", (values) => {
  const keys = [values.key(), values.key()];
  assertEquals(wire.unpackKeys(wire.packKeys(keys)), keys);
  const due = {
    seq: values.whole(2 ** 52) + 4,
    grantedMs: values.whole(MEMBER_MS),
    keys,
    prefixes: [values.key(), ""],
  };
  assertEquals(wire.unpackDue(wire.packDue(due), due.seq - 4, MEMBER_MS), due);
});

Deno.test("a membership arrives with every field", () => {
  const joined = { session: "7-0123456789abcdef", grantedMs: 1500.5, memberMs: 2000 };
  assertEquals(wire.unpackJoined(new TextEncoder().encode(JSON.stringify(joined))), joined);
});

// --- what a block must not have -----------------------------------------------------------------

const SET = writeOf(new Values(1), RowKind.STORE);
const TOUCH = writeOf(new Values(2), RowKind.TOUCH);
const ROW = { flags: 1, version: 9, expiresUnixSec: 0, data: new Uint8Array(3) };
const done = (more: Partial<wire.SentReply> = {}): wire.SentReply => ({
  reply: { kind: "committed", version: 2 ** 53 - 1 },
  outcome: Outcome.STORED,
  number: 0n,
  row: null,
  ...more,
});

/** @param text Part of the error. */
function assertRefused(take: () => unknown, name: string, text = ""): void {
  try {
    take();
  } catch (error) {
    assert(error instanceof wire.WireError && error.message.includes(text), `${name}: ${error}`);
    return;
  }
  throw new AssertionError(`${name} is taken`);
}

/** A copy of a block with other bytes from `at` on. */
function changed(block: Uint8Array, at: number, write: (view: DataView) => void): Uint8Array {
  const copy = block.slice();
  write(new DataView(copy.buffer, at));
  return copy;
}

Deno.test("a node takes no replies that cannot be those of its writes", () => {
  const whole = wire.packReplies([done(), done()]);
  assertEquals(wire.unpackReplies(whole, [SET, SET]).length, 2);
  const cases: [string, Uint8Array, readonly wire.SentWrite[]][] = [
    ["fewer than writes", wire.packReplies([done()]), [SET, SET]],
    ["none", new Uint8Array(), [SET]],
    ["more than writes", whole, [SET]],
    ["another outcome", wire.packReplies([done({ outcome: Outcome.PARKED })]), [SET]],
    ["an outcome of another kind", wire.packReplies([done({ outcome: Outcome.DELETED })]), [SET]],
    ["a row behind a set", wire.packReplies([done({ row: ROW })]), [SET]],
    ["no row behind a touch", wire.packReplies([done({ outcome: Outcome.TOUCHED })]), [TOUCH]],
    [
      "refused and stored",
      wire.packReplies([done({ reply: { kind: "refused", row: null } })]),
      [SET],
    ],
    ["no such kind", changed(whole, 0, (view) => view.setUint8(0, 5)), [SET, SET]],
    ["a length behind the end", changed(whole, 48, (view) => view.setUint32(0, 1, true)), [
      SET,
      SET,
    ]],
  ];
  for (const version of [NaN, Infinity, -1, 0, 1.5, 2 ** 64]) {
    const reply = { kind: "committed", version } as const;
    cases.push([`version ${version}`, wire.packReplies([done({ reply })]), [SET]]);
  }
  for (const sec of [NaN, Infinity, 0.5, 2 ** 60]) {
    const block = changed(whole, 32, (view) => view.setFloat64(0, sec, true));
    cases.push([`expires at ${sec}`, block, [SET, SET]]);
  }
  for (const [name, block, writes] of cases) {
    assertRefused(() => wire.unpackReplies(block, writes), name);
  }
});

Deno.test("a committed write has a greater version than the one that it replaces", () => {
  const write = { ...SET, request: { ...SET.request, compare: 7 } };
  const block = (version: number): Uint8Array =>
    wire.packReplies([done({ reply: { kind: "committed", version } })]);
  assertThrows(() => wire.unpackReplies(block(7), [write]), wire.WireError, "version 7");
  assertEquals(wire.unpackReplies(block(8), [write]).length, 1);
});

Deno.test("a node takes no read that is no row, and no more of them than it can have asked for", () => {
  const reads = (count: number): Uint8Array =>
    wire.packReads(Array(count).fill({ row: ROW, version: 9, epoch: 0, cacheable: true }));
  const block = reads(1);
  const cases: [string, Uint8Array][] = [
    ["a kind of 4", changed(block, 0, (view) => view.setUint8(0, 4))],
    ["a value behind the end", changed(block, 8, (view) => view.setUint32(0, 4, true))],
    ["more records", reads(wire.RECORDS_MAX + 1)],
  ];
  for (const version of [NaN, -1, 0.5, Infinity]) {
    cases.push([`${version}`, changed(block, 16, (view) => view.setFloat64(0, version, true))]);
  }
  for (const sec of [NaN, Infinity, 1e300]) {
    cases.push([`expires ${sec}`, changed(block, 24, (view) => view.setFloat64(0, sec, true))]);
  }
  for (const [name, each] of cases) {
    assertRefused(() => wire.unpackReads(each), name);
  }
});

Deno.test("an expiry time that another program has spoilt is none", () => {
  for (const sec of [NaN, "soon", 1e300]) {
    const row = { ...ROW, expiresUnixSec: sec as number };
    const [read] = wire.unpackReads(
      wire.packReads([{ row, version: 9, epoch: 0, cacheable: true }]),
    );
    assertEquals(read!.row!.expiresUnixSec, 0, String(sec));
  }
});

Deno.test("a renewal is not longer than the membership, and its deletions go on from the last one", () => {
  const ok = { seq: 5, grantedMs: MEMBER_MS, keys: ["a", "b"], prefixes: [] as string[] };
  assertEquals(wire.unpackDue(wire.packDue(ok), 3, MEMBER_MS), ok);
  const cases = [
    { ...ok, grantedMs: MEMBER_MS + 1 },
    { ...ok, grantedMs: Infinity },
    { ...ok, grantedMs: NaN },
    { ...ok, grantedMs: -1 },
    { ...ok, seq: 4 },
    { ...ok, seq: 0 },
    { ...ok, seq: NaN },
    { ...ok, seq: 5.5 },
    { ...ok, seq: 2 ** 60 },
    { ...ok, keys: [] },
    { ...ok, prefixes: ["p"] },
    { ...ok, seq: 0, keys: [], prefixes: ["p"] },
    { ...ok, seq: 1000, keys: Array.from({ length: 257 }, (_, index) => `k${index}`) },
  ];
  for (const due of cases) {
    assertThrows(() => wire.unpackDue(wire.packDue(due), 3, MEMBER_MS), wire.WireError);
  }
});

Deno.test("a node takes no session that could be anything but a word", () => {
  const ok = { session: "1-a", grantedMs: 1, memberMs: 2 };
  const cases = [
    { ...ok, session: "1 0 0\r\nflush_all" },
    { ...ok, session: "" },
    { ...ok, session: "x".repeat(101) },
    { ...ok, session: 7 },
    { ...ok, grantedMs: 3 },
    { ...ok, grantedMs: -1 },
    { ...ok, grantedMs: null },
    { ...ok, memberMs: 1e300, grantedMs: 1e200 },
    { ...ok, memberMs: 0, grantedMs: 0 },
    null,
    [],
    "text",
  ];
  const texts = [...cases.map((each) => JSON.stringify(each)), "", "{", "\xff\xfe"];
  for (const text of texts) {
    const block = new TextEncoder().encode(text);
    assertRefused(() => wire.unpackJoined(block), text);
  }
});

Deno.test("a request has keys of 1 to 250 bytes, and numbers that are whole", () => {
  for (const [block, text] of [["\0\x01k", "a key of 0 bytes"], ["\xfb", "a key of 251 bytes"]]) {
    const bytes = Uint8Array.from(block!, (character) => character.charCodeAt(0));
    assertThrows(() => wire.unpackKeys(bytes), wire.WireError, text);
  }
  for (
    const word of [
      "",
      "-1",
      "1.5",
      "1e3",
      "NaN",
      "Infinity",
      "0x10",
      "9".repeat(16),
      "9".repeat(40),
    ]
  ) {
    assertRefused(
      () => wire.wholeNumber(word, "a number"),
      word,
      `a number is ${word}, and must be 0 to`,
    );
  }
  assertEquals(wire.wholeNumber("9007199254740991", "a number"), Number.MAX_SAFE_INTEGER);
  const { block } = wire.packWrites([SET])[0]!;
  for (const at of [16, 24]) {
    for (const number of [NaN, 0.5, Infinity, 2 ** 60]) {
      // The bit says that there is a version to compare.
      const bad = changed(
        changed(block, 2, (view) => view.setUint8(0, 1)),
        at,
        (view) => view.setFloat64(0, number, true),
      );
      assertRefused(() => wire.unpackWrites(bad), `${number} at ${at}`);
    }
  }
});

/** Calls `take` with cut and changed copies of a block: each is taken, or refused by a WireError. */
function damage(block: Uint8Array, values: Values, take: (block: Uint8Array) => unknown): number {
  let refused = 0;
  for (let copy = 0; copy < 3 * block.length; copy++) {
    const bytes = block.slice(0, copy < block.length ? copy : block.length);
    if (copy >= block.length) bytes[copy % block.length] = values.one([0, 1, 2, 7, 128, 255]);
    try {
      take(bytes);
    } catch (error) {
      assert(error instanceof wire.WireError, `${error}`);
      refused++;
    }
  }
  return refused;
}

Deno.test("whatever bytes arrive, they are a block or a WireError", () =>
  withSeed(drawSeed(), (seed) => {
    const values = new Values(seed);
    const writes = KINDS.map((kind) => writeOf(values, kind));
    const replies = writes.map((write) => replyTo(write, values));
    const reads = Array.from({ length: 4 }, () => readOf(values));
    const due = { seq: 9, grantedMs: 100, keys: [values.key()], prefixes: ["p"] };
    const joined = { session: "1-a", grantedMs: 1, memberMs: 2 };
    const takes: [Uint8Array, (block: Uint8Array) => unknown][] = [
      [wire.packWrites([SET, SET])[0]!.block, wire.unpackWrites],
      [wire.packReplies(replies), (block) => wire.unpackReplies(block, writes)],
      [wire.packReads(reads), wire.unpackReads],
      [wire.packKeys([values.key(), values.key()]), wire.unpackKeys],
      [wire.packDue(due), (block) => wire.unpackDue(block, 0, MEMBER_MS)],
      [new TextEncoder().encode(JSON.stringify(joined)), wire.unpackJoined],
    ];
    for (const [block, take] of takes) assert(damage(block, values, take) > 0);
  }));
