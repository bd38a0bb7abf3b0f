import { type ConnectionOptions as TlsOptions, createSecureContext } from "node:tls";
import { checkNumber, checkObject, checkText, shown } from "./checks.ts";

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

/** Longest time that options in ms take: an hour. */
export const MS_MAX = 3_600_000;
const MS_DEFAULT = 1_000;
const QUEUE_BYTES_DEFAULT = 1 << 26;
const PORT_DEFAULT = 11211;
const PORT_MAX = 65_535;
// deno-lint-ignore no-control-regex
const LOGIN_WORD = /^[^\x00-\x20\x7f]+$/;

/** Returns the options with their defaults, checked. @throws RangeError, TypeError */
export function linkOf(options: LinkOptions): Link {
  const { connectMs = MS_DEFAULT, replyMs = MS_DEFAULT, tls, login } = options;
  const { queueBytesMax = QUEUE_BYTES_DEFAULT } = options;
  checkNumber("connectMs", connectMs, 1, MS_MAX);
  checkNumber("replyMs", replyMs, 1, MS_MAX);
  checkNumber("queueBytesMax", queueBytesMax, 1, Number.MAX_SAFE_INTEGER);
  if (tls !== undefined) {
    checkObject("tls", tls);
    // Throws at a certificate or key that is none.
    createSecureContext(tls);
  }
  if (login !== undefined) {
    checkObject("login", login);
    for (const [name, word] of [["user", login.user], ["password", login.password]] as const) {
      checkText(`${name} of login`, word);
      if (!LOGIN_WORD.test(word)) {
        throw new RangeError(`${name} of login: expected a text without blanks`);
      }
    }
  }
  return {
    ...{ connectMs, replyMs, queueBytesMax },
    ...(tls === undefined ? {} : { tls }),
    ...(login === undefined ? {} : { login }),
  };
}

/**
 * Reads `host`, `host:port`, `[IPv6]:port`, or the path of a Unix socket.
 *
 * @throws RangeError, TypeError: it is none of them.
 */
export function addressOf(name: string): Address {
  checkText("server", name);
  if (/^\/[^\0]+$/.test(name)) return { path: name };
  const [, bracketed, plain, port] =
    /^(?:\[([^\s/\0]+)\]|([^:\s/\0]+))(?::(\d{1,5}))?$/.exec(name) ?? [];
  const host = bracketed ?? plain;
  const number = port === undefined ? PORT_DEFAULT : Number(port);
  if (host === undefined || number < 1 || number > PORT_MAX) {
    const expected = `host:port with a port from 1 to ${PORT_MAX}, or /path of a socket`;
    throw new RangeError(`server ${shown(name)}: expected ${expected}`);
  }
  return { host, port: number };
}

/** Returns the name of an address, as messages and the ring have it. */
export function nameOf(address: Address): string {
  if ("path" in address) return address.path;
  const { host, port } = address;
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}
