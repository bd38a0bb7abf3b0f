import { assert } from "../../../store/base/assert.ts";
import type { KeySet } from "../../databases/views/key_set.ts";
import {
  type Found,
  GoneError,
  type WriteOutcome,
  type WriteResult,
} from "../../databases/base/backend.ts";
import { type RowFlow, step } from "./steps.ts";
import { RowWrite, type WriteReply } from "./row_write.ts";
import { epochOf, type PutStart, TokenLimitError, type TokenStates } from "./token_states.ts";
import { UgetKeys } from "./uget_keys.ts";
import { reasonOf } from "../../process/reason.ts";

/** The result of reading a row. */
export interface Read extends Found {
  /** Whether a cache may keep it, under a lease that it gave before the read was asked for. */
  readonly cacheable: boolean;
}

/** Counters of the flows. */
export type FlowCounts = Flows["counts"];

/** The counter of each end of a write. */
const COUNT_OF = {
  committed: "writesCommitted",
  refused: "writesRefused",
  locked: "writesFailed",
  revoked: "writesRevoked",
  none: "writesFailed",
  busy: "writesFailed",
  unknown: "writesUnknown",
  failed: "writesFailed",
} as const;

/** The right to serve rows from the cache: see `ServingRight`. */
export interface Right {
  /** Reads its clock. */
  nowMs(): number;
  renew(deadlineMs: number): void;
  end(): void;
}

/** Why an origin knows nothing of a token. */
export const OF_SUCCESSOR = "the token is of an origin that has taken over";
/** First wait before the outcome of a write is asked for again; each further wait is twice as long. */
const OUTCOME_WAIT_MS = 100;

/**
 * The flows of rows: the order of four small steps keeps every cached value equal to the committed one. A write takes a
 * token, deletes the key here and in every node, commits, and releases the token; a read takes a lease, checks that the
 * key is cacheable, reads the database, and fills. No lock is held while a step waits for a node or the database.
 * Writes go in groups, each with a token, a condition and an answer of its own; so do reads.
 *
 * No socket, no clock, no database: each flow yields its requests to them as steps. The database thread runs flows with
 * promises; the explorer tries their steps in every order.
 */
export class Flows {
  readonly counts = {
    readsCacheable: 0,
    readsUncacheable: 0,
    writesCommitted: 0,
    writesRefused: 0,
    writesRevoked: 0,
    writesFailed: 0,
    writesUnknown: 0,
    groups: 0,
  };
  /** Epoch of the origin that has taken over; 0: none has. */
  #successor = 0;
  /** Whether the right to serve has been given up for good: a renewal that is under way has no effect. */
  #isEnding = false;
  /** Whether reads are answered, and kept nowhere. */
  isSuspended = false;
  readonly states: TokenStates;
  readonly #patienceMs: number;
  /** Tokens taken for one write whose outcome is unknown, and for which no client waits any more. */
  readonly #unanswered = new Set<number>();
  readonly ugetKeys = new UgetKeys();

  /**
   * @param patienceMs How long a write waits for its outcome, if the database does not say it.
   */
  constructor(states: TokenStates, patienceMs: number) {
    this.states = states;
    this.#patienceMs = patienceMs;
  }

  /** Whether another origin has taken over: this one answers no read as cacheable, and writes nothing. */
  get isDeposed(): boolean {
    return this.#successor !== 0;
  }

  /** Why a deposed origin refuses requests. */
  get deposedText(): string {
    const { epoch } = this.states;
    return `another server has taken the database over: epoch ${this.#successor} replaced epoch ${epoch}`;
  }

  /**
   * Reads rows. A read may join another one that has not made its check yet, never a later one.
   *
   * @param isReadable Whether the readers' cache may keep what is read.
   * @returns The rows in the order of the keys.
   * @throws The database's error.
   */
  *read(keys: readonly string[], isReadable = true): RowFlow<readonly Read[]> {
    // In this order: a token that is taken after the read began must find the lease in the cache.
    const areCacheable = keys.map((key) => this.states.isCacheable(key));
    const found = yield* this.#readRows(keys);
    assert(found.length === keys.length, "a read answers every key");
    return found.map((each, index) => {
      const cacheable = areCacheable[index]! && isReadable && !this.isDeposed &&
        !this.isSuspended && each.isKept !== false;
      this.counts[cacheable ? "readsCacheable" : "readsUncacheable"]++;
      return { ...each, cacheable };
    });
  }

  /**
   * Reads rows for `uget`: its client may keep those that are cacheable, in caches that this origin does not know.
   *
   * @throws The database's error.
   */
  *uget(keys: readonly string[]): RowFlow<readonly Read[]> {
    // Before the read: a change that it does not find must find the key here.
    if (!this.isDeposed && !this.isSuspended) {
      for (const key of keys) if (this.states.isCacheable(key)) this.ugetKeys.add(key);
    }
    return yield* this.read(keys);
  }

  /**
   * Notes changes in the log.
   *
   * @param appliedMs All changes that were made by then had been applied before, on the clock of the states.
   */
  noteChanges(changed: KeySet, appliedMs: number): void {
    this.ugetKeys.change(changed, appliedMs, (key) => !this.states.isCacheable(key));
  }

  /**
   * Learns whether another origin has taken over; if none has, renews the right to serve rows from the cache, which
   * begins when the database is asked.
   *
   * @param rightMs How long it lasts.
   * @throws The database's error. GoneError has ended the right.
   */
  *renewRight(right: Right, rightMs: number): RowFlow<void> {
    assert(rightMs > 0, "a right lasts for some time");
    const askedMs = right.nowMs();
    let epoch;
    try {
      epoch = yield* step({ kind: "readEpoch" });
    } catch (error) {
      if (error instanceof GoneError) right.end();
      throw error;
    }
    if (epoch !== this.states.epoch) this.#successor = epoch;
    if (this.isDeposed || this.#isEnding) right.end();
    else right.renew(askedMs + rightMs);
  }

  /** Gives the right up for good, and notes that: the next origin need not wait. @throws The database's error. */
  *endRight(right: Right): RowFlow<void> {
    this.#isEnding = true;
    right.end();
    yield* step({ kind: "noteEnd", epoch: this.states.epoch });
  }

  *#readRows(keys: readonly string[]): RowFlow<readonly Found[]> {
    const found = yield* step({ kind: "readRows", keys });
    for (const { epoch } of found) if (epoch !== this.states.epoch) this.#successor = epoch;
    return found;
  }

  /**
   * Executes writes together: takes a token for each, deletes their keys, commits, releases.
   *
   * @returns The replies, in the order of the writes.
   */
  *write(writes: readonly RowWrite[]): RowFlow<readonly WriteReply[]> {
    this.counts.groups++;
    for (const write of writes) this.#begin(write);
    const group = writes.filter(({ start }) => start === "begun");
    if (group.length > 0) yield* this.#deleteAndWrite(group);
    assert(group.every(({ reply }) => reply !== undefined), "a write that began has an end");
    for (const write of writes) write.reply ??= yield* this.#askOutcome(write);
    return writes.map((write) => this.#end(write));
  }

  /** Takes a token, and begins to write under it. A write that was postponed begins anew. */
  #begin(write: RowWrite): void {
    try {
      write.tokenId = write.writerTokenId || this.states.get(write.key, "");
    } catch (error) {
      if (!(error instanceof TokenLimitError)) throw error;
      write.start = "refused";
      write.reply = { kind: "failed", reason: error.message };
      return;
    }
    write.owner = this.states.ownerOf(write.key, write.tokenId);
    const start = this.states.beginPut(write.key, write.tokenId);
    write.start = start.kind;
    write.reply = replyOf(start);
  }

  get #deposedReply(): WriteReply {
    return { kind: "failed", reason: this.deposedText };
  }

  /** Deletes the keys of a group, then writes it. Sets the replies. */
  *#deleteAndWrite(group: readonly RowWrite[]): RowFlow<void> {
    if (this.isDeposed) {
      for (const each of group) this.#fail(each, this.#deposedReply);
      return;
    }
    // A node that joins later reads keys with a token as not cacheable.
    const freed = yield* step({
      kind: "delete",
      keys: group.map(({ key }) => key),
      prefixes: [],
      writers: group.map(({ connection }) => connection),
    });
    assert(freed.length === group.length, "the cache answers for every key of a group");
    for (const [index, each] of group.entries()) {
      if (!freed[index]) this.#fail(each, { kind: "locked" });
    }
    const written = group.filter(({ reply }) => reply === undefined);
    if (written.length === 0) return;
    yield* this.#writeRows(written);
  }

  *#writeRows(group: readonly RowWrite[]): RowFlow<void> {
    if (this.isDeposed) {
      for (const each of group) this.#fail(each, this.#deposedReply);
      return;
    }
    let results: readonly WriteResult[];
    try {
      results = yield* step({ kind: "writeRows", writes: group, epoch: this.states.epoch });
    } catch (error) {
      const reason = reasonOf(error);
      results = group.map(() => ({ kind: "unknown", reason }));
    }
    assert(results.length === group.length, "the database answers every write of a group");
    const unknown: RowWrite[] = [];
    for (const [index, each] of group.entries()) {
      const result = results[index]!;
      if (result.kind === "fenced") {
        this.#successor = result.epoch;
        this.#fail(each, this.#deposedReply);
        continue;
      }
      this.#noteWrite(each, result);
      if (result.kind === "unknown") {
        this.states.endPut(each.key, each.tokenId, { kind: "unknown" });
        each.reply = result;
        unknown.push(each);
      } else {
        this.#settle(each, result);
      }
    }
    yield* this.#askAgain(unknown);
  }

  /** A writer with a token of its own has deleted the key in the caches of clients. */
  #noteWrite({ key, writerTokenId }: RowWrite, { kind }: WriteResult): void {
    if (kind !== "committed" && kind !== "unknown") return;
    this.ugetKeys.write(key, writerTokenId !== 0, this.states.nowMs());
  }

  /** Asks for outcomes that the database has not said, for a while. */
  *#askAgain(unknown: readonly RowWrite[]): RowFlow<void> {
    let left = unknown;
    for (let waitedMs = 0, waitMs = OUTCOME_WAIT_MS; left.length > 0; waitMs *= 2) {
      for (const each of left) {
        const reply = yield* this.resolve(each.key, each.tokenId);
        if (reply.kind !== "busy") each.reply = reply;
      }
      left = left.filter(({ reply }) => reply!.kind === "unknown");
      if (waitedMs >= this.#patienceMs) break;
      if (left.length > 0) yield* step({ kind: "sleep", ms: waitMs });
      waitedMs += waitMs;
    }
    for (const { writerTokenId, tokenId } of left) {
      if (writerTokenId === 0) this.#unanswered.add(tokenId);
    }
  }

  /**
   * Asks once for the outcome of every write that is unknown. Ends the tokens of those that no client waits for.
   *
   * @returns How many are left.
   */
  *resolveUnknown(): RowFlow<number> {
    let left = 0;
    for (const { id, key, state } of [...this.states.list()]) {
      if (state !== "unknown") continue;
      const reply = yield* this.resolve(key, id);
      if (reply.kind === "unknown") {
        left++;
      } else if (this.#unanswered.delete(id)) {
        this.states.release(key, id);
      }
    }
    return left;
  }

  /** Asks the database for the outcome of a write that is unknown. */
  *resolve(key: string, tokenId: number): RowFlow<WriteReply> {
    const write = new RowWrite({ key, edit: "delete", writerTokenId: tokenId });
    this.#begin(write);
    if (write.start === "begun") {
      this.#fail(write, { kind: "failed", reason: "the database did not write it" });
    }
    return write.reply ?? (yield* this.#askOutcome(write));
  }

  /** Asks for the outcome of a write that is unknown, or was forgotten. */
  *#askOutcome({ key, tokenId, start }: RowWrite): RowFlow<WriteReply> {
    if (start === "none" && epochOf(tokenId) > this.states.epoch) {
      return yield* this.#askSuccessor(tokenId);
    }
    const outcome = yield* this.#outcome(tokenId);
    // A token of an earlier epoch, or one that was forgotten, may have been applied all the same.
    if (start === "none") return outcome.kind === "notApplied" ? { kind: "none" } : outcome;
    if (outcome.kind === "notApplied") {
      this.states.endPut(key, tokenId, { kind: "failed" });
      return { kind: "failed", reason: "the database did not write it" };
    }
    this.states.endPut(key, tokenId, outcome);
    return outcome;
  }

  /** The origin that has taken over may have a write under its token in progress: the database cannot tell. */
  *#askSuccessor(tokenId: number): RowFlow<WriteReply> {
    try {
      // Or nobody has given the id.
      if ((yield* step({ kind: "readEpoch" })) < epochOf(tokenId)) return { kind: "none" };
    } catch {
      // Perhaps there is one.
    }
    return { kind: "unknown", reason: OF_SUCCESSOR };
  }

  *#outcome(tokenId: number): RowFlow<WriteOutcome> {
    try {
      return yield* step({ kind: "askOutcome", tokenId });
    } catch (error) {
      return { kind: "unknown", reason: reasonOf(error) };
    }
  }

  #settle(
    each: RowWrite,
    result: WriteReply & { kind: "committed" | "refused" | "failed" | "postponed" },
  ): void {
    if (result.kind !== "committed") return this.#fail(each, result);
    const isForgotten = each.writerTokenId === 0;
    this.states.endPut(each.key, each.tokenId, { ...result, isForgotten });
    each.reply = result;
  }

  /** Ends a write that certainly wrote nothing. */
  #fail(each: RowWrite, reply: WriteReply): void {
    this.states.endPut(each.key, each.tokenId, { kind: "failed" });
    each.reply = reply;
  }

  /** Counts a write, and releases the token that was taken for it. */
  #end({ key, writerTokenId, tokenId, reply }: RowWrite): WriteReply {
    const { kind } = reply!;
    if (kind !== "postponed") this.counts[COUNT_OF[kind]]++;
    if (writerTokenId === 0) this.states.release(key, tokenId);
    return reply!;
  }
}

/** Returns the reply of a write that is not to be made; undefined: it is, or the database is to be asked. */
function replyOf(start: PutStart): WriteReply | undefined {
  if (start.kind === "used") return { kind: "committed", version: start.version };
  return start.kind === "revoked" || start.kind === "busy" ? start : undefined;
}
