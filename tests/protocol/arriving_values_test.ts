import { assert, assertEquals } from "@std/assert";
import { type ConversationPeer, ConversationSide } from "../support/sessions/conversation_side.ts";

const KIB = 1024;

function arriving(peer: ConversationPeer): [count: number, bytes: number] {
  const stats = peer.ask("stats\r\n");
  const number = (name: string): number =>
    Number(new RegExp(`STAT ${name} (\\d+)`).exec(stats)![1]);
  return [number("values_arriving"), number("values_arriving_bytes")];
}

function dropped(peer: ConversationPeer): number {
  return Number(/STAT values_dropped (\d+)/.exec(peer.ask("stats\r\n"))![1]);
}

Deno.test("a client whose arriving value was dropped is told so, and served on", () => {
  using side = new ConversationSide(["-m", "8", "-c", "200"]);
  const client = side.connect();
  assertEquals(client.ask("set slow0 0 0 3\r\nold\r\n"), "STORED\r\n");
  const length = 1_000_000;
  const arrived = 200_000;
  const slow = Array.from({ length: 50 }, () => side.connect());
  for (const [index, peer] of slow.entries()) {
    assertEquals(peer.ask(`set slow${index} 0 0 ${length}\r\n${"v".repeat(arrived)}`), "");
  }
  const [values, bytes] = arriving(client);
  assert(bytes <= 2 * 1024 * KIB, `${bytes} bytes`);
  assertEquals(values + dropped(client), slow.length);
  // The set takes effect when its client is told: then the old value is out of date.
  assertEquals(client.ask("get slow0\r\n"), "VALUE slow0 0 3\r\nold\r\nEND\r\n");
  assertEquals(slow[0]!.ask("v"), "SERVER_ERROR out of memory storing object\r\n");
  assertEquals(client.ask("get slow0\r\n"), "END\r\n");
  const rest = "v".repeat(length - arrived - 1);
  assertEquals(slow[0]!.ask(`${rest}\r\nmn\r\n`), "MN\r\n");
  const last = "v".repeat(length - arrived);
  assertEquals(slow.at(-1)!.ask(`${last}\r\n`), "STORED\r\n");
  for (const peer of slow) peer.disconnect();
  assertEquals(arriving(client), [0, 0]);
});

Deno.test("a value of which only the header came takes one chunk, and evicts nothing", () => {
  using side = new ConversationSide(["-m", "64", "-c", "2000"]);
  const client = side.connect();
  const count = 1000;
  for (let index = 0; index < count; index++) {
    client.ask(`set old${index} 0 0 20000 noreply\r\n${"v".repeat(20_000)}\r\n`);
  }
  const peers = Array.from({ length: count }, () => side.connect());
  for (const [index, peer] of peers.entries()) {
    assertEquals(peer.ask(`set new${index} 0 0 1000000\r\n`), "");
  }
  const [values, bytes] = arriving(client);
  assertEquals(values, count);
  assert(bytes <= 4 * count * KIB, `${bytes} bytes`);
  for (let index = 0; index < count; index++) {
    assert(client.ask(`mg old${index}\r\n`).startsWith("HD"), `old${index} was evicted`);
  }
  for (const peer of peers) peer.disconnect();
  assertEquals(arriving(client), [0, 0]);
});

Deno.test("a value that arrives has memory for a multiple of what has arrived", () => {
  using side = new ConversationSide();
  const client = side.connect();
  const sender = side.connect();
  const length = 1_000_000;
  sender.ask(`set k 0 0 ${length}\r\n`);
  for (let sent = 0; sent < length;) {
    const piece = Math.min(length - sent, 100 + sent);
    sender.ask("v".repeat(piece));
    sent += piece;
    const [values, bytes] = arriving(client);
    assertEquals(values, 1);
    const ahead = Math.min(128 * sent, 128 * KIB);
    assert(bytes < sent + ahead + 16 * KIB, `${bytes} bytes after ${sent}`);
  }
  assertEquals(sender.ask("\r\n"), "STORED\r\n");
  assertEquals(arriving(client), [0, 0]);
  assertEquals(client.ask("get k\r\n"), `VALUE k 0 ${length}\r\n${"v".repeat(length)}\r\nEND\r\n`);
});
