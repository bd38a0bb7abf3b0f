import { assert, assertEquals } from "@std/assert";
import { INPUT_BYTES } from "../../store/limits.ts";
import { Conversation, ConversationState } from "../../protocol/conversation.ts";
import { TracedConversation } from "../../protocol/traced_conversation.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { bytesOf } from "../support/sessions/side.ts";

function messages(side: ConversationSide): string[] {
  return side.events.splice(0).map(({ event, message }) => `${event} ${message}`);
}

const PEER = "tcp:127.0.0.1:1";

Deno.test("-vv logs protocol errors with the peer, the reason and the command", () => {
  const side = new ConversationSide(["-vv"]);
  const peer = side.connect();
  peer.ask("get a\r\nbogus \x01\\x\r\nset a 0 0 1\r\n12\r\nincr a b\r\nget a\r\n");
  assertEquals(messages(side), [
    `protocol_error ${PEER}: ERROR: bogus \\x01\\\\x`,
    `protocol_error ${PEER}: CLIENT_ERROR bad data chunk: set a 0 0 1`,
    `protocol_error ${PEER}: CLIENT_ERROR invalid numeric delta argument: incr a b`,
  ]);
  peer.ask("bogus\r\n");
  const [event] = side.events;
  assertEquals(event!.level, "debug");
  assertEquals(event!.fields, {
    peer: PEER,
    conn: side.thread.connections.numberOf(peer.owner),
    reason: "ERROR",
    command: "bogus",
  });
});

Deno.test("the session of a node is in no line of the log", () => {
  const side = new ConversationSide(["-vvv"]);
  const peer = side.connect();
  peer.ask(
    "node poll 1-secret 0 2\r\n12\r\nnode  leave  1-secret 0 0\r\n\r\nnode poll 1-secret x\r\n",
  );
  const text = JSON.stringify(side.events.splice(0));
  assertEquals(text.includes("secret"), false, text);
  assert(text.includes("node poll * 0 2") && text.includes("node  leave  * 0 0"), text);
});

Deno.test("a request that arrives in several lines ends, however small a slice is", () => {
  const side = new ConversationSide(["-vv", "-R", "1"]);
  const peer = side.connect();
  assertEquals(
    peer.ask("get a\r\nset a 0 0 5\r\n1\n2\n3\r\nget a\r\nset b 0 0 9\r\n1\n2"),
    "END\r\nSTORED\r\nVALUE a 0 5\r\n1\n2\n3\r\nEND\r\n",
  );
  assertEquals(peer.ask("\n3\n4\n5\r\n"), "STORED\r\n");
});

for (const [name, text] of [["text", "mn\r\n"], ["binary", request(0x0a, "")]] as const) {
  Deno.test(`a logged connection lets others go first when its slice is over, ${name}`, () => {
    const side = new ConversationSide(["-vv", "-R", "2"]);
    const { input } = side.thread;
    const conversation = side.protocols.open(side.connect().owner, { protocol: "auto" });
    const count = 7;
    const end = count * text.length;
    input.bytes.set(bytesOf(text.repeat(count)));
    const requests: number[] = [];
    for (let start = 0; start < end;) {
      const next = conversation.feed(start, end);
      const isLast = next === end;
      const state = isLast ? ConversationState.NEEDS_INPUT : ConversationState.UNFINISHED;
      assertEquals(conversation.state, state);
      requests.push((next - start) / text.length);
      start = next;
    }
    assertEquals(requests, [2, 2, 2, 1]);
    conversation.end();
  });
}

Deno.test("-vvv logs every command once, however its bytes arrive", () => {
  const value = "line\n".repeat(3000);
  const session = "set a 0 0 3\r\n1\n2\r\nget a\r\nget a b c\r\nmg a v\r\n" +
    `set long 0 0 ${value.length}\r\n${value}\r\nget long\r\nversion\r\nquit\r\n`;
  const lines = ["set a 0 0 3", "get a", "get a b c", "mg a v"];
  const expected = [...lines, `set long 0 0 ${value.length}`, "get long", "version", "quit"];
  for (const pieceLength of [1, 7, 1000, INPUT_BYTES]) {
    using side = new ConversationSide(["-vvv"]);
    const peer = side.connect();
    for (let at = 0; at < session.length; at += pieceLength) {
      peer.feed(bytesOf(session.slice(at, at + pieceLength)));
    }
    assert(peer.closed);
    const commands = side.events.filter(({ event }) => event === "command");
    assertEquals(commands.map(({ fields }) => fields["command"]), expected, `${pieceLength}`);
    assertEquals(commands.length, side.events.length);
  }
});

/** A request of the binary protocol. */
function request(opcode: number, key: string, extras = "", value = ""): string {
  const bytes = new Uint8Array(24);
  const view = new DataView(bytes.buffer);
  bytes[0] = 0x80;
  bytes[1] = opcode;
  view.setUint16(2, key.length);
  bytes[4] = extras.length;
  view.setUint32(8, extras.length + key.length + value.length);
  return String.fromCharCode(...bytes) + extras + key + value;
}

Deno.test("binary commands and errors are logged by name and key", () => {
  const side = new ConversationSide(["-vvv"]);
  const peer = side.connect();
  const flags = "\0".repeat(8);
  const session = request(0x01, "a\n", flags, "v\nv") + request(0x00, "a\n") +
    request(0x01, "long", flags, "x\n".repeat(3000)) + request(0x0a, "") + request(0xee, "k") +
    request(0x05, "a\n", "\0".repeat(20)) + request(0x07, "");
  for (let at = 0; at < session.length; at += 11) peer.feed(bytesOf(session.slice(at, at + 11)));
  assertEquals(messages(side), [
    `command ${PEER}: Set a\\x0a`,
    `command ${PEER}: Get a\\x0a`,
    `command ${PEER}: Set long`,
    `command ${PEER}: Noop`,
    `command ${PEER}: opcode 0xee k`,
    `protocol_error ${PEER}: Unknown command: opcode 0xee k`,
    `command ${PEER}: Increment a\\x0a`,
    `protocol_error ${PEER}: Non-numeric server-side value for incr or decr: Increment a\\x0a`,
    `command ${PEER}: Quit`,
  ]);
  assert(peer.closed);
});

Deno.test("a connection closed without a reply is a protocol error, quit is not", () => {
  const side = new ConversationSide(["-vv"]);
  side.connect().ask("GET / HTTP/1.1\r\n");
  side.connect().ask("quit\r\n");
  assertEquals(messages(side), [`protocol_error ${PEER}: malformed, closing: GET / HTTP/1.1`]);
});

Deno.test("quit behind a long reply is no protocol error, however small a slice is", () => {
  const side = new ConversationSide(["-vv", "-R", "1"]);
  const peer = side.connect();
  assert(peer.ask("stats\r\nquit\r\n").endsWith("END\r\n"));
  assert(peer.closed);
  assertEquals(messages(side), []);
});

Deno.test("logged commands are bounded in length and in number per second", () => {
  const side = new ConversationSide(["-vvv"]);
  const peer = side.connect();
  peer.ask(`get ${"k".repeat(240)}\r\n`);
  assertEquals(side.events.pop()!.fields["command"], `get ${"k".repeat(196)}…`);
  peer.ask("get a\r\n".repeat(5000));
  assertEquals(side.events.length, 1000);
  assertEquals(side.events.at(-1)!.event, "log_limited");
  side.events.length = 0;
  side.advanceNow(1);
  peer.ask("get a\r\n");
  assertEquals(messages(side), [`command ${PEER}: get a`]);
});

Deno.test("below -vv nothing is traced, and verbosity changes it for new connections", () => {
  const side = new ConversationSide(["-v"]);
  const plain = side.protocols.open(900 as ConnectionId, { protocol: "auto" });
  assertEquals(plain.constructor, Conversation);
  const peer = side.connect();
  peer.ask("bogus\r\nverbosity 2\r\nbogus\r\n");
  assertEquals(messages(side), []);
  const traced = side.protocols.open(901 as ConnectionId, { protocol: "auto" });
  assertEquals(traced.constructor, TracedConversation);
  side.connect().ask("get a\r\noops\r\nverbosity 0\r\nbogus\r\n");
  assertEquals(messages(side), [`protocol_error ${PEER}: ERROR: oops`]);
});
