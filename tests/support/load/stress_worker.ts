/// <reference lib="deno.worker" />
// One of several threads that hammer the same store. The invariants are checked here, the
// sums by whoever started it.
import { ThreadProtocols } from "../../../protocol/thread_protocols.ts";
import { ConversationPeer } from "../sessions/conversation_side.ts";
import { randomFrom } from "../random.ts";
import { joinThread, type Shared } from "../threads.ts";

export interface StressOrder extends Shared {
  /** From 1; the thread that starts them all is 0. */
  readonly threadIndex: number;
  readonly seed: number;
  readonly rounds: number;
}

export interface StressReport {
  /** Successful cas requests of this thread. */
  readonly swaps: number;
  readonly error: string | undefined;
}

const KEYS = 40;
const LONG_VALUE_BYTES = 200_000;

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

function hammer(order: StressOrder): number {
  const { threadIndex, seed, rounds } = order;
  const thread = joinThread(order, threadIndex);
  const random = randomFrom(seed);
  const below = (end: number): number => Math.floor(random() * end);
  const peer = new ConversationPeer(new ThreadProtocols(thread));
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
    if (round % 50 === 0) extend(peer, below(2) === 0, below(9000));
  }
  peer.disconnect();
  return swaps;
}

/** Asserts that a value repeats one letter: a single store wrote all of it. */
function checkValue(reply: string): void {
  if (reply === "END\r\n") return;
  if (!/^VALUE \w+ 0 (\d+)\r\n(?:([a-z])\2*)?\r\nEND\r\n$/.test(reply)) {
    throw new Error(`a value is torn: ${reply.slice(0, 200)}`);
  }
}

/** Makes a value longer and longer, so that the mutex is yielded while it is copied; each piece stays whole. */
function extend(peer: ConversationPeer, append: boolean, length: number): void {
  const piece = `<${"-".repeat(length)}>`;
  const command = append ? "append" : "prepend";
  const reply = peer.ask(`${command} long 0 0 ${piece.length}\r\n${piece}\r\n`);
  const value = peer.ask("get long\r\n");
  if (value === "END\r\n" || value.length > LONG_VALUE_BYTES) {
    peer.ask("set long 0 0 2\r\n<>\r\n");
    return;
  }
  if (!/^(STORED|NOT_STORED)\r\n$/.test(reply)) throw new Error(`${command}: ${reply}`);
  if (!/^VALUE long 0 (\d+)\r\n(?:<-*>)*\r\nEND\r\n$/.test(value)) {
    throw new Error(`a value that was extended is torn: ${value.slice(0, 200)}`);
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
