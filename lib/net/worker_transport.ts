import type { WireProtocol } from "../../protocol/settings.ts";
import type { ThreadContext } from "../../protocol/thread_context.ts";
import type { Lifecycle } from "../process/lifecycle.ts";
import type { CacheService } from "./cache_service.ts";
import type { Service } from "./service.ts";
import type { TransportEvent, TransportOptions } from "./transport.ts";

/** The services of a thread, by the protocol of a listener. Null: other threads serve it. */
type Services = Readonly<Record<WireProtocol, CacheService> & { counters: Service | null }>;

/** The part of its thread that a transport uses. */
export type TransportThread = Pick<
  ThreadContext,
  | "auth"
  | "cache"
  | "connections"
  | "input"
  | "memory"
  | "reply"
  | "takeReady"
  | "times"
  | "tunables"
  | "work"
>;

/** The context of a worker's transport. */
export interface TransportContext {
  readonly thread: TransportThread;
  readonly services: Services;
  /** 0-based number of the worker. */
  readonly threadIndex: number;
  readonly options: TransportOptions;
  readonly lifecycle: Lifecycle;
  /** The result of `BoundTransport.workerData`. */
  readonly workerData: unknown;
  /** Sends an event to the main thread's log. Not for the command path. */
  report(event: TransportEvent): void;
}

/** A worker's transport. The whole process uses one kind. */
export interface Transport {
  /** Opens the worker's own sockets, except those that take connections. Datagrams wait for `serve`. */
  open(): void;
  /** Opens the worker's own sockets that take connections, which wait for `serve`. Absent: it has none. */
  listen?(): void;
  /**
   * Accepts and serves connections. Ends (by returning, or by resolving) when `lifecycle.phase` is no
   * longer RUNNING and every connection is closed:
   * - DRAINING: accept no more, answer what has been received, send it, close. Takes at most `DRAIN_MS_MAX`.
   * - STOPPING: close everything now.
   *
   * A transport that blocks its thread receives no messages, so it must be woken by `BoundTransport.wake`.
   */
  serve(): Promise<void> | void;
  /** Whether the worker must not end before the process does. Known when `serve` has ended; absent: it may. */
  readonly endsWithProcess?: boolean;
  /**
   * Makes another worker of the same transport look for connections whose waiting is over
   * (`ThreadContext.takeReady`). Absent: ringing its bell in `lifecycle` is enough. May be called at any
   * time, and for the worker itself.
   */
  wake?(threadIndex: number): void;
  /** As `BoundTransport.refreshCertificates`. */
  refreshCertificates(): void;
  /** Seconds since the certificates were loaded; 0: there are none. */
  readonly certificateAgeSec: number;
}
