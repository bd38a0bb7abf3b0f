import { assert, assertEquals } from "@std/assert";
import { BINARY_COMMANDS } from "../../../protocol/binary/table.ts";
import { parseBinary } from "../../support/sessions/binary_text.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { showText } from "../../support/sessions/transcript.ts";

/** Bytes of packets without holes. */
function packets(text: string, kind: "send" | "reply" = "send"): string {
  return parseBinary(text, kind, (part) => [part]).join("");
}

Deno.test("under -B binary text is taken for a broken header, when one is there", () => {
  const peer = new ConversationSide(["-B", "binary"]).connect();
  assertEquals(peer.ask("get k\r\n"), "");
  assert(!peer.closed);
  assertEquals(peer.ask("get some_more_keys\r\n"), "");
  assert(peer.closed);
});

Deno.test("under -B ascii binary is taken for text", () => {
  const peer = new ConversationSide(["-B", "ascii"]).connect();
  assertEquals(peer.ask(packets("77")), "");
  assertEquals(peer.ask("\r\n"), "ERROR\r\n");
});

Deno.test("under -B auto the first byte decides once", () => {
  const side = new ConversationSide();
  const binary = side.connect();
  assertEquals(binary.ask(packets("Noop")), packets("Noop", "reply"));
  assertEquals(binary.ask("get k\r\n".padEnd(24)), "");
  assert(binary.closed);
  const text = side.connect();
  assertEquals(text.ask("get k\r\n"), "END\r\n");
  assertEquals(text.ask(packets("77") + "\r\n"), "ERROR\r\n");
});

Deno.test("Version answers with memcached's digits", () => {
  const reply = new ConversationSide().connect().ask(packets("Version"));
  assertEquals(reply.slice(24, 30), "1.6.45", showText(reply));
});

Deno.test("Stat answers a packet a line, for every kind", () => {
  const side = new ConversationSide();
  side.connect().ask("set k 0 0 1\r\nx\r\n");
  for (const kind of ["", "settings", "items", "slabs", "sizes", "ops", "settingsX"]) {
    const peer = side.connect();
    const reply = peer.ask(packets(`Stat key=${kind} opaque=7`));
    const names: string[] = [];
    let at = 0;
    for (; at < reply.length;) {
      assertEquals(reply.slice(at, at + 2), "\x81\x10");
      assertEquals(reply.slice(at + 12, at + 16), "\0\0\0\x07");
      const keyLength = reply.charCodeAt(at + 3);
      const bodyLength = reply.charCodeAt(at + 10) * 256 + reply.charCodeAt(at + 11);
      names.push(reply.slice(at + 24, at + 24 + keyLength));
      at += 24 + bodyLength;
    }
    assertEquals(at, reply.length);
    assertEquals(names.at(-1), "");
    assert(names.length > 1, kind);
    if (kind === "ops") assert(names.includes("binary:LaGKQ") && names.includes("text:lock"));
  }
});

Deno.test("stats ops counts commands by name", () => {
  const side = new ConversationSide();
  const ops = (): Map<string, number> => {
    const lines = side.connect().ask("stats ops\r\n").matchAll(/STAT (\S+) (\d+)\r\n/g);
    return new Map([...lines].map(([, name, count]) => [name!, Number(count)]));
  };
  const names = [...ops().keys()];
  for (const { name } of BINARY_COMMANDS) assert(names.includes(`binary:${name}`), name);
  side.connect().ask("stats reset\r\nget k\r\nget k k\r\ngets k\r\nset k 0 0 1\r\nx\r\nlock k\r\n");
  side.connect().ask("get k\r\nget k\r\nget k\r\nunlock k\r\n");
  side.connect().ask(
    packets("GetQ key=k | GetQ key=k | Set key=k extras=0000000000000000 value=x | 77"),
  );
  const counts = ops();
  for (
    const [name, count] of Object.entries({
      "text:get": 5,
      "text:gets": 1,
      "text:set": 1,
      "text:lock": 1,
      "text:unlock": 1,
      "text:stats": 2,
      "binary:GetQ": 2,
      "binary:Set": 1,
      "binary:Get": 0,
    })
  ) assertEquals(counts.get(name), count, name);
});

Deno.test("a request passed over in pieces costs nothing", () => {
  const side = new ConversationSide();
  const peer = side.connect();
  const length = 3_000_000;
  const reply = peer.ask(packets("77 bodylength=" + length) + "x".repeat(1000));
  assertEquals(reply, packets("77 error=81", "reply"));
  for (let left = length - 1000; left > 0; left -= 50_000) {
    assertEquals(peer.ask("x".repeat(Math.min(left, 50_000))), "");
    assertEquals(peer.pendingLength, 0);
  }
  assertEquals(peer.ask(packets("Noop opaque=3")), packets("Noop opaque=3", "reply"));
});

Deno.test("keys lists more than a reply buffer holds", () => {
  const side = new ConversationSide(["-m", "64"]);
  const peer = side.connect();
  const count = 20_000;
  for (let n = 0; n < count; n++) {
    peer.ask(`set ${n % 2 === 0 ? "even" : "odd"}:${n}:${"k".repeat(n % 60)} 0 0 1\r\nx\r\n`);
  }
  const lines = peer.ask("keys odd:\r\n").split("\r\n");
  assertEquals(lines.length, count / 2 + 2);
  assertEquals(lines.at(-2), "END");
  assertEquals(new Set(lines).size, lines.length);
  const binary = side.connect();
  const reply = binary.ask(packets("Keys key=even:"));
  assertEquals([...reply.matchAll(/\x81\x50\0[^\0]\0/g)].length, count / 2);
  assert(reply.endsWith(packets("Keys", "reply")));
  assertEquals(peer.ask("keys none\r\n"), "END\r\n");
});

Deno.test("reads behind a store in the same input go without the mutex", () => {
  using side = new ConversationSide(["-t", "2"]);
  const { thread } = side;
  const { optimistic } = thread.cache;
  const read = optimistic.read.bind(optimistic);
  const isHolding: boolean[] = [];
  optimistic.read = (...parts: Parameters<typeof read>) => {
    isHolding.push(thread.isHolding);
    return read(...parts);
  };
  side.connect().ask(packets("Set key=k flags=0 exptime=0 value=v | GetK key=k"));
  assertEquals(isHolding, [false]);
});
