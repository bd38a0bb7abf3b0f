import { createSecureContext, type SecureContextOptions } from "node:tls";
import { checkNumber, checkObject, checkText, checkWord, shown } from "../checks.ts";
import { type Duration, msOf } from "../durations.ts";

/** Where a server listens. */
export type Address =
  | { readonly host: string; readonly port: number }
  | { readonly path: string };

/** Text or bytes of a certificate, a key, or several of them. */
export type TlsData = string | Uint8Array | (string | Uint8Array)[];

/** Options of Node's `tls.connect`. The types are ours, so that the package needs none of Node. */
export interface TlsOptions {
  readonly ca?: TlsData;
  readonly cert?: TlsData;
  readonly key?: TlsData;
  readonly pfx?: TlsData;
  readonly passphrase?: string;
  /** The name that is asked for, and that the certificate must have. Default: the server's. */
  readonly servername?: string;
  readonly rejectUnauthorized?: boolean;
  readonly ciphers?: string;
  readonly minVersion?: "TLSv1.2" | "TLSv1.3";
  readonly maxVersion?: "TLSv1.2" | "TLSv1.3";
}

/** How connections are made; the same for all servers. */
export interface LinkOptions {
  /** Longest time to connect, TLS and login included, in ms. Default 1,000. */
  readonly connectMs?: Duration;
  /** Longest time for a reply, in ms, from the reply before it on. Default 1,000. `signal` limits one request. */
  readonly replyMs?: Duration;
  /** Pause before a server that has failed is tried again, in ms; it doubles with each failure. Default 50. */
  readonly retryFirstMs?: Duration;
  /** Longest such pause, in ms. Default 1,000: short beside the 5 s for which flows repeat a step. */
  readonly retryMaxMs?: Duration;
  /** Bytes that may wait for a slow server on one connection; more requests fail. Default 64 MiB. */
  readonly queueBytesMax?: number;
  /** Options of `tls.connect`, as `ca`, `cert` and `key`; {}: TLS with the system's authorities. Default: no TLS. */
  readonly tls?: TlsOptions;
  /** Sent first on each connection. */
  readonly login?: Login;
}

/** A user of a server, and how to log in. */
export interface Login {
  readonly user: string;
  readonly password: string;
  /**
   * "text": for servers with `-Y` (memcached, leased). "PLAIN": SASL PLAIN, for servers with `-S`, in the binary
   * protocol: it has the plain commands and no flows, locks, leases or tokens. Default "text".
   */
  readonly mechanism?: "text" | "PLAIN";
}

/** The options with their defaults, in ms. */
export interface Link extends Pick<LinkOptions, "tls" | "login"> {
  readonly connectMs: number;
  readonly replyMs: number;
  readonly retryFirstMs: number;
  readonly retryMaxMs: number;
  readonly queueBytesMax: number;
}

/** Longest time that options in ms take: an hour. */
export const MS_MAX = 3_600_000;
const MS_DEFAULT = 1_000;
const RETRY_FIRST_MS = 50;
const RETRY_MAX_MS = 1_000;
const QUEUE_BYTES_DEFAULT = 1 << 26;
const PORT_DEFAULT = 11211;
const PORT_MAX = 65_535;
// deno-lint-ignore no-control-regex
const LOGIN_WORD = /^[^\x00-\x20\x7f]+$/;
const SASL_WORD = /^[^\0]+$/;

/** Returns the options with their defaults, checked. @throws RangeError, TypeError */
export function linkOf(options: LinkOptions): Link {
  const { connectMs = MS_DEFAULT, replyMs = MS_DEFAULT, tls, login } = options;
  const { queueBytesMax = QUEUE_BYTES_DEFAULT } = options;
  const { retryFirstMs = RETRY_FIRST_MS, retryMaxMs = RETRY_MAX_MS } = options;
  checkNumber("queueBytesMax", queueBytesMax, 1, Number.MAX_SAFE_INTEGER);
  if (tls !== undefined) {
    checkObject("tls", tls);
    // Throws at a certificate or key that is none.
    createSecureContext(tls as SecureContextOptions);
  }
  if (login !== undefined) checkLogin(login);
  return {
    connectMs: msOf("connectMs", connectMs, 1, MS_MAX),
    replyMs: msOf("replyMs", replyMs, 1, MS_MAX),
    retryFirstMs: msOf("retryFirstMs", retryFirstMs, 1, MS_MAX),
    retryMaxMs: msOf("retryMaxMs", retryMaxMs, 1, MS_MAX),
    queueBytesMax,
    ...(tls === undefined ? {} : { tls }),
    ...(login === undefined ? {} : { login }),
  };
}

/** @throws RangeError, TypeError */
function checkLogin(login: Login): void {
  checkObject("login", login);
  const { user, password, mechanism = "text" } = login;
  checkWord("mechanism of login", mechanism, ["text", "PLAIN"]);
  const [form, allowed] = mechanism === "text"
    ? [LOGIN_WORD, "without blanks"]
    : [SASL_WORD, "without the character 0"];
  for (const [name, word] of [["user", user], ["password", password]] as const) {
    checkText(`${name} of login`, word);
    if (!form.test(word)) throw new RangeError(`${name} of login: expected a text ${allowed}`);
  }
}

/**
 * Reads `host`, `host:port`, `[IPv6]:port`, or the path of a Unix socket.
 *
 * @throws RangeError, TypeError: it is none of them.
 */
export function addressOf(name: string): Address {
  if (typeof name !== "string") {
    throw new TypeError(`server ${shown(name)}: expected a text, as "host:port" or "/path"`);
  }
  if (/^\/[^\0]+$/.test(name)) return { path: name };
  const [, bracketed, plain, port] =
    /^(?:\[([^\s/\0]+)\]|([^:\s/\0[\]]+))(?::(\d{1,5}))?$/.exec(name) ?? [];
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
