import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import {
  Cache,
  ConnectionError,
  jsonCodec,
  LoadTimeoutError,
  LockedError,
  OutcomeUnknownError,
  RequestError,
  RolledBackError,
  textCodec,
  TokenOutError,
  UnfinishedError,
} from "../../../lib/client/mod.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";
import { Relay } from "../../support/servers/relay.ts";
import { until } from "../../support/servers/server_process.ts";
import { startLeased, testServers } from "./servers.ts";

/** A row, and how often it was read. */
class Row {
  loads = 0;
  constructor(public value: string | undefined) {}
  load = (): Promise<string | undefined> => {
    this.loads++;
    return Promise.resolve(this.value);
  };
}

testServers("getOrLoad loads once, put makes it load anew", async (address) => {
  await using cache = new Cache(address);
  await using other = new Cache(address);
  const row = new Row("first");
  assertEquals(await cache.getOrLoadEntry("k", row.load), {
    value: "first",
    isStale: false,
    from: "load",
  });
  assertEquals(await other.getOrLoadEntry("k", row.load), {
    value: "first",
    isStale: false,
    from: "cache",
  });
  assertEquals(await cache.get("k"), "first");
  assertEquals(row.loads, 1);
  const result = await other.put("k", () => {
    row.value = "second";
    return 7;
  });
  assertEquals(result, 7);
  assertEquals(await cache.getOrLoad("k", row.load), "second");
  assertEquals(cache.counters.hits + other.counters.hits, 1);
});

testServers(
  "callers at the same time share loads, in one process and in several",
  async (address) => {
    await using stack = new AsyncDisposableStack();
    const row = new Row("v");
    let release!: () => void;
    const gate = new Promise<void>((resolve) => release = resolve);
    const slow = async (): Promise<string | undefined> => {
      await gate;
      return row.load();
    };
    const caches = Array.from({ length: 4 }, () => stack.use(new Cache(address)));
    const calls = caches.flatMap((cache) =>
      Array.from({ length: 25 }, () => cache.getOrLoad("k", slow))
    );
    while (caches.every(({ counters }) => counters.loads === 0)) await caches[0]!.get("x");
    const late = caches[0]!.getOrLoad("k", slow);
    release();
    assertEquals(new Set(await Promise.all([...calls, late])), new Set(["v"]));
    assertEquals(row.loads, 1);
  },
);

testServers("a slow reader's fill is refused after an update", async (address) => {
  await using reader = new Cache(address);
  await using writer = new Cache(address);
  const row = new Row("old");
  const value = await reader.getOrLoad("k", async () => {
    const read = await row.load();
    await writer.put("k", () => void (row.value = "new"));
    return read;
  });
  assertEquals(value, "old");
  assertEquals(reader.counters.refusedFills, 1);
  assertEquals(await reader.getOrLoad("k", row.load), "new");
});

testServers("a caller that begins after an update does not join an older load", async (address) => {
  await using cache = new Cache(address);
  const row = new Row("old");
  let after: Promise<string | undefined> | undefined;
  await cache.getOrLoad("k", async () => {
    const read = await row.load();
    await cache.put("k", () => void (row.value = "new"));
    after = cache.getOrLoad("k", row.load);
    return read;
  });
  assertEquals(await after, "new");
});

testServers("absent rows, expiry times, rows that are not kept, failures", async (address) => {
  await using cache = new Cache(address);
  const row = new Row(undefined);
  assertEquals(await cache.getOrLoad("absent", row.load, { absentSec: 60 }), undefined);
  assertEquals(await cache.getOrLoad("absent", row.load), undefined);
  assertEquals(row.loads, 1);
  assertEquals((await cache.meta("mg", "absent", ["t"])).ttlSec, 60);
  assertEquals(await cache.get("absent"), undefined);
  for (let loads = 2; loads < 4; loads++) {
    await cache.getOrLoad("unkept absence", row.load, { absentSec: 0 }).catch(() => {});
    await cache.getOrLoad("unkept", row.load, { absentSec: 0 });
    assertEquals(row.loads, loads);
  }
  await cache.getOrLoad("short", (_, control) => {
    control.ttlSec = 30;
    return "v";
  });
  assertEquals((await cache.meta("mg", "short", ["t"])).ttlSec, 30);
  await cache.getOrLoad("secret", (_, control) => {
    control.keep = false;
    return "v";
  });
  assertEquals((await cache.meta("mg", "secret", ["t"])).status, "EN");
  const failure = new Error("database");
  const failed = await cache.getOrLoad("bad", () => Promise.reject(failure)).catch((error) =>
    error
  );
  assertEquals(failed, failure);
  assertEquals((await cache.meta("mg", "bad", ["t"])).status, "EN");
  await assertRejects(
    () => cache.getOrLoad("slow", () => new Promise(() => {}), { hardMs: 10 }),
    LoadTimeoutError,
    "10 ms: slow",
  );
});

testServers("a value that is too large is returned, counted, and not kept", async (address) => {
  const events: unknown[] = [];
  const note = (event: unknown): void => void events.push(event);
  subscribe("leased:client", note);
  try {
    // The client's limit, and the server's.
    for (const valueBytesMax of [1_000, 2 ** 25]) {
      await using cache = new Cache(address, { valueBytesMax });
      await using other = new Cache(address);
      const large = "x".repeat(2 ** 21);
      for (const count of [1, 2]) {
        assertEquals(await cache.getOrLoad("k", () => large), large);
        assertEquals([cache.counters.tooLarge, cache.counters.refusedFills], [count, 0]);
      }
      const many = await cache.getOrLoadMany(["k", "l"], () => new Map([["k", large], ["l", "v"]]));
      assertEquals([many.get("k"), many.get("l")], [large, "v"]);
      assertEquals(cache.counters.tooLarge, 3);
      // The lease was given back: others need not wait for its end.
      assertEquals((await cache.meta("mg", "k", ["t"])).status, "EN");
      assertEquals(await other.getOrLoad("k", () => "small"), "small");
      await cache.deleteMany(["k", "l"]);
    }
  } finally {
    unsubscribe("leased:client", note);
  }
  const kinds = events.filter((event) => (event as { kind: string }).kind === "tooLarge");
  assertEquals(kinds, Array.from({ length: 6 }, () => ({ kind: "tooLarge", keys: ["k"] })));
});

testServers(
  "a reader that finds another one's lease waits, then loads and does not fill",
  async (address) => {
    await using cache = new Cache(address);
    const { isWon, cas } = await cache.meta("mg", "k", ["v", "c", "N30"]);
    assert(isWon);
    const row = new Row("v");
    assertEquals(await cache.getOrLoad("k", row.load, { waitMs: 40 }), "v");
    assertEquals(row.loads, 1);
    assert(cache.counters.waits > 1);
    assertEquals(await cache.get("k"), undefined);
    assertEquals(await cache.cas("k", "filled", cas), "stored");
    assertEquals(await cache.getOrLoad("k", row.load), "filled");
  },
);

testServers("many keys: one load of all that are missing", async (address) => {
  await using cache = new Cache(address);
  await cache.getOrLoad("a", () => "A");
  const asked: string[][] = [];
  const found = await cache.getOrLoadMany(["a", "b", "c", "b"], (keys) => {
    asked.push([...keys]);
    return new Map([["b", "B"]]);
  });
  assertEquals(found, new Map([["b", "B"], ["a", "A"]]));
  assertEquals(asked, [["b", "c"]]);
  assertEquals(await cache.get("b"), "B");
  await assertRejects(
    () =>
      cache.getOrLoadMany(["d"], () => {
        throw new Error("database");
      }),
    Error,
    "database",
  );
});

testServers(
  "grace: a value whose time is over is served while loading fails or is slow",
  async (address) => {
    await using cache = new Cache(address);
    const row = new Row("v");
    const options = { ttlSec: 1, graceSec: 1_000, softMs: 5 };
    await cache.getOrLoad("k", row.load, options);
    await cache.getOrLoad("slow", row.load, options);
    await cache.getOrLoad("gone", row.load, options);
    assertEquals(await cache.get("k"), "v");
    const fail = (): string => {
      throw new Error("database");
    };
    for (const key of ["k", "slow", "gone"]) {
      await until(async () => (await cache.meta("mg", key, ["t"])).ttlSec <= options.graceSec);
    }
    assertEquals(await cache.get("k"), undefined, "it is kept for its grace only");
    const stale = { value: "v", isStale: true, from: "cache" } as const;
    assertEquals(await cache.getOrLoadEntry("k", fail, options), stale);
    // Another client may not load meanwhile: it gets the old value, too.
    assertEquals(await cache.getOrLoadEntry("k", row.load, { ...options, waitMs: 0 }), stale);
    let release!: (value: string) => void;
    const slow = new Promise<string>((resolve) => release = resolve);
    assertEquals(await cache.getOrLoadEntry("slow", () => slow, options), stale);
    release("fresh");
    await until(async () => await cache.getOrLoad("slow", fail, options) === "fresh");
    // An invalidated value is never served.
    await cache.put("gone", () => {});
    await assertRejects(() => cache.getOrLoad("gone", fail, options), Error, "database");
  },
);

testServers("a value without a time to live has none, also with grace", async (address) => {
  await using cache = new Cache(address);
  const row = new Row("v");
  for (const graceSec of [0, 1, 1000]) {
    const key = `grace${graceSec}`;
    await cache.getOrLoad(key, row.load, { ttlSec: 0, graceSec });
    assertEquals((await cache.meta("mg", key, ["t"])).ttlSec, -1);
    await cache.getOrLoad(`${key}s`, row.load, { ttlSec: 100, graceSec });
    const { ttlSec } = await cache.meta("mg", `${key}s`, ["t"]);
    assert(ttlSec > 90 + graceSec && ttlSec <= 100 + graceSec, `${ttlSec} s are left`);
  }
});

testServers(
  "a load that fails removes its own claim, and no value of a writer",
  async (address) => {
    await using cache = new Cache(address);
    await using writer = new Cache(address);
    const options = { ttlSec: 60 };
    const failing = async (key: string): Promise<string> => {
      await writer.set(key, "written");
      throw new Error("database");
    };
    await assertRejects(() => cache.getOrLoad("k", () => failing("k"), options), Error, "database");
    assertEquals(await writer.get("k"), "written");
    const refused = (): Promise<string> => Promise.reject(new Error("database"));
    await assertRejects(() => cache.getOrLoad("l", refused, options), Error, "database");
    assertEquals(await cache.getOrLoad("l", () => "loaded", { ...options, waitMs: 0 }), "loaded");
    assertEquals(
      await writer.get("l"),
      "loaded",
      "the claim has ended, so that this load was kept",
    );
  },
);

testServers("early refresh: one caller loads a value anew that expires soon", async (address) => {
  await using cache = new Cache(address);
  const row = new Row("old");
  await cache.getOrLoad("k", row.load, { ttlSec: 50 });
  row.value = "new";
  const options = { ttlSec: 500, refreshSec: 100 };
  const got = [1, 2, 3].map(() => cache.getOrLoad("k", row.load, options));
  assertEquals(await Promise.all(got), ["old", "old", "old"]);
  await until(async () => await cache.getOrLoad("k", row.load, options) === "new");
  assertEquals(row.loads, 2);
});

testServers("tags and namespaces", async (address) => {
  await using cache = new Cache(address);
  const row = new Row("first");
  const options = { tags: ["red", "colour=blue"] };
  const get = (): Promise<string | undefined> => cache.getOrLoad("k", row.load, options);
  assertEquals([await get(), await get()], ["first", "first"]);
  assertEquals(await cache.get("k"), "first");
  row.value = "second";
  await cache.invalidateTags(["green", "colour"]);
  assertEquals([await cache.get("k"), await get()], ["first", "first"]);
  await cache.invalidateTags("colour=blue");
  assertEquals([await cache.get("k"), await cache.gets("k")], [undefined, undefined]);
  assertEquals([await get(), await get()], ["second", "second"]);
  await cache.put([], () => void (row.value = "third"), { tags: ["red"] });
  assertEquals(await get(), "third");
  assertEquals(row.loads, 3);
  // A fill for a version of before an invalidation is not served.
  await cache.invalidateTags("red");
  await cache.getOrLoad("k", async () => {
    const read = await row.load();
    await cache.put([], () => void (row.value = "fourth"), { tags: ["red"] });
    return read;
  }, options);
  assertEquals(await get(), "fourth");

  const shop = cache.namespace("shop");
  assertEquals(await shop.getOrLoad("k", row.load), "fourth");
  row.value = "fifth";
  assertEquals(await shop.getOrLoad("k", row.load), "fourth");
  await shop.invalidate();
  const many = await shop.getOrLoadMany(
    ["k", "l"],
    (keys) => new Map(keys.map((key) => [key, key])),
  );
  assertEquals(many, new Map([["k", "k"], ["l", "l"]]));
  await shop.put("k", () => {});
  assertEquals(await shop.getOrLoad("k", row.load), "fifth");
  const tagged = { tags: ["blue"] };
  assertEquals(await shop.getOrLoad("tagged", row.load, tagged), "fifth");
  row.value = "sixth";
  assertEquals(await shop.getOrLoad("tagged", row.load, tagged), "fifth");
  await cache.invalidateTags("blue");
  assertEquals(await shop.getOrLoad("tagged", row.load, tagged), "sixth");
});

testServers("compareAndSwap", async (address) => {
  await using cache = new Cache(address);
  const add = (value = 0): number => value + 1;
  await Promise.all(Array.from({ length: 5 }, () => cache.compareAndSwap("n", add)));
  assertEquals(await cache.get("n"), 5);
  assertEquals(await cache.compareAndSwap("n", () => undefined), undefined);
});

testServers("options and keys of flows are checked before anything is sent", async (address) => {
  await using cache = new Cache(address);
  const load = (): string => "v";
  const long = "x".repeat(245);
  await assertRejects(() => cache.getOrLoad("k", load, { ttlSec: -1 }), RangeError, "ttlSec -1");
  await assertRejects(() => cache.getOrLoad("k", load, { leaseSec: 0 }), RangeError, "leaseSec 0");
  await assertRejects(() => cache.getOrLoad("a b", load), RangeError, '"a b"');
  await assertRejects(() => cache.getOrLoad("k", load, { tags: ["a b"] }), RangeError, 'tag "a b"');
  await assertRejects(
    () => cache.getOrLoad(long, load, { graceSec: 1 }),
    RangeError,
    "244 are allowed",
  );
  await assertRejects(() => cache.put("a b", load), RangeError, '"a b"');
  assertEquals(await cache.getOrLoad(long, load), "v");
  const farTtl = { ttlSec: 2 ** 31 - 1, graceSec: 1 };
  await assertRejects(() => cache.getOrLoad("k", load, farTtl), RangeError, "graceSec together");
  const list = (() => ["v"]) as unknown as () => Map<string, string>;
  await assertRejects(() => cache.getOrLoadMany(["m"], list), TypeError, "expected a Map");
  assertEquals((await cache.meta("mg", "m", ["t"])).status, "EN", "the lease is given back");
});

testServers("keys that are long in UTF-8 are loaded anew, too", async (address) => {
  await using cache = new Cache(address);
  const key = "ä".repeat(122);
  await cache.getOrLoad(key, () => "old", { ttlSec: 50 });
  const options = { ttlSec: 500, refreshSec: 100 };
  assertEquals(await cache.getOrLoad(key, () => "new", options), "old");
  await until(async () => await cache.getOrLoad(key, () => "newest", options) === "new");
});

Deno.test("a server that is away: flows fail, or load without a fill, by choice; writes never do", async () => {
  const server = await startLeased();
  const address = `127.0.0.1:${server.port}`;
  await using failing = new Cache(address);
  await using missing = new Cache(address, { whenDown: "miss" });
  for (const cache of [failing, missing]) await cache.set("k", "cached");
  await server[Symbol.asyncDispose]();
  const row = new Row("v");
  const options = { tags: ["tag"], graceSec: 60 };
  for (let loads = 1; loads <= 3; loads++) {
    assertEquals(await missing.getOrLoad("k", row.load, options), "v");
    assertEquals(row.loads, loads);
    assertEquals(await missing.get("k"), undefined);
  }
  assertEquals(
    await missing.getOrLoadMany(["a", "b"], () => new Map([["a", 1]])),
    new Map([["a", 1]]),
  );
  await assertRejects(() => failing.getOrLoad("k", row.load), ConnectionError, `${address}: mg k`);
  await assertRejects(() => failing.getOrLoadMany(["k"], () => new Map()), ConnectionError);
  assertEquals(row.loads, 3);
  for (const cache of [failing, missing]) {
    await assertRejects(() => cache.set("k", 1), ConnectionError);
    await assertRejects(() => cache.put("k", () => {}, { limitMs: 10 }), UnfinishedError);
    let commits = 0;
    const tokens = { form: "tokens", limitMs: 10 } as const;
    await assertRejects(() => cache.put("k", () => void commits++, tokens), ConnectionError);
    await assertRejects(() => cache.withLock("k", () => commits++), ConnectionError);
    await assertRejects(() => cache.putRow("k", 1, { limitMs: 10 }), ConnectionError);
    assertEquals(commits, 0);
  }
});

Deno.test("put reports a server that does not confirm an invalidation, and offers to retry", async () => {
  await using server = await startLeased();
  using relay = new Relay(server.port);
  await using cache = new Cache(`127.0.0.1:${relay.port}`);
  await cache.set("k", 1);
  relay.passage = () => "cut";
  const error = await cache.put("k", () => 7, { limitMs: 30 }).catch((error) => error);
  assert(error instanceof UnfinishedError, `${error}`);
  assertEquals([error.keys, error.result], [["k"], 7]);
  assert(error.cause instanceof ConnectionError);
  relay.passage = () => "pass";
  // On a busy machine the first tries may take longer than the limit.
  await until(() => error.retry().then(() => true, () => false));
  assertEquals(await cache.get("k"), undefined);
});

Deno.test("put whose commit fails while a server is down tells why the commit failed", async () => {
  await using peer = new ScriptedPeer(() => ["close"]);
  await using cache = new Cache(`127.0.0.1:${peer.port}`);
  const failure = new Error("the database is full");
  const put = cache.put("k", () => Promise.reject(failure), { limitMs: 10 });
  const error = await put.catch((error) => error);
  assert(error instanceof UnfinishedError, `${error}`);
  assertEquals([error.keys, error.cause], [["k"], failure]);
});

Deno.test("put with tokens: uncacheable until the commit's outcome is known", async () => {
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`);
  const options = { form: "tokens" } as const;
  const row = new Row("v");
  await cache.set("k", "old");
  assertEquals(
    await cache.put(["k", "l"], async () => {
      assertEquals(await cache.getOrLoad("k", row.load), "v");
      assertEquals([cache.counters.waits, cache.counters.refusedFills], [0, 0]);
      assertEquals(await cache.set("k", "x"), false);
      return "done";
    }, options),
    "done",
  );
  assertEquals(await cache.set("k", "x"), true);
  const fail = (error: Error) => (): never => {
    throw error;
  };
  await assertRejects(
    () => cache.put("k", fail(new RolledBackError("no")), options),
    RolledBackError,
  );
  assertEquals(await cache.set("k", "x"), true);
  const unknown = await cache.put(["k", "l"], fail(new Error("lost")), options)
    .catch((error) => error);
  assert(unknown instanceof OutcomeUnknownError, `${unknown}`);
  assertEquals(unknown.keys, ["k", "l"]);
  assertEquals([await cache.set("k", "x"), await cache.set("l", "x")], [false, false]);
  await unknown.resolve();
  assertEquals([await cache.set("k", "x"), await cache.set("l", "x")], [true, true]);
  assertEquals(cache.counters.brokenTokens, 0);
});

Deno.test("put with tokens: a promise or an exception of isRolledBack proves nothing", async () => {
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`);
  const lose = (): never => {
    throw new Error("lost");
  };
  const wrong = [() => Promise.resolve(true), lose, () => 1] as unknown as (() => boolean)[];
  for (const isRolledBack of wrong) {
    const options = { form: "tokens", isRolledBack } as const;
    const error = await cache.put("k", lose, options).catch((error) => error);
    assert(error instanceof OutcomeUnknownError, `${error}`);
    assertEquals(await cache.set("k", 1), false);
    await error.resolve();
    assertEquals(await cache.set("k", 1), true);
  }
  const options = { form: "tokens", isRolledBack: () => true } as const;
  await assertRejects(() => cache.put("k", lose, options), Error, "lost");
  assertEquals(await cache.set("k", 1), true);
});

testServers("values that cannot be decoded: a command fails, a flow loads", async (address) => {
  await using cache = new Cache(address);
  const bytes = new TextEncoder();
  await cache.meta("ms", "text", [], bytes.encode("no JSON"));
  const error = await assertRejects(() => cache.get("text"), RequestError);
  assertMatch(error.message, /mg text: the codec cannot decode the value: .*JSON/);
  assert(error.cause instanceof SyntaxError);
  assertEquals(await cache.getOrLoad("text", () => 1), 1);
  assertEquals([await cache.get("text"), cache.counters.undecodable], [1, 1]);
  await cache.meta("ms", "text", [], bytes.encode("no JSON"));
  assertEquals(
    await cache.getOrLoadMany(["text"], () => new Map([["text", 2]])),
    new Map([["text", 2]]),
  );
  // It is dropped by its id: a value that a writer has stored meanwhile stays.
  await using strict = new Cache(address, {
    codec: {
      ...jsonCodec,
      decode: (each, flags) => {
        if (textCodec.decode(each, flags) === '"bad"') throw new Error("bad");
        return jsonCodec.decode(each, flags);
      },
    },
  });
  await cache.set("bad", "bad");
  assertEquals(await strict.getOrLoad("bad", () => "good"), "good");
  assertEquals(await strict.getOrLoad("bad", () => "better"), "good");
  // A value that is refused each time is loaded each time.
  await cache.delete("bad");
  for (let loads = 1; loads <= 2; loads++) {
    assertEquals(await strict.getOrLoad("bad", () => "bad"), "bad");
    assertEquals(strict.counters.loads, 1 + loads);
  }
  // Flags that only the client's flows use.
  for (const value of ["", "5", '"v"\nx', '"v"\n1.5', '"v"\n1 tag', '"v"\n']) {
    await cache.meta("ms", "flags", ["F262144"], bytes.encode(value));
    assertEquals(await cache.get("flags"), undefined);
    assertEquals(await cache.getOrLoad("flags", () => "loaded"), "loaded");
    assertEquals(await cache.get("flags"), "loaded");
  }
});

Deno.test("writers take tokens in the same order, however they name the keys", async () => {
  const taken: string[] = [];
  await using peer = new ScriptedPeer((line) => {
    const [, verb, key] = line.split(" ");
    if (verb === "get") taken.push(key!);
    return [verb === "get" ? "TOKEN 5\r\n" : "OK\r\n"];
  });
  await using cache = new Cache(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
  const options = { form: "tokens", tags: ["t", "s"] } as const;
  await cache.put(["z", "a", "z", "b"], () => {}, options);
  assertEquals(taken, ["a", "b", "tag:s", "tag:t", "z"]);
});

Deno.test("the end of another client's lease ends the wait: load, and no fill", async () => {
  const lines: string[] = [];
  await using peer = new ScriptedPeer((line) => {
    lines.push(line);
    return [`VA 0 f0 c5 t0 Z ${/O\d+$/.exec(line)![0]}\r\n\r\n`];
  });
  await using cache = new Cache(`127.0.0.1:${peer.port}`, { replyMs: 20_000 });
  assertEquals(await cache.getOrLoad("k", () => "v", { waitMs: 3_600_000 }), "v");
  assertEquals(lines, ["mg k v f c t N10 O1"]);
});

Deno.test("put with tokens commits nothing when it cannot take all", async () => {
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`);
  await cache.set("l", 1);
  await using _section = await cache.lock("l");
  let commits = 0;
  const put = cache.put(["k", "l"], () => void commits++, { form: "tokens", limitMs: 30 });
  await assertRejects(() => put, LockedError);
  assertEquals([commits, await cache.set("k", 1)], [0, true]);
});

Deno.test("withLock: one at a time, with growing fencing numbers; the lock's loss aborts", async () => {
  await using server = await startLeased();
  using relay = new Relay(server.port);
  const address = `127.0.0.1:${relay.port}`;
  await using cache = new Cache(address, { replyMs: 20_000 });
  const fences: number[] = [];
  let inside = 0;
  await Promise.all(
    Array.from({ length: 5 }, () =>
      cache.withLock("k", async ({ fence, signal }) => {
        assertEquals([++inside, signal.aborted], [1, false]);
        fences.push(fence);
        await cache.get("x");
        inside--;
      }, { waitMs: 20_000 })),
  );
  assertEquals(fences, fences.toSorted((a, b) => a - b));
  await cache.withLock("k", async (section) => {
    assertEquals(await section.set("k", 1), true);
    assertEquals(await cache.set("k", 2), false);
    await assertRejects(() => cache.withLock("k", () => {}), LockedError);
    const aborted = new Promise((resolve) => section.signal.addEventListener("abort", resolve));
    relay.cutAll();
    await aborted;
    await assertRejects(() => section.get("k"), ConnectionError);
  });
  // The other connection may end, and the server may see the end of the lock's, a moment later.
  let token = "";
  await until(async () => {
    token = await cache.takeToken("k", "writer").catch((error) => {
      assert(error instanceof ConnectionError || error instanceof LockedError, `${error}`);
      return "";
    });
    return token !== "";
  });
  await assertRejects(() => cache.withLock("k", () => {}), TokenOutError);
  await cache.releaseToken("k", token);
});
