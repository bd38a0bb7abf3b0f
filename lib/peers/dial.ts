import { readRegularTextFile } from "../process/file_kinds.ts";
import { readLoginFile } from "../auth/user_file.ts";

/** Name and password for a server. Characters below 256 stand for bytes. */
export interface PeerLogin {
  readonly user: string;
  readonly password: string;
}

/** How to connect to a server. */
export interface DialOptions {
  /** How long it may be silent, in milliseconds. */
  readonly timeoutMs: number;
  /** Null: it asks for no password. */
  readonly login: PeerLogin | null;
  /** The text of certificates in PEM that verify its own one; null: without TLS. */
  readonly caCert: string | null;
}

/** A connection to a server. */
export type PeerSocket = Deno.TcpConn | Deno.TlsConn | Deno.UnixConn;

/** The address of a server. */
export interface Address {
  readonly hostname: string;
  readonly port: number;
}

/** The socket file of a server on this host. */
export interface UnixAddress {
  readonly path: string;
}

/**
 * Connects, and makes the TLS handshake if there is one. Unix sockets are plain.
 *
 * @param signal Gives up.
 * @throws The runtime's error.
 */
export async function dial(
  address: Address | UnixAddress,
  caCert: string | null,
  signal: AbortSignal,
): Promise<PeerSocket> {
  if ("path" in address) return await Deno.connect({ transport: "unix", path: address.path });
  const { hostname, port } = address;
  const plain = await Deno.connect({ hostname, port, signal });
  plain.setNoDelay();
  if (caCert === null) return plain;
  const socket = await Deno.startTls(plain, { hostname, caCerts: [caCert] });
  const close = (): void => socket.close();
  // The signal may have come since the connection was made: then it will not come again.
  if (signal.aborted) close();
  else signal.addEventListener("abort", close);
  try {
    await socket.handshake();
    return socket;
  } catch (error) {
    if (!signal.aborted) socket.close();
    throw error;
  } finally {
    signal.removeEventListener("abort", close);
  }
}

/**
 * Reads the files that say how to connect.
 *
 * @param loginPath Path of the file with name and password; "": it asks for none.
 * @param caCertPath Path of the certificates that verify its own one; "": without TLS.
 * @throws When a file cannot be read, or has another form.
 */
export function readDialOptions(
  timeoutMs: number,
  loginPath: string,
  caCertPath: string,
): DialOptions {
  return {
    timeoutMs,
    login: loginPath === "" ? null : readLoginFile(loginPath),
    caCert: readCaCert(caCertPath),
  };
}

/** Reads the certificates of an option. @returns Null for "". @throws Error with the path. */
export function readCaCert(path: string): string | null {
  return path === "" ? null : readRegularTextFile(path);
}
