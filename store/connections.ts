/**
 * The open connections of all threads, for `stats conns`, for the limit `-c`, and as the source of
 * lock owners' numbers. One shared buffer:
 *
 *   header     8 words: OPEN_COUNT, FREE (head of the list of closed rows + 1; 0: none), EVER_USED, LISTENER_COUNT
 *   listeners  LISTENERS_MAX names of LISTENER_BYTES: a word with the length, then UTF-8
 *   rows       ROW_BYTES each: the words below, then the peer's name in UTF-8
 *
 * A `ConnectionId` is `generation << indexBits | row index`, with generations from 1, so it is above 0 and below 2^31.
 * An id is given again only after its row has been used once for every generation (2048 with a million rows, 2^21 with
 * 1024).
 *
 * `open`, `close` and iteration are called under the store's mutex. `seen` and `setActivity` need none: only the thread
 * that serves a connection writes these words.
 */

import { assert } from "./base/assert.ts";

/** The id of a connection: above 0, below 2^31. */
export type ConnectionId = number & { readonly unit: "number of a connection" };
/** No connection. */
export const NO_OWNER = 0 as ConnectionId;

/** The kind of a connection's socket. */
export const ConnectionKind = { TCP: 0, UNIX: 1, UDP: 2 } as const;
export type ConnectionKind = typeof ConnectionKind[keyof typeof ConnectionKind];

/** The state of a connection between requests, for `stats conns`. */
export const Activity = {
  /** Waits for bytes. */
  READING: 0,
  /** Waits until its peer takes replies. */
  WRITING: 1,
  /** A watcher: receives lines of the log, and sends no commands. */
  WATCHING: 2,
  /** Waits for a lock or a lease. */
  WAITING: 3,
  CLOSING: 4,
  /** Waits for the rest of a value. */
  VALUE: 5,
  /** Waits for the rest of a value that it discards. */
  SWALLOWING: 6,
} as const;
export type Activity = typeof Activity[keyof typeof Activity];

/** One row, for reports. */
interface ConnectionRow {
  readonly id: ConnectionId;
  /** 0-based number of the row. */
  readonly index: number;
  readonly kind: ConnectionKind;
  /** 0-based number of the worker that serves it. */
  readonly thread: number;
  /** As `stats conns` writes it: `tcp:127.0.0.1:40000`. */
  readonly peer: string;
  /** The listener's name, as `stats conns` writes it. */
  readonly listener: string;
  readonly activity: Activity;
  /** When bytes last arrived, in seconds of the store's clock. */
  readonly seenAtSec: number;
}

const OPEN_COUNT = 0;
const FREE = 1;
const EVER_USED = 2;
const LISTENER_COUNT = 3;
const HEADER_BYTES = 32;

/** More listeners than this share the last one's name in reports. */
export const LISTENERS_MAX = 64;
const LISTENER_BYTES = 128;
const LISTENERS_BYTES = LISTENERS_MAX * LISTENER_BYTES;

/** Words of a row. */
const GENERATION = 0;
const OPEN = 1; // 1 while the connection lives
const KIND_AND_THREAD = 2;
const LISTENER = 3;
const ACTIVITY = 4;
const SEEN_AT_SEC = 5;
const PEER_LENGTH = 6;
const NEXT_FREE = 7;
const PEER_OFFSET = 32;
const PEER_BYTES_MAX = 64;
const ROW_BYTES = PEER_OFFSET + PEER_BYTES_MAX;

/** The largest `-c`. */
export const CONNECTIONS_MAX_MOST = 1 << 20;

/** One thread's view of the open connections. */
export class ConnectionTable {
  readonly rows: number;
  readonly #words: Int32Array;
  readonly #bytes: Uint8Array;
  readonly #indexBits: number;
  readonly #generationMask: number;
  /** Numbers of known listeners, by name. */
  readonly #listenerNumbers = new Map<string, number>();
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();

  /** How large the shared buffer for `rows` connections must be. Zeros are an empty table. */
  static bytesNeeded(rows: number): number {
    return HEADER_BYTES + LISTENERS_BYTES + rows * ROW_BYTES;
  }

  constructor(shared: SharedArrayBuffer) {
    this.#words = new Int32Array(shared);
    this.#bytes = new Uint8Array(shared);
    this.rows = Math.floor((shared.byteLength - HEADER_BYTES - LISTENERS_BYTES) / ROW_BYTES);
    this.#indexBits = 32 - Math.clz32(this.rows - 1 || 1);
    this.#generationMask = (1 << (31 - this.#indexBits)) - 1;
  }

  /** How many connections are open. */
  get openCount(): number {
    return this.#words[OPEN_COUNT]!;
  }

  /**
   * Gives a connection a row.
   *
   * @param peer As `stats conns` shall write it; cut to 64 bytes.
   * @param listener The name of the listener that accepted it; becomes known if it is not.
   * @returns 0 when all rows are taken.
   */
  open(
    kind: ConnectionKind,
    thread: number,
    peer: string,
    listener: string,
    nowSec: number,
  ): ConnectionId {
    const words = this.#words;
    let index = words[FREE]! - 1;
    if (index >= 0) {
      words[FREE] = words[this.#row(index) + NEXT_FREE]!;
    } else {
      index = words[EVER_USED]!;
      if (index >= this.rows) return NO_OWNER;
      words[EVER_USED] = index + 1;
    }
    words[OPEN_COUNT]! += 1;
    const row = this.#row(index);
    assert(words[row + OPEN] === 0, "a row that is given has no open connection");
    const generation = ((words[row + GENERATION]! + 1) & this.#generationMask) || 1;
    words[row + GENERATION] = generation;
    words[row + OPEN] = 1;
    words[row + KIND_AND_THREAD] = (thread << 8) | kind;
    words[row + LISTENER] = this.#listenerNumbers.get(listener) ?? this.addListener(listener);
    words[row + ACTIVITY] = Activity.READING;
    words[row + SEEN_AT_SEC] = nowSec;
    words[row + PEER_LENGTH] = this.#writeText(row * 4 + PEER_OFFSET, PEER_BYTES_MAX, peer);
    return ((generation << this.#indexBits) | index) as ConnectionId;
  }

  /** Gives the row back. Does nothing when that connection is closed already. */
  close(id: ConnectionId): void {
    if (!this.isOpen(id)) return;
    const words = this.#words;
    const index = this.#index(id);
    const row = this.#row(index);
    words[row + OPEN] = 0;
    words[row + NEXT_FREE] = words[FREE]!;
    words[FREE] = index + 1;
    words[OPEN_COUNT]! -= 1;
    assert(words[OPEN_COUNT]! >= 0, "a connection is closed once");
  }

  isOpen(id: ConnectionId): boolean {
    const index = this.#index(id);
    if (id <= 0 || index >= this.rows) return false;
    const row = this.#row(index);
    return this.#words[row + OPEN] === 1 &&
      this.#words[row + GENERATION] === id >>> this.#indexBits;
  }

  /** Notes that bytes arrived. */
  seen(id: ConnectionId, nowSec: number): void {
    this.#words[this.#row(this.#index(id)) + SEEN_AT_SEC] = nowSec;
  }

  seenAtSec(id: ConnectionId): number {
    return this.#words[this.#row(this.#index(id)) + SEEN_AT_SEC]!;
  }

  setActivity(id: ConnectionId, activity: Activity): void {
    this.#words[this.#row(this.#index(id)) + ACTIVITY] = activity;
  }

  /** As `stats conns` writes it. */
  peerOf(id: ConnectionId): string {
    if (!this.isOpen(id)) return "?";
    const row = this.#row(this.#index(id));
    return this.#readText(row * 4 + PEER_OFFSET, this.#words[row + PEER_LENGTH]!);
  }

  /** Copies the name of the open connection's peer. @returns Its length, at most 64 bytes. */
  copyPeer(id: ConnectionId, to: Uint8Array, toOffset: number): number {
    const row = this.#row(this.#index(id));
    const start = row * 4 + PEER_OFFSET;
    const length = this.#words[row + PEER_LENGTH]!;
    for (let at = 0; at < length; at++) to[toOffset + at] = this.#bytes[start + at]!;
    return length;
  }

  /** Returns the 0-based number of the connection's row, which a later connection may have too. */
  rowOf(id: ConnectionId): number {
    return this.#index(id);
  }

  /** Its number in reports, which is that of `stats conns`: rows count on from the listeners. */
  numberOf(id: ConnectionId): number {
    return this.#words[LISTENER_COUNT]! + this.#index(id);
  }

  /** Returns the number of the worker that serves the connection. */
  threadOf(id: ConnectionId): number {
    return this.isOpen(id) ? this.#words[this.#row(this.#index(id)) + KIND_AND_THREAD]! >>> 8 : 0;
  }

  /**
   * Makes a listener known by its name.
   *
   * @returns Its number; that of the last one when LISTENERS_MAX are known.
   */
  addListener(name: string): number {
    const count = this.#words[LISTENER_COUNT]!;
    for (let number = 0; number < count; number++) {
      if (this.#listenerName(number) === name) {
        this.#listenerNumbers.set(name, number);
        return number;
      }
    }
    if (count === LISTENERS_MAX) return LISTENERS_MAX - 1;
    const at = HEADER_BYTES + count * LISTENER_BYTES;
    this.#listenerNumbers.set(name, count);
    this.#words[at >>> 2] = this.#writeText(at + 4, LISTENER_BYTES - 4, name);
    this.#words[LISTENER_COUNT] = count + 1;
    return count;
  }

  /** The names of all listeners, in the order they became known. */
  listeners(): string[] {
    const names: string[] = [];
    for (let number = 0; number < this.#words[LISTENER_COUNT]!; number++) {
      names.push(this.#listenerName(number));
    }
    return names;
  }

  /** Every open connection, by row. */
  *[Symbol.iterator](): Generator<ConnectionRow> {
    const words = this.#words;
    for (let index = 0; index < words[EVER_USED]!; index++) {
      const row = this.#row(index);
      if (words[row + OPEN] !== 1) continue;
      const kindAndThread = words[row + KIND_AND_THREAD]!;
      yield {
        id: ((words[row + GENERATION]! << this.#indexBits) | index) as ConnectionId,
        index,
        kind: (kindAndThread & 0xff) as ConnectionKind,
        thread: kindAndThread >>> 8,
        peer: this.#readText(row * 4 + PEER_OFFSET, words[row + PEER_LENGTH]!),
        listener: this.#listenerName(words[row + LISTENER]!),
        activity: words[row + ACTIVITY]! as Activity,
        seenAtSec: words[row + SEEN_AT_SEC]!,
      };
    }
  }

  #index(id: ConnectionId): number {
    return id & ((1 << this.#indexBits) - 1);
  }

  /** Returns the first word of a row. */
  #row(index: number): number {
    return (HEADER_BYTES + LISTENERS_BYTES + index * ROW_BYTES) >>> 2;
  }

  #listenerName(number: number): string {
    const at = HEADER_BYTES + number * LISTENER_BYTES;
    return this.#readText(at + 4, this.#words[at >>> 2]!);
  }

  /** @returns How many bytes were written. */
  #writeText(offset: number, lengthMax: number, text: string): number {
    const encoded = this.#encoder.encode(text).subarray(0, lengthMax);
    this.#bytes.set(encoded, offset);
    return encoded.length;
  }

  #readText(offset: number, length: number): string {
    // The decoder takes no shared memory, and slice() copies into private memory.
    return this.#decoder.decode(new Uint8Array(this.#bytes.subarray(offset, offset + length)));
  }
}
