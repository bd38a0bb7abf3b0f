import type { CloseReason } from "../../store/cache.ts";
import {
  type ConnectionId,
  type ConnectionKind,
  ConnectionTable,
  NO_OWNER,
} from "../../store/connections.ts";
import { connectionRefused } from "../net/cache_service.ts";
import type { Service } from "../net/service.ts";
import type { EventSource, TransportEvent } from "../net/transport.ts";
import { CounterConversation, CounterState, type CounterThread } from "./conversation.ts";

/** Options of the counters. */
export interface CounterOptions {
  readonly counterConnLimit: number;
  /** The memory limit of all counters. */
  readonly counterMemoryBytes: number;
  /** How often idle counters are dropped and the highest consumptions reset. */
  readonly counterIntervalSec: number;
}

/** Serves yrmcds's counter protocol. There is one set of counters, so one thread of the process serves it. */
export class CounterService implements Service {
  readonly connections: ConnectionTable;
  readonly isShared = false;
  readonly limitsSilence = false;
  readonly refusal: Uint8Array = new Uint8Array(0);
  readonly #state: CounterState;
  readonly #threadIndex: number;
  readonly #report: (event: TransportEvent) => void;

  /** @param report Logs an event. */
  constructor(
    options: CounterOptions,
    thread: CounterThread,
    threadIndex: number,
    report: (event: TransportEvent) => void,
  ) {
    const bytes = ConnectionTable.bytesNeeded(options.counterConnLimit);
    this.connections = new ConnectionTable(new SharedArrayBuffer(bytes));
    this.#state = new CounterState(
      thread,
      options.counterMemoryBytes,
      options.counterIntervalSec,
    );
    this.#threadIndex = threadIndex;
    this.#report = report;
  }

  open(kind: ConnectionKind, peer: string, listener: string): CounterConversation | null {
    const nowSec = this.#state.thread.nowSec();
    const owner = this.connections.open(kind, this.#threadIndex, peer, listener, nowSec);
    if (owner !== NO_OWNER) return new CounterConversation(this.#state, owner);
    const reason = `${this.connections.rows} connections are open (--counter-conn-limit)`;
    this.#report(connectionRefused(peer, reason));
    return null;
  }

  close(id: ConnectionId, _reason: CloseReason): void {
    this.connections.close(id);
  }

  sourceOf(id: ConnectionId): EventSource {
    return { peer: this.connections.peerOf(id) };
  }
}
