import { assertEquals } from "@std/assert";
import { CounterConversation } from "../../lib/counters/conversation.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { CounterBench } from "../support/sessions/counter_feed.ts";
import {
  acquire,
  COUNTER_HEADER_LENGTH,
  counterRequest,
  dump,
  getCounter,
  named,
  noop,
  packetLength,
  release,
  u32,
} from "../support/sessions/counter_packets.ts";
import { randomFrom } from "../support/random.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import type { Peer, Side } from "../support/sessions/side.ts";
import { startYrmcdsCounters, yrmcdsInstalled } from "../support/servers/yrmcds.ts";
import { needs } from "../support/needs/needs.ts";

const REQUESTS = 5000;
const CLIENTS = 4;
const NAMES = ["a", "b", "c", "\0\xff\r\n", "long".repeat(500)];
const DUMP = 0x11;

/** The same client of both servers. */
class Pair {
  readonly #theirs: Peer;
  readonly #ours: CounterConversation;

  readonly #bench: CounterBench;

  constructor(theirs: Peer, bench: CounterBench) {
    this.#theirs = theirs;
    this.#bench = bench;
    this.#ours = new CounterConversation(bench.state, 1 as ConnectionId);
  }

  /** Reply of this server. */
  ask(request: string): string {
    return this.#bench.feed(this.#ours, request);
  }

  /** Reply of the real server: one packet, or all packets of a Dump. */
  async askThem(request: string): Promise<string> {
    await this.#theirs.send(request);
    let replies = "";
    for (;;) {
      const packet = await this.#packet();
      replies += packet;
      if (packet.charCodeAt(1) !== DUMP || packet.length === COUNTER_HEADER_LENGTH) return replies;
    }
  }

  end(): void {
    this.#theirs.disconnect();
    this.#ours.end();
  }

  async #packet(): Promise<string> {
    let received = await this.#theirs.receive(0);
    while (!(received.length >= packetLength(received))) {
      const more = await this.#theirs.receive(received.length);
      if (more.length === received.length) throw new Error(`yrmcds answered ${received}`);
      received = more;
    }
    const length = packetLength(received);
    this.#theirs.take(length);
    return received.slice(0, length);
  }
}

/** A request that was once right, or is. Sums stay below 2^32: there yrmcds wraps. */
function drawRequest(random: () => number): string {
  const below = (bound: number): number => Math.floor(random() * bound);
  const name = NAMES[below(NAMES.length)]!;
  const drawn = below(100);
  if (drawn < 35) return acquire(below(6), random() < 0.3 ? 0xffffffff : below(20), name);
  if (drawn < 70) return release(below(6), name);
  if (drawn < 85) return getCounter(name);
  if (drawn < 88) return noop();
  if (drawn < 90) return dump();
  if (drawn < 93) return counterRequest(below(0x10), u32(below(3)) + named(name));
  if (drawn < 96) return counterRequest(0x12 + below(200), "body");
  if (drawn < 98) return counterRequest(below(4), "\0\0\0\x01\0\0\0\x09\0".slice(below(9)));
  return counterRequest(below(4), named(name), { magic: below(256), flags: below(256) });
}

/** The packets of a Dump stand in no order. */
function sorted(replies: string): string[] {
  const packets: string[] = [];
  for (let rest = replies; rest.length > 0; rest = rest.slice(packetLength(rest))) {
    packets.push(rest.slice(0, packetLength(rest)));
  }
  return packets.sort();
}

async function duel(theirs: Side, seed: number): Promise<void> {
  const random = randomFrom(seed);
  const bench = new CounterBench();
  const open = async (): Promise<Pair> => new Pair(await theirs.open(), bench);
  const pairs: Pair[] = [];
  for (let index = 0; index < CLIENTS; index++) pairs.push(await open());
  try {
    for (let count = 0; count < REQUESTS; count++) {
      const index = Math.floor(random() * CLIENTS);
      if (random() < 0.005) {
        pairs[index]!.end();
        pairs[index] = await open();
        // It may take a while until yrmcds notices.
        for (const name of NAMES) {
          const request = getCounter(name);
          const ours = pairs[0]!.ask(request);
          for (let tries = 0; await pairs[0]!.askThem(request) !== ours; tries++) {
            if (tries > 10_000) throw new Error(`yrmcds keeps ${name} of a closed connection`);
          }
        }
      }
      const request = drawRequest(random);
      const [ours, their] = [pairs[index]!.ask(request), await pairs[index]!.askThem(request)];
      assertEquals(sorted(ours), sorted(their), `after ${count} to ${JSON.stringify(request)}`);
    }
  } finally {
    for (const pair of pairs) pair.end();
  }
}

Deno.test("random requests to the counter server get yrmcds's replies", {
  ...needs("yrmcds", yrmcdsInstalled()),
}, async (): Promise<void> => {
  await using theirs = await startYrmcdsCounters();
  await withSeed(drawSeed(), (seed) => duel(theirs, seed));
});
