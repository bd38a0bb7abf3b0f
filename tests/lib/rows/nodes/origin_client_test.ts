import { assertEquals, assertRejects } from "@std/assert";
import { PeerError } from "../../../../lib/peers/peer.ts";
import { OriginClient } from "../../../../lib/rows/nodes/origin_client.ts";

const OPTIONS = { timeoutMs: 60_000, caCert: null, login: null };

Deno.test("a request that is given up closes its connection, so that the origin ends it", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const client = new OriginClient("origin", { hostname: "127.0.0.1", port }, OPTIONS);
  const controller = new AbortController();
  const asked = client.ask("command", "s", 0, new Uint8Array(3), 1000, controller.signal);
  const rejection = assertRejects(() => asked, PeerError);
  using connection = await listener.accept();
  await connection.read(new Uint8Array(1000));
  controller.abort();
  assertEquals(await connection.read(new Uint8Array(1)), null);
  await rejection;
  await assertRejects(() =>
    client.ask("command", "s", 0, new Uint8Array(), 1000, controller.signal)
  );
  client.close();
});
