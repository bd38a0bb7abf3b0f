import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import {
  bytesCodec,
  Client,
  compressed,
  ConnectionError,
  LockedError,
  PartialError,
  ServerError,
  textCodec,
  TokenOutError,
  UnsupportedError,
} from "../../../lib/client/mod.ts";
import { LEASE_FLAG, startLeased, startMemcached, startSecured, testServers } from "./servers.ts";
import { Certificates } from "../../support/servers/certificates.ts";
import { MEMCACHEDS } from "../../support/servers/memcached.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";

testServers("commands of values", async (address) => {
  await using client = new Client(address);
  assertEquals(await client.get("a"), undefined);
  assertEquals(await client.set("a", { one: 1 }), true);
  assertEquals(await client.get("a"), { one: 1 });
  assertEquals(await client.add("a", 2), false);
  assertEquals(await client.replace("b", 2), false);
  assertEquals(await client.add("b", [2], { ttlSec: 100 }), true);
  assertEquals(await client.replace("b", "€ 3"), true);
  assertEquals(await client.getAndTouch("b", 60), "€ 3");
  assertEquals(await client.touch("b", 50), true);
  assertEquals((await client.meta("mg", "b", ["t"])).ttlSec, 50);
  assertEquals(await client.touch("c", 50), false);
  const found = await client.gets("a");
  assertEquals(found?.value, { one: 1 });
  assertEquals(await client.cas("a", 1, found!.cas), "stored");
  assertEquals(await client.cas("a", 2, found!.cas), "exists");
  assertEquals(await client.cas("c", 2, found!.cas), "missing");
  assertEquals(await client.delete("a"), true);
  assertEquals(await client.delete("a"), false);
});

testServers("bytes, texts and numbers", async (address) => {
  await using client = new Client(address, { codec: textCodec });
  const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
  assertEquals(await client.append("t", bytes("x")), false);
  await client.set("t", "b");
  assertEquals(await client.append("t", bytes("c")), true);
  assertEquals(await client.prepend("t", bytes("ä")), true);
  assertEquals(await client.get("t"), "äbc");
  assertEquals(await client.increment("n", 5), undefined);
  assertEquals(await client.increment("n", 5, { initial: 7, ttlSec: 60 }), 7);
  assertEquals(await client.increment("n", 5), 12);
  assertEquals(await client.increment("n", -2), 10);
  assertEquals(await client.increment("n", -20), 0);
  assertEquals((await client.get("n"))?.trim(), "0");
  await assertRejects(() => client.increment("t"), ServerError, "mg t".replace("mg", "ma"));
});

testServers("many keys, long values, keys in UTF-8", async (address) => {
  await using client = new Client(address, { codec: bytesCodec, connections: 3 });
  const entries = Array.from({ length: 300 }, (_, index) => {
    const length = [0, 1, 100, 2_048, 2_049, 70_000][index % 6]!;
    return [`schlüssel:${index}`, new Uint8Array(length).fill(index)] as const;
  });
  assertEquals(await client.setMany(entries), []);
  const found = await client.getMany([...entries.map(([key]) => key), "missing"]);
  assertEquals(found.size, entries.length);
  for (const [key, value] of entries) assertEquals(found.get(key), value);
  assertEquals(await client.deleteMany(entries.map(([key]) => key)), entries.length);
});

Deno.test("calls for many keys tell what became of each when a server is away", async () => {
  await using peer = new ScriptedPeer((line) => {
    if (line === "stats") return ["STAT a 1\r\nEND\r\n"];
    const [opaque] = /O\d+$/.exec(line) ?? [];
    return opaque === undefined ? [] : [`HD ${opaque}\r\n`];
  });
  const away = "127.0.0.1:1";
  await using client = new Client([`127.0.0.1:${peer.port}`, away]);
  const keys = Array.from({ length: 20 }, (_, index) => `k${index}`);
  const [here, there] = [false, true].map((isAway) =>
    keys.filter((key) => (client.serverNameOf(key) === away) === isAway)
  );
  assert(here!.length > 0 && there!.length > 0);
  const errorOf = async (call: Promise<unknown>): Promise<PartialError> => {
    const error = await assertRejects(() => call);
    assert(error instanceof PartialError, `${error}`);
    return error;
  };
  const lost = await assertRejects(() => client.deleteMany(there!));
  assert(lost instanceof ConnectionError, `${lost}`);
  const removed = await errorOf(client.deleteMany(keys));
  assertEquals([removed.keys, removed.result], [there, here!.length]);
  assert(removed.errors.length === there!.length && removed.cause instanceof ConnectionError);
  assertMatch(removed.message, new RegExp(`^${there!.length} requests failed: ${away}: md k`));
  const stored = await errorOf(client.setMany(keys.map((key) => [key, 1])));
  assertEquals([stored.keys, stored.result], [there, []]);
  const asked = await errorOf(client.stats());
  assertEquals([asked.keys, (asked.result as Map<string, unknown>).size], [[away], 1]);
  const signal = AbortSignal.abort(new Error("enough"));
  await assertRejects(() => client.deleteMany(keys, { signal }), Error, "enough");
});

Deno.test("setMany names what a server refuses", async () => {
  await using peer = new ScriptedPeer((line) => {
    const status = line.includes(" refused ") ? "NS" : "HD";
    return line.startsWith("ms ") ? [`${status} ${/O\d+$/.exec(line)![0]}\r\n`] : [];
  });
  await using client = new Client(`127.0.0.1:${peer.port}`);
  assertEquals(await client.setMany([["a", 1], ["refused", 2], ["b", 3]]), ["refused"]);
});

testServers("meta tells who fills, and that a value is stale or being filled", async (address) => {
  await using client = new Client(address);
  await client.set("k", 1);
  const told = async (): Promise<boolean[]> => {
    const { isWon, isStale, isHeld } = await client.meta("mg", "k", ["v"]);
    return [isWon, isStale, isHeld];
  };
  assertEquals(await told(), [false, false, false]);
  assertEquals((await client.meta("md", "k", ["I", "T60"])).status, "HD");
  assertEquals(await told(), [true, true, false]);
  assertEquals(await told(), [false, true, true]);
});

testServers("compression", async (address) => {
  const codec = compressed(textCodec, { minBytes: 10, maxBytes: 2_000 });
  await using client = new Client(address, { codec });
  await using plain = new Client(address, { codec: bytesCodec });
  await client.set("short", "x");
  await client.set("long", "x".repeat(1_000));
  await client.set("longer", "x".repeat(3_000));
  assertEquals(await client.get("short"), "x");
  assertEquals(await client.get("long"), "x".repeat(1_000));
  assert((await plain.get("long"))!.length < 100);
  await assertRejects(() => client.get("longer"), Error);
  assertEquals(await client.get("short"), "x");
});

Deno.test("a codec gets back the flags that it gave, also of values that were compressed", async () => {
  const FLAGS = 0xffff;
  const codec = compressed({
    encode: (text: string) => ({ bytes: textCodec.encode(text).bytes, flags: FLAGS }),
    decode: (bytes, flags) => `${flags} ${textCodec.decode(bytes, 0)}`,
  }, { minBytes: 10 });
  for (const text of ["short", "x".repeat(1_000)]) {
    const { bytes, flags } = await codec.encode(text);
    assertEquals(await codec.decode(bytes, flags), `${FLAGS} ${text}`);
  }
});

Deno.test("a codec that is compressed twice gives back what it got", async () => {
  const codec = compressed(compressed(textCodec, { minBytes: 10 }), { minBytes: 10 });
  for (const text of ["short", "x".repeat(1_000), "x".repeat(1_000_000)]) {
    const { bytes, flags } = await codec.encode(text);
    assertEquals(await codec.decode(bytes, flags), text);
  }
});

testServers("a placeholder of mg N is no value", async (address) => {
  await using client = new Client(address);
  const won = await client.meta("mg", "p", ["v", "c", "N30"]);
  assert(won.isWon);
  assertEquals(await client.get("p"), undefined);
  assertEquals(await client.gets("p"), undefined);
  assertEquals(await client.cas("p", 1, won.cas), "stored");
  assertEquals(await client.get("p"), 1);
});

testServers(
  "bad input is refused, and does not disturb what is sent beside it",
  async (address) => {
    await using client = new Client(address, { valueBytesMax: 100 });
    const text = "text" as unknown as Uint8Array;
    const good = client.set("k", 1);
    const none = undefined as unknown as string;
    await Promise.all([
      assertRejects(() => client.append("k", text), TypeError, 'value "text"'),
      assertRejects(() => client.prepend("k", text), TypeError),
      assertRejects(() => client.append("k", new Uint8Array(101)), RangeError, "101 bytes"),
      assertRejects(() => client.meta("ms", "k", [], new Uint8Array(101)), RangeError, "101 bytes"),
      assertRejects(() => client.set("k", "x".repeat(99)), RangeError, "value of k: 101 bytes"),
      assertRejects(() => client.cas("k", 2, none), TypeError, "cas undefined"),
      assertRejects(() => client.cas("k", 2, "1\r\nflush_all"), RangeError, "cas"),
      assertRejects(() => client.setMany([["l", 1], ["", 2]]), RangeError, "key"),
      assertRejects(() => client.deleteMany(["k", ""]), RangeError, "key"),
    ]);
    assertEquals(await good, true);
    assertEquals([await client.get("k"), await client.get("l")], [1, undefined]);
    assertEquals(await client.get("ä".repeat(125)), undefined);
  },
);

testServers(
  "wrong flags of meta commands are errors, and their values are no requests",
  async (address) => {
    await using client = new Client(address);
    const value = new TextEncoder().encode("flush_all\r\nset k 0 0 1");
    await client.set("k", 1);
    for (const flags of [["MX"], ["Tx"], ["F-1"], ["Cx"], new Array(15).fill("T1"), ["v", "v"]]) {
      for (const command of ["mg", "ms", "md", "ma"] as const) {
        if (command === "md" && flags.includes("T1")) continue;
        const sent = client.meta(command, "m", flags, command === "ms" ? value : undefined);
        const reply = await sent.catch((error) => error);
        assert(!(reply instanceof ConnectionError), `${command} ${flags}: ${reply}`);
        assertEquals(await client.get("k"), 1);
      }
    }
  },
);

testServers("times beyond thirty days", async (address) => {
  await using client = new Client(address);
  await client.set("k", 1, { ttlSec: 40 * 86_400 });
  const { ttlSec } = await client.meta("mg", "k", ["t"]);
  assert(ttlSec > 39 * 86_400, `${ttlSec}`);
});

testServers("an aborted command rejects with the signal's reason", async (address) => {
  await using client = new Client(address);
  const reason = new Error("enough");
  const signal = AbortSignal.abort(reason);
  assertEquals(await client.get("k", { signal }).catch((error) => error), reason);
  assertEquals(await client.get("k"), undefined);
});

Deno.test("getss and deletess; update tokens", async () => {
  await using server = await startLeased();
  await using client = new Client(`127.0.0.1:${server.port}`);
  const reply = await client.getss("k", 30, LEASE_FLAG);
  assert("lease" in reply && reply.heldSec === 0);
  assertEquals(await client.cas("k", 1, reply.lease), "stored");
  const value = await client.getss("k", 30, LEASE_FLAG);
  assert("bytes" in value);
  assertEquals(value.bytes, new TextEncoder().encode("1"));
  const { lease, existed } = await client.deletess("k", 30);
  assertEquals([existed, await client.cas("k", 2, lease)], [true, "stored"]);

  const token = await client.takeToken("k", "writer");
  assertEquals(await client.takeToken("k", "writer"), token);
  assertEquals(await client.set("k", 3), false);
  await assertRejects(() => client.lock("k"), TokenOutError, "lock k");
  assertEquals(await client.releaseToken("k", token), true);
  assertEquals(await client.releaseToken("k", token), false);
  assertEquals([...(await client.stats()).values()][0]!.get("token_curr"), "0");
});

Deno.test("TLS with a client certificate, and a login", async () => {
  using certificates = new Certificates();
  await using server = await startSecured(certificates);
  const { address, cert, key } = server;
  const tls = { ca: cert, cert, key };
  await using client = new Client(address, { tls, login: { user: "anna", password: "secret" } });
  assertEquals(await client.set("k", 1), true);
  assertEquals(await client.get("k"), 1);
  await using wrong = new Client(address, {
    ...{ tls, connectMs: 30_000, replyMs: 30_000 },
    login: { user: "anna", password: "x" },
  });
  await assertRejects(() => wrong.get("k"), ConnectionError, "mg k: login of anna failed: CLIENT_");
  await using stranger = new Client(address, { tls: { ca: cert } });
  await assertRejects(() => stranger.get("k"), ConnectionError);
  await using doubter = new Client(address, { tls: {} });
  await assertRejects(() => doubter.get("k"), ConnectionError);
});

for (const memcached of MEMCACHEDS) {
  Deno.test(`a login at memcached ${memcached.version} with -Y`, async () => {
    const file = Deno.makeTempFileSync();
    Deno.writeTextFileSync(file, "anna:secret\n");
    await using server = await startMemcached(memcached, ["-Y", file]);
    await using client = new Client(server.address, {
      login: { user: "anna", password: "secret" },
    });
    assertEquals([await client.set("k", 1), await client.get("k")], [true, 1]);
    await using stranger = new Client(server.address);
    await assertRejects(() => stranger.get("k"), ServerError, "unauthenticated");
    Deno.removeSync(file);
  });
}

Deno.test("a lock belongs to its section", async () => {
  await using server = await startLeased();
  const address = `127.0.0.1:${server.port}`;
  await using client = new Client(address, { replyMs: 20_000 });
  await client.set("k", 1);
  const first = await client.lock("k");
  await assertRejects(() => client.lock("k"), LockedError, `${address}: lock k`);
  await assertRejects(() => client.takeToken("k", "w"), LockedError);
  await assertRejects(() => client.deletess("k", 1), LockedError);
  assertEquals(await client.set("k", 2), false);
  assertEquals(await first.set("k", 3), true);
  const second = client.lock("k", { waitMs: 20_000 });
  await first[Symbol.asyncDispose]();
  assert((await second).fence > first.fence);
  assert(!first.signal.aborted);
  await (await second)[Symbol.asyncDispose]();
});

for (const memcached of MEMCACHEDS) {
  Deno.test(`commands that memcached ${memcached.version} lacks`, async () => {
    await using server = await startMemcached(memcached);
    await using client = new Client(server.address);
    await assertRejects(() => client.lock("k"), UnsupportedError, "lock k");
    await assertRejects(() => client.takeToken("k", "w"), UnsupportedError);
    await assertRejects(() => client.getss("k", 1, LEASE_FLAG), UnsupportedError);
    assertEquals(await client.get("k"), undefined);
  });
}
