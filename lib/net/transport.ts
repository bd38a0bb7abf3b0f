import type { TlsSettings, WireProtocol } from "../../protocol/settings.ts";

/** The protocol of a listener's connections. */
export type ListenProtocol = WireProtocol | "counters";

/**
 * The TLS of a listener, as memcached's prefixes name it:
 *
 * - `tls`: client certificates as `--ssl-verify-mode` says.
 * - `btls`: no client certificates.
 * - `mtls`: a client certificate is required.
 */
export type TlsMode = "tls" | "btls" | "mtls";

/** A TCP address to listen on. */
export interface TcpListen {
  readonly kind: "tcp";
  /** A numeric address or a name; never empty. */
  readonly hostname: string;
  /** 0: any free port; the host's `listens` then hold the real one. */
  readonly port: number;
  readonly protocol: ListenProtocol;
  /** Absent: plain. */
  readonly tls?: TlsMode;
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

/** `--io-uring`: `auto` uses it where the kernel allows it. */
export type IoUringChoice = "on" | "off" | "auto";

/** Options of a transport beside its addresses. Plain data, so that it can be posted to a worker. */
export interface TransportOptions {
  readonly threads: number;
  /** `-b`: connections the kernel may hold before they are accepted. */
  readonly listenBacklog: number;
  /** Whether connections above `-c` are refused; otherwise they wait in the kernel's backlog. */
  readonly maxconnsFast: boolean;
  /** TCP connections that are idle this long are closed; 0: never. */
  readonly idleTimeoutSec: number;
  /** A connection whose peer takes no byte of its replies for this long is closed. */
  readonly sendTimeoutSec: number;
  /** Connections that hold locks and are idle this long are closed; 0: never. */
  readonly lockIdleTimeoutSec: number;
  /** Connections that do not authenticate are closed after this time. */
  readonly authTimeoutSec: number;
  /** The longest reply to the requests of one datagram. */
  readonly udpReplyMaxBytes: number;
  /** Null without `-Z`. */
  readonly tls: TlsSettings | null;
  readonly ioUring: IoUringChoice;
}

/**
 * The main thread's side of a transport. Made by `bindPortable` or `bindNative` before the workers
 * start, which throws a `ListenError` when an address cannot be had.
 */
export interface BoundTransport {
  readonly name: "portable" | "native";
  /** The addresses it listens on, with the ports that were bound. */
  readonly listens: readonly Listen[];
  /** Whether the workers use io_uring. */
  readonly usesIoUring: boolean;
  /** Reason why `-o io_uring=auto` fell back to plain calls; "" if it did not. */
  readonly ioUringReason: string;
  /** Returns what a worker needs (descriptors, addresses): plain data, so that it can be posted to the worker. */
  workerData(threadIndex: number): unknown;
  /**
   * Wakes worker `threadIndex`: it looks at `lifecycle` and resumes connections that need not wait any longer. May be
   * called at any time, from the main thread only.
   */
  wake(threadIndex: number): void;
  /**
   * Lets the kernel take connections, on sockets that the workers have not opened themselves. They wait until a worker
   * accepts them. Call it when the workers are ready to.
   *
   * @throws ListenError when another process has begun to listen on the address.
   */
  listen(): void;
  /**
   * Loads the certificates again, for new connections. Connections keep theirs.
   *
   * @throws TlsError when that fails: the previous certificates stay in use.
   */
  refreshCertificates(): void;
  /** Addresses of sockets that a service manager has passed, and on which the server does not listen. */
  readonly unusedSockets?: readonly string[];
  /** Seconds since the certificates were loaded; 0 without TLS. */
  readonly certificateAgeSec: number;
  /** Changes when the certificates were loaded again, by any thread. */
  readonly certificateGeneration: number;
  /**
   * Closes the listening sockets and removes socket files. Other shared descriptors stay open until the process ends:
   * a worker may still wait on them. Idempotent.
   */
  close(): void;
}

/** After this much draining, every connection is closed. */
export const DRAIN_MS_MAX = 5000;
/** Draining waits this long for bytes that peers have sent already. */
export const DRAIN_GRACE_MS = 100;

/** The connection of an event. */
export type EventSource = {
  readonly peer: string;
  /** Its number in `stats conns`; left out: it has none. */
  readonly conn?: number;
};

/** An event, for the log. */
export interface TransportEvent {
  readonly level: "trace" | "debug" | "info" | "warning" | "error";
  /** Stable name, like `accept_failed`. */
  readonly event: string;
  readonly message: string;
  /** Facts for the JSON log: `peer`, `conn`, `reason`. */
  readonly fields?: Readonly<Record<string, string | number>>;
}

/** `--lock-idle-timeout` closed a connection. */
export function lockHolderClosed(timeoutSec: number, from: EventSource): TransportEvent {
  const reason = `held locks and sent nothing for ${timeoutSec} s (--lock-idle-timeout)`;
  return connectionClosed("lock_holder_idle", reason, from);
}

/** `--auth-timeout` closed a connection. */
export function authenticationTimedOut(timeoutSec: number, from: EventSource): TransportEvent {
  const reason = `did not authenticate within ${timeoutSec} s (--auth-timeout)`;
  return connectionClosed("authentication_timed_out", reason, from);
}

/** A connection was closed whose peer does not read. */
export function connectionStalled(timeoutSec: number, from: EventSource): TransportEvent {
  const reason = `accepted no byte of its replies for ${timeoutSec} s (--send-timeout)`;
  return connectionClosed("connection_stalled", reason, from);
}

function connectionClosed(event: string, reason: string, from: EventSource): TransportEvent {
  const message = `connection closed: ${from.peer} ${reason}`;
  return { level: "info", event, message, fields: { ...from, reason } };
}

/** A TLS handshake failed, or was given up. */
export function handshakeFailed(reason: string, from: EventSource): TransportEvent {
  return {
    level: "info",
    event: "handshake_failed",
    message: `TLS handshake failed: ${from.peer}: ${reason}`,
    fields: { ...from, reason },
  };
}

/** TLS cannot be set up: a library, a file or a setting. The message says which, and why. */
export class TlsError extends Error {
  override readonly name = "TlsError";
}

/** `--io-uring=on`, and this process cannot use io_uring. The message says why. */
export class IoUringError extends Error {
  override readonly name = "IoUringError";
}

/** The server cannot listen on an address. */
export class ListenError extends Error {
  override readonly name = "ListenError";

  /** @param code The operating system's name of the cause, like `EADDRINUSE`. */
  constructor(readonly listen: Listen, readonly code: string, message: string) {
    super(message);
  }
}

/** Returns the TLS of a listener; undefined: plain. */
export function tlsOf(listen: Listen): TlsMode | undefined {
  return listen.kind === "tcp" ? listen.tls : undefined;
}

/** Returns an address as messages name it: `127.0.0.1:11211`, `[::1]:11211`, `udp …`, or a Unix socket's path. */
export function listenText(listen: Listen): string {
  if (listen.kind === "unix") return listen.path;
  const address = hostPortText(listen.hostname, listen.port);
  return listen.kind === "udp" ? `udp ${address}` : address;
}

/** Returns whether only this host can reach an address. */
export function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "::1" || /^127(?:\.\d+){3}$/.test(hostname) ||
    /^::ffff:127(?:\.\d+){3}$/i.test(hostname);
}

/** Returns the name of a listener in `stats conns`. */
export function listenerName(listen: Listen): string {
  return listen.kind === "unix"
    ? `unix:${listen.path}`
    : statsAddressText(listen.kind, listen.hostname, listen.port);
}

/** Returns an address as `stats conns` shows it: `tcp:127.0.0.1:11211`, `tcp6:[::1]:11211`, `udp:…`. */
export function statsAddressText(kind: "tcp" | "udp", hostname: string, port: number): string {
  return `${kind}${hostname.includes(":") ? "6" : ""}:${hostPortText(hostname, port)}`;
}

/** Returns `host:port`, with brackets around an IPv6 address. */
export function hostPortText(hostname: string, port: number): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}
