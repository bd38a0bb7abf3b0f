import { ConversationState } from "../../protocol/conversation.ts";
import type { Settings } from "../../protocol/settings.ts";
import {
  createSharedState,
  type SharedState,
  ThreadContext,
} from "../../protocol/thread_context.ts";
import { ThreadProtocols } from "../../protocol/thread_protocols.ts";
import type { ConnectionId } from "../../store/connections.ts";
import { Cache } from "../../store/cache.ts";
import { createSharedMemory, LEASE_ENTRIES_LEAST, Memory } from "../../store/setup.ts";
import { MIB } from "../../store/limits.ts";

/** Rounds after which the engine has compiled the request path. */
const ROUNDS = 120;
/** Value sizes of consecutive rounds: short, longer than a chunk, longer than one read. */
const VALUE_BYTES = [300, 100, 20_000, 300, 1000, 4, 9000, 300, 40_000, 3000, 100, 300];
/** Approximate sum of the values of a round, so that a batch fits the input. */
const ROUND_BYTES = 24_000;
const SETS_MAX = 40;
const KEYS = 6000;
/** Share of a round in its first read, so that some requests and values arrive in pieces. */
const FIRST_READ = 0.6;
/** A store of this size is full after a few rounds, so that eviction and page moves are warm too. */
const SCRATCH_BYTES = 1 * MIB;
/** Numbers of the scratch connections. More than one, because the engine would fold a single one to a constant. */
const OWNERS = [1 as ConnectionId, 2 as ConnectionId];

/** Defined under the V8 flag `--expose-gc`. */
const { gc } = globalThis as { gc?: () => void };

/**
 * Runs requests through a scratch store, so that the engine compiles the request path before the
 * first client connects and the process reaches its size beside `-m`. Statistics do not count it.
 * Call it after the thread's first message: posting that discards compiled code.
 */
export function warmUp(shared: SharedState, settings: Settings): void {
  serveScratch(shared, settings);
  // Frees the scratch store and the garbage of start and compilation.
  gc?.();
}

function serveScratch(shared: SharedState, serverSettings: Settings): void {
  // Its conversations need no password.
  const settings: Settings = { ...serverSettings, authFile: "" };
  const memory = createSharedMemory({
    ...shared.memory.options,
    memoryLimitBytes: SCRATCH_BYTES,
    memoryCeilingBytes: SCRATCH_BYTES,
    slabLayout: "leased",
    itemSizeMaxBytes: SCRATCH_BYTES / 2,
    connectionsMax: OWNERS.length,
    leaseEntries: LEASE_ENTRIES_LEAST,
    tokenEntries: 0,
    tokenPersistence: "off",
    strictPrefixes: [],
    // No database thread answers requests for rows.
    rows: shared.memory.options.rows && { prefixes: [], expiry: "refuse" },
  });
  Cache.format(new Memory(memory));
  const thread = new ThreadContext(
    createSharedState(memory, settings),
    settings,
    {
      shutdown: () => {},
      processState: () => ({ userMicroseconds: 0, systemMicroseconds: 0, accepting: true }),
      tokensDropped: () => {},
      authenticate: () => {},
    },
  );
  const protocols = new ThreadProtocols(thread);
  const conversations = OWNERS.map((owner) => protocols.open(owner, { protocol: "ascii" }));
  const encoder = new TextEncoder();
  for (let round = 0; round < ROUNDS; round++) {
    const conversation = conversations[round % conversations.length]!;
    const { written } = encoder.encodeInto(requestsOf(round), thread.input.bytes);
    let at = 0;
    for (const end of [Math.floor(written * FIRST_READ), written]) {
      do {
        thread.reply.reset();
        at = conversation.feed(at, end);
      } while (conversation.state !== ConversationState.NEEDS_INPUT);
    }
  }
  for (const conversation of conversations) conversation.end();
}

/** Returns one batch of the most frequent requests. */
function requestsOf(round: number): string {
  const valueBytes = VALUE_BYTES[round % VALUE_BYTES.length]!;
  const value = "v".repeat(valueBytes);
  const sets = Math.min(SETS_MAX, Math.max(1, Math.floor(ROUND_BYTES / valueBytes)));
  const lines: string[] = [];
  const key = (number: number): string => `warm:${(round * SETS_MAX + number) % KEYS}`;
  for (let number = 0; number < sets; number++) {
    const name = key(number);
    lines.push(`set ${name} ${number & 1} 0 ${valueBytes}\r\n${value}\r\n`);
    lines.push(`get ${name}\r\n`.repeat(4), `gets ${name} ${key(number + 1)} absent\r\n`);
    lines.push(`delete ${key(number + 7)} noreply\r\n`);
  }
  lines.push(`set warm:n 0 0 2\r\n10\r\nincr warm:n 5\r\ndecr warm:n 1\r\ntouch warm:n 60\r\n`);
  return lines.join("");
}
