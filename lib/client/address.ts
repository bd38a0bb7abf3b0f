import type { ConnectionOptions as TlsOptions } from "node:tls";

/** Where a server listens. */
export type Address =
  | { readonly host: string; readonly port: number }
  | { readonly path: string };

/** How connections are made; the same for all servers. */
export interface LinkOptions {
  /** Longest time to connect, TLS and login included, in ms. Default 1,000. */
  readonly connectMs?: number;
  /** Longest time for a reply, in ms. Default 1,000. */
  readonly replyMs?: number;
  /** Bytes that may wait for a slow server on one connection; more requests fail. Default 64 MiB. */
  readonly queueBytesMax?: number;
  /** Options of `tls.connect`, as `ca`, `cert` and `key`; {}: TLS with the system's authorities. Default: no TLS. */
  readonly tls?: TlsOptions;
  /** For servers with `-Y` (memcached, leased): sent first, in the text protocol. */
  readonly login?: { readonly user: string; readonly password: string };
}

export type Link = LinkOptions & Required<Omit<LinkOptions, "tls" | "login">>;

const PORT_DEFAULT = 11211;
const PORT_MAX = 65_535;

/**
 * Reads `host`, `host:port`, `[IPv6]:port`, or the path of a Unix socket.
 *
 * @throws RangeError It is none of them.
 */
export function addressOf(name: string): Address {
  if (name.startsWith("/")) return { path: name };
  const [, bracketed, plain, port] = /^(?:\[(.+)\]|([^:\s]+))(?::(\d+))?$/.exec(name) ?? [];
  const host = bracketed ?? plain;
  const number = port === undefined ? PORT_DEFAULT : Number(port);
  if (host === undefined || number > PORT_MAX) {
    throw new RangeError(`server ${JSON.stringify(name)}: expected host:port or /path of a socket`);
  }
  return { host, port: number };
}

/** Returns the name of an address, as messages and the ring have it. */
export function nameOf(address: Address): string {
  if ("path" in address) return address.path;
  const { host, port } = address;
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
