import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Duplex } from "node:stream";
import { concatBytes } from "../../store/base/bytes.ts";
import { ACCEPT_PAUSE_MS, AcceptFailures } from "../net/accept_failures.ts";
import { openSocket } from "../net/portable/bind.ts";
import {
  closeQuietly,
  isConnectionError,
  prepareTcp,
  resourceShortage,
} from "../net/portable/sockets.ts";
import { pause } from "../process/pause.ts";
import { isLoopback, type TcpListen, type TransportEvent } from "../net/transport.ts";
import type { AdminTls } from "./tls.ts";

/** At this number of connections, a new one closes the oldest. */
const CONNECTIONS_MAX = 64;
/** By default, a connection is closed after this time, whatever it waits for. */
const CONNECTION_MS_MAX = 10_000;
/** Streams that are open at a time. Further ones get status 503. */
const STREAMS_MAX = 32;
/** A stream whose peer has not taken more than this is closed. */
const STREAM_BYTES_MAX = 256 * 1024;
/** The longest head of a request. */
const HEAD_BYTES_MAX = 8192;
/** The most that is read and dropped after a refused head: closing with unread bytes would reset and lose the reply. */
const SURPLUS_BYTES_MAX = 1024 * 1024;
/** The longest body of a request. */
const BODY_BYTES_MAX = 4096;
const BACKLOG = 128;
/** Time for replies in progress at a stop. */
const STOP_MS_MAX = 500;

/** A reply with a body of text. */
export interface Reply {
  readonly status: number;
  readonly body: string;
  /** The media type; left out: plain text. */
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A reply without an end: server-sent events. */
interface StreamReply extends Omit<Reply, "body"> {
  /**
   * Begins to send.
   *
   * @param send Sends more. Closes a stream whose peer is too slow.
   * @returns A function that ends the sending, called when the stream is closed.
   */
  readonly stream: (send: (text: string) => void) => () => void;
}

/** A request, as handlers see it. Names of headers are in lower case. */
export interface AdminRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The address of the client, without its port. */
  readonly peer: string;
  /** The part of the address behind the question mark. */
  readonly query: URLSearchParams;
  /** Reads the body; null: it is too long, or the client has gone. */
  readonly body: () => Promise<string | null>;
}

type AnyReply = Reply | StreamReply;

/** Returns the reply to a request. A HEAD request gets its head only. */
export type Handler = (request: AdminRequest) => AnyReply | Promise<AnyReply>;

/** Handlers by path, then by method. HEAD has GET's handler. */
export type Routes = Readonly<Record<string, Readonly<Record<string, Handler>>>>;

/**
 * Serves routes by HTTP/1.1 on a port of its own, one request a connection. All of it runs on the thread that opens
 * it. Connections are bounded in number, size and time, so clients that do not send or read stall no other.
 */
export class AdminServer {
  /** The address it listens on, with the port that was bound. */
  readonly listen: TcpListen;
  readonly #routes: Routes;
  readonly #connectionMsMax: number;
  readonly #listener: Deno.TcpListener;
  readonly #http: Server;
  /** Null: plain. */
  readonly #tls: AdminTls | null;
  /** The connections under `node:http`'s sockets, which TLS replaces. */
  readonly #under = new WeakMap<object, AdminSocket>();
  /** The oldest first. */
  readonly #connections = new Set<Duplex>();
  /** Replies in progress. */
  readonly #replies = new Set<Promise<void>>();
  readonly #acceptFailures: AcceptFailures;
  readonly #streams = new Set<ServerResponse>();
  /** Called when the port closes. */
  onClose: () => void = () => {};
  #isStopping = false;

  /**
   * Takes the address.
   *
   * @param report Logs an event.
   * @param connectionMsMax How long a connection may last, with its handshake.
   * @param tls Null: plain.
   * @throws ListenError when it cannot be had.
   */
  constructor(
    listen: TcpListen,
    routes: Routes,
    report: (event: TransportEvent) => void,
    connectionMsMax = CONNECTION_MS_MAX,
    tls: AdminTls | null = null,
  ) {
    this.#routes = routes;
    this.#connectionMsMax = connectionMsMax;
    this.#tls = tls;
    this.#acceptFailures = new AcceptFailures(report, "the number of connections");
    // Not `Server.listen`: it stops accepting for good when it lacks a descriptor.
    this.#listener = openSocket(listen, BACKLOG, false) as Deno.TcpListener;
    this.listen = { ...listen, port: this.#listener.addr.port };
    // #serve bounds the time of every connection.
    const bounds = { maxHeaderSize: HEAD_BYTES_MAX, headersTimeout: 0, requestTimeout: 0 };
    this.#http = createServer(bounds, (request, response) => {
      const replying = this.#answer(request, response);
      this.#replies.add(replying);
      // A handler that fails rejects, which ends the process.
      replying.then(() => this.#replies.delete(replying));
    });
    this.#http.on("clientError", refuse);
  }

  /** Accepts and serves connections from here on. */
  async serve(): Promise<void> {
    while (!this.#isStopping) {
      try {
        this.#serve(await this.#listener.accept());
      } catch (error) {
        if (this.#isStopping) return;
        const code = resourceShortage(error);
        if (code !== "") this.#acceptFailures.add(code, performance.now());
        await pause(code === "" ? 1 : ACCEPT_PAUSE_MS);
      }
    }
  }

  /** Sends the replies in progress, for a short time, and closes everything. */
  async stop(): Promise<void> {
    this.#stopListening();
    for (const stream of this.#streams) stream.destroy();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tooLate = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, STOP_MS_MAX);
    });
    await Promise.race([Promise.allSettled(this.#replies), tooLate]);
    clearTimeout(timer);
    this.close();
  }

  /** Closes everything now. Idempotent. */
  close(): void {
    this.#stopListening();
    for (const stream of this.#connections) stream.destroy();
    for (const stream of this.#streams) stream.destroy();
  }

  #stopListening(): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.onClose();
    this.#listener.close();
  }

  #serve(socket: Deno.TcpConn): void {
    if (this.#connections.size >= CONNECTIONS_MAX) this.#closeOldest();
    prepareTcp(socket);
    const localAddress = socket.localAddr.hostname;
    const remoteAddress = socket.remoteAddr.hostname;
    const deadline = setTimeout(() => stream.destroy(), this.#connectionMsMax);
    // A stream lasts, and does not count as one of the connections.
    const lasts = (): void => {
      clearTimeout(deadline);
      this.#connections.delete(stream);
    };
    const addresses = { localAddress, remoteAddress, lasts };
    const stream: AdminSocket = Object.assign(Duplex.fromWeb(socket), addresses);
    this.#connections.add(stream);
    stream.on("error", (error: Error) => {
      // Anything else is a broken invariant.
      if (!isConnectionError(error)) throw error;
    });
    stream.on("close", () => {
      clearTimeout(deadline);
      this.#connections.delete(stream);
      closeQuietly(socket);
    });
    const open = (top: Duplex): void => {
      this.#under.set(top, stream);
      this.#http.emit("connection", top);
    };
    if (this.#tls === null) return open(stream);
    this.#tls.accept(stream, (secure) => {
      // Every error ends the connection, and `stream` reports it.
      secure.on("error", () => stream.destroy());
      secure.on("close", () => stream.destroy());
      open(secure);
    });
  }

  #closeOldest(): void {
    const [stream] = this.#connections;
    this.#connections.delete(stream!);
    stream!.destroy();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const closed = new Promise((resolve) => response.on("close", resolve));
    const reply = await this.#reply(request);
    const { status, type, headers } = reply;
    const common = {
      "Content-Type": type ?? "text/plain; charset=utf-8",
      "Cache-Control": "no-store",
      "X-Content-Type-Options": "nosniff",
      "Connection": "close",
      ...headers,
    };
    if ("stream" in reply) {
      if (request.method !== "HEAD" && this.#streams.size < STREAMS_MAX) {
        response.writeHead(status, common);
        response.flushHeaders();
        await this.#stream(this.#under.get(request.socket)!, response, reply, closed);
        return;
      }
      response.writeHead(request.method === "HEAD" ? status : 503, { ...common, "Retry-After": 5 });
      response.end();
    } else {
      const { body } = reply;
      const length = new TextEncoder().encode(body).length;
      response.writeHead(status, { ...common, "Content-Length": length });
      response.end(body);
    }
    await closed;
  }

  async #stream(
    socket: AdminSocket,
    response: ServerResponse,
    { stream }: StreamReply,
    closed: Promise<unknown>,
  ): Promise<void> {
    if (response.closed || this.#isStopping) return;
    this.#streams.add(response);
    socket.lasts();
    const end = stream((text) => {
      response.write(text);
      if (response.writableLength > STREAM_BYTES_MAX) socket.destroy();
    });
    await closed;
    end();
    this.#streams.delete(response);
  }

  #reply(request: IncomingMessage): AnyReply | Promise<AnyReply> {
    const { method = "", url = "", headers, socket } = request;
    const host = hostName(headers.host ?? "");
    const { localAddress, remoteAddress } = this.#under.get(socket)!;
    if (!isHostAllowed(host, localAddress, this.listen.hostname)) {
      return { status: 421, body: `this server is not ${host}: use its address, or localhost\n` };
    }
    const [path, query] = url.split(/\?(.*)/s, 2);
    const handlers = this.#routes[path!];
    if (handlers === undefined) {
      const paths = Object.keys(this.#routes).join(" and ");
      return { status: 404, body: `not found: there are ${paths}\n` };
    }
    const handler = handlers[method === "HEAD" ? "GET" : method];
    if (handler !== undefined) {
      return handler({
        headers,
        peer: remoteAddress,
        query: new URLSearchParams(query),
        body: () => bodyOf(request),
      });
    }
    const methods = Object.keys(handlers).flatMap((name) => name === "GET" ? [name, "HEAD"] : name);
    return {
      status: 405,
      body: `use ${methods.join(" or ")}\n`,
      headers: { Allow: methods.join(", ") },
    };
  }
}

/** Reads a request's body; null: it is too long, or the client has gone. */
async function bodyOf(request: IncomingMessage): Promise<string | null> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const piece of request) {
      length += piece.length;
      if (length > BODY_BYTES_MAX) return null;
      pieces.push(piece);
    }
  } catch {
    return null;
  }
  return new TextDecoder().decode(concatBytes(pieces));
}

/** A connection, as `node:http` needs it. */
type AdminSocket = Duplex & {
  readonly localAddress: string;
  readonly remoteAddress: string;
  /** Takes the connection out of those whose number and time are bounded. */
  readonly lasts: () => void;
};

/** Answers a request that is too large or malformed, and drops what follows it. */
function refuse({ code }: { code?: string }, stream: Duplex): void {
  if (!stream.writable) return;
  const isLong = code === "HPE_HEADER_OVERFLOW";
  const status = isLong ? "431 Request Header Fields Too Large" : "400 Bad Request";
  const reason = isLong
    ? `the headers are longer than ${HEAD_BYTES_MAX} bytes`
    : "malformed request";
  stream.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n${reason}\n`);
  let surplus = 0;
  stream.removeAllListeners("data");
  stream.on("data", (bytes: Uint8Array) => {
    surplus += bytes.length;
    if (surplus > SURPLUS_BYTES_MAX) stream.destroy();
  });
}

/** Returns a Host header in lower case, without the port. */
function hostName(host: string): string {
  return host.toLowerCase().replace(/:\d*$/, "");
}

/**
 * Whether a request with this Host header may be answered. A page of another site can make a browser on this host send
 * requests to a loopback address, under a name of its own (DNS rebinding). So on loopback a host must be an address,
 * `localhost`, or the name of the option. Other hosts can send any header to other addresses anyway.
 *
 * @param host The header in lower case, without the port; "": none, in HTTP/1.0.
 * @param localAddress The address that the client has connected to.
 * @param ownName The host of the option.
 */
export function isHostAllowed(host: string, localAddress: string, ownName: string): boolean {
  if (!isLoopback(localAddress)) return true;
  return host === "" || host === "localhost" || host === ownName.toLowerCase() ||
    /^\[[\da-f:.]+\]$/.test(host) || /^\d+\.\d+\.\d+\.\d+$/.test(host);
}
