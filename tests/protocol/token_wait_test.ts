import { assertEquals, assertMatch } from "@std/assert";
import { CONTROL } from "../../store/memory/memory.ts";
import { opcodeOf, packetText } from "../support/sessions/binary_text.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";
import { queuedRecords } from "../support/queued_records.ts";

// A server with a journal whose thread is this test: `write` does what the thread does.

const OPTIONS = ["--state-dir", "/nowhere"];

/** Takes all records out of the queue, as written to the disk or as refused by it. */
function write(side: ConversationSide, isWritten: boolean): void {
  const { cache } = side.thread;
  const { queue } = cache.journal;
  const records = queuedRecords(queue);
  const { length } = records.bytes;
  const position = queue.take(length);
  cache.enter();
  cache.journal.settle(records, 0, length, Infinity, isWritten);
  cache.journal.settleWaiters(position);
  cache.leave();
  side.advanceNow(0);
}

function statOf(side: ConversationSide, name: string): string {
  const reply = side.connect().ask("stats\r\n");
  return new RegExp(`STAT ${name} (\\S+)`).exec(reply)![1]!;
}

Deno.test("token get is answered when its record is on the disk, and so are the requests behind it", () => {
  using side = new ConversationSide(OPTIONS);
  const writer = side.connect();
  const reader = side.connect();
  reader.ask("set k 0 0 1\r\n1\r\n");
  assertEquals(writer.ask("token get k me\r\nget k\r\n"), "");
  assertEquals(reader.ask("get k\r\nset k 0 0 1\r\n1\r\n"), "END\r\nNOT_STORED\r\n");
  assertEquals(reader.ask("token list\r\n"), "END\r\n");
  write(side, true);
  const reply = writer.ask("");
  assertMatch(reply, /^TOKEN \d+\r\nEND\r\n$/);
  const [id] = /\d+/.exec(reply)!;
  assertMatch(reader.ask("token list\r\n"), new RegExp(`^TOKEN k ${id} 0 me `));
  assertEquals(writer.ask(`token release k ${id}\r\n`), "OK\r\n");
});

Deno.test("token list has the token with the first id that there is", () => {
  using side = new ConversationSide(["--tokens", "volatile", "--token-quarantine", "0"]);
  const { control } = side.thread.memory;
  control[CONTROL.ID_LOW] = control[CONTROL.ID_HIGH] = 0;
  const peer = side.connect();
  peer.ask("token get k me\r\n");
  assertMatch(peer.ask("token list\r\n"), /^TOKEN k 1 0 me .*\r\nEND\r\n$/);
});

Deno.test("token list finds every token of a prefix, however many others are out", () => {
  using side = new ConversationSide(["--tokens", "volatile", "--token-quarantine", "0"]);
  const peer = side.connect();
  for (let index = 0; index < 200; index++) peer.ask(`token get ${"abc"[index % 3]}${index}\r\n`);
  const keysOf = (prefix: string): string[] =>
    [...peer.ask(`token list ${prefix}\r\n`).matchAll(/^TOKEN (\S+) /gm)].map(([, key]) => key!);
  const all = keysOf("");
  assertEquals(all.length, 200);
  for (const prefix of ["a", "b1", "c199"]) {
    assertEquals(keysOf(prefix), all.filter((key) => key.startsWith(prefix)));
  }
});

Deno.test("a token that the disk refused is none", () => {
  using side = new ConversationSide(OPTIONS);
  const watcher = side.connect();
  watcher.ask("watch tokens\r\n");
  const writer = side.connect();
  assertEquals(writer.ask("token get k me\r\ntoken get l\r\n"), "");
  write(side, false);
  assertEquals(writer.ask(""), "SERVER_ERROR cannot persist update token\r\n");
  write(side, false);
  assertEquals(
    writer.ask("set k 0 0 1\r\n1\r\n"),
    "SERVER_ERROR cannot persist update token\r\nSTORED\r\n",
  );
  assertEquals([statOf(side, "token_curr"), statOf(side, "token_journal_errors")], ["0", "2"]);
  assertEquals(watcher.resume().match(/op=\w+ key=\w+/g), [
    "op=get key=k",
    "op=failed key=k",
    "op=get key=l",
    "op=failed key=l",
  ]);
});

Deno.test("who asks again while the record is written gets the same token", () => {
  using side = new ConversationSide(OPTIONS);
  const lost = side.connect();
  const again = side.connect();
  lost.ask("token get k me\r\n");
  lost.disconnect();
  assertEquals(again.ask("token get k me\r\n"), "");
  const other = side.connect();
  assertEquals(other.ask("token get k me\r\n"), "");
  write(side, true);
  const reply = again.ask("");
  assertMatch(reply, /^TOKEN \d+\r\n$/);
  assertEquals(other.ask(""), reply);
  assertEquals(other.ask("token get k me\r\n"), reply, "at once");
  assertEquals(statOf(side, "token_get"), "1");
});

Deno.test("binary: TokenGet waits too, and keeps its opaque", () => {
  using side = new ConversationSide(OPTIONS);
  const opcode = opcodeOf("TokenGet");
  const request = packetText({ opcode, opaque: 7, key: "k", value: "me" });
  const noop = packetText({ opcode: opcodeOf("Noop"), opaque: 8 });
  const writer = side.connect();
  assertEquals(writer.ask(request + noop), "");
  write(side, false);
  const noopReply = packetText({ magic: 0x81, opcode: opcodeOf("Noop"), opaque: 8 });
  const value = "Cannot persist update token";
  const refused = packetText({ magic: 0x81, opcode, status: 0x86, opaque: 7, value });
  assertEquals(writer.ask(""), refused + noopReply);
  assertEquals(writer.ask(request), "");
  write(side, true);
  const [, id] = /TOKEN k (\d+) /.exec(side.connect().ask("token list\r\n"))!;
  const parts = packetText({ magic: 0x81, opcode, opaque: 7, extras: "\0".repeat(8) });
  const reply = writer.ask("");
  assertEquals(reply.slice(0, 24), parts.slice(0, 24));
  const bytes = Uint8Array.from(reply.slice(24), (char) => char.charCodeAt(0));
  assertEquals(new DataView(bytes.buffer).getBigUint64(0), BigInt(id!));
});

Deno.test("a connection that ends while the record is written leaves its token", () => {
  using side = new ConversationSide(OPTIONS);
  const writer = side.connect();
  writer.ask("token get k me\r\n");
  writer.disconnect();
  write(side, true);
  const other = side.connect();
  assertEquals(other.ask("set k 0 0 1\r\n1\r\n"), "NOT_STORED\r\n");
  assertEquals(statOf(side, "token_curr"), "1");
});

Deno.test("without a readable journal there are no tokens, and quarantine cannot be turned off", () => {
  using side = new ConversationSide(OPTIONS);
  const { cache } = side.thread;
  cache.journal.queue.makeUnusable();
  const operator = side.connect();
  operator.ask("quarantine on\r\n");
  const refusal =
    "SERVER_ERROR the journal of update tokens cannot be read; start again with --token-recover\r\n";
  assertEquals(operator.ask("quarantine off\r\n"), refusal);
  assertEquals(operator.ask("set k 0 0 1\r\n1\r\n"), "NOT_STORED\r\n");
  assertEquals(operator.ask("token get k\r\n"), "SERVER_ERROR cannot persist update token\r\n");
  assertEquals(operator.ask("token release k 5\r\n"), "NOT_FOUND\r\n");
});

Deno.test("token list names the peer that took a token, in each protocol", () => {
  using side = new ConversationSide(["--tokens", "volatile", "--token-quarantine", "0"]);
  const text = side.connect();
  const binary = side.connect();
  text.ask("token get a me\r\n");
  binary.ask(packetText({ opcode: opcodeOf("TokenGet"), key: "b" }));
  const list = text.ask("token list\r\n");
  assertMatch(list, /^TOKEN a \d+ \d+ me tcp:127\.0\.0\.1:1\r\n/m);
  assertMatch(list, /^TOKEN b \d+ \d+ - tcp:127\.0\.0\.1:1\r\n/m);
});
