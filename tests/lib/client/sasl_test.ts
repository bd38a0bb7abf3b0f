import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { BinaryWire } from "../../../lib/client/net/binary_wire.ts";
import {
  bytesCodec,
  Cache,
  Client,
  ConnectionError,
  ServerError,
  textCodec,
  UnsupportedError,
} from "../../../lib/client/mod.ts";
import { packetText } from "../../support/sessions/binary_text.ts";
import { bytesOf } from "../../support/sessions/side.ts";
import { SASL_LOGIN, startLeasedWithSasl, testSaslServers } from "./servers.ts";

// Login by SASL PLAIN, and the commands that the binary protocol has for it.

const PATIENT = { connectMs: 30_000, replyMs: 30_000 };
const LOGGED_IN = { ...PATIENT, login: SASL_LOGIN };
const MAX = Number.MAX_SAFE_INTEGER;

testSaslServers("commands of values by SASL", async (address) => {
  await using client = new Client(address, LOGGED_IN);
  assertEquals(await client.get("a"), undefined);
  assertEquals(await client.set("a", { one: 1 }), true);
  assertEquals(await client.get("a"), { one: 1 });
  assertEquals(await client.add("a", 2), false);
  assertEquals(await client.replace("b", 2), false);
  assertEquals(await client.add("b", [2], { ttlSec: 100 }), true);
  assertEquals(await client.replace("b", "€ 3"), true);
  assertEquals(await client.getAndTouch("b", 60), "€ 3");
  assertEquals(await client.getAndTouch("c", 60), undefined);
  assertEquals(await client.touch("b", 50), true);
  assertEquals(await client.touch("c", 50), false);
  const found = await client.gets("a");
  assertEquals(found?.value, { one: 1 });
  assertEquals(await client.cas("a", 1, found!.cas), "stored");
  assertEquals(await client.cas("a", 2, found!.cas), "exists");
  assertEquals(await client.cas("c", 2, found!.cas), "missing");
  assertEquals([await client.delete("a"), await client.delete("a")], [true, false]);
  const [statistics] = (await client.stats()).values();
  assertEquals(statistics!.get("curr_items"), "1");
  const [settings] = (await client.stats("settings")).values();
  assertEquals(settings!.get("auth_enabled_sasl"), "yes");
  await assertRejects(() => client.stats("no_such_group"), ServerError);
  assertEquals(await client.get("b"), "€ 3");
});

testSaslServers("bytes, texts and numbers by SASL", async (address) => {
  await using client = new Client(address, { ...LOGGED_IN, codec: textCodec });
  assertEquals(await client.append("t", bytesOf("x")), false);
  await client.set("t", "b");
  assertEquals(await client.append("t", bytesOf("c")), true);
  assertEquals(await client.prepend("t", bytesOf("a")), true);
  assertEquals(await client.get("t"), "abc");
  assertEquals(await client.increment("n", 5), undefined);
  assertEquals(await client.increment("n", 5, { initial: 7, ttlSec: 60 }), 7);
  assertEquals(await client.increment("n", 5), 12);
  assertEquals(await client.increment("n", -2), 10);
  assertEquals(await client.increment("n", -20), 0);
  assertEquals(await client.increment("large", 1, { initial: MAX - 2 ** 33 }), MAX - 2 ** 33);
  assertEquals(await client.increment("large", 2 ** 33), MAX);
  await assertRejects(() => client.increment("t"), ServerError, "CLIENT_ERROR Non-numeric");
});

testSaslServers("many keys and long values by SASL, before the login is done", async (address) => {
  const options = { ...LOGGED_IN, codec: bytesCodec, connections: 3 };
  await using client = new Client(address, options);
  const entries = Array.from({ length: 300 }, (_, index) => {
    const length = [0, 1, 100, 2_048, 2_049, 70_000][index % 6]!;
    return [`schlüssel:${index}`, new Uint8Array(length).fill(index)] as const;
  });
  assertEquals(await client.setMany(entries), []);
  const found = await client.getMany([...entries.map(([key]) => key), "missing"]);
  assertEquals(found.size, entries.length);
  for (const [key, value] of entries) assertEquals(found.get(key), value);
  assertEquals(await client.deleteMany(entries.map(([key]) => key)), entries.length);
  await using limited = new Client(address, { ...options, valueBytesMax: 2 ** 22 });
  const long = new Uint8Array(2 ** 21);
  await assertRejects(() => limited.set("k", long), ServerError, "SERVER_ERROR Too large.");
  assertEquals(await limited.get("k"), undefined);
});

testSaslServers("a login by SASL that is wrong, or none", async (address) => {
  const login = { ...SASL_LOGIN, password: "two" };
  await using wrong = new Client(address, { ...PATIENT, login });
  const message = "login of anna failed: CLIENT_ERROR Auth failure.";
  await assertRejects(() => wrong.get("k"), ConnectionError, message);
  // memcached reads a whole header before it refuses anything else.
  await using stranger = new Client(address, PATIENT);
  await assertRejects(
    () => stranger.get("a key of some length".replaceAll(" ", "_")),
    Error,
    address,
  );
});

testSaslServers("what the binary protocol lacks is an error, and others go on", async (address) => {
  await using cache = new Cache(address, LOGGED_IN);
  const reason = "login by SASL PLAIN has the binary protocol, which lacks this command";
  const lacking: Record<string, () => Promise<unknown>> = {
    meta: () => cache.meta("mg", "k", ["v"]),
    getss: () => cache.getss("k", 1, 0x3333),
    deletess: () => cache.deletess("k", 1),
    lock: () => cache.lock("k"),
    takeToken: () => cache.takeToken("k", "w"),
    getOrLoad: () => cache.getOrLoad("k", () => 1),
  };
  const set = cache.set("k", 1);
  for (const [name, call] of Object.entries(lacking)) {
    const error = await call().catch((error) => error);
    assert(
      error instanceof UnsupportedError && error.message.includes(reason),
      `${name}: ${error}`,
    );
  }
  assertEquals([await set, await cache.get("k")], [true, 1]);
});

Deno.test("locks and update tokens of others refuse commands by SASL", async () => {
  await using server = await startLeasedWithSasl();
  await using client = new Client(server.address, LOGGED_IN);
  const text = { user: "text", password: "text" };
  await using other = new Client(server.address, { ...PATIENT, login: text });
  const attempts = async (key: string): Promise<unknown[]> => [
    await client.set(key, 2),
    await client.add(key, 2),
    await client.replace(key, 2),
    await client.append(key, bytesOf("2")),
    await client.delete(key),
    await client.touch(key, 5),
    await client.increment(key),
  ];
  await other.set("locked", 1);
  const section = await other.lock("locked");
  const refused = await attempts("locked");
  assertEquals(refused, [false, false, false, false, false, false, undefined]);
  assertEquals(await client.get("locked"), 1);
  await section[Symbol.asyncDispose]();
  assertEquals(await client.set("locked", 2), true);

  const id = await other.takeToken("out", "writer");
  assertEquals(await attempts("out"), refused);
  assertEquals(await client.increment("out", 1, { initial: 1 }), undefined);
  assertEquals(await client.get("out"), undefined);
  await other.releaseToken("out", id);
  assertEquals(await client.set("out", 2), true);

  // The binary protocol does not tell a placeholder from an empty value.
  const won = await other.meta("mg", "leased", ["v", "c", "N30"]);
  await using texts = new Client(server.address, { ...LOGGED_IN, codec: textCodec });
  assertEquals([won.isWon, await texts.get("leased")], [true, ""]);
});

/** A packet of a server. */
const packet = (fields: Partial<Parameters<typeof packetText>[0]>): string =>
  packetText({ magic: 0x81, opcode: 0, key: "", extras: "", value: "", opaque: 1, ...fields });

const REPLIES: readonly (readonly ["meta" | "lines", string])[] = [
  ["meta", packet({ extras: "\0\0\0\x07", value: "a value", cas: "18446744073709551615" })],
  ["meta", packet({ opcode: 1, opaque: 2, cas: "5" })],
  ["meta", packet({ status: 1, value: "Not found", opaque: 3 })],
  ["meta", packet({ opcode: 5, value: "\0\0\0\x01\0\0\0\x02" })],
  [
    "lines",
    packet({ opcode: 16, key: "a", value: "1" }) +
    packet({ opcode: 16, key: "b", value: "2 3" }) + packet({ opcode: 16 }),
  ],
  ["meta", packet({ status: 0x82, value: "Out of memory" })],
  ["meta", packet({ status: 0x81 })],
  ["meta", packet({ status: 0x84 })],
];

Deno.test("replies by SASL are the same, however they are cut", () => {
  const bytes = bytesOf(REPLIES.map(([, reply]) => reply).join(""));
  const read = (pieces: readonly Uint8Array[]): unknown[] => {
    const wire = new BinaryWire();
    const replies: unknown[] = [];
    for (const piece of pieces) {
      wire.add(piece);
      for (;;) {
        const shape = REPLIES[replies.length]?.[0];
        const reply = shape === undefined ? undefined : wire.next(shape);
        if (reply === undefined) break;
        replies.push(structuredClone(reply));
      }
    }
    assert(!wire.hasRest);
    return replies;
  };
  const whole = read([bytes]) as { line: string; lines: unknown[]; value: Uint8Array }[];
  assertEquals(whole.map(({ line }) => line), [
    ...["", "HD", "", "", "END", "SERVER_ERROR Out of memory", "ERROR", "SERVER_ERROR status 132"],
  ]);
  assertEquals(whole[3]!.value, bytesOf("4294967298"));
  assertEquals(whole[4]!.lines, [
    { words: ["STAT", "a", "1"], value: undefined },
    { words: ["STAT", "b", "2 3"], value: undefined },
  ]);
  assertEquals(read([...bytes].map((byte) => Uint8Array.of(byte))), whole);
  for (let at = 1; at < bytes.length; at++) {
    assertEquals(read([bytes.subarray(0, at), bytes.subarray(at)]), whole);
  }
});

Deno.test("packets that are none", () => {
  const extras = "\0\0\0\0";
  const wrong: Record<string, readonly [reply: string, message: string]> = {
    "a request": [packet({ magic: 0x80, extras }), "begins with byte 128"],
    "text": ["HD O1\r\n".padEnd(24, "x"), "begins with byte 72"],
    "a get without flags": [packet({ value: "x" }), "0 bytes of extras"],
    "a get with a key": [packet({ extras, key: "k" }), "1 of a key"],
    "a set with extras": [packet({ opcode: 1, extras }), "4 bytes of extras"],
    "a number of seven bytes": [packet({ opcode: 5, value: "1234567" }), "a number of 7 bytes"],
    "a body shorter than its key": [
      packet({ extras, key: "k", bodyLength: 4 }),
      "a body of 4 bytes",
    ],
    "a value over the limit": [
      packet({ extras, bodyLength: 2 ** 30 + 5 }),
      "a body of 1073741829 bytes",
    ],
    "a statistic that nobody asked for": [
      packet({ opcode: 16, key: "a", value: "1" }),
      "that no request asked for",
    ],
  };
  for (const [name, [reply, part]] of Object.entries(wrong)) {
    const wire = new BinaryWire();
    wire.add(bytesOf(reply));
    assertThrows(() => assertEquals([name, wire.next("meta")], [name, "an error"]), Error, part);
  }
  const wire = new BinaryWire();
  wire.add(bytesOf(packet({ extras })));
  const reply = wire.next("meta")!;
  assertEquals([wire.isReplyTo("meta", 1, reply), wire.isReplyTo("meta", 2, reply)], [true, false]);
});
