import { type ConnectionId, type ConnectionKind, NO_OWNER } from "../../store/connections.ts";
import { CONTROL } from "../../store/memory/memory.ts";
import { STAT } from "../../store/stats.ts";
import type { CloseReason } from "../../store/watch/watch_log.ts";
import type { TransportEvent, TransportThread } from "./transport.ts";

/** The verbosities from which on refusals, and every connection, are told. */
const REFUSALS_TOLD = 1;
const ALL_TOLD = 2;

/**
 * What a connection's coming and going means beside its socket, the same for every transport: its
 * row, counters, watchers, log.
 */
export class ConnectionLifecycle {
  readonly #side: TransportThread;

  constructor(side: TransportThread) {
    this.#side = side;
  }

  /**
   * Gives a connection a row.
   *
   * @param peer As `stats conns` writes it.
   * @param listener The name of the listener that accepted it.
   * @returns NO_OWNER when there are too many (`-c`): the transport tells the peer and closes.
   */
  open(kind: ConnectionKind, peer: string, listener: string): ConnectionId {
    const { thread, threadIndex } = this.#side;
    const { cache, connections, memory } = thread;
    cache.enter();
    const nowSec = memory.control[CONTROL.NOW_SEC]!;
    const owner = connections.open(kind, threadIndex, peer, listener, nowSec);
    const isRefused = owner === NO_OWNER;
    memory.stats[isRefused ? STAT.rejected_connections : STAT.total_connections]! += 1;
    if (!isRefused) cache.links.watchLog.connectionOpened(owner);
    cache.leave();
    if (isRefused) {
      this.#tell(REFUSALS_TOLD, "info", "refused", `${peer}: too many connections`);
    } else {
      this.#tell(ALL_TOLD, "debug", "opened", peer);
    }
    return owner;
  }

  /** Takes the row back. The conversation has ended. */
  close(owner: ConnectionId, reason: CloseReason): void {
    const { cache, connections } = this.#side.thread;
    const peer = this.#isTold(ALL_TOLD) ? connections.peerOf(owner) : "";
    cache.enter();
    cache.links.watchLog.connectionClosed(owner, reason);
    connections.close(owner);
    cache.leave();
    this.#tell(ALL_TOLD, "debug", "closed", peer);
  }

  #isTold(verbosity: number): boolean {
    return this.#side.thread.tunables.get("verbosity") >= verbosity;
  }

  #tell(
    verbosity: number,
    level: TransportEvent["level"],
    what: "refused" | "opened" | "closed",
    message: string,
  ): void {
    if (!this.#isTold(verbosity)) return;
    this.#side.report({
      level,
      event: `connection_${what}`,
      message: `connection ${what}: ${message}`,
    });
  }
}
