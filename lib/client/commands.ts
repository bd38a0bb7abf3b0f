import type { LinkOptions } from "./address.ts";
import {
  checkBytes,
  checkId,
  checkNumber,
  checkOptions,
  checkText,
  checkWord,
  expiryOf,
  keyBytes,
  membersOf,
  type OptionNames,
  shown,
} from "./checks.ts";
import { abortable, manyAnswers } from "./answers.ts";
import { checkCodec, type Codec, type Encoded, jsonCodec } from "./codecs.ts";
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

/** Options of `increment`. */
export interface IncrementOptions extends StoreOptions {
  /** The value of a key that is missing. */
  readonly initial?: number;
}

/** A value with its cas id. */
export interface Versioned<Value> {
  readonly value: Value;
  readonly cas: string;
}

const CALL: OptionNames<CallOptions> = { signal: true };
export const STORE: OptionNames<StoreOptions> = { ...CALL, ttlSec: true };
const INCREMENT: OptionNames<IncrementOptions> = { ...STORE, initial: true };
const CLIENT: OptionNames<ClientOptions<unknown>> = {
  ...{ codec: true, connections: true, whenDown: true, valueBytesMax: true, connectMs: true },
  ...{ replyMs: true, retryFirstMs: true, retryMaxMs: true, queueBytesMax: true, tls: true },
  login: true,
};

const VALUE_BYTES_MAX = 2 ** 20 - 100;
/** memcached's largest `-I`. */
const VALUE_BYTES_LIMIT = 2 ** 30;
/** Bits of the flags that codecs may use. */
const CODEC_FLAGS = 0x1_ffff;
/** With more, memcached 1.6.18 executes the value as requests. */
const META_FLAGS_MAX = 15;
const META_FLAG = /^(?![bkqO])[\x21-\x7e]{1,64}$/;

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
  /** Sends a request. @internal */
  protected readonly send: Send;
  readonly #valueBytesMax: number;
  readonly #isMissWhenDown: boolean;
  readonly #decode = (bytes: Uint8Array, flags: number): Value | undefined =>
    (flags & FLOW_FLAGS) === 0 ? this.codec.decode(bytes, flags) : undefined;

  /** @throws RangeError, TypeError: an option is wrong. @internal */
  constructor(options: ClientOptions<Value>, send: Send) {
    checkOptions(options as object, CLIENT);
    const { codec = jsonCodec, valueBytesMax = VALUE_BYTES_MAX, whenDown = "error" } = options;
    checkCodec(codec);
    checkNumber("valueBytesMax", valueBytesMax, 1, VALUE_BYTES_LIMIT);
    checkWord("whenDown", whenDown, ["error", "miss"]);
    this.codec = codec;
    this.send = send;
    this.#valueBytesMax = valueBytesMax;
    this.#isMissWhenDown = whenDown === "miss";
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
    return this.#read(() => this.#get(key), options);
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
    return this.#read(() => this.#gets(key), options);
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
    const found = this.#read(() => this.#gets(key, expiryOf(ttlSec)), options);
    return found.then((each) => each?.value);
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
    const asked = membersOf("keys", keys).map((key) => [key, this.#get(key)] as const);
    const found = new Map<string, Value>();
    await Promise.all(asked.map(async ([key, request]) => {
      const value = await this.#read(() => request, options);
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
   * @throws PartialError Some requests failed. If all did: the first error.
   * @example
   * ```ts
   * await cache.setMany(new Map([["page:1", "one"], ["page:2", "two"]]), { ttlSec: 60 }); // []
   * ```
   */
  async setMany(
    entries: Iterable<readonly [key: string, value: Value]>,
    options?: StoreOptions,
  ): Promise<string[]> {
    checkOptions(options, STORE);
    const stores = membersOf("entries", entries).map((entry) => {
      if (!Array.isArray(entry)) {
        throw new TypeError(`entry ${shown(entry)}: expected [key, value]`);
      }
      const [key, value] = entry;
      return [key, this.#storing("set", key, value, options)] as const;
    });
    return await manyAnswers(
      stores.map(([key, request]) => [key, this.call(() => request, options, STORE)]),
      (answers) => answers.filter(([, stored]) => stored !== "stored").map(([key]) => key),
      options?.signal,
    );
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
    options?: StoreOptions,
  ): Promise<requests.Stored> {
    return this.call(
      () => {
        checkId("cas", cas);
        return this.#storing("set", key, value, options, cas);
      },
      options,
      STORE,
    );
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
    return this.call(() => requests.remove(keyBytes(key)), options);
  }

  /**
   * Removes many values, in one round trip for each server.
   *
   * @returns How many there were.
   * @throws PartialError Some requests failed. If all did: the first error.
   * @example
   * ```ts
   * await cache.set("old", 1); // true
   * await cache.deleteMany(["old", "older"]); // 1
   * ```
   */
  async deleteMany(keys: Iterable<string>, options?: CallOptions): Promise<number> {
    const removals = membersOf("keys", keys).map((key) =>
      [key, requests.remove(keyBytes(key))] as const
    );
    checkOptions(options, CALL);
    return await manyAnswers(
      removals.map(([key, request]) => [key, this.call(() => request, options)]),
      (answers) => answers.filter(([, wasRemoved]) => wasRemoved).length,
      options?.signal,
    );
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
    return this.call(() => requests.touch(keyBytes(key), expiryOf(ttlSec)), options);
  }

  /**
   * Adds a whole number to a decimal value; a negative one is subtracted, down to 0.
   *
   * @param options `initial`: the value of a key that is missing, whose time to live is `ttlSec`.
   * @returns The new value, exact up to 2^53; undefined: the key is missing, locked, or has an update token.
   * @example
   * ```ts
   * await cache.increment("visits", 1, { initial: 1, ttlSec: 3600 }); // 1
   * await cache.increment("visits", 2); // 3
   * ```
   */
  increment(
    key: string,
    delta = 1,
    options: IncrementOptions = {},
  ): Promise<number | undefined> {
    return this.call(
      () => {
        const { initial, ttlSec = 0 } = options;
        checkNumber("delta", delta, -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
        if (initial !== undefined) checkNumber("initial", initial, 0, Number.MAX_SAFE_INTEGER);
        return requests.arithmetic(keyBytes(key), delta, initial, expiryOf(ttlSec));
      },
      options,
      INCREMENT,
    );
  }

  /**
   * Sends a meta command.
   *
   * @param command `mg`, `ms`, `md` or `ma`.
   * @param flags As the protocol has them, without `b`, `k`, `q` and `O`: `["v", "t"]`. At most 15.
   * @throws RangeError A flag has a blank, more than 64 characters, or is one of those.
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
    return this.call(() => {
      checkWord("command", command, ["mg", "ms", "md", "ma"]);
      const words = metaFlags(flags);
      if (command === "ms") this.#checkValue(key, value!);
      else if (value !== undefined) {
        throw new TypeError(`value ${shown(value)}: only ms has one, not ${command}`);
      }
      return requests.meta(command, keyBytes(key), words, value);
    }, options);
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
    return this.call(() => {
      checkNumber("leaseFlag", leaseFlag, 0, 0xffff_ffff);
      return requests.getss(keyBytes(key), expiryOf(leaseSec, "leaseSec"), leaseFlag);
    }, options);
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
    const reply = await this.call(
      () => requests.deletess(keyBytes(key), expiryOf(leaseSec, "leaseSec")),
      options,
    );
    if (reply === "locked") {
      throw new LockedError({ server: "", command: "deletess", key });
    }
    return reply;
  }

  /** Makes a request, and sends it. Rejects, before anything is sent, if an argument is wrong. @internal */
  protected call<Result, Options extends CallOptions>(
    make: () => Request<Result>,
    options?: Options,
    names: OptionNames<Options> = CALL as OptionNames<Options>,
  ): Promise<Result> {
    try {
      checkOptions(options, names);
      const request = make();
      const signal = options?.signal;
      if (signal === undefined) return this.send(request);
      signal.throwIfAborted();
      return abortable(this.send(request), signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** @throws ValueTooLargeError, TypeError, or what the codec throws. @internal */
  protected encode(key: string, value: Value): Encoded {
    const encoded = this.codec.encode(value);
    this.#checkValue(key, encoded.bytes);
    const { flags } = encoded;
    if ((flags & CODEC_FLAGS) !== flags) {
      throw new RangeError(
        `flags ${shown(flags)} of the codec: expected a whole number from 0 to ${CODEC_FLAGS}`,
      );
    }
    return encoded;
  }

  #checkValue(key: string, bytes: Uint8Array): void {
    checkBytes("value", bytes);
    const { length } = bytes;
    if (length <= this.#valueBytesMax) return;
    throw new ValueTooLargeError(
      `value of ${key}: ${length} bytes, valueBytesMax is ${this.#valueBytesMax}`,
    );
  }

  #get(key: string): Request<Value | undefined> {
    return requests.getValue(keyBytes(key), this.#decode);
  }

  #gets(key: string, touchSec?: number): Request<Versioned<Value> | undefined> {
    return requests.get(keyBytes(key), ({ bytes, flags, cas }) => {
      const value = this.#decode(bytes, flags);
      return value === undefined ? undefined : { value, cas };
    }, touchSec);
  }

  #read<Result>(
    make: () => Request<Result | undefined>,
    options?: CallOptions,
  ): Promise<Result | undefined> {
    const result = this.call(make, options);
    return this.#isMissWhenDown ? result.catch(missWhenDown) : result;
  }

  #storing(
    mode: requests.StoreMode,
    key: string,
    value: Value,
    options: StoreOptions = {},
    cas?: string,
  ): Request<requests.Stored> {
    const bytes = keyBytes(key);
    const { ttlSec = 0 } = options;
    const expiry = expiryOf(ttlSec);
    return requests.store(bytes, this.encode(key, value), expiry, { mode, cas });
  }

  async #store(
    mode: requests.StoreMode,
    key: string,
    value: Value,
    options?: StoreOptions,
  ): Promise<boolean> {
    const store = (): Request<requests.Stored> => this.#storing(mode, key, value, options);
    return await this.call(store, options, STORE) === "stored";
  }

  async #extend(
    mode: "append" | "prepend",
    key: string,
    bytes: Uint8Array,
    options?: CallOptions,
  ): Promise<boolean> {
    const stored = await this.call(() => {
      this.#checkValue(key, bytes);
      return requests.store(keyBytes(key), { bytes, flags: 0 }, 0, { mode });
    }, options);
    return stored === "stored";
  }
}

function metaFlags(flags: readonly string[]): readonly string[] {
  const words = membersOf("flags", flags);
  for (const flag of words) {
    checkText("flag", flag);
    if (META_FLAG.test(flag)) continue;
    throw new RangeError(
      `flag ${shown(flag)}: expected 1 to 64 printable characters, the first not b, k, q or O`,
    );
  }
  if (words.length <= META_FLAGS_MAX) return words;
  throw new RangeError(`flags, ${words.length}: expected at most ${META_FLAGS_MAX}`);
}

function missWhenDown(error: unknown): undefined {
  if (error instanceof ConnectionError && !(error instanceof ProtocolError)) return undefined;
  throw error;
}
