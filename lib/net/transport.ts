import type { WireProtocol } from "../../protocol/settings.ts";
import type { ThreadContext } from "../../protocol/thread_context.ts";
import type { ThreadProtocols } from "../../protocol/thread_protocols.ts";
import type { Lifecycle } from "../lifecycle.ts";

/** A TCP address to listen on. */
export interface TcpListen {
  readonly kind: "tcp";
  /** A numeric address or a name; never empty. */
  readonly hostname: string;
  /** 0: any free port; the host's `listens` then hold the real one. */
  readonly port: number;
  readonly protocol: WireProtocol;
}

/** A UDP address to receive on. */
export interface UdpListen {
  readonly kind: "udp";
  readonly hostname: string;
  readonly port: number;
  readonly protocol: WireProtocol;
}

/** A Unix socket to listen on. */
export interface UnixListen {
  readonly kind: "unix";
  readonly path: string;
  /** Permission bits of the socket file, like 0o700. */
  readonly mode: number;
  readonly protocol: WireProtocol;
}

/** Something to listen on. */
export type Listen = TcpListen | UdpListen | UnixListen;

/** What transports need to know beside where to listen. Plain, so that it can be posted to a worker. */
export interface TransportOptions {
  readonly threads: number;
  /** `-b`: connections the kernel may hold before they are accepted. */
  readonly backlog: number;
  /** Whether a connection too many is told so and closed, or left waiting. */
  readonly maxconnsFast: boolean;
  /** TCP connections that wait for a command this long are closed; 0: never. */
  readonly idleTimeoutSec: number;
  /** A peer that takes no byte of its replies for this long is dropped. */
  readonly sendTimeoutSec: number;
  /** Connections that hold locks and wait for a command this long are closed; 0: never. */
  readonly lockIdleTimeoutSec: number;
}

/**
 * The main thread's side of a transport. Made by `bindPortable` or `bindNative` before the workers
 * start, which throws a `ListenError` when an address cannot be had.
 */
export interface BoundTransport {
  readonly name: "portable" | "native";
  /** Where it listens, with the ports that were really bound. */
  readonly listens: readonly Listen[];
  /** What the worker's side needs (descriptors, addresses): plain, so that it can be posted to the worker. */
  workerData(threadIndex: number): unknown;
  /**
   * Makes worker `threadIndex` look at `lifecycle`, and for connections whose waiting is over, soon. May
   * be called at any time, from the main thread only.
   */
  wake(threadIndex: number): void;
  /** After all workers have ended: closes what is shared and removes socket files. Idempotent. */
  close(): void;
}

/** What a worker's side of a transport is made of. */
export interface TransportContext {
  readonly thread: ThreadContext;
  /** Opens the conversations that `thread` serves. */
  readonly protocols: ThreadProtocols;
  /** 0-based number of the worker. */
  readonly threadIndex: number;
  readonly options: TransportOptions;
  readonly lifecycle: Lifecycle;
  /** What the host's `workerData` gave. */
  readonly workerData: unknown;
  /** Tells the main thread of something worth a line in the log. Not for the command path. */
  report(event: TransportEvent): void;
}

/** The worker's side. One kind is chosen for the whole process. */
export interface Transport {
  /** Opens what is left to open, so that connections are accepted from here on. */
  open(): void;
  /**
   * Accepts and serves connections. Ends (by returning, or by resolving) when `lifecycle.phase` is no
   * longer RUNNING and every connection is closed:
   * - DRAINING: accept no more, answer what has been received, send it, close. Takes at most `DRAIN_MS_MAX`.
   * - STOPPING: close everything now.
   *
   * A transport that blocks its thread receives no messages, so it must be woken by `BoundTransport.wake`.
   */
  serve(): Promise<void> | void;
  /**
   * Makes another worker of the same transport look for connections whose waiting is over
   * (`ThreadContext.takeReady`). Absent: ringing its bell in `lifecycle` is enough. May be called at any
   * time, and for the worker itself.
   */
  wake?(threadIndex: number): void;
}

/** From DRAINING on, connections that neither finish nor take their replies are closed after this long. */
export const DRAIN_MS_MAX = 5000;
/** From DRAINING on, bytes that are still under way are waited for this long. */
export const DRAIN_GRACE_MS = 100;
/** After EMFILE, ENFILE, ENOBUFS or ENOMEM from accept, the next try waits this long. */
export const ACCEPT_PAUSE_MS = 50;

/** Something that happened, for the log. */
export interface TransportEvent {
  readonly level: "debug" | "info" | "warning" | "error";
  /** Stable name, like `accept_failed`. */
  readonly event: string;
  readonly message: string;
  /** Facts for the JSON log: `peer`, `conn`, `reason`. */
  readonly fields?: Readonly<Record<string, string | number>>;
}

/** A connection held locks and was silent for too long. */
export function lockHolderClosed(timeoutSec: number): TransportEvent {
  return {
    level: "info",
    event: "lock_holder_idle",
    message: `a connection that held locks was silent for ${timeoutSec} s; closed`,
  };
}

/** Descriptors, or memory for sockets, are out. */
export function acceptFailed(code: string): TransportEvent {
  return {
    level: "warning",
    event: "accept_failed",
    message:
      `cannot accept connections for now: ${code}; raise the limit of open files or lower -c`,
  };
}

/** A peer did not read. */
export function connectionStalled(timeoutSec: number): TransportEvent {
  return {
    level: "info",
    event: "connection_stalled",
    message: `a connection took nothing of its replies for ${timeoutSec} s; closed`,
  };
}

/** An address cannot be listened on. */
export class ListenError extends Error {
  override readonly name = "ListenError";

  /** @param code The operating system's name of the cause, like `EADDRINUSE`. */
  constructor(readonly listen: Listen, readonly code: string, message: string) {
    super(message);
  }
}

/** `127.0.0.1:11211`, `[::1]:11211`, `udp 127.0.0.1:11211` or the path of a Unix socket. */
export function listenText(listen: Listen): string {
  if (listen.kind === "unix") return listen.path;
  const address = hostPortText(listen.hostname, listen.port);
  return listen.kind === "udp" ? `udp ${address}` : address;
}

/** The name of a listener in `stats conns`. */
export function listenerName(listen: Listen): string {
  return listen.kind === "unix"
    ? `unix:${listen.path}`
    : statsAddressText(listen.kind, listen.hostname, listen.port);
}

/** How `stats conns` writes an address: `tcp:127.0.0.1:11211`, `tcp6:[::1]:11211`, `udp:…`. */
export function statsAddressText(kind: "tcp" | "udp", hostname: string, port: number): string {
  return `${kind}${hostname.includes(":") ? "6" : ""}:${hostPortText(hostname, port)}`;
}

function hostPortText(hostname: string, port: number): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}
