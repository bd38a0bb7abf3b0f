import { ByteRegion } from "../base/bytes.ts";
import { highHalf, lowHalf, u64ToNumber } from "../base/u64.ts";
import type { Locks } from "../claims/locks.ts";
import type { TokenQueue } from "../claims/token_queue.ts";
import { viewToken } from "../claims/token_view.ts";
import { NO_TOKEN, type UpdateTokens } from "../claims/update_tokens.ts";
import { NO_WAITER } from "../claims/waiters.ts";
import type { Flush } from "../space/flush.ts";
import type { ItemLinks } from "../items/item_links.ts";
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
  readonly #locks: Locks;
  readonly #control: Int32Array;
  readonly #stats: Float64Array;
  #notedSyncs = 0;
  readonly #flush: Flush;

  constructor(
    links: ItemLinks,
    tokens: UpdateTokens,
    locks: Locks,
    flush: Flush,
    queue: TokenQueue,
  ) {
    this.#flush = flush;
    this.queue = queue;
    this.#links = links;
    this.#tokens = tokens;
    this.#locks = locks;
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
    const region = new ByteRegion(key.slice().buffer);
    const hash = this.#links.index.hash(region, 0, key.length);
    const names = new ByteRegion(new ArrayBuffer(owner.length + peer.length));
    names.bytes.set(owner);
    names.bytes.set(peer, owner.length);
    const token = this.#tokens.restore(
      region,
      key.length,
      hash,
      names,
      owner.length,
      peer.length,
      sinceUnixSec,
      lowHalf(id),
      highHalf(id),
    );
    return token !== NO_TOKEN;
  }

  /** Whether an operator, or a start without the journal, has put all keys into quarantine. */
  get isQuarantined(): boolean {
    return this.#tokens.isInQuarantine;
  }

  /** Begins the quarantine of an earlier process anew. To be called on an empty store. */
  restoreQuarantine(): void {
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
   * The journal has, or has not, written some records: the tokens that it has are out, the others are none.
   *
   * @param start The first record, in bytes.
   * @param end The byte behind the last record.
   * @param most So many records at most.
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
        this.#settleToken(records, keyOffset, keyLength, idLow, idHigh, isWritten);
      }
      at = keyOffset + keyLength + bytes[at + RECORD.OWNER_LENGTH]! +
        bytes[at + RECORD.PEER_LENGTH]!;
    }
    return at;
  }

  /** Ends the waiting of all connections whose records lie before `position`. */
  settleWaiters(position: number): void {
    const { waiters } = this.#locks;
    for (;;) {
      const waiter = waiters.firstForJournal(position);
      if (waiter === NO_WAITER) return;
      const token = waiters.tokenOf(waiter);
      // Another token may have the record, but not the id.
      const isOut = this.#tokens.hasId(token, waiters.idLow(waiter), waiters.idHigh(waiter)) &&
        !this.#tokens.isPending(token);
      waiters.finishForJournal(waiter, isOut);
    }
  }

  /** @param syncs How often the journal was synced to the disk since the process started. */
  noteSyncs(syncs: number): void {
    this.#stats[STAT.token_journal_syncs]! += syncs - this.#notedSyncs;
    this.#notedSyncs = syncs;
  }

  #settleToken(
    region: ByteRegion,
    keyOffset: number,
    keyLength: number,
    idLow: number,
    idHigh: number,
    isWritten: boolean,
  ): void {
    const hash = this.#links.index.hash(region, keyOffset, keyLength);
    const token = this.#tokens.withId(region, keyOffset, keyLength, hash, idLow, idHigh);
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
