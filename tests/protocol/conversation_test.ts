import { assert, assertEquals, assertLessOrEqual, assertStringIncludes } from "@std/assert";
import { ConversationState } from "../../protocol/conversation.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { INPUT_BYTES, LINE_LENGTH_MAX, PENDING_BYTES_MAX } from "../../store/limits.ts";
import { textOf } from "../support/sessions/side.ts";
import { type ConversationPeer, ConversationSide } from "../support/sessions/conversation_side.ts";

const BAD_FORMAT = "CLIENT_ERROR bad command line format\r\n";

/** Something to recognise: no two neighbouring stretches are equal. */
function valueOf(length: number, seed = 0): string {
  let value = "";
  for (let at = seed; value.length < length; at++) value += `${at}.`;
  return value.slice(0, length);
}

function set(key: string, value: string, more = ""): string {
  return `set ${key} 0 0 ${value.length}${more}\r\n${value}\r\n`;
}

/** Returns the reply to a `get` of these. */
function hits(...items: (readonly [key: string, value: string])[]): string {
  return items.map(([key, value]) => `VALUE ${key} 0 ${value.length}\r\n${value}\r\n`).join("") +
    "END\r\n";
}

function askInPieces(peer: ConversationPeer, request: string, pieceLength: number): string {
  let replies = "";
  for (let at = 0; at < request.length && !peer.closed; at += pieceLength) {
    replies += peer.ask(request.slice(at, at + pieceLength));
    assertLessOrEqual(peer.pendingLength, PENDING_BYTES_MAX);
  }
  return replies;
}

const SESSION = [
  set("a", "1"),
  "get a\r\n",
  "get a\nget  a \r\n",
  "gets a\r\ngets nothing a\r\n",
  "set b 4294967295 100 5\r\nhello\r\n",
  "set b 1 0 5 noreply\r\nhallo\r\n",
  "set b +1 \t5 5\r\nhollo\r\n",
  "get a b c a\r\n",
  "incr a 41\r\ndecr a 1\r\nincr b 1\r\nincr a x\r\nincr\r\n",
  "append b 0 0 1\r\n!\r\nprepend b 0 0 1\r\n!\r\n",
  "add a 0 0 1\r\nx\r\nreplace c 0 0 1\r\nx\r\n",
  "cas a 0 0 1 1\r\nx\r\ncas c 0 0 1 1\r\nx\r\ncas a 0 0 1\r\nx\r\n",
  "touch a 100\r\ntouch c 100\r\ntouch a x\r\n",
  "gat 100 a c b\r\ngats 100 a\r\ngat x a\r\n",
  `get ${"k".repeat(251)}\r\nget a ${"k".repeat(251)} b\r\nset ${"k".repeat(251)} 0 0 1\r\nx\r\n`,
  "set a 0 0 3\r\nabcdef\r\nget a\r\n",
  "set a 0 0 x\r\nset a x 0 1\r\nx\r\nset a 0 x 1 noreply\r\nx\r\n",
  set("long", valueOf(10_000)),
  "get long a\r\n",
  "append long 0 0 5000\r\n" + valueOf(5000, 9) + "\r\n",
  "set bad 0 0 5000\r\n" + valueOf(5000) + "xx\r\nget bad\r\n",
  "delete a\r\ndelete a\r\ndelete b noreply\r\n",
  "bogus\r\nbogus noreply\r\n\r\n  \r\n",
  "version\r\nverbosity 1\r\nverbosity\r\nmn\r\n",
  "flush_all\r\nget long\r\nflush_all noreply\r\n",
  "stats bogus\r\nstats reset\r\n",
  "quit\r\nget a\r\n",
].join("");

Deno.test("feed() answers the same however the bytes are cut", () => {
  const whole = new ConversationSide().connect().ask(SESSION);
  assertStringIncludes(whole, "CLIENT_ERROR bad data chunk");
  for (const pieceLength of [1, 2, 3, 7, 64, 1000, 5000]) {
    using side = new ConversationSide();
    const peer = side.connect();
    assertEquals(askInPieces(peer, SESSION, pieceLength), whole, `pieces of ${pieceLength}`);
    assert(peer.closed);
  }
});

Deno.test("feed() answers the same for every single cut", () => {
  const session = set("a", "12") + "get a\r\ngets a b\r\nset a 1 2 3 noreply\r\nxyz\r\nget a\r\n" +
    "incr a 1\r\ndelete a\r\nget " + "k".repeat(260) + " a\r\n\r\ntouch a 1\r\n";
  const whole = new ConversationSide().connect().ask(session).replaceAll(/1[0-9]{9,}/g, "id");
  for (let cut = 1; cut < session.length; cut++) {
    const peer = new ConversationSide().connect();
    const replies = peer.ask(session.slice(0, cut)) + peer.ask(session.slice(cut));
    assertEquals(replies.replaceAll(/1[0-9]{9,}/g, "id"), whole, `cut at ${cut}`);
  }
});

Deno.test("values of every size come back as they were stored", () => {
  using side = new ConversationSide();
  const peer = side.connect();
  const lengths = [0, 1, 4095, 4096, 4097, 16_000, 16_400, 65_536, 70_000, 262_144, 700_000];
  for (const length of lengths) {
    const value = valueOf(length, length);
    for (const pieceLength of [1400, INPUT_BYTES]) {
      assertEquals(askInPieces(peer, set("k", value), pieceLength), "STORED\r\n");
      assertEquals(peer.ask("get k\r\n"), hits(["k", value]));
    }
  }
});

Deno.test("replies that do not fit the reply buffer are sent one after the other", () => {
  const peer = new ConversationSide().connect();
  const items = Array.from(
    { length: 40 },
    (_, index) => [`k${index}`, valueOf(15_000, index)] as const,
  );
  for (const [key, value] of items) peer.ask(set(key, value));
  const keys = items.map(([key]) => key).join(" ");
  assertEquals(peer.ask(`get ${keys}\r\nget k0\r\n`), hits(...items) + hits(items[0]!));
  const single = items.map(([key]) => `get ${key}\r\n`).join("");
  assertEquals(peer.ask(single), items.map((item) => hits(item)).join(""));
});

Deno.test("a reader gets the old value although it is replaced during the reply", () => {
  using side = new ConversationSide();
  const { thread } = side;
  const writer = side.connect();
  const old = valueOf(600_000, 1);
  askInPieces(writer, set("k", old), INPUT_BYTES);
  const reader = side.protocols.open(1_000_000 as ConnectionId, { protocol: "auto" });
  thread.input.bytes.set(new TextEncoder().encode("get k\r\n"));
  let replies = "";
  let at = 0;
  let deleted = 0;
  do {
    thread.input.bytes.set(new TextEncoder().encode("get k\r\n"));
    thread.reply.reset();
    at = reader.feed(at, 7);
    replies += textOf(thread.reply.region.bytes.subarray(0, thread.reply.length));
    if (writer.ask("delete k\r\n") === "DELETED\r\n") deleted++;
  } while (reader.state === ConversationState.UNFINISHED);
  assertEquals(replies, hits(["k", old]));
  assertEquals(deleted, 1);
  reader.end();
});

Deno.test("a connection that ends in the middle of a value gives everything back", () => {
  const side = new ConversationSide();
  const peer = side.connect();
  peer.ask(`set k 0 0 500000\r\n${valueOf(300_000)}`);
  peer.disconnect();
  side.check();
  assertEquals(side.connect().ask("get k\r\nstats slabs\r\n").includes("total_pages"), false);
});

Deno.test("a get line may be longer than every buffer", () => {
  const peer = new ConversationSide().connect();
  peer.ask(set("a", "1") + set("b", "2"));
  const misses = Array.from({ length: 20_000 }, (_, index) => `nothing${index}`).join(" ");
  for (const pieceLength of [1000, 4096, INPUT_BYTES]) {
    assertEquals(
      askInPieces(peer, `get a ${misses} b\r\nget b\r\n`, pieceLength),
      hits(["a", "1"], ["b", "2"]) + hits(["b", "2"]),
    );
  }
});

Deno.test("an over-long key ends a get line that has begun, and the next line is read", () => {
  const peer = new ConversationSide().connect();
  peer.ask(set("a", "1"));
  const line = `get ${"x ".repeat(3000)}${"k".repeat(100_000)} a\r\n`;
  assertEquals(askInPieces(peer, `${line}get a\r\n`, 4096), BAD_FORMAT + hits(["a", "1"]));
});

Deno.test("a line without end closes the connection, beyond 2048 bytes", () => {
  for (const start of ["set ", "gat ", "getx", "get\t", "  ", ""]) {
    const peer = new ConversationSide().connect();
    assertEquals(peer.ask(start.padEnd(LINE_LENGTH_MAX, "x")), "");
    assert(!peer.closed, start);
    assertEquals(peer.ask("x"), "");
    assert(peer.closed, start);
  }
});

Deno.test("a longer line that has its end is executed", () => {
  const peer = new ConversationSide().connect();
  assertEquals(
    peer.ask(`set k 0 0 1${" ".repeat(20_000)}\r\nx\r\nget k\r\n`),
    "STORED\r\n" + hits(["k", "x"]),
  );
  // Its small value is not here yet, and the line is too long to be kept.
  assertEquals(peer.ask(`set k 0 0 1${" ".repeat(20_000)}\r\n`), "");
  assertLessOrEqual(peer.pendingLength, PENDING_BYTES_MAX);
  assertEquals(peer.ask("y\r\nget k\r\n"), "STORED\r\n" + hits(["k", "y"]));
});

Deno.test("a value that is too large is refused at once and passed over", () => {
  const peer = new ConversationSide().connect();
  peer.ask(set("k", "old"));
  assertEquals(
    peer.ask("add k 0 0 2000000\r\n"),
    "SERVER_ERROR object too large for cache\r\n",
  );
  for (let sent = 0; sent < 2_000_002; sent += 10_000) {
    peer.ask("x".repeat(Math.min(10_000, 2_000_002 - sent)));
  }
  assertEquals(peer.ask("get k\r\n"), hits(["k", "old"]));
  assertEquals(peer.ask("append k 0 0 2000000 noreply\r\n"), "");
  for (let sent = 0; sent < 2_000_002; sent += 10_000) {
    peer.ask("x".repeat(Math.min(10_000, 2_000_002 - sent)));
  }
  assertEquals(peer.ask("get k\r\n"), hits(["k", "old"]));
  assertEquals(peer.ask("set k 0 0 2147483645\r\n"), "SERVER_ERROR object too large for cache\r\n");
  assertEquals(new ConversationSide().connect().ask("get k\r\n"), "END\r\n");
});

Deno.test("a long value may be stored in silence, or fail in silence", () => {
  const peer = new ConversationSide().connect();
  const value = valueOf(9000);
  assertEquals(
    askInPieces(peer, set("k", value, " noreply") + "get k\r\n", 1000),
    hits(["k", value]),
  );
  const bad = `set k 0 0 9000 noreply\r\n${value}xxget k\r\n`;
  assertEquals(askInPieces(peer, bad, 1000), hits(["k", value]));
});

Deno.test("quit and HTTP close, and what follows is not executed", () => {
  const side = new ConversationSide();
  for (const last of ["quit\r\n", "quit now noreply\r\n", "GET / HTTP/1.1\r\n"]) {
    const peer = side.connect();
    assertEquals(peer.ask(`mn\r\n${last}${set("k", "x")}`), "MN\r\n");
    assert(peer.closed);
  }
  assertEquals(side.connect().ask("get k\r\n"), "END\r\n");
});

/** The times that a ConversationSide takes the mutex beside each batch. */
const LOCKS_BESIDE = 1;

/** How often a batch takes the mutex where reads go without it. */
const LOCKS: Readonly<Record<string, readonly [batch: string, locks: number]>> = {
  "get, gets and getss": ["get k\r\nget  k\r\ngets k\r\ngetss 9 k\r\nget k none k\r\n", 0],
  "meta reads": ["mg k v\r\nmg k s t c f k Oo q\r\nmg none v q\r\nmn\r\n", 0],
  "mn alone": ["mn\r\n", 0],
  "Get and Noop": [`${packet(0, "k")}${packet(0x0c, "k")}${packet(0x0a, "")}`, 0],
  "sets": [set("k", "x") + set("k", "x"), 1],
  "sets and gets in turn": [`get k\r\n${set("k", "x")}get k\r\n${set("k", "x")}`, 2],
  "mg with flags that need it": ["mg k v h\r\nmg k v T9\r\nmg none N9\r\nmg k l\r\n", 1],
};

/** A binary request with a short key and nothing else. */
function packet(opcode: number, key: string): string {
  const header = new Uint8Array(24);
  header.set([0x80, opcode, 0, key.length]);
  header[11] = key.length;
  return textOf(header) + key;
}

for (const [name, [batch, locks]] of Object.entries(LOCKS)) {
  Deno.test(`with two threads, a batch of ${name} takes the mutex ${locks} times`, {
    ignore: Deno.build.arch !== "x86_64",
  }, () => {
    const side = new ConversationSide(["-t", "2", "-z", "13107"]);
    side.connect().ask(set("k", "x"));
    const peer = side.connect();
    const { mutex } = side.thread.cache;
    const lock = mutex.lock.bind(mutex);
    let count = 0;
    mutex.lock = () => {
      count++;
      lock();
    };
    assert(peer.ask(batch).length > 0);
    assertEquals(count - LOCKS_BESIDE, locks);
  });
}

Deno.test("idle is false only in the middle of a request", () => {
  const side = new ConversationSide();
  const conversation = side.protocols.open(1_000_000 as ConnectionId, {
    protocol: "ascii",
  });
  const feed = (text: string): void => {
    side.thread.input.bytes.set(new TextEncoder().encode(text));
    side.thread.reply.reset();
    conversation.feed(0, text.length);
  };
  assert(conversation.idle);
  feed(`set k 0 0 5000\r\n${"x".repeat(4000)}`);
  assert(!conversation.idle);
  feed(`${"x".repeat(1000)}\r\n`);
  assert(conversation.idle);
  conversation.end();
  conversation.end();
});

Deno.test("mg with u leaves no trace, also without the mutex", () => {
  const side = new ConversationSide(["-t", "2"]);
  const peer = side.connect();
  assertEquals(
    peer.ask("set k 0 0 1\r\n1\r\nmg k u v\r\nmg k h u\r\n"),
    "STORED\r\nVA 1\r\n1\r\nHD h0\r\n",
  );
  assertEquals(peer.ask("mg k v\r\nmg k h\r\n"), "VA 1\r\n1\r\nHD h1\r\n");
});
