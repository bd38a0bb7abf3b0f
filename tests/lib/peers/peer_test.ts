import { assertEquals, assertRejects } from "@std/assert";
import { Peer, PeerError } from "../../../lib/peers/peer.ts";
import { ScriptedPeer } from "../../support/servers/scripted_peer.ts";
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
