import { assertEquals } from "@std/assert";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { parseStats } from "../support/sessions/side.ts";

function bytesRead(side: ConversationSide): number {
  return parseStats(side.connect().ask("stats\r\n")).get("bytes_read")!;
}

Deno.test("bytes_read counts what has come, once, however it is cut", () => {
  const side = new ConversationSide();
  const asking = "stats\r\n".length;
  assertEquals(bytesRead(side), asking);
  const value = "x".repeat(100_000);
  const requests = `get a\r\nset a 0 0 3\r\nabc\r\nset b 0 0 100000\r\n${value}\r\nget a b\r\nincr`;
  for (const cut of [1, 3, 20, 4000, 60_000, requests.length - 1]) {
    const before = bytesRead(side);
    const peer = side.connect();
    for (let at = 0; at < requests.length; at += cut) peer.ask(requests.slice(at, at + cut));
    assertEquals(bytesRead(side), before + requests.length + asking, `in pieces of ${cut}`);
  }
  side.connect().ask("stats reset\r\n");
  assertEquals(bytesRead(side), asking);
});

Deno.test("bytes_written counts what has been answered", () => {
  const side = new ConversationSide();
  const written = (): number => parseStats(side.connect().ask("stats\r\n")).get("bytes_written")!;
  assertEquals(written(), 0);
  side.connect().ask("stats reset\r\n");
  const reply = side.connect().ask("set a 0 0 3\r\nabc\r\nget a\r\n");
  assertEquals(written(), "RESET\r\n".length + reply.length);
});
