import { Buffer } from "node:buffer";
import { assert, assertEquals } from "@std/assert";
import { Cache, textCodec } from "../../../../lib/client/mod.ts";
import { Servers } from "../../../../lib/client/net/servers.ts";
import type { Reply, Request } from "../../../../lib/client/net/wire.ts";
import { TaggedValues } from "../../../../lib/client/values/tagged_values.ts";
import { startLeased, testServers } from "../servers.ts";

const TAG = "tag:namespace:n";
const bytesOf = (text: string): Uint8Array => textCodec.encode(text).bytes;

/** Does something before each request, and may change it. */
type Before = <Result>(request: Request<Result>) => Promise<Request<Result>>;

/** Returns the values of the namespace `n`, as its commands see them, whose requests something comes before. */
function valuesOf(servers: Servers, before: Before): TaggedValues<string> {
  const send = async <Result>(request: Request<Result>): Promise<Result> => {
    const changed = await before(request);
    return await servers.of(request.key).send(changed);
  };
  return new TaggedValues([TAG], textCodec, send, send);
}

testServers(
  "add in a namespace: what others have stored since the versions were read stays",
  async (address) => {
    const servers = new Servers(address, {});
    await using cache = new Cache<string>(address, { codec: textCodec });
    const space = cache.namespace("n");
    let toDo: (() => Promise<unknown>) | undefined;
    const values = valuesOf(servers, async (request) => {
      if (request.key === "n:k") await [toDo, toDo = undefined][0]?.();
      return request;
    });
    const add = (how: "add" | "replace"): Promise<unknown> =>
      values.store("n:k", textCodec.encode("mine"), 0, { mode: how });
    toDo = async () => {
      await space.invalidate();
      assertEquals(await space.add("k", "theirs"), true);
    };
    assertEquals(await add("add"), "refused");
    assertEquals(await space.get("k"), "theirs");
    toDo = async () => {
      await space.invalidate();
      assertEquals(await space.add("k", "theirs"), true);
    };
    assertEquals(await add("replace"), "stored");
    assertEquals(await space.get("k"), "mine");
    await servers.close();
  },
);

testServers(
  "add in a namespace: an item that others remove meanwhile is none",
  async (address) => {
    const servers = new Servers(address, {});
    await using cache = new Cache<string>(address, { codec: textCodec });
    const space = cache.namespace("n");
    const values = valuesOf(servers, async (request) => {
      // The store under the old item's id.
      if (/^ms .* C\d/.test(request.line)) await cache.delete("n:k");
      return request;
    });
    await space.set("k", "old");
    await space.invalidate();
    const added = await values.store("n:k", textCodec.encode("new"), 0, { mode: "add" });
    assertEquals(added, "stored");
    assertEquals(await space.get("k"), "new");
    await servers.close();
  },
);

testServers(
  "append in a namespace: a value in its last second does not stay for ever, and its bytes are copied",
  async (address) => {
    const servers = new Servers(address, {});
    await using cache = new Cache<string>(address, { codec: textCodec });
    const space = cache.namespace("n");
    const values = valuesOf(servers, (request) => {
      const read = (reply: Reply) => {
        if (reply.value.length === 0) return request.read(reply);
        const value = Buffer.from(reply.value);
        const result = request.read(Object.assign(Object.create(reply), { value, ttlSec: 0 }));
        value.fill(0);
        return result;
      };
      return Promise.resolve({ ...request, read } as typeof request);
    });
    await space.set("k", "text", { ttlSec: 500 });
    assertEquals(await values.extend("n:k", "append", bytesOf("!")), true);
    const { ttlSec } = await cache.meta("mg", "n:k", ["t"]);
    assert(ttlSec === 0 || ttlSec === 1 || Number.isNaN(ttlSec), `${ttlSec}`);
    await space.set("k", "text");
    await values.extend("n:k", "append", bytesOf("!"));
    const found = await space.get("k");
    assert(found === undefined || found === "text!", found);
    await servers.close();
  },
);

testServers("a trailer that others have written makes no item", async (address) => {
  await using cache = new Cache<string>(address, { codec: textCodec });
  for (const each of [cache, cache.namespace("n")]) {
    const prefix = each === cache ? "" : "n:";
    // The last one is no trailer: no line ends before it.
    for (const text of ["v\n0 victim=5", "0"]) {
      const stored = await cache.meta("ms", `${prefix}k`, ["F262144"], bytesOf(text));
      assertEquals(stored.status, "HD");
      assertEquals(await each.get("k"), undefined);
    }
    assertEquals((await cache.meta("mg", "victim", ["s"])).status, "EN");
  }
});

Deno.test("an item that a lock has made is no row, and no absence of one", async () => {
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`);
  await cache.withLock("report", async (section) => {
    assertEquals([await section.get("report"), await cache.get("report")], [undefined, undefined]);
    assertEquals(await cache.getOrLoad("report", () => "made, not kept"), "made, not kept");
  });
  assertEquals(await cache.get("report"), undefined);
  const made = await cache.getOrLoadEntry("report", () => "made");
  assertEquals(made, { value: "made", isStale: false, from: "load" });
  const again = await cache.getOrLoadEntry("report", () => "again");
  assertEquals(again, { value: "made", isStale: false, from: "cache" });
});
