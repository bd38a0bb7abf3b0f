import { assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { OPCODES } from "../../protocol/binary_opcodes.ts";
import { CONTROL } from "../../store/memory/memory.ts";
import type { RowRequest } from "../../store/row_cache.ts";
import { packetText } from "../support/sessions/binary_text.ts";
import type { ConversationPeer } from "../support/sessions/conversation_side.ts";
import { RowsSide } from "../support/sessions/rows_side.ts";

/** A server whose database answers when the test says so. With `using`, its memory is checked at the end. */
class Rows extends RowsSide {
  /** Requests taken in each step. */
  readonly steps: number[] = [];
  protected override version = 100;

  constructor(options: readonly string[] = [], rightFrom?: string) {
    super(["-z", "0x3333", ...options], rightFrom);
  }

  protected override work(): void {}

  /** Refuses writes of some keys. */
  override answer(taken: readonly RowRequest[]): void {
    const bad = taken.filter(({ key }) => key.startsWith("bad"));
    if (bad.length > 0) this.serverRows.fail(bad, "no such luck");
    super.answer(taken.filter((each) => !bad.includes(each)));
  }

  /** Does what is queued, until nothing is. */
  run(): void {
    for (let taken = this.take(); taken.length > 0; taken = this.take()) {
      this.steps.push(taken.length);
      this.answer(taken);
      this.advanceNow(0);
    }
    this.advanceNow(0);
  }

  /** Sends what waits for the database. Returns the replies. */
  ask(peer: ConversationPeer, text: string): string {
    assertEquals(peer.ask(text), "");
    this.run();
    return peer.ask("");
  }
}

Deno.test("a set is answered when it is in the database, and a get reads it from there once", () => {
  using rows = new Rows();
  const peer = rows.connect();
  const found = "VALUE k 7 5 101\r\nhello\r\nEND\r\n";
  assertEquals(rows.ask(peer, "set k 7 0 5\r\nhello\r\n"), "STORED\r\n");
  assertEquals(rows.ask(peer, "gets k\r\n"), found);
  assertEquals(peer.ask("gets k\r\nget k x\r\n"), `${found}VALUE k 7 5\r\nhello\r\n`);
  assertEquals(rows.ask(peer, ""), "END\r\n");
  assertEquals(peer.ask("get x\r\n"), "END\r\n");
  assertEquals(rows.steps, [1, 1, 1]);
});

Deno.test("writes of one connection are handed over together and answered in order", () => {
  using rows = new Rows();
  const peer = rows.connect();
  const sets = Array.from(
    { length: 100 },
    (_, index) => `set k${index} 0 0 1\r\n${index % 10}\r\n`,
  );
  assertEquals(
    rows.ask(peer, `${sets.join("")}add k1 0 0 1\r\nx\r\nincr k9 5\r\ndelete k2\r\nget k2\r\n`),
    `${"STORED\r\n".repeat(100)}NOT_STORED\r\n14\r\nDELETED\r\nEND\r\n`,
  );
  assertEquals(rows.steps, [64, 39, 1]);
});

Deno.test("what a connection has sent behind its write waits for it", () => {
  using rows = new Rows();
  const peer = rows.connect();
  const version = "VERSION 1.6.45-leased-0.0.0\r\n";
  assertEquals(
    peer.ask("version\r\nset k 0 0 1\r\n1\r\nversion\r\nset l 0 0 1 noreply\r\n1\r\nmn\r\n"),
    version,
  );
  assertEquals(rows.ask(peer, ""), `STORED\r\n${version}MN\r\n`);
  assertEquals([...rows.rows.keys()], ["k", "l"]);
});

Deno.test("the rows of a line are read together, and those of pipelined lines", () => {
  using rows = new Rows();
  const peer = rows.connect();
  rows.ask(peer, "set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\n");
  rows.steps.length = 0;
  assertEquals(
    rows.ask(peer, "get a x b y\r\n"),
    "VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n",
  );
  assertEquals(rows.steps, [4]);
  assertEquals(
    rows.ask(peer, "get p\r\nget q\r\nget a\r\nget p\r\n"),
    "END\r\nEND\r\nVALUE a 0 1\r\n1\r\nEND\r\nEND\r\n",
  );
  assertEquals(
    rows.ask(peer, "mg r v\r\nmg s v\r\nmg a v c\r\nmn\r\n"),
    "EN\r\nEN\r\nVA 1 c101\r\n1\r\nMN\r\n",
  );
  assertEquals(rows.steps, [4, 3, 2]);
});

Deno.test("a row that is too old for a cas, and one that the database refuses", () => {
  using rows = new Rows();
  const peer = rows.connect();
  rows.ask(peer, "set k 0 0 1\r\n1\r\n");
  assertEquals(
    rows.ask(
      peer,
      "cas k 0 0 1 5\r\n2\r\ncas k 0 0 1 101\r\n3\r\nset bad 0 0 1\r\n1\r\nset l 0 60 1\r\n1\r\nms k 2 c\r\n44\r\n",
    ),
    "EXISTS\r\nSTORED\r\nSERVER_ERROR no such luck\r\n" +
      "CLIENT_ERROR rows have no expiry time; see --row-expiry\r\nHD c103\r\n",
  );
});

Deno.test("a command with noreply is silent, whether its value arrives at once or in pieces", () => {
  using rows = new Rows();
  for (const length of [1, 200_000]) {
    const put = (words: string): string =>
      `uput k 0 ${length} 5${words}\r\n${"v".repeat(length)}\r\nmn\r\n`;
    assertEquals(rows.ask(rows.connect(), put("")), "SERVER_ERROR no commands\r\nMN\r\n");
    assertEquals(rows.ask(rows.connect(), put(" noreply")), "MN\r\n");
  }
});

Deno.test("ma T changes the expiry time of a row, where rows have one", () => {
  using rows = new Rows(["--row-expiry", "column"]);
  const peer = rows.connect();
  const timeLeft = (): number =>
    rows.rows.get("k")!.expiresUnixSec! - rows.thread.memory.control[CONTROL.STARTED_UNIX_SEC]!;
  rows.ask(peer, "set k 0 500 1\r\n1\r\n");
  assertEquals([rows.ask(peer, "ma k\r\n"), timeLeft()], ["HD\r\n", 502]);
  assertEquals([rows.ask(peer, "ma k T60\r\n"), timeLeft()], ["HD\r\n", 62]);
  assertEquals([rows.ask(peer, "ma l N60 J5\r\nma k N90 T70\r\n"), timeLeft()], [
    "HD\r\nHD\r\n",
    72,
  ]);
  using without = new Rows();
  const other = without.connect();
  without.ask(other, "set k 0 0 1\r\n1\r\n");
  assertEquals(
    other.ask("ma k T60\r\n"),
    "CLIENT_ERROR rows have no expiry time; see --row-expiry\r\n",
  );
  assertEquals(without.ask(other, "ma k v\r\n"), "VA 1\r\n2\r\n");
});

Deno.test("values of every size go through the database", () => {
  using rows = new Rows();
  const peer = rows.connect();
  for (const length of [0, 1, 4096, 4097, 60_000, 100_000, 1_000_000]) {
    const value = "v".repeat(length);
    const reply = rows.ask(peer, `set k 1 0 ${length}\r\n${value}\r\nget k\r\n`);
    assertEquals(
      reply === `STORED\r\nVALUE k 1 ${length}\r\n${value}\r\nEND\r\n`,
      true,
      `${length}: ${reply.slice(0, 60)}`,
    );
    rows.check();
    assertEquals(rows.serverRows.detached.count, 0);
  }
  assertEquals(rows.serverRows.requests.inUse, 0);
});

Deno.test("the binary protocol waits in the same way", () => {
  using rows = new Rows();
  const peer = rows.connect();
  const set = packetText({ opcode: 1, key: "k", extras: "\0\0\0\x07\0\0\0\0", value: "hello" });
  const gets = [{ opcode: 0x0c, key: "k" }, { opcode: 0x09, key: "x" }, { opcode: 0x0a }];
  assertStringIncludes(rows.ask(peer, set + gets.map(packetText).join("")), "khello");
});

Deno.test("binary Increment and Decrement with no time for a row change it, and make none", () => {
  using rows = new Rows();
  const peer = rows.connect();
  const extras = `${"\0".repeat(7)}\x02${"\0".repeat(8)}\xff\xff\xff\xff`;
  const asked = [0x05, 0x06].map((opcode) => packetText({ opcode, key: "k", extras }));
  for (const packet of asked) assertStringIncludes(rows.ask(peer, packet), "Not found");
  rows.ask(rows.connect(), "set k 0 0 1\r\n7\r\n");
  const numbers = asked.map((packet) => rows.ask(peer, packet).slice(-8));
  assertEquals(numbers, ["\x09", "\x07"].map((number) => number.padStart(8, "\0")));
});

Deno.test("binary gets before one that waits are answered once", () => {
  using rows = new Rows();
  const peer = rows.connect();
  rows.ask(peer, "set k 0 0 1\r\n1\r\nget k\r\n");
  const gets = ["k", "x", "k"].map((key) => packetText({ opcode: 0x0c, key })).join("");
  const binary = rows.connect();
  const found = binary.ask(gets);
  rows.run();
  const rest = binary.ask("");
  assertNotEquals(rest, "");
  assertEquals(found + rest, binary.ask(gets), "as when the cache knows all of them");
});

Deno.test("connections that end at any step leave nothing behind", () => {
  using rows = new Rows();
  const value = "v".repeat(100_000);
  const requests = [
    "set k 0 0 1\r\n1\r\nset k 0 0 1\r\n2\r\n",
    `set k 0 0 ${value.length}\r\n${value}\r\n`,
    "get k l m\r\nget k\r\n",
    "mg k v\r\nmg l v\r\n",
    "gat 0 k\r\n",
    "incr k 1\r\n",
  ];
  const { requests: table, detached } = rows.serverRows;
  for (const request of requests) {
    for (const when of ["queued", "taken", "done"]) {
      const peer = rows.connect();
      peer.ask(request);
      if (when === "queued") peer.disconnect();
      const taken = rows.take();
      if (when === "queued") assertEquals(taken, []);
      if (when === "taken") peer.disconnect();
      rows.answer(taken);
      peer.disconnect();
      rows.run();
      assertEquals([table.inUse, detached.count, table.queued], [0, 0, 0], `${request} ${when}`);
      rows.check();
    }
  }
});

Deno.test("a connection whose commands are logged writes each row once", () => {
  using rows = new Rows(["-vvv"]);
  const peer = rows.connect();
  assertEquals(
    rows.ask(peer, "set n 0 0 1\r\n1\r\nincr n 1\r\nset m 0 0 3\r\nabc\r\nget n m x\r\nmn\r\n"),
    "STORED\r\n2\r\nSTORED\r\nVALUE n 0 1\r\n2\r\nVALUE m 0 3\r\nabc\r\nEND\r\nMN\r\n",
  );
  assertEquals(rows.rows.get("n")!.version, 102);
});

Deno.test("the log names each command of a row once, and the one that fails", () => {
  using rows = new Rows(["-vvv"]);
  const peer = rows.connect();
  assertEquals(
    rows.ask(peer, "get a\r\nset k 0 0 1\r\n1\r\ndelete k\r\nset bad2 0 0 1\r\n1\r\nmn\r\n"),
    "END\r\nSTORED\r\nDELETED\r\nSERVER_ERROR no such luck\r\nMN\r\n",
  );
  const log = rows.events.map(({ event, message }) => `${event} ${message}`);
  assertEquals(log, [
    "command tcp:127.0.0.1:1: get a",
    "command tcp:127.0.0.1:1: set k 0 0 1",
    "command tcp:127.0.0.1:1: delete k",
    "command tcp:127.0.0.1:1: set bad2 0 0 1",
    "protocol_error tcp:127.0.0.1:1: SERVER_ERROR no such luck: set bad2 0 0 1",
    "command tcp:127.0.0.1:1: mn",
  ]);
});

Deno.test("a connection that ends while its long value waits for memory leaves none", () => {
  using rows = new Rows(["-m", "2"]);
  const set = (key: string, length: number): string =>
    `set ${key} 0 0 ${length}\r\n${"v".repeat(length)}\r\n`;
  const [first, second, waiting, last] = Array.from({ length: 4 }, () => rows.connect());
  first!.ask(set("a", 700_000));
  second!.ask(set("b", 700_000));
  assertEquals(waiting!.ask(set("c", 300_000)), "");
  waiting!.disconnect();
  rows.run();
  assertEquals([...rows.rows.keys()], ["a", "b"]);
  assertEquals([first!.ask(""), second!.ask("")], ["STORED\r\n", "STORED\r\n"]);
  assertMatch(last!.ask("stats\r\n"), /values_arriving 0\r\n/);
});

Deno.test("a row is fetched and locked; its holder writes it, and others wait", () => {
  using rows = new Rows();
  const [holder, other] = [rows.connect(), rows.connect()];
  const ask = (peer: ConversationPeer, text: string): string => rows.ask(peer, text);
  ask(holder, "set k 0 0 1\r\n1\r\n");
  assertEquals(ask(holder, "lock absent\r\n"), "NOT_FOUND\r\n");
  assertEquals(ask(holder, "lock k\r\n"), "OK\r\n");
  assertEquals(other.ask("lock k\r\n"), "LOCKED\r\n");
  assertEquals(ask(other, "set k 0 0 1\r\n2\r\n"), "LOCKED\r\n");
  assertEquals(ask(holder, "incr k 1\r\n"), "2\r\n");
  assertEquals(ask(other, "get k\r\n"), "VALUE k 0 1\r\n2\r\nEND\r\n");
  assertEquals(ask(other, "set k 0 0 1\r\n3\r\n"), "LOCKED\r\n");
  assertEquals(ask(holder, "set k 0 0 1\r\n5\r\n"), "STORED\r\n");
  rows.check();
  assertEquals(ask(other, "lock k 5000\r\n"), "");
  assertEquals(holder.ask("unlock k\r\n"), "OK\r\n");
  assertEquals(other.ask(""), "OK\r\n");
  assertEquals(
    holder.ask("unlock k\r\n"),
    "CLIENT_ERROR object is not locked or not found\r\n",
  );
  other.disconnect();
  assertEquals(ask(holder, "set k 0 0 1\r\n7\r\n"), "STORED\r\n");
});

Deno.test("an absent row is leased, and its holder makes it", () => {
  using rows = new Rows();
  const [holder, other] = [rows.connect(), rows.connect()];
  const lease = rows.ask(holder, "getss 10 k\r\n");
  const [, id] = /^VALUE k \d+ 1 (\d+)\r\n0\r\nEND\r\n$/.exec(lease)!;
  const [, shown] = /^VALUE k \d+ \d+ (\d+)\r\n[1-9]/.exec(other.ask("getss 10 k\r\n"))!;
  assertEquals(shown, id);
  assertEquals(rows.ask(holder, `cas k 0 0 1 ${id}\r\nv\r\n`), "STORED\r\n");
  assertEquals(
    rows.ask(other, `cas k 0 0 1 ${id}\r\nw\r\ngetss 10 k\r\n`),
    "EXISTS\r\nVALUE k 0 1 101\r\nv\r\nEND\r\n",
  );
});

Deno.test("lease list shows leases of clients, not reads of rows in progress", () => {
  using rows = new Rows();
  const [holder, reader, lister] = [rows.connect(), rows.connect(), rows.connect()];
  const [, id] = /^VALUE k \d+ 1 (\d+)\r\n/.exec(rows.ask(holder, "getss 10 k\r\n"))!;
  assertEquals(reader.ask("get other\r\n"), "");
  const taken = rows.take();
  assertEquals(lister.ask("lease list\r\n"), `LEASE k ${id} 10\r\nEND\r\n`);
  rows.answer(taken);
  rows.run();
  assertEquals(reader.ask(""), "END\r\n");
});

Deno.test("a writer with an update token ends a client's lease; a writer of the row does not", () => {
  using rows = new Rows();
  const [holder, other] = [rows.connect(), rows.connect()];
  const idOf = (reply: string): string => /^VALUE k \d+ \d+ (\d+)\r\n/.exec(reply)![1]!;
  const id = idOf(rows.ask(holder, "getss 10 k\r\n"));
  const ROW_WRITER = 1;
  assertEquals(rows.serverRows.removal.invalidate("k", ROW_WRITER), true);
  assertEquals(idOf(rows.ask(other, "getss 10 k\r\n")), id);
  assertEquals(rows.serverRows.removal.invalidate("k", 0), true);
  assertNotEquals(idOf(rows.ask(other, "getss 10 k\r\n")), id);
  assertEquals(rows.ask(holder, `cas k 0 0 1 ${id}\r\nv\r\n`), "EXISTS\r\n");
});

Deno.test("values on their way to the database are bounded; others wait", () => {
  using rows = new Rows(["-m", "16"]);
  const peers = Array.from({ length: 16 }, () => rows.connect());
  const value = "v".repeat(900_000);
  const asks = peers.map((peer, index) =>
    peer.ask(`set k${index} 0 0 ${value.length}\r\n${value}\r\n`)
  );
  assertEquals(asks.join(""), "");
  const { detached, requests } = rows.serverRows;
  assertEquals([detached.count, requests.queued, requests.inUse], [13, 13, 16]);
  const replies = peers.map(() => "");
  for (let round = 0; round < 2; round++) {
    rows.run();
    for (const [index, peer] of peers.entries()) replies[index] += peer.ask("");
  }
  assertEquals(replies, peers.map(() => "STORED\r\n"));
  assertEquals([...rows.rows.values()].filter(({ data }) => data.length !== value.length), []);
  assertEquals(rows.serverRows.detached.count, 0);
});

Deno.test("a request that fails ahead of its turn is answered in its turn", () => {
  using rows = new Rows();
  const peer = rows.connect();
  assertEquals(
    rows.ask(peer, "set n 0 0 1\r\n1\r\nincr n x\r\nincr n 1\r\n"),
    "STORED\r\nCLIENT_ERROR invalid numeric delta argument\r\n2\r\n",
  );
});

Deno.test("rows are errors after the end of a right that has no clock", () => {
  using rows = new Rows(["--rows", "r"]);
  rows.thread.cache.rows!.right.end();
  const peer = rows.connect();
  const refusal = "SERVER_ERROR rows are not available: this origin serves no rows any more\r\n";
  assertEquals(peer.ask("get r1\r\n"), refusal);
});

for (const threads of ["1", "2"]) {
  Deno.test(`rows are errors without the right to serve them, -t ${threads}; other items are not`, () => {
    using rows = new Rows(["--rows", "r", "-t", threads], "the database");
    const { right } = rows.thread.cache.rows!;
    let nowMs = 0;
    right.nowMs = () => nowMs;
    right.renew(1000);
    const peer = rows.connect();
    peer.ask("set r1 0 0 2\r\n10\r\nset other 0 0 1\r\nx\r\n");
    rows.run();
    peer.ask("get r1\r\n");
    rows.run();
    assertEquals(
      peer.ask("get r1\r\n"),
      "VALUE r1 0 2\r\n10\r\nEND\r\nVALUE r1 0 2\r\n10\r\nEND\r\n",
    );
    nowMs = 999;
    assertEquals(peer.ask("get r1\r\n"), "VALUE r1 0 2\r\n10\r\nEND\r\n");
    nowMs = 1000;
    const refusal = "SERVER_ERROR rows are not available: no confirmation from the database\r\n";
    for (
      const request of [
        "get r1",
        "gets r1",
        "gat 0 r1",
        "touch r1 0",
        "getss 5 r1",
        "mg r1 v",
        "lock r1",
        "get r2",
      ]
    ) {
      assertEquals(peer.ask(`${request}\r\n`), refusal, request);
    }
    assertEquals(peer.ask("get other\r\n"), "VALUE other 0 1\r\nx\r\nEND\r\n");
    assertEquals(peer.ask("set other 0 0 1\r\ny\r\n"), "STORED\r\n");
    // A write is the database's affair.
    assertEquals(rows.ask(peer, "incr r1 5\r\n"), "15\r\n");
    right.renew(2000);
    peer.ask("get r1\r\n");
    rows.run();
    assertEquals(peer.ask("get r1\r\n"), "VALUE r1 0 2\r\n15\r\nEND\r\n".repeat(2));
  });
}

Deno.test("stats detail counts each write once, of rows and of other items", () => {
  using rows = new Rows(["--rows", "r:"]);
  const peer = rows.connect();
  assertEquals(peer.ask("stats detail on\r\nset p:k 0 0 1\r\n1\r\n"), "OK\r\nSTORED\r\n");
  assertEquals(
    rows.ask(peer, "set r:k 0 0 1\r\n1\r\nms r:m 1\r\n2\r\n"),
    "STORED\r\nHD\r\n",
  );
  assertEquals(
    peer.ask("stats detail dump\r\n"),
    "PREFIX p get 0 hit 0 set 1 del 0\r\nPREFIX r get 0 hit 0 set 2 del 0\r\nEND\r\n",
  );
});

Deno.test("stats detail counts the deletion of a row once, by whatever command", () => {
  const packet = (opcode: number, extras: string): string =>
    packetText({ opcode, key: "r:k", extras });
  const deletions = [
    "delete r:k\r\n",
    "md r:k\r\n",
    "deletess r:k\r\n",
    packet(OPCODES.Delete[0], ""),
    packet(OPCODES.DeleteSS[0], "\0\0\0\x0a"),
  ];
  for (const deletion of deletions) {
    using rows = new Rows(["--rows", "r:"]);
    const peer = rows.connect();
    peer.ask("stats detail on\r\n");
    rows.ask(rows.connect(), deletion);
    assertEquals(
      peer.ask("stats detail dump\r\n"),
      "PREFIX r get 0 hit 0 set 0 del 1\r\nEND\r\n",
      deletion,
    );
  }
});

Deno.test("stats detail counts a write behind a request for a row once", () => {
  for (const first of ["get r:a", "gets r:a", "delete r:a", "set r:a 0 0 1\r\nx"]) {
    using rows = new Rows(["--rows", "r:"]);
    const peer = rows.connect();
    peer.ask("stats detail on\r\n");
    const others = "delete p:k\r\nset p:k 0 0 1\r\n1\r\ndelete p:l\r\nget p:k\r\n";
    rows.ask(rows.connect(), `${first}\r\n${others}`);
    rows.ask(rows.connect(), `${first.replace("r:a", "r:b")}\r\nms q:k 1\r\n1\r\nmd q:k\r\n`);
    assertEquals(
      peer.ask("stats detail dump\r\n").split("\r\n").filter((line) => !line.includes(" r ")),
      [
        "PREFIX p get 1 hit 1 set 1 del 2",
        "PREFIX q get 0 hit 0 set 1 del 1",
        "END",
        "",
      ],
      first,
    );
  }
});
