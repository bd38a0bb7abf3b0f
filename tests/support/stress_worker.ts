/// <reference lib="deno.worker" />
// One of several threads that hammer the same store. What must hold meanwhile is checked here, the sums by whoever started it.
import type { Settings } from "../../protocol/settings.ts";
import { type SharedState, ThreadContext } from "../../protocol/thread_context.ts";
import { ConversationPeer } from "./conversation_side.ts";
import { randomFrom } from "./random.ts";

export interface StressOrder {
  readonly shared: SharedState;
  readonly settings: Settings;
  readonly seed: number;
  readonly rounds: number;
}

export interface StressReport {
  /** How often this thread's cas succeeded. */
  readonly swaps: number;
  readonly error: string | undefined;
}

const KEYS = 40;

self.onmessage = ({ data }: MessageEvent<StressOrder>) => {
  const report: { swaps: number; error: string | undefined } = { swaps: 0, error: undefined };
  try {
    report.swaps = hammer(data);
  } catch (error) {
    report.error = String(error);
  }
  self.postMessage(report);
  self.close();
};

function hammer({ shared, settings, seed, rounds }: StressOrder): number {
  const thread = new ThreadContext(shared, settings, {
    shutdown: () => {},
    processFacts: () => ({ userMicroseconds: 0, systemMicroseconds: 0, accepting: true }),
  });
  const random = randomFrom(seed);
  const below = (end: number): number => Math.floor(random() * end);
  const peer = new ConversationPeer(thread);
  let swaps = 0;
  for (let round = 0; round < rounds; round++) {
    peer.ask("incr count 1 noreply\r\n");
    const length = below(10) === 0 ? below(50_000) : below(200);
    const value = String.fromCharCode(97 + below(26)).repeat(length);
    const key = `key${below(KEYS)}`;
    peer.ask(`set ${key} 0 0 ${length} noreply\r\n${value}\r\n`);
    checkValue(peer.ask(`get key${below(KEYS)}\r\n`));
    if (round % 7 === 0) peer.ask(`delete key${below(KEYS)} noreply\r\n`);
    if (round % 3 === 0) swaps += swap(peer);
  }
  peer.disconnect();
  return swaps;
}

/** A value is of one letter: whoever stored it, stored all of it. */
function checkValue(reply: string): void {
  if (reply === "END\r\n") return;
  if (!/^VALUE \w+ 0 (\d+)\r\n(?:([a-z])\2*)?\r\nEND\r\n$/.test(reply)) {
    throw new Error(`a value is torn: ${reply.slice(0, 200)}`);
  }
}

/** Counts up by gets and cas; another thread may be quicker. */
function swap(peer: ConversationPeer): number {
  const reply = peer.ask("gets swap\r\n");
  const [, id, number] = /^VALUE swap 0 \d+ (\d+)\r\n(\d+)\r\n/.exec(reply) ?? [];
  if (id === undefined) throw new Error(`swap is lost: ${reply}`);
  const next = String(Number(number) + 1);
  return peer.ask(`cas swap 0 0 ${next.length} ${id}\r\n${next}\r\n`) === "STORED\r\n" ? 1 : 0;
}
