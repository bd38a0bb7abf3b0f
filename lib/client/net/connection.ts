import { assert } from "../assert.ts";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { nextTick } from "node:process";
import { clearTimeout, setTimeout } from "node:timers";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { type Address, type Link, nameOf } from "./address.ts";
import { BinaryWire } from "./binary_wire.ts";
import { shown } from "../checks.ts";
import {
  ConnectionError,
  type Place,
  ProtocolError,
  RequestError,
  ServerError,
  TimeoutError,
  UnsupportedError,
} from "../errors.ts";
import { TextWire } from "./text_wire.ts";
import { type Reply, type Request, textOf, type Wire } from "./wire.ts";

/** Longer values are written as they are; shorter ones are copied into the text around them. */
const COPIED_LENGTH_MAX = 2048;
/** The reply of leased without `--state-dir`. */
const TOKENS_OFF = /^\S+ update tokens need a state directory$/;
/** A timer that wakes later than this was held up by the application. */
const LATE_MS = 10;
const OPAQUE_MAX = 0x3fff_ffff;

/** A request whose reply has not arrived. */
interface Pending {
  readonly request: Request<unknown>;
  readonly opaque: number;
  /** When it was sent, or could have been, as `performance.now` has it. */
  sinceMs: number;
  /** Whether it has had its time once more. */
  isExcused: boolean;
  resolve(result: unknown): void;
  reject(error: unknown): void;
  next: Pending | undefined;
}

/** Why a connection ended. */
export type EndReason = "closed" | "failed" | "timeout" | "garbage";

/** Receives the events of a connection. */
export interface Watcher {
  /** The server has executed a request, besides the login. */
  serves(): void;
  /** Called once, when the connection can take no more requests. @param error The reason, without a request. */
  ended(reason: EndReason, error: ConnectionError): void;
}

/**
 * One pipelined connection. It connects at once; requests wait until it is ready. Whatever is wrong with it ends it,
 * and fails all its requests: it never reconnects.
 */
export class Connection {
  readonly name: string;
  readonly #link: Link;
  readonly #socket: Socket;
  readonly #wire: Wire;
  readonly #watcher: Watcher;
  readonly #gone: Promise<void>;
  #first: Pending | undefined;
  #last: Pending | undefined;
  /** Not yet written: bytes as text, one character a byte, and long values. */
  #text = "";
  #pieces: (string | Uint8Array)[] = [];
  #queuedBytes = 0;
  #opaque = 0;
  #isReady = false;
  #isServing = false;
  #isFlushing = false;
  #end: { readonly reason: EndReason; readonly message: string } | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the timer wakes, as `performance.now` has it. */
  #timerDueMs = Infinity;
  /** When the last reply was complete. */
  #progressMs = 0;

  constructor(address: Address, link: Link, watcher: Watcher) {
    this.name = nameOf(address);
    this.#link = link;
    this.#watcher = watcher;
    const { tls, login } = link;
    this.#wire = login?.mechanism === "PLAIN" ? new BinaryWire() : new TextWire();
    this.#socket = tls === undefined
      ? connectTcp(address)
      : connectTls({ ...address, ...serverNameOf(address), ...tls } as ConnectionOptions);
    this.#gone = new Promise((resolve) => this.#socket.once("close", () => resolve()));
    this.#timer = setTimeout(
      () => this.#stop("timeout", `not connected within ${link.connectMs} ms`),
      link.connectMs,
    );
    this.#socket.setNoDelay?.(true);
    this.#socket.once(tls === undefined ? "connect" : "secureConnect", () => this.#connected());
    this.#socket.on("data", (piece: Uint8Array) => this.#received(piece));
    this.#socket.on("drain", () => this.#flush());
    this.#socket.on("error", (error: Error) => this.#stop("failed", error.message));
    this.#socket.on("end", () => this.#stop("failed", "the server closed the connection"));
    this.#socket.on("close", () => this.#stop("failed", "the connection was closed"));
  }

  get isEnded(): boolean {
    return this.#end !== undefined;
  }

  /** Whether every request has its reply. */
  get isIdle(): boolean {
    return this.#first === undefined;
  }

  /** Sends a request. @throws RequestError */
  send<Result>(request: Request<Result>): Promise<Result> {
    if (this.#end !== undefined) {
      return Promise.reject(new ConnectionError(this.#place(request), this.#end.message));
    }
    const waiting = this.#queuedBytes + this.#socket.writableLength;
    if (waiting > this.#link.queueBytesMax) {
      const message = `${waiting} bytes wait to be sent; queueBytesMax is exceeded`;
      return Promise.reject(new ConnectionError(this.#place(request), message));
    }
    const opaque = this.#opaque = (this.#opaque + 1) & OPAQUE_MAX;
    const head = this.#wire.headOf(request, opaque);
    if (head === undefined) {
      const reason = "login by SASL PLAIN has the binary protocol, which lacks this command";
      return Promise.reject(new UnsupportedError(this.#place(request), "", reason));
    }
    return new Promise<Result>((resolve, reject) => {
      const pending = this.#pendingOf(request, opaque, resolve as Pending["resolve"], reject);
      assert((this.#first === undefined) === (this.#last === undefined), "requests are in a list");
      if (this.#last === undefined) this.#first = pending;
      else this.#last.next = pending;
      this.#last = pending;
      this.#queue(head, request.value);
      if (this.#isReady) this.#watchFor(pending);
    });
  }

  /** Lets the process end while no request waits for a reply. */
  unref(): void {
    this.#socket.unref();
  }

  /** Ends the connection; its requests fail. Resolves when the socket is closed. */
  close(message = "the client was closed"): Promise<void> {
    this.#stop("closed", message);
    return this.#gone;
  }

  #place({ line, key }: Request<unknown>): Place {
    return { server: this.name, command: line.split(" ", 1)[0]!, key };
  }

  #pendingOf(
    request: Request<unknown>,
    opaque: number,
    resolve: Pending["resolve"],
    reject: Pending["reject"],
  ): Pending {
    const sinceMs = performance.now();
    return { request, opaque, sinceMs, isExcused: false, resolve, reject, next: undefined };
  }

  /** A reply has its time from the one before it on: those of a large batch come one after the other. */
  #dueMsOf({ request: { extraMs = 0 }, sinceMs }: Pending): number {
    return Math.max(sinceMs, this.#progressMs) + this.#link.replyMs + extraMs;
  }

  // --- sending -------------------------------------------------------------------------------------

  #queue(head: string, value: Uint8Array | undefined): void {
    this.#queuedBytes += head.length;
    this.#text += head;
    if (value !== undefined) {
      const { valueEnd } = this.#wire;
      this.#queuedBytes += value.length + valueEnd.length;
      if (value.length <= COPIED_LENGTH_MAX) this.#text += textOf(value);
      else {
        this.#pieces.push(this.#text, value);
        this.#text = "";
      }
      this.#text += valueEnd;
    }
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    // So that requests of the same turn of the event loop go out in one write.
    nextTick(() => {
      this.#isFlushing = false;
      this.#flush();
    });
  }

  #flush(): void {
    if (!this.#isReady || this.isEnded) return;
    if (this.#queuedBytes === 0 || this.#socket.writableNeedDrain) return;
    this.#pieces.push(this.#text);
    const pieces = this.#pieces;
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0);
    // The server would take what follows for the rest of the value.
    if (bytes !== this.#queuedBytes) return this.#stop("failed", "a value has changed its length");
    this.#pieces = [];
    this.#text = "";
    this.#queuedBytes = 0;
    if (pieces.length > 1) this.#socket.cork();
    for (const piece of pieces) {
      if (typeof piece === "string") this.#socket.write(piece, "latin1");
      else this.#socket.write(piece);
    }
    if (pieces.length > 1) this.#socket.uncork();
  }

  #connected(): void {
    const { login } = this.#link;
    if (login === undefined) return this.#ready();
    const fail = (reply: string): void =>
      this.#stop("failed", `login of ${login.user} failed: ${reply}`);
    const request = this.#wire.loginOf(login, (refusal) => {
      if (refusal === undefined) this.#ready();
      else fail(refusal);
    });
    const pending = this.#pendingOf(request, 0, () => {}, (error) => {
      if (error instanceof ServerError) fail(error.reply);
    });
    pending.next = this.#first;
    this.#first = pending;
    this.#last ??= pending;
    const head = this.#wire.headOf(request, pending.opaque)!;
    this.#socket.write(head + textOf(request.value!) + this.#wire.valueEnd, "latin1");
  }

  #ready(): void {
    assert(!this.#isReady, "a connection is ready once");
    this.#isReady = true;
    this.#progressMs = performance.now();
    this.#watch();
    this.#flush();
  }

  // --- receiving -----------------------------------------------------------------------------------

  #received(piece: Uint8Array): void {
    if (this.#end !== undefined) return;
    this.#wire.add(piece);
    const nowMs = performance.now();
    try {
      for (let first = this.#first; first !== undefined; first = this.#first) {
        const { shape } = first.request;
        const reply = this.#wire.next(shape);
        if (reply === undefined) {
          if (this.#isReady) this.#watchFor(first);
          return;
        }
        if (!this.#wire.isReplyTo(shape, first.opaque, reply)) {
          throw new Error(`a reply to another request: ${shownReply(reply)}`);
        }
        this.#first = first.next;
        if (this.#first === undefined) this.#last = undefined;
        if (!this.#isServing && this.#isReady && !reply.isError) {
          this.#isServing = true;
          this.#watcher.serves();
        }
        this.#progressMs = nowMs;
        this.#settle(first, reply);
        if (this.isEnded) return;
      }
      if (this.#wire.hasRest) throw new Error("bytes that no request asked for");
    } catch (error) {
      this.#spoiled((error as Error).message);
    }
  }

  #settle(pending: Pending, reply: Reply): void {
    const { request, resolve, reject } = pending;
    if (reply.isError) {
      // ERROR alone: the command is unknown.
      const isUnknown = reply.line === reply.status && !reply.status.includes("_");
      const Refusal = isUnknown || TOKENS_OFF.test(reply.line) ? UnsupportedError : ServerError;
      return reject(new Refusal(this.#place(request), reply.line));
    }
    try {
      const result = request.read(reply);
      if (!(result instanceof Promise)) return resolve(result);
      result.then(resolve, (error) => this.#unread(pending, reply, error));
    } catch (error) {
      this.#unread(pending, reply, error);
    }
  }

  /** Fails a request whose reply could not be read. @param error What reading it has thrown. */
  #unread({ request, reject }: Pending, reply: Reply, error: unknown): void {
    // Of a request that reading has led to.
    if (error instanceof RequestError) return reject(error);
    if (!(error instanceof UnreadableReply)) return reject(this.#undecodable(request, error));
    const message = `an unexpected reply: ${shownReply(reply)}`;
    reject(new ProtocolError(this.#place(request), message));
    // What follows cannot be trusted either.
    this.#stop("garbage", "the server sent an unexpected reply to a request before");
  }

  #undecodable(request: Request<unknown>, cause: unknown): Error {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `the codec cannot decode the value: ${reason}`;
    return new RequestError(this.#place(request), message, { cause });
  }

  /** Fails the request whose reply is due, and ends the connection. */
  #spoiled(what: string): void {
    const first = this.#first;
    const message = `the server sent ${what}`;
    first?.reject(new ProtocolError(this.#place(first.request), message));
    this.#stop("garbage", message);
  }

  // --- the end -------------------------------------------------------------------------------------

  /** Sets the timer anew if this request, whose reply is the next one, is due before it wakes. */
  #watchFor(pending: Pending): void {
    if (this.#dueMsOf(pending) < this.#timerDueMs) this.#watch();
  }

  /**
   * Sets the timer to the deadline of the next reply; ends the connection if it has passed. A request whose deadline
   * is noticed much later has its time once more.
   */
  #watch(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#timerDueMs = Infinity;
    if (this.#first === undefined || this.isEnded) return;
    const dueMs = this.#dueMsOf(this.#first);
    const leftMs = dueMs - performance.now();
    if (leftMs > 0) {
      this.#timerDueMs = dueMs;
      this.#timer = setTimeout(() => this.#watch(), Math.ceil(leftMs));
    } else if (leftMs < -LATE_MS && !this.#first.isExcused) {
      // A long task of the application: it may not even have sent the request.
      this.#first.isExcused = true;
      this.#progressMs = performance.now();
      this.#watch();
    } else this.#stop("timeout", `no reply within ${this.#link.replyMs} ms (replyMs)`);
  }

  #stop(reason: EndReason, message: string): void {
    if (this.#end !== undefined) return;
    this.#end = { reason, message };
    clearTimeout(this.#timer);
    this.#socket.destroy();
    this.#text = "";
    this.#pieces = [];
    const ErrorOfEnd = reason === "timeout" ? TimeoutError : ConnectionError;
    this.#watcher.ended(
      reason,
      new ErrorOfEnd({ server: this.name, command: "", key: "" }, message),
    );
    for (let each = this.#first; each !== undefined; each = each.next) {
      each.reject(new ErrorOfEnd(this.#place(each.request), message));
    }
    this.#first = this.#last = undefined;
  }
}

/** Returns the name that TLS asks for: Node sends none by itself, and an IP address is none. */
function serverNameOf(address: Address): { readonly servername?: string } {
  return "host" in address && isIP(address.host) === 0 ? { servername: address.host } : {};
}

/** Thrown by a request's `read`: the reply is none to this request. */
export class UnreadableReply extends Error {}

function shownReply({ status, line, opaque, lines }: Reply): string {
  if (line === "") {
    return opaque < 0 ? `${shown(status)} without opaque` : shown(`${status} O${opaque}`);
  }
  return shown([...lines.map(({ words }) => words.join(" ")), line].join("\r\n"));
}
