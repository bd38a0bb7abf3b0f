import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  Cache,
  type CommitOutcome,
  ConnectionError,
  OutcomeUnknownError,
  RowWriteError,
  ServerError,
  textCodec,
  UnsupportedError,
} from "../../../lib/client/mod.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";
import { testDatabases } from "../../support/servers/databases.ts";
import { startOrigin } from "../../support/servers/origin_process.ts";
import { Relay } from "../../support/servers/relay.ts";
import { ScriptedPeer, type ScriptedReply } from "../../support/servers/scripted_peer.ts";
import { ServerProcess } from "../../support/servers/server_process.ts";
import { startLeased } from "./servers.ts";

// Rows through the origin, the third form of a write: done, failed or unknown, and which it was.

const PERMISSIONS = ["--allow-net=127.0.0.1", "--allow-ffi", "--allow-read"];

testDatabases("putRow writes and deletes rows, through the origin and a node", async (database) => {
  await using origin = await startOrigin(database);
  await using node = await ServerProcess.start({
    io: "native",
    permissions: PERMISSIONS,
    args: ["--origin", `127.0.0.1:${origin.port}`],
  });
  for (const [round, { port }] of [origin, node].entries()) {
    await using cache = new Cache<string>(`127.0.0.1:${port}`, { codec: textCodec });
    await using other = new Cache<string>(`127.0.0.1:${origin.port}`, { codec: textCodec });
    const key = `k${round}`;
    assertEquals(await cache.putRow(key, "first"), 1);
    assertEquals([await cache.get(key), await other.get(key)], ["first", "first"]);
    assertEquals(await cache.putRow(key, "second"), 2);
    assertEquals([await cache.get(key), await other.get(key)], ["second", "second"]);
    assertEquals(await cache.putRow(key, undefined), 3);
    assertEquals([await cache.get(key), await other.get(key)], [undefined, undefined]);
    await assertRejects(() => cache.putRow("a b", "x"), RangeError, "blanks");
  }
});

testDatabases(
  "putRow at a node repeats a write whose reply the node has not got",
  async (database) => {
    await using origin = await startOrigin(database);
    using relay = new Relay(origin.port);
    await using node = await ServerProcess.start({
      io: "native",
      permissions: PERMISSIONS,
      args: ["--origin", `127.0.0.1:${relay.port}`],
    });
    await using cache = new Cache<string>(`127.0.0.1:${node.port}`, { codec: textCodec });
    for (const [round, passage] of (["cut reply", "cut"] as const).entries()) {
      let left = 2;
      relay.passage = (bytes) => {
        const isWrite = new TextDecoder().decode(bytes).includes("\r\nuput k ");
        return isWrite && left-- > 0 ? passage : "pass";
      };
      assertEquals(await cache.putRow("k", passage, { limitMs: 60_000 }), round + 1);
      assert(left <= 0, "replies were lost");
      assertEquals(await cache.get("k"), passage);
    }
  },
);

/** Asks again when the network loses the answer. */
async function outcomeOf(error: OutcomeUnknownError): Promise<CommitOutcome> {
  for (;;) {
    const outcome = await error.resolve().catch((error) => error);
    if (typeof outcome === "string") return outcome as CommitOutcome;
    assert(outcome instanceof OutcomeUnknownError, `${outcome}`);
  }
}

testDatabases(
  "putRow through connections that break: the database has what it says",
  (database) =>
    withSeed(drawSeed(), async (seed) => {
      const random = randomFrom(seed);
      await using origin = await startOrigin(database);
      using relay = new Relay(origin.port);
      await using cache = new Cache<string>(`127.0.0.1:${relay.port}`, { codec: textCodec });
      await using direct = new Cache<string>(`127.0.0.1:${origin.port}`, { codec: textCodec });
      relay.passage = () => random() < 0.2 ? "cut" : random() < 0.3 ? "cut reply" : "pass";
      let unknown = 0;
      for (let round = 0; round < 60; round++) {
        const before = await direct.get("k");
        const value = `${round}`;
        let isDone: boolean;
        try {
          await cache.putRow("k", value, { limitMs: round % 2 === 0 ? 0 : 2_000 });
          isDone = true;
        } catch (error) {
          if (error instanceof OutcomeUnknownError) {
            unknown++;
            assertEquals(error.keys, ["k"]);
            isDone = await outcomeOf(error) === "done";
          } else {
            assert(error instanceof ConnectionError || error instanceof RowWriteError, `${error}`);
            isDone = false;
          }
        }
        assertEquals(await direct.get("k"), isDone ? value : before, `round ${round}`);
      }
      assert(unknown > 0, "an outcome was unknown sometimes");
    }),
);

testDatabases("putRow: resolve finds out what became of a write", async (database) => {
  await using origin = await startOrigin(database);
  using relay = new Relay(origin.port);
  const options = { codec: textCodec, replyMs: 20_000 };
  await using cache = new Cache<string>(`127.0.0.1:${relay.port}`, options);
  await cache.putRow("k", "first");
  // Without an answer, nothing is known; later `resolve` finds out.
  relay.passage = (bytes) =>
    new TextDecoder().decode(bytes).startsWith("uput") ? "cut reply" : "pass";
  const told: unknown[] = [];
  cache.on("tokensOut", (event) => told.push(event));
  const error = await cache.putRow("k", "second", { limitMs: 0 }).catch((error) => error);
  assert(error instanceof OutcomeUnknownError, `${error}`);
  assert(error.cause instanceof ConnectionError);
  assertEquals([told, cache.counters.tokensOut], [[{ keys: ["k"], error }], 1]);
  relay.passage = () => "pass";
  assertEquals(await error.resolve(), "done");
  assertEquals(await cache.get("k"), "second");
  // A write that never arrived is ended for good.
  relay.passage = (bytes) => new TextDecoder().decode(bytes).startsWith("uput") ? "cut" : "pass";
  const lost = await cache.putRow("k", "third", { limitMs: 0 }).catch((error) => error);
  assert(lost instanceof OutcomeUnknownError, `${lost}`);
  relay.passage = () => "pass";
  assertEquals(await lost.resolve(), "failed");
  assertEquals(await cache.get("k"), "second");
  assertEquals(await lost.resolve(), "failed");
  using client = await origin.connect();
  await client.ask("token list\r\n", "END\r\n");
});

Deno.test("putRow believes the last reply, when an earlier attempt got none", async () => {
  const replies: Record<string, ScriptedReply[]> = {
    token: [["TOKEN 5\r\n"], ["OK\r\n"]],
    uput: [["close"], ["SERVER_ERROR not now\r\n"], ["STORED 7\r\n"]],
  };
  await using peer = new ScriptedPeer((line) => replies[line.split(" ", 1)[0]!]?.shift() ?? []);
  await using cache = new Cache<string>(`127.0.0.1:${peer.port}`, {
    codec: textCodec,
    replyMs: 20_000,
  });
  assertEquals(await cache.putRow("k", "value"), 7);
  assertEquals(replies, { token: [], uput: [] });
});

Deno.test("putRow needs a server of rows, and says so", async () => {
  await using server = await startLeased();
  await using cache = new Cache(`127.0.0.1:${server.port}`);
  const error = await assertRejects(() => cache.putRow("k", 1), RowWriteError);
  assert(error.cause instanceof UnsupportedError, `${error.cause}`);
  // The token has ended.
  assertEquals(await cache.set("k", 1), true);
});

testDatabases(
  "putRow: what the server refuses is not written, and holds no token",
  async (database) => {
    await using origin = await startOrigin(database, ["-I", "1k"]);
    await using cache = new Cache<string>(`127.0.0.1:${origin.port}`, { codec: textCodec });
    await using locker = new Cache<string>(`127.0.0.1:${origin.port}`, { codec: textCodec });
    await cache.putRow("k", "first");
    const error = await assertRejects(() => cache.putRow("k", "x".repeat(5_000)), RowWriteError);
    assert(error.cause instanceof ServerError, `${error.cause}`);
    {
      await using _section = await locker.lock("k");
      const locked = cache.putRow("k", "second", { limitMs: 20 });
      await assertRejects(() => locked, RowWriteError, "lock");
    }
    assertEquals(await cache.get("k"), "first");
    assertEquals(await cache.putRow("k", "second"), 2);
    using client = await origin.connect();
    await client.ask("token list\r\n", "END\r\n");
  },
);
