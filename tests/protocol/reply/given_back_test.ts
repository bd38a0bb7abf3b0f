import { assert, assertEquals } from "@std/assert";
import { OPCODES } from "../../../protocol/binary_opcodes.ts";
import { ConversationState } from "../../../protocol/conversation.ts";
import { countOf, REQUEST_KINDS } from "../../../protocol/counts/request_times.ts";
import { FillTask } from "../../../protocol/tasks.ts";
import type { ConnectionId } from "../../../store/connections.ts";
import { binaryReplies } from "../../support/sessions/auth_requests.ts";
import { packetText } from "../../support/sessions/binary_text.ts";
import { ConversationSide } from "../../support/sessions/conversation_side.ts";
import { RowsSide } from "../../support/sessions/rows_side.ts";
import { bytesOf, textOf } from "../../support/sessions/side.ts";
import { held } from "../../support/store.ts";

// What a request holds or counts is given back on every path: a cut reply, a dropped value, a read that waits.

const LENGTH = 300_000;
const LONG = Array.from({ length: LENGTH / 10 }, (_, n) => `${n}`.padStart(10, ".")).join("");
const LAYOUTS = ["leased", "memcached"];

/** The requests and replies of one connection, a slice at a time, as a transport drives it. */
class Slices {
  readonly #side: ConversationSide;
  readonly #conversation;
  #input = new Uint8Array();

  constructor(side: ConversationSide, owner: number) {
    this.#side = side;
    this.#conversation = side.protocols.open(owner as ConnectionId, { protocol: "auto" });
  }

  /** Begins with requests. */
  ask(requests: string): string {
    this.#input = bytesOf(requests);
    return this.next();
  }

  /** Executes a slice, and returns its replies with the values that are sent from the store. */
  next(): string {
    const { cache, input, reply } = this.#side.thread;
    input.bytes.set(this.#input);
    reply.reset();
    const at = this.#conversation.feed(0, this.#input.length);
    this.#input = this.#input.slice(at);
    const { valueSegments } = reply;
    let text = "";
    let sent = 0;
    held(cache, () => {
      for (let index = 0; index < valueSegments.count; index++) {
        text += textOf(reply.region.bytes.subarray(sent, valueSegments.at(index)));
        sent = valueSegments.at(index);
        const value = cache.valueLength(valueSegments.item(index));
        const start = valueSegments.start(index);
        const length = valueSegments.length(index);
        assert(start + length <= value);
        text += LONG.slice(start, start + length);
      }
    });
    text += textOf(reply.region.bytes.subarray(sent, reply.length));
    assertEquals(text.length, reply.totalLength);
    held(cache, () => valueSegments.release(cache, 0));
    return text;
  }

  get isUnfinished(): boolean {
    return this.#conversation.state === ConversationState.UNFINISHED;
  }

  end(): void {
    this.#conversation.end();
  }
}

function sideWithLong(layout: string): ConversationSide {
  const side = new ConversationSide(["-o", `slab_layout=${layout}`]);
  side.connect().ask(`set long 5 0 ${LENGTH} noreply\r\n${LONG}\r\nset k 0 0 1 noreply\r\n1\r\n`);
  side.connect().ask(`set medium 0 0 ${MEDIUM.length} noreply\r\n${MEDIUM}\r\n`);
  return side;
}

/** Chunks in use when every item is gone. */
function chunksAfter(side: ConversationSide): string[] {
  const peer = side.connect();
  peer.ask("delete long\r\ndelete medium\r\ndelete k\r\n");
  return peer.ask("stats slabs\r\n").match(/used_chunks [1-9]\d*/g) ?? [];
}

/** A value that is sent from the store, but fits the reply buffer. */
const MEDIUM = LONG.slice(0, 20_000);
const REFUSED = `get k medium ${"x".repeat(251)}\r\nget k\r\nget medium\r\n`;

const READS: Readonly<Record<string, string>> = {
  "get of one key": "get long\r\n",
  "get of keys": "get k long k long k\r\nget k\r\n",
  "gets in one packet": "gets long\r\ngets long\r\nget long\r\n",
  mg: "mg long v k f\r\nmg k v\r\n",
  gat: "gat 100 k long k\r\n",
  "a line that is refused behind a value": `get k long ${"x".repeat(251)}\r\nget k\r\n`,
  "lines that are refused behind a value": REFUSED.repeat(20),
  "many values": "get long\r\n".repeat(50),
  Get: packetText({ opcode: OPCODES.GetK[0], key: "long", opaque: 3 }).repeat(2),
};

for (const layout of LAYOUTS) {
  for (const [name, request] of Object.entries(READS)) {
    Deno.test(`the same reply with values sent from the store, layout ${layout}: ${name}`, () => {
      const replies = [false, true].map((enabled) => {
        using side = sideWithLong(layout);
        side.thread.reply.valueSegments.enabled = enabled;
        const slices = new Slices(side, 1_000_000);
        let reply = slices.ask(request);
        while (slices.isUnfinished) reply += slices.next();
        slices.end();
        assertEquals(chunksAfter(side), []);
        return reply;
      });
      assertEquals(replies[1]!.length, replies[0]!.length);
      assert(replies[1] === replies[0], "the replies differ");
      assertEquals(replies[0]!.includes(LONG), !request.includes("medium"));
    });
    Deno.test(`a connection that ends after each slice gives all back, layout ${layout}: ${name}`, () => {
      for (let slices = 1, isOver = false; !isOver && slices < 8; slices++) {
        for (const enabled of [false, true]) {
          using side = sideWithLong(layout);
          side.thread.reply.valueSegments.enabled = enabled;
          const reader = new Slices(side, 1_000_000);
          reader.ask(request);
          for (let slice = 1; slice < slices && reader.isUnfinished; slice++) reader.next();
          isOver = !reader.isUnfinished;
          reader.end();
          assertEquals(chunksAfter(side), [], `after ${slices} slices`);
        }
      }
    });
  }
}

const DROPPED_LENGTH = 1_000_000;
const ARRIVED = 200_000;

/** Stores of a long value, and what they answer when it was dropped while it arrived. */
const STORES: Readonly<Record<string, readonly [start: string, end: string, reply: string]>> = {
  set: [
    `set k 0 0 ${DROPPED_LENGTH}\r\n`,
    "\r\nmn\r\n",
    "SERVER_ERROR out of memory storing object\r\nMN\r\n",
  ],
  "silent set": [`set k 0 0 ${DROPPED_LENGTH} noreply\r\n`, "\r\nmn\r\n", "MN\r\n"],
  ms: [
    `ms k ${DROPPED_LENGTH} O7 k c s\r\n`,
    "\r\nmn\r\n",
    "SERVER_ERROR out of memory storing object\r\nMN\r\n",
  ],
  "silent ms": [
    `ms k ${DROPPED_LENGTH} q\r\n`,
    "\r\nmn\r\n",
    "SERVER_ERROR out of memory storing object\r\nMN\r\n",
  ],
};

for (const cut of [0, 1, DROPPED_LENGTH - ARRIVED - 1, DROPPED_LENGTH - ARRIVED]) {
  for (const [name, [start, end, reply]] of Object.entries(STORES)) {
    Deno.test(`a value that was dropped is passed over, told after ${cut} bytes: ${name}`, () => {
      assertEquals(droppedReply(start, end, cut), reply);
    });
  }
  Deno.test(`a binary value that was dropped is passed over, told after ${cut} bytes`, () => {
    for (const opcode of OPCODES.Set) {
      const fields = { opcode, key: "k", extras: "\0".repeat(8), opaque: 7 };
      const start = packetText({ ...fields, bodyLength: 9 + DROPPED_LENGTH });
      const reply = droppedReply(start, packetText({ opcode: OPCODES.Noop[0] }), cut);
      assertEquals(binaryReplies(reply).map(({ status }) => status), [0x82, 0]);
      assertEquals(reply.slice(12, 16), "\0\0\0\x07");
    }
  });
}

/** Begins a store, lets others push its value out, and sends the rest of it in two parts, and more. */
function droppedReply(start: string, end: string, cut: number): string {
  using side = new ConversationSide(["-m", "8", "-c", "200"]);
  const peer = side.connect();
  peer.ask(start + "v".repeat(ARRIVED));
  const others = Array.from({ length: 50 }, () => side.connect());
  for (const [index, other] of others.entries()) {
    other.ask(`set other${index} 0 0 ${DROPPED_LENGTH}\r\n${"v".repeat(ARRIVED)}`);
  }
  const rest = "v".repeat(DROPPED_LENGTH - ARRIVED);
  const reply = peer.ask(rest.slice(0, cut)) + peer.ask(rest.slice(cut) + end);
  assertEquals(peer.isBusy, false);
  for (const other of others) other.disconnect();
  const stats = side.statsNow();
  assertEquals([stats.get("values_arriving"), stats.get("values_arriving_bytes")], [0, 0]);
  return reply;
}

Deno.test("bytes that a transport receives into a value's place are counted once", () => {
  using side = new ConversationSide();
  const { cache, input, reply } = side.thread;
  const conversation = side.protocols.open(1_000_000 as ConnectionId, { protocol: "ascii" });
  const before = side.statsNow().get("bytes_read")!;
  const asking = "stats\r\n".length;
  const line = `set k 0 0 ${LENGTH}\r\n`;
  const feed = (text: string): void => {
    input.bytes.set(bytesOf(text));
    reply.reset();
    conversation.feed(0, text.length);
  };
  feed(line);
  const task = conversation.task as FillTask;
  assert(task instanceof FillTask);
  const receive = (length: number): void => {
    assert(held(cache, () => task.beginReceiving(cache, length)));
    assert(task.room >= length);
    held(cache, () => task.endReceiving(cache, length));
  };
  for (const piece of [1000, 2000, 500]) receive(piece);
  assertEquals([task.filled, task.missing], [3500, LENGTH - 3500]);
  feed("v".repeat(10_000));
  receive(1);
  feed("");
  feed("");
  while (task.missing > 0) receive(Math.min(task.missing, 8000));
  feed("\r");
  feed("\r\n");
  assertEquals(textOf(reply.region.bytes.subarray(0, reply.length)), "STORED\r\n");
  conversation.end();
  const counted = side.statsNow().get("bytes_read")! - before;
  assertEquals(counted, line.length + LENGTH + 2 + asking);
});

/** The commands of SESSION and PACKETS; `bogus` is none. */
const REQUESTS = 35;
/** Requests of all kinds; a wait for a row counts once. */
const SESSION = [
  "get a\r\nget a b\r\ngets a\r\nset a 0 0 1\r\n1\r\nget a\r\nget a\r\nget a c d\r\nmg a v\r\nmg c v\r\n",
  "incr a 1\r\nma a\r\ntouch a 0\r\ngat 0 a e\r\nms a 1\r\n2\r\nmd f\r\ndelete g\r\nmn\r\nversion\r\n",
  `set long 0 0 ${LENGTH}\r\n${LONG}\r\nget long\r\nappend long 0 0 5000\r\n${
    "x".repeat(5000)
  }\r\n`,
  `get ${
    "m ".repeat(2000)
  }\r\nset n 0 0 1 noreply\r\n1\r\ncas n 0 0 1 9\r\n1\r\nbogus\r\nget h\r\nget i\r\n`,
];
const PACKETS =
  ["a", "b", "q", "r", "s", "a"].map((key) => packetText({ opcode: OPCODES.GetK[1], key })).join(
    "",
  ) + packetText({ opcode: OPCODES.Set[0], key: "t", extras: "\0".repeat(8), value: LONG }) +
  packetText({ opcode: OPCODES.Get[0], key: "t" }) + packetText({ opcode: OPCODES.Noop[0] });

for (
  const [title, open] of [
    ["", () => new ConversationSide()],
    [", slices of one request", () => new ConversationSide(["-R", "1"])],
    [", two threads", () => new ConversationSide(["-t", "2"])],
    [", rows", () => new RowsSide()],
  ] as const
) {
  Deno.test(`as many requests have a latency as were counted${title}`, () => {
    for (const cut of [1, 1000, Infinity]) {
      using side = open();
      const { ops, times } = side.thread;
      times.beginRound();
      const text = side.connect();
      const binary = side.connect();
      for (const [peer, requests] of [[text, SESSION.join("")], [binary, PACKETS]] as const) {
        // Long values arrive in larger pieces.
        for (let at = 0, end = 0; at < requests.length; at = end) {
          end = at + (cut === 1 && at > 1000 ? 5000 : cut);
          peer.ask(requests.slice(at, end));
        }
      }
      times.record();
      const measured = REQUEST_KINDS.map((_, kind) => countOf(times.histogram(kind)));
      const sum = measured.reduce((total, count) => total + count);
      assertEquals(sum, ops.ofThread(0), `pieces of ${cut}`);
      assertEquals(sum, REQUESTS, `pieces of ${cut}`);
      assertEquals(measured.every((count) => count >= 0), true);
    }
  });
}
