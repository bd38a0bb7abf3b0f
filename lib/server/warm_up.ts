import { Conversation } from "../../protocol/conversation.ts";
import type { Settings } from "../../protocol/settings.ts";
import {
  createSharedState,
  type SharedState,
  ThreadContext,
} from "../../protocol/thread_context.ts";
import type { OwnerId } from "../../store/connections.ts";
import { Cache } from "../../store/cache.ts";
import { LEASE_ENTRIES_LEAST } from "../../store/lease_table.ts";
import { MIB } from "../../store/limits.ts";
import { createSharedMemory, Memory } from "../../store/memory.ts";

/** Rounds until the engine has compiled the request path at its highest level. */
const ROUNDS = 80;
const KEYS = 40;
/** A store of this size is full after a few rounds, so that eviction is warm too. */
const SCRATCH_BYTES = 1 * MIB;
const VALUE = "v".repeat(300);
/** Nobody's connection. */
const OWNER = 1 as OwnerId;

/**
 * Runs requests through a scratch store before the first client comes, so that the engine has
 * compiled the request path and the process has about the size that it is going to keep beside
 * `-m`. It counts in no statistics.
 */
export function warmUp(shared: SharedState, settings: Settings): void {
  const memory = createSharedMemory({
    ...shared.memory.options,
    memoryLimitBytes: SCRATCH_BYTES,
    memoryCeilingBytes: SCRATCH_BYTES,
    slabLayout: "leased",
    itemSizeMaxBytes: SCRATCH_BYTES / 2,
    connectionsMax: 2,
    leaseEntries: LEASE_ENTRIES_LEAST,
    strictPrefixes: [],
  });
  Cache.format(new Memory(memory));
  const thread = new ThreadContext(
    createSharedState(memory, settings),
    settings,
    {
      shutdown: () => {},
      processState: () => ({ userMicroseconds: 0, systemMicroseconds: 0, accepting: true }),
    },
  );
  const conversation = new Conversation(thread, OWNER, { protocol: "ascii" });
  const encoder = new TextEncoder();
  for (let round = 0; round < ROUNDS; round++) {
    const { written } = encoder.encodeInto(requestsOf(round), thread.input.bytes);
    for (let at = 0; at < written;) {
      thread.reply.reset();
      at = conversation.feed(at, written);
    }
  }
  conversation.end();
}

/** One batch: what clients send most. */
function requestsOf(round: number): string {
  const lines: string[] = [];
  const key = (number: number): string => `warm:${(round * KEYS + number) % 4000}`;
  for (let number = 0; number < KEYS; number++) {
    const name = key(number);
    lines.push(`set ${name} ${number & 1} 0 300\r\n${VALUE}\r\n`);
    lines.push(`get ${name}\r\n`.repeat(4), `gets ${name} ${key(number + 1)} absent\r\n`);
    lines.push(`delete ${key(number + 7)} noreply\r\n`);
  }
  lines.push(`set warm:n 0 0 2\r\n10\r\nincr warm:n 5\r\ndecr warm:n 1\r\ntouch warm:n 60\r\n`);
  return lines.join("");
}
