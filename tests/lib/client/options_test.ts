import { Attempts } from "../../../lib/client/attempts.ts";
import { until } from "../../support/servers/server_process.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { addressOf, linkOf, MS_MAX, nameOf } from "../../../lib/client/net/address.ts";
import {
  checkId,
  checkNumber,
  isId,
  keyBytes,
  membersOf,
  oneOrMore,
  prefixedBytes,
} from "../../../lib/client/checks.ts";
import {
  bytesCodec,
  type Codec,
  compressed,
  jsonCodec,
  textCodec,
} from "../../../lib/client/values/codecs.ts";
import { type Duration, expiryOf, msOf, secOf } from "../../../lib/client/durations.ts";
import { ALL_KEYS, KeySpace } from "../../../lib/client/key_space.ts";
import { Lanes } from "../../../lib/client/lanes.ts";
import { claimKey, loadKey, settingsOf } from "../../../lib/client/load_options.ts";

Deno.test("a server's name is a host, a port and brackets, or a path; nothing else", () => {
  const names: readonly (readonly [string, ReturnType<typeof addressOf>, string?])[] = [
    ["h", { host: "h", port: 11211 }, "h:11211"],
    ["h:1", { host: "h", port: 1 }],
    ["h:65535", { host: "h", port: 65_535 }],
    ["[::1]", { host: "::1", port: 11211 }, "[::1]:11211"],
    ["[::1]:7", { host: "::1", port: 7 }],
    ["/run/s:1", { path: "/run/s:1" }],
  ];
  for (const [name, address, canonical = name] of names) {
    assertEquals(addressOf(name), address);
    assertEquals(nameOf(address), canonical);
  }
  const wrong = [
    "",
    ":1",
    "h:",
    "h:0",
    "h:65536",
    "h:100000",
    "h:x",
    "::1",
    "a b",
    "h/x",
    "/",
    "[h",
    "h]",
    "[h]x",
    "h\0",
  ];
  for (const name of wrong) {
    assertThrows(() => addressOf(name), RangeError, "expected host:port");
  }
});

Deno.test("a link has its defaults, and its bounds", () => {
  const retry = { retryFirstMs: 50, retryMaxMs: 1000 };
  const preset = { connectMs: 1000, replyMs: 1000, ...retry, queueBytesMax: 64 * 2 ** 20 };
  assertEquals(linkOf({}), preset);
  const login = { user: "u", password: "p" };
  const bounds = { retryFirstMs: 1, retryMaxMs: MS_MAX };
  const given = { connectMs: 1, replyMs: MS_MAX, ...bounds, queueBytesMax: 1, login };
  assertEquals(linkOf(given), given);
  assertEquals(MS_MAX, 3_600_000);
  for (const name of ["connectMs", "replyMs", "retryFirstMs", "retryMaxMs"] as const) {
    for (const ms of [0, MS_MAX + 1, 1.5]) {
      assertThrows(() => linkOf({ [name]: ms }), RangeError, name);
    }
  }
  assertThrows(() => linkOf({ queueBytesMax: 0 }), RangeError, "queueBytesMax");
  const refused = (changed: object): void =>
    void assertThrows(() => linkOf({ login: { ...login, ...changed } }), Error, "of login");
  refused({ user: "a b" });
  refused({ password: "a\x7f" });
  refused({ user: "" });
  refused({ password: "a\0", mechanism: "PLAIN" });
  refused({ mechanism: "plain" });
  assertEquals(
    linkOf({ login: { ...login, password: "a b", mechanism: "PLAIN" } }).login!.password,
    "a b",
  );
});

Deno.test("keys have 1 to 250 bytes of UTF-8, with what the library adds", () => {
  assertEquals(keyBytes("a!~"), "a!~");
  assertEquals(keyBytes("é"), "\xc3\xa9");
  assertEquals(keyBytes("k".repeat(250)).length, 250);
  assertEquals(keyBytes("é".repeat(125)).length, 250);
  const wrong: readonly (readonly [string, string])[] = [
    ["", "it is empty"],
    ["k".repeat(251), "it has 251 bytes, 250 are allowed"],
    ["é".repeat(126), "it has 252 bytes, 250 are allowed"],
    ["a b", "blanks and control characters are not allowed"],
    ["a\x7f", "blanks and control characters are not allowed"],
    ["a\0", "blanks and control characters are not allowed"],
    ["\ud800", "half a surrogate pair is not allowed"],
  ];
  for (const [key, problem] of wrong) assertThrows(() => keyBytes(key), RangeError, problem);
  assertEquals(prefixedBytes("tag", "tag:", "x".repeat(240), 6).length, 244);
  assertThrows(
    () => prefixedBytes("tag", "tag:", "x".repeat(241), 6),
    RangeError,
    "240 are allowed",
  );
});

Deno.test("a time to live up to 30 days is relative, a longer one absolute, up to 68 years", () => {
  assertEquals([expiryOf(0), expiryOf(1), expiryOf(2_592_000)], [0, 1, 2_592_000]);
  const before = Math.floor(Date.now() / 1000);
  const absolute = expiryOf(2_592_001);
  const after = Math.floor(Date.now() / 1000);
  assert(before + 2_592_001 <= absolute && absolute <= after + 2_592_001);
  expiryOf(0x7fff_ffff);
  for (const sec of [-1, 1.5, 0x8000_0000, NaN]) {
    assertThrows(() => expiryOf(sec), RangeError, "ttlSec");
  }
  assertThrows(() => checkNumber("n", "1" as never, 0, 2), TypeError);
});

Deno.test("ids are decimal numbers below 2^64; 0 names none", () => {
  for (const id of ["0", "1", "18446744073709551615", "9999999999999999999"]) assert(isId(id), id);
  for (
    const id of [
      "",
      "-1",
      "1.0",
      "18446744073709551616",
      "99999999999999999999",
      "0".repeat(21),
      "x",
    ]
  ) {
    assert(!isId(id), id);
  }
  checkId("id", "1");
  checkId("id", "18446744073709551615");
  for (const id of ["0", "00", "", "18446744073709551616"]) {
    assertThrows(() => checkId("id", id), RangeError, "expected a decimal number from 1 to");
  }
});

Deno.test("one text stands for a list of one; a text is no iterable of characters", () => {
  assertEquals(oneOrMore("keys", "ab"), ["ab"]);
  assertEquals(oneOrMore("keys", ["a", "b"]), ["a", "b"]);
  assertEquals(membersOf("keys", new Set(["a"])), ["a"]);
  for (const wrong of ["ab", null, undefined, 1, {}]) {
    assertThrows(() => membersOf("keys", wrong as never), TypeError, "keys");
  }
});

Deno.test("codecs give back what they got, in memory of its own", () => {
  const bytes = Uint8Array.of(1, 2);
  const decoded = bytesCodec.decode(bytes, 0);
  bytes.fill(9);
  assertEquals(decoded, Uint8Array.of(1, 2));
  assertEquals(bytesCodec.encode(bytes), { bytes, flags: 0 });
  const within = new Uint8Array([0, 0xe2, 0x82, 0xac, 0]).subarray(1, 4);
  assertEquals(textCodec.decode(within, 0), "€");
  assertEquals([jsonCodec.encode(1).flags, textCodec.encode("a").flags], [0, 0]);
  assertThrows(() => textCodec.encode("\ud800"), RangeError, "half a surrogate pair");
  assertEquals(jsonCodec.decode(jsonCodec.encode({ a: [1, "€"] }).bytes, 0), { a: [1, "€"] });
  for (const value of [undefined, () => {}, Symbol("s")]) {
    assertThrows(() => jsonCodec.encode(value), TypeError, "JSON cannot hold");
  }
});

Deno.test("values are compressed from the least length on, if that makes them smaller, and once", async () => {
  const codec = compressed(textCodec, { minBytes: 100, maxBytes: 1000 });
  const flagsOf = async (text: string, by: Codec<string> = codec): Promise<number> =>
    (await by.encode(text)).flags;
  assertEquals(await flagsOf("x".repeat(99)), 0);
  assertEquals(await flagsOf("x".repeat(100)), 0x1_0000);
  assertEquals(await flagsOf("x".repeat(511), compressed(textCodec)), 0);
  assertEquals(await flagsOf("x".repeat(512), compressed(textCodec)), 0x1_0000);
  const random = crypto.getRandomValues(new Uint8Array(500));
  const ofBytes = compressed(bytesCodec, { minBytes: 1 });
  assertEquals(ofBytes.encode(random), { bytes: random, flags: 0 });
  assertEquals(ofBytes.decode(random, 0), random);
  const { bytes, flags } = await codec.encode("x".repeat(1000));
  assert(bytes.length < 100);
  assertEquals(codec.decode(bytes, flags), "x".repeat(1000));
  const long = await codec.encode("x".repeat(1001));
  assertThrows(() => codec.decode(long.bytes, long.flags));
  const twice = compressed(codec, { minBytes: 1 });
  const once = await twice.encode("x".repeat(1000));
  assertEquals(once.bytes, bytes);
  // Flags of the inner codec pass through.
  const seen: number[] = [];
  const flagged = compressed<string>({
    encode: (text) => ({ ...textCodec.encode(text), flags: 5 }),
    decode: (part, own) => {
      seen.push(own);
      return textCodec.decode(part, own);
    },
  }, { minBytes: 3 });
  for (const text of ["ab", "x".repeat(50)]) {
    const encoded = await flagged.encode(text);
    assertEquals(encoded.flags & 0xffff, 5);
    assertEquals(flagged.decode(encoded.bytes, encoded.flags), text);
  }
  assertEquals(seen, [5, 5]);
  assertThrows(() => compressed(textCodec, { minBytes: -1 }), RangeError, "minBytes");
  assertThrows(() => compressed(textCodec, { maxBytes: 0 }), RangeError, "maxBytes");
  compressed(textCodec, { minBytes: 0, maxBytes: 2 ** 30 });
  assertThrows(() => compressed(textCodec, { maxBytes: 2 ** 30 + 1 }), RangeError, "maxBytes");
});

Deno.test("a time is a number in the unit of its option, or a text with a unit", () => {
  const times: readonly (readonly [Duration, sec: number | null, ms: number | null])[] = [
    [0, 0, 0],
    [7, 7, 7],
    ["0s", 0, 0],
    ["1500ms", null, 1_500],
    ["2000ms", 2, 2_000],
    ["30s", 30, 30_000],
    ["10m", 600, 600_000],
    ["2h", 7_200, null],
    ["7d", 604_800, null],
    ["007m", 420, 420_000],
  ];
  for (const [time, sec, ms] of times) {
    for (const [of, count, max] of [[secOf, sec, 700_000], [msOf, ms, 3_600_000]] as const) {
      if (count === null) {
        const message = `t "${time}": expected a whole number from 0 to ${max}, or a time as "30s"`;
        assertThrows(() => of("t", time, 0, max), RangeError, message);
      } else assertEquals(of("t", time, 0, max), count);
    }
  }
  assertThrows(() => secOf("t", "1s", 2, 3), RangeError, "of 2 to 3 s");
  assertThrows(() => msOf("t", "4ms", 2, 3), RangeError, "of 2 to 3 ms");
  assertThrows(() => secOf("t", null as unknown as "1s", 2, 3), TypeError, "t null");
  assertEquals(expiryOf("30d"), 30 * 86_400);
  assert(expiryOf("31d") > Date.now() / 1000);
  assertEquals(expiryOf(0x7fff_ffff), 0x7fff_ffff);
});

Deno.test("a load has its defaults, and its bounds", () => {
  const preset = {
    ...{ ttlSec: 600, absentSec: 10, leaseSec: 10, hardMs: 30_000, waitMs: 10_000 },
    ...{ graceSec: 0, softMs: 0, backoffMs: 1000, refreshSec: 0, tags: [] as string[] },
  };
  assertEquals(settingsOf({}), preset);
  const given = {
    ...{ ttlSec: 1, absentSec: 2, leaseSec: 3, hardMs: 4, waitMs: 5, graceSec: 6, softMs: 7 },
    ...{ refreshSec: 8, backoffMs: 9, tags: ["a", "b", "a"] },
  };
  assertEquals(settingsOf(given), { ...given, tags: ["tag:a", "tag:b"] });
  const most = 0x7fff_ffff;
  const bounds: readonly (readonly [name: string, least: number, most: number])[] = [
    ["ttlSec", 0, most],
    ["absentSec", 0, most],
    ["graceSec", 0, most - 600],
    ["refreshSec", 0, most],
    ["waitMs", 0, MS_MAX],
    ["softMs", 0, MS_MAX],
    ["backoffMs", 0, MS_MAX],
    ["hardMs", 1, MS_MAX],
    ["leaseSec", 1, 3600],
  ];
  for (const [name, low, high] of bounds) {
    for (const value of [low, high]) settingsOf({ [name]: value });
    for (const value of [low - 1, high + 1, low + 0.5]) {
      assertThrows(
        () => settingsOf({ [name]: value }),
        RangeError,
        name.replace("graceSec", "Sec"),
      );
    }
  }
  assertThrows(
    () => settingsOf({ absentSec: most, graceSec: 1 }),
    RangeError,
    "absentSec and graceSec",
  );
});

Deno.test("keys of claims, tags and namespaces leave room for what is added", () => {
  const plain = settingsOf({});
  const claimed = [settingsOf({ refreshSec: 1 }), settingsOf({ graceSec: 1 })];
  assertEquals(claimKey("k"), "k~claim");
  const keyOf = (length: number, settings = plain, space = ALL_KEYS): string =>
    loadKey("k".repeat(length), settings, space);
  assertEquals(keyOf(250).length, 250);
  for (const settings of claimed) {
    assertEquals(keyOf(244, settings).length, 244);
    assertThrows(() => keyOf(245, settings), RangeError, "244 are allowed");
  }
  assertEquals(ALL_KEYS.tagsOf("a"), ["tag:a"]);
  assertEquals(ALL_KEYS.tagsOf(["b", "a", "b"]), ["tag:b", "tag:a"]);
  assertEquals(ALL_KEYS.within("n").tags, ["tag:namespace:n"]);
  assertEquals(ALL_KEYS.within("n".repeat(236)).tags[0]!.length, 250);
  assertThrows(() => ALL_KEYS.within("n".repeat(237)), RangeError, "236 are allowed");
  const shop = KeySpace.of("shöp:");
  assertEquals(shop.keyOf("k"), "sh\xc3\xb6p:k");
  assertEquals(shop.tagsOf("t"), ["tag:sh\xc3\xb6p:t"]);
  const inner = shop.within("a").within("ä");
  assertEquals(inner.keyOf("k"), "sh\xc3\xb6p:a/\xc3\xa4:k");
  const [outerTag, innerTag] = inner.tags;
  assertEquals(outerTag, "tag:sh\xc3\xb6p:namespace:a");
  assertEquals(innerTag, "tag:sh\xc3\xb6p:namespace:a/\xc3\xa4");
  assertEquals(inner.tagsOf("t"), shop.tagsOf("t"));
  for (const name of ["a:b", ":", "a/b", "/"]) {
    assertThrows(
      () => shop.within(name),
      RangeError,
      `name "${name}": ":" and "/" are not allowed`,
    );
  }
  assertEquals(keyOf(244, plain, shop).length, 250);
  assertThrows(() => keyOf(245, plain, shop), RangeError, "244 are allowed");
  assertThrows(() => keyOf(239, claimed[0], shop), RangeError, "238 are allowed");
  assertEquals(KeySpace.of("p".repeat(200)).keyOf("k").length, 201);
  assertThrows(() => KeySpace.of("p".repeat(201)), RangeError, "prefix");
  assertThrows(() => KeySpace.of("a b"), RangeError, "prefix");
});

Deno.test("of loads anew, one is under way for a key, and none begins in the pause after a failure", () => {
  let nowMs = 100;
  const attempts = new Attempts(() => nowMs);
  assertEquals([attempts.begin("a"), attempts.begin("a"), attempts.begin("b")], [
    true,
    false,
    true,
  ]);
  attempts.end("a", 0);
  assertEquals(attempts.begin("a"), true);
  attempts.end("a", 50);
  nowMs = 149;
  assertEquals(attempts.begin("a"), false);
  nowMs = 150;
  assertEquals([attempts.begin("a"), attempts.begin("a")], [true, false]);
  attempts.end("a", 0);
  // The oldest pauses of too many are forgotten.
  for (let index = 0; index <= 10_000; index++) attempts.end(`${index}`, 50);
  assertEquals([attempts.begin("0"), attempts.begin("1")], [true, false]);
});

Deno.test("callers of a key join the work that has not begun, and never the one in progress", async () => {
  const lanes = new Lanes<string>();
  const begun: number[] = [];
  const offers: ((answer: string) => void)[] = [];
  const ends: ((answer: string) => void)[] = [];
  const begin = (number: number) => () => {
    begun.push(number);
    const { promise, resolve } = Promise.withResolvers<string>();
    const offer = Promise.withResolvers<string>();
    ends.push(resolve);
    offers.push(offer.resolve);
    return { answer: promise, shared: Promise.race([promise, offer.promise]) };
  };
  const first = [lanes.join("a", begin(1)), lanes.join("a", begin(2))];
  const other = lanes.join("b", begin(3));
  await until(() => begun.length === 2);
  // In progress: the next callers share another work, which waits until those who share the first have an answer.
  const second = [lanes.join("a", begin(4)), lanes.join("a", begin(5))];
  ends[1]!("other");
  assertEquals(await other, "other");
  assertEquals(begun, [1, 3]);
  offers[0]!("early");
  assertEquals(await first[1], "early");
  await until(() => begun.length === 3);
  assertEquals(begun, [1, 3, 4]);
  ends[2]!("second");
  assertEquals(await Promise.all(second), ["second", "second"]);
  ends[0]!("late");
  assertEquals(await first[0], "late");
  const last = lanes.join("a", begin(6));
  await until(() => begun.length === 4);
  ends[3]!("last");
  assertEquals(await last, "last");
});
