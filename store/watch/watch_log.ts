import type { ByteRegion } from "../base/bytes.ts";
import { type ConnectionId, ConnectionTable } from "../connections.ts";
import { percentEncoded } from "../base/key_text.ts";
import { FIRST_SECOND } from "../limits.ts";
import { CONTROL, type Memory } from "../memory/memory.ts";
import type { DeleteCommand } from "../operation.ts";
import { STAT } from "../stats.ts";
import { READY, RINGS_BYTE, WATCH_HEADER, WATCHER, WATCHERS_MAX } from "../memory/watch_layout.ts";

/** Bits of the events that a watcher asks for. */
export const WatchEvent = {
  /** Keys looked up. */
  FETCHERS: 1,
  /** Values stored, or not. */
  MUTATIONS: 2,
  EVICTIONS: 4,
  /** Connections opened and closed. */
  CONNECTIONS: 8,
  DELETIONS: 16,
  /** Pages moved. */
  SYSTEM: 32,
  /** Update tokens given and ended, and stores refused for them. */
  TOKENS: 64,
} as const;

/** The result of a lookup. */
export type LookupStatus = "found" | "not_found" | "expired" | "flushed";
/**
 * The events of an update token: `release_unknown` names one that was not out, `refused` is a store that met it (or
 * quarantine), `failed` one that the journal could not write.
 */
export type TokenEvent = "get" | "release" | "release_unknown" | "drop" | "refused" | "failed";
/** Why a connection was closed, in memcached's words. */
export type CloseReason = "normal" | "error" | "idle_timeout" | "shutdown";

/** The fields of an item that lines report. */
export interface WatchedItem {
  /** Its bytes as characters below 256. */
  readonly key: string;
  readonly classId: number;
  readonly valueLength: number;
  /** On the store's clock; 0: never. */
  readonly deadlineSec: number;
}

/**
 * The log for watchers: a line for each event, written under the mutex into the ring of each watcher
 * that asked for such events. A watcher that does not read loses lines, and is told how many; no
 * thread waits for it. While there is no watcher, `memory.control[CONTROL.WATCHED]` is 0, and
 * reporting an event costs one test.
 */
export class WatchLog {
  /** The connection whose requests are being executed; 0: none. */
  connection = 0;
  readonly #memory: Memory;
  readonly #control: Int32Array;
  readonly #connections: ConnectionTable;
  readonly #words: Int32Array;
  readonly #bytes: Uint8Array;
  readonly #ringBytes: number;

  constructor(memory: Memory) {
    this.#memory = memory;
    this.#control = memory.control;
    const { watch, connections } = memory.shared;
    this.#connections = new ConnectionTable(connections);
    this.#words = new Int32Array(watch, 0, RINGS_BYTE / 4);
    this.#bytes = new Uint8Array(watch, RINGS_BYTE);
    this.#ringBytes = this.#bytes.length / WATCHERS_MAX;
  }

  // --- watchers ----------------------------------------------------------------------------------

  /** Returns how many watchers there are. */
  get count(): number {
    let count = 0;
    for (let watcher = 0; watcher < WATCHERS_MAX; watcher++) {
      if (this.#words[this.#row(watcher) + WATCHER.EVENTS] !== 0) count++;
    }
    return count;
  }

  /**
   * Begins to collect lines for a connection.
   *
   * @param events WatchEvent bits.
   * @returns Its number as a watcher, or -1 when there are WATCHERS_MAX already.
   */
  open(events: number, thread: number, owner: number): number {
    const words = this.#words;
    for (let watcher = 0; watcher < WATCHERS_MAX; watcher++) {
      const row = this.#row(watcher);
      if (words[row + WATCHER.EVENTS] !== 0) continue;
      words.fill(0, row, row + WATCHER.WORDS);
      words[row + WATCHER.EVENTS] = events;
      words[row + WATCHER.THREAD] = thread;
      words[row + WATCHER.OWNER] = owner;
      this.#control[CONTROL.WATCHED]! |= events;
      return watcher;
    }
    return -1;
  }

  close(watcher: number): void {
    const words = this.#words;
    words[this.#row(watcher) + WATCHER.EVENTS] = 0;
    let events = 0;
    for (let other = 0; other < WATCHERS_MAX; other++) {
      events |= words[this.#row(other) + WATCHER.EVENTS]!;
    }
    this.#control[CONTROL.WATCHED] = events;
  }

  /**
   * Moves the oldest bytes out of a watcher's ring.
   *
   * @returns How many, at most `lengthMax`; after 0 the next line wakes the watcher's thread again.
   */
  take(watcher: number, to: ByteRegion, offset: number, lengthMax: number): number {
    const words = this.#words;
    const row = this.#row(watcher);
    const start = words[row + WATCHER.START]!;
    const length = Math.min(words[row + WATCHER.LENGTH]!, lengthMax, this.#ringBytes - start);
    if (length === 0) {
      words[row + WATCHER.READY] = READY.QUIET;
      return 0;
    }
    const ring = watcher * this.#ringBytes;
    to.bytes.set(this.#bytes.subarray(ring + start, ring + start + length), offset);
    words[row + WATCHER.START] = (start + length) % this.#ringBytes;
    words[row + WATCHER.LENGTH]! -= length;
    return length;
  }

  /** Returns the next watching connection of a thread that has new lines, or 0. */
  takeReady(thread: number): number {
    if (this.#control[CONTROL.WATCHED] === 0) return 0;
    const words = this.#words;
    for (let watcher = 0; watcher < WATCHERS_MAX; watcher++) {
      const row = this.#row(watcher);
      if (words[row + WATCHER.EVENTS] === 0 || words[row + WATCHER.THREAD] !== thread) continue;
      if (words[row + WATCHER.READY] !== READY.ANNOUNCED) continue;
      words[row + WATCHER.READY] = READY.TAKEN;
      return words[row + WATCHER.OWNER]!;
    }
    return 0;
  }

  // --- events ------------------------------------------------------------------------------------

  /** Whether a watcher asked for such events. */
  wants(event: number): boolean {
    return (this.#control[CONTROL.WATCHED]! & event) !== 0;
  }

  /** A key was looked up. */
  lookedUp(item: WatchedItem, status: LookupStatus): void {
    if (!this.wants(WatchEvent.FETCHERS)) return;
    this.#line(
      WatchEvent.FETCHERS,
      `type=item_get key=${percentEncoded(item.key)} status=${status} clsid=${item.classId} ` +
        `cfd=${this.#cfd} size=${item.valueLength}`,
    );
  }

  /** A value was to be stored. */
  stored(item: WatchedItem, command: string, status: string): void {
    if (!this.wants(WatchEvent.MUTATIONS)) return;
    const ttl = item.deadlineSec === 0 ? 0 : this.#ttl(item.deadlineSec) >>> 0;
    this.#line(
      WatchEvent.MUTATIONS,
      `type=item_store key=${
        percentEncoded(item.key)
      } status=${status} cmd=${command} ttl=${ttl} ` +
        `clsid=${item.classId} cfd=${this.#cfd} size=${item.valueLength}`,
    );
  }

  /** @param ageSec For how long it had not been read. */
  evicted(item: WatchedItem, fetched: boolean, ageSec: number): void {
    if (!this.wants(WatchEvent.EVICTIONS)) return;
    const ttl = item.deadlineSec === 0 ? -1 : this.#ttl(item.deadlineSec);
    this.#line(
      WatchEvent.EVICTIONS,
      `type=eviction key=${percentEncoded(item.key)} fetch=${fetched ? "yes" : "no"} ttl=${ttl} ` +
        `la=${ageSec} clsid=${item.classId} size=${item.valueLength}`,
    );
  }

  deleted(item: WatchedItem, command: DeleteCommand): void {
    if (!this.wants(WatchEvent.DELETIONS)) return;
    this.#line(
      WatchEvent.DELETIONS,
      `type=deleted key=${percentEncoded(item.key)} cmd=${command} clsid=${item.classId} ` +
        `size=${item.valueLength}`,
    );
  }

  connectionOpened(owner: ConnectionId): void {
    if (!this.wants(WatchEvent.CONNECTIONS)) return;
    this.#line(
      WatchEvent.CONNECTIONS,
      `type=conn_new ${this.#peer(owner)} cfd=${this.#connections.numberOf(owner)}`,
    );
  }

  /** Call it while the connection still has its row. */
  connectionClosed(owner: ConnectionId, reason: CloseReason): void {
    if (!this.wants(WatchEvent.CONNECTIONS)) return;
    const number = this.#connections.numberOf(owner);
    this.#line(
      WatchEvent.CONNECTIONS,
      `type=conn_close ${this.#peer(owner)} reason=${reason} cfd=${number}`,
    );
  }

  /**
   * @param id 0: quarantine refused a store.
   * @param owner "": none.
   */
  token(event: TokenEvent, key: string, id: number, owner: string): void {
    if (!this.wants(WatchEvent.TOKENS)) return;
    this.#line(
      WatchEvent.TOKENS,
      `type=token op=${event} key=${percentEncoded(key)} id=${id} owner=${owner || "-"} ` +
        `cfd=${this.#cfd}`,
    );
  }

  /** @param to 0: the pool of free pages. */
  pageMoved(from: number, to: number): void {
    if (!this.wants(WatchEvent.SYSTEM)) return;
    this.#line(WatchEvent.SYSTEM, `type=slab_move src=${from} dst=${Math.max(0, to)} state=done`);
  }

  // --- private -----------------------------------------------------------------------------------

  #row(watcher: number): number {
    return WATCH_HEADER.WORDS + watcher * WATCHER.WORDS;
  }

  #ttl(deadlineSec: number): number {
    return deadlineSec - this.#control[CONTROL.NOW_SEC]!;
  }

  get #cfd(): number {
    return this.connection === 0 ? 0 : this.#connections.numberOf(this.connection as ConnectionId);
  }

  #peer(owner: ConnectionId): string {
    const peer = this.#connections.peerOf(owner);
    const [, transport, host, port] = /^(tcp|udp)6?:\[?(.*?)\]?:(\d+)$/.exec(peer) ?? [];
    return transport === undefined
      ? "rip=unix rport=0 transport=local"
      : `rip=${host} rport=${port} transport=${transport}`;
  }

  #line(event: number, text: string): void {
    const words = this.#words;
    const { stats } = this.#memory;
    const line = `${this.#stamp()} gid=${words[WATCH_HEADER.NEXT_LINE]!++} ${text}\n`;
    stats[STAT.log_worker_written]! += 1;
    for (let watcher = 0; watcher < WATCHERS_MAX; watcher++) {
      const row = this.#row(watcher);
      if ((words[row + WATCHER.EVENTS]! & event) === 0) continue;
      const skipped = words[row + WATCHER.SKIPPED]!;
      const whole = skipped === 0 ? line : `skipped=${skipped}\n${line}`;
      if (whole.length > this.#ringBytes - words[row + WATCHER.LENGTH]!) {
        words[row + WATCHER.SKIPPED]! += 1;
        stats[STAT.log_watcher_skipped]! += 1;
        continue;
      }
      words[row + WATCHER.SKIPPED] = 0;
      stats[STAT.log_watcher_sent]! += 1;
      this.#append(watcher, whole);
      if (words[row + WATCHER.READY] !== READY.QUIET) continue;
      words[row + WATCHER.READY] = READY.ANNOUNCED;
      this.#memory.wakes.add(words[row + WATCHER.THREAD]!);
    }
  }

  /** Returns the time of a line. The store's clock ticks ten times a second, so lines of one tick have one time. */
  #stamp(): string {
    const second = this.#control[CONTROL.NOW_SEC]!;
    const sinceStart = Math.imul(second - FIRST_SECOND, 1000);
    const milliseconds = (this.#control[CONTROL.NOW_MS]! - sinceStart) | 0;
    return `ts=${this.#control[CONTROL.STARTED_UNIX_SEC]! + second}.${milliseconds * 1000}`;
  }

  #append(watcher: number, text: string): void {
    const row = this.#row(watcher);
    const ring = watcher * this.#ringBytes;
    let at = (this.#words[row + WATCHER.START]! + this.#words[row + WATCHER.LENGTH]!) %
      this.#ringBytes;
    for (let index = 0; index < text.length; index++) {
      this.#bytes[ring + at] = text.charCodeAt(index);
      at = at + 1 === this.#ringBytes ? 0 : at + 1;
    }
    this.#words[row + WATCHER.LENGTH]! += text.length;
  }
}
