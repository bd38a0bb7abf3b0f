import { assert } from "@std/assert";
import { ByteRegion } from "../../store/base/bytes.ts";
import { Eviction } from "../../store/space/eviction.ts";
import { firstIdAt } from "../../store/memory/ids.ts";
import { type ItemRef, NO_ITEM, STATE } from "../../store/memory/item.ts";
import { type LeaseRef, NO_LEASE } from "../../store/claims/leases.ts";
import { CONTROL } from "../../store/memory/memory.ts";
import { highHalf, lowHalf, u64ToNumber } from "../../store/base/u64.ts";
import { type ConversationPeer, ConversationSide } from "../support/sessions/conversation_side.ts";
import { bytesOf } from "../support/sessions/side.ts";
import { type Actor, AGAIN, type Answer, LEASE_SEC, NOTHING, type Step } from "./actors.ts";
import { TraceWriter } from "./trace.ts";

/**
 * Events that no client causes:
 *
 * - `time`: the clock moves to the next deadline
 * - `evict`: the key's value, or else its lease, is evicted
 * - `restart`: the server restarts, empty
 * - `crash`: a writer that has begun crashes
 * - `disconnect`: a connection is lost
 */
const ENVIRONMENT = ["time", "evict", "restart", "crash", "disconnect"] as const;
export type EnvironmentStep = typeof ENVIRONMENT[number];

export interface Role {
  readonly name: string;
  readonly count: number;
  /** The actor changes the database: from its first step to its last, or to the one that `endsUpdate`. */
  readonly isWriter?: boolean;
  act(): Actor;
}

/** A fault between actors and server: it may answer a request itself, or send another one. */
export type Mutation = (request: string, ask: (request: string) => string, world: World) => string;

export interface Scenario {
  readonly name: string;
  readonly roles: readonly Role[];
  /** Most occurrences of each event; left out: none. */
  readonly environment?: Readonly<Partial<Record<EnvironmentStep, number>>>;
  /** Options of the server, beside those of every scenario. */
  readonly options?: readonly string[];
  /** The row's value is in the cache at the beginning. */
  readonly filled?: boolean;
  readonly mutation?: Mutation;
  /** Ids repeat after a restart. */
  readonly repeatsIds?: boolean;
}

/** An actor's number, or the environment step that happens, with its victim. */
export type Move = number;

/** A lease table so small that eight leases on other keys drop the key's own. */
const LEASE_ENTRIES = 8;
/** Options of every server. */
export const OPTIONS: readonly string[] = [
  "-z",
  "3333",
  "--lease-time",
  `${LEASE_SEC}`,
  "--lease-entries",
  `${LEASE_ENTRIES}`,
];
const KEY = "k";
/** Wall clock at the first server's start, and the time between two starts. */
const STARTED_UNIX_MS = 1_800_000_000_000;
const RESTART_MS = 60_000;

interface Part {
  readonly role: Role;
  actor: Actor;
  /** Its next step; undefined: it has finished. */
  step: Step | undefined;
  /** All that it knows. */
  known: Answer[];
  hasBegun: boolean;
  isUpdating: boolean;
}

/** The key's record, read from the store. Times in seconds of the store's clock; 0: never or none. */
export interface KeyRecord {
  item: ItemRef;
  value: string;
  isStub: boolean;
  isStale: boolean;
  isWon: boolean;
  isLocked: boolean;
  id: number;
  deadlineSec: number;
  lease: LeaseRef;
  isHeld: boolean;
  leaseId: number;
  /** The deadline of a lease that is held. */
  leaseUntilSec: number;
  dirtyUntilSec: number;
}

/**
 * One key in the real store, a database with one row, and the actors around them. `start` puts
 * everything back; nothing random and no clock of the machine takes part, so the same moves lead to
 * the same state.
 */
export class World {
  readonly scenario: Scenario;
  /** The version of the row that is committed. */
  committed = 0;
  readonly #parts: Part[] = [];
  readonly #servers: ConversationSide[] = [];
  readonly #peers: ConversationPeer[][] = [];
  readonly #key = new ByteRegion(bytesOf(KEY).buffer);
  readonly #value = new ByteRegion(new ArrayBuffer(8));
  readonly #budget: number[] = [];
  #generation = 0;
  #evictions = 0;
  /** End of the time in which a plain write on a lease may be read; and the id of its value. */
  #dirtyUntilSec = 0;
  #doubtfulId = 0;
  #doubtfulUntilSec = 0;
  #trace: TraceWriter | undefined;

  constructor(scenario: Scenario) {
    this.scenario = scenario;
    for (const role of scenario.roles) {
      for (let index = 0; index < role.count; index++) {
        const actor = role.act();
        this.#parts.push({
          role,
          actor,
          step: undefined,
          known: [],
          hasBegun: false,
          isUpdating: false,
        });
      }
    }
    const generations = 1 + (scenario.environment?.restart ?? 0);
    for (let index = 0; index < generations; index++) {
      const server = new ConversationSide([...OPTIONS, ...scenario.options ?? []]);
      this.#servers.push(server);
      // One more connection, for events that neither an actor nor the server causes.
      this.#peers.push([...this.#parts, null].map(() => server.connect()));
    }
  }

  /** Starts again. @param trace Records the events from here on. */
  start(trace?: TraceWriter): void {
    this.#trace = undefined;
    this.committed = 0;
    this.#evictions = 0;
    this.#forgetDoubt();
    for (let index = 0; index < this.#servers.length; index++) this.#clean(index);
    this.#generation = 0;
    for (let index = 0; index < ENVIRONMENT.length; index++) {
      this.#budget[index] = this.scenario.environment?.[ENVIRONMENT[index]!] ?? 0;
    }
    for (const part of this.#parts) {
      part.actor = part.role.act();
      part.known = [];
      part.hasBegun = false;
      part.isUpdating = false;
      part.step = part.actor.next(NOTHING).value ?? undefined;
    }
    this.#trace = trace;
    trace?.begin(this.#parts.map(({ role }) => role.name));
    if (this.scenario.filled) this.#askAs(this.#parts.length, `set ${KEY} 0 0 1\r\n0\r\n`);
  }

  /** Returns the events that can happen next. */
  moves(): Move[] {
    const moves: Move[] = [];
    for (let index = 0; index < this.#parts.length; index++) {
      if (this.#parts[index]!.step !== undefined) moves.push(index);
    }
    const record = this.record();
    for (let index = 0; index < ENVIRONMENT.length; index++) {
      if (this.#budget[index] === 0) continue;
      const base = this.#parts.length * (index + 1);
      switch (ENVIRONMENT[index]) {
        case "time":
          if (this.#nextDeadlineSec(record) !== Infinity) moves.push(base);
          break;
        case "evict":
          if (record.item !== NO_ITEM ? !record.isLocked : record.lease !== NO_LEASE) {
            moves.push(base);
          }
          break;
        case "restart":
          moves.push(base);
          break;
        case "crash":
          this.#parts.forEach((part, victim) => {
            if (part.isUpdating) moves.push(base + victim);
          });
          break;
        case "disconnect":
          this.#parts.forEach((part, victim) => {
            if (this.#holdsLock(victim, record) && part.step !== undefined) {
              moves.push(base + victim);
            }
          });
      }
    }
    return moves;
  }

  move(move: Move): void {
    const count = this.#parts.length;
    if (move < count) {
      this.#act(this.#parts[move]!, move);
      return;
    }
    const index = Math.floor(move / count) - 1;
    const victim = move % count;
    this.#budget[index]! -= 1;
    switch (ENVIRONMENT[index]) {
      case "time":
        this.#passTime();
        break;
      case "evict":
        this.#evict();
        break;
      case "restart":
        this.#generation++;
        this.#forgetDoubt();
        this.#trace?.noteDeed("the server restarts");
        break;
      case "crash":
        this.#trace?.note(`${this.#trace.nameOf(victim)} crashes`);
        this.#end(this.#parts[victim]!);
        break;
      case "disconnect":
        this.#reconnect(this.#generation, victim);
        this.#trace?.disconnect(victim);
        this.#end(this.#parts[victim]!);
    }
  }

  /**
   * Returns the state as a text. States with equal texts have equal futures, so the text holds the
   * order of ids, the time left to each deadline, and the knowledge of actors with the same role in
   * any order.
   */
  stateText(): string {
    const record = this.record();
    const ids: number[] = [];
    if (record.item !== NO_ITEM) ids.push(record.id);
    if (record.isHeld) ids.push(record.leaseId);
    for (const { known, step } of this.#parts) {
      if (step !== undefined) { for (const { id } of known) if (id !== 0) ids.push(id); }
    }
    ids.sort((a, b) => a - b);
    const rank = (id: number): number => ids.indexOf(id);
    const { memory } = this.#server.thread;
    const now = memory.control[CONTROL.NOW_SEC]!;
    const left = (sec: number): number => sec === 0 ? -1 : sec - now;
    let text = `${this.committed} ${this.#generation} ${this.#budget} `;
    if (record.item !== NO_ITEM) {
      const marks = (record.isStub ? "b" : "") + (record.isStale ? "X" : "") +
        (record.isWon ? "Z" : "") + (record.isLocked ? "L" : "");
      text += `${record.value}${marks}#${rank(record.id)}<${left(record.deadlineSec)}`;
      if (record.id === this.#doubtfulId) text += `?${left(this.#doubtfulUntilSec)}`;
    }
    if (record.isHeld) text += ` l${rank(record.leaseId)}<${left(record.leaseUntilSec)}`;
    if (record.dirtyUntilSec > now) text += ` d${left(record.dirtyUntilSec)}`;
    if (this.#dirtyUntilSec > now) text += ` D${left(this.#dirtyUntilSec)}`;
    const flushAt = memory.control[CONTROL.FLUSH_AT_SEC]!;
    if (flushAt !== 0) text += ` f${left(flushAt)}`;
    let at = 0;
    for (const role of this.scenario.roles) {
      const texts: string[] = [];
      for (let index = 0; index < role.count; index++, at++) {
        texts.push(this.#partText(at, rank, record));
      }
      text += ` ${texts.sort().join(" ")};`;
    }
    return text;
  }

  #partText(index: number, rank: (id: number) => number, record: KeyRecord): string {
    const part = this.#parts[index]!;
    if (part.step === undefined) return ".";
    let text = part.isUpdating ? "u" : "";
    if (this.#holdsLock(index, record)) text += "L";
    for (const { word, id } of part.known) text += id === 0 ? `${word},` : `${word}#${rank(id)},`;
    return text;
  }

  /** Returns why this state is wrong, or undefined. */
  violation(): string | undefined {
    const record = this.record();
    if (record.item === NO_ITEM || record.isStub || record.isStale) return undefined;
    const now = this.#server.thread.memory.control[CONTROL.NOW_SEC]!;
    if (record.id === this.#doubtfulId && this.#doubtfulUntilSec <= now && !record.isLocked) {
      return "a plain write outlives the lease it was made on";
    }
    if (this.#parts.some(({ isUpdating }) => isUpdating)) return undefined;
    if (record.value === String(this.committed)) return undefined;
    return `the cache has version ${record.value}, the database ${this.committed}`;
  }

  /** Asks for the key as anybody would, for the trace. */
  look(): void {
    this.#askAs(this.#parts.length, `get ${KEY}\r\n`);
  }

  /** Reads the key's record. An expired record counts as absent. */
  record(): KeyRecord {
    const { cache } = this.#server.thread;
    const { items, links, leases } = cache;
    cache.enter();
    const item = cache.peek(this.#key, 0, KEY.length);
    const lease = leases.find(this.#key, 0, KEY.length, links.index.hash(this.#key, 0, KEY.length));
    const state = item === NO_ITEM ? 0 : items.state(item);
    const isHeld = lease !== NO_LEASE && leases.isHeld(lease);
    const record: KeyRecord = {
      item,
      value: item === NO_ITEM ? "" : this.#valueText(item),
      isStub: (state & STATE.STUB) !== 0,
      isStale: (state & STATE.STALE) !== 0,
      isWon: (state & STATE.WON) !== 0,
      isLocked: (state & STATE.LOCKED) !== 0,
      id: item === NO_ITEM ? 0 : u64ToNumber(cache.idLow(item), cache.idHigh(item)),
      deadlineSec: item === NO_ITEM ? 0 : cache.deadlineSec(item),
      lease,
      isHeld,
      leaseId: isHeld ? u64ToNumber(leases.idLow(lease), leases.idHigh(lease)) : 0,
      leaseUntilSec: isHeld ? cache.memory.control[CONTROL.NOW_SEC]! + leases.remainSec(lease) : 0,
      dirtyUntilSec: lease === NO_LEASE ? 0 : leases.dirtyUntilSec(lease),
    };
    cache.leave();
    return record;
  }

  /** The server that runs now. */
  get #server(): ConversationSide {
    return this.#servers[this.#generation]!;
  }

  /** Access for mutations that bypass the commands. */
  get cache(): ConversationSide["thread"]["cache"] {
    return this.#server.thread.cache;
  }

  /** Reads the version at the start of a value and ignores the padding. */
  #valueText(item: ItemRef): string {
    const { cache } = this.#server.thread;
    const length = Math.min(cache.valueLength(item), 2);
    cache.copyValue(item, 0, length, this.#value, 0);
    const text = String.fromCharCode(...this.#value.bytes.subarray(0, length));
    return text.replace("x", "");
  }

  #act(part: Part, index: number): void {
    const step = part.step!;
    if (!part.hasBegun) {
      part.hasBegun = true;
      part.isUpdating = part.role.isWriter ?? false;
    }
    let answer: Answer | undefined;
    if (step.kind === "ask") {
      const before = this.record();
      const reply = this.#askAs(index, step.request);
      this.#noteDoubt(step.request, reply, before);
      answer = step.read(reply);
    } else {
      answer = step.act(this);
      this.#trace?.note(`${this.#trace.nameOf(index)} ${step.note}${answer ? answer.word : ""}`);
    }
    if (step.endsUpdate) part.isUpdating = false;
    if (answer !== AGAIN) part.known.push(answer ?? NOTHING);
    const next = part.actor.next(answer ?? NOTHING);
    part.step = next.value ?? undefined;
    if (next.done) this.#end(part);
  }

  #end(part: Part): void {
    part.step = undefined;
    part.isUpdating = false;
    part.known = [];
  }

  /** Sends as the actor with this number does; the one beyond them is the environment. */
  #askAs(index: number, request: string): string {
    const peer = this.#peers[this.#generation]![index]!;
    const ask = (text: string): string => {
      const reply = peer.ask(text);
      this.#trace?.exchange(index, text, reply);
      return reply;
    };
    const { mutation } = this.scenario;
    return mutation === undefined || index === this.#parts.length
      ? ask(request)
      : mutation(request, ask, this);
  }

  /** Tracks plain writes on a lease by the specification, independently of the store. */
  #noteDoubt(request: string, reply: string, before: KeyRecord): void {
    const now = this.#server.thread.memory.control[CONTROL.NOW_SEC]!;
    if (/^(?:set|add) /.test(request) && reply === "STORED\r\n") {
      if (before.isHeld) this.#dirtyUntilSec = Math.max(this.#dirtyUntilSec, before.leaseUntilSec);
      this.#doubtfulId = 0;
      if (this.#dirtyUntilSec > now) {
        this.#doubtfulId = this.record().id;
        this.#doubtfulUntilSec = this.#dirtyUntilSec;
      }
    } else if (
      reply.startsWith("DELETED") ||
      (before.isHeld && /^(?:cas|lease-set) /.test(request) && reply === "STORED\r\n")
    ) this.#forgetDoubt();
  }

  #forgetDoubt(): void {
    this.#dirtyUntilSec = 0;
    this.#doubtfulId = 0;
    this.#doubtfulUntilSec = 0;
  }

  #holdsLock(index: number, record: KeyRecord): boolean {
    const peer = this.#peers[this.#generation]![index]!;
    return record.isLocked && this.cache.locks.isLockedBy(record.item, peer.owner);
  }

  #nextDeadlineSec(record: KeyRecord): number {
    const { control } = this.#server.thread.memory;
    const instants = [
      record.deadlineSec,
      record.leaseUntilSec,
      record.dirtyUntilSec,
      control[CONTROL.FLUSH_AT_SEC]!,
      this.#doubtfulUntilSec,
    ];
    return Math.min(...instants.filter((instant) => instant > control[CONTROL.NOW_SEC]!));
  }

  #passTime(): void {
    const { control } = this.#server.thread.memory;
    const seconds = this.#nextDeadlineSec(this.record()) - control[CONTROL.NOW_SEC]!;
    this.#server.advanceNow(seconds);
    this.#trace?.clock(seconds);
  }

  #evict(): void {
    const { cache } = this.#server.thread;
    const { item } = this.record();
    if (item !== NO_ITEM) {
      cache.enter();
      new Eviction(cache.links).evictForMove(item);
      cache.leave();
      this.#trace?.noteDeed("the value is evicted");
      return;
    }
    this.#forgetDoubt();
    const keys = Array.from({ length: LEASE_ENTRIES }, (_, at) => `e${this.#evictions}${at}`);
    this.#evictions++;
    this.#askAs(this.#parts.length, `getss 99 ${keys.join(" ")}\r\n`);
    assert(this.record().lease === NO_LEASE, "eight other leases drop the key's");
  }

  /** Resets a server to its state at start: no item, no lease, no lock, first ids. */
  #clean(generation: number): void {
    const peers = this.#peers[generation]!;
    for (let index = 0; index < peers.length; index++) {
      if (peers[index]!.isBusy) this.#reconnect(generation, index);
    }
    const { cache, memory } = this.#servers[generation]!.thread;
    const { leases, links } = cache;
    cache.enter();
    for (let index = 0; index < peers.length; index++) cache.unlockAll(peers[index]!.owner);
    const item = cache.peek(this.#key, 0, KEY.length);
    if (item !== NO_ITEM) links.unlink(item, links.index.hashOf(item));
    for (;;) {
      const lease = leases.newer(NO_LEASE);
      if (lease === NO_LEASE) break;
      const key = new ByteRegion(new ArrayBuffer(leases.keyLength(lease)));
      leases.copyKey(lease, key, 0);
      leases.drop(lease, links.index.hash(key, 0, key.bytes.length));
    }
    const { control } = memory;
    const process = this.scenario.repeatsIds ? 0 : generation;
    const firstId = firstIdAt(STARTED_UNIX_MS + process * RESTART_MS, 0);
    control[CONTROL.ID_LOW] = lowHalf(firstId);
    control[CONTROL.ID_HIGH] = highHalf(firstId);
    control[CONTROL.FLUSH_LOW] = 0;
    control[CONTROL.FLUSH_HIGH] = 0;
    control[CONTROL.FLUSH_AT_SEC] = 0;
    cache.leave();
  }

  #reconnect(generation: number, index: number): void {
    this.#peers[generation]![index]!.disconnect();
    this.#peers[generation]![index] = this.#servers[generation]!.connect();
  }
}
