import { reasonOf } from "../../process/reason.ts";
import { latin1Bytes } from "../../../store/base/bytes.ts";
import { dial, type DialOptions, type PeerSocket } from "../../peers/dial.ts";
import { LineReader, REPLY_LINE_LENGTH_MAX } from "../../peers/line_reader.ts";

/** Requests in one write. */
const PIECE_REQUESTS = 256;
/** A reply of a meta command: its code, and the opaque of its request. */
const META_REPLY = /^(HD|NS|NF|EX) O(\d+)$/;

/** Requests that are sent together, and wait for their replies. */
interface Batch {
  /** The opaque of the first one; the others follow. */
  readonly first: number;
  /** By request: the reply's code, or the error in its place; undefined: it has not arrived. */
  readonly replies: (string | Error | undefined)[];
  /** Replies that have not arrived. */
  missing: number;
  /** No caller waits for the missing replies any more. */
  isLate: boolean;
  resolve(replies: (string | Error)[]): void;
}

/**
 * One connection to a cache. Pipelines meta commands, and compares every reply with its request by the opaque. A reply
 * that was not asked for, or that is no reply of a meta command, ends the connection.
 */
export class CacheConnection {
  readonly #socket: PeerSocket;
  readonly #reader: LineReader;
  readonly #pending = new Map<number, Batch>();
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

  /** Whether replies are missing that no caller waits for any more. */
  get isSlow(): boolean {
    return this.#late > 0;
  }

  /** Sends a line before any meta command, and returns the line of the reply; "" when the cache disconnects. */
  async line(request: string): Promise<string> {
    await this.#write(request);
    return await this.#reader.line() ?? "";
  }

  async #write(text: string): Promise<void> {
    const bytes = latin1Bytes(text);
    for (let at = 0; at < bytes.length;) at += await this.#socket.write(bytes.subarray(at));
  }

  /** Begins to receive replies of meta commands. */
  serve(): void {
    void this.#receive();
  }

  /**
   * Sends meta commands together.
   *
   * @param requests Return the command with an opaque.
   * @param timeoutMs How long the replies may take; a request without one fails, and the others go on.
   * @returns For each request, its reply's code, or the error in its place.
   */
  ask(
    requests: readonly ((opaque: number) => string)[],
    timeoutMs: number,
  ): Promise<(string | Error)[]> {
    if (this.#isClosed) return Promise.resolve(requests.map(() => new Error("disconnected")));
    const { promise, resolve } = Promise.withResolvers<(string | Error)[]>();
    const first = this.#lastOpaque + 1;
    const missing = requests.length;
    const batch: Batch = { first, replies: new Array(missing), missing, isLate: false, resolve };
    for (let at = 0; at < requests.length; at += PIECE_REQUESTS) {
      let text = "";
      for (const request of requests.slice(at, at + PIECE_REQUESTS)) {
        this.#pending.set(++this.#lastOpaque, batch);
        text += request(this.#lastOpaque);
      }
      this.#send(text);
    }
    const timer = setTimeout(() => {
      batch.isLate = true;
      this.#late += batch.missing;
      this.#giveUp(batch, `no reply within ${timeoutMs} ms`);
    }, timeoutMs);
    return promise.finally(() => clearTimeout(timer));
  }

  /** Ends a batch; replies that are missing have failed. */
  #giveUp(batch: Batch, reason: string): void {
    batch.resolve(Array.from(batch.replies, (reply) => reply ?? new Error(reason)));
  }

  close(reason = "disconnected"): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    try {
      this.#socket.close();
    } catch {
      // It is closed already.
    }
    for (const batch of new Set(this.#pending.values())) this.#giveUp(batch, reason);
    this.#pending.clear();
  }

  /** Appends to the chain of writes, so that requests do not mix. */
  #send(text: string): void {
    this.#sending = this.#sending.then(() => this.#write(text))
      .catch((error) => this.close(reasonOf(error)));
  }

  /** Reads replies until the connection ends. */
  async #receive(): Promise<void> {
    try {
      for (;;) {
        const line = this.#reader.received() ?? await this.#reader.line();
        if (line === null) return this.close("disconnected");
        const [, code, opaque] = META_REPLY.exec(line) ?? [];
        const batch = this.#pending.get(Number(opaque));
        if (code === undefined || batch === undefined) {
          return this.close(`sends ${JSON.stringify(line)}, which answers no request`);
        }
        this.#pending.delete(Number(opaque));
        batch.missing--;
        if (batch.isLate) {
          this.#late--;
          continue;
        }
        batch.replies[Number(opaque) - batch.first] = code;
        if (batch.missing === 0) batch.resolve(batch.replies as string[]);
      }
    } catch (error) {
      this.close(reasonOf(error));
    }
  }
}
