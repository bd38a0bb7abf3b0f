import { assert, assertEquals, assertLess, assertLessOrEqual } from "@std/assert";
import { CounterConversation } from "../../../lib/counters/conversation.ts";
import { ConversationState } from "../../../protocol/conversation.ts";
import type { ConnectionId } from "../../../store/connections.ts";
import { CounterBench, SLICE_REQUESTS } from "../../support/sessions/counter_feed.ts";
import {
  acquire,
  COUNTER_HEADER_LENGTH,
  counterReply,
  counterRequest,
  counterStats,
  dump,
  getCounter,
  named,
  noop,
  packetLength,
  readCounterStats,
  release,
  u32,
} from "../../support/sessions/counter_packets.ts";
import { randomFrom } from "../../support/random.ts";
import { drawSeed, withSeed } from "../../support/seed.ts";

const NAME_LENGTH_MAX = 65535;

/** The connection of an id, which the counters do not look at. */
const OWNER = 1 as ConnectionId;

function connect(bench: CounterBench): CounterConversation {
  return new CounterConversation(bench.state, OWNER);
}

/** Requests and replies of one connection to a new server. */
const SESSION: readonly (readonly [request: string, reply: string])[] = [
  [noop(), counterReply(0x00)],
  [counterRequest(0x00, "what is this", { flags: 9 }), counterReply(0x00)],
  [getCounter("n"), counterReply(0x01, 0x01, "Not found")],
  [acquire(3, 5, "n"), counterReply(0x02, 0, u32(3))],
  [getCounter("n"), counterReply(0x01, 0, u32(3))],
  [acquire(3, 5, "n"), counterReply(0x02, 0x21, "Resource not available")],
  [release(4, "n"), counterReply(0x03, 0x22, "Not acquired")],
  [release(3, "n"), counterReply(0x03)],
  [release(0, "n"), counterReply(0x03, 0x22, "Not acquired")],
  [release(1, "absent"), counterReply(0x03, 0x01, "Not found")],
  [getCounter("n"), counterReply(0x01, 0, u32(0))],
  [
    acquire(0xffffffff, 0xffffffff, "\0\xff\r\n"),
    counterReply(0x02, 0, u32(0xffffffff)),
  ],
  // Nothing of these can be carried out.
  [acquire(0, 5, "n"), counterReply(0x02, 0x04, "Invalid arguments")],
  [acquire(6, 5, "n"), counterReply(0x02, 0x04, "Invalid arguments")],
  [acquire(1, 5, ""), counterReply(0x02, 0x04, "Invalid arguments")],
  [release(1, ""), counterReply(0x03, 0x04, "Invalid arguments")],
  [getCounter(""), counterReply(0x01, 0x04, "Invalid arguments")],
  [counterRequest(0x01), counterReply(0x01, 0x04, "Invalid arguments")],
  [counterRequest(0x01, "\0"), counterReply(0x01, 0x04, "Invalid arguments")],
  [counterRequest(0x01, "\0\x05abcd"), counterReply(0x01, 0x04, "Invalid arguments")],
  [counterRequest(0x02, u32(1) + u32(1)), counterReply(0x02, 0x04, "Invalid arguments")],
  [counterRequest(0x03, "\0\0"), counterReply(0x03, 0x04, "Invalid arguments")],
  [counterRequest(0x55, "hello"), counterReply(0x12, 0x81, "Unknown command")],
  [noop().replace("\x90", "\x91"), counterReply(0x00, 0x04, "Invalid arguments")],
  // Bytes behind the fields do not count.
  [counterRequest(0x01, named("n") + "more"), counterReply(0x01, 0, u32(0))],
  [counterRequest(0x01, named("n") + "m".repeat(200_000)), counterReply(0x01, 0, u32(0))],
  [
    acquire(2, 2, "l".repeat(NAME_LENGTH_MAX)),
    counterReply(0x02, 0, u32(2)),
  ],
  [
    counterRequest(0x11, "ignored"),
    counterReply(0x11, 0, u32(0) + u32(3) + named("n")) +
    counterReply(0x11, 0, u32(0xffffffff) + u32(0xffffffff) + named("\0\xff\r\n")) +
    counterReply(0x11, 0, u32(2) + u32(2) + named("l".repeat(NAME_LENGTH_MAX))) +
    counterReply(0x11),
  ],
];

Deno.test("requests get yrmcds's replies, one by one, all together, and cut anywhere", () => {
  const bench = new CounterBench();
  const conversation = connect(bench);
  for (const [request, reply] of SESSION) assertEquals(bench.feed(conversation, request), reply);
  const requests = SESSION.map(([request]) => request).join("");
  const replies = SESSION.map(([, reply]) => reply).join("");
  for (const pieceMax of [Infinity, 1, 7, 511, 4096]) {
    const other = new CounterBench();
    assertEquals(other.feed(connect(other), requests, pieceMax), replies);
  }
});

Deno.test("each reply has its own request's opaque, those of a Dump included", () => {
  const withOpaque = (packets: string, opaque: number): string => {
    let marked = "";
    for (let left = packets; left.length > 0; left = left.slice(packetLength(left))) {
      marked += left.slice(0, 8) + u32(opaque) + left.slice(12, packetLength(left));
    }
    return marked;
  };
  const session = SESSION.map(([request, reply], index) => [
    withOpaque(request, 0x01020304 * (index + 1)),
    withOpaque(reply, 0x01020304 * (index + 1)),
  ]);
  for (const pieceMax of [Infinity, 1000]) {
    const bench = new CounterBench();
    const replies = bench.feed(
      connect(bench),
      session.map(([request]) => request).join(""),
      pieceMax,
    );
    assertEquals(replies, session.map(([, reply]) => reply).join(""));
  }
});

Deno.test("a body of 30 MiB is skipped, and not kept; one more byte is refused", () => {
  const most = 30 * 2 ** 20;
  const bench = new CounterBench();
  const refused = connect(bench);
  bench.feed(refused, counterRequest(0x00, "", { bodyLength: most + 1 }));
  assertEquals(refused.state, ConversationState.CLOSING);
  const conversation = connect(bench);
  const piece = "x".repeat(2 ** 20);
  let replies = bench.feed(conversation, counterRequest(0x00, "", { bodyLength: most }));
  for (let count = 0; count < 30; count++) {
    replies += bench.feed(conversation, piece);
    assertLess(conversation.keptCapacity, 100_000);
  }
  assertEquals(replies, counterReply(0x00));
  assertEquals(conversation.keptCapacity, 0);
  assertEquals(bench.feed(conversation, noop()), counterReply(0x00));
});

Deno.test("connections that have ended are counted no longer", () => {
  const bench = new CounterBench();
  const connections = (): (number | undefined)[] => {
    const stats = new Map(bench.state.stats());
    return ["curr_connections", "total_connections"].map((name) => stats.get(name));
  };
  const [a, b] = [connect(bench), connect(bench)];
  assertEquals(connections(), [2, 2]);
  a.end();
  assertEquals(connections(), [1, 2]);
  connect(bench);
  b.end();
  assertEquals(connections(), [1, 3]);
});

Deno.test("an interval begins at its second, and those that nobody saw are counted", () => {
  const bench = new CounterBench(1e7, 10);
  const conversation = connect(bench);
  for (const [nowSec, intervals] of [[9, 0], [10, 1], [19, 1], [20, 2], [59, 5], [60, 6]]) {
    bench.nowSec = nowSec!;
    bench.feed(conversation, noop());
    assertEquals(new Map(bench.state.stats()).get("gc_count"), intervals, `at ${nowSec} s`);
  }
});

Deno.test("a body of an impossible length is refused, and ends the connection", () => {
  const bench = new CounterBench();
  const conversation = connect(bench);
  const refused = bench.feed(conversation, counterRequest(0x00, "", { bodyLength: 31 * 2 ** 20 }));
  assertEquals(refused, counterReply(0x00, 0x04, "Invalid arguments"));
  assertEquals(conversation.state, ConversationState.CLOSING);
});

Deno.test("a long name takes memory as it arrives", () => {
  const bench = new CounterBench();
  const conversation = connect(bench);
  bench.feed(conversation, acquire(1, 1, "n".repeat(60_000)).slice(0, 600), 100);
  assertLessOrEqual(conversation.keptCapacity, 1024);
});

Deno.test("what a connection holds comes back when it ends", () => {
  const bench = new CounterBench();
  const [a, b] = [connect(bench), connect(bench)];
  bench.feed(a, acquire(2, 9, "n") + acquire(1, 9, "m"));
  bench.feed(b, acquire(3, 9, "n"));
  a.end();
  assertEquals(bench.feed(b, getCounter("n")), counterReply(0x01, 0, u32(3)));
  assertEquals(bench.feed(b, getCounter("m")), counterReply(0x01, 0, u32(0)));
});

Deno.test("Stats tells yrmcds's figures, and counts well-formed commands", () => {
  const bench = new CounterBench();
  const conversation = connect(bench);
  bench.feed(conversation, SESSION.map(([request]) => request).join(""));
  const reply = bench.feed(conversation, counterStats());
  assertEquals(reply.slice(0, 4), "\x91\x10\0\0");
  assertEquals(packetLength(reply), reply.length);
  assertEquals(Object.fromEntries(readCounterStats(reply.slice(COUNTER_HEADER_LENGTH))), {
    "objects": "3",
    "total_objects": "3",
    "used_memory": String(3 * 256 + 2 * 128 + 1 + 4 + NAME_LENGTH_MAX),
    "conflicts": "0",
    "gc_count": "0",
    "last_gc_elapsed": "0",
    "total_gc_elapsed": "0",
    "curr_connections": "1",
    "total_connections": "1",
    "command:noop": "2",
    "command:get": "5",
    "command:acquire": "4",
    "command:release": "4",
    "command:stats": "0",
    "command:dump": "1",
  });
});

Deno.test("an interval drops idle counters and resets the highest values", () => {
  const bench = new CounterBench(1e7, 10);
  const [a, b] = [connect(bench), connect(bench)];
  bench.feed(a, acquire(1, 9, "idle") + release(1, "idle") + acquire(5, 9, "n"));
  bench.nowSec = 9;
  assertEquals(bench.feed(b, getCounter("idle")), counterReply(0x01, 0, u32(0)));
  bench.nowSec = 35;
  a.end();
  assertEquals(bench.feed(b, getCounter("idle")), counterReply(0x01, 0x01, "Not found"));
  const highest = (value: number): string =>
    counterReply(0x11, 0, u32(0) + u32(value) + named("n")) + counterReply(0x11);
  // The connection ended in the new interval.
  assertEquals(bench.feed(b, dump()), highest(5));
  assertEquals(new Map(bench.state.stats()).get("gc_count"), 3);
});

Deno.test("many idle counters are dropped by and by, with the requests that come", () => {
  const COUNT = 2500;
  const bench = new CounterBench(1e7, 10);
  const conversation = connect(bench);
  for (let index = 0; index < COUNT; index++) {
    bench.feed(conversation, acquire(1, 1, `n${index}`) + release(1, `n${index}`));
  }
  bench.nowSec = 10;
  const left: number[] = [];
  for (let requests = 0; requests < 4; requests++) {
    bench.feed(conversation, noop());
    left.push(bench.state.counters.count);
  }
  assertEquals(left, [1500, 500, 0, 0]);
});

Deno.test("a long Dump is made as it is taken", () => {
  const bench = new CounterBench(1e8);
  const conversation = connect(bench);
  const count = 3000;
  for (let index = 0; index < count; index++) {
    bench.feed(conversation, acquire(1, 1, `${index}`.padStart(1000, "-")));
  }
  const slices = [...bench.slices(conversation, dump() + noop())];
  const lengths = slices.map(({ length }) => length);
  assertEquals(
    lengths.reduce((sum, length) => sum + length),
    count * (COUNTER_HEADER_LENGTH + 10 + 1000) + 2 * COUNTER_HEADER_LENGTH,
  );
  assert(Math.max(...lengths) < 70_000, `${lengths}`);
  assert(slices.join("").endsWith(counterReply(0x11) + counterReply(0x00)));
});

Deno.test("a slice ends when its work is done", () => {
  const bench = new CounterBench();
  const replies = [...bench.slices(connect(bench), getCounter("n".repeat(1000)).repeat(60))];
  assertLess(1, replies.length);
  assertEquals([...bench.slices(connect(bench), noop().repeat(SLICE_REQUESTS))].length, 2);
});

Deno.test("bytes at random are answered with packets, and leave nothing acquired", async () => {
  await withSeed(drawSeed(), (seed) => {
    const random = randomFrom(seed);
    const bench = new CounterBench(100_000);
    const { state } = bench;
    const whole = SESSION.map(([request]) => request).filter(({ length }) => length < 1000);
    for (let stream = 0; stream < 2000; stream++) {
      const conversation = connect(bench);
      let requests = "";
      for (let count = 0; count < 5; count++) {
        requests += whole[Math.floor(random() * whole.length)]!;
      }
      const bytes = [...requests];
      for (let count = 0; count < random() * 6; count++) {
        bytes[Math.floor(random() * bytes.length)] = String.fromCharCode(random() * 256);
      }
      let replies = bench.feed(conversation, bytes.join(""), 1 + random() * 100);
      while (replies.length > 0) {
        assertEquals(replies[0], "\x91");
        assert(packetLength(replies) <= replies.length);
        replies = replies.slice(packetLength(replies));
      }
      conversation.end();
    }
    state.counters.beginInterval();
    while (state.counters.dropIdle(1000));
    assertEquals([state.counters.count, state.counters.usedBytes], [0, 0]);
  });
});
