import { ACCEPT_PAUSE_MS, AcceptFailures } from "../net/accept_failures.ts";
import { openSocket } from "../net/portable/bind.ts";
import {
  closeQuietly,
  isConnectionError,
  pause,
  prepareTcp,
  resourceShortage,
} from "../net/portable/sockets.ts";
import type { TcpListen, TransportEvent } from "../net/transport.ts";
import { EXPOSITION_TYPE } from "./exposition.ts";
import {
  HEAD_BYTES_MAX,
  HttpError,
  type HttpRequest,
  isHostAllowed,
  parseRequest,
} from "./http_request.ts";

/** At this number of connections, a new one closes the oldest. */
const CONNECTIONS_MAX = 64;
/** By default, a connection is closed after this time, whatever it waits for. */
const CONNECTION_MS_MAX = 10_000;
/** The page is rendered at most once in this time; requests in between wait for it. */
const RENDER_INTERVAL_MS = 100;
/** The most that is read and dropped behind a request: with unread bytes a close would reset it and lose the reply. */
const SURPLUS_BYTES_MAX = 1024 * 1024;
const BACKLOG = 128;
/** Time for replies in progress at a stop. */
const STOP_MS_MAX = 500;

const STATUS_TEXT: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  404: "Not Found",
  405: "Method Not Allowed",
  421: "Misdirected Request",
  431: "Request Header Fields Too Large",
  503: "Service Unavailable",
  505: "HTTP Version Not Supported",
};

const PLAIN = "text/plain; charset=utf-8";

interface Reply {
  readonly status: number;
  readonly body: string;
  readonly type?: string;
  readonly headers?: readonly string[];
}

/** The contents of the admin server's pages. */
export interface AdminPages {
  /** Renders /metrics. */
  readonly metrics: () => string;
  /** Whether clients are served: the status of /health. */
  readonly isServing: () => boolean;
  /** The fault while clients are served, for /health; null or left out: none. */
  readonly problem?: () => string | null;
}

/**
 * Serves /metrics and /health by HTTP/1.1 on a port of its own, one request a connection. All of it runs on the thread
 * that opens it. Connections are bounded in number, size and time, so clients that do not send or read stall no other.
 */
export class AdminServer {
  /** The address it listens on, with the port that was bound. */
  readonly listen: TcpListen;
  readonly #pages: AdminPages;
  readonly #connectionMsMax: number;
  readonly #listener: Deno.TcpListener;
  /** The oldest first. */
  readonly #connections = new Set<Deno.TcpConn>();
  /** Replies in progress. */
  readonly #replies = new Set<Promise<void>>();
  readonly #acceptFailures: AcceptFailures;
  /** The rendering that requests wait for; null: none does. */
  #rendering: Promise<string> | null = null;
  #renderedAtMs = -Infinity;
  #isStopping = false;

  /**
   * Takes the address.
   *
   * @param report Logs an event.
   * @param connectionMsMax How long a connection may last.
   * @throws ListenError when it cannot be had.
   */
  constructor(
    listen: TcpListen,
    pages: AdminPages,
    report: (event: TransportEvent) => void,
    connectionMsMax = CONNECTION_MS_MAX,
  ) {
    this.#pages = pages;
    this.#connectionMsMax = connectionMsMax;
    this.#acceptFailures = new AcceptFailures(report, "the number of connections");
    this.#listener = openSocket(listen, BACKLOG, false) as Deno.TcpListener;
    this.listen = { ...listen, port: this.#listener.addr.port };
  }

  /** Accepts and serves connections from here on. */
  async serve(): Promise<void> {
    while (!this.#isStopping) {
      let socket: Deno.TcpConn;
      try {
        socket = await this.#listener.accept();
      } catch (error) {
        if (this.#isStopping) return;
        const code = resourceShortage(error);
        if (code !== "") this.#acceptFailures.add(code, performance.now());
        await pause(code === "" ? 1 : ACCEPT_PAUSE_MS);
        continue;
      }
      if (this.#connections.size >= CONNECTIONS_MAX) this.#closeOldest();
      this.#connections.add(socket);
      // A connection that fails for another reason than its peer rejects, which ends the process.
      this.#converse(socket).then(() => this.#connections.delete(socket));
    }
  }

  /** Sends the replies in progress, for a short time, and closes everything. */
  async stop(): Promise<void> {
    this.#stopListening();
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
    for (const socket of this.#connections) closeQuietly(socket);
  }

  #stopListening(): void {
    if (this.#isStopping) return;
    this.#isStopping = true;
    this.#listener.close();
  }

  #closeOldest(): void {
    const [socket] = this.#connections;
    this.#connections.delete(socket!);
    closeQuietly(socket!);
  }

  async #converse(socket: Deno.TcpConn): Promise<void> {
    const deadline = setTimeout(() => closeQuietly(socket), this.#connectionMsMax);
    try {
      prepareTcp(socket);
      const request = await receive(socket);
      if (request === null) return;
      const replying = this.#answer(socket, request);
      this.#replies.add(replying);
      await replying.finally(() => this.#replies.delete(replying));
      await discard(socket);
    } catch (error) {
      // Anything else is a broken invariant.
      if (!isConnectionError(error)) throw error;
    } finally {
      clearTimeout(deadline);
      closeQuietly(socket);
    }
  }

  async #answer(socket: Deno.TcpConn, request: HttpRequest | HttpError): Promise<void> {
    const isHead = !(request instanceof HttpError) && request.method === "HEAD";
    await sendAll(socket, encodeReply(await this.#reply(request, socket), isHead));
    await socket.closeWrite();
  }

  async #reply(request: HttpRequest | HttpError, socket: Deno.TcpConn): Promise<Reply> {
    if (request instanceof HttpError) {
      return { status: request.status, body: `${request.message}\n` };
    }
    const { method, path, host } = request;
    if (!isHostAllowed(host, socket.localAddr.hostname, this.listen.hostname)) {
      return { status: 421, body: `this server is not ${host}: use its address, or localhost\n` };
    }
    if (path !== "/metrics" && path !== "/health") {
      return { status: 404, body: "not found: there are /metrics and /health\n" };
    }
    if (method !== "GET" && method !== "HEAD") {
      return { status: 405, body: "use GET or HEAD\n", headers: ["Allow: GET, HEAD"] };
    }
    if (path === "/metrics") {
      return { status: 200, body: await this.#metrics(), type: EXPOSITION_TYPE };
    }
    if (!this.#pages.isServing()) return { status: 503, body: "shutting down\n" };
    const problem = this.#pages.problem?.() ?? null;
    return problem === null
      ? { status: 200, body: "serving\n" }
      : { status: 503, body: `${problem}\n` };
  }

  /** Returns a page that was rendered after the call. */
  #metrics(): Promise<string> {
    return this.#rendering ??= this.#render();
  }

  async #render(): Promise<string> {
    // Always waits: requests after the rendering must not get its page.
    await pause(Math.max(0, this.#renderedAtMs + RENDER_INTERVAL_MS - performance.now()));
    this.#rendering = null;
    const page = this.#pages.metrics();
    this.#renderedAtMs = performance.now();
    return page;
  }
}

/** Returns a request or the reason to refuse it; null if the peer has closed the connection. */
async function receive(socket: Deno.TcpConn): Promise<HttpRequest | HttpError | null> {
  const buffer = new Uint8Array(HEAD_BYTES_MAX);
  const decoder = new TextDecoder("latin1");
  for (let text = "";;) {
    const length = await socket.read(buffer);
    if (length === null) return null;
    text += decoder.decode(buffer.subarray(0, length));
    try {
      const request = parseRequest(text);
      if (request !== null) return request;
    } catch (error) {
      if (error instanceof HttpError) return error;
      throw error;
    }
  }
}

/** Reads and drops what else the peer sends, up to a bound. */
async function discard(socket: Deno.TcpConn): Promise<void> {
  const buffer = new Uint8Array(HEAD_BYTES_MAX);
  for (let total = 0; total < SURPLUS_BYTES_MAX;) {
    const length = await socket.read(buffer);
    if (length === null) return;
    total += length;
  }
}

function encodeReply({ status, body, type, headers = [] }: Reply, isHead: boolean): Uint8Array {
  const bytes = new TextEncoder().encode(body);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_TEXT[status]}`,
    `Content-Type: ${type ?? PLAIN}`,
    `Content-Length: ${bytes.length}`,
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Connection: close",
    ...headers,
  ];
  const start = new TextEncoder().encode(`${head.join("\r\n")}\r\n\r\n`);
  const reply = new Uint8Array(start.length + (isHead ? 0 : bytes.length));
  reply.set(start);
  if (!isHead) reply.set(bytes, start.length);
  return reply;
}

async function sendAll(socket: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let sent = 0; sent < bytes.length;) sent += await socket.write(bytes.subarray(sent));
}
