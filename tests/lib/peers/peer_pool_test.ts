import { assertEquals, assertRejects } from "@std/assert";
import { type Peer, PeerError } from "../../../lib/peers/peer.ts";
import { PeerPool, UnsentError } from "../../../lib/peers/peer_pool.ts";
import { ScriptedPeer, type ScriptedReply } from "../../support/servers/scripted_peer.ts";
import { until } from "../../support/servers/server_process.ts";

const OPTIONS = { timeoutMs: 60_000, login: null, caCert: null };

async function withPool(
  reply: (line: string) => ScriptedReply,
  use: (pool: PeerPool, server: ScriptedPeer) => Promise<void>,
): Promise<void> {
  await using server = new ScriptedPeer(reply);
  const pool = new PeerPool({ hostname: "127.0.0.1", port: server.port }, OPTIONS);
  try {
    await use(pool, server);
  } finally {
    pool.close();
  }
}

function ask(pool: PeerPool, request: string, limitMs = 60_000): Promise<string> {
  return pool.with((peer) => peer.exchange(request, `${request}\r\n`, () => peer.line(), limitMs));
}

Deno.test("a connection whose reply came whole carries the next request; two at once have two", async () => {
  await withPool((line) => [`${line}!\r\n`], async (pool, server) => {
    for (const request of ["a", "b", "c"]) assertEquals(await ask(pool, request), `${request}!`);
    assertEquals(server.connections, 1);
    assertEquals(await Promise.all([ask(pool, "d"), ask(pool, "e")]), ["d!", "e!"]);
    assertEquals(server.connections, 2);
    assertEquals(await ask(pool, "f"), "f!");
    assertEquals(server.connections, 2);
  });
});

Deno.test("a connection with bytes behind its reply, or whose request failed, carries no other", async () => {
  await withPool((line) => [line === "more" ? "x\r\ny\r\n" : "x\r\n"], async (pool, server) => {
    assertEquals(await ask(pool, "more"), "x");
    await until(() => server.open === 0);
    assertEquals(await ask(pool, "a"), "x");
    assertEquals(server.connections, 2);
    const fail = (): Promise<never> => Promise.reject(new RangeError("no"));
    await assertRejects(() => pool.with(fail), RangeError);
    await until(() => server.open === 0);
    assertEquals(await ask(pool, "b"), "x");
    assertEquals(server.connections, 3);
  });
});

Deno.test("a pool that is closed keeps no connection", async () => {
  await withPool(() => ["x\r\n"], async (pool, server) => {
    await pool.with(async (peer: Peer) => {
      pool.close();
      assertEquals(await peer.exchange("a", "a\r\n", () => peer.line(), 60_000), "x");
      assertEquals(server.open, 1);
    });
    await until(() => server.open === 0);
  });
});

Deno.test("a server that cannot be reached got no request", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const free = listener.addr.port;
  listener.close();
  const pool = new PeerPool({ hostname: "127.0.0.1", port: free }, OPTIONS);
  const error = await assertRejects(() => ask(pool, "a"), UnsentError);
  assertEquals(error.cause instanceof PeerError, true);
});

Deno.test("a reply that does not end within its time is an error that names the request", async () => {
  await withPool(() => ["half a line"], async (pool, server) => {
    const error = await assertRejects(() => ask(pool, "stats", 50), PeerError);
    const name = `127.0.0.1:${server.port}`;
    assertEquals(error.message, `${name}: no whole reply to stats within 50 ms`);
    await until(() => server.open === 0);
  });
});

Deno.test("a request that is given up closes its connection, and one given up before is not sent", async () => {
  const lines: string[] = [];
  const silent = (line: string): ScriptedReply => {
    lines.push(line);
    return [];
  };
  await withPool(silent, async (pool, server) => {
    const controller = new AbortController();
    const { signal } = controller;
    const asked = pool.with((peer) =>
      peer.exchange("a", "a\r\n", () => peer.line(), 60_000, signal)
    );
    const rejection = assertRejects(() => asked, PeerError);
    await until(() => lines.length === 1);
    controller.abort();
    await rejection;
    await until(() => server.open === 0);
    await assertRejects(() =>
      pool.with((peer) => peer.exchange("b", "b\r\n", () => peer.line(), 60_000, signal))
    );
    await until(() => server.open === 0);
    assertEquals(lines, ["a"]);
  });
});
