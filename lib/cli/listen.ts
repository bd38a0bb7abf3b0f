import type { WireProtocol } from "../../protocol/settings.ts";
import { isLoopback, type Listen, type TcpListen, type TlsMode } from "../net/transport.ts";
import { orList } from "./values.ts";

/** One address of `-l`. */
export interface ListenAddress {
  readonly hostname: string;
  /** Undefined: the ports of `-p` and `-U`. */
  readonly port: number | undefined;
  /** Undefined: the protocol of `-B`. */
  readonly protocol: WireProtocol | undefined;
  /** The prefix `notls:`, `btls:` or `mtls:`; undefined: none. */
  readonly tls: TlsMode | "notls" | undefined;
}

const PROTOCOLS: Readonly<Record<string, WireProtocol>> = {
  ascii: "ascii",
  binary: "binary",
  negotiating: "auto",
};

/**
 * Reads `[notls:|btls:|mtls:][proto[ascii]:][tag[name]:]host[:port]`, `tag_name_:host`, `[v6]:port`, a bare IPv6
 * address, or `*` (memcached doc/protocol.txt and `-h`).
 *
 * @throws RangeError naming the part that is wrong and the values it takes.
 */
export function readListenAddress(text: string): ListenAddress {
  let rest = text;
  let protocol: WireProtocol | undefined;
  let tls: ListenAddress["tls"];
  for (;;) {
    const prefix = /^(?:(notls|btls|mtls|proto|tag)(?:\[([^\]]*)\]|_(.*?)_)?:)/.exec(rest);
    if (prefix === null) break;
    const [whole, kind, bracketed, underscored] = prefix;
    const word = bracketed ?? underscored;
    if (kind === "notls" || kind === "btls" || kind === "mtls") tls = kind;
    if (kind === "proto") {
      protocol = PROTOCOLS[word ?? ""];
      if (protocol === undefined) {
        throw new RangeError(`proto must be ${orList(Object.keys(PROTOCOLS))}`);
      }
    }
    if (kind === "tag" && (word === undefined || word.length < 1 || word.length > 8)) {
      throw new RangeError("a tag must have 1 to 8 characters");
    }
    rest = rest.slice(whole.length);
  }
  const { hostname, port } = readHostAndPort(rest);
  if (hostname === "") throw new RangeError("the host is missing; '*' is every IPv4 address");
  return { hostname: hostname === "*" ? "0.0.0.0" : hostname, port, protocol, tls };
}

/**
 * Reads the `host:port` of a server to connect to.
 *
 * @throws RangeError
 */
export function readServerAddress(text: string): { hostname: string; port: number } {
  const { hostname, port } = readListenAddress(text);
  if (port === undefined || port < 1) {
    throw new RangeError("must be host:port, with a port of 1..65535");
  }
  return { hostname, port };
}

function readHostAndPort(text: string): { hostname: string; port: number | undefined } {
  const bracketed = /^\[([^\]]+)\](?::(.*))?$/.exec(text);
  if (bracketed !== null) return { hostname: bracketed[1]!, port: readPort(bracketed[2]) };
  const colons = text.split(":").length - 1;
  if (colons !== 1) return { hostname: text, port: undefined }; // a name, or a bare IPv6 address
  const [hostname, port] = text.split(":") as [string, string];
  return { hostname, port: readPort(port) };
}

function readPort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = /^\d{1,5}$/.test(text) ? Number(text) : NaN;
  if (!(port <= 65535)) throw new RangeError("the port must be a whole number from 0 to 65535");
  return port;
}

/**
 * Reads the `[notls:|btls:|mtls:][host:]port` of `--admin`; without a host it is 127.0.0.1.
 *
 * @param hasTls Whether there is `-Z`.
 * @throws RangeError
 */
export function readAdminAddress(text: string, hasTls: boolean): TcpListen {
  const [, prefix, rest] = /^(?:(notls|btls|mtls):)?(.*)$/s.exec(text)!;
  if (!hasTls && (prefix === "btls" || prefix === "mtls")) {
    throw new RangeError(`${prefix}: needs -Z (--enable-ssl)`);
  }
  const isPort = /^\d+$/.test(rest!);
  const { hostname, port } = readHostAndPort(isPort ? `127.0.0.1:${rest}` : rest!);
  if (port === undefined || hostname === "") {
    throw new RangeError("must be host:port, or a port of 127.0.0.1; '*' is every IPv4 address");
  }
  return {
    kind: "tcp",
    hostname: hostname === "*" ? "0.0.0.0" : hostname,
    port,
    protocol: "ascii",
    ...(hasTls && prefix !== "notls" ? { tls: (prefix ?? "tls") as TlsMode } : {}),
  };
}

/** Returns whether other hosts can reach the listener. */
export function isPublic(listen: Listen): boolean {
  return listen.kind !== "unix" && !isLoopback(listen.hostname);
}
