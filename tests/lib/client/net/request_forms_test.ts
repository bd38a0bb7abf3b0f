import { assertEquals, assertThrows } from "@std/assert";
import { Buffer } from "node:buffer";
import { BinaryWire } from "../../../../lib/client/net/binary_wire.ts";
import { bytesCodec, textCodec } from "../../../../lib/client/values/codecs.ts";
import { UnreadableReply } from "../../../../lib/client/net/connection.ts";
import { encodeEntry, lookFor } from "../../../../lib/client/values/entries.ts";
import * as requests from "../../../../lib/client/requests.ts";
import { TextWire } from "../../../../lib/client/net/text_wire.ts";
import type { Reply, Request, Shape, Wire } from "../../../../lib/client/net/wire.ts";
import { type PacketFields, packetText } from "../../../support/sessions/binary_text.ts";
import { bytesOf, textOf } from "../../../support/sessions/side.ts";

// Every request as bytes, in text and in the binary protocol, and the results of replies, which arrive at once and a
// byte at a time.

const OPAQUE = 9;

/** A reply in text (@ stands for the opaque), or as fields of a packet, and the request's result. */
type Answer = readonly [reply: string | Omit<PacketFields, "opcode">, result: unknown];

interface Form {
  readonly request: Request<unknown>;
  readonly text: string;
  /** Undefined: the binary protocol lacks it. */
  readonly packet?: PacketFields;
  readonly answers: readonly Answer[];
}

const UNREADABLE = Symbol("an unreadable reply");
const FLAGS_7 = "\0\0\0\x07";
const MAX_ID = "18446744073709551615";

const item = ({ bytes, ...fields }: requests.Item): unknown => ({
  value: textOf(bytes),
  ...fields,
});
const decode = (bytes: Uint8Array, flags: number): unknown => [textOf(bytes), flags];
const encoded = { bytes: bytesOf("a\r\n"), flags: 7 };
const STORED: readonly Answer[] = [
  ["HD @", "stored"],
  ["NS @", "refused"],
  ["EX @", "exists"],
  ["NF @", "missing"],
  ["VA 0 @\r\n", UNREADABLE],
  [{}, "stored"],
];
const REFUSED: readonly Answer[] = [5, 0x10, 0x13, 0x85].map((status) => [{ status }, "refused"]);

const FORMS: Record<string, Form> = {
  "a read": {
    request: requests.getValue("k", decode),
    text: "mg k v f O9\r\n",
    packet: { opcode: 0, key: "k" },
    answers: [
      ["VA 3 f7 @\r\na\r\n", ["a\r\n", 7]],
      ["VA 3 @ f4294967295\r\na\r\n", ["a\r\n", 2 ** 32 - 1]],
      ["VA 1 f0 @ W\r\na", ["a", 0]],
      ["VA 1 f0 @ Z\r\na", ["a", 0]],
      ["VA 0 f0 @ W\r\n", undefined],
      ["VA 0 f0 @ Z\r\n", undefined],
      ["VA 0 f0 @\r\n", ["", 0]],
      ["EN", undefined],
      ["VA 1 @\r\na", UNREADABLE],
      ["HD @", UNREADABLE],
      ["NF @", UNREADABLE],
      [{ extras: FLAGS_7, value: "a" }, ["a", 7]],
      [{ extras: "\xff\xff\xff\xff" }, ["", 2 ** 32 - 1]],
      [{ status: 1, value: "Not found" }, undefined],
    ],
  },
  "a read of an item": {
    request: requests.get("k", item),
    text: "mg k v f c t O9\r\n",
    packet: { opcode: 0, key: "k" },
    answers: [
      [`VA 1 f7 c${MAX_ID} t0 @\r\na`, { value: "a", flags: 7, cas: MAX_ID, leftSec: 0 }],
      ["VA 1 t-1 c5 @ f0\r\na", { value: "a", flags: 0, cas: "5", leftSec: Infinity }],
      ["VA 1 f0 c5 t4294967295 @\r\na", { value: "a", flags: 0, cas: "5", leftSec: 2 ** 32 - 1 }],
      ["VA 1 f0 c5 t4294967296 @\r\na", "an error"],
      ["VA 0 f0 c5 t1 @ Z\r\n", undefined],
      ["EN", undefined],
      [{ extras: FLAGS_7, value: "a", cas: MAX_ID }, {
        ...{ value: "a", flags: 7, cas: MAX_ID, leftSec: Infinity },
      }],
      [{ status: 1 }, undefined],
    ],
  },
  "a read that touches": {
    request: requests.get("k", item, 60),
    text: "mg k v f c t T60 O9\r\n",
    packet: { opcode: 0x1d, key: "k", extras: "\0\0\0\x3c" },
    answers: [
      ["VA 1 f0 c5 t60 @\r\na", { value: "a", flags: 0, cas: "5", leftSec: 60 }],
      [{ extras: FLAGS_7, cas: "5" }, { value: "", flags: 7, cas: "5", leftSec: Infinity }],
      [{ status: 1 }, undefined],
    ],
  },
  "a read that touches for ever": {
    request: requests.get("k", item, 0),
    text: "mg k v f c t T0 O9\r\n",
    packet: { opcode: 0x1d, key: "k", extras: "\0\0\0\0" },
    answers: [["EN", undefined]],
  },
  "a look": {
    request: requests.look("k", 30, item),
    text: "mg k v f c t N30 O9\r\n",
    answers: [
      ["VA 0 f0 c5 t30 @ W\r\n", { state: "won", cas: "5" }],
      ["VA 1 f0 c5 t30 @ W\r\na", { state: "won", cas: "5" }],
      ["VA 0 f0 c5 t7 @ Z\r\n", { state: "held", leftSec: 7 }],
      ["VA 0 f0 c5 t7 @ X Z\r\n", { state: "held", leftSec: 7 }],
      ["VA 0 f0 c5 t1 @ Z U\r\n", { state: "uncacheable" }],
      ["VA 0 f0 c5 t7 @ W X\r\n", { state: "held", leftSec: 7 }],
      ["VA 1 f7 c5 t-1 @ X W\r\na", {
        ...{ state: "value", cas: "5" },
        found: { value: "a", flags: 7, cas: "5", leftSec: Infinity },
      }],
      ["VA 1 f7 c5 t9 @ Z\r\na", {
        ...{ state: "value", cas: "5" },
        found: { value: "a", flags: 7, cas: "5", leftSec: 9 },
      }],
      ["VA 0 f7 c5 t9 @\r\n", {
        ...{ state: "value", cas: "5" },
        found: { value: "", flags: 7, cas: "5", leftSec: 9 },
      }],
      ["VA 1 f7 c0 t9 @\r\na", UNREADABLE],
      ["EN", UNREADABLE],
    ],
  },
  "the version of a tag": {
    request: requests.version("tag:t"),
    text: "mg tag:t c N0 O9\r\n",
    answers: [["HD c5 @ W", "5"], ["HD c5 @", "5"], ["HD c0 @", UNREADABLE], ["EN", UNREADABLE]],
  },
  "set": {
    request: requests.store("k", encoded, 60),
    text: "ms k 3 F7 T60 O9\r\na\r\n\r\n",
    packet: { opcode: 1, key: "k", extras: `${FLAGS_7}\0\0\0\x3c`, value: "a\r\n" },
    answers: [...STORED, ...REFUSED, [{ status: 2 }, "exists"], [{ status: 1 }, "missing"]],
  },
  "set for ever": {
    request: requests.store("k", encoded, 0),
    text: "ms k 3 F7 O9\r\na\r\n\r\n",
    packet: { opcode: 1, key: "k", extras: `${FLAGS_7}\0\0\0\0`, value: "a\r\n" },
    answers: [],
  },
  "cas": {
    request: requests.store("k", encoded, 60, { cas: MAX_ID }),
    text: `ms k 3 F7 T60 C${MAX_ID} O9\r\na\r\n\r\n`,
    packet: { opcode: 1, key: "k", extras: `${FLAGS_7}\0\0\0\x3c`, value: "a\r\n", cas: MAX_ID },
    answers: STORED,
  },
  "add": {
    request: requests.store("k", encoded, 0, { mode: "add" }),
    text: "ms k 3 F7 ME O9\r\na\r\n\r\n",
    packet: { opcode: 2, key: "k", extras: `${FLAGS_7}\0\0\0\0`, value: "a\r\n" },
    answers: [...STORED, ...REFUSED, [{ status: 2 }, "refused"], [{ status: 1 }, "missing"]],
  },
  "replace": {
    request: requests.store("k", encoded, 0, { mode: "replace" }),
    text: "ms k 3 F7 MR O9\r\na\r\n\r\n",
    packet: { opcode: 3, key: "k", extras: `${FLAGS_7}\0\0\0\0`, value: "a\r\n" },
    answers: [...STORED, ...REFUSED, [{ status: 1 }, "refused"]],
  },
  "append": {
    request: requests.store("k", { ...encoded, flags: 0 }, 0, { mode: "append" }),
    text: "ms k 3 F0 MA O9\r\na\r\n\r\n",
    packet: { opcode: 0x0e, key: "k", value: "a\r\n" },
    answers: [...STORED, ...REFUSED, [{ status: 1 }, "refused"]],
  },
  "prepend": {
    request: requests.store("k", { ...encoded, flags: 0 }, 0, { mode: "prepend" }),
    text: "ms k 3 F0 MP O9\r\na\r\n\r\n",
    packet: { opcode: 0x0f, key: "k", value: "a\r\n" },
    answers: [...STORED, ...REFUSED, [{ status: 1 }, "refused"]],
  },
  "delete": {
    request: requests.remove("k"),
    text: "md k O9\r\n",
    packet: { opcode: 4, key: "k" },
    answers: [
      ...([["HD @", true], ["NF @", false], ["EX @", false], ["NS @", false]] as const),
      ...([["EN", UNREADABLE], [{}, true]] as const),
      ...[1, 2, 5, 0x10, 0x13, 0x85].map((status) => [{ status }, false] as const),
    ],
  },
  "delete by id": {
    request: requests.remove("k", "5"),
    text: "md k C5 O9\r\n",
    packet: { opcode: 4, key: "k", cas: "5" },
    answers: [["EX @", false], [{ status: 2 }, false]],
  },
  "an invalidation": {
    request: requests.invalidate("k"),
    text: "md k O9\r\n",
    packet: { opcode: 4, key: "k" },
    answers: [
      ...([["HD @", true], ["NF @", true], ["NS @", false], ["EX @", UNREADABLE]] as const),
      ...([[{}, true], [{ status: 1 }, true], [{ status: 0x10 }, false]] as const),
    ],
  },
  "touch": {
    request: requests.touch("k", 60),
    text: "mg k T60 O9\r\n",
    packet: { opcode: 0x1c, key: "k", extras: "\0\0\0\x3c" },
    answers: [
      ...([["HD @", true], ["EN", false], ["NF @", false], ["NS @", UNREADABLE]] as const),
      ...([[{}, true], [{ extras: FLAGS_7 }, true]] as const),
      ...[1, 0x10, 0x13].map((status) => [{ status }, false] as const),
    ],
  },
  "increment": {
    request: requests.arithmetic("k", 2 ** 32 + 5, undefined, 0),
    text: "ma k v D4294967301 O9\r\n",
    packet: {
      ...{ opcode: 5, key: "k" },
      extras: `\0\0\0\x01\0\0\0\x05${"\0".repeat(8)}\xff\xff\xff\xff`,
    },
    answers: [
      ...([["VA 2 @\r\n17", 17], ["NF @", undefined], ["NS @", undefined]] as const),
      ...([["HD @", UNREADABLE], ["EN", UNREADABLE]] as const),
      [`VA 20 @\r\n${MAX_ID}`, Number(MAX_ID)],
      ["VA 20 @\r\n18446744073709551616", UNREADABLE],
      [{ value: "\0\0\0\x01\0\0\0\x02" }, 2 ** 32 + 2],
      ...[1, 5, 0x10, 0x13].map((status) => [{ status }, undefined] as const),
    ],
  },
  "decrement of a counter that is made": {
    request: requests.arithmetic("k", -5, 2 ** 33 + 1, 60),
    text: "ma k v D5 MD N60 J8589934593 O9\r\n",
    packet: {
      ...{ opcode: 6, key: "k" },
      extras: "\0\0\0\0\0\0\0\x05\0\0\0\x02\0\0\0\x01\0\0\0\x3c",
    },
    answers: [["VA 1 @\r\n0", 0], [{ value: "\0".repeat(8) }, 0], [{ status: 1 }, undefined]],
  },
  "a counter that is made with 0, for ever": {
    request: requests.arithmetic("k", 0, 0, 0),
    text: "ma k v D0 N0 J0 O9\r\n",
    packet: { opcode: 5, key: "k", extras: "\0".repeat(20) },
    answers: [],
  },
  "a meta command": {
    request: requests.meta("mg", "k", ["v", "t"], undefined),
    text: "mg k v t O9\r\n",
    answers: [
      ["VA 1 f7 c5 t6 @ W X Z\r\na", {
        ...{ status: "VA", value: bytesOf("a"), flags: 7, cas: "5", ttlSec: 6 },
        ...{ isWon: true, isStale: true, isHeld: true },
      }],
      ...["HD", "NF", "NS", "EX"].map((status) => [`${status} @`, nothing(status)] as const),
      ["EN", nothing("EN")],
      ["HD @ W", { ...nothing("HD"), isWon: true }],
      ["HD @ X", { ...nothing("HD"), isStale: true }],
      ["HD @ Z", { ...nothing("HD"), isHeld: true }],
      ["HD @ t-1", nothing("HD")],
      ["HD @ t0", { ...nothing("HD"), ttlSec: 0 }],
      ["HD @ s5 kname h1", nothing("HD")],
      ["MN @", UNREADABLE],
    ],
  },
  "a meta command with a value": {
    request: requests.meta("ms", "k", ["T9"], bytesOf("abc")),
    text: "ms k 3 T9 O9\r\nabc\r\n",
    answers: [],
  },
  "getss": {
    request: requests.getss("k", 30, 7),
    text: "getss 30 k\r\n",
    answers: [
      ["VALUE k 7 1 5\r\n0\r\nEND", { lease: "5", heldSec: 0 }],
      ["VALUE k 7 2 5\r\n29\r\nEND", { lease: "5", heldSec: 29 }],
      ["VALUE k 8 2 5\r\n29\r\nEND", { bytes: bytesOf("29"), flags: 8, cas: "5" }],
      ["VALUE k 0 0 5\r\n\r\nEND", { bytes: new Uint8Array(0), flags: 0, cas: "5" }],
      ["END", UNREADABLE],
      ["VALUE l 8 0 5\r\n\r\nEND", UNREADABLE],
      ["VALUE k 8 0 5 6\r\n\r\nEND", UNREADABLE],
      ["VALUE k 8 0\r\n\r\nEND", UNREADABLE],
    ],
  },
  "deletess": {
    request: requests.deletess("k", 30),
    text: "deletess 30 k\r\n",
    answers: [
      ["DELETED 5", { lease: "5", existed: true }],
      ["NOT_FOUND 5", { lease: "5", existed: false }],
      ["LOCKED", "locked"],
      ["LOCKED 5", UNREADABLE],
    ],
  },
  "lock": {
    request: requests.lock("k", 500),
    text: "lock k 500 fence\r\n",
    answers: [
      ["OK 9007199254740991", { fence: Number.MAX_SAFE_INTEGER }],
      ["OK 9007199254740992", UNREADABLE],
      ["LOCKED", "locked"],
      ["NOT_FOUND", "missing"],
      ["OK", UNREADABLE],
    ],
  },
  "unlock": {
    request: requests.unlock("k"),
    text: "unlock k\r\n",
    answers: [["OK", undefined], ["NOT_FOUND", UNREADABLE], ["OK 1", UNREADABLE]],
  },
  "token get": {
    request: requests.takeToken("k", "me"),
    text: "token get k me\r\n",
    answers: [[`TOKEN ${MAX_ID}`, MAX_ID], ["LOCKED", undefined], ["TOKEN", UNREADABLE]],
  },
  "token release": {
    request: requests.releaseToken("k", "5"),
    text: "token release k 5\r\n",
    answers: [["OK", true], ["NOT_FOUND", false], ["BUSY", UNREADABLE]],
  },
  "the end of a row's token": {
    request: requests.endToken("k", "5"),
    text: "token release k 5\r\n",
    answers: [["OK", true], ["NOT_FOUND", false], ["BUSY", false], ["LOCKED", UNREADABLE]],
  },
  "uput": {
    request: requests.writeRow("k", encoded, "5"),
    text: "uput k 7 3 5\r\na\r\n\r\n",
    answers: [
      ["STORED 3", 3],
      ["REVOKED", "revoked"],
      ["NOT_FOUND", "none"],
      ["BUSY", "busy"],
      ["LOCKED", "locked"],
      ["DELETED 3", UNREADABLE],
      ["STORED 9007199254740992", UNREADABLE],
    ],
  },
  "udelete": {
    request: requests.writeRow("k", undefined, "5"),
    text: "udelete k 5\r\n",
    answers: [["DELETED 3", 3], ["BUSY", "busy"], ["STORED 3", UNREADABLE]],
  },
  "stats": {
    request: requests.stats(""),
    text: "stats\r\n",
    packet: { opcode: 0x10 },
    answers: [
      ["STAT a 1\r\nSTAT b 2 3\r\nSTAT c\r\nEND", new Map([["a", "1"], ["b", "2 3"], ["c", ""]])],
      ["END", new Map()],
      ["RESET", new Map()],
      ["STAT\r\nEND", UNREADABLE],
      ["VALUE a 0 0\r\n\r\nEND", UNREADABLE],
    ],
  },
  "stats of a group": {
    request: requests.stats("items"),
    text: "stats items\r\n",
    packet: { opcode: 0x10, key: "items" },
    answers: [],
  },
};

/** The result of a meta command whose reply has no flags. */
function nothing(status: string): requests.MetaReply {
  return {
    ...{ status, value: new Uint8Array(0), flags: 0, cas: "", ttlSec: -1 },
    ...{ isWon: false, isStale: false, isHeld: false },
  };
}

/** Returns the bytes of a request as text, or undefined. */
function bytesBy(wire: Wire, request: Request<unknown>): string | undefined {
  const head = wire.headOf(request, OPAQUE);
  const { value } = request;
  return head === undefined || value === undefined ? head : head + textOf(value) + wire.valueEnd;
}

/** Reads replies that arrive in pieces. @returns The first one. */
function replyBy(wire: Wire, shape: Shape, pieces: readonly Uint8Array[]): Reply {
  let reply: Reply | undefined;
  for (const piece of pieces) {
    assertEquals(reply, undefined, "a reply before its last byte");
    wire.add(piece);
    reply = wire.next(shape);
  }
  assertEquals(wire.hasRest, false, "bytes behind a reply");
  return reply!;
}

/** Returns the result of a reply, "an error" if it is none. */
function resultBy(wire: Wire, request: Request<unknown>, pieces: readonly Uint8Array[]): unknown {
  try {
    const reply = replyBy(wire, request.shape, pieces);
    assertEquals(wire.isReplyTo(request.shape, OPAQUE, reply) || reply.status === "EN", true);
    return request.read(reply);
  } catch (error) {
    return error instanceof UnreadableReply ? UNREADABLE : "an error";
  }
}

for (const [name, { request, text, packet, answers }] of Object.entries(FORMS)) {
  Deno.test(`the bytes of ${name}, and the results of its replies`, () => {
    assertEquals(bytesBy(new TextWire(), request), text);
    assertEquals(
      bytesBy(new BinaryWire(), request),
      packet === undefined ? undefined : packetText({ opaque: OPAQUE, ...packet }),
    );
    assertEquals([request.key, request.extraMs], [
      name.startsWith("stats") ? "" : name.startsWith("the version") ? "tag:t" : "k",
      name === "lock" ? 500 : undefined,
    ]);
    for (const [reply, result] of answers) {
      const isText = typeof reply === "string";
      const wire = (): Wire => isText ? new TextWire() : new BinaryWire();
      const bytes = bytesOf(
        isText
          ? `${reply.replace("@", `O${OPAQUE}`)}\r\n`
          : packetText({ magic: 0x81, opcode: packet!.opcode, opaque: OPAQUE, ...reply }),
      );
      const what = `to ${JSON.stringify(reply)}`;
      assertEquals(resultBy(wire(), request, [bytes]), result, what);
      const single = [...bytes].map((byte) => Uint8Array.of(byte));
      assertEquals(resultBy(wire(), request, single), result, `${what}, a byte at a time`);
    }
  });
}

Deno.test("the bytes of a login, and what refuses it", () => {
  const login = { user: "anna", password: "se cret" };
  const cases: readonly (readonly [Wire, bytes: string, readonly Answer[]])[] = [
    [new TextWire(), "set login 0 0 12\r\nanna se cret\r\n", [
      ["STORED\r\n", undefined],
      ["NOT_STORED\r\n", "NOT_STORED"],
    ]],
    [
      new BinaryWire(),
      packetText({ opcode: 0x21, opaque: OPAQUE, key: "PLAIN", value: "\0anna\0se cret" }),
      [[packetText({ magic: 0x81, opcode: 0x21 }), undefined]],
    ],
  ];
  for (const [wire, bytes, answers] of cases) {
    const answered: unknown[] = [];
    const request = wire.loginOf(login, (refusal) => answered.push(refusal));
    assertEquals(bytesBy(wire, request), bytes);
    for (const [reply] of answers) {
      request.read(replyBy(wire, request.shape, [bytesOf(reply as string)]));
    }
    assertEquals(answered, answers.map(([, refusal]) => refusal));
  }
});

Deno.test("the status and the line of each error in the binary protocol", () => {
  const errors: readonly (readonly [status: number, text: string, line: string])[] = [
    [0x04, "Invalid arguments", "CLIENT_ERROR Invalid arguments"],
    [0x06, "", "CLIENT_ERROR status 6"],
    [0x20, "Auth failure.", "CLIENT_ERROR Auth failure."],
    [0x81, "Unknown command", "ERROR"],
    [0x82, "Out of memory", "SERVER_ERROR Out of memory"],
    [0x03, "x".repeat(200), `SERVER_ERROR ${"x".repeat(200)}`],
    [0x03, "x".repeat(201), `SERVER_ERROR ${"x".repeat(200)}`],
  ];
  for (const [status, value, line] of errors) {
    const wire = new BinaryWire();
    const bytes = packetText({ magic: 0x81, opcode: 1, status, value, opaque: 3, cas: "8" });
    const reply = replyBy(wire, "meta", [bytesOf(bytes)]);
    assertEquals([reply.status, reply.line, reply.isError], [line.split(" ")[0], line, true]);
    assertEquals([reply.opaque, reply.cas, reply.value.length], [3, "", 0]);
    assertEquals([wire.isReplyTo("meta", 3, reply), wire.isReplyTo("meta", 4, reply)], [
      true,
      false,
    ]);
  }
});

Deno.test("lines of one reply are none of the next one", () => {
  const text = new TextWire();
  text.add(bytesOf("STAT a 1\r\nEND\r\nEND\r\nVALUE k 0 1\r\nx\r\nEND\r\nHD O1\r\n"));
  const linesOf = (wire: Wire, shape: Shape = "lines"): unknown[] =>
    wire.next(shape)!.lines.map(({ words, value }) => [...words, value && textOf(value)]);
  assertEquals(linesOf(text), [["STAT", "a", "1", undefined]]);
  assertEquals(linesOf(text), []);
  assertEquals(linesOf(text), [["VALUE", "k", "0", "1", "x"]]);
  assertEquals(linesOf(text, "meta"), []);
  const binary = new BinaryWire();
  const stat = { magic: 0x81, opcode: 0x10 };
  binary.add(bytesOf(
    packetText({ ...stat, key: "a", value: "1" }) + packetText(stat) + packetText(stat),
  ));
  assertEquals(linesOf(binary), [["STAT", "a", "1", undefined]]);
  assertEquals(linesOf(binary), []);
});

Deno.test("the bounds of a reply: lines of 4096 bytes, values of 1 GiB", () => {
  const next = (bytes: string): unknown => {
    const wire = new TextWire();
    wire.add(bytesOf(bytes));
    return wire.next("line")?.line.length;
  };
  assertEquals([next(`${"x".repeat(4095)}\r\n`), next("x".repeat(4096))], [4095, undefined]);
  for (const line of [`${"x".repeat(4096)}\r\n`, "x".repeat(4097)]) {
    assertThrows(() => next(line), Error, `a line of 4097 bytes or more`);
  }
  const value = (length: number): unknown => next(`VALUE k 0 ${length}\r\n`);
  assertEquals(value(2 ** 30), undefined);
  assertThrows(() => value(2 ** 30 + 1), Error, "a value of 1073741825 bytes");
  const binary = new BinaryWire();
  const head = { magic: 0x81, opcode: 0, extras: FLAGS_7 };
  binary.add(bytesOf(packetText({ ...head, bodyLength: 2 ** 30 + 4 })));
  assertEquals(binary.next("meta"), undefined);
});

Deno.test("a value with its grace and tags is read as it was stored", async () => {
  const FLAG = 0x4_0000;
  const codec = {
    encode: (text: string) => ({ ...textCodec.encode(text), flags: 5 }),
    decode: (bytes: Uint8Array, flags: number) => `${flags} ${textCodec.decode(bytes, 0)}`,
  };
  const entries: readonly (readonly [
    value: string | undefined,
    graceSec: number,
    versions: Record<string, string>,
    bytes: string,
    flags: number,
  ])[] = [
    ["a\nb", 0, {}, "a\nb", 5],
    ["a\nb", 9, {}, "a\nb\n9", 5 | FLAG],
    ["", 0, { t: "1" }, "\n0 t=1", 5 | FLAG],
    ["a", 7, { "t=u": "1", v: MAX_ID }, `a\n7 t=u=1 v=${MAX_ID}`, 5 | FLAG],
    [undefined, 0, {}, "", 0x2_0000],
    [undefined, 3, { t: "1" }, "\n3 t=1", 0x2_0000 | FLAG],
  ];
  const request = lookFor("k", 30, codec);
  assertEquals(request.line, "mg k v f c t N30");
  const read = (bytes: string, flags: number): unknown => {
    const reply = `VA ${bytes.length} f${flags} c8 t60 O9\r\n${bytes}\r\n`;
    return request.read(replyBy(new TextWire(), "meta", [bytesOf(reply)]));
  };
  for (const [value, graceSec, versions, bytes, flags] of entries) {
    const stored = await encodeEntry(codec.encode, { value: value!, graceSec, versions });
    assertEquals([textOf(stored.bytes), stored.flags], [bytes, flags]);
    const entry = { value: value === undefined ? undefined : `5 ${value}`, graceSec, versions };
    const found = read(bytes, flags) as { entry: { versions: Record<string, string> } };
    assertEquals({ ...found.entry.versions }, versions);
    const plain = { ...found, entry: { ...found.entry, versions } };
    assertEquals(plain, { state: "value", cas: "8", leftSec: 60, entry } as never);
  }
  // Another program has set the flag: a value that no tags have.
  const foreign = { value: undefined, graceSec: 0, versions: { "no tag": "0" } };
  for (const bytes of ["", "a", "a\n", "a\nx", "a\n9 t", "a\n9 t=x", "a\n12345678901", "a\n9 "]) {
    assertEquals(read(bytes, FLAG), { state: "value", cas: "8", leftSec: 60, entry: foreign });
  }
  assertEquals(bytesCodec.encode(new Uint8Array(2)).flags, 0);
});

Deno.test("the messages of bytes that are no reply name what they are", () => {
  const wrong: readonly (readonly [shape: Shape, bytes: string, message: string])[] = [
    ["meta", "HD Ox9 s1\r\n", '"x9" instead of a number'],
    ["meta", "HD O1 f5x s1\r\n", '"5x" instead of a number'],
    ["meta", "VA 12x f0\r\n", '"12x" instead of a number'],
    ["meta", "HD t4294967296\r\n", '"4294967296" instead of a number'],
    ["meta", `HD c${2n ** 64n} O1\r\n`, 'the cas id "18446744073709551616"'],
    ["lines", "GOOD day\r\n", 'the line "GOOD day"'],
    ["lines", "VALUE k 0 1x\r\n", 'the line "VALUE k 0 1x"'],
    ["line", "\n", "a line without CR"],
    ["line", "OK\n", "a line without CR"],
    ["meta", "VA 1 f0\r\nab\r\n", "no line end behind a value"],
    ["meta", "VA 1 f0\r\na\rb", "no line end behind a value"],
  ];
  for (const [shape, bytes, message] of wrong) {
    const wire = new TextWire();
    wire.add(bytesOf(bytes));
    const error = assertThrows(() => wire.next(shape), Error);
    assertEquals(error.message, message);
  }
});

Deno.test("a value in many pieces is copied once, when it is whole", () => {
  const { concat } = Buffer;
  const value = "x".repeat(1_000);
  const head = { magic: 0x81, opcode: 0, extras: FLAGS_7 };
  const replies = [
    [new TextWire(), `VA 1000 f7 O1\r\n${value}\r\n`, 20],
    [new BinaryWire(), packetText({ ...head, value }), 24],
  ] as const;
  for (const [wire, bytes, headLength] of replies) {
    wire.add(bytesOf(bytes.slice(0, headLength)));
    assertEquals(wire.next("meta"), undefined);
    let copies = 0;
    Buffer.concat = (...pieces) => {
      copies++;
      return concat(...pieces);
    };
    try {
      const rest = [...bytesOf(bytes.slice(headLength))].map((byte) => Uint8Array.of(byte));
      assertEquals(textOf(replyBy(wire, "meta", rest).value), value);
    } finally {
      Buffer.concat = concat;
    }
    assertEquals(copies, 1);
  }
});
