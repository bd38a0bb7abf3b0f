import { addressOf, type LinkOptions, nameOf } from "./address.ts";
import { checkNumber, expiryOf, keyBytes } from "./checks.ts";
import { type Codec, type Encoded, jsonCodec } from "./codecs.ts";
import { FLOW_FLAGS } from "./entries.ts";
import {
  ConnectionError,
  LockedError,
  ProtocolError,
  TokenOutError,
  ValueTooLargeError,
} from "./errors.ts";
import * as requests from "./requests.ts";
import { KetamaRing } from "./ring.ts";
import { Server } from "./server.ts";
import type { Request } from "./wire.ts";

/** Options of a client. */
export interface ClientOptions<Value> extends LinkOptions {
  /** Turns values into bytes. Default: JSON. */
  readonly codec?: Codec<Value>;
  /** Connections to each server, 1 to 64. Default 1. */
  readonly connections?: number;
  /** A server that cannot be reached is an error, or a miss for reads. Default "error". */
  readonly whenDown?: "error" | "miss";
  /** Longest value, in bytes, as encoded. Default 1 MiB less 100 bytes, as servers have it without `-I`. */
  readonly valueBytesMax?: number;
}

/** A server, and its weight on the ring. Default 1. */
export interface WeightedServer {
  readonly server: string;
  readonly weight: number;
}

/** Options of one command. */
export interface CallOptions {
  /** The promise rejects when it aborts. The server may have executed the request. */
  readonly signal?: AbortSignal;
}

/** Options of a command that stores. */
export interface StoreOptions extends CallOptions {
  /** Whole seconds; 0: for ever. Default 0. */
  readonly ttlSec?: number;
}

/** A value with its cas id. */
export interface Versioned<Value> {
  readonly value: Value;
  readonly cas: string;
}

const VALUE_BYTES_MAX = 2 ** 20 - 100;
const CONNECTIONS_MAX = 64;
const LOCK_WAIT_MS_MAX = 3_600_000;
const MS_DEFAULT = 1_000;
const QUEUE_BYTES_MAX = 1 << 26;
/** Sends a request on behalf of a key. */
type Send = <Result>(request: Request<Result>) => Promise<Result>;

/** The commands that concern keys; of a client, or of a section that holds a lock. */
// deno-lint-ignore no-explicit-any
export class Commands<Value = any> {
  protected readonly codec: Codec<Value>;
  readonly #valueBytesMax: number;
  readonly #isMissWhenDown: boolean;
  readonly #send: Send;

  /** @internal */
  constructor(options: ClientOptions<Value>, send: Send) {
    this.codec = options.codec ?? jsonCodec;
    this.#valueBytesMax = options.valueBytesMax ?? VALUE_BYTES_MAX;
    this.#isMissWhenDown = options.whenDown === "miss";
    this.#send = send;
  }

  /** Reads a value; undefined: there is none. Values that flows have stored with tags or grace are none. */
  get(key: string, options?: CallOptions): Promise<Value | undefined> {
    return this.#read(
      requests.getValue(keyBytes(key), (bytes, flags) => this.#decode(bytes, flags)),
      options,
    );
  }

  /** Reads a value and its cas id. */
  gets(key: string, options?: CallOptions): Promise<Versioned<Value> | undefined> {
    return this.#read(this.#gets(key), options);
  }

  /** Reads a value, and sets its time to live. */
  getAndTouch(key: string, ttlSec: number, options?: CallOptions): Promise<Value | undefined> {
    const request = this.#gets(key, expiryOf(ttlSec));
    return this.#read(request, options).then((found) => found?.value);
  }

  /** Reads many values, in one round trip for each server. Missing keys are left out. */
  async getMany(keys: Iterable<string>, options?: CallOptions): Promise<Map<string, Value>> {
    const found = new Map<string, Value>();
    await Promise.all([...keys].map(async (key) => {
      const value = await this.get(key, options);
      if (value !== undefined) found.set(key, value);
    }));
    return found;
  }

  /** Stores a value. @returns False: it is refused, because of a lock, an update token, or `--strict`. */
  set(key: string, value: Value, options?: StoreOptions): Promise<boolean> {
    return this.#store("set", key, value, options);
  }

  /** Stores many values, in one round trip for each server. @returns The keys that are refused. */
  async setMany(
    entries: Iterable<readonly [key: string, value: Value]>,
    options?: StoreOptions,
  ): Promise<string[]> {
    const refused: string[] = [];
    await Promise.all([...entries].map(async ([key, value]) => {
      if (!await this.set(key, value, options)) refused.push(key);
    }));
    return refused;
  }

  /** Stores a value if the key has none. @returns Whether it did. */
  add(key: string, value: Value, options?: StoreOptions): Promise<boolean> {
    return this.#store("add", key, value, options);
  }

  /** Stores a value if the key has one. @returns Whether it did. */
  replace(key: string, value: Value, options?: StoreOptions): Promise<boolean> {
    return this.#store("replace", key, value, options);
  }

  /** Adds bytes behind a value, whatever the codec. @returns Whether there is one. */
  append(key: string, bytes: Uint8Array, options?: CallOptions): Promise<boolean> {
    return this.#extend("append", key, bytes, options);
  }

  /** Adds bytes before a value, whatever the codec. @returns Whether there is one. */
  prepend(key: string, bytes: Uint8Array, options?: CallOptions): Promise<boolean> {
    return this.#extend("prepend", key, bytes, options);
  }

  /** Stores a value if the item still has this cas id; "exists": it has another, "missing": there is no item. */
  cas(
    key: string,
    value: Value,
    cas: string,
    options: StoreOptions = {},
  ): Promise<requests.Stored> {
    const expiry = expiryOf(options.ttlSec ?? 0);
    const encoded = this.encode(key, value);
    return this.call(requests.store(keyBytes(key), encoded, expiry, { cas }), options);
  }

  /** Removes a value. @returns Whether there was one that could be removed. */
  delete(key: string, options?: CallOptions): Promise<boolean> {
    return this.call(requests.remove(keyBytes(key)), options);
  }

  /** Removes many values, in one round trip for each server. @returns How many there were. */
  async deleteMany(keys: Iterable<string>, options?: CallOptions): Promise<number> {
    const removed = await Promise.all([...keys].map((key) => this.delete(key, options)));
    return removed.filter((each) => each).length;
  }

  /** Sets a value's time to live. @returns Whether there is one. */
  touch(key: string, ttlSec: number, options?: CallOptions): Promise<boolean> {
    return this.call(requests.touch(keyBytes(key), expiryOf(ttlSec)), options);
  }

  /**
   * Adds a whole number to a decimal value; a negative one is subtracted, down to 0.
   *
   * @param options `initial`: the value of a key that is missing, whose time to live is `ttlSec`.
   * @returns The new value, exact up to 2^53; undefined: the key is missing.
   */
  increment(
    key: string,
    delta = 1,
    options: StoreOptions & { readonly initial?: number } = {},
  ): Promise<number | undefined> {
    const { initial, ttlSec = 0 } = options;
    checkNumber("delta", delta, -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    if (initial !== undefined) checkNumber("initial", initial, 0, Number.MAX_SAFE_INTEGER);
    const request = requests.arithmetic(keyBytes(key), delta, initial, expiryOf(ttlSec));
    return this.call(request, options);
  }

  /**
   * Sends a meta command.
   *
   * @param command `mg`, `ms`, `md` or `ma`.
   * @param flags As the protocol has them, without `b`, `k`, `q` and `O`: `["v", "t"]`.
   * @throws RangeError A flag has a blank, or is one of those.
   */
  meta(
    command: "mg" | "ms" | "md" | "ma",
    key: string,
    flags: readonly string[] = [],
    value?: Uint8Array,
    options?: CallOptions,
  ): Promise<requests.MetaReply> {
    const wrong = flags.find((flag) => !/^[^bkqO\s][\x21-\x7e]*$/.test(flag));
    if (wrong !== undefined) throw new RangeError(`flag ${JSON.stringify(wrong)} is not allowed`);
    if ((value !== undefined) !== (command === "ms")) {
      throw new RangeError(`${command}: ms has a value, others have none`);
    }
    return this.call(requests.meta(command, keyBytes(key), flags, value), options);
  }

  /**
   * Reads a value or a lease. Needs leased with `-z`; `getOrLoad` needs neither.
   *
   * @param leaseFlag As `-z` has it, 0x3333 for `-z 3333`.
   */
  getss(
    key: string,
    leaseSec: number,
    leaseFlag: number,
    options?: CallOptions,
  ): Promise<requests.LeaseReply> {
    return this.call(requests.getss(keyBytes(key), expiryOf(leaseSec), leaseFlag), options);
  }

  /** Removes a value and leaves a lease. Needs leased with `-z`. @throws LockedError */
  async deletess(
    key: string,
    leaseSec: number,
    options?: CallOptions,
  ): Promise<{ readonly lease: string; readonly existed: boolean }> {
    const reply = await this.call(requests.deletess(keyBytes(key), expiryOf(leaseSec)), options);
    if (reply === "locked") {
      throw new LockedError({ server: "", command: "deletess", key });
    }
    return reply;
  }

  /** Sends a request. @internal */
  protected call<Result>(request: Request<Result>, options?: CallOptions): Promise<Result> {
    const signal = options?.signal;
    return signal === undefined ? this.#send(request) : abortable(this.#send(request), signal);
  }

  /** @throws ValueTooLargeError @internal */
  protected encode(key: string, value: Value): Encoded {
    const encoded = this.codec.encode(value);
    const { length } = encoded.bytes;
    if (length > this.#valueBytesMax) {
      throw new ValueTooLargeError(
        `value of ${key}: ${length} bytes, valueBytesMax is ${this.#valueBytesMax}`,
      );
    }
    return encoded;
  }

  #gets(key: string, touchSec?: number): Request<Versioned<Value> | undefined> {
    const request = requests.get(keyBytes(key), ({ bytes, flags, cas }) => {
      const value = this.#decode(bytes, flags);
      return value === undefined ? undefined : { value, cas };
    }, touchSec);
    return request;
  }

  #decode(bytes: Uint8Array, flags: number): Value | undefined {
    return (flags & FLOW_FLAGS) === 0 ? this.codec.decode(bytes, flags) : undefined;
  }

  #read<Result>(
    request: Request<Result | undefined>,
    options?: CallOptions,
  ): Promise<Result | undefined> {
    const result = this.call(request, options);
    return this.#isMissWhenDown ? result.catch(missWhenDown) : result;
  }

  #store(
    mode: requests.StoreMode,
    key: string,
    value: Value,
    options: StoreOptions = {},
  ): Promise<boolean> {
    const expiry = expiryOf(options.ttlSec ?? 0);
    return this.#isStored(
      requests.store(keyBytes(key), this.encode(key, value), expiry, { mode }),
      options,
    );
  }

  #extend(
    mode: "append" | "prepend",
    key: string,
    bytes: Uint8Array,
    options?: CallOptions,
  ): Promise<boolean> {
    const request = requests.store(keyBytes(key), { bytes, flags: 0 }, 0, { mode });
    return this.#isStored(request, options);
  }

  async #isStored(request: Request<requests.Stored>, options?: CallOptions): Promise<boolean> {
    return await this.call(request, options) === "stored";
  }
}

function missWhenDown(error: unknown): undefined {
  if (error instanceof ConnectionError && !(error instanceof ProtocolError)) return undefined;
  throw error;
}

/** Settles with the promise, or rejects as soon as the signal aborts. */
export function abortable<Result>(promise: Promise<Result>, signal: AbortSignal): Promise<Result> {
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** A lock that is held, and the commands of its connection: those of others on the key are refused. */
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

/** A client of one or more servers. */
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

  /** Returns the name of the server that has a key. */
  serverNameOf(key: string): string {
    return this.serverOf(keyBytes(key)).name;
  }

  /**
   * Locks a key, which must have a value. Needs leased. Dispose of the result to unlock.
   *
   * @param waitMs How long the server waits for the lock. Default 0.
   * @throws LockedError, TokenOutError
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

  /** Releases an update token. @returns False: it was not out any more; the key is invalidated all the same. */
  releaseToken(key: string, id: string, options?: CallOptions): Promise<boolean> {
    checkNumber("token", Number(id), 0, Number.MAX_SAFE_INTEGER);
    return this.call(requests.releaseToken(keyBytes(key), id), options);
  }

  /** Asks every server for statistics. @returns For each server, its names and texts. */
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

  /** Closes all connections; requests in progress fail. Resolves when no socket is left. */
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
