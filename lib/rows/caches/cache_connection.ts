import { reasonOf } from "../../reason.ts";
import { latin1Bytes } from "../bytes.ts";
import { dial, type DialOptions, type PeerSocket } from "./dial.ts";
import { LineReader, REPLY_LINE_LENGTH_MAX } from "./line_reader.ts";

/** Requests in one write. */
const PIECE_REQUESTS = 256;
/** A reply of a meta command: its code, and the opaque of its request. */
const META_REPLY = /^(HD|NS|NF|EX) O(\d+)$/;

/** A request whose reply has not arrived. */
interface Pending {
  resolve(code: string): void;
  reject(error: Error): void;
  /** Whether nobody waits for the reply any more. */
  isLate: boolean;
}

/**
 * One connection to a cache. Pipelines meta commands, and compares every reply with its request by the opaque. A reply
 * that nobody has asked for, or that is no reply of a meta command, ends the connection.
 */
export class CacheConnection {
  readonly #socket: PeerSocket;
  readonly #reader: LineReader;
  readonly #pending = new Map<number, Pending>();
  #sending: Promise<void> = Promise.resolve();
  #lastOpaque = 0;
  #late = 0;
  #isClosed = false;

  private constructor(socket: PeerSocket) {
    this.#socket = socket;
    this.#reader = new LineReader(socket, REPLY_LINE_LENGTH_MAX);
  }

  /** Connects, and authenticates if there is a login. @throws The runtime's error, or what the cache answers. */
  static async open(
    address: { readonly hostname: string; readonly port: number },
    { timeoutMs, login, caCert }: DialOptions,
  ): Promise<CacheConnection> {
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(), timeoutMs);
    let connection: CacheConnection | undefined;
    const close = (): void => connection?.close();
    giveUp.signal.addEventListener("abort", close);
    try {
      connection = new CacheConnection(await dial(address, caCert, giveUp.signal));
      if (login !== null) {
        const block = `${login.user} ${login.password}`;
        const reply = await connection.line(`set login 0 0 ${block.length}\r\n${block}\r\n`);
        if (reply !== "STORED") {
          throw new Error(
            `the login of user ${login.user} was answered with ${JSON.stringify(reply)}`,
          );
        }
      }
      return connection;
    } catch (error) {
      connection?.close();
      if (giveUp.signal.aborted) throw new Error(`no connection within ${timeoutMs} ms`);
      throw error;
    } finally {
      clearTimeout(timer);
      giveUp.signal.removeEventListener("abort", close);
    }
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Requests without a reply. */
  get pending(): number {
    return this.#pending.size;
  }

  /** Whether replies are missing that nobody waits for any more. */
  get isSlow(): boolean {
    return this.#late > 0;
  }

  /** Sends a line before any meta command, and returns the line of the reply; "" when the cache disconnects. */
  async line(request: string): Promise<string> {
    const bytes = latin1Bytes(request);
    for (let at = 0; at < bytes.length;) at += await this.#socket.write(bytes.subarray(at));
    return await this.#reader.line() ?? "";
  }

  /** Begins to receive replies of meta commands. */
  serve(): void {
    void this.#receive();
  }

  /**
   * Sends meta commands together.
   *
   * @param requests Return the command with an opaque.
   * @param timeoutMs How long each reply may take; a request without one fails, and the others go on.
   * @returns For each request, its reply's code; an error that says why there is none.
   */
  ask(
    requests: readonly ((opaque: number) => string)[],
    timeoutMs: number,
  ): Promise<(string | Error)[]> {
    if (this.#isClosed) return Promise.resolve(requests.map(() => new Error("disconnected")));
    const mine: Pending[] = [];
    const replies = requests.map(() => {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      mine.push({ resolve, reject, isLate: false });
      return promise.catch((error: Error) => error);
    });
    const texts = requests.map((request, index) => {
      const opaque = ++this.#lastOpaque;
      this.#pending.set(opaque, mine[index]!);
      return request(opaque);
    });
    for (let at = 0; at < texts.length; at += PIECE_REQUESTS) {
      this.#send(texts.slice(at, at + PIECE_REQUESTS).join(""));
    }
    const timer = setTimeout(() => {
      const waiting = new Set(this.#pending.values());
      for (const each of mine) {
        if (!waiting.has(each)) continue;
        each.isLate = true;
        this.#late++;
        each.reject(new Error(`no reply within ${timeoutMs} ms`));
      }
    }, timeoutMs);
    return Promise.all(replies).finally(() => clearTimeout(timer));
  }

  close(reason = "disconnected"): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      this.#socket.close();
    } catch {
      // It is closed already.
    }
    for (const { reject } of this.#pending.values()) reject(new Error(reason));
    this.#pending.clear();
  }

  /** Appends to the chain of writes, so that requests do not mix. */
  #send(text: string): void {
    const bytes = latin1Bytes(text);
    this.#sending = this.#sending.then(async () => {
      try {
        for (let at = 0; at < bytes.length;) at += await this.#socket.write(bytes.subarray(at));
      } catch (error) {
        this.close(reasonOf(error));
      }
    });
  }

  /** Reads replies until the connection ends. */
  async #receive(): Promise<void> {
    try {
      for (;;) {
        const line = await this.#reader.line();
        if (line === null) return this.close("disconnected");
        const [, code, opaque] = META_REPLY.exec(line) ?? [];
        const pending = this.#pending.get(Number(opaque));
        if (code === undefined || pending === undefined) {
          return this.close(`sends ${JSON.stringify(line)}, which answers no request`);
        }
        this.#pending.delete(Number(opaque));
        if (pending.isLate) this.#late--;
        pending.resolve(code);
      }
    } catch (error) {
      this.close(reasonOf(error));
    }
  }
}
