import type { LinkOptions } from "./address.ts";
import { checkNumber, expiryOf, keyBytes } from "./checks.ts";
import { type Codec, type Encoded, jsonCodec } from "./codecs.ts";
import { FLOW_FLAGS } from "./entries.ts";
import { ConnectionError, LockedError, ProtocolError, ValueTooLargeError } from "./errors.ts";
import * as requests from "./requests.ts";
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

/** Sends a request on behalf of a key. */
export type Send = <Result>(request: Request<Result>) => Promise<Result>;

/**
 * The commands that concern keys; of a client, or of a section that holds a lock.
 *
 * @example
 * ```ts
 * const commands: Commands = new Client("127.0.0.1:11211");
 * await commands.get("none"); // undefined
 * ```
 */
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

  /**
   * Reads a value; undefined: there is none. Values that flows have stored with tags or grace are none.
   *
   * @example
   * ```ts
   * await cache.set("greeting", "hello"); // true
   * await cache.get("greeting"); // "hello"
   * ```
   */
  get(key: string, options?: CallOptions): Promise<Value | undefined> {
    return this.#read(
      requests.getValue(keyBytes(key), (bytes, flags) => this.#decode(bytes, flags)),
      options,
    );
  }

  /**
   * Reads a value and its cas id.
   *
   * @example
   * ```ts
   * await cache.set("stock", 5); // true
   * const found = await cache.gets("stock");
   * await cache.cas("stock", found!.value - 1, found!.cas); // "stored"
   * ```
   */
  gets(key: string, options?: CallOptions): Promise<Versioned<Value> | undefined> {
    return this.#read(this.#gets(key), options);
  }

  /**
   * Reads a value, and sets its time to live.
   *
   * @example
   * ```ts
   * await cache.set("session:1", { user: "anna" }); // true
   * await cache.getAndTouch("session:1", 1800); // { user: "anna" }
   * ```
   */
  getAndTouch(key: string, ttlSec: number, options?: CallOptions): Promise<Value | undefined> {
    const request = this.#gets(key, expiryOf(ttlSec));
    return this.#read(request, options).then((found) => found?.value);
  }

  /**
   * Reads many values, in one round trip for each server. Missing keys are left out.
   *
   * @example
   * ```ts
   * await cache.setMany([["a", 1], ["b", 2]]); // []
   * await cache.getMany(["a", "b", "c"]); // new Map([["a", 1], ["b", 2]])
   * ```
   */
  async getMany(keys: Iterable<string>, options?: CallOptions): Promise<Map<string, Value>> {
    const found = new Map<string, Value>();
    await Promise.all([...keys].map(async (key) => {
      const value = await this.get(key, options);
      if (value !== undefined) found.set(key, value);
    }));
    return found;
  }

  /**
   * Stores a value.
   *
   * @returns False: it is refused, because of a lock, an update token, or `--strict`.
   * @example
   * ```ts
   * await cache.set("user:7", { name: "Anna" }, { ttlSec: 60 }); // true
   * ```
   */
  set(key: string, value: Value, options?: StoreOptions): Promise<boolean> {
    return this.#store("set", key, value, options);
  }

  /**
   * Stores many values, in one round trip for each server.
   *
   * @returns The keys that are refused.
   * @example
   * ```ts
   * await cache.setMany(new Map([["page:1", "one"], ["page:2", "two"]]), { ttlSec: 60 }); // []
   * ```
   */
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

  /**
   * Stores a value if the key has none.
   *
   * @returns Whether it did.
   * @example
   * ```ts
   * await cache.add("winner", "anna"); // true
   * await cache.add("winner", "berta"); // false
   * ```
   */
  add(key: string, value: Value, options?: StoreOptions): Promise<boolean> {
    return this.#store("add", key, value, options);
  }

  /**
   * Stores a value if the key has one.
   *
   * @returns Whether it did.
   * @example
   * ```ts
   * await cache.replace("nobody", 1); // false
   * ```
   */
  replace(key: string, value: Value, options?: StoreOptions): Promise<boolean> {
    return this.#store("replace", key, value, options);
  }

  /**
   * Adds bytes behind a value, whatever the codec.
   *
   * @returns Whether there is one.
   * @example
   * ```ts
   * const log = new Client("127.0.0.1:11211", { codec: textCodec });
   * await log.set("log", "one"); // true
   * await log.append("log", new TextEncoder().encode(", two")); // true
   * await log.get("log"); // "one, two"
   * ```
   */
  append(key: string, bytes: Uint8Array, options?: CallOptions): Promise<boolean> {
    return this.#extend("append", key, bytes, options);
  }

  /**
   * Adds bytes before a value, whatever the codec.
   *
   * @returns Whether there is one.
   * @example
   * ```ts
   * await cache.prepend("empty", new TextEncoder().encode("[")); // false
   * ```
   */
  prepend(key: string, bytes: Uint8Array, options?: CallOptions): Promise<boolean> {
    return this.#extend("prepend", key, bytes, options);
  }

  /**
   * Stores a value if the item still has this cas id; "exists": it has another, "missing": there is no item.
   *
   * @example
   * ```ts
   * await cache.set("seats", 3); // true
   * const { cas } = (await cache.gets("seats"))!;
   * await cache.cas("seats", 2, cas); // "stored"
   * await cache.cas("seats", 1, cas); // "exists"
   * ```
   */
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

  /**
   * Removes a value.
   *
   * @returns Whether there was one that could be removed.
   * @example
   * ```ts
   * await cache.set("draft", "text"); // true
   * await cache.delete("draft"); // true
   * await cache.delete("draft"); // false
   * ```
   */
  delete(key: string, options?: CallOptions): Promise<boolean> {
    return this.call(requests.remove(keyBytes(key)), options);
  }

  /**
   * Removes many values, in one round trip for each server.
   *
   * @returns How many there were.
   * @example
   * ```ts
   * await cache.set("old", 1); // true
   * await cache.deleteMany(["old", "older"]); // 1
   * ```
   */
  async deleteMany(keys: Iterable<string>, options?: CallOptions): Promise<number> {
    const removed = await Promise.all([...keys].map((key) => this.delete(key, options)));
    return removed.filter((each) => each).length;
  }

  /**
   * Sets a value's time to live.
   *
   * @returns Whether there is one.
   * @example
   * ```ts
   * await cache.set("session:2", "berta"); // true
   * await cache.touch("session:2", 1800); // true
   * ```
   */
  touch(key: string, ttlSec: number, options?: CallOptions): Promise<boolean> {
    return this.call(requests.touch(keyBytes(key), expiryOf(ttlSec)), options);
  }

  /**
   * Adds a whole number to a decimal value; a negative one is subtracted, down to 0.
   *
   * @param options `initial`: the value of a key that is missing, whose time to live is `ttlSec`.
   * @returns The new value, exact up to 2^53; undefined: the key is missing.
   * @example
   * ```ts
   * await cache.increment("visits", 1, { initial: 1, ttlSec: 3600 }); // 1
   * await cache.increment("visits", 2); // 3
   * ```
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
   * @example
   * ```ts
   * await cache.set("lesson", "text", { ttlSec: 90 }); // true
   * (await cache.meta("mg", "lesson", ["s", "t"])).status; // "HD"
   * ```
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
   * @example
   * ```ts
   * const reply = await cache.getss("article", 10, 0x3333);
   * if ("lease" in reply && reply.heldSec === 0) {
   *   await cache.cas("article", "read from the database", reply.lease); // "stored"
   * }
   * ```
   */
  getss(
    key: string,
    leaseSec: number,
    leaseFlag: number,
    options?: CallOptions,
  ): Promise<requests.LeaseReply> {
    return this.call(requests.getss(keyBytes(key), expiryOf(leaseSec), leaseFlag), options);
  }

  /**
   * Removes a value and leaves a lease. Needs leased with `-z`.
   *
   * @throws LockedError
   * @example
   * ```ts
   * await cache.set("report", "old"); // true
   * (await cache.deletess("report", 1)).existed; // true
   * ```
   */
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
