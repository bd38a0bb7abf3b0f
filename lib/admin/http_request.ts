import { isLoopback } from "../net/transport.ts";

/** The longest head of a request, in bytes. */
export const HEAD_BYTES_MAX = 8192;
/** The most headers of a request. */
export const HEADERS_MAX = 64;

/** A request, as far as the admin server looks at it. */
export interface HttpRequest {
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  /** The Host header in lower case, without the port; "": none, in HTTP/1.0. */
  readonly host: string;
}

/** A request that is answered with an error before its path is looked at. */
export class HttpError extends Error {
  override readonly name = "HttpError";

  constructor(readonly status: number, message: string) {
    super(message);
  }
}

const END_OF_HEAD = "\r\n\r\n";
const REQUEST_LINE = /^([!#$%&'*+.^_`|~\w-]+) (\S+) HTTP\/(\d)\.(\d)$/;
const HEADER = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*([^\0\r\n]*?)[ \t]*$/;
const HOST = /^(\[[\da-f:.]+\]|[\w.-]+)(?::\d*)?$/;

/**
 * Parses the head of a request (RFC 9112). A body is ignored.
 *
 * @param text The bytes received so far, as characters below 256.
 * @returns Null while the head is not complete.
 * @throws HttpError
 */
export function parseRequest(text: string): HttpRequest | null {
  const end = text.indexOf(END_OF_HEAD);
  if (end < 0 && text.length < HEAD_BYTES_MAX) return null;
  if (end < 0 || end > HEAD_BYTES_MAX) {
    throw new HttpError(431, `the headers are longer than ${HEAD_BYTES_MAX} bytes`);
  }
  const [first = "", ...headers] = text.slice(0, end).split("\r\n");
  const [, method, target, major, minor] = REQUEST_LINE.exec(first) ?? [];
  if (method === undefined) throw new HttpError(400, "malformed request line");
  if (major !== "1") throw new HttpError(505, "only HTTP/1.0 and HTTP/1.1 are supported");
  if (headers.length > HEADERS_MAX) throw new HttpError(431, `more than ${HEADERS_MAX} headers`);
  const hosts: string[] = [];
  for (const line of headers) {
    const [, name, value] = HEADER.exec(line) ?? [];
    if (name === undefined) throw new HttpError(400, "malformed header");
    if (name.toLowerCase() === "host") hosts.push(value!.toLowerCase());
  }
  if (hosts.length > 1 || (hosts.length === 0 && minor !== "0")) {
    throw new HttpError(400, "a request needs one Host header");
  }
  if (!target!.startsWith("/")) throw new HttpError(400, "the target must be a path");
  return { method, path: target!.replace(/\?.*$/s, ""), host: hostName(hosts[0] ?? "") };
}

function hostName(host: string): string {
  if (host === "") return "";
  const [, name] = HOST.exec(host) ?? [];
  if (name === undefined) throw new HttpError(400, "malformed Host header");
  return name;
}

/**
 * Whether a request with this Host header may be answered. A page of another site can make a browser on this host send
 * requests to a loopback address, under a name of its own (DNS rebinding). So on loopback a host must be an address,
 * `localhost`, or the name of the option. Other hosts can send any header to other addresses anyway.
 *
 * @param localAddress The address that the client has connected to.
 * @param ownName The host of the option.
 */
export function isHostAllowed(host: string, localAddress: string, ownName: string): boolean {
  if (!isLoopback(localAddress)) return true;
  return host === "" || host === "localhost" || host === ownName.toLowerCase() ||
    host.startsWith("[") || /^\d+\.\d+\.\d+\.\d+$/.test(host);
}
