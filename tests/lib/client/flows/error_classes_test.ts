// The table of docs/client.md: what a server sends, and the error that becomes of it.
import { assertEquals } from "@std/assert";
import { Client, RequestError } from "../../../../lib/client/mod.ts";
import { ScriptedPeer } from "../../../support/servers/scripted_peer.ts";

/** The error's name, or what the call returns. */
type Result = unknown;

/** By what a server sends, the end of the request whose reply is due, and of the one behind it; @ is its opaque. */
const REPLIES: readonly (readonly [sent: readonly string[], due: Result, behind: Result])[] = [
  [["HD @\r\n"], true, undefined],
  [["NF @\r\n"], false, undefined],
  // A refusal, by which the connection stays in order.
  [["ERROR\r\n"], "UnsupportedError", undefined],
  [["SERVER_ERROR update tokens need a state directory\r\n"], "UnsupportedError", undefined],
  [["ERROR Too many open connections\r\n"], "ServerError", undefined],
  [["CLIENT_ERROR bad data chunk\r\n"], "ServerError", undefined],
  [["SERVER_ERROR out of memory\r\n"], "ServerError", undefined],
  [["SERVER_ERROR \r\n"], "ServerError", undefined],
  // No reply to this request: its form, its number, or no form at all.
  [["VA 1 f0 @\r\n1\r\n"], "ProtocolError", "ConnectionError"],
  [["TOUCHED\r\n"], "ProtocolError", "ConnectionError"],
  [["HD O99\r\n"], "ProtocolError", "ConnectionError"],
  [["HD\r\n"], "ProtocolError", "ConnectionError"],
  [["HD @\n"], "ProtocolError", "ConnectionError"],
  [["ERRORS\r\n"], "ProtocolError", "ConnectionError"],
  [["HTTP/1.1 400 Bad Request\r\n"], "ProtocolError", "ConnectionError"],
  [["\x81\0\0\0\r\n"], "ProtocolError", "ConnectionError"],
  [["HD @\r\nHD @\r\n"], true, "ProtocolError"],
  // No reply.
  [["close"], "ConnectionError", "ConnectionError"],
  [["HD", "close"], "ConnectionError", "ConnectionError"],
  [[], "TimeoutError", "TimeoutError"],
];

for (const [sent, due, behind] of REPLIES) {
  const name = JSON.stringify(sent.join("")).slice(1, -1) || "nothing";
  Deno.test(`a server that sends ${name}: ${due}, and behind it ${behind}`, async () => {
    const lines: string[] = [];
    await using peer = new ScriptedPeer((line) => {
      const opaque = /O\d+$/.exec(line)![0];
      if (lines.push(line) > 1) return sent.length === 0 ? [] : [`EN ${opaque}\r\n`];
      return sent.map((piece) => piece.replaceAll("@", opaque));
    });
    const replyMs = sent.length === 0 ? 50 : 20_000;
    await using client = new Client(`127.0.0.1:${peer.port}`, { replyMs, connectMs: 20_000 });
    const nameOf = (error: unknown): unknown =>
      error instanceof RequestError ? error.name : `no RequestError: ${error}`;
    assertEquals(
      await Promise.all([
        client.touch("k", 1).catch(nameOf),
        client.get("m").catch(nameOf),
      ]),
      [due, behind],
    );
    assertEquals(client.counters.lostConnections, `${behind}`.endsWith("Error") ? 1 : 0);
  });
}
