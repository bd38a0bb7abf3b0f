import { assertEquals, assertRejects } from "@std/assert";
import { PeerError } from "../../../../lib/peers/peer.ts";
import { OriginView } from "../../../../lib/operator/audit/origin_view.ts";
import { ScriptedPeer } from "../../../support/servers/scripted_peer.ts";

Deno.test("nodes that are members are named by their addresses; others are left out, other lines refused", async () => {
  const replies = [
    "NODE tcp:127.0.0.1:1 member 12 0\r\nNODE tcp6:[::1]:2 member 1 1\r\n" +
    "NODE tcp:127.0.0.1:3 silent 12 0\r\nNODE one member 12 0\r\nNODE tcp:0.0.0.0:4 member 1 1\r\n" +
    "NODE tcp6:[::]:4 member 1 1\r\nNODE tcp: member 1 1\r\nEND\r\n",
    "CACHE 127.0.0.1:1 listed 1\r\nEND 3\r\n",
  ];
  await using peer = new ScriptedPeer(() => [replies.shift()!]);
  const options = { timeoutMs: 60_000, login: null, caCert: null };
  const view = await OriginView.connect({ hostname: "127.0.0.1", port: peer.port }, options);
  assertEquals(await view.nodes(), [
    { hostname: "127.0.0.1", port: 1 },
    { hostname: "::1", port: 2 },
  ]);
  const message = 'answers nodes with "CACHE 127.0.0.1:1 listed 1"';
  await assertRejects(() => view.nodes(), PeerError, message);
  view.close();
});
