import type { Cache } from "../../store/cache.ts";
import { TOKEN_RECORD as RECORD, TokenRecordType } from "../../store/setup.ts";
import type { TransportEvent } from "../net/transport.ts";
import { reasonOf } from "./state_folder.ts";
import type { TokenJournal } from "./token_journal.ts";
import { encodeRecord } from "./token_records.ts";

/** Releases are on the disk at the latest this long after their reply, if the disk is willing. */
const LAZY_SYNC_MS = 200;
/** How often it is looked whether ids have to be reserved. */
const IDLE_MS = 1000;
/** Ids reserved at once: at ten million changes a second they last for seven minutes. */
const ID_BLOCK = 2 ** 32;
/** With fewer reserved ids left, nothing that takes ids is allowed any more. */
const ID_MARGIN = 2 ** 24;
/** Records of tokens settled under one hold of the mutex. */
const SETTLE_SLICE = 256;
/** Buckets of the table looked at under one hold of the mutex. */
const COMPARE_SLICE = 1024;

/**
 * Writes what the threads put into the queue of records: all that is there with one sync, and then tells those that
 * wait. It runs in a thread of its own, which may sleep and wait for the disk.
 */
export class JournalLoop {
  readonly #cache: Cache;
  readonly #journal: TokenJournal;
  readonly #report: (event: TransportEvent) => void;
  #reservedId = 0;
  /** Whether the last write failed. */
  #isFailing = false;
  /** Whether all keys are in quarantine because ids could not be reserved. */
  #isOutOfIds = false;

  constructor(cache: Cache, journal: TokenJournal, report: (event: TransportEvent) => void) {
    this.#cache = cache;
    this.#journal = journal;
    this.#report = report;
  }

  /**
   * Puts the journal's tokens into the table, and reserves ids.
   *
   * @throws RangeError when the table is too small for them.
   * @throws What the disk says.
   */
  restore(): void {
    const cache = this.#cache;
    const out = [...this.#journal.tokens.tokens.values()]
      .sort((a, b) => a.sinceUnixSec - b.sinceUnixSec);
    cache.enter();
    const isRestored = out.every(({ key, owner, peer, sinceUnixSec, id }) =>
      cache.journal.restore(key, owner, peer, sinceUnixSec, id)
    );
    cache.journal.raiseId(this.#journal.tokens.idLimit);
    cache.leave();
    if (!isRestored) {
      throw new RangeError(
        `the journal has ${out.length} update tokens, more than --token-entries has room for`,
      );
    }
    this.#reserve();
  }

  /** Serves the queue until it is told to stop and everything is written. */
  run(): void {
    const { queue } = this.#cache.journal;
    for (;;) {
      // In this order: what was put into the queue before the stop is written.
      const isStopping = queue.isStopping;
      const { head } = queue;
      if (this.writeQueued()) continue;
      if (isStopping) break;
      this.#idle(head);
    }
    this.#try("sync", () => this.#journal.sync());
    this.#journal.close();
  }

  /** Writes what is in the queue. @returns Whether there was anything. */
  writeQueued(): boolean {
    const records = this.#cache.journal.queue.peek();
    if (records.length > 0) this.#write(records);
    return records.length > 0;
  }

  #idle(head: number): void {
    const { queue } = this.#cache.journal;
    if (queue.takeReleasesLost()) this.#compare();
    this.#reserveInTime();
    queue.wait(head, this.#journal.isUnsynced ? LAZY_SYNC_MS : IDLE_MS);
    if (queue.head === head && this.#journal.isUnsynced) {
      this.#try("sync", () => this.#journal.sync());
    }
  }

  #write(records: Uint8Array<ArrayBuffer>): void {
    const mustSync = hasGet(records);
    const isWritten = this.#try("write", () => this.#journal.append(records, mustSync));
    const cache = this.#cache;
    const position = cache.journal.queue.take(records.length);
    cache.enter();
    for (let at = 0; at < records.length;) {
      at = cache.journal.settle(records, at, SETTLE_SLICE, isWritten);
      cache.yieldMutex();
    }
    cache.journal.noteSyncs(this.#journal.syncs);
    cache.journal.settleWaiters(position);
    cache.leave();
    if (this.#isOutOfIds) this.#reserveInTime();
  }

  /** Does something that the disk may refuse, and reports when that begins and ends. @returns Whether it worked. */
  #try(what: string, act: () => void): boolean {
    try {
      act();
    } catch (error) {
      if (!this.#isFailing) {
        const reason = reasonOf(error);
        this.#report({
          level: "error",
          event: "journal_failed",
          message: `cannot ${what} the journal of update tokens: ${reason}; ` +
            "token get is refused until that works again",
          fields: { reason },
        });
      }
      this.#isFailing = true;
      return false;
    }
    if (this.#isFailing) {
      this.#report({
        level: "warning",
        event: "journal_recovered",
        message: "the journal of update tokens can be written again",
      });
    }
    this.#isFailing = false;
    return true;
  }

  /** Declares that ids up to a block beyond the last one may be handed out. */
  #reserve(): void {
    const id = this.#cache.journal.lastId + ID_BLOCK;
    this.#journal.append(encodeRecord(TokenRecordType.ID_LIMIT, { id }), true);
    this.#reservedId = id;
  }

  #reserveInTime(): void {
    this.#cache.enter();
    const left = this.#reservedId - this.#cache.journal.lastId;
    this.#cache.leave();
    if (left > ID_BLOCK / 2) return;
    const isReserved = this.#try("write", () => this.#reserve());
    if (isReserved !== this.#isOutOfIds && (isReserved || left > ID_MARGIN)) return;
    this.#isOutOfIds = !isReserved;
    this.#cache.enter();
    this.#cache.tokens.quarantine(this.#isOutOfIds);
    this.#cache.leave();
  }

  /** Writes the releases that found no room in the queue: what the journal has and the table has not. */
  #compare(): void {
    const cache = this.#cache;
    const { inspector } = cache;
    const inTable = new Set<number>();
    cache.enter();
    for (let bucket = 0; bucket < inspector.tokenBucketCount; bucket += COMPARE_SLICE) {
      const end = Math.min(bucket + COMPARE_SLICE, inspector.tokenBucketCount);
      inspector.visitTokens(bucket, end, ({ id }) => {
        inTable.add(id);
      });
      cache.yieldMutex();
    }
    cache.leave();
    for (const id of [...this.#journal.tokens.tokens.keys()]) {
      if (inTable.has(id)) continue;
      const record = encodeRecord(TokenRecordType.RELEASE, { id });
      this.#try("write", () => this.#journal.append(record, false));
    }
  }
}

/** Whether there is a token among some records that must be on the disk before its reply. */
function hasGet(records: Uint8Array): boolean {
  for (let at = 0; at < records.length;) {
    if (records[at + RECORD.TYPE] === TokenRecordType.GET) return true;
    at += RECORD.DATA + records[at + RECORD.KEY_LENGTH]! + records[at + RECORD.OWNER_LENGTH]! +
      records[at + RECORD.PEER_LENGTH]!;
  }
  return false;
}
