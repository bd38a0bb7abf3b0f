// Requests of nodes to an origin, one by one; the test is the database.
import { keySet } from "../../../support/rows/key_sets.ts";
import { assert, assertEquals, assertRejects } from "@std/assert";
import { mock } from "node:test";
import type { Row } from "../../../../lib/databases/base/backend.ts";
import type { Read } from "../../../../lib/rows/flows/flows.ts";
import type { RowWrite, WriteReply } from "../../../../lib/rows/flows/row_write.ts";
import { NodeList } from "../../../../lib/rows/flows/node_list.ts";
import { nodeLines, NodeServer } from "../../../../lib/rows/nodes/node_server.ts";
import * as wire from "../../../../lib/rows/nodes/wire.ts";
import type { ClientWrite } from "../../../../lib/rows/flows/row_edit.ts";
import { latin1Bytes, latin1Text } from "../../../../store/base/bytes.ts";
import { StoreMode } from "../../../../store/operation.ts";
import { Outcome } from "../../../../store/outcome.ts";
import { RowKind } from "../../../../store/row_cache.ts";

const MEMBER_MS = 1000;
const NOTHING = new Uint8Array();
const PREFIXES = ["a:", "b:"];

class Origin implements Disposable {
  nowMs = 0;
  readonly noted: number[] = [];
  isActive = true;
  readonly events: string[] = [];
  readonly reads: [readonly string[], boolean][] = [];
  row: Row | null = null;
  /** Keys that another connection has locked in the origin's own cache. */
  readonly locked = new Set<string>();
  readonly writes: RowWrite[] = [];
  answer: (write: RowWrite) => WriteReply = () => ({ kind: "committed", version: 1 });
  right = { isTimed: false, deadlineMs: 0, nowMs: (): number => this.nowMs };
  readonly nodeServer: NodeServer;

  constructor(readonly memberMs = MEMBER_MS) {
    mock.timers.enable({ apis: ["setTimeout"] });
    let secrets = 0;
    this.nodeServer = new NodeServer(new NodeList(() => `secret${++secrets}`, memberMs, 0.1), {
      right: this.right,
      own: { invalidate: (keys) => keys.map((key) => !this.locked.has(key)), expel: () => {} },
      memberMs,
      prefixes: PREFIXES,
      expiry: "refuse",
      fits: (keyLength, valueLength, flags) => keyLength + valueLength + flags <= 10,
      read: (keys, isReadable) => {
        this.reads.push([keys, isReadable]);
        const { row } = this;
        const read = { row, version: 2, epoch: 1, cacheable: isReadable };
        return Promise.resolve(keys.map((): Read => read));
      },
      noteNodes: (servesMs) => Promise.resolve((this.noted.push(servesMs), this.isActive)),
      report: ({ level, event, message }) => this.events.push(`${level} ${event}: ${message}`),
    });
  }

  [Symbol.dispose](): void {
    mock.timers.reset();
  }

  async tick(ms: number): Promise<void> {
    this.nowMs += ms;
    mock.timers.tick(ms);
    for (let turn = 0; turn < 20; turn++) await Promise.resolve();
  }

  async ask(verb: string, session: string, number = "0", block = NOTHING): Promise<Uint8Array> {
    const bytes = await this.nodeServer.execute(
      [verb, session, number, String(block.length)],
      block,
      (write) => {
        this.writes.push(write);
        write.answer(this.answer(write));
      },
    );
    const reply = latin1Text(bytes);
    const [line, length] = /^NODE (\d+)\r\n/.exec(reply) ?? [];
    assert(line !== undefined, reply);
    assertEquals(reply.length, line.length + Number(length));
    return latin1Bytes(reply.slice(line.length));
  }

  join(name: string, changed: Partial<wire.Join> = {}): Promise<Uint8Array> {
    const join = {
      version: wire.WIRE_VERSION,
      name,
      session: "",
      prefixes: PREFIXES,
      expiry: "refuse",
    };
    return this.ask("join", "-", "0", latin1Bytes(JSON.stringify({ ...join, ...changed })));
  }

  async session(name: string): Promise<string> {
    return wire.unpackJoined(await this.join(name)).session;
  }

  /** Sends writes that fit one block. */
  async write(writes: readonly wire.SentWrite[]): Promise<wire.SentReply[]> {
    const [{ block }] = wire.packWrites(writes) as [wire.WriteBlock];
    return wire.unpackReplies(await this.ask("write", "-", "0", block), writes);
  }
}

const SET: ClientWrite = {
  kind: RowKind.STORE,
  mode: StoreMode.SET,
  key: "a:",
  flags: 0,
  valueLength: 1,
  expiresUnixSec: 0,
  compare: null,
  vivify: false,
  decrement: false,
  touches: false,
  delta: 0n,
  initial: 0n,
};

Deno.test("a node joins with the options of its origin only, in any order of prefixes", async () => {
  using origin = new Origin();
  const joined = wire.unpackJoined(await origin.join("one", { prefixes: ["b:", "a:"] }));
  assertEquals(joined, { session: "1-secret1", grantedMs: MEMBER_MS, memberMs: MEMBER_MS });
  const refused: readonly (readonly [Partial<wire.Join>, string])[] = [
    [{ version: 1 }, `the node speaks version 1, and this origin version ${wire.WIRE_VERSION}`],
    [{ prefixes: ["a:"] }, "--rows of the node: a:; of this origin: a:, b:; they must be equal"],
    [{ prefixes: [""] }, "--rows of the node: all keys; of this origin: a:, b:"],
    [{ expiry: "column" }, "--row-expiry of the node: column; of this origin: refuse"],
  ];
  for (const [changed, message] of refused) {
    await assertRejects(() => origin.join("two", changed), Error, message);
  }
  for (const name of ["", "a b", "a\n", "é", "n".repeat(256)]) {
    await assertRejects(() => origin.join(name), Error, "malformed request of a node");
  }
  const malformed: object[] = [{ version: "2" }, { session: 1 }, { prefixes: "a:" }, { expiry: 1 }];
  for (const changed of malformed) {
    await assertRejects(() => origin.join("two", changed), Error, "malformed request of a node");
  }
  const noJson = (): Promise<unknown> => origin.ask("join", "-", "0", latin1Bytes("{"));
  await assertRejects(noJson, Error, "malformed request of a node");
  assertEquals(origin.nodeServer.states.map(({ name }) => name), ["one"]);
  assertEquals((await origin.session("n".repeat(255))).startsWith("2-"), true);
});

Deno.test("the database learns of nodes before the first one joins, and once; a deposed origin takes none", async () => {
  using origin = new Origin();
  origin.isActive = false;
  for (let time = 0; time < 2; time++) {
    await assertRejects(
      () => origin.join("one"),
      Error,
      "another server has taken the database over",
    );
  }
  origin.isActive = true;
  await origin.join("one");
  await origin.join("two");
  assertEquals(origin.noted, [MEMBER_MS, MEMBER_MS, MEMBER_MS]);
  assertEquals(origin.nodeServer.states.length, 2);
});

Deno.test("requests of another form are refused", async () => {
  using origin = new Origin();
  const execute = async (...words: string[]): Promise<string> =>
    latin1Text(await origin.nodeServer.execute(words, NOTHING, () => {}));
  for (const words of [["poll", "s", "0"], ["poll", "s", "0", "0", "0"], []]) {
    await assertRejects(() => execute(...words), Error, "bad command line format");
  }
  await assertRejects(() => execute("poll", "s", "x", "0"), wire.WireError, "deletion is x");
  await assertRejects(() => execute("steal", "s", "0", "0"), Error, "unknown request of a node");
  assertEquals(await execute("poll", "1-x", "0", "0"), "NOT_FOUND\r\n");
});

Deno.test("a poll is answered after a quarter of the member time, half a second at most", async () => {
  for (const [memberMs, waitMs] of [[1000, 250], [60_000, 500]] as const) {
    using origin = new Origin(memberMs);
    const session = await origin.session("one");
    let due: wire.SentJoined | unknown = null;
    void origin.ask("poll", session).then((block) => due = wire.unpackDue(block, 0, memberMs));
    await origin.tick(waitMs - 1);
    assertEquals(due, null);
    await origin.tick(1);
    assertEquals(due, { seq: 0, grantedMs: memberMs, keys: [], prefixes: [] });
  }
});

Deno.test("a node gets no more time than its origin has, and none when that is over", async () => {
  using origin = new Origin();
  Object.assign(origin.right, { isTimed: true, deadlineMs: 300 });
  const granted = async (): Promise<number> =>
    wire.unpackJoined(await origin.join("one")).grantedMs;
  assertEquals(await granted(), 300);
  await origin.tick(100);
  assertEquals(await granted(), 200);
  Object.assign(origin.right, { deadlineMs: 5000 });
  assertEquals(await granted(), MEMBER_MS);
  Object.assign(origin.right, { deadlineMs: 50 });
  assertEquals(await granted(), 0);
  Object.assign(origin.right, { isTimed: false, deadlineMs: -1 });
  assertEquals(await granted(), 0, "its right has ended for good");
});

Deno.test("an origin that stops answers the polls that wait with an error, and takes no node", async () => {
  using origin = new Origin();
  const session = await origin.session("one");
  const waiting = assertRejects(() => origin.ask("poll", session), Error, "this origin ends");
  await origin.tick(0);
  origin.nodeServer.stop();
  await waiting;
  await assertRejects(() => origin.ask("poll", session), Error, "this origin ends");
  await assertRejects(() => origin.join("two"), Error, "this origin ends");
});

Deno.test("a node that leaves while its poll waits is answered at once", async () => {
  using origin = new Origin();
  const session = await origin.session("one");
  let reply = "";
  const words = ["poll", session, "0", "0"];
  void origin.nodeServer.execute(words, NOTHING, () => {}).then((bytes) =>
    reply = latin1Text(bytes)
  );
  await origin.tick(0);
  assertEquals(reply, "");
  await origin.ask("leave", session);
  await origin.tick(0);
  assertEquals([reply, origin.nodeServer.states], ["NOT_FOUND\r\n", []]);
});

Deno.test("rows are read for members as cacheable ones, in slices, as many as a block holds", async () => {
  using origin = new Origin();
  const session = await origin.session("one");
  const keys = ["k1", "k2", "k3", "k4", "k5"];
  const read = async (by: string, asked: readonly string[]): Promise<readonly wire.SentRead[]> =>
    wire.unpackReads(await origin.ask("read", by, "0", wire.packKeys(asked)));
  assertEquals((await read(session, keys)).map((each) => each?.cacheable), new Array(5).fill(true));
  assertEquals(origin.reads.splice(0), [[keys.slice(0, 4), true], [["k5"], true]]);
  assertEquals((await read("1-other", ["k"])).map((each) => each?.cacheable), [false]);
  assertEquals(origin.reads.splice(0), [[["k"], false]]);
  assertEquals([await read(session, []), origin.reads], [[], []]);
  assertEquals(origin.nodeServer.states.map(({ fetched }) => fetched), [5]);
  origin.row = { flags: 0, version: 2, data: new Uint8Array(wire.BLOCK_BYTES / 4) };
  const many = Array.from({ length: 20 }, (_, at) => `m${at}`);
  const found = await read(session, many);
  assertEquals([found.length, found.filter((each) => each !== null).length], [20, 3]);
  assertEquals(origin.reads.length, 2, "slices behind a full block are not read");
});

Deno.test("writes of a node go with their requests, those of one block in one order, and are answered", async () => {
  using origin = new Origin();
  const write = (...writes: wire.SentWrite[]): Promise<wire.SentReply[]> => origin.write(writes);
  const row: Row = { flags: 1, version: 5, data: latin1Bytes("12345") };
  // The database computes the changes from this row.
  origin.answer = ({ edit }) => {
    const change = typeof edit === "function" ? edit(row) : edit;
    return change === null ? { kind: "refused", row } : { kind: "committed", version: 6 };
  };
  const data = latin1Bytes("x");
  const append: ClientWrite = { ...SET, mode: StoreMode.APPEND };
  const replies = await write(
    { request: SET, data },
    { request: { ...SET, mode: StoreMode.ADD }, data },
    { request: append, data },
    { request: { ...append, key: "a:bcd" }, data },
    { request: { ...SET, kind: RowKind.COUNT, delta: 5n }, data: NOTHING },
  );
  const { STORED, NOT_STORED, TOO_LARGE, OK } = Outcome;
  assertEquals(replies.map(({ outcome }) => outcome), [STORED, NOT_STORED, STORED, TOO_LARGE, OK]);
  assertEquals(replies.map(({ number }) => number), [0n, 0n, 0n, 0n, 12350n]);
  assertEquals(origin.writes.map(({ bytes, key }) => [bytes, key]), [
    ...[[1, "a:"], [1, "a:"], [1, "a:"], [1, "a:bcd"], [0, "a:"]],
  ]);
  const orders = origin.writes.map(({ connection, tokenId }) => [connection, tokenId]);
  assertEquals(orders, new Array(5).fill([orders[0]![0], 0]));
  assert(orders[0]![0]! < 0, "no connection has this number");
  const [touched] = await write({
    request: { ...SET, kind: RowKind.TOUCH, expiresUnixSec: 9 },
    data: NOTHING,
  });
  assertEquals(touched!.row, { ...row, version: 6, expiresUnixSec: 9 });
  assert(origin.writes.at(-1)!.connection !== orders[0]![0], "another block, another order");
  origin.answer = () => ({ kind: "failed", reason: "full\nof rows" });
  assertEquals((await write({ request: SET, data }))[0]!.reply.kind, "failed");
});

Deno.test("the log tells what becomes of a node, and caches shows it", async () => {
  using origin = new Origin();
  const { nodeServer } = origin;
  const session = await origin.session("one");
  assertEquals([nodeServer.hasMembers, nodeServer.states[0]!.state], [true, "member"]);
  await origin.tick(1119);
  nodeServer.watch();
  assertEquals([nodeServer.hasMembers, origin.events.length], [true, 1]);
  await origin.tick(1);
  nodeServer.watch();
  nodeServer.watch();
  assertEquals([nodeServer.hasMembers, nodeServer.states[0]!.state], [false, "silent"]);
  void origin.ask("poll", session);
  await origin.tick(250);
  assertEquals(nodeServer.states[0]!.state, "member");
  const deleted = nodeServer.delete(keySet("a:k"));
  await origin.tick(1120);
  await deleted;
  assertEquals(nodeServer.states[0]!.state, "lost");
  await assertRejects(() => origin.join("one"), Error, wire.WAIT_TEXT);
  assertEquals(nodeServer.forget("one"), true);
  assertEquals([nodeServer.forget("one"), nodeServer.states], [false, []]);
  await origin.ask("leave", await origin.session("one"));
  assertEquals(origin.events, [
    "info node_joined: node one is a member",
    "warning node_silent: node one is silent: no renewal for 1120 ms; the next write continues without it",
    "info node_returned: node one is a member again, after 1370 ms",
    "warning node_lost: node one is lost: no renewal for 1120 ms; a write went on without it, and it must join again, in 125 ms at the earliest",
    "info node_joined: node one is a member",
    "info node_left: node one has ended",
  ]);
  const state = { name: "n", state: "lost", ageMs: 12.5, fetched: 7 } as const;
  assertEquals(
    nodeLines([state, { ...state, name: "m" }]),
    "NODE n lost 13 7\r\nNODE m lost 13 7\r\n",
  );
});

Deno.test("a key that is locked at the origin is not deleted in nodes: it is not written", async () => {
  using origin = new Origin();
  const { nodeServer } = origin;
  const session = await origin.session("one");
  origin.locked.add("a:locked");
  const freed = nodeServer.delete({
    keys: ["a:1", "a:locked", "a:2"],
    prefixes: [],
    writers: [1, 2, 3],
  });
  const due = wire.unpackDue(await origin.ask("poll", session), 0, MEMBER_MS);
  assertEquals([due.seq, due.keys], [2, ["a:1", "a:2"]]);
  void origin.ask("poll", session, "2");
  await origin.tick(0);
  assertEquals(await freed, [true, false, true]);
});

Deno.test("a write goes on when it is confirmed by a question that is answered at once", async () => {
  using origin = new Origin();
  const { nodeServer } = origin;
  const session = await origin.session("one");
  const ended: string[] = [];
  const write = (key: string): void => {
    void Promise.resolve(nodeServer.delete(keySet(key))).then(() => ended.push(key));
  };
  write("a:1");
  const first = wire.unpackDue(await origin.ask("poll", session), 0, MEMBER_MS);
  write("a:2");
  const second = wire.unpackDue(
    await origin.ask("poll", session, String(first.seq)),
    first.seq,
    MEMBER_MS,
  );
  assertEquals([first.keys, second.keys], [["a:1"], ["a:2"]]);
  await origin.tick(0);
  assertEquals(ended, ["a:1"]);
});

Deno.test("a node has fetched the rows that it was sent, not those that had no room", async () => {
  using origin = new Origin();
  const session = await origin.session("one");
  origin.row = { flags: 0, version: 2, data: new Uint8Array(wire.BLOCK_BYTES + 1) };
  const keys = Array.from({ length: 200 }, (_, index) => `a:${index}`);
  await origin.ask("read", session, "0", wire.packKeys(keys));
  const sent = origin.reads.reduce((sum, [some]) => sum + some.length, 0);
  assert(sent < keys.length, `${sent} rows`);
  assertEquals(origin.nodeServer.states[0]!.fetched, sent);
});

Deno.test("a write of a node that the database failed after it had made the row gives the reason, and no row", async () => {
  using origin = new Origin();
  const row = { flags: 7, version: 5, data: latin1Bytes("12345") };
  origin.answer = ({ edit }) => {
    if (typeof edit === "function") edit(row);
    return { kind: "failed", reason: "the disk is full" };
  };
  const writes: wire.SentWrite[] = [{
    request: { ...SET, kind: RowKind.TOUCH, valueLength: 0, expiresUnixSec: 9 },
    data: NOTHING,
  }];
  const [sent] = await origin.write(writes);
  assertEquals([sent!.reply, sent!.row], [{ kind: "failed", reason: "the disk is full" }, null]);
});

Deno.test("whether a row fits is asked with the flags of its write", async () => {
  using origin = new Origin();
  const row = { flags: 0, version: 5, data: latin1Bytes("12345") };
  origin.answer = ({ edit }) => {
    const change = typeof edit === "function" ? edit(row) : edit;
    return change === null ? { kind: "refused", row } : { kind: "committed", version: 6 };
  };
  for (const [flags, outcome] of [[3, Outcome.STORED], [4, Outcome.TOO_LARGE]] as const) {
    const writes: wire.SentWrite[] = [{
      request: { ...SET, mode: StoreMode.REPLACE, flags, valueLength: 5 },
      data: latin1Bytes("abcde"),
    }];
    const [sent] = await origin.write(writes);
    assertEquals(sent!.outcome, outcome, `flags ${flags}`);
  }
});
