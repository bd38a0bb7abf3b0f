import { assert, assertEquals, assertRejects } from "@std/assert";
import { CacheClient } from "../../../../lib/rows/caches/cache_client.ts";
import { CacheError } from "../../../../lib/rows/flows/steps.ts";
import { ScriptedPeer, type ScriptedReply } from "../../../support/servers/scripted_peer.ts";
import { ServerProcess } from "../../../support/servers/server_process.ts";

/** Runs a test with a cache that replies as it says, and a client of it. */
async function withCache(
  reply: (line: string) => ScriptedReply,
  run: (client: CacheClient) => Promise<void>,
  timeoutMs = 10_000,
): Promise<void> {
  await using peer = new ScriptedPeer(reply);
  const client = new CacheClient("127.0.0.1", peer.port, { timeoutMs, login: null, caCert: null });
  await run(client);
  client.close();
}

/** The reply to a meta command. */
function meta(line: string, code = "HD"): string[] {
  const opaque = / O(\d+)/.exec(line)?.[1];
  return opaque === undefined ? [] : [`${code} O${opaque}\r\n`];
}

Deno.test("keys are deleted in a cache, whatever their bytes, with their leases", async () => {
  await using server = await ServerProcess.start();
  using client = await server.connect();
  const cache = new CacheClient("127.0.0.1", server.port, {
    timeoutMs: 10_000,
    login: null,
    caCert: null,
  });
  await client.ask("set plain 0 0 1\r\nx\r\n", "STORED\r\n");
  await client.ask(`ms ${btoa("a b\0")} 1 b\r\nx\r\n`, "HD\r\n");
  await client.ask("set locked 0 0 1\r\nx\r\n", "STORED\r\n");
  await client.ask("lock locked 0\r\n", "OK\r\n");
  assertEquals(await cache.invalidateMany(["plain", "a b\0", "locked", "none"]), [
    null,
    null,
    `${cache.name} answers md with NS: is the value locked?`,
    null,
  ]);
  await client.ask("get plain\r\n", "END\r\n");
  await client.ask(`mg ${btoa("a b\0")} v b\r\n`, "EN\r\n");
  await cache.quarantine(true);
  await cache.quarantine(false);
  cache.close();
});

Deno.test("a late reply fails its request, not its neighbours", async () => {
  await withCache((line) => line.includes("slow") ? [] : meta(line), async (client) => {
    const errors = await client.invalidateMany(["a", "slow", "b"]);
    assertEquals(errors, [null, `${client.name}: no reply within 100 ms`, null]);
    // Another connection: on the first one a reply is missing.
    assertEquals(await client.invalidateMany(["a", "b"]), [null, null]);
  }, 100);
});

Deno.test("a cache whose connections are all slow is tried with new ones", async () => {
  let isSlow = true;
  await withCache((line) => isSlow ? [] : meta(line), async (client) => {
    for (let attempt = 0; attempt < 6; attempt++) {
      assert((await client.invalidateMany(["a"]))[0] !== null);
    }
    isSlow = false;
    assertEquals(await client.invalidateMany(["a"]), [null]);
  }, 50);
});

for (
  const [what, reply] of [
    ["an answer to another request", (line: string) => meta(line.replace(/O\d+/, "O99"))],
    ["an answer twice", (line: string) => [...meta(line), ...meta(line)]],
    ["an error", (line: string) => line === "" ? [] : ["SERVER_ERROR out of memory\r\n"]],
    ["a line without an end", () => ["x".repeat(10_000)]],
  ] as const
) {
  Deno.test(`${what} ends the connection`, async () => {
    let isBad = true;
    await withCache((line) => isBad ? reply(line) : meta(line), async (client) => {
      const [first, second] = await client.invalidateMany(["a", "b"]);
      assert(first !== null || second !== null);
      isBad = false;
      assertEquals(await client.invalidateMany(["a", "b"]), [null, null]);
    });
  });
}

Deno.test("requests that come at once use several connections, and a retired client ends", async () => {
  await withCache(meta, async (client) => {
    const batches = Array.from({ length: 20 }, () => client.invalidateMany(["a", "b"]));
    for (const errors of await Promise.all(batches)) assertEquals(errors, [null, null]);
    client.retire();
    assertEquals(await client.invalidateMany(["a"]), [null]);
  });
});

Deno.test("a cache that cannot be reached is named", async () => {
  const client = new CacheClient("127.0.0.1", 1, { timeoutMs: 1000, login: null, caCert: null });
  const [error] = await client.invalidateMany(["a"]);
  assert(error!.startsWith("127.0.0.1:1: "));
  await assertRejects(() => client.quarantine(true), CacheError, "127.0.0.1:1: ");
});
