// What everybody needs who serves connections of the runtime.

/** What accept fails with when descriptors or memory for sockets are out: it may work again later. */
const SHORTAGE_CODES = new Set(["EMFILE", "ENFILE", "ENOBUFS", "ENOMEM"]);

/** Which scarcity made accept fail, like `EMFILE`; "" when it concerns only the connection that was to be accepted. */
export function resourceShortage(error: unknown): string {
  const code = (error as { code?: string }).code ?? "";
  return SHORTAGE_CODES.has(code) ? code : "";
}

/** Sets what every TCP connection has: no delay for small replies, probes for peers that vanish. */
export function prepareTcp(socket: Deno.TcpConn): void {
  try {
    socket.setNoDelay(true);
    socket.setKeepAlive(true);
  } catch {
    // The peer is gone already; reading will tell.
  }
}

/** Whether an error is the end of a connection, by its peer or by `close`. */
export function isConnectionError(error: unknown): boolean {
  return error instanceof Deno.errors.ConnectionReset ||
    error instanceof Deno.errors.ConnectionAborted ||
    error instanceof Deno.errors.BrokenPipe ||
    error instanceof Deno.errors.BadResource ||
    error instanceof Deno.errors.Interrupted ||
    error instanceof Deno.errors.TimedOut ||
    error instanceof Deno.errors.NotConnected ||
    error instanceof Deno.errors.UnexpectedEof ||
    (error instanceof Error && "code" in error); // any other error of the operating system
}

/** Resolves after `ms`. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
