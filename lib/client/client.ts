import { addressOf, nameOf } from "./address.ts";
import { checkNumber, keyBytes } from "./checks.ts";
import {
  abortable,
  type CallOptions,
  type ClientOptions,
  Commands,
  type Send,
} from "./commands.ts";
import { ConnectionError, LockedError, TokenOutError } from "./errors.ts";
import * as requests from "./requests.ts";
import { KetamaRing } from "./ring.ts";
import { Server } from "./server.ts";

/** A server, and its weight on the ring. Default 1. */
export interface WeightedServer {
  readonly server: string;
  readonly weight: number;
}

const CONNECTIONS_MAX = 64;
const LOCK_WAIT_MS_MAX = 3_600_000;
const MS_DEFAULT = 1_000;
const QUEUE_BYTES_MAX = 1 << 26;

/**
 * A lock that is held, and the commands of its connection: those of others on the key are refused.
 *
 * @example
 * ```ts
 * await cache.set("account", 5); // true
 * const section: Section = await cache.lock("account");
 * await section.set("account", 6); // true
 * await section[Symbol.asyncDispose]();
 * ```
 */
// deno-lint-ignore no-explicit-any
export class Section<Value = any> extends Commands<Value> implements AsyncDisposable {
  /** Larger for each later lock of the key. Other systems can refuse a smaller number than they have seen. */
  readonly fence: number;
  /** Aborts when the connection, and so the lock, is lost. */
  readonly signal: AbortSignal;
  readonly #release: () => Promise<void>;

  /** @internal */
  constructor(
    options: ClientOptions<Value>,
    send: Send,
    fence: number,
    signal: AbortSignal,
    release: () => Promise<void>,
  ) {
    super(options, send);
    this.fence = fence;
    this.signal = signal;
    this.#release = release;
  }

  /** Unlocks the key. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.#release();
  }
}

/**
 * A client of one or more servers.
 *
 * @example
 * ```ts
 * const client = new Client(["127.0.0.1:11211"], { replyMs: 500, whenDown: "miss" });
 * await client.get("none"); // undefined
 * await client.close();
 * ```
 */
// deno-lint-ignore no-explicit-any
export class Client<Value = any> extends Commands<Value> implements AsyncDisposable {
  readonly #options: ClientOptions<Value>;
  readonly #servers: readonly Server[];
  readonly #ring: KetamaRing<Server> | undefined;
  /** Counts since the client was made. */
  readonly counters: {
    /** Connections that ended without `close`. */
    lostConnections: number;
  } = { lostConnections: 0 };

  /**
   * @param servers `host:port`, or the path of a Unix socket. Several share the keys by libmemcached's weighted ketama.
   * @throws RangeError An option is out of its range.
   */
  constructor(
    servers: string | readonly (string | WeightedServer)[],
    options: ClientOptions<Value> = {},
  ) {
    super(options, (request) => this.serverOf(request.key).send(request));
    const { connections = 1, connectMs = MS_DEFAULT, replyMs = MS_DEFAULT } = options;
    checkNumber("connections", connections, 1, CONNECTIONS_MAX);
    checkNumber("connectMs", connectMs, 1, LOCK_WAIT_MS_MAX);
    checkNumber("replyMs", replyMs, 1, LOCK_WAIT_MS_MAX);
    const link = { queueBytesMax: QUEUE_BYTES_MAX, ...options, connectMs, replyMs };
    const weighted = [servers].flat().map((each) => {
      const { server, weight } = typeof each === "string" ? { server: each, weight: 1 } : each;
      const address = addressOf(server);
      const onDown = (): void => void this.counters.lostConnections++;
      return {
        name: nameOf(address),
        weight,
        server: new Server(address, link, connections, onDown),
      };
    });
    if (weighted.length === 0) throw new RangeError("a client needs at least one server");
    this.#options = options;
    this.#servers = weighted.map(({ server }) => server);
    this.#ring = weighted.length === 1 ? undefined : new KetamaRing(weighted);
  }

  /**
   * Returns the name of the server that has a key.
   *
   * @example
   * ```ts
   * cache.serverNameOf("user:7"); // "127.0.0.1:11211"
   * ```
   */
  serverNameOf(key: string): string {
    return this.serverOf(keyBytes(key)).name;
  }

  /**
   * Locks a key, which must have a value. Needs leased. Dispose of the result to unlock.
   *
   * @param waitMs How long the server waits for the lock. Default 0.
   * @throws LockedError, TokenOutError
   * @example
   * ```ts
   * await cache.set("seat:12A", "free"); // true
   * await using section = await cache.lock("seat:12A", { waitMs: 500 });
   * await section.set("seat:12A", "taken"); // true
   * ```
   */
  async lock(
    key: string,
    { waitMs = 0, signal }: CallOptions & { readonly waitMs?: number } = {},
  ): Promise<Section<Value>> {
    checkNumber("waitMs", waitMs, 0, LOCK_WAIT_MS_MAX);
    const bytes = keyBytes(key);
    const server = this.serverOf(bytes);
    const place = { server: server.name, command: "lock", key };
    const lost = new AbortController();
    let isReleased = false;
    const connection = server.section(() => {
      if (!isReleased) lost.abort(new ConnectionError(place, "the lock is lost"));
    });
    try {
      const locking = connection.send(requests.lock(bytes, waitMs));
      const reply = await (signal === undefined ? locking : abortable(locking, signal));
      if (reply === "locked") throw new LockedError(place);
      if (reply === "missing") throw new TokenOutError(place, "no value, or an update token");
      return new Section(
        this.#options,
        (request) => connection.send(request),
        reply.fence,
        lost.signal,
        async () => {
          isReleased = true;
          try {
            if (!connection.isEnded) await connection.send(requests.unlock(bytes));
          } finally {
            await connection.close();
          }
        },
      );
    } catch (error) {
      isReleased = true;
      await connection.close();
      throw error;
    }
  }

  /**
   * Takes an update token on a key: it has no value until the token is released. Needs leased with `--state-dir`.
   *
   * @param owner The writer's tag, up to 64 printable characters. The same tag gets the same token again.
   * @throws LockedError
   * @example
   * ```ts
   * const id = await cache.takeToken("price:7", "import-1");
   * await cache.set("price:7", 1); // false
   * await cache.releaseToken("price:7", id); // true
   * ```
   */
  async takeToken(key: string, owner: string, options?: CallOptions): Promise<string> {
    if (!/^[\x21-\x7e]{1,64}$/.test(owner)) {
      throw new RangeError(`owner ${JSON.stringify(owner)}: expected 1 to 64 printable characters`);
    }
    const id = await this.call(requests.takeToken(keyBytes(key), owner), options);
    if (id !== undefined) return id;
    const place = { server: this.serverNameOf(key), command: "token", key };
    throw new LockedError(place);
  }

  /**
   * Releases an update token.
   *
   * @returns False: it was not out any more; the key is invalidated all the same.
   * @example
   * ```ts
   * await cache.releaseToken("price:8", "12345"); // false
   * ```
   */
  releaseToken(key: string, id: string, options?: CallOptions): Promise<boolean> {
    checkNumber("token", Number(id), 0, Number.MAX_SAFE_INTEGER);
    return this.call(requests.releaseToken(keyBytes(key), id), options);
  }

  /**
   * Asks every server for statistics.
   *
   * @returns For each server, its names and texts.
   * @example
   * ```ts
   * const [statistics] = (await cache.stats()).values();
   * statistics!.has("curr_items"); // true
   * ```
   */
  async stats(group = ""): Promise<Map<string, Map<string, string>>> {
    const line = group === "" ? "stats" : `stats ${keyBytes(group)}`;
    return new Map(
      await Promise.all(this.#servers.map(async (server) => {
        const lines = await server.send(requests.lines(line));
        const entries = lines.map(({ words: [, name, ...text] }) =>
          [name!, text.join(" ")] as const
        );
        return [server.name, new Map(entries)] as const;
      })),
    );
  }

  /**
   * Closes all connections; requests in progress fail. Resolves when no socket is left.
   *
   * @example
   * ```ts
   * const other = new Client("127.0.0.1:11211");
   * await other.close();
   * await other.get("k"); // throws ConnectionError
   * ```
   */
  async close(): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @param key As `keyBytes` returns it. @internal */
  protected serverOf(key: string): Server {
    return this.#ring === undefined ? this.#servers[0]! : this.#ring.of(key);
  }
}
