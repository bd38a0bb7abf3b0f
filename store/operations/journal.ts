import { assert } from "../base/assert.ts";
import type { StoreParts } from "./parts.ts";
import { ByteRegion } from "../base/bytes.ts";
import { highHalf, lowHalf, u64ToNumber } from "../base/u64.ts";
import type { TokenQueue } from "../claims/token_queue.ts";
import { viewToken } from "../claims/token_view.ts";
import type { TokenWaiters } from "../claims/token_waiters.ts";
import { NO_TOKEN, type TokenRef, type UpdateTokens } from "../claims/update_tokens.ts";
import { Operation } from "../operation.ts";
import type { Flush } from "../space/flush.ts";
import type { ItemLinks } from "../items/item_links.ts";
import { NO_ITEM } from "../memory/item.ts";
import { CONTROL } from "../memory/memory.ts";
import { TOKEN_RECORD as RECORD, TokenRecordType } from "../memory/token_record.ts";
import { STAT } from "../stats.ts";
import { WatchEvent } from "../watch/watch_log.ts";

/** The operations of the journal of update tokens: restores tokens, and settles those that are on the disk. */
export class JournalOperations {
  /** The records to be written. */
  readonly queue: TokenQueue;
  readonly #links: ItemLinks;
  readonly #tokens: UpdateTokens;
  readonly #waiters: TokenWaiters;
  readonly #control: Int32Array;
  readonly #stats: Float64Array;
  #notedSyncs = 0;
  readonly #flush: Flush;

  constructor(parts: StoreParts) {
    const { links, guard, waiters, flush, queue } = parts;
    this.#flush = flush;
    this.queue = queue;
    this.#links = links;
    this.#tokens = guard.tokens;
    this.#waiters = waiters;
    this.#control = links.memory.control;
    this.#stats = links.memory.stats;
  }

  /**
   * Puts a token into the table that was out before the process started. To be called with the oldest first.
   *
   * @returns False when the table is full.
   */
  restore(
    key: Uint8Array,
    owner: Uint8Array,
    peer: Uint8Array,
    sinceUnixSec: number,
    id: number,
  ): boolean {
    const input = new ByteRegion(new Uint8Array([...key, ...owner, ...peer]).buffer);
    const operation = new Operation(input);
    operation.keyLength = operation.tagOffset = key.length;
    operation.tagLength = owner.length;
    operation.peerOffset = key.length + owner.length;
    operation.peerLength = peer.length;
    operation.idLow = lowHalf(id);
    operation.idHigh = highHalf(id);
    operation.hash = this.#links.index.hash(input, 0, key.length);
    // Nothing is cached under a key whose token is out; a snapshot may have an item of an earlier time.
    const { index } = this.#links;
    const item = index.find(operation);
    if (item !== NO_ITEM) this.#links.unlink(item, operation.hash);
    return this.#tokens.restore(operation, sinceUnixSec) !== NO_TOKEN;
  }

  /** Whether an operator, or a start without the journal, has put all keys into quarantine. */
  get isQuarantined(): boolean {
    return this.#tokens.isInQuarantine;
  }

  /** Resumes the quarantine of an earlier process. Items of a snapshot go. */
  restoreQuarantine(): void {
    this.#flush.now();
    this.#tokens.quarantine(true);
  }

  /**
   * Lets nothing be stored or leased, or ends that: the journal cannot be read, or ids cannot be reserved. Values and
   * leases go.
   */
  close(on: boolean): void {
    this.#tokens.close(on);
    if (on) this.#flush.now();
  }

  /** The last id that was handed out. */
  get lastId(): number {
    return u64ToNumber(this.#control[CONTROL.ID_LOW]!, this.#control[CONTROL.ID_HIGH]!);
  }

  /** Makes all ids from now on larger than this one. */
  raiseId(id: number): void {
    if (id <= this.lastId) return;
    this.#control[CONTROL.ID_LOW] = lowHalf(id);
    this.#control[CONTROL.ID_HIGH] = highHalf(id);
  }

  /**
   * Settles records: a written token is out from now on, an unwritten one is removed.
   *
   * @param start The first record, in bytes.
   * @param end The byte behind the last record.
   * @param most Maximum number of records to settle.
   * @returns Where the next record starts.
   */
  settle(
    records: ByteRegion,
    start: number,
    end: number,
    most: number,
    isWritten: boolean,
  ): number {
    const { bytes, view } = records;
    let at = start;
    for (let count = 0; at < end && count < most; count++) {
      const keyOffset = at + RECORD.DATA;
      const keyLength = bytes[at + RECORD.KEY_LENGTH]!;
      if (bytes[at + RECORD.TYPE] === TokenRecordType.GET) {
        const idLow = view.getInt32(at + RECORD.ID, true);
        const idHigh = view.getInt32(at + RECORD.ID + 4, true);
        const hash = this.#links.index.hash(records, keyOffset, keyLength);
        const key = { input: records, keyOffset, keyLength, hash };
        this.#settleToken(this.#tokens.withId(key, idLow, idHigh), isWritten);
      }
      at = keyOffset + keyLength + bytes[at + RECORD.OWNER_LENGTH]! +
        bytes[at + RECORD.PEER_LENGTH]!;
    }
    assert(at <= end, "the journal's records end with a whole one");
    return at;
  }

  /** Ends the waiting of all connections whose records lie before `position`. */
  settleWaiters(position: number): void {
    this.#waiters.settle(position, this.#tokens);
  }

  /** @param syncs How often the journal was synced to the disk since the process started. */
  noteSyncs(syncs: number): void {
    this.#stats[STAT.token_journal_syncs]! += syncs - this.#notedSyncs;
    this.#notedSyncs = syncs;
  }

  #settleToken(token: TokenRef, isWritten: boolean): void {
    if (!isWritten) this.#stats[STAT.token_journal_errors]! += 1;
    if (token === NO_TOKEN) return;
    if (isWritten) return this.#tokens.settle(token);
    const { watchLog } = this.#links;
    if (watchLog.wants(WatchEvent.TOKENS)) {
      const { key, id, owner } = viewToken(this.#tokens, token);
      watchLog.token("failed", key, id, owner);
    }
    this.#tokens.remove(token);
  }
}
