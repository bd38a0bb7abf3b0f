import { assertEquals, assertMatch } from "@std/assert";
import type { Cache } from "../../store/cache.ts";
import { openCache, RowKind, type RowRequest } from "../../store/row_cache.ts";
import { StoreMode } from "../../store/operation.ts";
import { Outcome } from "../../store/outcome.ts";
import { databaseRow, Memory } from "../../store/setup.ts";
import { packetText } from "../support/sessions/binary_text.ts";
import { ConversationSide } from "../support/sessions/conversation_side.ts";

// A server whose database thread is this test: a map in memory.

interface TestRow {
  readonly flags: number;
  readonly data: Uint8Array;
  readonly version: number;
}

class Rows {
  readonly side: ConversationSide;
  readonly cache: Cache;
  readonly rows = new Map<string, TestRow>();
  /** Requests taken in each step. */
  readonly steps: number[] = [];
  #version = 100;

  constructor(options: readonly string[] = [], rightFrom?: string) {
    this.side = new ConversationSide(
      ["--db", "sqlite:none", "-z", "0x3333", ...options],
      rightFrom,
    );
    const { shared } = this.side.thread.memory;
    this.cache = openCache(new Memory(shared, databaseRow(shared.options)));
  }

  /** Takes what is queued, without answering it. */
  take(): RowRequest[] {
    this.cache.enter();
    const taken = this.cache.rows!.take(1000);
    this.cache.leave();
    return taken;
  }

  /** Does what is queued, until nothing is. */
  run(): void {
    for (let taken = this.take(); taken.length > 0; taken = this.take()) {
      this.steps.push(taken.length);
      this.answer(taken);
      this.side.advanceNow(0);
    }
    this.side.advanceNow(0);
  }

  answer(taken: readonly RowRequest[]): void {
    const reads = Map.groupBy(taken.filter(({ kind }) => kind === RowKind.READ), ({ key }) => key);
    for (const [key, group] of reads) {
      this.cache.rows!.answerRead(group, this.rows.get(key) ?? null, true);
    }
    for (const request of taken) if (request.kind !== RowKind.READ) this.#write(request);
  }

  #write(request: RowRequest): void {
    const { key, kind } = request;
    this.cache.enter();
    const isFree = this.cache.rows!.invalidate(key, request.owner);
    this.cache.leave();
    if (!isFree) return this.cache.rows!.answer(request, Outcome.LOCKED);
    const old = this.rows.get(key);
    const put = (data: Uint8Array, flags = request.flags): number => {
      this.rows.set(key, { flags, data, version: ++this.#version });
      return this.#version;
    };
    const answer = (outcome: Outcome, result = {}): void =>
      this.cache.rows!.answer(request, outcome, result);
    if (kind === RowKind.STORE) {
      const { mode, compare } = request;
      const wantsOld = compare !== null || mode === StoreMode.CAS;
      if (wantsOld && old === undefined) return answer(Outcome.NOT_FOUND);
      if (compare !== null && old!.version !== compare) return answer(Outcome.EXISTS);
      if (mode === StoreMode.ADD && old !== undefined) return answer(Outcome.NOT_STORED);
      if (mode === StoreMode.REPLACE && old === undefined) return answer(Outcome.NOT_STORED);
      if (key.startsWith("bad")) return this.cache.rows!.fail([request], "no such luck");
      return answer(Outcome.STORED, { version: put(this.cache.rows!.valueOf(request)) });
    }
    if (kind === RowKind.REMOVE) {
      return answer(this.rows.delete(key) ? Outcome.DELETED : Outcome.NOT_FOUND);
    }
    if (kind === RowKind.COUNT) {
      if (old === undefined) return answer(Outcome.NOT_FOUND);
      if (old.data.length > 20) return answer(Outcome.NOT_NUMERIC);
      const before = BigInt(new TextDecoder().decode(old.data));
      const number = request.decrement ? before - request.delta : before + request.delta;
      const version = put(new TextEncoder().encode(String(number)), old.flags);
      return answer(Outcome.OK, { number, version });
    }
    throw new Error(`no test of kind ${kind}`);
  }
}

Deno.test("a set is answered when it is in the database, and a get reads it from there once", () => {
  const rows = new Rows();
  const peer = rows.side.connect();
  assertEquals(peer.ask("set k 7 0 5\r\nhello\r\n"), "");
  rows.run();
  assertEquals(peer.ask(""), "STORED\r\n");
  assertEquals(peer.ask("gets k\r\n"), "");
  rows.run();
  assertEquals(peer.ask(""), "VALUE k 7 5 101\r\nhello\r\nEND\r\n");
  assertEquals(
    peer.ask("gets k\r\nget k x\r\n"),
    "VALUE k 7 5 101\r\nhello\r\nEND\r\nVALUE k 7 5\r\nhello\r\n",
  );
  rows.run();
  assertEquals(peer.ask(""), "END\r\n");
  assertEquals(peer.ask("get x\r\n"), "END\r\n");
  assertEquals(rows.steps, [1, 1, 1]);
  rows.side.check();
});

Deno.test("writes of one connection are handed over together and answered in order", () => {
  const rows = new Rows();
  const peer = rows.side.connect();
  const sets = Array.from(
    { length: 100 },
    (_, index) => `set k${index} 0 0 1\r\n${index % 10}\r\n`,
  );
  assertEquals(
    peer.ask(`${sets.join("")}add k1 0 0 1\r\nx\r\nincr k9 5\r\ndelete k2\r\nget k2\r\n`),
    "",
  );
  rows.run();
  assertEquals(
    peer.ask(""),
    `${"STORED\r\n".repeat(100)}NOT_STORED\r\n14\r\nDELETED\r\nEND\r\n`,
  );
  assertEquals(rows.steps, [64, 39, 1]);
  rows.side.check();
});

Deno.test("what a connection has sent behind its write waits for it", () => {
  const rows = new Rows();
  const peer = rows.side.connect();
  assertEquals(
    peer.ask("version\r\nset k 0 0 1\r\n1\r\nversion\r\nset l 0 0 1 noreply\r\n1\r\nmn\r\n"),
    "VERSION 1.6.45-leased-0.0.0\r\n",
  );
  rows.run();
  assertEquals(peer.ask(""), "STORED\r\nVERSION 1.6.45-leased-0.0.0\r\nMN\r\n");
  assertEquals([...rows.rows.keys()], ["k", "l"]);
  rows.side.check();
});

Deno.test("the rows of a line are read together, and those of pipelined lines", () => {
  const rows = new Rows();
  const peer = rows.side.connect();
  peer.ask("set a 0 0 1\r\n1\r\nset b 0 0 1\r\n2\r\n");
  rows.run();
  peer.ask("");
  rows.steps.length = 0;
  peer.ask("get a x b y\r\n");
  rows.run();
  assertEquals(peer.ask(""), "VALUE a 0 1\r\n1\r\nVALUE b 0 1\r\n2\r\nEND\r\n");
  assertEquals(rows.steps, [4]);
  peer.ask("get p\r\nget q\r\nget a\r\nget p\r\n");
  rows.run();
  assertEquals(peer.ask(""), "END\r\nEND\r\nVALUE a 0 1\r\n1\r\nEND\r\nEND\r\n");
  peer.ask("mg r v\r\nmg s v\r\nmg a v c\r\nmn\r\n");
  rows.run();
  assertEquals(peer.ask(""), "EN\r\nEN\r\nVA 1 c101\r\n1\r\nMN\r\n");
  assertEquals(rows.steps, [4, 3, 2]);
  rows.side.check();
});

Deno.test("a row that is too old for a cas, and one that the database refuses", () => {
  const rows = new Rows();
  const peer = rows.side.connect();
  peer.ask("set k 0 0 1\r\n1\r\n");
  rows.run();
  peer.ask("");
  peer.ask(
    "cas k 0 0 1 5\r\n2\r\ncas k 0 0 1 101\r\n3\r\nset bad 0 0 1\r\n1\r\nset l 0 60 1\r\n1\r\nms k 2 c\r\n44\r\n",
  );
  rows.run();
  assertEquals(
    peer.ask(""),
    "EXISTS\r\nSTORED\r\nSERVER_ERROR no such luck\r\n" +
      "CLIENT_ERROR rows have no expiry time; see --row-expiry\r\nHD c103\r\n",
  );
  rows.side.check();
});

Deno.test("values of every size go through the database", () => {
  const rows = new Rows();
  const peer = rows.side.connect();
  for (const length of [0, 1, 4096, 4097, 60_000, 100_000, 1_000_000]) {
    const value = "v".repeat(length);
    assertEquals(peer.ask(`set k 1 0 ${length}\r\n${value}\r\nget k\r\n`), "");
    rows.run();
    const reply = peer.ask("");
    assertEquals(
      reply === `STORED\r\nVALUE k 1 ${length}\r\n${value}\r\nEND\r\n`,
      true,
      `${length}: ${reply.slice(0, 60)}`,
    );
    rows.side.check();
    assertEquals(rows.cache.rows!.detached.count, 0);
  }
  assertEquals(rows.cache.rows!.requests.inUse, 0);
});

Deno.test("the binary protocol waits in the same way", () => {
  const rows = new Rows();
  const peer = rows.side.connect();
  const set = packetText({ opcode: 1, key: "k", extras: "\0\0\0\x07\0\0\0\0", value: "hello" });
  peer.ask(
    set + packetText({ opcode: 0x0c, key: "k" }) + packetText({ opcode: 0x09, key: "x" }) +
      packetText({ opcode: 0x0a }),
  );
  rows.run();
  const reply = peer.ask("");
  assertEquals(reply.includes("khello"), true);
  rows.side.check();
});

Deno.test("connections that end at any step leave nothing behind", () => {
  const rows = new Rows();
  const value = "v".repeat(100_000);
  const requests = [
    "set k 0 0 1\r\n1\r\nset k 0 0 1\r\n2\r\n",
    `set k 0 0 ${value.length}\r\n${value}\r\n`,
    "get k l m\r\nget k\r\n",
    "mg k v\r\nmg l v\r\n",
    "gat 0 k\r\n",
    "incr k 1\r\n",
  ];
  const { requests: table, detached } = rows.cache.rows!;
  for (const request of requests) {
    for (const when of ["queued", "taken", "done"]) {
      const peer = rows.side.connect();
      peer.ask(request);
      if (when === "queued") peer.disconnect();
      const taken = rows.take();
      if (when === "queued") assertEquals(taken, []);
      if (when === "taken") peer.disconnect();
      rows.answer(taken);
      peer.disconnect();
      rows.run();
      assertEquals([table.inUse, detached.count, table.queued], [0, 0, 0], `${request} ${when}`);
      rows.side.check();
    }
  }
});

Deno.test("a connection whose commands are logged writes each row once", () => {
  const rows = new Rows(["-vvv"]);
  const peer = rows.side.connect();
  peer.ask("set n 0 0 1\r\n1\r\nincr n 1\r\nset m 0 0 3\r\nabc\r\nget n m x\r\nmn\r\n");
  rows.run();
  assertEquals(
    peer.ask(""),
    "STORED\r\n2\r\nSTORED\r\nVALUE n 0 1\r\n2\r\nVALUE m 0 3\r\nabc\r\nEND\r\nMN\r\n",
  );
  assertEquals(rows.rows.get("n")!.version, 102);
  rows.side.check();
});

Deno.test("the log names each command of a row once, and the one that fails", () => {
  const rows = new Rows(["-vvv"]);
  const peer = rows.side.connect();
  peer.ask("get a\r\nset k 0 0 1\r\n1\r\ndelete k\r\nset bad2 0 0 1\r\n1\r\nmn\r\n");
  rows.run();
  assertEquals(
    peer.ask(""),
    "END\r\nSTORED\r\nDELETED\r\nSERVER_ERROR no such luck\r\nMN\r\n",
  );
  const log = rows.side.events.map(({ event, message }) => `${event} ${message}`);
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
  const rows = new Rows(["-m", "2"]);
  const set = (key: string, length: number): string =>
    `set ${key} 0 0 ${length}\r\n${"v".repeat(length)}\r\n`;
  const [first, second, waiting, last] = Array.from({ length: 4 }, () => rows.side.connect());
  first!.ask(set("a", 700_000));
  second!.ask(set("b", 700_000));
  assertEquals(waiting!.ask(set("c", 300_000)), "");
  waiting!.disconnect();
  rows.run();
  assertEquals([...rows.rows.keys()], ["a", "b"]);
  assertEquals([first!.ask(""), second!.ask("")], ["STORED\r\n", "STORED\r\n"]);
  assertMatch(last!.ask("stats\r\n"), /values_arriving 0\r\n/);
  rows.side.check();
});

Deno.test("a row is fetched and locked; its holder writes it, and others wait", () => {
  const rows = new Rows();
  const holder = rows.side.connect();
  const other = rows.side.connect();
  const ask = (peer: typeof holder, text: string): string => {
    peer.ask(text);
    rows.run();
    return peer.ask("");
  };
  const tell = (peer: typeof holder, text: string): string => peer.ask(text) + ask(peer, "");
  ask(holder, "set k 0 0 1\r\n1\r\n");
  assertEquals(ask(holder, "lock absent\r\n"), "NOT_FOUND\r\n");
  assertEquals(ask(holder, "lock k\r\n"), "OK\r\n");
  assertEquals(tell(other, "lock k\r\n"), "LOCKED\r\n");
  assertEquals(ask(other, "set k 0 0 1\r\n2\r\n"), "LOCKED\r\n");
  assertEquals(ask(holder, "incr k 1\r\n"), "2\r\n");
  assertEquals(ask(other, "get k\r\n"), "VALUE k 0 1\r\n2\r\nEND\r\n");
  assertEquals(ask(other, "set k 0 0 1\r\n3\r\n"), "LOCKED\r\n");
  assertEquals(ask(holder, "set k 0 0 1\r\n5\r\n"), "STORED\r\n");
  rows.side.check();
  assertEquals(other.ask("lock k 5000\r\n"), "");
  rows.run();
  assertEquals(other.ask(""), "");
  assertEquals(holder.ask("unlock k\r\n"), "OK\r\n");
  assertEquals(other.ask(""), "OK\r\n");
  assertEquals(tell(holder, "unlock k\r\n"), "CLIENT_ERROR object is not locked or not found\r\n");
  other.disconnect();
  assertEquals(ask(holder, "set k 0 0 1\r\n7\r\n"), "STORED\r\n");
  rows.side.check();
});

Deno.test("an absent row is leased, and its holder makes it", () => {
  const rows = new Rows();
  const [holder, other] = [rows.side.connect(), rows.side.connect()];
  holder.ask("getss 10 k\r\n");
  rows.run();
  const [, id] = /^VALUE k \d+ 1 (\d+)\r\n0\r\nEND\r\n$/.exec(holder.ask(""))!;
  const [, shown] = /^VALUE k \d+ \d+ (\d+)\r\n[1-9]/.exec(other.ask("getss 10 k\r\n"))!;
  assertEquals(shown, id);
  holder.ask(`cas k 0 0 1 ${id}\r\nv\r\n`);
  rows.run();
  assertEquals(holder.ask(""), "STORED\r\n");
  other.ask(`cas k 0 0 1 ${id}\r\nw\r\ngetss 10 k\r\n`);
  rows.run();
  assertEquals(other.ask(""), "EXISTS\r\nVALUE k 0 1 101\r\nv\r\nEND\r\n");
  rows.side.check();
});

Deno.test("values on their way to the database are bounded; others wait", () => {
  const rows = new Rows(["-m", "16"]);
  const peers = Array.from({ length: 16 }, () => rows.side.connect());
  const value = "v".repeat(900_000);
  const asks = peers.map((peer, index) =>
    peer.ask(`set k${index} 0 0 ${value.length}\r\n${value}\r\n`)
  );
  assertEquals(asks.join(""), "");
  const { detached, requests } = rows.cache.rows!;
  assertEquals([detached.count, requests.queued, requests.inUse], [13, 13, 16]);
  const replies = peers.map(() => "");
  for (let round = 0; round < 2; round++) {
    rows.run();
    for (const [index, peer] of peers.entries()) replies[index] += peer.ask("");
  }
  assertEquals(replies, peers.map(() => "STORED\r\n"));
  assertEquals([...rows.rows.values()].filter(({ data }) => data.length !== value.length), []);
  assertEquals(rows.cache.rows!.detached.count, 0);
  rows.side.check();
});

Deno.test("a request that fails ahead of its turn is answered in its turn", () => {
  const rows = new Rows();
  const peer = rows.side.connect();
  assertEquals(peer.ask("set n 0 0 1\r\n1\r\nincr n x\r\nincr n 1\r\n"), "");
  rows.run();
  assertEquals(
    peer.ask(""),
    "STORED\r\nCLIENT_ERROR invalid numeric delta argument\r\n2\r\n",
  );
});

Deno.test("rows are errors after the end of a right that has no clock", () => {
  const rows = new Rows(["--rows", "r"]);
  rows.side.thread.cache.rows!.right.end();
  const peer = rows.side.connect();
  const refusal = "SERVER_ERROR rows are not available: this origin has ended\r\n";
  assertEquals(peer.ask("get r1\r\n"), refusal);
});

for (const threads of ["1", "2"]) {
  Deno.test(`rows are errors without the right to serve them, -t ${threads}; other items are not`, () => {
    const rows = new Rows(["--rows", "r", "-t", threads], "the database");
    const { right } = rows.side.thread.cache.rows!;
    let nowMs = 0;
    right.nowMs = () => nowMs;
    right.renew(1000);
    const peer = rows.side.connect();
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
    peer.ask("incr r1 5\r\n");
    rows.run();
    assertEquals(peer.ask(""), "15\r\n");
    right.renew(2000);
    peer.ask("get r1\r\n");
    rows.run();
    assertEquals(peer.ask("get r1\r\n"), "VALUE r1 0 2\r\n15\r\nEND\r\n".repeat(2));
    rows.side.check();
  });
}
