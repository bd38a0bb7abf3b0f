import { channel } from "node:diagnostics_channel";
import { clearTimeout, setTimeout } from "node:timers";
import type { Attempts } from "./attempts.ts";
import type { Awaitable } from "./values/awaitable.ts";
import { shown } from "./checks.ts";
import type { Codec, Encoded } from "./values/codecs.ts";
import { expiryOf, secOf, TTL_SEC_MAX } from "./durations.ts";
import { encodeEntry, lookFor } from "./values/entries.ts";
import {
  ConnectionError,
  LoadTimeoutError,
  LockedError,
  RequestError,
  ServerError,
  ValueTooLargeError,
} from "./errors.ts";
import type { ClientEvents } from "./events.ts";
import type {
  ClientFlow,
  Fill,
  Held,
  KeyState,
  Loaded,
  LookResult,
  Outcome,
  RowReply,
  Step,
  StepKind,
  StepResults,
} from "./flows/steps.ts";
import { claimKey, type LoadControl, type LoadRows, type Settings } from "./load_options.ts";
import { runFlow } from "../flow/flow.ts";
import * as requests from "./requests.ts";
import type { Request } from "./net/wire.ts";

/** Counts of flows since a cache was made. */
export class FlowCounters {
  /** Connections that ended without `close`. */
  lostConnections = 0;
  /** Values that the cache had. */
  hits = 0;
  /** Keys that were loaded. */
  loads = 0;
  /** Pauses for the load of another client, or for a server. */
  waits = 0;
  /** Values that the server did not store, because they may have been old. */
  refusedFills = 0;
  /** Loaded values that were not kept, because they are longer than `valueBytesMax` or the server's limit. */
  tooLarge = 0;
  /** Values that the codec could not decode: they were loaded anew. */
  undecodable = 0;
  /** Values that were served in their grace. */
  stale = 0;
  /** Update tokens that had ended before their release. */
  brokenTokens = 0;
  /** Update tokens that stayed out: the outcome is unknown, or no server confirmed the release. */
  tokensOut = 0;
}

/** The part of a cache that its flows use. */
export interface FlowContext<Value> {
  readonly codec: Codec<Value>;
  readonly counters: FlowCounters;
  readonly attempts: Attempts;
  /** Whether a server that is away is a miss. */
  readonly isMissWhenDown: boolean;
  /** Aborts when the cache is closed: nothing waits any more. */
  readonly closing: AbortSignal;
  encode(key: string, value: Value): Awaitable<Encoded>;
  call<Result>(request: Request<Result>): Promise<Result>;
  tokensOut(event: ClientEvents["tokensOut"]): void;
}

/** The application's functions and settings, for the flows. */
export interface Application<Value> {
  load?: LoadRows<Value>;
  commit?(): unknown;
  /** The row that `writeRow` writes; undefined: it is deleted. */
  readonly row?: Encoded | undefined;
  answer?(key: string, outcome: Outcome<Value>): void;
  /** Gets what those who share the flow are answered while it loads. */
  offer?(key: string, outcome: Outcome<Value>): void;
}

/** Begins the reply to a write of a row whose outcome the database has not told. */
const OUTCOME_UNKNOWN = /^\S+ outcome unknown/;

/** The reply of a server whose limit is smaller than `valueBytesMax`. */
const TOO_LARGE = /^\S+ object too large/;

/** Subscribers get `{ kind, keys }` for each counted event of a flow. */
const events = channel("leased:client");

/** Executes the steps of one flow. */
export class Run<Value> {
  readonly #context: FlowContext<Value>;
  readonly #settings: Settings;
  readonly #application: Application<Value>;
  #loading: Promise<Loaded<Value>> | undefined;
  /** When the last sleep or the commit has ended, or the flow has begun. */
  #sinceMs = performance.now();
  /** By key that this flow loads anew, the id of its claim. */
  readonly #claims = new Map<string, string>();

  constructor(context: FlowContext<Value>, settings: Settings, application: Application<Value>) {
    this.#context = context;
    this.#settings = settings;
    this.#application = application;
  }

  /** @returns The flow's result. */
  async drive<Result>(flow: ClientFlow<Value, Result>): Promise<Result> {
    return await runFlow(flow, (step) => this.#execute(step));
  }

  /** Tells that update tokens stay out. @param error What the caller rejects with. @returns It. */
  tokensStayOut<Failure>(keys: readonly string[], error: Failure): Failure {
    this.#count("tokensOut", keys);
    this.#context.tokensOut({ keys, error });
    return error;
  }

  #execute(
    step: Step<Value>,
  ): Promise<StepResults<Value>[StepKind]> | StepResults<Value>[StepKind] {
    switch (step.kind) {
      case "look":
        return this.#look(step.keys);
      case "load":
        return this.#load(step.keys, step.softMs);
      case "loadRest":
        return this.#loading!;
      case "fill":
        return this.#fill(step.fills);
      case "drop":
        return this.#drop(step.items);
      case "claim":
        return this.#claim(step.keys);
      case "unclaim":
        return this.#unclaim(step.keys);
      case "offer":
        return this.#application.offer?.(step.key, step.outcome);
      case "answer":
        return this.#answer(step.key, step.outcome);
      case "sleep":
        this.#count("waits", []);
        return this.#sleep(step.ms);
      case "commit":
        return this.#commit();
      case "invalidate":
        return this.#invalidate(step.keys);
      case "takeToken":
        return this.#context.call(requests.takeToken(step.key, step.owner));
      case "releaseToken":
        return this.#releaseToken(step.key, step.id);
      case "writeRow":
        return this.#writeRow(step.key, step.id);
      case "endToken":
        return this.#context.call(requests.endToken(step.key, step.id));
    }
  }

  /** @returns Ms since the sleep before, or since the commit has ended or the flow begun. */
  async #sleep(ms: number): Promise<number> {
    await sleep(ms, this.#context.closing);
    const sinceMs = this.#sinceMs;
    this.#sinceMs = performance.now();
    return this.#sinceMs - sinceMs;
  }

  async #commit(): Promise<unknown> {
    try {
      return await this.#application.commit!();
    } finally {
      this.#sinceMs = performance.now();
    }
  }

  #count(kind: keyof FlowCounters, keys: readonly string[]): void {
    this.#context.counters[kind] += keys.length || 1;
    if (events.hasSubscribers) events.publish({ kind, keys });
  }

  async #look(keys: readonly string[]): Promise<LookResult<Value>> {
    const { codec } = this.#context;
    const { leaseSec, tags } = this.#settings;
    const seen = new Map<string, KeyState<Value>>();
    const versions: Record<string, string> = Object.create(null);
    let isTagAway = false;
    await Promise.all([
      ...keys.map(async (key) => {
        const found = await this.#orAway(lookFor(key, leaseSec, codec));
        if (found?.state === "value" && found.isUndecodable) this.#count("undecodable", [key]);
        seen.set(key, found ?? { state: "away" });
      }),
      ...tags.map(async (tag) => {
        const version = await this.#orAway(requests.version(tag));
        if (version === undefined) isTagAway = true;
        else versions[tag] = version;
      }),
    ]);
    return { seen, versions: isTagAway ? undefined : versions };
  }

  /** @returns Undefined if the server is away and that is a miss. */
  async #orAway<Result>(request: Request<Result>): Promise<Result | undefined> {
    try {
      return await this.#context.call(request);
    } catch (error) {
      if (this.#context.isMissWhenDown && error instanceof ConnectionError) return undefined;
      throw error;
    }
  }

  #load(
    keys: readonly string[],
    softMs: number | undefined,
  ): Promise<Loaded<Value> | "late"> {
    this.#count("loads", keys);
    const loading = this.#loadInTime(keys);
    const claimed = keys.filter((key) => this.#claims.has(key));
    const end = (backoffMs: number): void => {
      for (const key of claimed) this.#context.attempts.end(key, backoffMs);
    };
    loading.then(() => end(0), () => end(this.#settings.backoffMs));
    // The flow looks at it later.
    this.#loading = loading;
    if (softMs === undefined) return loading;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => resolve("late"), softMs);
      loading.then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }

  async #loadInTime(keys: readonly string[]): Promise<Loaded<Value>> {
    const { ttlSec, hardMs } = this.#settings;
    const aborter = new AbortController();
    const control: LoadControl = { signal: aborter.signal, ttlSec, keep: true };
    let timer: ReturnType<typeof setTimeout> | undefined;
    const limit = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const error = new LoadTimeoutError(`load took longer than ${hardMs} ms: ${keys.join(" ")}`);
        aborter.abort(error);
        reject(error);
      }, hardMs);
    });
    try {
      const rows = await Promise.race([this.#application.load!(keys, control), limit]);
      const ownSec = secOf("ttlSec", control.ttlSec, 0, TTL_SEC_MAX);
      return { rows, keep: control.keep, ttlSec: ownSec };
    } finally {
      clearTimeout(timer);
    }
  }

  async #fill(fills: readonly Fill<Value>[]): Promise<void> {
    await Promise.all(fills.map(async ({ key, cas, entry, ttlSec }) => {
      let encoded: Encoded;
      let expiry: number;
      try {
        encoded = await encodeEntry((value) => this.#context.encode(key, value), entry);
        expiry = expiryOf(ttlSec === 0 ? 0 : ttlSec + entry.graceSec);
      } catch (error) {
        await this.#drop([{ key, cas }]);
        if (!(error instanceof ValueTooLargeError)) throw error;
        return this.#count("tooLarge", [key]);
      }
      try {
        const stored = await this.#context.call(requests.store(key, encoded, expiry, { cas }));
        if (stored === "stored") return;
      } catch (error) {
        // The value is loaded once more, whatever the failure.
        if (error instanceof ServerError && TOO_LARGE.test(error.reply)) {
          await this.#drop([{ key, cas }]);
          return this.#count("tooLarge", [key]);
        }
      }
      this.#count("refusedFills", [key]);
    }));
  }

  async #drop(items: readonly Held[]): Promise<void> {
    await Promise.all(items.map(({ key, cas }) => this.#quietly(requests.remove(key, cas))));
  }

  /** Sends a request whose failure changes nothing for the caller: the value is loaded once more. */
  async #quietly<Result>(request: Request<Result>): Promise<Result | undefined> {
    try {
      return await this.#context.call(request);
    } catch {
      return undefined;
    }
  }

  async #claim(keys: readonly string[]): Promise<ReadonlySet<string>> {
    const { attempts, codec } = this.#context;
    const { leaseSec, ttlSec } = this.#settings;
    // A claim that outlives the value it was made for would keep the next one from being loaded.
    const claimSec = Math.min(leaseSec, ttlSec === 0 ? leaseSec : ttlSec);
    const own = keys.filter((key) => attempts.begin(key));
    await Promise.all(own.map(async (key) => {
      const seen = await this.#quietly(lookFor(claimKey(key), claimSec, codec));
      if (seen?.state === "won") this.#claims.set(key, seen.cas);
      else attempts.end(key, 0);
    }));
    return new Set(this.#claims.keys());
  }

  async #unclaim(keys: readonly string[]): Promise<void> {
    const items = keys.map((key) => ({ key: claimKey(key), cas: this.#claims.get(key)! }));
    await this.#drop(items);
  }

  #answer(key: string, outcome: Outcome<Value>): void {
    if (!("error" in outcome)) {
      if (outcome.from === "cache") this.#count("hits", [key]);
      if (outcome.isStale) this.#count("stale", [key]);
    }
    this.#application.answer!(key, outcome);
  }

  async #invalidate(keys: readonly string[]): Promise<ReadonlyMap<string, unknown>> {
    const failed = new Map<string, unknown>();
    await Promise.all(keys.map(async (key) => {
      try {
        if (await this.#context.call(requests.invalidate(key))) return;
        failed.set(key, new LockedError({ server: "", command: "md", key }));
      } catch (error) {
        failed.set(key, error);
      }
    }));
    return failed;
  }

  async #writeRow(key: string, id: string): Promise<RowReply> {
    const { row } = this.#application;
    const command = row === undefined ? "udelete" : "uput";
    const place = { server: "", command, key };
    try {
      const reply = await this.#context.call(requests.writeRow(key, row, id));
      if (typeof reply === "number") return { state: "done", version: reply };
      switch (reply) {
        case "locked":
          return { state: "locked" };
        case "busy":
          return { state: "unknown", cause: new RequestError(place, "the write is in progress") };
        default: {
          const reason = reply === "revoked" ? "was revoked" : "is not known to the server";
          return {
            state: "ended",
            cause: new RequestError(place, `the update token ${id} ${reason}`),
          };
        }
      }
    } catch (cause) {
      const isRefused = cause instanceof ServerError && !OUTCOME_UNKNOWN.test(cause.reply);
      return { state: isRefused ? "refused" : "unknown", cause };
    }
  }

  async #releaseToken(key: string, id: string): Promise<boolean> {
    const wasOut = await this.#context.call(requests.releaseToken(key, id));
    if (!wasOut) this.#count("brokenTokens", [key]);
    return wasOut;
  }
}

/** Waits, at most until the signal aborts. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}

/** Returns what `loadMany` has returned. @throws TypeError It is no map. */
export function rowsOf<Rows>(rows: Rows): Rows {
  if (rows instanceof Map) return rows;
  throw new TypeError(`loadMany returned ${shown(rows)}: expected a Map`);
}
