import { reasonOf } from "../../process/reason.ts";
import { CacheError } from "../flows/steps.ts";
import { CacheConnection } from "./cache_connection.ts";
import { cacheName } from "./caches_file.ts";
import type { DialOptions } from "../../peers/dial.ts";

/** Connections to one cache. A further one is used while the others have replies outstanding. */
const CONNECTIONS_MAX = 4;
/** Keys that a line of a meta command can hold as they are. */
const PLAIN_KEY = /^[\x21-\x7e\x80-\xff]+$/;

/**
 * A listed cache: rows are deleted in it before they are written. Deletions of a group go together, over one of several
 * connections. A reply that is late fails its request alone; that connection gets no further requests until it has
 * caught up.
 */
export class CacheClient {
  readonly hostname: string;
  readonly port: number;
  readonly #options: DialOptions;
  readonly #connections = new Set<CacheConnection>();
  #connecting: Promise<CacheConnection> | null = null;
  #batches = 0;
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

  /**
   * Removes values, and ends leases.
   *
   * @returns By key: why it failed; null: the cache has confirmed it.
   */
  async invalidateMany(keys: readonly string[]): Promise<(string | null)[]> {
    this.#batches++;
    try {
      return await this.#invalidate(keys);
    } finally {
      this.#batches--;
      if (this.#isRetired && this.#batches === 0) this.close();
    }
  }

  async #invalidate(keys: readonly string[]): Promise<(string | null)[]> {
    // Stores items that have already expired. A deletion would leave a lease that no client holds, and every reader
    // would wait for it.
    const stored = await this.#ask(keys.map((key) => command("ms", key, " 0 T-1", "\r\n")));
    const errors = stored.map((code) => code instanceof Error ? this.#failed(code) : null);
    const refused = [...keys.keys()].filter((at) => stored[at] === "NS");
    if (refused.length === 0) return errors;
    // An update token is out there, or another connection has locked the value.
    const deleted = await this.#ask(refused.map((at) => command("md", keys[at]!, "", "")));
    for (const [order, at] of refused.entries()) {
      const code = deleted[order]!;
      if (code instanceof Error) errors[at] = this.#failed(code);
      else if (code !== "HD" && code !== "NF") {
        errors[at] = `${this.name} answers md with ${code}: is the value locked?`;
      }
    }
    return errors;
  }

  /** Removes all values and leases, and has the cache refuse fills; or ends that. @throws CacheError */
  async quarantine(on: boolean): Promise<void> {
    // A connection of its own: this reply has no opaque.
    let connection: CacheConnection | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isLate = false;
    const { timeoutMs } = this.#options;
    try {
      const opened = connection = await CacheConnection.open(this, this.#options);
      timer = setTimeout(() => {
        isLate = true;
        opened.close();
      }, timeoutMs);
      const reply = await opened.line(`quarantine ${on ? "on" : "off"}\r\n`);
      if (reply !== "OK") throw new Error(`answers quarantine with ${JSON.stringify(reply)}`);
    } catch (error) {
      const reason = isLate ? `no reply within ${timeoutMs} ms` : reasonOf(error);
      throw new CacheError(`${this.name}: ${reason}`);
    } finally {
      clearTimeout(timer);
      connection?.close();
    }
  }

  /** Closes the connections. Requests in progress fail. */
  close(): void {
    for (const connection of this.#connections) connection.close();
    this.#connections.clear();
  }

  /**
   * The cache has left the list: from now on, connections are closed whenever no request is in progress. Flows that
   * began before may still send requests.
   */
  retire(): void {
    this.#isRetired = true;
    if (this.#batches === 0) this.close();
  }

  #failed(error: Error): string {
    return `${this.name}: ${error.message}`;
  }

  /** Sends commands over one connection. */
  async #ask(commands: readonly ((opaque: number) => string)[]): Promise<(string | Error)[]> {
    let connection: CacheConnection;
    try {
      connection = await this.#connection();
    } catch (error) {
      return commands.map(() => new Error(reasonOf(error)));
    }
    return await connection.ask(commands, this.#options.timeoutMs);
  }

  /** Returns an idle connection, or opens one, or returns the one with the fewest requests. */
  async #connection(): Promise<CacheConnection> {
    for (const connection of this.#connections) {
      if (connection.isClosed) this.#connections.delete(connection);
    }
    const able = [...this.#connections].filter(({ isSlow }) => !isSlow)
      .sort((a, b) => a.pending - b.pending);
    const [best] = able;
    if (best !== undefined && (best.pending === 0 || this.#connections.size >= CONNECTIONS_MAX)) {
      return best;
    }
    if (this.#connections.size >= CONNECTIONS_MAX) {
      // All are slow: the oldest one is given up.
      const [oldest] = this.#connections;
      oldest!.close();
      this.#connections.delete(oldest!);
    }
    this.#connecting ??= this.#open().finally(() => this.#connecting = null);
    return await this.#connecting;
  }

  async #open(): Promise<CacheConnection> {
    const connection = await CacheConnection.open(this, this.#options);
    connection.serve();
    this.#connections.add(connection);
    return connection;
  }
}

/** Returns a meta command for a key, which may have any bytes. */
function command(
  name: string,
  key: string,
  middle: string,
  end: string,
): (opaque: number) => string {
  const isPlain = PLAIN_KEY.test(key);
  const word = isPlain ? key : btoa(key);
  const flags = isPlain ? "" : " b";
  return (opaque) => `${name} ${word}${middle} O${opaque}${flags}\r\n${end}`;
}
