import { assert } from "../base/assert.ts";
import { ByteRegion, copyBytes } from "../base/bytes.ts";
import type { Memory } from "../memory/memory.ts";
import {
  TOKEN_QUEUE as HEADER,
  TOKEN_RECORD_BYTES_MAX,
  TOKEN_RING_BYTES,
} from "../memory/token_layout.ts";
import { TOKEN_RECORD as RECORD, TokenRecordType } from "../memory/token_record.ts";

const RING_MASK = TOKEN_RING_BYTES - 1;

/**
 * Records on their way to the journal: threads append them under the mutex, the journal's thread takes them out without
 * it. Positions count bytes from the start of the process and wrap at 2^32.
 */
export class TokenQueue {
  readonly #words: Int32Array;
  readonly #ring: ByteRegion;
  #hasToWake = false;
  /** The record under construction. */
  readonly record = new ByteRegion(new ArrayBuffer(TOKEN_RECORD_BYTES_MAX));

  constructor(memory: Memory) {
    const buffer = memory.shared.tokenQueue;
    this.#words = new Int32Array(buffer, 0, HEADER.WORDS);
    this.#ring = new ByteRegion(buffer, HEADER.WORDS * 4);
  }

  /** The position behind the last record. */
  get head(): number {
    return Atomics.load(this.#words, HEADER.HEAD);
  }

  get isUnusable(): boolean {
    return this.#words[HEADER.UNUSABLE] !== 0;
  }

  /** Declares that nothing will be written any more. */
  makeUnusable(): void {
    this.#words[HEADER.UNUSABLE] = 1;
  }

  /**
   * Appends `record`, of which type, lengths and data are filled in already.
   *
   * @returns False when there is no room.
   */
  put(type: TokenRecordType, idLow: number, idHigh: number, sinceUnixSec: number): boolean {
    const { bytes, view } = this.record;
    const length = RECORD.DATA + bytes[RECORD.KEY_LENGTH]! + bytes[RECORD.OWNER_LENGTH]! +
      bytes[RECORD.PEER_LENGTH]!;
    const head = this.head;
    const used = (head - Atomics.load(this.#words, HEADER.TAIL)) | 0;
    if (used + length > TOKEN_RING_BYTES) return false;
    view.setUint8(RECORD.TYPE, type);
    view.setInt32(RECORD.ID, idLow, true);
    view.setInt32(RECORD.ID + 4, idHigh, true);
    view.setFloat64(RECORD.SINCE, sinceUnixSec, true);
    const at = head & RING_MASK;
    const first = Math.min(length, TOKEN_RING_BYTES - at);
    copyBytes(this.#ring, at, this.record, 0, first);
    copyBytes(this.#ring, 0, this.record, first, length - first);
    Atomics.store(this.#words, HEADER.HEAD, (head + length) | 0);
    const isUrgent = type === TokenRecordType.GET || used > TOKEN_RING_BYTES / 2;
    if (isUrgent || Atomics.load(this.#words, HEADER.LAZY) === 0) this.#hasToWake = true;
    return true;
  }

  /** Whether the journal's thread is to be woken by `wake` once the mutex is free. */
  get hasToWake(): boolean {
    return this.#hasToWake;
  }

  /** A release, or quarantine, found no room: the journal has to compare itself with the store. */
  loseRecord(): void {
    Atomics.store(this.#words, HEADER.RECORDS_LOST, 1);
    this.#hasToWake = true;
  }

  // --- for the journal's thread ------------------------------------------------------------------

  /** Bytes of all records in the queue. */
  get length(): number {
    return (this.head - this.#words[HEADER.TAIL]!) | 0;
  }

  /** Copies the first `length` bytes of records to the start of a region, and leaves them in the queue. */
  copy(to: ByteRegion, length: number): void {
    const at = this.#words[HEADER.TAIL]! & RING_MASK;
    const first = Math.min(length, TOKEN_RING_BYTES - at);
    copyBytes(to, 0, this.#ring, at, first);
    copyBytes(to, first, this.#ring, 0, length - first);
  }

  /** Whether the queue is half full. */
  get isCrowded(): boolean {
    return this.length > TOKEN_RING_BYTES / 2;
  }

  /** Takes the first `length` bytes of records out. @returns The position behind them. */
  take(length: number): number {
    assert(length >= 0 && length <= this.length, "no more records are taken than were put");
    const tail = (this.#words[HEADER.TAIL]! + length) | 0;
    Atomics.store(this.#words, HEADER.TAIL, tail);
    return tail;
  }

  /** Whether records were lost since it was asked last. */
  takeRecordsLost(): boolean {
    return Atomics.exchange(this.#words, HEADER.RECORDS_LOST, 0) !== 0;
  }

  get isStopping(): boolean {
    return Atomics.load(this.#words, HEADER.STOPPING) !== 0;
  }

  /** Makes the journal's thread write what there is, and end. */
  stop(): void {
    Atomics.store(this.#words, HEADER.STOPPING, 1);
    this.wake();
  }

  /** Makes the journal's thread look. Under the mutex it could take the core of the thread that has the mutex. */
  wake(): void {
    this.#hasToWake = false;
    Atomics.add(this.#words, HEADER.BELL, 1);
    Atomics.notify(this.#words, HEADER.BELL);
  }

  /** How often the journal's thread was woken so far. To be read before the queue is looked at; then `wait`. */
  get bell(): number {
    return Atomics.load(this.#words, HEADER.BELL);
  }

  /** Whether a release need not wake the journal's thread. To be set before the queue is looked at. */
  set isLazy(lazy: boolean) {
    Atomics.store(this.#words, HEADER.LAZY, lazy ? 1 : 0);
  }

  /** Sleeps until the journal's thread was woken more than `bell` times, at most `timeoutMs`. */
  wait(bell: number, timeoutMs: number): void {
    Atomics.wait(this.#words as Int32Array<SharedArrayBuffer>, HEADER.BELL, bell, timeoutMs);
  }
}
