import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import {
  Cache,
  ConnectionError,
  LockedError,
  type Namespace,
  textCodec,
  UnfinishedError,
} from "../../../../lib/client/mod.ts";
import { randomFrom } from "../../../support/random.ts";
import { roundsOf } from "../../../support/rounds.ts";
import { drawSeed, withSeed } from "../../../support/seed.ts";
import { until } from "../../../support/servers/server_process.ts";
import { startLeased, testServers } from "../servers.ts";

const KEYS = ["a", "b", "ä"];
const STEPS = roundsOf(400);

/** Commands on one key of a cache. @returns What shows their effect. */
const COMMANDS: Readonly<
  Record<string, (cache: Cache<string>, key: string, value: string) => Promise<unknown>>
> = {
  get: (cache, key) => cache.get(key),
  gets: async (cache, key) => (await cache.gets(key))?.value,
  getMany: async (cache, key) => [...(await cache.getMany([key, "a"])).entries()],
  getAndTouch: (cache, key) => cache.getAndTouch(key, 100),
  touch: (cache, key) => cache.touch(key, "1m"),
  set: (cache, key, value) => cache.set(key, value),
  setMany: (cache, key, value) => cache.setMany([[key, value], ["b", value]], { ttlSec: 90 }),
  add: (cache, key, value) => cache.add(key, value),
  replace: (cache, key, value) => cache.replace(key, value),
  append: (cache, key, value) => cache.append(key, textCodec.encode(value).bytes),
  prepend: (cache, key, value) => cache.prepend(key, textCodec.encode(value).bytes),
  cas: async (cache, key, value) => {
    const found = await cache.gets(key);
    return found === undefined ? "none" : await cache.cas(key, value, found.cas);
  },
  "cas of another": async (cache, key, value) => {
    const { cas } = (await cache.gets("b")) ?? { cas: `${2 ** 50}` };
    await cache.set("b", value);
    return await cache.cas(key, value, cas);
  },
  delete: (cache, key) => cache.delete(key),
  deleteMany: (cache, key) => cache.deleteMany([key, "b"]),
  compareAndSwap: (cache, key, value) =>
    cache.compareAndSwap(key, (old) => old === undefined ? value : `${old.slice(0, 9)}${value}`),
  getOrLoad: (cache, key, value) => cache.getOrLoad(key, () => value),
  getOrLoadMany: async (cache, key, value) => {
    const found = await cache.getOrLoadMany(
      [key, "b"],
      (keys) => new Map(keys.map((each) => [each, value])),
    );
    return [...found.entries()].sort();
  },
  invalidate: (cache, key) => cache.invalidate(key),
  put: (cache, key, value) => cache.put([key], () => value),
};

testServers(
  "the commands of a namespace answer as those of a cache do",
  (address) =>
    withSeed(drawSeed(), async (seed) => {
      const random = randomFrom(seed);
      const options = { codec: textCodec, prefix: "one:" } as const;
      await using plain = new Cache<string>(address, options);
      await using other = new Cache<string>(address, { ...options, prefix: "other:" });
      const inner = other.namespace("outer").namespace("inner");
      const names = Object.keys(COMMANDS);
      const done: string[] = [];
      for (let step = 0; step < STEPS; step++) {
        const name = names[Math.floor(random() * names.length)]!;
        const key = KEYS[Math.floor(random() * KEYS.length)]!;
        // Some in a namespace of another object: it is the same one.
        const space = random() < 0.5 ? inner : other.namespace("outer").namespace("inner");
        done.push(`${name} ${key} ${step}`);
        const command = COMMANDS[name]!;
        const answers = [
          await command(plain, key, `${step}`),
          await command(space, key, `${step}`),
        ];
        assertEquals(answers[1], answers[0], done.join("\n"));
        if (random() > 0.05) continue;
        // What empties a namespace, and the same keys of the plain cache.
        const whole = [inner, other.namespace("outer")][Math.floor(random() * 2)]!;
        done.push("invalidate all");
        await whole.invalidate();
        await plain.deleteMany(KEYS);
      }
    }),
);

testServers("namespaces: one key, all, those within, and with keys in one put", async (address) => {
  await using cache = new Cache<number>(address);
  const outer = cache.namespace("outer");
  const inner = outer.namespace("inner");
  const beside = cache.namespace("beside");
  const all = [cache, outer, inner, beside];
  const fill = async (): Promise<void> => {
    for (const [index, each] of all.entries()) {
      await each.set("k", index);
      await each.getOrLoad("l", () => index);
    }
  };
  /** Which of them still have `k`, and `l`. */
  const left = async (): Promise<string> => {
    const found = await Promise.all(
      all.map(async (each) => [await each.get("k"), await each.get("l")]),
    );
    for (const [index, values] of found.entries()) {
      for (const value of values) assert(value === undefined || value === index);
    }
    return found.map(([k, l]) => `${k === undefined ? "-" : "k"}${l === undefined ? "-" : "l"}`)
      .join(" ");
  };
  await fill();
  assertEquals(await left(), "kl kl kl kl");
  await inner.invalidate("k");
  assertEquals(await left(), "kl kl -l kl");
  await fill();
  await inner.invalidate();
  assertEquals(await left(), "kl kl -- kl");
  await fill();
  await outer.invalidate();
  assertEquals(await left(), "kl -- -- kl");
  await fill();
  await cache.put("k", () => {}, { namespaces: [inner, beside] });
  assertEquals(await left(), "-l kl -- --");
  await fill();
  await outer.put(["l"], () => {}, { namespaces: [inner] });
  assertEquals(await left(), "kl k- -- kl");
  assertEquals(
    await cache.getMany(["outer:k"]),
    new Map([["outer:k", 1]]),
    "a key as others see it",
  );

  await using another = new Cache<number>(address);
  const put = (namespace: unknown): Promise<unknown> =>
    cache.put([], () => {}, { namespaces: [namespace as Namespace] });
  for (const each of [another.namespace("outer"), "outer", undefined, cache]) {
    await assertRejects(() => put(each), TypeError, "expected one of this cache");
  }
});

testServers(
  "an item that a namespace does not see gives way, and keeps its time",
  async (address) => {
    await using cache = new Cache<string>(address, { codec: textCodec });
    const space = cache.namespace("n");
    await space.set("k", "old", { ttlSec: 500 });
    assertEquals(await space.append("k", textCodec.encode("er").bytes), true);
    const leftSec = (await cache.meta("mg", "n:k", ["t"])).ttlSec;
    assert(leftSec > 400 && leftSec <= 500, `${leftSec}`);
    await space.invalidate();
    assertEquals(await space.append("k", textCodec.encode("x").bytes), false);
    assertEquals(await space.replace("k", "x"), false);
    assertEquals(await space.add("k", "new"), true);
    assertEquals(await space.add("k", "newer"), false);
    assertEquals(await space.get("k"), "new");
    const { cas } = (await space.gets("k"))!;
    await space.invalidate();
    assertEquals(await space.cas("k", "made of the old one", cas), "missing");
    // A number has no tag.
    assertEquals(await space.increment("number", 5, { initial: 7 }), 7);
    await space.invalidate();
    assertEquals([await space.get("number"), await space.get("k")], ["7", undefined]);
    assertEquals(await space.append("number", textCodec.encode("0").bytes), true);
    assertEquals(await space.increment("number"), 71);
  },
);

Deno.test("a lock's section in a namespace, its values have the tag", async () => {
  await using server = await startLeased();
  await using cache = new Cache<string>(`127.0.0.1:${server.port}`, { codec: textCodec });
  const space = cache.namespace("n");
  await space.withLock("k", async (section) => {
    assertEquals(await section.set("k", "v"), true);
    assertEquals(await section.get("k"), "v");
    assertEquals(await section.append("k", textCodec.encode("w").bytes), true);
    assertEquals(await space.set("k", "x"), false);
    await assertRejects(() => cache.lock("n:k"), LockedError);
  });
  assertEquals(await space.get("k"), "vw");
  await space.invalidate();
  assertEquals(await space.get("k"), undefined);
});

testServers(
  "callers in two objects of a namespace share a load, its counters are the cache's",
  async (address) => {
    await using cache = new Cache<string>(address);
    let loads = 0;
    const load = async (key: string): Promise<string> => {
      loads++;
      await until(() => loads > 0);
      return key;
    };
    const read = (): Promise<string | undefined> => cache.namespace("n").getOrLoad("k", load);
    assertEquals(await Promise.all([read(), read(), read()]), ["k", "k", "k"]);
    assertEquals([loads, cache.counters.loads], [1, 1]);
    await cache.namespace("n").close();
    assertEquals(await read(), "k");
  },
);

testServers("what holds for calls that do not say otherwise", async (address) => {
  await using cache = new Cache<string>(address, {
    ...{ codec: textCodec, prefix: "shop:", ttlSec: "10m", graceSec: "1h", absentSec: 7 },
  });
  const leftOf = async (key: string): Promise<number> => {
    await using bare = new Cache(address);
    return Math.ceil(((await bare.meta("mg", key, ["t"])).ttlSec) / 100) * 100;
  };
  await cache.set("set", "v");
  await cache.set("own", "v", { ttlSec: "2h" });
  await cache.set("ever", "v", { ttlSec: 0 });
  await cache.setMany([["many", "v"]]);
  await cache.getOrLoad("loaded", () => "v");
  await cache.getOrLoad("other", () => "v", { ttlSec: 300, graceSec: 0 });
  await cache.getOrLoad("control", (_, control) => {
    control.ttlSec = "5m";
    return "v";
  });
  await cache.increment("n", 1, { initial: 1 });
  for (const key of ["added", "swapped", "swapped"]) {
    await cache.compareAndSwap(key, () => "v", { ttlSec: "15m" });
  }
  await cache.namespace("plain", { ttlSec: undefined } as object).set("set", "v");
  const quick = cache.namespace("quick", { ttlSec: 100, graceSec: 100 });
  await quick.set("set", "v");
  await quick.getOrLoad("loaded", () => "v");
  const left: Record<string, number> = {
    ...{ set: 600, own: 7200, many: 600, loaded: 4200, other: 300, control: 3900, n: 600 },
    ...{ added: 900, swapped: 900, "plain:set": 600, "quick:set": 100, "quick:loaded": 200 },
  };
  for (const [key, sec] of Object.entries(left)) {
    assertEquals(await leftOf(`shop:${key}`), sec, key);
  }
  assertEquals(await leftOf("shop:ever"), -0);
  assertThrows(() => cache.namespace("n", { softMs: "1" as "1s" }), RangeError, 'softMs "1"');
  assertThrows(
    () => cache.namespace("n", { tags: [] } as object),
    TypeError,
    '"tags" is not known',
  );
  assertThrows(() => new Cache(address, { graceSec: "x" as "1s" }), RangeError, 'graceSec "x"');
});

testServers(
  "applications with prefixes of their own do not meet, not even in tags",
  async (address) => {
    await using one = new Cache<string>(address, { prefix: "one:" });
    await using other = new Cache<string>(address, { prefix: "other:" });
    const read = (cache: Cache<string>, value: string): Promise<string | undefined> =>
      cache.getOrLoad("k", () => value, { tags: ["t"] });
    assertEquals([await read(one, "1"), await read(other, "2")], ["1", "2"]);
    assertEquals([await one.get("k"), await other.get("k")], ["1", "2"]);
    await one.invalidateTags("t");
    assertEquals([await read(one, "3"), await read(other, "4")], ["3", "2"]);
    await one.put("k", () => {});
    assertEquals([await one.get("k"), await other.get("k")], [undefined, "2"]);
    assertEquals(one.serverNameOf("k"), address);
  },
);

testServers("tags and namespaces have any name", async (address) => {
  await using cache = new Cache<string>(address, { codec: textCodec });
  // Bytes of these names are blanks in Unicode, or stand in trailers.
  for (const name of ["à", "Р", "😠", "\u2028", "a=1", "=", "a,b"]) {
    const space = cache.namespace(name);
    assertEquals(await space.set("k", name), true);
    assertEquals(await space.get("k"), name);
    await space.invalidate();
    assertEquals(await space.get("k"), undefined, name);
    let loads = 0;
    const read = (): Promise<string | undefined> =>
      cache.getOrLoad(`of ${name}`.replace(" ", "-"), () => `${++loads}`, { tags: [name] });
    assertEquals([await read(), await read()], ["1", "1"], name);
    await cache.invalidateTags(name);
    assertEquals(await read(), "2", name);
  }
});

Deno.test("a lock's section in a namespace whose tag is on another server", async () => {
  await using one = await startLeased();
  await using other = await startLeased();
  const addresses = [one, other].map(({ port }) => `127.0.0.1:${port}`);
  await using cache = new Cache<string>(addresses, { codec: textCodec });
  const numbers = Array.from({ length: 100 }, (_, number) => number);
  const name = `n${
    numbers.find((each) => cache.serverNameOf(`tag:namespace:n${each}`) === addresses[1])
  }`;
  const space = cache.namespace(name);
  const [key, far] = addresses.map((address) =>
    `k${numbers.find((each) => space.serverNameOf(`k${each}`) === address)}`
  ) as [string, string];
  await space.withLock(key, async (section) => {
    assertEquals(await section.set(key, "v"), true);
    assertEquals(await section.get(key), "v");
    // The tag's server does not answer: that, too, is nobody's error but the caller's.
    await other[Symbol.asyncDispose]();
    await assertRejects(() => section.get(far), RangeError, `expected a key of ${addresses[0]}`);
    await assertRejects(() => space.get(key));
  });
});

Deno.test("a namespace whose server is away: getMany of no keys, and the limit of invalidate", async () => {
  await using cache = new Cache("127.0.0.1:1");
  const space = cache.namespace("n");
  assertEquals(await space.getMany([]), new Map());
  // The failure of the request for the version is nobody's.
  await assertRejects(() => space.get("k"), ConnectionError);
  await assertRejects(() => space.invalidate(undefined, 0), UnfinishedError);
  assertEquals(cache.counters.waits, 0, "nothing is repeated");
});
