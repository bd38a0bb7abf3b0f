import { assertEquals, assertRejects } from "@std/assert";
import { PeerError } from "../../../../lib/peers/peer.ts";
import { OriginView } from "../../../../lib/operator/audit/origin_view.ts";
import { ScriptedPeer } from "../../../support/servers/scripted_peer.ts";

Deno.test("an origin's list of caches is read without those that have left and nodes; a bad address is refused", async () => {
  const replies = [
    "CACHE 127.0.0.1:1 listed 1\r\nCACHE [::1]:2 listed 1\r\nOUTSIDE 127.0.0.1:3\r\n" +
    "NODE one member 12 0\r\nEND 3\r\n",
    "CACHE 127.0.0.1 listed 1\r\nEND 3\r\n",
  ];
  await using peer = new ScriptedPeer(() => [replies.shift()!]);
  const options = { timeoutMs: 60_000, login: null, caCert: null };
  const view = await OriginView.connect({ hostname: "127.0.0.1", port: peer.port }, options);
  assertEquals(await view.caches(), [
    { hostname: "127.0.0.1", port: 1 },
    { hostname: "::1", port: 2 },
  ]);
  const message = 'answers caches with "CACHE 127.0.0.1 listed 1"';
  await assertRejects(() => view.caches(), PeerError, message);
  view.close();
});
