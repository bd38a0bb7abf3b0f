// Helpers for servers on the runtime's sockets.

import { statsAddressText } from "../transport.ts";

/** Errors of accept that mean a shortage of descriptors or memory: accepting may succeed later. */
const SHORTAGE_CODES = new Set(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);

/** Returns the shortage that made accept fail, like `EMFILE`, or "" if the error concerns that one connection only. */
export function resourceShortage(error: unknown): string {
  const code = (error as { code?: string }).code ?? "";
  return SHORTAGE_CODES.has(code) ? code : "";
}

/** Sets TCP_NODELAY and keepalive. */
export function prepareTcp(socket: Deno.TcpConn): void {
  try {
    socket.setNoDelay(true);
    socket.setKeepAlive(true);
  } catch {
    // The peer has closed; the next read reports it.
  }
}

/** Returns the peer's address as `stats conns` writes it. */
export function peerName({ transport, hostname, port }: Deno.NetAddr): string {
  return statsAddressText(transport === "udp" ? "udp" : "tcp", hostname, port);
}

/** Whether an error means that the peer or `close` has ended the connection. */
export function isConnectionError(error: unknown): boolean {
  return error instanceof Deno.errors.ConnectionReset ||
    error instanceof Deno.errors.ConnectionAborted ||
    error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.BadResource ||
    error instanceof Deno.errors.Interrupted ||
    error instanceof Deno.errors.TimedOut ||
    error instanceof Deno.errors.NotConnected ||
    error instanceof Deno.errors.UnexpectedEof ||
    error instanceof Deno.errors.InvalidData || // bytes that are no TLS record
    (error instanceof Error && "code" in error); // any other error of the operating system
}

/** Closes a socket, which may be closed already. A read or write in progress fails. */
export function closeQuietly(socket: Deno.Conn): void {
  try {
    socket.close();
  } catch {
    // Already closed.
  }
}
