// The rows of an origin at its node: requests, blocks and errors; the test answers for the origin.
import { assertEquals, assertRejects } from "@std/assert";
import { RowWrite, type WriteReply } from "../../../../lib/rows/flows/row_write.ts";
import { NodeFlows } from "../../../../lib/rows/flows/node_flows.ts";
import { NodeSource } from "../../../../lib/rows/nodes/node_source.ts";
import {
  isMalformed,
  isOutcomeUnknown,
  LongReplyError,
  mayPass,
  type OriginClient,
  OriginRefusal,
} from "../../../../lib/rows/nodes/origin_client.ts";
import * as wire from "../../../../lib/rows/nodes/wire.ts";
import { PeerError } from "../../../../lib/peers/peer.ts";
import { UnsentError } from "../../../../lib/peers/peer_pool.ts";
import { type ClientWrite, RowEdit } from "../../../../lib/rows/flows/row_edit.ts";
import { latin1Bytes, latin1Text } from "../../../../store/base/bytes.ts";
import { StoreMode } from "../../../../store/operation.ts";
import { Outcome } from "../../../../store/outcome.ts";
import { RowKind } from "../../../../store/row_cache.ts";

const ITEM_BYTES = 1000;

type Ask = (block: Uint8Array) => Uint8Array | Error;

class Node {
  readonly asked: unknown[][] = [];
  readonly flows = new NodeFlows({ nowMs: () => 0, renew: () => {}, end: () => {} });
  isMember = true;
  readonly source: NodeSource;

  constructor(readonly answer: Ask) {
    // deno-lint-ignore no-this-alias -- for the getter
    const node = this;
    this.flows.session = "7-s";
    const client = {
      ask: (verb: string, session: string, number: number, block: Uint8Array, max: number) => {
        this.asked.push([verb, session, number, max]);
        const answer = this.answer(block);
        return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
      },
    } as unknown as OriginClient;
    const link = {
      get client() {
        return node.isMember ? client : null;
      },
      flows: this.flows,
      problem: "no membership of origin",
    };
    this.source = new NodeSource(link, () => "STAT node_member 1\r\nEND\r\n", ITEM_BYTES);
  }

  async command(request: string): Promise<string> {
    const { signal } = new AbortController();
    return latin1Text(await this.source.command(latin1Bytes(request), () => {}, signal));
  }
}

function readOf(key: string): wire.SentRead & object {
  const row = { flags: 0, version: 3, expiresUnixSec: 0, data: latin1Bytes(key) };
  return { row, version: 3, cacheable: true };
}

/** Answers each key with itself, so many at most in one block. */
function answering(most = Infinity): Ask {
  return (block) => {
    const keys = wire.unpackKeys(block);
    const reads = keys.slice(0, most).map((key) => ({ ...readOf(key), epoch: 1 }));
    return wire.packReads(reads, keys.length);
  };
}

const MAX = ITEM_BYTES + wire.REPLY_BYTES_MORE;

Deno.test("rows are read in the order of their keys, in as many blocks as the origin needs", async () => {
  const node = new Node(answering(100));
  const keys = Array.from({ length: wire.RECORDS_MAX + 1 }, (_, at) => `k${at}`);
  const reads = await node.source.read(keys);
  assertEquals(reads.map(({ row }) => latin1Text(row!.data)), keys);
  assertEquals([reads[0]!.epoch, reads[0]!.cacheable, reads[0]!.version], [0, true, 3]);
  // 100 and 100; then the 57 that are left.
  assertEquals(node.asked, new Array(3).fill(["read", "7-s", 0, MAX]));
  const whole = new Node(answering());
  await whole.source.read(keys);
  assertEquals(whole.asked.length, 2, "a block of so many keys, and one of the rest");
  assertEquals(whole.source.counts, { reads: keys.length, writes: 0, failures: 0 });
});

Deno.test("without a membership nothing is kept, and without an origin nothing read", async () => {
  const node = new Node(answering());
  node.flows.session = "";
  assertEquals((await node.source.read(["k"]))[0]!.cacheable, false);
  node.isMember = false;
  await assertRejects(() => node.source.read(["k"]), Error, "no membership of origin");
  assertEquals(node.source.counts, { reads: 1, writes: 0, failures: 0 });
});

Deno.test("an origin that answers fewer, more or none of the keys is not believed", async () => {
  const row = { ...readOf("k"), epoch: 1 };
  for (
    const answer of [wire.packReads([row]), wire.packReads([row, row, row]), wire.packReads([], 2)]
  ) {
    const node = new Node(() => answer);
    await assertRejects(() => node.source.read(["k", "l"]), wire.WireError, "other keys than");
  }
});

Deno.test("a row that is too long for the node is a problem of its key alone", async () => {
  const node = new Node((block) => {
    const [first] = wire.unpackKeys(block);
    return first === "long" ? new LongReplyError("too long") : answering(1)(block);
  });
  const reads = await node.source.read(["a", "long", "b"]);
  const problem = "the row is larger than this node can hold (-I)";
  assertEquals(reads.map((read) => read.problem), [undefined, problem, undefined]);
  assertEquals(reads[1], { row: null, version: 0, cacheable: false, problem, epoch: 0 });
  assertEquals(node.source.counts.failures, 1);
});

const SET: ClientWrite = {
  kind: RowKind.STORE,
  mode: StoreMode.SET,
  key: "k",
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

function writeOf(wish: Partial<ClientWrite> = {}): RowWrite {
  const work = new RowEdit({ ...SET, ...wish }, latin1Bytes("x"));
  return new RowWrite({ key: "k", edit: work.edit, connection: 1, bytes: 1, work });
}

function sent(reply: WriteReply, outcome: Outcome, number = 0n): wire.SentReply {
  return { reply, outcome, number, row: null };
}

Deno.test("writes get their outcomes from the origin; those behind an error have none, and those before it have", async () => {
  const group = [
    writeOf(),
    writeOf({ kind: RowKind.COUNT }),
    writeOf({ kind: RowKind.TOUCH }),
    writeOf(),
  ];
  for (
    const [error, kind] of [
      [new PeerError("lost"), "unknown"],
      [new wire.WireError("lost"), "unknown"],
      [new UnsentError("lost"), "failed"],
      [new OriginRefusal("origin", "SERVER_ERROR lost"), "failed"],
    ] as const
  ) {
    const answers = [
      wire.packReplies([
        sent({ kind: "committed", version: 4 }, Outcome.STORED),
        sent({ kind: "refused", row: null }, Outcome.NOT_FOUND, 9n),
      ]),
      error,
    ];
    const node = new Node(() => answers.shift()!);
    const replies = await node.source.write(group);
    assertEquals(replies.map((reply) => reply.kind), ["committed", "refused", kind, kind]);
    assertEquals((replies[3] as { reason: string }).reason, error.message);
    assertEquals(node.asked.map(([verb, session]) => [verb, session]), [
      ["write", "7-s"],
      ["write", "7-s"],
    ]);
    assertEquals(node.source.counts, { reads: 0, writes: 4, failures: 1 });
  }
  assertEquals(group.map(({ work }) => work!.outcome).slice(0, 2), [
    Outcome.STORED,
    Outcome.NOT_FOUND,
  ]);
  assertEquals(group[1]!.work!.number, 9n);
  const away = new Node(answering());
  away.isMember = false;
  const reason = "no membership of origin";
  assertEquals(await away.source.write([writeOf()]), [{ kind: "failed", reason }]);
});

Deno.test("commands go to the origin, but not its node's statistics and no request of nodes", async () => {
  const node = new Node((block) => latin1Bytes(`${latin1Text(block)} done\r\n`));
  assertEquals(await node.command("uget k"), "uget k done\r\n");
  assertEquals(await node.command("statsx"), "statsx done\r\n");
  assertEquals(node.asked, new Array(2).fill(["command", "7-s", 0, MAX]));
  assertEquals(await node.command("stats rows"), "STAT node_member 1\r\nEND\r\n");
  const nested = "this server is a node, and no origin";
  await assertRejects(() => node.command("node poll s 0 0"), Error, nested);
  assertEquals(node.asked.length, 2);
});

Deno.test("a command whose reply did not come may have been executed; one that was refused, or not sent, was not", async () => {
  for (
    const [answer, message] of [
      [latin1Bytes("cut"), "outcome unknown: the origin answers a command without a line end"],
      [latin1Bytes("cut\n"), "outcome unknown: the origin answers a command without a line end"],
      [new PeerError("lost"), "outcome unknown: lost"],
      [new OriginRefusal("origin", "STORED"), "outcome unknown: origin: STORED"],
      [new OriginRefusal("origin", "SERVER_ERROR no"), "origin: no"],
      [new UnsentError("away"), "away"],
    ] as const
  ) {
    const error = await assertRejects(() => new Node(() => answer).command("uput k"), Error);
    assertEquals(error.message, message);
  }
});

Deno.test("lines of an origin: what they say, what may pass, and what no origin sends", () => {
  const refusal = (line: string): unknown[] => {
    const error = new OriginRefusal("o", line);
    const { message, isSessionOver, mustWait } = error;
    return [message, isSessionOver, mustWait, mayPass(error), isMalformed(error)];
  };
  assertEquals(refusal("NOT_FOUND"), [
    "o: it has gone on without this node",
    true,
    false,
    true,
    false,
  ]);
  assertEquals(refusal(`SERVER_ERROR ${wire.WAIT_TEXT}`), [
    ...[`o: ${wire.WAIT_TEXT}`, false, true, true, false],
  ]);
  assertEquals(refusal("ERROR"), [
    "o is no origin: a server with --db",
    false,
    false,
    false,
    false,
  ]);
  assertEquals(refusal("CLIENT_ERROR a\x1bb"), ["o: a\\x1bb", false, false, false, false]);
  assertEquals(refusal("STORED"), ["o: STORED", false, false, false, true]);
  assertEquals(refusal("ERRORS"), ["o: ERRORS", false, false, false, true]);
  assertEquals((refusal("x".repeat(400))[0] as string).length, "o: ".length + 300);
  const kinds = [new PeerError("x"), new UnsentError("x"), new wire.WireError("x"), new Error("x")];
  assertEquals(kinds.map(mayPass), [true, true, false, false]);
  assertEquals(kinds.map(isOutcomeUnknown), [true, false, true, false]);
  assertEquals(kinds.map(isMalformed), [false, false, true, false]);
});

Deno.test("a node has no slow keys, and leaves refusals to its origin", () => {
  const { source } = new Node(answering());
  assertEquals([source.isSlow(), source.refusalOf(), source.endText], [false, null, null]);
});
