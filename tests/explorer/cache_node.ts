import { highHalf, lowHalf } from "../../store/base/u64.ts";
import { ByteRegion } from "../../store/base/bytes.ts";
import { NO_LEASE } from "../../store/claims/leases.ts";
import { NO_TOKEN } from "../../store/claims/update_tokens.ts";
import type { Cache } from "../../store/cache.ts";
import { Eviction } from "../../store/space/eviction.ts";
import { firstIdAt } from "../../store/memory/ids.ts";
import { NO_ITEM, STATE } from "../../store/memory/item.ts";
import { CONTROL, type Memory } from "../../store/memory/memory.ts";
import { assert } from "@std/assert";
import { SavedStore } from "../support/saved_store.ts";
import { type ConversationPeer, ConversationSide } from "../support/sessions/conversation_side.ts";
import { held, keyIn } from "../support/store.ts";
import { KEY, KeyReader, type KeyRecord } from "./key_record.ts";
import { LEASE_SEC } from "./steps.ts";
import { TokenDisk } from "./token_disk.ts";

/** A lease table so small that eight leases on other keys drop the key's own. */
const LEASE_ENTRIES = 8;
/** Options of every server. */
const COMMON_OPTIONS: readonly string[] = [
  "-z",
  "3333",
  "--lease-time",
  `${LEASE_SEC}`,
  "--lease-entries",
  `${LEASE_ENTRIES}`,
  "--allow-token-drop",
];
/** Options of a server that forgets its update tokens in a restart, at once. */
export const OPTIONS: readonly string[] = [
  ...COMMON_OPTIONS,
  "--tokens",
  "volatile",
  "--token-quarantine",
  "0",
];
const JOURNALED_OPTIONS: readonly string[] = [...COMMON_OPTIONS, "--state-dir", "state"];
/** Wall clock at the first server's start, and the time between two starts. */
const STARTED_UNIX_MS = 1_800_000_000_000;
const RESTART_MS = 60_000;
/** Between the starts of two caches, so that their ids differ. */
const NEXT_CACHE_MS = 365 * 86_400_000;

export interface NodeOptions {
  readonly options?: readonly string[];
  readonly isJournaled?: boolean;
  readonly repeatsIds?: boolean;
  readonly quarantineSec?: number;
  readonly wallClockStepSec?: number;
}

/** A process of a cache: it ends with a restart. */
interface Process {
  readonly side: ConversationSide;
  readonly reader: KeyReader;
  /** One for each actor, and one for everybody else. */
  readonly peers: ConversationPeer[];
}

/**
 * A cache: the real store, with one key that matters and a connection for each client. `start` puts
 * everything back; nothing random and no clock of the machine takes part.
 */
export class CacheNode {
  readonly #options: NodeOptions;
  readonly #index: number;
  readonly #processes: Process[] = [];
  #disk: TokenDisk | undefined;
  /** The last snapshot. */
  #saved: SavedStore | undefined;
  #savedValue = "";
  #generation = 0;
  #evictions = 0;

  /**
   * @param index Of the cache.
   * @param generations How many processes there can be, one after the other.
   * @param connections One for each client.
   */
  constructor(index: number, options: NodeOptions, generations: number, connections: number) {
    this.#index = index;
    this.#options = options;
    const base = options.isJournaled ? JOURNALED_OPTIONS : OPTIONS;
    for (let generation = 0; generation < generations; generation++) {
      const side = new ConversationSide([...base, ...options.options ?? []]);
      const peers = Array.from({ length: connections }, () => side.connect());
      this.#processes.push({ side, reader: new KeyReader(side.thread), peers });
    }
  }

  /** Starts again, empty, with the first process. */
  start(): void {
    for (let index = 0; index < this.#processes.length; index++) this.#clean(index);
    this.#generation = 0;
    this.#saved = undefined;
    this.#savedValue = "";
    this.#evictions = 0;
    if (this.#options.isJournaled) this.#disk = new TokenDisk(this.cache);
  }

  /** Ends the process and starts the next. @param keepsAll Bytes that the journal wrote and did not sync are kept. */
  restart(keepsAll: boolean): void {
    this.#generation++;
    this.#disk?.restart(this.cache, keepsAll);
    const { cache } = this;
    held(cache, () => cache.tokens.quarantineFor(this.#options.quarantineSec ?? 0));
  }

  /** Ends the process as a clean stop does, and starts the next with its snapshot. */
  restartCleanly(): void {
    for (const index of this.#process.peers.keys()) this.#reconnect(this.#generation, index);
    if (this.#disk?.hasQueued) this.#disk.write(false);
    this.#saved = new SavedStore(this.cache);
    this.#savedValue = this.record().value;
    this.#generation++;
    this.loadSnapshot();
    if (!this.#options.repeatsIds) this.cache.journal.raiseId(this.#saved.header.lastId);
    this.#disk?.restart(this.cache, true);
    const { cache } = this;
    held(cache, () => cache.tokens.quarantineFor(this.#options.quarantineSec ?? 0));
  }

  /** Loads the last snapshot, if there is one. For a fault: a server loads it once. */
  loadSnapshot(): void {
    if (this.#saved === undefined) return;
    const { side } = this.#process;
    assert(this.#saved.restore(this.cache, 0), "the pages fit");
    side.resume(this.#saved.header.clockMs);
  }

  // --- what there is -------------------------------------------------------------------------------

  get cache(): Cache {
    return this.#process.side.thread.cache;
  }

  get memory(): Memory {
    return this.#process.side.thread.memory;
  }

  get nowSec(): number {
    return this.memory.control[CONTROL.NOW_SEC]!;
  }

  get generation(): number {
    return this.#generation;
  }

  /** When everything goes that is stored until then; 0: never. */
  get flushAtSec(): number {
    return this.memory.control[CONTROL.FLUSH_AT_SEC]!;
  }

  /** The journal of tokens, if there is one. */
  get disk(): TokenDisk | undefined {
    return this.#disk;
  }

  /** The key's value in the last snapshot; "": none. */
  get savedValue(): string {
    return this.#savedValue;
  }

  /** The last id that was handed out. */
  get lastId(): number {
    return this.cache.journal.lastId;
  }

  record(): KeyRecord {
    return this.#process.reader.read();
  }

  /** The connections that are open, by their numbers. */
  get owners(): readonly number[] {
    return this.#process.peers.map(({ owner }) => owner);
  }

  holdsLock(client: number, { lockOwner }: KeyRecord): boolean {
    return lockOwner !== 0 && lockOwner === this.#process.peers[client]!.owner;
  }

  /** Whether the client's request waits for the journal. */
  isWaiting(client: number): boolean {
    return this.#process.peers[client]!.isWaiting;
  }

  /** The next instant at which something ends by itself; Infinity: nothing does. */
  nextDeadlineSec(record: KeyRecord): number {
    const { control } = this.memory;
    const instants = [
      record.deadlineSec,
      record.leaseUntilSec,
      record.dirtyUntilSec,
      control[CONTROL.FLUSH_AT_SEC]!,
      control[CONTROL.QUARANTINE_END_SEC]!,
    ];
    return Math.min(...instants.filter((instant) => instant > this.nowSec), Infinity);
  }

  /** Time left until quarantine ends by itself; -1: it does not. */
  get quarantineLeftSec(): number {
    const endSec = this.memory.control[CONTROL.QUARANTINE_END_SEC]!;
    return endSec === 0 ? -1 : endSec - this.nowSec;
  }

  // --- events --------------------------------------------------------------------------------------

  /** Sends as the client with this number does. @returns The immediate reply. */
  ask(client: number, request: string): string {
    return this.#process.peers[client]!.ask(request);
  }

  /** The replies that a client has got since it asked. */
  received(client: number): string {
    return this.ask(client, "");
  }

  /** The client's connection ends, and it opens another one. @returns The number of the old one. */
  reconnect(client: number): number {
    return this.#reconnect(this.#generation, client);
  }

  /** @param isPause The process does nothing meanwhile. */
  passTime(seconds: number, isPause: boolean): void {
    const { side } = this.#process;
    if (isPause) side.pause(seconds);
    else side.advanceNow(seconds);
  }

  /** Gives a value its life back that has expired and is still in memory. For a mutation. */
  reviveItem(): void {
    const { links } = this.cache;
    const { key } = this.#process.reader;
    const item = links.index.find(keyIn(this.cache, key, KEY.length));
    if (item !== NO_ITEM && links.isExpired(item)) links.setDeadline(item, 0);
  }

  /** Whether `evict` has something to do. */
  canEvict({ item, isLocked, lease }: KeyRecord): boolean {
    return item !== NO_ITEM ? !isLocked : lease !== NO_LEASE;
  }

  evictItem(): void {
    const { item } = this.record();
    held(this.cache, () => new Eviction(this.cache.links).evictForMove(item));
  }

  /** A command that drops the key's lease by asking for so many others. */
  leaseEviction(): string {
    const keys = Array.from({ length: LEASE_ENTRIES }, (_, at) => `e${this.#evictions}${at}`);
    this.#evictions++;
    return `getss 99 ${keys.join(" ")}\r\n`;
  }

  // --- private -------------------------------------------------------------------------------------

  get #process(): Process {
    return this.#processes[this.#generation]!;
  }

  /** Resets a process to its state at start: no item, lease, lock or token, first ids. */
  #clean(generation: number): void {
    const { side, reader, peers } = this.#processes[generation]!;
    for (let index = 0; index < peers.length; index++) {
      if (peers[index]!.isBusy) this.#reconnect(generation, index);
    }
    // Replies to clients that have crashed.
    for (const peer of peers) peer.ask("");
    const { cache, memory } = side.thread;
    cache.enter();
    for (const { owner } of peers) cache.unlockAll(owner);
    this.#unlink(cache, reader);
    dropLeases(cache);
    const { tokens } = reader;
    while (tokens.oldest !== NO_TOKEN) tokens.remove(tokens.oldest);
    tokens.quarantine(false);
    tokens.close(false);
    const { queue } = cache.journal;
    queue.take(queue.length);
    const { control } = memory;
    const firstId = firstIdAt(this.#startedUnixMs(generation), 0);
    control[CONTROL.ID_LOW] = lowHalf(firstId);
    control[CONTROL.ID_HIGH] = highHalf(firstId);
    control[CONTROL.FLUSH_LOW] = 0;
    control[CONTROL.FLUSH_HIGH] = 0;
    control[CONTROL.FLUSH_AT_SEC] = 0;
    control[CONTROL.QUARANTINE_END_SEC] = 0;
    cache.leave();
  }

  /** Removes the item, whoever holds its lock. */
  #unlink(cache: Cache, { key }: KeyReader): void {
    const { items, links, locks } = cache;
    const place = keyIn(cache, key, KEY.length);
    const item = links.index.find(place);
    if (item === NO_ITEM) return;
    if (items.state(item) & STATE.LOCKED) locks.drop(item);
    links.unlink(item, place.hash);
  }

  #startedUnixMs(generation: number): number {
    const { repeatsIds, wallClockStepSec = 0 } = this.#options;
    const restarts = repeatsIds ? 0 : generation;
    return STARTED_UNIX_MS + this.#index * NEXT_CACHE_MS +
      restarts * (RESTART_MS + wallClockStepSec * 1000);
  }

  #reconnect(generation: number, client: number): number {
    const { side, peers } = this.#processes[generation]!;
    const { owner } = peers[client]!;
    peers[client]!.disconnect();
    peers[client] = side.connect();
    return owner;
  }
}

function dropLeases({ leases, links }: Cache): void {
  for (;;) {
    const lease = leases.table.oldest;
    if (lease === NO_LEASE) return;
    const key = new ByteRegion(new ArrayBuffer(leases.keyLength(lease)));
    leases.copyKey(lease, key, 0);
    leases.drop(lease, links.index.hash(key, 0, key.bytes.length));
  }
}
