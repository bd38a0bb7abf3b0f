import { assertEquals } from "@std/assert";
import { OPCODES } from "../../protocol/binary_opcodes.ts";
import { numberBytes, packetText } from "../support/sessions/binary_text.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";

// An item remembers that its key came in base64, whatever changes its value.

const KEY = "foo";
const BASE64 = btoa(KEY);
/** Longer than what is left of a small chunk, and long enough for a chain of chunks. */
const PIECES = ["1", "1".repeat(100), "1".repeat(20_000)];

/** Requests that join a piece with the value. */
const JOINS: Readonly<Record<string, (piece: string) => string>> = {
  "text append": (piece) => `append ${KEY} 0 0 ${piece.length}\r\n${piece}\r\n`,
  "text prepend": (piece) => `prepend ${KEY} 0 0 ${piece.length}\r\n${piece}\r\n`,
  "meta append by the word": (piece) => `ms ${KEY} ${piece.length} MA\r\n${piece}\r\n`,
  "meta prepend by the word": (piece) => `ms ${KEY} ${piece.length} MP\r\n${piece}\r\n`,
  "meta append in base64": (piece) => `ms ${BASE64} ${piece.length} b MA\r\n${piece}\r\n`,
  "meta prepend in base64": (piece) => `ms ${BASE64} ${piece.length} b MP\r\n${piece}\r\n`,
  "meta append with an id": (piece) => `ms ${KEY} ${piece.length} MA E7\r\n${piece}\r\n`,
  "binary append": (value) => packetText({ opcode: OPCODES.Append[0], key: KEY, value }),
  "binary prepend": (value) => packetText({ opcode: OPCODES.Prepend[0], key: KEY, value }),
};

/** Other ways to change an item whose value is 9. */
const CHANGES: Readonly<Record<string, string>> = {
  "text incr": `incr ${KEY} 1\r\n`,
  "meta arithmetic": `ma ${KEY}\r\n`,
  "meta arithmetic with an id": `ma ${KEY} E7\r\n`,
  "binary increment": packetText({
    opcode: OPCODES.Increment[0],
    key: KEY,
    extras: numberBytes(1, 8) + numberBytes(0, 8) + numberBytes(0, 4),
  }),
  touch: `touch ${KEY} 100\r\n`,
  gat: `gat 100 ${KEY}\r\n`,
  "meta touch": `mg ${KEY} T100\r\n`,
  "meta stale": `md ${KEY} I\r\n`,
  "meta stale with an id": `md ${KEY} I E7\r\n`,
  "meta empty": `md ${KEY} x\r\n`,
  "meta empty with an id": `md ${KEY} x I E7\r\n`,
};

/** The reply to `mg k` of the item, without W, X and Z. */
function keyAfter(value: string, request: string): string {
  using side = new ConversationSide();
  const peer = side.connect();
  assertEquals(peer.ask(`ms ${BASE64} ${value.length} b\r\n${value}\r\n`), "HD\r\n");
  side.connect().ask(request);
  return peer.ask(`mg ${KEY} k\r\n`).replace(/(?: [WXZ])*\r\n$/, "");
}

for (const [name, join] of Object.entries(JOINS)) {
  Deno.test(`a key in base64 stays so: ${name}`, () => {
    for (const old of PIECES) {
      for (const piece of PIECES) {
        assertEquals(
          keyAfter(old, join(piece)),
          `HD k${BASE64} b`,
          `${old.length}+${piece.length}`,
        );
      }
    }
  });
}

for (const [name, request] of Object.entries(CHANGES)) {
  Deno.test(`a key in base64 stays so: ${name}`, () => {
    assertEquals(keyAfter("9", request), `HD k${BASE64} b`);
  });
}

Deno.test("a key that came as a word stays a word when a request in base64 extends its value", () => {
  for (const request of ["append in base64", "prepend in base64"]) {
    for (const piece of PIECES) {
      using side = new ConversationSide();
      const peer = side.connect();
      peer.ask(`set ${KEY} 0 0 1\r\n1\r\n`);
      peer.ask(JOINS[`meta ${request}`]!(piece));
      assertEquals(peer.ask(`mg ${BASE64} b k\r\n`), `HD k${KEY}\r\n`);
    }
  }
});

Deno.test("a value that replaces another takes the form of the new request's key", () => {
  using side = new ConversationSide();
  const peer = side.connect();
  peer.ask(`ms ${BASE64} 1 b\r\n1\r\n`);
  peer.ask(`set ${KEY} 0 0 1\r\n1\r\n`);
  assertEquals(peer.ask(`mg ${KEY} k\r\n`), `HD k${KEY}\r\n`);
});
