import { reasonOf } from "../reason.ts";
import { latin1Bytes } from "../rows/bytes.ts";
import { cacheName } from "../rows/caches/caches_file.ts";
import { dial, type DialOptions, type PeerLogin, type PeerSocket } from "../rows/caches/dial.ts";
import { CacheError, type LeaseGet } from "../rows/flows/steps.ts";
import { LineReader } from "../rows/caches/line_reader.ts";

const CRLF_LENGTH = 2;
/** mcrouter's id for "somebody else has the lease". */
const HELD_ID = "1";
/** Longest line of a reply, in bytes. A key has 250 at most, or 336 in base64. */
export const REPLY_LINE_LENGTH_MAX = 2048;
/** The largest value that a cache can hold is 1 GiB. */
const VALUE_LENGTH_MAX = 2 ** 30;
const NO_DATA = new Uint8Array();

/** A request whose reply has not arrived. */
interface Pending {
  resolve(reply: Reply): void;
  reject(error: CacheError): void;
}

/** A reply: its lines, and the data behind a VALUE line. */
interface Reply {
  readonly lines: readonly string[];
  readonly data: Uint8Array | null;
}

/**
 * One connection to a cache. Pipelines requests; replies arrive in the same order. Connects on the first request, and
 * again after an error. A reply that exceeds the time-out closes the connection, because later replies could no longer
 * be matched to their requests.
 */
export class CacheClient {
  readonly hostname: string;
  readonly port: number;
  readonly #options: DialOptions;
  #connecting: Promise<PeerSocket> | null = null;
  #connection: PeerSocket | null = null;
  #pending: Pending[] = [];
  #sending: Promise<void> = Promise.resolve();
  /** Requests in progress, those that wait for the connection too. */
  #requests = 0;
  #isRetired = false;

  constructor(hostname: string, port: number, options: DialOptions) {
    this.hostname = hostname;
    this.port = port;
    this.#options = options;
  }

  /** `host:port` */
  get name(): string {
    return cacheName(this);
  }

  /** Reads a value, or takes the lease to fill it. @throws CacheError */
  async leaseGet(key: string): Promise<LeaseGet> {
    const { lines, data } = await this.#ask(`lease-get ${key}\r\n`);
    const words = lines[0]!.split(" ");
    if (words[0] === "VALUE" && data !== null) {
      return { kind: "value", flags: Number(words[2]), data };
    }
    if (words[0] === "LVALUE") {
      return words[2] === HELD_ID ? { kind: "held" } : { kind: "lease", id: words[2]! };
    }
    throw this.#unexpected("lease-get", lines[0]!);
  }

  /**
   * Fills a key under a lease.
   *
   * @returns False when the lease has ended: the caller must discard the value.
   * @throws CacheError
   */
  async leaseSet(key: string, id: string, flags: number, data: Uint8Array): Promise<boolean> {
    const { lines } = await this.#ask(`lease-set ${key} ${id} ${flags} 0 ${data.length}\r\n`, data);
    return lines[0] === "STORED";
  }

  /** Returns a lease without filling the key: stores an item that has already expired. @throws CacheError */
  async leaseReturn(key: string, id: string): Promise<void> {
    await this.#ask(`lease-set ${key} ${id} 0 -1 0\r\n`, NO_DATA);
  }

  /**
   * Removes a value, and ends a lease.
   *
   * @throws CacheError, also when another connection has the key locked.
   */
  async invalidate(key: string): Promise<void> {
    // Stores an item that has already expired. `delete` and `deletess` would leave a lease that nobody has, and every
    // reader would wait for it.
    const { lines } = await this.#ask(`set ${key} 0 -1 0\r\n`, NO_DATA);
    if (lines[0] === "STORED") return;
    const deleted = await this.#ask(`delete ${key}\r\n`);
    this.#requireGone(deleted.lines[0]!);
  }

  /** Removes all values and leases, and has the cache refuse fills; or ends that. @throws CacheError */
  async quarantine(on: boolean): Promise<void> {
    const request = `quarantine ${on ? "on" : "off"}\r\n`;
    let reply: Reply;
    try {
      reply = await this.#ask(request);
    } catch {
      // The connection may have been an old one, which has ended meanwhile.
      reply = await this.#ask(request);
    }
    if (reply.lines[0] !== "OK") throw this.#unexpected("quarantine", reply.lines[0]!);
  }

  /** Closes the connection. Requests in progress fail. */
  close(): void {
    this.#fail(new CacheError(`${this.name}: closed`));
  }

  /**
   * The cache has left the list: from now on, the connection is closed whenever no request is in progress. Flows that
   * began before may still send requests.
   */
  retire(): void {
    this.#isRetired = true;
    if (this.#requests === 0) this.close();
  }

  #requireGone(line: string): void {
    if (!/^(?:DELETED|NOT_FOUND)\b/.test(line)) throw this.#unexpected("delete", line);
  }

  #unexpected(command: string, line: string): CacheError {
    return new CacheError(`${this.name} answers ${command} with ${JSON.stringify(line)}`);
  }

  /** Sends a request, and waits for its reply. */
  async #ask(line: string, data?: Uint8Array): Promise<Reply> {
    const head = latin1Bytes(line);
    const request = new Uint8Array(head.length + (data === undefined ? 0 : data.length + 2));
    request.set(head);
    if (data !== undefined) {
      request.set(data, head.length);
      request.set(latin1Bytes("\r\n"), head.length + data.length);
    }
    let late: CacheError | null = null;
    const timer = setTimeout(() => {
      late = new CacheError(`${this.name}: no reply within ${this.#options.timeoutMs} ms`);
      this.#fail(late);
    }, this.#options.timeoutMs);
    this.#requests++;
    try {
      const connection = await this.#connected();
      if (late !== null) throw late;
      // It may have ended during the wait. Replies of another one would then go to the wrong requests.
      if (connection !== this.#connection) {
        throw new CacheError(`${this.name}: closed the connection`);
      }
      const reply = Promise.withResolvers<Reply>();
      this.#pending.push(reply);
      this.#send(connection, request);
      return await reply.promise;
    } finally {
      clearTimeout(timer);
      this.#requests--;
      if (this.#isRetired && this.#requests === 0) this.close();
    }
  }

  async #connected(): Promise<PeerSocket> {
    if (this.#connection !== null) return this.#connection;
    this.#connecting ??= this.#connect();
    return await this.#connecting;
  }

  async #connect(): Promise<PeerSocket> {
    const { timeoutMs, login, caCert } = this.#options;
    const giveUp = new AbortController();
    const timer = setTimeout(() => giveUp.abort(), timeoutMs);
    try {
      const connection = await dial(this, caCert, giveUp.signal);
      const reader = new LineReader(connection, REPLY_LINE_LENGTH_MAX);
      if (login !== null) await this.#authenticate(connection, reader, login, giveUp.signal);
      this.#connection = connection;
      this.#receive(connection, reader);
      return connection;
    } catch (error) {
      if (error instanceof CacheError) throw error;
      const reason = giveUp.signal.aborted
        ? `no connection within ${timeoutMs} ms`
        : error instanceof Error
        ? error.message
        : String(error);
      throw new CacheError(`${this.name}: ${reason}`);
    } finally {
      clearTimeout(timer);
      this.#connecting = null;
    }
  }

  /** Sends name and password. Closes the connection unless the cache accepts them. @throws CacheError */
  async #authenticate(
    connection: PeerSocket,
    reader: LineReader,
    { user, password }: PeerLogin,
    signal: AbortSignal,
  ): Promise<void> {
    const block = `${user} ${password}`;
    const request = latin1Bytes(`set login 0 0 ${block.length}\r\n${block}\r\n`);
    const close = (): void => connection.close();
    signal.addEventListener("abort", close);
    let reply: string | null;
    try {
      for (let at = 0; at < request.length;) at += await connection.write(request.subarray(at));
      reply = await reader.line();
    } finally {
      signal.removeEventListener("abort", close);
    }
    if (reply === "STORED") return;
    connection.close();
    const line = JSON.stringify(reply ?? "");
    throw new CacheError(`${this.name}: the login of user ${user} was answered with ${line}`);
  }

  /** Appends a request to the chain of writes, so that requests do not mix. */
  #send(connection: PeerSocket, request: Uint8Array): void {
    this.#sending = this.#sending.then(async () => {
      try {
        for (let at = 0; at < request.length;) at += await connection.write(request.subarray(at));
      } catch (error) {
        if (connection === this.#connection) this.#fail(new CacheError(`${this.name}: ${error}`));
      }
    });
  }

  /** Reads replies until the connection ends. */
  async #receive(connection: PeerSocket, reader: LineReader): Promise<void> {
    try {
      for (;;) {
        const reply = await readReply(reader);
        if (connection !== this.#connection) return;
        if (reply === null) throw new Error("closed the connection");
        this.#pending.shift()?.resolve(reply);
      }
    } catch (error) {
      if (connection !== this.#connection) return;
      this.#fail(new CacheError(`${this.name}: ${reasonOf(error)}`));
    }
  }

  /** Closes the connection: every request without a reply fails with the error. */
  #fail(error: CacheError): void {
    const connection = this.#connection;
    this.#connection = null;
    try {
      connection?.close();
    } catch {
      // It is closed already.
    }
    const pending = this.#pending;
    this.#pending = [];
    for (const each of pending) each.reject(error);
  }
}

/**
 * Reads the next reply: its lines up to one that announces no value.
 *
 * @returns Null when the connection ends before.
 * @throws Error when a line or a value is longer than the protocol allows.
 */
async function readReply(reader: LineReader): Promise<Reply | null> {
  const lines: string[] = [];
  let data: Uint8Array | null = null;
  for (;;) {
    const line = await reader.line();
    if (line === null) return null;
    lines.push(line);
    const words = line.split(" ");
    if (words[0] !== "VALUE" && words[0] !== "LVALUE") return { lines, data };
    const length = valueLength(words[0] === "VALUE" ? words[3] : words[4]);
    data = await reader.block(length);
    if (data === null || !await reader.skip(CRLF_LENGTH)) return null;
  }
}

/**
 * Returns the length of a value, as a reply announces it in decimal digits.
 *
 * @throws RangeError
 */
export function valueLength(digits: string | undefined): number {
  const length = /^\d{1,10}$/.test(digits ?? "") ? Number(digits) : NaN;
  if (length <= VALUE_LENGTH_MAX) return length;
  throw new RangeError(
    `announces a value of ${digits ?? "no"} bytes; the longest has ${VALUE_LENGTH_MAX}`,
  );
}
