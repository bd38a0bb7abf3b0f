import { clearInterval, setInterval } from "node:timers";
import { abortable, manyAnswers } from "./answers.ts";
import { MS_MAX } from "./net/address.ts";
import {
  checkId,
  checkOptions,
  checkText,
  type OptionNames,
  prefixedBytes,
  shown,
} from "./checks.ts";
import type { CallOptions, ClientOptions } from "./command_options.ts";
import { Commands, type Home, type Send } from "./commands.ts";
import { type Duration, msOf } from "./durations.ts";
import { ConnectionError, LockedError, TokenOutError } from "./errors.ts";
import type { ClientEvents, Listener } from "./events.ts";
import * as requests from "./requests.ts";
import { type ServerNames, Servers, type WeightedServer } from "./net/servers.ts";

/** Options of a lock. */
export interface LockOptions extends CallOptions {
  /** How long the server waits for the lock, in ms. Default 0. */
  readonly waitMs?: Duration;
}

const LOCK: OptionNames<LockOptions> = { signal: true, waitMs: true };
/** Pause between two probes of the server that has a lock: one that has vanished ends no connection. */
const PROBE_MS = 1_000;
const OWNER = /^[\x21-\x7e]{1,64}$/;

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
  /** Aborts when the connection, and so the lock, is lost: at a server that is silent, a second after `replyMs`. */
  readonly signal: AbortSignal;
  readonly #release: () => Promise<void>;

  /** @internal */
  constructor(
    options: ClientOptions<Value>,
    send: Send,
    fence: number,
    signal: AbortSignal,
    release: () => Promise<void>,
    home: Home,
  ) {
    // A lost lock is no miss.
    super({ ...options, whenDown: "error" }, send, home);
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
  readonly #home: Home;
  /** Shared with namespaces. @internal */
  protected readonly servers: Servers;
  /** Aborts when the client is closed. @internal */
  protected readonly closing: AbortSignal;
  /** Counts since the client was made. */
  readonly counters: {
    /** Connections that ended without `close`. */
    lostConnections: number;
  } = { lostConnections: 0 };

  /**
   * @param servers `host:port`, or the path of a Unix socket. Several share the keys by libmemcached's weighted ketama.
   * @throws RangeError, TypeError: a server or an option is wrong.
   */
  constructor(
    servers: string | readonly (string | WeightedServer)[],
    options?: ClientOptions<Value>,
  );
  /** @internal */
  constructor(servers: ServerNames | Servers, options?: ClientOptions<Value>, home?: Home);
  constructor(
    servers: ServerNames | Servers,
    options: ClientOptions<Value> = {},
    home: Home = {},
  ) {
    super(options, (request) => this.servers.of(request.key).send(request), home);
    const isShared = servers instanceof Servers;
    this.servers = isShared ? servers : new Servers(servers, options);
    this.closing = this.servers.closing;
    if (!isShared) this.servers.onLost = () => void this.counters.lostConnections++;
    this.#options = options;
    this.#home = home;
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
    return this.servers.of(this.space.keyOf(key)).name;
  }

  /**
   * Whether a server is up, or all of them: until the first failure, and when it has served after the last one. Asks
   * nobody. A client that was closed has none.
   *
   * @param server As `new Client` has it. Default: all.
   * @throws RangeError, TypeError: the client has no such server.
   * @example
   * ```ts
   * const pair = new Client(["127.0.0.1:11211", "127.0.0.1:1"]);
   * pair.isUp(); // true
   * await pair.stats(); // throws PartialError
   * [pair.isUp(), pair.isUp("127.0.0.1:11211"), pair.isUp("127.0.0.1:1")]; // [false, true, false]
   * ```
   */
  isUp(server?: string): boolean {
    return this.servers.areUp(server);
  }

  /**
   * Calls a function at each event of a name: `up` and `down` of servers, and of a `Cache`, `tokensOut`. A function is
   * called once for an event, whatever it throws. A cache and its namespaces have the same events.
   *
   * @throws RangeError, TypeError: there is no such event, or the listener is no function.
   * @example
   * ```ts
   * const out: string[] = [];
   * cache.on("tokensOut", ({ keys, error }) => error instanceof OutcomeUnknownError && out.push(...keys));
   * const lose = () => Promise.reject(new Error("the connection to the database is lost"));
   * const error = await cache.put("bill", lose, { form: "tokens" }).catch((error) => error);
   * out; // ["bill"]
   * await error.resolve(); // "told"
   * ```
   */
  on<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): void {
    this.servers.listeners.add(name, listener);
  }

  /**
   * Ends what `on` began.
   *
   * @throws RangeError, TypeError: as `on`.
   * @example
   * ```ts
   * const lonely = new Client("127.0.0.1:1");
   * const seen: string[] = [];
   * const note = ({ server }: { readonly server: string }) => seen.push(server);
   * lonely.on("down", note);
   * lonely.off("down", note);
   * await lonely.get("k"); // throws ConnectionError
   * seen; // []
   * ```
   */
  off<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): void {
    this.servers.listeners.remove(name, listener);
  }

  /**
   * Locks a key, which must have a value. Needs leased. Dispose of the result to unlock.
   *
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
    options: LockOptions = {},
  ): Promise<Section<Value>> {
    checkOptions(options, LOCK);
    const { waitMs = 0, signal } = options;
    const limitMs = msOf("waitMs", waitMs, 0, MS_MAX);
    const bytes = this.space.keyOf(key);
    signal?.throwIfAborted();
    const server = this.servers.of(bytes);
    const place = { server: server.name, command: "lock", key };
    const lost = new AbortController();
    let isReleased = false;
    const request = requests.lock(bytes, limitMs);
    await server.askAside();
    let prober: ReturnType<typeof setInterval> | undefined;
    const connection = server.section(request, () => {
      clearInterval(prober);
      if (!isReleased) lost.abort(new ConnectionError(place, "the lock is lost"));
    });
    try {
      const locking = connection.send(request);
      const reply = await (signal === undefined ? locking : abortable(locking, signal));
      if (reply === "locked") throw new LockedError(place);
      if (reply === "missing") throw new TokenOutError(place, "no value, or an update token");
      prober = setInterval(() => {
        // Without an answer the connection ends, and with it the lock.
        connection.send(requests.probe(bytes)).catch(() => {});
      }, PROBE_MS);
      if (connection.isEnded) clearInterval(prober);
      return new Section(
        this.#options,
        (request) => {
          if (this.servers.of(request.key) === server) return connection.send(request);
          const message =
            `key ${request.key}: expected a key of ${server.name}, where the lock of ${key} is`;
          return Promise.reject(new RangeError(message));
        },
        reply.fence,
        lost.signal,
        async () => {
          isReleased = true;
          // The end of the connection ends the lock, too.
          await connection.send(requests.unlock(bytes)).catch(() => {});
          await connection.close("the lock was given back");
        },
        { ...this.#home, space: this.space, sendToTag: this.send },
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
    const id = await this.call(() => {
      checkText("owner", owner);
      if (!OWNER.test(owner)) {
        throw new RangeError(`owner ${shown(owner)}: expected 1 to 64 printable characters`);
      }
      return requests.takeToken(this.space.keyOf(key), owner);
    }, options);
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
    return this.call(() => {
      checkId("token", id);
      return requests.releaseToken(this.space.keyOf(key), id);
    }, options);
  }

  /**
   * Asks every server for statistics.
   *
   * @returns For each server, its names and texts.
   * @throws PartialError Some servers do not answer. If none does: the first error.
   * @example
   * ```ts
   * const [statistics] = (await cache.stats()).values();
   * statistics!.has("curr_items"); // true
   * ```
   */
  async stats(group = ""): Promise<Map<string, Map<string, string>>> {
    const request = requests.stats(group === "" ? "" : prefixedBytes("group", "", group));
    return await manyAnswers(
      this.servers.all.map((server) => ({ name: server.name, ask: () => server.send(request) })),
      (answers) => new Map(answers),
    );
  }

  /**
   * Lets the process end without `close` while no request waits for a reply, and no lock is held.
   *
   * @example
   * ```ts
   * const script = new Client("127.0.0.1:11211");
   * script.unref();
   * await script.get("k"); // undefined
   * await script.close();
   * ```
   */
  unref(): void {
    this.servers.unref();
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
    await this.servers.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
