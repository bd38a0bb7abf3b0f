import type { Due } from "../../../lib/rows/flows/node_flows.ts";
import { keySet } from "../../support/rows/key_sets.ts";
import { assertEquals, assertMatch } from "@std/assert";
import * as wire from "../../../lib/rows/nodes/wire.ts";
import { latin1Text } from "../../../store/base/bytes.ts";
import { Outcome } from "../../../store/outcome.ts";
import { startNode } from "../../support/servers/origin_process.ts";
import { type Client, type ServerProcess, until } from "../../support/servers/server_process.ts";
import { blockReply, HostileOrigin, type NodeRequest } from "./nodes/hostile_origin.ts";

// A real node whose origin is hostile or broken: each request of a client is answered, with an error; nothing of the
// origin ends the node, leaves a request without a reply, or gets into a log or a reply raw.

const MEMBER_MS = 60_000;
const VERSION = 7;

type Reply = (request: NodeRequest) => string | null | Promise<string | null>;

function reply(more: Partial<wire.SentReply> = {}): wire.SentReply {
  const committed = { kind: "committed", version: VERSION } as const;
  return { reply: committed, outcome: Outcome.STORED, number: 0n, row: null, ...more };
}

function rowsFor({ block }: NodeRequest): string {
  const row = { flags: 5, version: VERSION, data: Uint8Array.of(0x76) };
  const read = { row, version: VERSION, epoch: 0, cacheable: false };
  return blockReply(wire.packReads(wire.unpackKeys(block).map(() => read)));
}

const GOOD: Record<string, Reply> = {
  read: rowsFor,
  write: ({ block }) => blockReply(wire.packReplies(wire.unpackWrites(block).map(() => reply()))),
  command: () => blockReply("VALUE r:k 5 1 7 C\r\nv\r\nEND\r\n"),
};

/** A request of a client for each request of a node, and its reply when the origin behaves. */
const REQUESTS = {
  read: ["get r:k\r\n", "VALUE r:k 5 1\r\nv\r\nEND\r\n"],
  write: ["set r:k 0 0 1\r\nx\r\n", "STORED\r\n"],
  command: ["uget r:k\r\n", "VALUE r:k 5 1 7 C\r\nv\r\nEND\r\n"],
} as const;
type Verb = keyof typeof REQUESTS;
const VERBS = Object.keys(REQUESTS) as Verb[];

/** The first bytes of what it should say. */
async function cut(request: NodeRequest, bytes: number): Promise<null> {
  const whole = await GOOD[request.verb]!(request);
  const text = Uint8Array.from(whole!.slice(0, bytes), (character) => character.charCodeAt(0));
  await request.socket.write(text);
  request.socket.close();
  return null;
}

async function trickle({ socket }: NodeRequest): Promise<null> {
  await socket.write(new TextEncoder().encode("NODE 1000\r\n"));
  for (;;) {
    await socket.write(Uint8Array.of(0));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Malformed replies to any request. */
const MALFORMED: Record<string, Reply> = {
  "no record": () => blockReply(""),
  "a record of noise": () => blockReply("\xff".repeat(100)),
  "half a record": () => blockReply("\0\x01"),
  "ten gigabytes": () => "NODE 9999999999\r\n",
  "two gigabytes": () => "NODE 2000000000\r\nNODE",
  "a negative length": () => "NODE -1\r\n",
  "a length of noise": () => "NODE 0x10\r\n",
  "a line that is no error": () => "STORED\r\n",
  "an empty line": () => "\r\n",
  "a line without end": () => "N".repeat(100_000),
  "control bytes": () => "SERVER_ERROR \x1b]0;title\x07\x1b[31m\x00\x9b\x7f\r\n",
  "an error of another client": () => "SERVER_ERROR outcome\rVALUE r:k 0 1\rx\r\n",
  "a long error": () => `SERVER_ERROR ${"e".repeat(1500)}\r\n`,
  "a cut line": (request) => cut(request, 3),
  "a cut block": (request) => cut(request, 20),
  "bytes that trickle": trickle,
};

const one = (record: wire.SentReply): Reply => () => blockReply(wire.packReplies([record]));

/** Malformed replies to a write. */
const MALFORMED_WRITES: Record<string, Reply> = {
  "more replies than writes": () => blockReply(wire.packReplies([reply(), reply()])),
  "an outcome that waits": one(reply({ outcome: Outcome.PARKED })),
  "an outcome without a text": one(reply({ outcome: Outcome.ROW_ERROR })),
  "the outcome of another kind": one(reply({ outcome: Outcome.DELETED })),
  "refused and stored": one(reply({ reply: { kind: "refused", row: null } })),
  "no version": one(reply({ reply: { kind: "committed", version: NaN } })),
  "a row": one(
    reply({ row: { flags: 0, version: 1, data: new Uint8Array(9), expiresUnixSec: NaN } }),
  ),
};

/** A character whose low byte is LF, and others that no line may have. */
const WIDE_REASON = "\u010aSTORED\u010d\u010a\x1b[31m";

/** @param timeoutMs How long a reply of the origin may take. */
async function startMember(origin: HostileOrigin, timeoutMs = 10_000): Promise<ServerProcess> {
  const node = await startNode([origin], ["--rows", "r:", "--db-timeout", `${timeoutMs}`, "-vvv"]);
  await node.line("is a member of origin");
  return node;
}

function behave(origin: HostileOrigin): void {
  for (const verb of VERBS) origin.replies.set(verb, GOOD[verb]!);
}

/** Every line of a log is text. */
function assertPrintable(node: ServerProcess): void {
  for (const line of node.lines) assertEquals(/\p{Cc}/u.test(line), false, JSON.stringify(line));
}

async function refused(client: Client, verb: Verb, name: string): Promise<string> {
  await client.send(REQUESTS[verb][0]);
  const line = await client.until("\r\n");
  assertMatch(line, /^SERVER_ERROR [\x20-\x7e]{1,300}\r\n$/, `${verb}, ${name}`);
  return line;
}

Deno.test("whatever an origin answers, a node's client gets one error, and the next request its reply", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  behave(origin);
  await using node = await startMember(origin, 200);
  using client = await node.connect();
  await client.ask("set item 0 0 1\r\n1\r\n", "STORED\r\n");
  for (const verb of VERBS) {
    const malformed = verb === "write" ? { ...MALFORMED, ...MALFORMED_WRITES } : MALFORMED;
    for (const [name, answer] of Object.entries(malformed)) {
      origin.replies.set(verb, answer);
      const line = await refused(client, verb, name);
      // The outcome of a write without a reply is unknown.
      if (verb === "write" && !/error|control/.test(name)) {
        assertMatch(line, /^SERVER_ERROR outcome unknown: /, name);
      }
      behave(origin);
      const [request, served] = REQUESTS[verb];
      await client.ask(request, served);
    }
  }
  await client.ask("get item\r\n", "VALUE item 0 1\r\n1\r\nEND\r\n");
  const { code } = await node.stop();
  assertEquals(code, 0);
  assertPrintable(node);
});

Deno.test("the reasons of an origin's replies are text in replies, whatever bytes they have", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  behave(origin);
  await using node = await startMember(origin);
  using client = await node.connect();
  for (const kind of ["failed", "unknown"] as const) {
    const reason = WIDE_REASON.repeat(100);
    // The real origin cuts it.
    const block = wire.packReplies([reply({ reply: { kind, reason } })]);
    origin.replies.set("write", () => blockReply(block));
    await refused(client, "write", kind);
  }
  const problem = wire.packReads([
    { row: null, version: 0, epoch: 0, cacheable: false, problem: WIDE_REASON },
  ]);
  origin.replies.set("read", () => blockReply(problem));
  await refused(client, "read", "a problem");
  behave(origin);
  await client.ask(...REQUESTS.read);
  await node.stop();
  assertPrintable(node);
});

Deno.test("clients of a group of writes with too few replies are all told that the outcome is unknown", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  behave(origin);
  await using node = await startMember(origin);
  const count = 20;
  // The first one has the others gather.
  const isHeld = Promise.withResolvers<void>();
  let blocks = 0;
  origin.replies.set("write", async ({ block }) => {
    const writes = wire.unpackWrites(block);
    if (++blocks === 1) await isHeld.promise;
    return blockReply(wire.packReplies(writes.slice(1).map(() => reply())));
  });
  using stack = new DisposableStack();
  const clients: Client[] = [];
  for (let index = 0; index < count; index++) {
    const client = stack.use(await node.connect());
    clients.push(client);
    await client.send(`set r:${index} 0 0 1\r\nx\r\n`);
    await client.send(`set i${index} 0 0 1\r\nx\r\n`);
  }
  isHeld.resolve();
  for (const client of clients) {
    assertMatch(await client.until("\r\n"), /^SERVER_ERROR outcome unknown: /);
    await client.expect("STORED\r\n");
  }
  behave(origin);
  await clients[0]!.ask(...REQUESTS.write);
  await node.stop();
});

Deno.test("a row that is larger than the node can hold is an error; those that were asked for with it are read", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  behave(origin);
  await using node = await startMember(origin);
  using client = await node.connect();
  const row = (bytes: number): wire.SentRead => ({
    row: { flags: 0, version: VERSION, data: new Uint8Array(bytes).fill(0x76) },
    version: VERSION,
    cacheable: false,
  });
  const rows = new Map([["r:a", row(1)], ["r:b", row(3_000_000)], ["r:c", row(2)]]);
  origin.replies.set("read", ({ block }) =>
    blockReply(wire.packReads(
      wire.unpackKeys(block).map((key) => ({ ...rows.get(key)!, epoch: 0 })),
    )));
  for (
    const [key, reply] of [["r:a", "VALUE r:a 0 1\r\nv\r\nEND\r\n"], [
      "r:c",
      "VALUE r:c 0 2\r\nvv\r\nEND\r\n",
    ]]
  ) {
    await client.ask(`get ${key}\r\n`, reply!);
  }
  await client.ask(
    "get r:b\r\n",
    "SERVER_ERROR the row is larger than this node can hold (-I)\r\n",
  );
  // In one group with others.
  using stack = new DisposableStack();
  const clients = [];
  for (const key of ["r:a", "r:b", "r:c", "r:b", "r:a"]) {
    const each = stack.use(await node.connect());
    await each.send(`get ${key}\r\n`);
    clients.push({ key, each });
  }
  for (const { key, each } of clients) {
    assertMatch(await each.until("\r\n"), key === "r:b" ? /^SERVER_ERROR / : /^VALUE /, key);
  }
  await node.stop();
});

/** Answers to a question for deletions after which a node is no member of this origin. */
const BAD_RENEWALS: Record<string, Omit<Due, "prefixes">> = {
  "for ever": { seq: 0, grantedMs: Infinity, keys: [] },
  "longer than the membership": { seq: 0, grantedMs: MEMBER_MS + 1, keys: [] },
  "no number": { seq: 0, grantedMs: NaN, keys: [] },
  "before it began": { seq: 0, grantedMs: -1, keys: [] },
  "a deletion of number 0": { seq: 0, grantedMs: 1, keys: ["r:k"] },
  "no deletion with a number": { seq: 3, grantedMs: 1, keys: [] },
  "deletions of a fraction": { seq: 1.5, grantedMs: 1, keys: ["r:k"] },
};

Deno.test("a malformed renewal ends the membership, and the node joins again", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  behave(origin);
  await using node = await startMember(origin);
  using client = await node.connect();
  const good = origin.replies.get("poll")!;
  const blocks = Object.values(BAD_RENEWALS).map((due) =>
    latin1Text(wire.packDue({ ...due, prefixes: [] }))
  );
  const bad = [...blocks, "", "\xff".repeat(16), "\0".repeat(15), "\0".repeat(17)];
  let joins = 1;
  for (const block of bad) {
    const joined = origin.asked("join", ++joins);
    origin.replies.set("poll", () => {
      origin.replies.set("poll", good);
      return blockReply(block);
    });
    await joined;
  }
  await until(async () => {
    await client.send("get r:k\r\n");
    return (await client.until(/END\r\n|ERROR [^\n]*\n/)).startsWith("VALUE");
  });
  await node.stop();
  assertPrintable(node);
});

Deno.test("an origin deletes rows of its node only: ordinary items stay", async () => {
  using origin = new HostileOrigin({ memberMs: MEMBER_MS });
  let reads = 0;
  origin.replies.set("read", ({ block }) => {
    const row = { flags: 0, version: ++reads, data: Uint8Array.of(0x76) };
    const read = { row, version: reads, epoch: 0, cacheable: true };
    return blockReply(wire.packReads(wire.unpackKeys(block).map(() => read)));
  });
  await using node = await startMember(origin);
  using client = await node.connect();
  const value = "VALUE r:k 0 1\r\nv\r\nEND\r\n";
  const renew = origin.replies.get("poll")!;
  const attacks = ["item", "item*", "*", "i*", "r:k", "r:k*"];
  await client.ask("set item 0 0 1\r\n1\r\n", "STORED\r\n");
  let seq = 0;
  for (const attack of attacks) {
    await client.ask("get r:k\r\n", value);
    const before = reads;
    await client.ask("get r:k\r\n", value);
    assertEquals(reads, before, "the row is cached");
    const sent = ++seq;
    origin.replies.set(
      "poll",
      () => blockReply(wire.packDue({ seq: sent, grantedMs: MEMBER_MS, ...keySet(attack) })),
    );
    // It is confirmed: the node has done it.
    const confirmed = Promise.withResolvers<void>();
    const first = origin.replies.get("poll")!;
    origin.replies.set("poll", (request) => {
      if (request.confirmed < sent) return first(request);
      confirmed.resolve();
      return renew(request);
    });
    await confirmed.promise;
    await client.ask("get item\r\n", "VALUE item 0 1\r\n1\r\nEND\r\n");
    await client.ask("get r:k\r\n", value);
    const isRow = !attack.startsWith("i");
    assertEquals(reads, isRow ? before + 1 : before, attack);
  }
  await node.stop();
});
