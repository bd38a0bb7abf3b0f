import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  bytesCodec,
  Cache,
  type Codec,
  compressed,
  jsonCodec,
  RequestError,
  type StandardSchema,
  structuredCodec,
  textCodec,
  validated,
  ValueTooLargeError,
} from "../../../../lib/client/mod.ts";
import { Encoder } from "../../../../lib/client/values/encoder.ts";
import { randomFrom } from "../../../support/random.ts";
import { roundsOf } from "../../../support/rounds.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { testServers } from "../servers.ts";

/** Waits for other tasks, so that each step takes turns of the event loop. */
const later = <Value>(value: Value): Promise<Value> =>
  new Promise((resolve) => setTimeout(() => resolve(value), 0));

const asyncCodec: Codec<string> = {
  encode: (text) => later(textCodec.encode(text)),
  decode: (bytes) => later(textCodec.decode(bytes.slice(), 0)),
};

testServers("a codec that takes its time: every command and flow", async (address) => {
  await using cache = new Cache<string>(address, { codec: asyncCodec });
  assertEquals(await cache.set("k", "v"), true);
  assertEquals([await cache.get("k"), (await cache.gets("k"))?.value], ["v", "v"]);
  assertEquals(await cache.add("k", "w"), false);
  assertEquals(await cache.replace("k", "w"), true);
  assertEquals(await cache.cas("k", "x", (await cache.gets("k"))!.cas), "stored");
  assertEquals(await cache.setMany([["a", "1"], ["b", "2"]]), []);
  assertEquals(await cache.getMany(["a", "b", "c"]), new Map([["a", "1"], ["b", "2"]]));
  assertEquals(await cache.compareAndSwap("k", (old) => `${old}y`), "xy");
  assertEquals(await cache.getAndTouch("k", 60), "xy");
  for (const options of [{}, { graceSec: 60, tags: ["t"] }]) {
    const key = JSON.stringify(options).replaceAll('"', "");
    const read = (row: string): Promise<string | undefined> =>
      cache.getOrLoad(key, () => row, options);
    assertEquals([await read("1"), await read("2"), await cache.get(key)], ["1", "1", "1"]);
  }
  const space = cache.namespace("n");
  assertEquals(await space.setMany([["a", "1"]]), []);
  assertEquals(await space.get("a"), "1");
  assertEquals(cache.counters.undecodable, 0);
});

testServers(
  "a codec whose promises fail: the caller gets the reason, the flow loads",
  async (address) => {
    const broken = (what: string): Promise<never> =>
      later(0).then(() => Promise.reject(new Error(what)));
    await using fine = new Cache<string>(address, { codec: textCodec });
    await fine.setMany([["k", "v"], ["l", "v"]]);
    await using cache = new Cache<string>(address, {
      codec: { encode: () => broken("no encode"), decode: () => broken("no decode") },
    });
    for (const call of [() => cache.set("k", "v"), () => cache.setMany([["k", "v"], ["l", "v"]])]) {
      await assertRejects(call, Error, "no encode");
    }
    for (
      const call of [() => cache.get("k"), () => cache.getMany(["k", "l"]), () => cache.gets("k")]
    ) {
      const error = await assertRejects(call, RequestError, "the codec cannot decode the value");
      assert(error.message.includes("no decode") && error.message.includes("k"), error.message);
    }
    await assertRejects(() => cache.getOrLoad("k", () => "row"), Error, "no encode");
    assertEquals([cache.counters.undecodable, cache.counters.loads], [1, 1]);
    assertEquals(await fine.get("k"), undefined, "it was dropped, and its lease is given back");
    assertEquals(await fine.getOrLoad("k", () => "row", { waitMs: 0 }), "row");
    assertEquals(await fine.get("k"), "row");
  },
);

Deno.test("long values are compressed on another thread, and come back the same", async () => {
  const codec = compressed(textCodec);
  for (const [length, isAsync] of [[65_535, false], [65_536, true], [3_000_000, true]] as const) {
    const text = "x".repeat(length);
    const encoded = codec.encode(text);
    assertEquals(encoded instanceof Promise, isAsync, `${length}`);
    const { bytes, flags } = await encoded;
    assert(bytes.length < length / 50);
    assertEquals(await codec.decode(bytes, flags), text);
  }
  const eager = compressed(textCodec, { minBytes: 1, asyncBytes: 0, maxBytes: 1000 });
  const { bytes, flags } = await eager.encode("x".repeat(1000));
  const decoded = eager.decode(bytes, flags);
  assert(decoded instanceof Promise);
  // The bytes are not the codec's any more.
  bytes.fill(0);
  assertEquals(await decoded, "x".repeat(1000));
  const long = await eager.encode("x".repeat(1001));
  await assertRejects(async () => await eager.decode(long.bytes, long.flags));
  await assertRejects(async () => await eager.decode(new Uint8Array([1, 2, 3]), flags));
  assertThrows(() => compressed(textCodec, { asyncBytes: -1 }), RangeError, "asyncBytes");
});

testServers("values that JSON cannot hold", async (address) => {
  await using cache = new Cache(address, { codec: structuredCodec });
  const value = {
    ...{ date: new Date(5), map: new Map([["a", new Set([1])]]), bytes: Uint8Array.of(1, 2) },
    ...{ big: 10n ** 30n, nothing: undefined, text: "hé", floats: new Float64Array([1.5]) },
  };
  await cache.set("k", value);
  assertEquals(await cache.get("k"), value);
  assertEquals(await cache.getOrLoad("l", () => value), value);
  assertEquals(await cache.getOrLoad<unknown>("l", () => 5), value);
  await assertRejects(() => cache.set("k", () => {}), Error);
  await using zipped = new Cache(address, { codec: compressed(structuredCodec) });
  await zipped.set("z", new Array(1000).fill(value));
  assertEquals((await zipped.get("z")).at(-1), value);
});

Deno.test("bytes that no codec has written are an error or a value", () =>
  withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    const { bytes } = structuredCodec.encode([new Date(5), new Map([["a", [1n]]]), "text", {
      a: 1,
    }]);
    for (let round = 0; round < roundsOf(20_000); round++) {
      const hostile = bytes.slice(
        0,
        random() < 0.2 ? Math.floor(random() * bytes.length) : undefined,
      );
      for (let count = 0; count < 3 && hostile.length > 0; count++) {
        hostile[Math.floor(random() * hostile.length)] = Math.floor(random() * 256);
      }
      try {
        structuredCodec.decode(hostile, 0);
      } catch (error) {
        assert(error instanceof Error);
      }
    }
    return Promise.resolve();
  }));

/** A schema of numbers, of which it makes texts. */
function schemaOf(isAsync: boolean): StandardSchema<string> {
  const validate = (value: unknown): { value: string } | { issues: { message: string }[] } =>
    typeof value === "number"
      ? { value: `number ${value}` }
      : { issues: [{ message: "no number" }, { message: "at all" }] };
  return {
    "~standard": { validate: (value) => isAsync ? later(validate(value)) : validate(value) },
  };
}

testServers("a schema: what does not fit is loaded anew", async (address) => {
  await using plain = new Cache(address);
  for (const isAsync of [false, true]) {
    const codec = validated(jsonCodec, schemaOf(isAsync));
    await using cache = new Cache<string>(address, { codec });
    await plain.setMany([["fits", 5], ["old", { number: 5 }]]);
    assertEquals(await cache.get("fits"), "number 5");
    await assertRejects(() => cache.get("old"), RequestError, "no number; at all");
    assertEquals(await cache.getOrLoad("fits", () => "row"), "number 5");
    assertEquals(await cache.getOrLoad("old", () => "row"), "row");
    assertEquals(cache.counters.undecodable, 1);
  }
  for (const schema of [undefined, null, {}, { "~standard": {} }, 5]) {
    const wrong = schema as unknown as StandardSchema<string>;
    assertThrows(() => validated(jsonCodec, wrong), TypeError, "validate of the schema");
  }
});

Deno.test("values outlive the bytes that they were decoded from", async () => {
  const bytes = Uint8Array.from({ length: 5_000 }, (_, at) => at % 7);
  const codecs: readonly Codec<Uint8Array>[] = [
    bytesCodec,
    structuredCodec,
    compressed(bytesCodec),
    compressed(structuredCodec, { asyncBytes: 0 }),
  ];
  for (const [index, codec] of codecs.entries()) {
    const encoded = await codec.encode(bytes);
    const received = new Uint8Array(encoded.bytes);
    const decoded = codec.decode(received, encoded.flags);
    received.fill(0);
    assertEquals(await decoded, bytes, `codec ${index}`);
  }
});

Deno.test("a codec that compresses is not compressed once more", async () => {
  const value = "x".repeat(100_000);
  const once = compressed(textCodec);
  const twice = compressed(once, { minBytes: 1 });
  const encoded = await twice.encode(value);
  assertEquals(encoded, await once.encode(value));
  assertEquals(await twice.decode(encoded.bytes, encoded.flags), value);
});

Deno.test("values that are not sent: nobody gets the failure of a codec's promise", async () => {
  const encode = (): Promise<never> => Promise.reject(new Error("no encode"));
  await using cache = new Cache<string>("127.0.0.1:1", {
    codec: { encode, decode: textCodec.decode },
  });
  const wrongKey = (): Promise<unknown> => cache.setMany([["k", "v"], ["a key", "v"]]);
  await assertRejects(wrongKey, RangeError, "blanks");
  const signal = AbortSignal.abort(new Error("too late"));
  await assertRejects(() => cache.setMany([["k", "v"]], { signal }), Error, "too late");
  await later(0);
});

Deno.test("a value of valueBytesMax is encoded, a longer one is not", () => {
  const encoder = new Encoder(bytesCodec, 10);
  assertEquals(encoder.encode("k", new Uint8Array(10)), { bytes: new Uint8Array(10), flags: 0 });
  assertThrows(() => encoder.encode("k", new Uint8Array(11)), ValueTooLargeError, "11 bytes");
});
