import { clockSec } from "../../store/clock.ts";
import { type ConnectionId, type ConnectionKind, NO_OWNER } from "../../store/connections.ts";
import { STAT } from "../../store/stats.ts";
import type { CloseReason } from "../../store/cache.ts";
import type { TransportContext, TransportEvent } from "./transport.ts";

/** The verbosity from which on refusals are logged, and the one for every connection. */
const VERBOSITY_REFUSALS = 1;
const VERBOSITY_CONNECTIONS = 2;

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
   * @param peer As `stats conns` writes it.
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
    if (isRefused) {
      this.#log(VERBOSITY_REFUSALS, "info", "refused", `${peer}: too many connections`);
    } else {
      this.#log(VERBOSITY_CONNECTIONS, "debug", "opened", peer);
    }
    return owner;
  }

  /** Frees the row. The conversation must have ended. */
  close(owner: ConnectionId, reason: CloseReason): void {
    const { cache, connections } = this.#context.thread;
    const peer = this.#isLogged(VERBOSITY_CONNECTIONS) ? connections.peerOf(owner) : "";
    cache.enter();
    cache.watchLog.connectionClosed(owner, reason);
    connections.close(owner);
    cache.leave();
    this.#log(VERBOSITY_CONNECTIONS, "debug", "closed", peer);
  }

  #isLogged(verbosity: number): boolean {
    return this.#context.thread.tunables.get("verbosity") >= verbosity;
  }

  #log(
    verbosity: number,
    level: TransportEvent["level"],
    what: "refused" | "opened" | "closed",
    message: string,
  ): void {
    if (!this.#isLogged(verbosity)) return;
    this.#context.report({
      level,
      event: `connection_${what}`,
      message: `connection ${what}: ${message}`,
    });
  }
}
