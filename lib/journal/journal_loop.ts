import type { Cache } from "../../store/cache.ts";
import { TOKEN_RECORD as RECORD, TokenRecordType } from "../../store/setup.ts";
import { ByteRegion, concatBytes } from "../../store/base/bytes.ts";
import type { TransportEvent } from "../net/transport.ts";
import { reasonOf } from "../process/reason.ts";
import type { TokenJournal } from "./token_journal.ts";
import { encodeRecord, recordEnd } from "./token_records.ts";

/** Longest time from a release's reply to its sync, unless the disk fails. */
const LAZY_MS = 200;
/** Longest time between two checks of the reserved ids. */
const IDLE_MS = 1000;
/** Ids reserved at once: at ten million changes a second they last for seven minutes. */
const ID_BLOCK = 2 ** 32;
/** With fewer reserved ids left, the server executes nothing that takes an id. */
const ID_MARGIN = 2 ** 24;
/** Records of tokens settled under one hold of the mutex. */
const SETTLE_SLICE = 256;
/** Buckets of the table compared under one hold of the mutex. */
const COMPARE_SLICE = 1024;

/** Bytes of queued records that need no larger buffer. */
const RECORDS_BYTES = 64 * 1024;

/** The result of `step` when the queue is stopping and everything is written. */
export const STOPPED = -1;

/**
 * Writes the records that threads put into the queue: all queued records with one sync, then wakes the connections that
 * wait for them. Records without a waiting connection, such as releases, wait for the next record that has one, or for
 * LAZY_MS. The loop runs in a thread of its own, which may sleep and wait for the disk.
 */
export class JournalLoop {
  readonly #cache: Cache;
  readonly #journal: TokenJournal;
  readonly #report: (event: TransportEvent) => void;
  /** The records to write, at its start. */
  #records = new ByteRegion(new ArrayBuffer(RECORDS_BYTES));
  #reservedId = 0;
  /** Time of the next write of records without a waiting connection, or of the retry of a failed write. */
  #dueMs = Infinity;
  /** Whether the last write failed. */
  #isFailing = false;
  /** Whether stores are refused because ids could not be reserved. */
  #isOutOfIds = false;

  constructor(cache: Cache, journal: TokenJournal, report: (event: TransportEvent) => void) {
    this.#cache = cache;
    this.#journal = journal;
    this.#report = report;
  }

  /**
   * Puts the journal's tokens into the table, and reserves ids. If the disk refuses, the server refuses stores and
   * tokens until it accepts.
   *
   * @throws RangeError when the table is too small for them, or there are no more ids.
   * @throws The disk's error when no id was ever reserved.
   */
  restore(): void {
    const cache = this.#cache;
    const { tokens } = this.#journal;
    const out = tokens.tokens.sort((a, b) => a.sinceUnixSec - b.sinceUnixSec);
    cache.enter();
    const isRestored = out.every(({ key, owner, peer, sinceUnixSec, id }) =>
      cache.journal.restore(key, owner, peer, sinceUnixSec, id)
    );
    cache.journal.raiseId(tokens.highestId);
    if (tokens.isQuarantined) cache.journal.restoreQuarantine();
    cache.leave();
    if (!isRestored) {
      throw new RangeError(
        `the journal has ${out.length} update tokens, more than fit into --token-entries ` +
          `${cache.memory.options.tokenEntries}: start with a larger number`,
      );
    }
    if (tokens.idLimit === 0) return this.#reserve();
    this.#nextReservedId();
    this.#reserveInTime();
  }

  /** Serves the queue until it is stopping and everything is written. */
  run(nowMs: () => number): void {
    const { queue } = this.#cache.journal;
    for (;;) {
      queue.isLazy = false;
      const { bell } = queue;
      const waitMs = this.step(nowMs());
      if (waitMs === STOPPED) break;
      queue.isLazy = this.#dueMs < Infinity;
      if (waitMs > 0) queue.wait(bell, waitMs);
    }
  }

  /** Closes the file. */
  close(): void {
    this.#journal.close();
  }

  /** Writes the queued records; syncs if a connection waits for one. @returns Whether there were records. */
  writeQueued(): boolean {
    const length = this.#copyQueued();
    if (length > 0) this.#write(length, hasGet(this.#records.bytes, length));
    return length > 0;
  }

  /** Copies the queued records to the start of #records. @returns Their length in bytes. */
  #copyQueued(): number {
    const { queue } = this.#cache.journal;
    const { length } = queue;
    if (length > this.#records.bytes.length) {
      this.#records = new ByteRegion(new ArrayBuffer(2 ** Math.ceil(Math.log2(length))));
    }
    queue.copy(this.#records, length);
    return length;
  }

  /**
   * Does the work that is due.
   *
   * @param nowMs A monotonic clock.
   * @returns Milliseconds until the next work is due, unless the queue wakes the thread earlier; or STOPPED.
   */
  step(nowMs: number): number {
    const { queue } = this.#cache.journal;
    // In this order: records queued before the stop, or before a record was lost, are written.
    const { isStopping } = queue;
    const isLost = queue.takeRecordsLost();
    const length = this.#copyQueued();
    const isDue = isStopping || isLost || nowMs >= this.#dueMs;
    if (length > 0 && (isDue || queue.isCrowded || hasGet(this.#records.bytes, length))) {
      this.#write(length, true);
      if (isLost) this.#compare();
      this.#planRetry(nowMs);
      return 0;
    }
    if (isLost) this.#compare();
    if (isDue && this.#journal.isUnsynced) this.#try("write", () => this.#journal.sync());
    if (isStopping) return STOPPED;
    this.#reserveInTime();
    if (length === 0) this.#journal.mark();
    if (isDue) this.#planRetry(nowMs);
    if (length > 0 || this.#journal.isUnsynced) {
      this.#dueMs = Math.min(this.#dueMs, nowMs + LAZY_MS);
    }
    return Math.min(IDLE_MS, this.#dueMs - nowMs);
  }

  #planRetry(nowMs: number): void {
    this.#dueMs = this.#journal.isUnsynced ? nowMs + LAZY_MS : Infinity;
  }

  /** Writes the first `length` bytes of #records, and settles their tokens. */
  #write(length: number, sync: boolean): void {
    const records = this.#records;
    const isWritten = this.#try(
      "write",
      () => this.#journal.append(records.bytes.subarray(0, length), sync),
    );
    const cache = this.#cache;
    const position = cache.journal.queue.take(length);
    cache.enter();
    // Nothing here allocates: a garbage collection would stop all threads that want the mutex.
    for (let at = 0; at < length;) {
      at = cache.journal.settle(records, at, length, SETTLE_SLICE, isWritten);
      if (at < length) cache.yieldMutex();
    }
    cache.journal.noteSyncs(this.#journal.syncs);
    cache.journal.settleWaiters(position);
    cache.leave();
    this.#journal.tidy();
    this.#reserveInTime();
  }

  /** Calls `act`; reports its first failure, and the next success. @returns Whether it succeeded. */
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

  /** Reserves a block of ids behind the last one: they may be handed out. */
  #reserve(): void {
    const id = this.#nextReservedId();
    this.#journal.append(encodeRecord(TokenRecordType.ID_LIMIT, { id }), true);
    this.#reservedId = id;
  }

  /** @throws RangeError when there are no more ids. */
  #nextReservedId(): number {
    const id = this.#cache.journal.lastId + ID_BLOCK;
    if (id > Number.MAX_SAFE_INTEGER) throw new RangeError("there are no more ids below 2^53");
    return id;
  }

  #reserveInTime(): void {
    this.#cache.enter();
    const left = this.#reservedId - this.#cache.journal.lastId;
    this.#cache.leave();
    if (left > ID_BLOCK / 2) return;
    const isReserved = this.#try("write", () => this.#reserve());
    const isOut = !isReserved && left <= ID_MARGIN;
    if (isOut === this.#isOutOfIds) return;
    this.#isOutOfIds = isOut;
    if (isOut) {
      this.#report({
        level: "error",
        event: "journal_out_of_ids",
        message: "no ids can be reserved: stores are refused until the journal can be written",
      });
    }
    this.#cache.enter();
    this.#cache.journal.close(isOut);
    this.#cache.leave();
  }

  /** Writes the releases, and the quarantine, that did not fit the queue. */
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
    const { isQuarantined } = cache.journal;
    cache.leave();
    const lost = [...this.#journal.tokens.ids]
      .filter((id) => !inTable.has(id))
      .map((id) => encodeRecord(TokenRecordType.RELEASE, { id }));
    lost.push(encodeRecord(
      isQuarantined ? TokenRecordType.QUARANTINE_ON : TokenRecordType.QUARANTINE_OFF,
      {},
    ));
    this.#try("write", () => this.#journal.append(concatBytes(lost), true));
  }
}

/** Whether some of the records give a token, which must be on the disk before its reply. */
function hasGet(records: Uint8Array, length: number): boolean {
  for (let at = 0; at < length; at = recordEnd(records, at)) {
    if (records[at + RECORD.TYPE] === TokenRecordType.GET) return true;
  }
  return false;
}
