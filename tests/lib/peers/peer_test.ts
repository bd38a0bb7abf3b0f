import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { addressText, Peer, PeerError } from "../../../lib/peers/peer.ts";
import { ScriptedPeer, type ScriptedReply } from "../../support/servers/scripted_peer.ts";
import { until } from "../../support/servers/server_process.ts";

Deno.test("a login that is refused leaves no connection", async () => {
  for (const reply of ["CLIENT_ERROR authentication failure\r\n", "ERROR\r\n"]) {
    await using server = new ScriptedPeer((line) => line.startsWith("set login") ? [] : [reply]);
    const login = { user: "ann", password: "wrong" };
    const address = { hostname: "127.0.0.1", port: server.port };
    await assertRejects(
      () => Peer.connect(address, { timeoutMs: 10_000, login, caCert: null }),
      PeerError,
      "the login of user ann",
    );
    assertEquals(server.connections, 1);
    await until(() => server.open === 0);
  }
});

Deno.test("a request that is longer than the buffers of the sockets arrives whole", async () => {
  const LENGTH = 32 * 2 ** 20;
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const receive = async (): Promise<number> => {
    using connection = await listener.accept();
    const buffer = new Uint8Array(64 * 1024);
    let received = 0;
    for (let count; (count = await connection.read(buffer)) !== null;) received += count;
    return received;
  };
  const received = receive();
  const address = { hostname: "127.0.0.1", port: listener.addr.port };
  const peer = await Peer.connect(address, { timeoutMs: 60_000, login: null, caCert: null });
  await peer.send("x".repeat(LENGTH));
  peer.close();
  assertEquals(await received, LENGTH);
});

/** Connects to a server that answers each line as `reply` says. */
async function withPeer(
  reply: (line: string) => ScriptedReply,
  use: (peer: Peer, server: ScriptedPeer) => Promise<void>,
  timeoutMs = 10_000,
): Promise<void> {
  await using server = new ScriptedPeer(reply);
  const address = { hostname: "127.0.0.1", port: server.port };
  const peer = await Peer.connect(address, { timeoutMs, login: null, caCert: null });
  try {
    assertEquals(peer.name, `127.0.0.1:${server.port}`);
    await use(peer, server);
  } finally {
    peer.close();
  }
}

Deno.test("a server's name is its host and port, an IPv6 address in brackets, or its path", () => {
  assertEquals(addressText({ hostname: "cache1", port: 7 }), "cache1:7");
  assertEquals(addressText({ hostname: "::1", port: 7 }), "[::1]:7");
  assertEquals(addressText({ path: "/run/leased.sock" }), "/run/leased.sock");
});

Deno.test("a login sends name and password as the value of a set, one byte a character", async () => {
  const lines: string[] = [];
  await using server = new ScriptedPeer((line) => {
    lines.push(line);
    return lines.length === 2 ? ["STORED\r\n"] : [];
  });
  const login = { user: "ann", password: "a:b c" };
  const address = { hostname: "127.0.0.1", port: server.port };
  const peer = await Peer.connect(address, { timeoutMs: 10_000, login, caCert: null });
  assertEquals(lines, ["set login 0 0 9", "ann a:b c"]);
  assertEquals(peer.isRead, true);
  peer.close();
  await until(() => server.open === 0);
  peer.close();
});

Deno.test("a value is read with its line end, and told by its length and hash", async () => {
  // Longer than the piece that is hashed at a time.
  const long = "x".repeat(200_000);
  await withPeer(
    (line) => [line === "long" ? `${long}\r\nEND\r\n` : "abc\r\n\r\nEND\r\n"],
    async (peer) => {
      await peer.send("short\r\n");
      assertEquals(await peer.value(7, "3"), {
        flags: 7,
        bytes: 3,
        sha256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
      });
      assertEquals(peer.isRead, false);
      assertEquals(await peer.value(0, "0"), {
        flags: 0,
        bytes: 0,
        sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      });
      assertEquals(await peer.line(), "END");
      await peer.send("long\r\n");
      const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(long));
      assertEquals((await peer.value(0, "200000")).sha256, new Uint8Array(hash).toHex());
      assertEquals(await peer.line(), "END");
      assertEquals(peer.isRead, true);
    },
  );
});

Deno.test("a value of another length than announced, or of none, is an error that names the server", async () => {
  const lengths: readonly (readonly [string | undefined, string])[] = [
    ["2", "announces a value of 2 bytes, and sends another length"],
    ["4", "announces a value of 4 bytes, and sends another length"],
    [undefined, "announces a value of no bytes; the longest has 1073741824"],
    ["-1", "announces a value of -1 bytes; the longest has 1073741824"],
    ["1073741825", "announces a value of 1073741825 bytes; the longest has 1073741824"],
    ["00000000003", "announces a value of 00000000003 bytes; the longest has 1073741824"],
  ];
  for (const [length, message] of lengths) {
    await withPeer(() => ["abc\r\nEND\r\n"], async (peer) => {
      await peer.send("get\r\n");
      const error = await assertRejects(() => peer.value(0, length), PeerError);
      assertEquals(error.message, `${peer.name}: ${message}`);
    });
  }
  await withPeer(() => ["abc", "close"], async (peer) => {
    await peer.send("get\r\n");
    // The largest value that is allowed is waited for.
    const error = await assertRejects(() => peer.value(0, "1073741824"), PeerError);
    assertEquals(error.message, `${peer.name}: closed the connection`);
  });
});

Deno.test("a silent server, one that closes, and one with too long a line are errors of their own", async () => {
  await withPeer(() => [], async (peer, server) => {
    const error = await assertRejects(() => peer.line(), PeerError);
    assertEquals(error.message, `${peer.name}: no reply within 50 ms`);
    await until(() => server.open === 0);
  }, 50);
  await withPeer(() => ["close"], async (peer) => {
    await peer.send("get\r\n");
    const error = await assertRejects(() => peer.line(), PeerError);
    assertEquals(error.message, `${peer.name}: closed the connection`);
  });
  await withPeer(() => ["x".repeat(3000)], async (peer) => {
    await peer.send("get\r\n");
    const error = await assertRejects(() => peer.line(), PeerError);
    assertEquals(error.message, `${peer.name}: sends a line longer than 2048 bytes`);
    const unexpected = peer.unexpected("get", "y".repeat(300));
    assertEquals(unexpected.message, `${peer.name}: answers get with "${"y".repeat(200)}"`);
  });
});

Deno.test("a port on which nobody listens is an error with its address, and the reason", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const options = { timeoutMs: 10_000, login: null, caCert: null };
  const error = await assertRejects(
    () => Peer.connect({ hostname: "127.0.0.1", port }, options),
    PeerError,
  );
  assertMatch(error.message, new RegExp(`^127\\.0\\.0\\.1:${port}: .*refused`));
  const path = "/nowhere/leased.sock";
  const missing = await assertRejects(() => Peer.connect({ path }, options), PeerError);
  assertMatch(missing.message, /^\/nowhere\/leased\.sock: /);
});
