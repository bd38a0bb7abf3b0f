import type { CacheList, ListChange, Weighted } from "../rows/flows/cache_list.ts";
import {
  type Change,
  changeOf,
  type Edit,
  type Found,
  type Row,
  type WriteOutcome,
  type WriteResult,
} from "../rows/databases/backend.ts";
import { CacheError, type Flow, type LeaseGet, step } from "../rows/flows/steps.ts";
import type { PutStart, TokenStates } from "../rows/flows/token_states.ts";
import { reasonOf } from "../reason.ts";

/** How a write under a token ended. */
export type PutReply =
  | { readonly kind: "committed"; readonly version: number }
  /** The row's state forbids the write; nothing was written. */
  | { readonly kind: "refused"; readonly row: Row | null }
  | { readonly kind: "revoked" }
  | { readonly kind: "none" }
  | { readonly kind: "busy" }
  /** The outcome of the write is unknown; the token stays out. */
  | { readonly kind: "unknown"; readonly reason: string }
  /** Nothing was written. */
  | { readonly kind: "failed"; readonly reason: string };

/** A read of the database. */
export interface Read extends Found {
  /** Whether a cache may keep it, under a lease that it gave before the read was asked for. */
  readonly cacheable: boolean;
}

/** A value with its flags. */
export interface Value {
  /** 32 bits. */
  readonly flags: number;
  readonly data: Uint8Array;
}

/** The proxy's counters. */
export interface ProxyCounts {
  getsCacheable: number;
  getsUncacheable: number;
  putsCommitted: number;
  putsRefused: number;
  putsRevoked: number;
  putsFailed: number;
  putsUnknown: number;
  cacheHits: number;
  cacheFills: number;
  cacheErrors: number;
}

/** First wait of a reader that meets another client's lease; each further wait is twice as long. */
const HELD_WAIT_MS = 10;
/** Waits before such a reader reads the database without filling. */
const HELD_WAITS = 3;
/** A key that no client can name. */
const NO_KEY = "";

/**
 * The flows of the proxy: the order of four small steps keeps every cached value equal to the committed one. A write
 * takes a token, deletes the key in every cache, commits, and releases the token; a read takes a lease, checks that the
 * key is cacheable, reads the database, and fills. No lock is held while a step waits for a cache or the database.
 *
 * No socket, no clock, no database: each flow yields its requests to them as steps. `Proxy` runs flows with promises;
 * the explorer tries their steps in every order.
 */
export class Flows<Cache> {
  readonly counts: ProxyCounts = {
    getsCacheable: 0,
    getsUncacheable: 0,
    putsCommitted: 0,
    putsRefused: 0,
    putsRevoked: 0,
    putsFailed: 0,
    putsUnknown: 0,
    cacheHits: 0,
    cacheFills: 0,
    cacheErrors: 0,
  };
  /** Epoch of the proxy that has taken over; 0: none has. */
  #successor = 0;
  readonly caches: CacheList<Cache>;
  readonly states: TokenStates;
  readonly valueLengthMax: number;

  /** @param valueLengthMax Longest value that is written, in bytes. */
  constructor(caches: CacheList<Cache>, states: TokenStates, valueLengthMax: number) {
    this.caches = caches;
    this.states = states;
    this.valueLengthMax = valueLengthMax;
  }

  /** Whether another proxy has taken over: this one answers no read as cacheable, and writes nothing. */
  get isDeposed(): boolean {
    return this.#successor !== 0;
  }

  /** Why a deposed proxy refuses requests. */
  get deposedText(): string {
    const { epoch } = this.states;
    return `another proxy has taken over: epoch ${this.#successor} replaced epoch ${epoch}`;
  }

  /**
   * Reads the database.
   *
   * @param isReadable Whether the reader's cache may keep what is read.
   * @throws The database's error.
   */
  *read(key: string, isReadable = true): Flow<Cache, Read> {
    // In this order: a token that is taken after the read began must find the lease in the cache.
    const isCacheable = this.states.isCacheable(key);
    const found = yield* this.#readRow(key);
    const cacheable = isCacheable && isReadable && !this.isDeposed;
    this.counts[cacheable ? "getsCacheable" : "getsUncacheable"]++;
    return { ...found, cacheable };
  }

  /** Learns whether another proxy has taken over. @throws The database's error. */
  *checkEpoch(): Flow<Cache, void> {
    yield* this.#readRow(NO_KEY);
  }

  *#readRow(key: string): Flow<Cache, Found> {
    const found = yield* step({ kind: "readRow", key });
    if (found.epoch !== this.states.epoch) this.#successor = found.epoch;
    return found;
  }

  /**
   * Reads through the key's cache; through the next one if that does not answer.
   *
   * @returns Null when the row does not exist.
   * @throws The database's error.
   */
  *get(key: string): Flow<Cache, Value | null> {
    for (const cache of this.caches.of(key)) {
      const answer = yield* this.#leaseGet(cache, key);
      if (answer === undefined) continue;
      if (answer.kind === "value") {
        this.counts.cacheHits++;
        return answer;
      }
      if (answer.kind === "lease") return yield* this.#fill(cache, key, answer.id);
      break;
    }
    // Without the lease, read the database and do not fill.
    return (yield* this.read(key)).row;
  }

  /** Asks a cache, for a while again if another client has the lease; undefined when it cannot be reached. */
  *#leaseGet(cache: Cache, key: string): Flow<Cache, LeaseGet | undefined> {
    let waitMs = HELD_WAIT_MS;
    for (let waits = 0;; waits++) {
      const answer = yield* this.#tryCache(step({ kind: "leaseGet", cache, key }));
      if (answer?.kind !== "held" || waits === HELD_WAITS) return answer;
      yield* step({ kind: "sleep", ms: waitMs });
      waitMs *= 2;
    }
  }

  /** Reads the database under a lease, and fills the cache if it may. */
  *#fill(cache: Cache, key: string, leaseId: string): Flow<Cache, Row | null> {
    let isFilled = false;
    try {
      const { row, cacheable } = yield* this.read(key, this.caches.isReadable(cache));
      if (cacheable && row !== null) {
        isFilled = true;
        const fill = step({ kind: "leaseSet", cache, key, leaseId, row });
        if ((yield* this.#tryCache(fill)) === true) this.counts.cacheFills++;
      }
      return row;
    } finally {
      if (!isFilled) {
        yield* this.#tryCache(step({ kind: "leaseReturn", cache, key, leaseId }));
      }
    }
  }

  /**
   * Executes a whole write: takes a token, deletes in every cache, commits, releases.
   *
   * @returns As `put`. If a cache cannot be reached the write fails: nothing is written.
   */
  *write(key: string, edit: Edit): Flow<Cache, PutReply> {
    const id = this.states.get(key, "");
    try {
      yield* step({ kind: "invalidate", caches: this.caches.all, key });
    } catch (error) {
      this.counts.cacheErrors++;
      this.counts.putsFailed++;
      this.states.release(key, id);
      return { kind: "failed", reason: reasonOf(error) };
    }
    const reply = yield* this.put(key, id, edit);
    if (reply.kind === "failed" || reply.kind === "refused") this.states.release(key, id);
    return reply;
  }

  /** Writes under a token. */
  *put(key: string, id: number, edit: Edit): Flow<Cache, PutReply> {
    const start = this.states.beginPut(key, id);
    if (start.kind !== "begun") return yield* this.#answerStart(key, id, start);
    let result: WriteResult = { kind: "fenced", epoch: this.#successor };
    if (!this.isDeposed) {
      const limited = this.#limited(edit);
      const { epoch } = this.states;
      try {
        const owner = this.states.ownerOf(key, id);
        result = yield* step({ kind: "writeRow", key, tokenId: id, owner, epoch, edit: limited });
      } catch (error) {
        result = { kind: "unknown", reason: reasonOf(error) };
      }
    }
    return this.#end(key, id, result);
  }

  /** Returns the edit with a check of the new value's length; if it throws, the database writes nothing. */
  #limited(edit: Edit): Edit {
    if (typeof edit !== "function" && this.#fits(edit)) return edit;
    return (row) => {
      const change = changeOf(edit, row);
      if (change !== null && !this.#fits(change)) throw new Error("object too large for cache");
      return change;
    };
  }

  #fits(change: Change): boolean {
    return change === "delete" || change.data.length <= this.valueLengthMax;
  }

  /** `CacheList.change` */
  *changeCaches(target: readonly Weighted<Cache>[]): Flow<Cache, ListChange> {
    const change = yield* this.caches.change(target, this.states.epoch);
    if (change.kind === "fenced") this.#successor = change.epoch;
    return change;
  }

  /** Asks the database for the outcome of a write that is unknown. */
  *resolve(key: string, id: number): Flow<Cache, PutReply> {
    const start = this.states.beginPut(key, id);
    if (start.kind === "begun") {
      this.states.endPut(key, id, { kind: "failed" });
      return { kind: "failed", reason: "the token has not been used" };
    }
    return yield* this.#answerStart(key, id, start);
  }

  *#answerStart(key: string, id: number, start: PutStart): Flow<Cache, PutReply> {
    switch (start.kind) {
      case "used":
        return { kind: "committed", version: start.version };
      case "revoked":
        this.counts.putsRevoked++;
        return { kind: "revoked" };
      case "busy":
        return { kind: "busy" };
      case "unknown":
        return yield* this.#askOutcome(key, id);
      default:
        return yield* this.#askForgotten(id);
    }
  }

  *#askOutcome(key: string, id: number): Flow<Cache, PutReply> {
    let outcome: WriteOutcome;
    try {
      outcome = yield* step({ kind: "askOutcome", tokenId: id });
    } catch (error) {
      outcome = { kind: "unknown", reason: reasonOf(error) };
    }
    switch (outcome.kind) {
      case "committed":
        this.states.endPut(key, id, outcome);
        return outcome;
      case "notApplied":
        this.states.endPut(key, id, { kind: "failed" });
        return { kind: "failed", reason: "the database did not write it" };
      default:
        this.states.endPut(key, id, { kind: "unknown" });
        return outcome;
    }
  }

  /** A token of an earlier epoch, or one that was forgotten, may have been applied all the same. */
  *#askForgotten(id: number): Flow<Cache, PutReply> {
    const outcome = yield* step({ kind: "askOutcome", tokenId: id });
    return outcome.kind === "notApplied" ? { kind: "none" } : outcome;
  }

  #end(key: string, id: number, result: WriteResult): PutReply {
    switch (result.kind) {
      case "committed":
        this.states.endPut(key, id, result);
        this.counts.putsCommitted++;
        return result;
      case "refused":
        this.states.endPut(key, id, { kind: "failed" });
        this.counts.putsRefused++;
        return result;
      case "fenced":
        this.#successor = result.epoch;
        this.states.endPut(key, id, { kind: "failed" });
        this.counts.putsFailed++;
        return { kind: "failed", reason: this.deposedText };
      case "unknown":
        this.states.endPut(key, id, { kind: "unknown" });
        this.counts.putsUnknown++;
        return result;
      default:
        this.states.endPut(key, id, { kind: "failed" });
        this.counts.putsFailed++;
        return result;
    }
  }

  /** Runs a step at a cache; undefined when the cache cannot be reached. */
  *#tryCache<Result>(flow: Flow<Cache, Result>): Flow<Cache, Result | undefined> {
    try {
      return yield* flow;
    } catch (error) {
      if (!(error instanceof CacheError)) throw error;
      this.counts.cacheErrors++;
      return undefined;
    }
  }
}
