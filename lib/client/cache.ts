import { abortable } from "./answers.ts";
import { randomUUID } from "node:crypto";
import { MS_MAX } from "./net/address.ts";
import { Attempts } from "./attempts.ts";
import {
  checkFunction,
  checkOptions,
  checkWord,
  membersOf,
  type OptionNames,
  shown,
} from "./checks.ts";
import { Client, type LockOptions, type Section } from "./client.ts";
import { CLIENT, type ClientOptions, STORE, type StoreOptions } from "./command_options.ts";
import type { Home } from "./commands.ts";
import { type Duration, expiryOf, msOf } from "./durations.ts";
import { LOCK_PLACEHOLDER } from "./values/entries.ts";
import { OutcomeUnknownError, RequestError, RowWriteError, TokenOutError } from "./errors.ts";
import { loadFlow } from "./flows/load.ts";
import {
  invalidateFlow,
  type Put,
  putWithLeases,
  putWithTokens,
  releaseFlow,
  type Token,
} from "./flows/put.ts";
import { putRowFlow, type RowEnd, settleRowFlow } from "./flows/put_row.ts";
import type { ClientFlow, Outcome } from "./flows/steps.ts";
import { Lanes, type Work } from "./lanes.ts";
import {
  defaultsOf,
  leftOf,
  type Load,
  LOAD_DEFAULTS,
  type LoadDefaults,
  loadKey,
  type LoadMany,
  type LoadOptions,
  type LoadRows,
  type Settings,
  settingsOf,
} from "./load_options.ts";
import * as requests from "./requests.ts";
import { type FlowContext, FlowCounters, rowsOf, Run, sleep } from "./run.ts";
import type { ServerNames, Servers, WeightedServer } from "./net/servers.ts";
import { traced } from "./spans.ts";
import { provesRollback } from "./commits/transaction.ts";
import { finishPut, namesOf, throwUnfinished } from "./commits/unfinished.ts";

/** A result of `getOrLoadEntry`. */
export interface CacheEntry<Value> {
  /** Undefined: there is no row. */
  readonly value: Value | undefined;
  /** The value's time is over, and loading failed or is slow. */
  readonly isStale: boolean;
  readonly from: "cache" | "load";
}

/** Options of a cache: of its connections, and what holds for calls that do not say otherwise. */
export interface CacheOptions<Value> extends ClientOptions<Value>, LoadDefaults {
  /** Time to live of values whose call names none, in seconds; 0: for ever. Default 600; of stores 0. */
  readonly ttlSec?: Duration;
}

/** Options of `put`. */
export interface PutOptions {
  /**
   * "leases": invalidates after the commit; a writer that dies in between leaves old values until they expire.
   * "tokens": the keys are uncacheable from before the commit until after it; needs leased with `--state-dir`.
   * Default "leases".
   */
  readonly form?: "leases" | "tokens";
  /** Tags to invalidate with the keys. */
  readonly tags?: readonly string[];
  /** Namespaces to invalidate with the keys. */
  readonly namespaces?: readonly Namespace[];
  /** How long each step before and after the commit is repeated, in ms. Default 5,000. */
  readonly limitMs?: Duration;
  /** Whether an error of `commit` proves that nothing will be committed. Default: RolledBackError, `transaction`'s. */
  readonly isRolledBack?: (error: unknown) => boolean;
}

const PUT: OptionNames<PutOptions> = {
  ...{ form: true, tags: true, namespaces: true, limitMs: true, isRolledBack: true },
};
const CACHE: OptionNames<CacheOptions<unknown>> = { ...CLIENT, ...LOAD_DEFAULTS };
const PUT_ROW: OptionNames<Pick<PutOptions, "limitMs">> = { limitMs: true };
const LIMIT_MS = 5_000;
const CAS_TRIES = 20;
const CAS_PAUSE_MS = 20;
const LOCK_TRIES = 3;

/** Settings of flows that do not load. */
const NO_LOAD = settingsOf({});

/** What a cache shares with its namespaces. */
interface Shared<Value> {
  readonly lanes: Lanes<Outcome<Value>>;
  readonly context: FlowContext<Value>;
}

/** @throws RangeError, TypeError */
function limitOf(limitMs: Duration = LIMIT_MS): number {
  return msOf("limitMs", limitMs, 0, MS_MAX);
}

/**
 * A client whose flows keep a cache in step with a database.
 *
 * @example
 * ```ts
 * const shop = new Cache("127.0.0.1:11211", { codec: jsonCodec });
 * await shop.getOrLoad("price", () => 5); // 5
 * await shop.close();
 * ```
 */
// deno-lint-ignore no-explicit-any
export class Cache<Value = any> extends Client<Value> {
  readonly #options: CacheOptions<Value>;
  readonly #defaults: Settings;
  readonly #shared: Shared<Value>;
  /** Counts since the cache was made; those of its namespaces are in it. */
  override readonly counters: FlowCounters;

  constructor(
    servers: string | readonly (string | WeightedServer)[],
    options?: CacheOptions<Value>,
  );
  /** @internal */
  constructor(
    servers: ServerNames | Servers,
    options: CacheOptions<Value>,
    home: Home,
    shared: Shared<Value>,
  );
  constructor(
    servers: ServerNames | Servers,
    options: CacheOptions<Value> = {},
    home: Home = {},
    shared?: Shared<Value>,
  ) {
    super(servers, options, { ...home, names: CACHE });
    this.#options = options;
    this.counters = shared?.context.counters ?? new FlowCounters();
    const { tags } = this.space;
    this.#defaults = { ...defaultsOf(options), tags };
    this.#shared = shared ?? {
      lanes: new Lanes(),
      context: {
        codec: this.codec,
        counters: this.counters,
        attempts: new Attempts(),
        isMissWhenDown: options.whenDown === "miss",
        encode: (key, value) => this.encode(key, value),
        closing: this.closing,
        call: this.send,
        tokensOut: (event) => this.servers.listeners.emit("tokensOut", event),
      },
    };
  }

  /**
   * Returns the value of a key from the cache, or loads and keeps it. Callers share loads, also those of other clients.
   *
   * @param load Reads the primary database, outside of transactions that began before.
   * @returns Undefined: there is no such row.
   * @throws What `load` throws; LoadTimeoutError; RequestError, unless `whenDown` is "miss".
   * @example
   * ```ts
   * const articles = new Map([["article:7", "title"]]);
   * await cache.getOrLoad("article:7", (key) => articles.get(key), { ttlSec: 60 }); // "title"
   * await cache.getOrLoad("article:8", (key) => articles.get(key), { absentSec: 5 }); // undefined
   * ```
   */
  async getOrLoad<T extends Value>(
    key: string,
    load: Load<T>,
    options: LoadOptions = {},
  ): Promise<T | undefined> {
    return (await this.getOrLoadEntry(key, load, options)).value;
  }

  /**
   * Like `getOrLoad`, and tells whether the value is stale.
   *
   * @example
   * ```ts
   * const load = () => "text";
   * await cache.getOrLoadEntry("page", load, { graceSec: 600 }); // { value: "text", isStale: false, from: "load" }
   * await cache.getOrLoadEntry("page", load, { graceSec: 600 }); // { value: "text", isStale: false, from: "cache" }
   * ```
   */
  async getOrLoadEntry<T extends Value>(
    key: string,
    load: Load<T>,
    options: LoadOptions = {},
  ): Promise<CacheEntry<T>> {
    const settings = this.#settingsOf(options);
    const bytes = loadKey(key, settings, this.space);
    checkFunction("load", load);
    const loadOne: LoadRows<Value> = async (_, control) =>
      new Map([[bytes, await load(key, control)]]);
    const { signal } = options;
    signal?.throwIfAborted();
    return await traced("getOrLoad", key, async (span) => {
      const answer = this.#shared.lanes.join(bytes, (previous, waitedMs) => {
        const limits = leftOf(settings, previous, waitedMs);
        return this.#begin(bytes, limits, loadOne);
      });
      const outcome = await (signal === undefined ? answer : abortable(answer, signal));
      if ("error" in outcome) throw outcome.error;
      span?.setAttribute("leased.from", outcome.from);
      span?.setAttribute("leased.stale", outcome.isStale);
      return outcome as CacheEntry<T>;
    });
  }

  /**
   * Returns the values of many keys, in one round trip for each server, and one load of all that are missing.
   *
   * @returns A map without the keys that have no row.
   * @throws As `getOrLoad`.
   * @example
   * ```ts
   * const load = (keys: readonly string[]) => new Map(keys.map((key) => [key, key.length]));
   * await cache.getOrLoadMany(["one", "three"], load); // new Map([["one", 3], ["three", 5]])
   * ```
   */
  async getOrLoadMany<T extends Value>(
    keys: Iterable<string>,
    loadMany: LoadMany<T>,
    options: LoadOptions = {},
  ): Promise<Map<string, T>> {
    const settings = this.#settingsOf(options);
    const asked = membersOf("keys", keys);
    const names = new Map(asked.map((key) => [loadKey(key, settings, this.space), key] as const));
    checkFunction("loadMany", loadMany);
    options.signal?.throwIfAborted();
    const found = new Map<string, T>();
    let failure: { readonly error: unknown } | undefined;
    const run = new Run<Value>(this.#shared.context, settings, {
      load: async (missing, control) => {
        const rows = rowsOf(await loadMany(missing.map((key) => names.get(key)!), control));
        return new Map(missing.map((key) => [key, rows.get(names.get(key)!)]));
      },
      answer: (key, outcome) => {
        if ("error" in outcome) failure = outcome;
        else if (outcome.value !== undefined) found.set(names.get(key)!, outcome.value as T);
      },
    });
    return await traced("getOrLoadMany", names.values(), async () => {
      const done = run.drive(loadFlow([...names.keys()], settings));
      await (options.signal === undefined ? done : abortable(done, options.signal));
      if (failure !== undefined) throw failure.error;
      return found;
    });
  }

  /**
   * Commits an update of the database, and takes care that no client gets old values of `keys` afterwards.
   *
   * @param commit Runs the transaction, and returns when it has been committed. Turn off retries in the driver.
   * @returns What `commit` returns.
   * @throws What `commit` throws; OutcomeUnknownError, UnfinishedError; or, before the commit, why there are no tokens.
   * @example
   * ```ts
   * const titles = new Map([["title:7", "first"]]);
   * await cache.getOrLoad("title:7", (key) => titles.get(key)); // "first"
   * await cache.put("title:7", () => void titles.set("title:7", "second"), { form: "tokens" });
   * await cache.getOrLoad("title:7", (key) => titles.get(key)); // "second"
   * ```
   */
  async put<Result>(
    keys: string | readonly string[],
    commit: () => Promise<Result> | Result,
    options: PutOptions = {},
  ): Promise<Result> {
    checkOptions(options as object, PUT);
    const { form = "leases", tags = [], namespaces = [] } = options;
    const { isRolledBack = provesRollback } = options;
    checkWord("form", form, ["leases", "tokens"]);
    const limitMs = limitOf(options.limitMs);
    checkFunction("isRolledBack", isRolledBack);
    checkFunction("commit", commit);
    // Sorted, so that two writers do not wait for each other.
    const all = [
      ...new Set([
        ...this.space.keysOf(keys),
        ...this.space.tagsOf(membersOf("tags", tags)),
        ...membersOf("namespaces", namespaces).map((each) => this.#tagOf(each)),
      ]),
    ].sort();
    return await traced("put", all, async () => {
      if (form === "leases") {
        const flow = putWithLeases(all, limitMs);
        return await this.#finish(flow, commit, (items) => this.#invalidate(items, limitMs));
      }
      const flow = putWithTokens(all, randomUUID(), limitMs, isRolledBack);
      return await this.#finish(flow, commit, (items) => this.#release(items, limitMs));
    });
  }

  /**
   * Writes a row of a server with `--db` by a write that the server executes once, whatever becomes of connections.
   *
   * @param value Undefined: deletes the row.
   * @param options `limitMs`: how long the write is asked for. Default 5,000.
   * @returns The row's new version.
   * @throws RowWriteError: nothing was written, and nothing will be; OutcomeUnknownError, whose `resolve` finds out; or
   *   why there is no update token: nothing was written.
   * @example
   * ```ts
   * await cache.putRow("row:7", { price: 5 }); // 1
   * await cache.get("row:7"); // { price: 5 }
   * await cache.putRow("row:7", undefined); // 2
   * ```
   */
  async putRow(
    key: string,
    value: Value | undefined,
    options: { readonly limitMs?: Duration } = {},
  ): Promise<number> {
    checkOptions(options as object, PUT_ROW);
    const limitMs = limitOf(options.limitMs);
    const bytes = this.space.keyOf(key);
    const row = value === undefined ? undefined : await this.encode(key, value);
    const context = this.#shared.context as FlowContext<unknown>;
    const run = new Run<unknown>(context, NO_LOAD, { row });
    return await traced("putRow", key, async () => {
      const end: RowEnd = await run.drive(putRowFlow(bytes, randomUUID(), limitMs));
      if (end.outcome === "done") return end.version;
      if (end.outcome === "failed") throw new RowWriteError(key, end.cause);
      const { id } = end;
      const unknown = (cause: unknown): OutcomeUnknownError =>
        new OutcomeUnknownError([key], async () => {
          const settled = await run.drive(settleRowFlow(bytes, id, cause, LIMIT_MS, true));
          if (settled.outcome === "unknown") throw unknown(settled.cause);
          return settled.outcome;
        }, cause);
      throw run.tokensStayOut(namesOf([bytes]), unknown(end.cause));
    });
  }

  /**
   * Removes values and leases, after an update was committed.
   *
   * @throws UnfinishedError
   * @example
   * ```ts
   * await cache.getOrLoad("list", () => [1, 2]); // [1, 2]
   * await cache.invalidate("list");
   * await cache.getOrLoad("list", () => [1, 2, 3]); // [1, 2, 3]
   * ```
   */
  async invalidate(keys: string | readonly string[], limitMs?: Duration): Promise<void> {
    await this.#invalidate(this.space.keysOf(keys), limitOf(limitMs));
  }

  /**
   * Makes all values of these tags invalid, after an update was committed.
   *
   * @throws UnfinishedError
   * @example
   * ```ts
   * const options = { tags: ["toys"] };
   * await cache.getOrLoad("top-ten", () => "ball", options); // "ball"
   * await cache.invalidateTags("toys");
   * await cache.getOrLoad("top-ten", () => "doll", options); // "doll"
   * ```
   */
  async invalidateTags(
    tags: string | readonly string[],
    limitMs?: Duration,
  ): Promise<void> {
    await this.#invalidate(this.space.tagsOf(tags), limitOf(limitMs));
  }

  /**
   * Runs `fn` while this client holds the lock of a key, whose item is created when it is missing. Needs leased.
   *
   * @param fn Gets the fencing number, a signal that aborts when the lock is lost, and the commands of the lock's
   *   connection, which never reconnects.
   * @param options `waitMs`: how long to wait for the lock. Default 0.
   * @throws LockedError, TokenOutError, or what `fn` throws
   * @example
   * ```ts
   * await cache.withLock("nightly-report", ({ fence, signal }) => fence > 0 && !signal.aborted); // true
   * ```
   */
  async withLock<Result>(
    key: string,
    fn: (section: Section<Value>) => Promise<Result> | Result,
    options: LockOptions = {},
  ): Promise<Result> {
    checkFunction("fn", fn);
    this.space.keyOf(key);
    return await traced("withLock", key, async () => {
      // Not by `await using`: Node 20 has no such statement.
      const section = await this.#lockOrCreate(key, options);
      try {
        return await fn(section);
      } finally {
        await section[Symbol.asyncDispose]();
      }
    });
  }

  /**
   * Changes a value that only the cache has: reads it, and stores what `fn` returns unless it was changed meanwhile;
   * then again.
   *
   * @param fn Gets undefined if there is no value. If it returns undefined nothing is stored.
   * @returns The value that was stored.
   * @throws RequestError Others changed the value each of 20 times.
   * @example
   * ```ts
   * await cache.compareAndSwap("cart:7", (cart = []) => [...cart, "ball"]); // ["ball"]
   * await cache.compareAndSwap("cart:7", (cart = []) => [...cart, "doll"]); // ["ball", "doll"]
   * ```
   */
  async compareAndSwap<T extends Value>(
    key: string,
    fn: (value: T | undefined) => Promise<T | undefined> | T | undefined,
    options: StoreOptions = {},
  ): Promise<T | undefined> {
    checkOptions(options, STORE);
    checkFunction("fn", fn);
    const { ttlSec, ...call } = options;
    if (ttlSec !== undefined) expiryOf(ttlSec);
    for (let tries = 0; tries < CAS_TRIES; tries++) {
      const found = await this.gets(key, call);
      const value = await fn(found?.value as T | undefined);
      if (value === undefined) return undefined;
      const isStored = found === undefined
        ? await this.add(key, value, options)
        : await this.cas(key, value, found.cas, options) === "stored";
      if (isStored) return value;
      await sleep(Math.random() * CAS_PAUSE_MS, this.closing);
    }
    const place = { server: this.serverNameOf(key), command: "cas", key };
    throw new RequestError(place, `others changed the value each of ${CAS_TRIES} times`);
  }

  /**
   * Returns a part of the cache with keys of its own, which can be invalidated together. It has all methods of a cache,
   * and shares its connections, loads and counters.
   *
   * @param defaults What holds in it for calls that do not say otherwise. Default: the cache's.
   * @example
   * ```ts
   * const tenant = cache.namespace("tenant-7", { ttlSec: "1h" });
   * await tenant.getOrLoad("name", (key) => `the ${key}`); // "the name"
   * const docs = tenant.namespace("docs");
   * await docs.set("index", "text"); // true
   * await tenant.invalidate();
   * await docs.get("index"); // undefined
   * ```
   */
  namespace(name: string, defaults: LoadDefaults = {}): Namespace<Value> {
    checkOptions(defaults as object, LOAD_DEFAULTS);
    const given = Object.entries(defaults).filter(([, value]) => value !== undefined);
    const options = { ...this.#options, ...Object.fromEntries(given) };
    return new Namespace(this.servers, options, { space: this.space.within(name) }, this.#shared);
  }

  #tagOf(namespace: Namespace): string {
    const isOwn = namespace instanceof Namespace && namespace.servers === this.servers;
    if (isOwn) return namespace.space.tags.at(-1)!;
    throw new TypeError(`namespace ${shown(namespace)}: expected one of this cache`);
  }

  #settingsOf(options: LoadOptions): Settings {
    return settingsOf(options, this.#defaults, this.space);
  }

  // --- flows ---------------------------------------------------------------------------------------

  #begin(key: string, settings: Settings, load: LoadRows<Value>): Work<Outcome<Value>> {
    const { tries } = this.servers;
    const work = this.#drive(key, settings, load);
    if (this.servers.tries === tries) return work;
    // It tries whether a server that was down answers: only its caller waits for that, and others go without.
    return { answer: work.answer, shared: this.#drive(key, settings, load).shared };
  }

  #drive(key: string, settings: Settings, load: LoadRows<Value>): Work<Outcome<Value>> {
    let settle!: (outcome: Outcome<Value>) => void;
    const answer = new Promise<Outcome<Value>>((resolve) => settle = resolve);
    let offer!: (outcome: Outcome<Value>) => void;
    const offered = new Promise<Outcome<Value>>((resolve) => offer = resolve);
    const run = new Run<Value>(this.#shared.context, settings, {
      load,
      answer: (_, outcome) => settle(outcome),
      offer: (_, outcome) => offer(outcome),
    });
    run.drive(loadFlow([key], settings)).catch((error) => settle({ error }));
    return { answer, shared: Promise.race([answer, offered]) };
  }

  async #finish<Item extends string | Token, Result>(
    flow: ClientFlow<unknown, Put<Item>>,
    commit: () => Promise<Result> | Result,
    retry: (items: readonly Item[]) => Promise<void>,
  ): Promise<Result> {
    const run = new Run<unknown>(this.#shared.context as FlowContext<unknown>, NO_LOAD, { commit });
    return await finishPut(run, flow, retry) as Result;
  }

  async #invalidate(keys: readonly string[], limitMs: number): Promise<void> {
    const run = new Run<unknown>(this.#shared.context as FlowContext<unknown>, NO_LOAD, {});
    const unfinished = await run.drive(invalidateFlow(keys, limitMs));
    throwUnfinished(unfinished, (items) => this.#invalidate(items, limitMs));
  }

  async #release(tokens: readonly Token[], limitMs: number): Promise<void> {
    const run = new Run<unknown>(this.#shared.context as FlowContext<unknown>, NO_LOAD, {});
    const unfinished = await run.drive(releaseFlow(tokens, limitMs));
    throwUnfinished(unfinished, (items) => this.#release(items, limitMs));
  }

  async #lockOrCreate(
    key: string,
    options: LockOptions,
  ): Promise<Section<Value>> {
    for (let tries = 1;; tries++) {
      try {
        return await this.lock(key, options);
      } catch (error) {
        if (!(error instanceof TokenOutError) || tries === LOCK_TRIES) throw error;
        await this.call(() =>
          requests.store(this.space.keyOf(key), LOCK_PLACEHOLDER, 0, { mode: "add" })
        );
      }
    }
  }
}

/**
 * A part of a cache with keys of its own: its values are invalidated together, but for numbers that `increment` has
 * made.
 *
 * @example
 * ```ts
 * const release: Namespace = cache.namespace("release-1");
 * await release.getOrLoad("index", () => "old"); // "old"
 * ```
 */
// deno-lint-ignore no-explicit-any
export class Namespace<Value = any> extends Cache<Value> {
  /**
   * Makes values invalid, after an update was committed: of keys, or all of the namespace and of those in it.
   *
   * @throws UnfinishedError
   * @example
   * ```ts
   * const docs = cache.namespace("docs");
   * await docs.getOrLoad("index", () => "old"); // "old"
   * await docs.invalidate();
   * await docs.getOrLoad("index", () => "new"); // "new"
   * await docs.invalidate("index");
   * ```
   */
  override async invalidate(keys?: string | readonly string[], limitMs?: Duration): Promise<void> {
    if (keys !== undefined) await super.invalidate(keys, limitMs);
    else await this.put([], () => {}, { namespaces: [this], limitMs: limitOf(limitMs) });
  }

  /**
   * Does nothing: the connections are the cache's.
   *
   * @example
   * ```ts
   * const pages = cache.namespace("pages");
   * await pages.close();
   * await pages.get("index"); // undefined
   * ```
   */
  override async close(): Promise<void> {}
}
