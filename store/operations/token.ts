import type { StoreParts } from "./parts.ts";
import { latin1Text } from "../base/bytes.ts";
import { u64ToNumber } from "../base/u64.ts";
import { NO_LEASE } from "../claims/leases.ts";
import type { Locks } from "../claims/locks.ts";
import type { TokenQueue } from "../claims/token_queue.ts";
import { type TokenView, viewToken } from "../claims/token_view.ts";
import type { TokenWaiters } from "../claims/token_waiters.ts";
import { NO_TOKEN, type TokenRef, type UpdateTokens } from "../claims/update_tokens.ts";
import { NO_WAITER } from "../claims/waiters.ts";
import type { WriteGuard } from "../claims/write_guard.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { NO_ITEM } from "../memory/item.ts";
import type { StoreOptions } from "../limits.ts";
import { CONTROL } from "../memory/memory.ts";
import { TOKEN_RECORD as RECORD, TokenRecordType } from "../memory/token_record.ts";
import type { Operation } from "../operation.ts";
import { Outcome } from "../outcome.ts";
import type { Flush } from "../space/flush.ts";
import { STAT } from "../stats.ts";
import { type TokenEvent, WatchEvent } from "../watch/watch_log.ts";
import type { Lookup } from "./lookup.ts";

/** Locked items that quarantine removes under one hold of the mutex. */
const LOCKED_SLICE = 256;

/**
 * The operations that take update tokens, give them back and drop them, and quarantine. They tell the queue of the
 * journal what they do.
 */
export class TokenOperations {
  /** Connections that wait for the journal. */
  readonly waiters: TokenWaiters;
  readonly #tokens: UpdateTokens;
  readonly #queue: TokenQueue;
  readonly #links: ItemLinks;
  readonly #lookup: Lookup;
  readonly #guard: WriteGuard;
  readonly #locks: Locks;
  readonly #flush: Flush;
  readonly #stats: Float64Array;
  readonly #control: Int32Array;
  readonly #persistence: StoreOptions["tokenPersistence"];

  constructor(parts: StoreParts) {
    const { links, lookup, guard, locks, flush, queue, waiters } = parts;
    this.waiters = waiters;
    this.#tokens = guard.tokens;
    this.#queue = queue;
    this.#links = links;
    this.#lookup = lookup;
    this.#guard = guard;
    this.#locks = locks;
    this.#flush = flush;
    this.#stats = links.memory.stats;
    this.#control = links.memory.control;
    this.#persistence = links.memory.options.tokenPersistence;
  }

  /**
   * Gives the asker an update token on the key: its value and its lease go, and nothing is stored under it until all
   * its tokens are released. An owner that has a token on the key already gets the same one.
   *
   * @returns OK (the id is in `operation.idLow/High`), WAITING (`operation.waiter`: until it is on the disk), LOCKED,
   *   TOKENS_OFF, TOO_MANY_TOKENS or NOT_PERSISTED.
   */
  get(operation: Operation): Outcome {
    if (this.#persistence === "off") return Outcome.TOKENS_OFF;
    const journaled = this.#persistence === "journal";
    if (journaled && this.#queue.isUnusable) return this.#notPersisted();
    this.#links.prefetch.addHash(operation);
    const item = this.#lookup.live(operation);
    if (item !== NO_ITEM && this.#guard.isLockedByOther(item, operation.owner)) {
      return Outcome.LOCKED;
    }
    let token = this.#tokens.withOwner(operation);
    if (token === NO_TOKEN) {
      token = this.#tokens.add(operation);
      if (token === NO_TOKEN) return Outcome.TOO_MANY_TOKENS;
      if (!journaled) this.#tokens.settle(token);
      else if (!this.#tell(TokenRecordType.GET, token)) {
        this.#tokens.remove(token);
        return this.#notPersisted();
      }
      this.#invalidate(operation);
      this.#stats[STAT.token_get]! += 1;
      this.#report("get", token);
    }
    operation.idLow = this.#tokens.idLow(token);
    operation.idHigh = this.#tokens.idHigh(token);
    return this.#tokens.isPending(token) ? this.#wait(operation, token) : Outcome.OK;
  }

  /**
   * Ends the token with the id `operation.compareLow/High`. The key is invalidated in any case.
   *
   * @returns OK, or NOT_FOUND when no such token is out.
   */
  release(operation: Operation): Outcome {
    const { compareLow, compareHigh } = operation;
    this.#links.prefetch.addHash(operation);
    const token = this.#tokens.withId(operation, compareLow, compareHigh);
    if (token === NO_TOKEN || this.#tokens.isPending(token)) {
      this.#invalidate(operation);
      this.#stats[STAT.token_release_unknown]! += 1;
      this.#reportUnknown(operation);
      return Outcome.NOT_FOUND;
    }
    this.#report("release", token);
    this.#remove(token);
    this.#stats[STAT.token_release]! += 1;
    return Outcome.OK;
  }

  /**
   * Ends up to `most` of the key's tokens, the newest first, without asking their owners. With `operation.compare` only
   * the one with the id `operation.compareLow/High`.
   *
   * @param lastId Newer tokens stay.
   * @param visit Called with each before it ends.
   * @returns How many there were; fewer than `most` if none is left.
   */
  drop(
    operation: Operation,
    most = Infinity,
    lastId = Infinity,
    visit: (token: TokenView) => void = () => {},
  ): number {
    const { compareLow, compareHigh } = operation;
    this.#links.prefetch.addHash(operation);
    let dropped = 0;
    let token = this.#tokens.first(operation);
    while (token !== NO_TOKEN && dropped < most) {
      const next = this.#tokens.next(token, operation);
      const isMeant = operation.compare
        ? this.#tokens.hasId(token, compareLow, compareHigh)
        : this.#idOf(token) <= lastId;
      if (isMeant) {
        visit(viewToken(this.#tokens, token));
        this.#drop(token);
        dropped++;
      }
      token = next;
    }
    return dropped;
  }

  /**
   * Ends up to `most` tokens, the newest first, without asking their owners. A bucket of the table begins with its
   * newest token, so that each is found at once, however many a key has.
   *
   * @param lastId Newer tokens stay.
   * @returns How many there were; fewer than `most` if none is left.
   */
  dropNewest(most: number, lastId = Infinity): number {
    let dropped = 0;
    let token = this.#tokens.newest;
    while (token !== NO_TOKEN && dropped < most) {
      const older = this.#tokens.older(token);
      if (this.#idOf(token) <= lastId) {
        this.#drop(token);
        dropped++;
      }
      token = older;
    }
    return dropped;
  }

  /** The id of the newest token; 0: none is out. */
  get newestId(): number {
    const { newest } = this.#tokens;
    return newest === NO_TOKEN ? 0 : this.#idOf(newest);
  }

  /** How many update tokens the key has. */
  countOf(operation: Operation): number {
    if (!this.#tokens.isAnyOut) return 0;
    this.#links.prefetch.addHash(operation);
    let count = 0;
    let token = this.#tokens.first(operation);
    for (; token !== NO_TOKEN; token = this.#tokens.next(token, operation)) {
      count++;
    }
    return count;
  }

  /**
   * Makes every key uncacheable, or ends that. Values and leases go; locked values go by `removeLocked`. The journal
   * keeps it across a restart.
   */
  quarantine(on: boolean): void {
    this.#tokens.quarantine(on);
    this.#control[CONTROL.QUARANTINE_END_SEC] = 0;
    if (on) this.#flush.now();
    if (this.#persistence !== "journal") return;
    this.#queue.record.bytes.fill(0, 0, RECORD.DATA);
    const type = on ? TokenRecordType.QUARANTINE_ON : TokenRecordType.QUARANTINE_OFF;
    if (!this.#queue.put(type, 0, 0, 0)) this.#queue.loseRecord();
  }

  /** Makes every key uncacheable for so many seconds. To be called on an empty store. */
  quarantineFor(seconds: number): void {
    if (seconds === 0) return;
    this.#tokens.quarantine(true);
    this.#control[CONTROL.QUARANTINE_END_SEC] = this.#control[CONTROL.NOW_SEC]! + seconds;
  }

  /** Ends a quarantine whose time is over. */
  endQuarantine(): void {
    const endSec = this.#control[CONTROL.QUARANTINE_END_SEC]!;
    if (endSec !== 0 && endSec <= this.#control[CONTROL.NOW_SEC]!) this.quarantine(false);
  }

  /**
   * Removes locked items, their locks with them.
   *
   * @param from The row of the table of locks to begin with.
   * @returns The row to go on with, or 0 at the end.
   */
  removeLocked(from: number): number {
    const end = Math.min(from + LOCKED_SLICE, this.#locks.rowEnd);
    for (let row = from; row < end; row++) {
      const item = this.#locks.itemOf(row);
      if (item !== NO_ITEM) this.#lookup.unlink(item, this.#links.index.hashOf(item));
    }
    return end < this.#locks.rowEnd ? end : 0;
  }

  // --- private -----------------------------------------------------------------------------------

  #idOf(token: TokenRef): number {
    return u64ToNumber(this.#tokens.idLow(token), this.#tokens.idHigh(token));
  }

  #wait(operation: Operation, token: TokenRef): Outcome {
    operation.waiter = this.waiters.enqueue(operation, token, this.#queue.head);
    // The token may be out all the same; asking again finds out.
    return operation.waiter === NO_WAITER ? Outcome.NOT_PERSISTED : Outcome.WAITING;
  }

  #notPersisted(): Outcome {
    this.#stats[STAT.token_journal_errors]! += 1;
    return Outcome.NOT_PERSISTED;
  }

  /** Takes away what is stored or leased under the key, and forgets that it is dirty. */
  #invalidate(operation: Operation): void {
    const item = this.#lookup.live(operation);
    if (item !== NO_ITEM) this.#lookup.unlink(item, operation.hash);
    const { leases } = this.#guard;
    const lease = leases.find(operation);
    if (lease !== NO_LEASE) leases.drop(lease, operation.hash);
  }

  #drop(token: TokenRef): void {
    this.#report("drop", token);
    this.#remove(token);
    this.#stats[STAT.token_dropped]! += 1;
  }

  #remove(token: TokenRef): void {
    if (this.#persistence === "journal") {
      if (!this.#tell(TokenRecordType.RELEASE, token)) this.#queue.loseRecord();
    }
    this.#tokens.remove(token);
  }

  /** Reports to watchers. */
  #report(event: TokenEvent, token: TokenRef): void {
    const { watchLog } = this.#links;
    if (!watchLog.wants(WatchEvent.TOKENS)) return;
    const { key, id, owner } = viewToken(this.#tokens, token);
    watchLog.token(event, key, id, owner);
  }

  /** Reports the release of a token that is not out to watchers. */
  #reportUnknown({ input, keyOffset, keyLength, compareLow, compareHigh }: Operation): void {
    const { watchLog } = this.#links;
    if (!watchLog.wants(WatchEvent.TOKENS)) return;
    const key = latin1Text(input.bytes, keyOffset, keyLength);
    watchLog.token("release_unknown", key, u64ToNumber(compareLow, compareHigh), "");
  }

  #tell(type: TokenRecordType, token: TokenRef): boolean {
    const tokens = this.#tokens;
    const queue = this.#queue;
    const { bytes } = queue.record;
    bytes[RECORD.KEY_LENGTH] = tokens.keyLength(token);
    bytes[RECORD.OWNER_LENGTH] = tokens.ownerLength(token);
    bytes[RECORD.PEER_LENGTH] = tokens.peerLength(token);
    tokens.copyData(token, queue.record, RECORD.DATA);
    return queue.put(type, tokens.idLow(token), tokens.idHigh(token), tokens.sinceUnixSec(token));
  }
}
