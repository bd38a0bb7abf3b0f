import type { ThreadContext } from "../../protocol/thread_context.ts";
import { clockSec } from "../../store/clock.ts";
import { type ConnectionId, type ConnectionKind, NO_OWNER } from "../../store/connections.ts";
import { STAT } from "../../store/stats.ts";
import type { CloseReason } from "../../store/cache.ts";
import type { EventSource, TransportContext, TransportEvent } from "./transport.ts";

/** Least verbosities (the number of -v) that log refused and dropped connections, and all connections. */
export const VERBOSITY_DROPPED = 1;
const VERBOSITY_CONNECTIONS = 2;

/** Returns the peer and the number of an open connection, for the log. */
export function eventSource({ connections }: ThreadContext, id: ConnectionId): EventSource {
  return { peer: connections.peerOf(id), conn: connections.numberOf(id) };
}

/**
 * Opens and closes connections beside their sockets, the same for every transport: row, statistics,
 * watchers, log.
 */
export class ConnectionLifecycle {
  readonly #context: TransportContext;

  constructor(context: TransportContext) {
    this.#context = context;
  }

  /**
   * Gives a connection a row.
   *
   * @param peer The peer's address, as `stats conns` shows it.
   * @param listener The name of the listener that accepted it.
   * @returns NO_OWNER if there are too many (`-c`): the transport then refuses the peer and closes.
   */
  open(kind: ConnectionKind, peer: string, listener: string): ConnectionId {
    const { thread, threadIndex } = this.#context;
    const { cache, connections, memory } = thread;
    cache.enter();
    const nowSec = clockSec(memory);
    const owner = connections.open(kind, threadIndex, peer, listener, nowSec);
    const isRefused = owner === NO_OWNER;
    memory.stats[isRefused ? STAT.rejected_connections : STAT.total_connections]! += 1;
    if (!isRefused) cache.watchLog.connectionOpened(owner);
    cache.leave();
    if (isRefused && this.#isLogged(VERBOSITY_DROPPED)) {
      const reason = `${connections.rows} connections are open (-c)`;
      this.#log("info", "refused", `${peer}: ${reason}`, { peer, reason });
    } else if (!isRefused && this.#isLogged(VERBOSITY_CONNECTIONS)) {
      this.#log("debug", "opened", peer, { ...eventSource(thread, owner), listener });
    }
    return owner;
  }

  /** Frees the row. The conversation must have ended. */
  close(owner: ConnectionId, reason: CloseReason): void {
    const { thread } = this.#context;
    const { cache, connections } = thread;
    const source = this.#isLogged(VERBOSITY_CONNECTIONS) ? eventSource(thread, owner) : null;
    cache.enter();
    cache.watchLog.connectionClosed(owner, reason);
    connections.close(owner);
    cache.leave();
    if (source === null) return;
    this.#log("debug", "closed", `${source.peer} (${reason})`, { ...source, reason });
  }

  #isLogged(verbosity: number): boolean {
    return this.#context.thread.tunables.get("verbosity") >= verbosity;
  }

  #log(
    level: TransportEvent["level"],
    what: "refused" | "opened" | "closed",
    message: string,
    fields: NonNullable<TransportEvent["fields"]>,
  ): void {
    this.#context.report({
      level,
      event: `connection_${what}`,
      message: `connection ${what}: ${message}`,
      fields,
    });
  }
}
