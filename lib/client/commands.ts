import {
  checkId,
  checkNumber,
  checkOptions,
  checkWord,
  membersOf,
  metaFlags,
  type OptionNames,
  shown,
} from "./checks.ts";
import { abortable, allAnswers, manyAnswers } from "./answers.ts";
import type { Awaitable } from "./values/awaitable.ts";
import { type Codec, type Encoded, jsonCodec } from "./values/codecs.ts";
import {
  CALL,
  type CallOptions,
  CLIENT,
  type ClientOptions,
  INCREMENT,
  type IncrementOptions,
  STORE,
  type StoreOptions,
} from "./command_options.ts";
import { type Duration, expiryOf } from "./durations.ts";
import { Encoder } from "./values/encoder.ts";
import { FLOW_FLAGS } from "./values/entries.ts";
import { ConnectionError, LockedError, ProtocolError } from "./errors.ts";
import { KeySpace } from "./key_space.ts";
import * as requests from "./requests.ts";
import { TaggedValues } from "./values/tagged_values.ts";
import type { Request } from "./net/wire.ts";

/** A value with its cas id. */
export interface Versioned<Value> {
  readonly value: Value;
  readonly cas: string;
}

/** The versions of a namespace's tags. */
type TagVersions = ReturnType<TaggedValues<unknown>["versions"]>;

/** A store command that was checked. */
interface Storing {
  /** Bytes of its value. */
  readonly bytes: number;
  send(versions?: TagVersions): Promise<requests.Stored>;
}

/** Sends a request on behalf of a key. */
export type Send = <Result>(request: Request<Result>) => Promise<Result>;

/** What commands have of the client around them. */
export interface Home {
  /** The options that may be given. */
  readonly names?: OptionNames<ClientOptions<unknown>>;
  readonly space?: KeySpace;
  readonly sendToTag?: Send;
}

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
  /** The keys that the commands' keys stand for. @internal */
  protected readonly space: KeySpace;
  readonly #tagged: TaggedValues<Value>;
  readonly #encoder: Encoder<Value>;
  readonly #isMissWhenDown: boolean;
  readonly #ttlSec: Duration;

  /**
   * @param home Where keys are, and what sends requests of tags. Default: the options' prefix, and `send`.
   * @throws RangeError, TypeError: an option is wrong. @internal
   */
  constructor(options: ClientOptions<Value>, send: Send, home: Home = {}) {
    const { names = CLIENT, space, sendToTag = send } = home;
    checkOptions(options as object, names);
    const { codec = jsonCodec, valueBytesMax, whenDown = "error", prefix, ttlSec = 0 } = options;
    this.#encoder = new Encoder(codec, valueBytesMax);
    this.space = space ?? KeySpace.of(prefix);
    expiryOf(ttlSec);
    this.#ttlSec = ttlSec;
    this.#tagged = new TaggedValues(this.space.tags, codec, send, sendToTag);
    checkWord("whenDown", whenDown, ["error", "miss"]);
    this.codec = codec;
    this.send = send;
    this.#isMissWhenDown = whenDown === "miss";
  }

  /**
   * Reads a value; undefined: there is none, as for one that was invalidated by a tag.
   *
   * @example
   * ```ts
   * await cache.set("greeting", "hello"); // true
   * await cache.get("greeting"); // "hello"
   * ```
   */
  get<T extends Value = Value>(key: string, options?: CallOptions): Promise<T | undefined> {
    return this.#read<T>(() => this.#get<T>(this.space.keyOf(key)), options);
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
  gets<T extends Value = Value>(
    key: string,
    options?: CallOptions,
  ): Promise<Versioned<T> | undefined> {
    return this.#read(() => this.#gets<T>(this.space.keyOf(key)), options);
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
  async getAndTouch<T extends Value = Value>(
    key: string,
    ttlSec: Duration,
    options?: CallOptions,
  ): Promise<T | undefined> {
    const found = await this.#read(
      () => this.#gets<T>(this.space.keyOf(key), expiryOf(ttlSec)),
      options,
    );
    return found?.value;
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
  async getMany<T extends Value = Value>(
    keys: Iterable<string>,
    options?: CallOptions,
  ): Promise<Map<string, T>> {
    const asked = membersOf("keys", keys).map((key) => [key, this.space.keyOf(key)] as const);
    checkOptions(options, CALL);
    options?.signal?.throwIfAborted();
    const versions = this.#sharedVersions();
    const answers = await allAnswers(
      asked.map(([name, key]) => ({
        name,
        ask: () => this.#read(() => this.#get<T>(key, versions), options),
      })),
    );
    return new Map(answers.filter((each): each is [string, T] => each[1] !== undefined));
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
    options?.signal?.throwIfAborted();
    const versions = this.#sharedVersions();
    return await manyAnswers(
      stores.map(([name, { bytes, send }]) => ({
        ...{ name, bytes },
        ask: () => this.#run(() => send(versions), options, STORE),
      })),
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
    return this.#run(
      () => {
        checkId("cas", cas);
        return this.#storing("set", key, value, options, cas).send();
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
    return this.#run(() => this.#remove(this.space.keyOf(key)), options);
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
    const removals = membersOf("keys", keys).map((key) => [key, this.space.keyOf(key)] as const);
    checkOptions(options, CALL);
    return await manyAnswers(
      removals.map(([name, key]) => ({
        name,
        ask: () => this.#run(() => this.#remove(key), options),
      })),
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
  touch(key: string, ttlSec: Duration, options?: CallOptions): Promise<boolean> {
    return this.#run(async () => {
      const bytes = this.space.keyOf(key);
      const expiry = expiryOf(ttlSec);
      if (!this.#tagged.isTagging) return await this.send(requests.touch(bytes, expiry));
      return await this.#tagged.find(bytes, expiry) !== undefined;
    }, options);
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
        const { initial, ttlSec = this.#ttlSec } = options;
        checkNumber("delta", delta, -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
        if (initial !== undefined) checkNumber("initial", initial, 0, Number.MAX_SAFE_INTEGER);
        return requests.arithmetic(this.space.keyOf(key), delta, initial, expiryOf(ttlSec));
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
      if (command === "ms") this.#encoder.check(key, value!);
      else if (value !== undefined) {
        throw new TypeError(`value ${shown(value)}: only ms has one, not ${command}`);
      }
      return requests.meta(command, this.space.keyOf(key), words, value);
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
    leaseSec: Duration,
    leaseFlag: number,
    options?: CallOptions,
  ): Promise<requests.LeaseReply> {
    return this.call(() => {
      checkNumber("leaseFlag", leaseFlag, 0, 0xffff_ffff);
      return requests.getss(this.space.keyOf(key), expiryOf(leaseSec, "leaseSec"), leaseFlag);
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
    leaseSec: Duration,
    options?: CallOptions,
  ): Promise<{ readonly lease: string; readonly existed: boolean }> {
    const reply = await this.call(
      () => requests.deletess(this.space.keyOf(key), expiryOf(leaseSec, "leaseSec")),
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
    names?: OptionNames<Options>,
  ): Promise<Result> {
    return this.#run(() => this.send(make()), options, names);
  }

  /** @throws ValueTooLargeError, TypeError, or what the codec throws. @internal */
  protected encode(key: string, value: Value): Awaitable<Encoded> {
    return this.#encoder.encode(key, value);
  }

  /** Checks the options, and starts to send. Rejects, before anything is sent, if an argument is wrong. */
  #run<Result, Options extends CallOptions>(
    start: () => Promise<Result>,
    options: Options | undefined,
    names: OptionNames<Options> = CALL as OptionNames<Options>,
  ): Promise<Result> {
    try {
      checkOptions(options, names);
      const signal = options?.signal;
      if (signal === undefined) return start();
      signal.throwIfAborted();
      return abortable(start(), signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** @param versions Of the namespace's tags. */
  #get<T extends Value>(
    key: string,
    versions?: TagVersions,
  ): Promise<T | undefined> {
    const find = async (): Promise<T | undefined> =>
      (await this.#tagged.find(key, undefined, versions))?.value as T | undefined;
    if (this.#tagged.isTagging) return find();
    return this.send(requests.getValue(key, (bytes, flags) => {
      const isPlain = (flags & FLOW_FLAGS) === 0;
      return isPlain ? this.codec.decode(bytes, flags) as Awaitable<T> : find();
    }));
  }

  async #remove(key: string): Promise<boolean> {
    const isThere = !this.#tagged.isTagging || await this.#tagged.has(key);
    return await this.send(requests.remove(key)) && isThere;
  }

  /** Asks for the namespace's tags, once for all requests of a call. */
  #sharedVersions(): TagVersions | undefined {
    if (!this.#tagged.isTagging) return undefined;
    const versions = this.#tagged.versions();
    // The requests throw its error.
    versions.catch(() => {});
    return versions;
  }

  #gets<T extends Value>(key: string, touchSec?: number): Promise<Versioned<T> | undefined> {
    return this.#tagged.find(key, touchSec) as Promise<Versioned<T> | undefined>;
  }

  #read<Result>(
    start: () => Promise<Result | undefined>,
    options?: CallOptions,
  ): Promise<Result | undefined> {
    const result = this.#run(start, options);
    return this.#isMissWhenDown ? result.catch(missWhenDown) : result;
  }

  /** Checks and encodes what a command stores. */
  #storing(
    mode: "set" | "add" | "replace",
    key: string,
    value: Value,
    options: StoreOptions = {},
    cas?: string,
  ): Storing {
    const bytes = this.space.keyOf(key);
    const { ttlSec = this.#ttlSec } = options;
    const expiry = expiryOf(ttlSec);
    const encoded = this.encode(key, value);
    const how = { mode, cas };
    const send = (whole: Encoded, versions?: TagVersions): Promise<requests.Stored> =>
      this.#tagged.isTagging
        ? this.#tagged.store(bytes, whole, expiry, how, versions)
        : this.send(requests.store(bytes, whole, expiry, how));
    if (!(encoded instanceof Promise)) {
      return { bytes: encoded.bytes.length, send: (versions) => send(encoded, versions) };
    }
    // Its error is thrown when it is sent.
    encoded.catch(() => {});
    return { bytes: 0, send: async (versions) => await send(await encoded, versions) };
  }

  async #store(
    mode: "set" | "add" | "replace",
    key: string,
    value: Value,
    options?: StoreOptions,
  ): Promise<boolean> {
    const send = (): Promise<requests.Stored> => this.#storing(mode, key, value, options).send();
    return await this.#run(send, options, STORE) === "stored";
  }

  async #extend(
    mode: "append" | "prepend",
    key: string,
    bytes: Uint8Array,
    options?: CallOptions,
  ): Promise<boolean> {
    return await this.#run(async () => {
      this.#encoder.check(key, bytes);
      const name = this.space.keyOf(key);
      if (this.#tagged.isTagging) return await this.#tagged.extend(name, mode, bytes);
      return await this.send(requests.store(name, { bytes, flags: 0 }, 0, { mode })) === "stored";
    }, options);
  }
}

function missWhenDown(error: unknown): undefined {
  if (error instanceof ConnectionError && !(error instanceof ProtocolError)) return undefined;
  throw error;
}
