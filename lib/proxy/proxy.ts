import { latin1Bytes } from "./bytes.ts";
import type { Backend, Change, Found, Row, WriteResult } from "./backend.ts";
import { type CacheClient, CacheError } from "./cache_client.ts";
import type { Caches } from "./caches.ts";
import { type PutStart, TokenStates } from "./token_states.ts";

/** How a write under a token ended. */
export type PutReply =
  | { readonly kind: "committed"; readonly version: number }
  /** What the row is forbids it; nothing was written. */
  | { readonly kind: "refused"; readonly row: Row | null }
  | { readonly kind: "revoked" }
  | { readonly kind: "none" }
  | { readonly kind: "busy" }
  /** The database did not say what became of it; the token stays out. */
  | { readonly kind: "unknown"; readonly reason: string }
  /** Nothing was written. */
  | { readonly kind: "failed"; readonly reason: string };

/** A read of the database. */
export interface Read extends Found {
  /** Whether a cache may keep it, under a lease that it gave before the read was asked for. */
  readonly cacheable: boolean;
}

/** Computes what a write does with the row as it is; null: nothing, the write is refused. */
export type Edit = (row: Row | null) => Change | null;

/** What the proxy counts. */
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

/** A reader that finds another one filling waits, in milliseconds: so long first, then twice as long, so often. */
const HELD_WAIT_MS = 10;
const HELD_WAITS = 3;

/** Another proxy has taken over. */
export const DEPOSED = "another proxy has taken over";

/**
 * The flows of the proxy: the order of four small steps keeps every cached value equal to the committed one. A write
 * takes a token, deletes the key in every cache, commits, and gives the token back; a read takes a lease, looks whether
 * the key is cacheable, reads the database, and fills. Nothing is held while a cache or the database is waited for.
 */
export class Proxy {
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
  /** Whether another proxy has taken over: this one answers no read as cacheable, and writes nothing. */
  isDeposed = false;
  readonly states: TokenStates;
  readonly #backend: Backend;
  readonly #caches: Caches;
  readonly #sleep: (ms: number) => Promise<void>;

  /**
   * @param valueLengthMax Longer values are not written, in bytes.
   * @param sleep Waits; tests do not.
   */
  constructor(
    backend: Backend,
    caches: Caches,
    states: TokenStates,
    readonly valueLengthMax: number,
    sleep: (ms: number) => Promise<void>,
  ) {
    this.#backend = backend;
    this.#caches = caches;
    this.states = states;
    this.#sleep = sleep;
  }

  get caches(): Caches {
    return this.#caches;
  }

  /**
   * Reads the database.
   *
   * @param isListed Whether the reader's cache is one that writes invalidate.
   * @throws What the database says.
   */
  async read(key: string, isListed = true): Promise<Read> {
    // In this order: a token that is taken after the read began must find the lease in the cache.
    const isCacheable = this.states.isCacheable(key);
    const found = await this.#backend.read(latin1Bytes(key));
    if (found.epoch !== this.states.epoch) this.isDeposed = true;
    const cacheable = isCacheable && isListed && !this.isDeposed;
    this.counts[cacheable ? "getsCacheable" : "getsUncacheable"]++;
    return { ...found, cacheable };
  }

  /**
   * Reads through the key's cache.
   *
   * @returns Null when there is no such row.
   * @throws What the database says.
   */
  async get(key: string): Promise<{ flags: number; data: Uint8Array } | null> {
    const cache = this.#caches.of(key);
    if (cache === null) return (await this.read(key)).row;
    let waitMs = HELD_WAIT_MS;
    for (let waits = 0; waits <= HELD_WAITS; waits++) {
      const answer = await this.#tryCache(() => cache.leaseGet(key));
      if (answer === undefined) break;
      if (answer.kind === "value") {
        this.counts.cacheHits++;
        return answer;
      }
      if (answer.kind === "lease") return await this.#fill(cache, key, answer.id);
      if (waits === HELD_WAITS) break;
      await this.#sleep(waitMs);
      waitMs *= 2;
    }
    // Whoever may not fill reads all the same, and throws away.
    return (await this.read(key)).row;
  }

  /** Reads the database under a lease, and fills the cache if it may. */
  async #fill(cache: CacheClient, key: string, leaseId: string): Promise<Row | null> {
    let isFilled = false;
    try {
      const { row, cacheable } = await this.read(key);
      if (cacheable && row !== null) {
        isFilled = true;
        const isStored = await this.#tryCache(() =>
          cache.leaseSet(key, leaseId, row.flags, row.data)
        );
        if (isStored === true) this.counts.cacheFills++;
      }
      return row;
    } finally {
      if (!isFilled) await this.#tryCache(() => cache.leaseReturn(key, leaseId));
    }
  }

  /**
   * The whole flow of a writer: token, delete in every cache, commit, release.
   *
   * @returns As `put`. A cache that cannot be reached makes the write fail: nothing is written.
   */
  async write(key: string, edit: Edit): Promise<PutReply> {
    const id = this.states.get(key, "");
    try {
      await this.invalidate(key);
    } catch (error) {
      this.states.release(key, id);
      this.counts.putsFailed++;
      return { kind: "failed", reason: error instanceof Error ? error.message : String(error) };
    }
    const reply = await this.put(key, id, edit);
    if (reply.kind === "failed" || reply.kind === "refused") this.states.release(key, id);
    return reply;
  }

  /** Deletes the key in every cache. @throws CacheError when one does not confirm. */
  async invalidate(key: string): Promise<void> {
    const results = await Promise.allSettled(this.#caches.all.map((each) => each.invalidate(key)));
    for (const result of results) {
      if (result.status === "fulfilled") continue;
      this.counts.cacheErrors++;
      throw result.reason;
    }
  }

  /** Writes under a token. */
  async put(key: string, id: number, edit: Edit): Promise<PutReply> {
    const start = this.states.beginPut(key, id);
    if (start.kind !== "begun") return await this.#answerStart(key, id, start);
    let result: WriteResult;
    try {
      result = this.isDeposed
        ? { kind: "fenced" }
        : await this.#backend.write(latin1Bytes(key), id, this.states.epoch, this.#limited(edit));
    } catch (error) {
      result = { kind: "unknown", reason: error instanceof Error ? error.message : String(error) };
    }
    return this.#end(key, id, result);
  }

  /** The edit, which fails when it makes the value too long: the database then writes nothing. */
  #limited(edit: Edit): Edit {
    return (row) => {
      const change = edit(row);
      if (change !== null && change !== "delete" && change.data.length > this.valueLengthMax) {
        throw new Error("object too large for cache");
      }
      return change;
    };
  }

  /** Asks the database what became of a write whose end is not known. */
  async resolve(key: string, id: number): Promise<PutReply> {
    const start = this.states.beginPut(key, id);
    if (start.kind === "begun") {
      this.states.endPut(key, id, { kind: "failed" });
      return { kind: "failed", reason: "the token has not been used" };
    }
    return await this.#answerStart(key, id, start);
  }

  async #answerStart(key: string, id: number, start: PutStart): Promise<PutReply> {
    switch (start.kind) {
      case "used":
        return { kind: "committed", version: start.version };
      case "revoked":
        this.counts.putsRevoked++;
        return { kind: "revoked" };
      case "busy":
        return { kind: "busy" };
      case "unknown":
        return await this.#askOutcome(key, id);
      default:
        return await this.#askForgotten(id);
    }
  }

  async #askOutcome(key: string, id: number): Promise<PutReply> {
    const outcome = await this.#backend.outcome(id);
    switch (outcome.kind) {
      case "committed":
        this.states.endPut(key, id, outcome);
        return outcome;
      case "notApplied":
        this.states.endPut(key, id, { kind: "failed" });
        return { kind: "failed", reason: "the database did not write it" };
      default:
        return outcome;
    }
  }

  /** A token of an earlier epoch, or one that was forgotten, may have been applied all the same. */
  async #askForgotten(id: number): Promise<PutReply> {
    const outcome = await this.#backend.outcome(id);
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
        this.isDeposed = true;
        this.states.endPut(key, id, { kind: "failed" });
        this.counts.putsFailed++;
        return { kind: "failed", reason: DEPOSED };
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

  /** What a cache gives; undefined when it cannot be reached. */
  async #tryCache<Value>(ask: () => Promise<Value>): Promise<Value | undefined> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof CacheError)) throw error;
      this.counts.cacheErrors++;
      return undefined;
    }
  }
}
