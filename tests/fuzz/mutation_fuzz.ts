import { assert, assertLess } from "@std/assert";
import v8 from "node:v8";
import { MIB } from "../../store/limits.ts";
import { type ConversationPeer, ConversationSide } from "../support/sessions/conversation_side.ts";
import type { SocketSide } from "../support/sessions/socket_side.ts";
import { showText } from "../support/sessions/transcript.ts";
import { mayWaitForLong, MutationSource } from "./mutations.ts";

const OPTIONS = [
  ..."-m 4 -I 1m -A -z 3333 --tokens volatile --token-quarantine 0 --allow-token-drop".split(" "),
];
const PEERS = 8;
const CHECK_EVERY = 100;
/** Most bytes by which this thread's heap and external memory may grow. */
const GROWTH_BYTES_MAX = 256 * MIB;
/** Ends any line, and any data block of up to 99 999 bytes. */
const REVIVAL = `\r\n${"x".repeat(998)}`.repeat(101) + "\r\nversion\r\n";

/**
 * Mutated requests to conversations: nothing throws, nothing grows, nobody waits for ever, and the
 * store stays whole.
 */
export function fuzzConversations(
  seed: number,
  streams: number,
  options: readonly string[] = [],
): void {
  const source = new MutationSource(seed);
  const side = new ConversationSide([...OPTIONS, ...options]);
  const peers: (ConversationPeer | undefined)[] = new Array(PEERS).fill(undefined);
  /** Those that may have been told of a data block that is too long to be sent here. */
  const waiting = new Set<ConversationPeer>();
  const heldBefore = heldBytes();
  for (let count = 0; count < streams; count++) {
    const index = source.below(PEERS);
    const peer = peers[index] ??= side.connect();
    const stream = source.stream();
    try {
      for (const piece of source.pieces(stream)) {
        peer.ask(piece);
      }
      if (mayWaitForLong(stream)) waiting.add(peer);
      else if (!waiting.has(peer) && source.random() < 0.3) assertAnswers(peer);
    } catch (error) {
      if (error instanceof Error) error.message += `\nafter ${showText(stream)}`;
      throw error;
    }
    if (peer.closed || source.random() < 0.5) {
      peer.disconnect();
      waiting.delete(peer);
      peers[index] = undefined;
    }
    if (count % CHECK_EVERY === 0) side.check();
    if (source.random() < 0.02) side.advanceNow(1);
  }
  for (const peer of peers) peer?.disconnect();
  side.check();
  assertLess(heldBytes() - heldBefore, GROWTH_BYTES_MAX);
}

function heldBytes(): number {
  const { used_heap_size: heap, external_memory: external } = v8.getHeapStatistics();
  return heap + external;
}

function assertAnswers(peer: ConversationPeer): void {
  const reply = peer.ask(REVIVAL);
  assert(peer.closed || reply.includes("VERSION "), "the connection answers, or is closed");
}

/** The same to a server over its sockets: it lives on and answers others. */
export async function fuzzSockets(side: SocketSide, seed: number, streams: number): Promise<void> {
  const source = new MutationSource(seed);
  for (let count = 0; count < streams; count++) {
    const peer = await side.open();
    const stream = source.stream();
    for (const piece of source.pieces(stream)) await peer.send(piece);
    if (!mayWaitForLong(stream)) {
      await peer.send(REVIVAL);
      await peer.endSending();
      assert(await peer.isClosed(), `the connection is closed after ${showText(stream)}`);
    }
    peer.disconnect();
    if (count % 10 === 0) await side.ask("version\r\n", "\r\n");
  }
  await side.ask("version\r\n", "\r\n");
}
