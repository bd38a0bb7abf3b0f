import type { Conversation } from "../../protocol/conversation.ts";
import { REFUSAL } from "../../protocol/reply/replies.ts";
import type { WireProtocol } from "../../protocol/settings.ts";
import type { ThreadContext } from "../../protocol/thread_context.ts";
import { ThreadProtocols } from "../../protocol/thread_protocols.ts";
import type { CloseReason } from "../../store/cache.ts";
import { clockSec } from "../../store/clock.ts";
import {
  type ConnectionId,
  type ConnectionKind,
  type ConnectionTable,
  NO_OWNER,
} from "../../store/connections.ts";
import { STAT } from "../../store/stats.ts";
import type { Service } from "./service.ts";
import type { EventSource, TransportEvent } from "./transport.ts";

/** Least verbosities (the number of -v) that log refused and dropped connections, and all connections. */
export const VERBOSITY_DROPPED = 1;
const VERBOSITY_CONNECTIONS = 2;

/** Serves the cache: gives each connection a row, and tells statistics, watchers and log. */
export class CacheService implements Service {
  readonly connections: ConnectionTable;
  readonly isShared = true;
  readonly limitsSilence = true;
  readonly refusal: Uint8Array = REFUSAL.TOO_MANY_CONNECTIONS;
  readonly #thread: ThreadContext;
  readonly #protocols: ThreadProtocols;
  readonly #protocol: WireProtocol;
  readonly #threadIndex: number;
  readonly #report: (event: TransportEvent) => void;

  /** @param report Logs an event. */
  constructor(
    thread: ThreadContext,
    protocols: ThreadProtocols,
    protocol: WireProtocol,
    threadIndex: number,
    report: (event: TransportEvent) => void,
  ) {
    this.connections = thread.connections;
    this.#thread = thread;
    this.#protocols = protocols;
    this.#protocol = protocol;
    this.#threadIndex = threadIndex;
    this.#report = report;
  }

  /** As `Service`: the limit is `-c`. */
  open(kind: ConnectionKind, peer: string, listener: string): Conversation | null {
    const { cache, connections, memory } = this.#thread;
    cache.enter();
    const nowSec = clockSec(memory);
    const owner = connections.open(kind, this.#threadIndex, peer, listener, nowSec);
    const isRefused = owner === NO_OWNER;
    memory.stats[isRefused ? STAT.rejected_connections : STAT.total_connections]! += 1;
    if (!isRefused) cache.watchLog.connectionOpened(owner);
    cache.leave();
    if (isRefused) {
      const reason = `${connections.rows} connections are open (-c)`;
      if (this.#isLogged(VERBOSITY_DROPPED)) this.#report(connectionRefused(peer, reason));
      return null;
    }
    if (this.#isLogged(VERBOSITY_CONNECTIONS)) {
      this.#log("opened", peer, { ...this.sourceOf(owner), listener });
    }
    return this.#protocols.open(owner, { protocol: this.#protocol });
  }

  /** Opens the conversation of one datagram, which has no row. */
  openDatagram(): Conversation {
    return this.#protocols.open(NO_OWNER, { protocol: this.#protocol, udp: true });
  }

  close(owner: ConnectionId, reason: CloseReason): void {
    const { cache, connections } = this.#thread;
    const source = this.#isLogged(VERBOSITY_CONNECTIONS) ? this.sourceOf(owner) : null;
    cache.enter();
    cache.watchLog.connectionClosed(owner, reason);
    connections.close(owner);
    cache.leave();
    if (source === null) return;
    this.#log("closed", `${source.peer} (${reason})`, { ...source, reason });
  }

  sourceOf(id: ConnectionId): EventSource {
    return { peer: this.connections.peerOf(id), conn: this.connections.numberOf(id) };
  }

  #isLogged(verbosity: number): boolean {
    return this.#thread.tunables.get("verbosity") >= verbosity;
  }

  #log(
    what: "opened" | "closed",
    message: string,
    fields: NonNullable<TransportEvent["fields"]>,
  ): void {
    this.#report({
      level: "debug",
      event: `connection_${what}`,
      message: `connection ${what}: ${message}`,
      fields,
    });
  }
}

/** Returns the services of a thread that serves the cache, by the protocol of a listener. */
export function cacheServices(
  thread: ThreadContext,
  threadIndex: number,
  report: (event: TransportEvent) => void,
): Readonly<Record<WireProtocol, CacheService>> {
  const protocols = new ThreadProtocols(thread, report);
  const make = (protocol: WireProtocol): CacheService =>
    new CacheService(thread, protocols, protocol, threadIndex, report);
  return { auto: make("auto"), ascii: make("ascii"), binary: make("binary") };
}

/** There are too many connections. */
export function connectionRefused(peer: string, reason: string): TransportEvent {
  return {
    level: "info",
    event: "connection_refused",
    message: `connection refused: ${peer}: ${reason}`,
    fields: { peer, reason },
  };
}
