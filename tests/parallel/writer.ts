import { clockSec } from "../../store/clock.ts";
import type { Memory } from "../../store/memory/memory.ts";
import type { ByteClient } from "./byte_client.ts";
import { Kind, PARTS, putPart } from "./content.ts";
import { Presence, ROW } from "./ledger.ts";
import { ReplyParser } from "./reply_parser.ts";
import type { Change } from "./scenario.ts";
import type { ThreadParts } from "./thread_parts.ts";

const NEVER = 0;
/** The client flags of a lease, which no value has. */
const LEASE_FLAGS = 0x3333;
/** Seconds of leases. */
const LEASE_SEC = 10;
/** The most that a counter grows at once. */
const STEP_MAX = 30;
/** Counters begin shortly before they get another digit. */
const FIRST_COUNT = 9_950;
const STORED = "STORED";

/** Changes the keys that its thread owns, one after the other, and notes in the ledger what it does. */
export class Writer {
  /** Changes made. */
  changes = 0;
  readonly #parts: ThreadParts;
  readonly #memory: Memory;
  readonly #client: ByteClient;
  readonly #parser: ReplyParser;
  readonly #keys: readonly number[];
  /** The key that is being changed, and the clock before that. */
  #key = 0;
  #secondBefore = 0;
  /** Its presence before a removal. */
  #wasKnown: number = Presence.UNKNOWN;

  /** @param keys Those that nobody else changes. */
  constructor(parts: ThreadParts, memory: Memory, client: ByteClient, keys: readonly number[]) {
    this.#parts = parts;
    this.#memory = memory;
    this.#client = client;
    this.#parser = new ReplyParser(client.reply);
    this.#keys = keys;
  }

  /** Changes one key. */
  round(): void {
    if (this.#keys.length === 0) return;
    const { scenario } = this.#parts;
    this.#key = this.#pick();
    const change = this.#parts.draw(scenario.changes);
    try {
      this.#change(change);
    } catch (error) {
      if (error instanceof Error) error.message += ` (key ${this.#key}, while writing: ${change})`;
      throw error;
    }
    this.changes++;
  }

  close(): void {
    this.#client.disconnect();
  }

  /** Keys are stored in their order, so that the index grows from the first change on. */
  #pick(): number {
    const { length } = this.#keys;
    const isNew = this.changes < length && this.#parts.scenario.followsSplits === true;
    return this.#keys[isNew ? this.changes : this.#parts.below(length)]!;
  }

  #change(change: Change): void {
    const kind = this.#parts.kindOf(this.#key);
    if (change === "delete") this.#delete();
    else if (change === "touch") this.#touch();
    else if (change === "stale" && kind !== Kind.EXPLICIT) this.#markStale();
    else if (change === "token") this.#token();
    else if (kind === Kind.COUNTER) {
      if (change === "grow") this.#count();
      else this.#setCounter();
    } else if (change === "grow" && kind !== Kind.PLAIN && kind !== Kind.EXPLICIT) this.#extend();
    else if (change === "lock") this.#lock();
    else if (kind === Kind.EXPLICIT) this.#setExplicit();
    else if (change === "cas") this.#cas();
    else if (change === "lease") this.#lease();
    else this.#set();
  }

  // --- stores --------------------------------------------------------------------------------------

  #set(): void {
    const version = this.#begin(this.#nextFirst());
    const ttl = this.#ttl();
    const withReads = this.#parts.chance(0.3);
    // In one batch with reads, before and behind.
    if (withReads) this.#addGet();
    if (this.#parts.chance(0.5)) this.#addLine("set", `${version / PARTS} ${ttl}`, version);
    else this.#addMeta(version, `F${version / PARTS} T${ttl}`);
    if (withReads) this.#addGet();
    this.#client.exchange();
    this.#parser.begin(this.#client.reply);
    const old = withReads ? this.#takeGet() : -1;
    this.#assert(old < version, `read version ${old} before ${version} was stored`);
    const isStored = this.#takeStored();
    const now = withReads ? this.#takeGet() : -1;
    this.#assert(now < 0 || !isStored || now === version, `read ${now} behind ${version}`);
    this.#parser.end();
    this.#commitStored(isStored, version, ttl);
    if (isStored && withReads && this.#parts.scenario.isSteady && ttl === NEVER) {
      this.#assert(now === version, `a miss behind the set of ${version}`);
    }
  }

  #setExplicit(): void {
    const version = this.#begin(this.#nextFirst());
    const ttl = this.#ttl();
    this.#addMeta(version, `F${version / PARTS} T${ttl} E${version}`);
    this.#client.exchange();
    this.#parser.begin(this.#client.reply);
    this.#commitStored(this.#takeStored(), version, ttl);
  }

  /** Stores by gets and cas what is there, and by add what is not. */
  #cas(): void {
    const id = this.#ownId();
    const version = this.#begin(this.#nextFirst());
    const ttl = this.#ttl();
    if (id < 0) this.#addLine("add", `${version / PARTS} ${ttl}`, version);
    else this.#addLine("cas", `${version / PARTS} ${ttl}`, version, ` ${id}`);
    this.#client.exchange();
    this.#parser.begin(this.#client.reply);
    const isStored = this.#client.reply.lineAt(0) === STORED;
    this.#assert(isStored || !this.#isSteady(), "cas is refused");
    this.#commitStored(isStored, version, ttl);
  }

  #extend(): void {
    const last = this.#version;
    const isPresent = this.#parts.ledger.get(this.#key, ROW.PRESENCE) === Presence.PRESENT;
    if (!isPresent || last % PARTS === PARTS - 1) return this.#set();
    const version = this.#begin(last + 1);
    const isAppended = this.#parts.kindOf(this.#key) === Kind.APPENDED;
    if (this.#parts.chance(0.5)) this.#addLine(isAppended ? "append" : "prepend", "0 0", version);
    else this.#addMeta(version, isAppended ? "MA" : "MP");
    this.#client.exchange();
    this.#parser.begin(this.#client.reply);
    const { least, most } = this.#deadlines();
    // A value that would be too long stays as it is.
    const isStored = this.#takeStored();
    if (isStored) this.#commit(version, Presence.PRESENT, least, most);
    else this.#commit(this.#version, Presence.UNKNOWN, NEVER, NEVER);
  }

  #setCounter(): void {
    const last = this.#version;
    const version = this.#begin(last === 0 ? FIRST_COUNT : last + 1);
    const text = `${version}`;
    this.#client.request.text(`set ${this.#name} ${this.#key} 0 ${text.length}\r\n${text}\r\n`);
    this.#client.exchange();
    this.#parser.begin(this.#client.reply);
    this.#commitStored(this.#takeStored(), version, NEVER);
  }

  #count(): void {
    const isPresent = this.#parts.ledger.get(this.#key, ROW.PRESENCE) === Presence.PRESENT;
    if (!isPresent) return this.#setCounter();
    const step = 1 + this.#parts.below(STEP_MAX);
    const version = this.#begin(this.#version + step);
    const isMeta = this.#parts.chance(0.3);
    const { request, reply } = this.#client;
    request.text(isMeta ? `ma ${this.#name} v D${step}\r\n` : `incr ${this.#name} ${step}\r\n`);
    this.#client.exchange();
    const line = reply.lineAt(0);
    if (line === "NF" || line === "NOT_FOUND" || line.startsWith("SERVER_ERROR")) {
      this.#assert(!this.#isSteady(), line);
      return this.#commit(this.#version, Presence.UNKNOWN, NEVER, NEVER);
    }
    const number = isMeta ? reply.lineAt(line.length + 2) : line;
    this.#assert(number === `${version}`, `${number} counted, not ${version}`);
    this.#commit(version, Presence.PRESENT, NEVER, NEVER);
  }

  // --- other changes -------------------------------------------------------------------------------

  #delete(): void {
    const version = this.#beginRemoval();
    const isMeta = this.#parts.chance(0.3);
    const line = this.#ask(isMeta ? `md ${this.#name}` : `delete ${this.#name}`);
    this.#assert(/^(DELETED|NOT_FOUND|HD|NF)$/.test(line), line);
    this.#assertPresence(line === "DELETED" || line === "HD", this.#wasKnown);
    this.#commit(version, Presence.ABSENT, NEVER, NEVER);
  }

  #touch(): void {
    this.#begin(this.#version);
    const ttl = this.#ttl();
    const way = this.#parts.below(3);
    const requests = [
      `touch ${this.#name} ${ttl}`,
      `mg ${this.#name} T${ttl}`,
      `gat ${ttl} ${this.#name}`,
    ];
    const line = this.#ask(requests[way]!);
    const isFound = line === "TOUCHED" || line === "HD" || line.startsWith("VALUE");
    this.#assertPresence(isFound);
    if (isFound) this.#commitStored(true, this.#version, ttl);
    else this.#commit(this.#version, Presence.UNKNOWN, NEVER, NEVER);
  }

  #markStale(): void {
    this.#begin(this.#version);
    const { least, most } = this.#deadlines();
    const line = this.#ask(`md ${this.#name} I`);
    this.#assertPresence(line === "HD");
    this.#commit(this.#version, line === "HD" ? Presence.PRESENT : Presence.UNKNOWN, least, most);
  }

  /** Stores under a lock. */
  #lock(): void {
    const version = this.#begin(this.#nextFirst());
    const line = this.#ask(`lock ${this.#name}`);
    this.#assertPresence(line === "OK");
    const isExplicit = this.#parts.kindOf(this.#key) === Kind.EXPLICIT;
    this.#addMeta(version, `F${version / PARTS} T0${isExplicit ? ` E${version}` : ""}`);
    this.#client.exchange();
    this.#parser.begin(this.#client.reply);
    const isStored = this.#takeStored();
    if (line === "OK") {
      const unlocked = this.#ask(`unlock ${this.#name}`);
      this.#assert(unlocked === "OK" || !isStored, unlocked);
    }
    this.#commitStored(isStored, version, NEVER);
  }

  /** Deletes, takes the lease and fills. */
  #lease(): void {
    this.#delete();
    const id = this.#takeLease();
    if (id < 0) return;
    const version = this.#begin(this.#nextFirst());
    this.#addLine("cas", `${version / PARTS} 0`, version, ` ${id}`);
    this.#client.exchange();
    this.#parser.begin(this.#client.reply);
    const isStored = this.#client.reply.lineAt(0) === STORED;
    this.#commitStored(isStored, version, NEVER);
  }

  /** @returns The lease's id, or -1. */
  #takeLease(): number {
    if (this.#parts.chance(0.5)) {
      const line = this.#ask(`deletess ${LEASE_SEC} ${this.#name}`);
      return Number(/^(?:DELETED|NOT_FOUND) (\d+)$/.exec(line)?.[1] ?? -1);
    }
    const line = this.#ask(`getss ${LEASE_SEC} ${this.#name}`);
    const [, flags, id] = /^VALUE \S+ (\d+) \d+ (\d+)$/.exec(line) ?? [];
    return Number(flags) === LEASE_FLAGS ? Number(id) : -1;
  }

  #token(): void {
    const version = this.#beginRemoval();
    const line = this.#ask(`token get ${this.#name} tag`);
    const id = /^TOKEN (\d+)$/.exec(line)?.[1];
    this.#assert(id !== undefined, line);
    this.#commit(version, Presence.ABSENT, NEVER, NEVER);
    const refused = this.#ask(`set ${this.#name} 0 0 3\r\nold`);
    this.#assert(refused === "NOT_STORED", `${refused} under a token`);
    this.#assert(this.#ask(`token release ${this.#name} ${id}`) === "OK", "the token was out");
  }

  // --- the ledger ----------------------------------------------------------------------------------

  /** A change of the key begins, which may give it this version. */
  #begin(version: number): number {
    const { ledger } = this.#parts;
    ledger.set(this.#key, ROW.BEGUN, ledger.get(this.#key, ROW.BEGUN) + 1);
    ledger.set(this.#key, ROW.VERSION_BEGUN, version);
    this.#secondBefore = clockSec(this.#memory);
    return version;
  }

  /** A change begins with which the key is missing. */
  #beginRemoval(): number {
    const { ledger } = this.#parts;
    this.#wasKnown = ledger.get(this.#key, ROW.PRESENCE);
    ledger.set(this.#key, ROW.PRESENCE, Presence.UNKNOWN);
    ledger.set(this.#key, ROW.REMOVALS, ledger.get(this.#key, ROW.REMOVALS) + 1);
    return this.#begin(this.#nextAbsent());
  }

  /** The change has been answered. */
  #commit(version: number, presence: Presence, least: number, most: number): void {
    const { ledger } = this.#parts;
    const key = this.#key;
    ledger.set(key, ROW.VERSION, version);
    ledger.set(key, ROW.PRESENCE, presence);
    ledger.set(key, ROW.DEADLINE_LEAST, least);
    ledger.set(key, ROW.DEADLINE_MOST, most);
    ledger.set(key, ROW.DONE, ledger.get(key, ROW.BEGUN));
  }

  /** @param ttl In seconds; 0: for ever. */
  #commitStored(isStored: boolean, version: number, ttl: number): void {
    if (!isStored) return this.#commit(this.#version, Presence.UNKNOWN, NEVER, NEVER);
    const least = ttl === NEVER ? NEVER : this.#secondBefore + ttl;
    const most = ttl === NEVER ? NEVER : clockSec(this.#memory) + ttl;
    this.#commit(version, Presence.PRESENT, least, most);
  }

  /** The version of the last change that was answered. */
  get #version(): number {
    return this.#parts.ledger.get(this.#key, ROW.VERSION);
  }

  #deadlines(): { least: number; most: number } {
    const { ledger } = this.#parts;
    const least = ledger.get(this.#key, ROW.DEADLINE_LEAST);
    return { least, most: ledger.get(this.#key, ROW.DEADLINE_MOST) };
  }

  /** The version of the next first part: above all that were begun, for a store that failed may have been seen. */
  #nextFirst(): number {
    const begun = this.#parts.ledger.get(this.#key, ROW.VERSION_BEGUN);
    let first = Math.floor(begun / PARTS) + 1;
    if (first === LEASE_FLAGS) first++;
    return first * PARTS;
  }

  /** The version that stands for no value: above the last one, and no counter steps on it. */
  #nextAbsent(): number {
    const isCounter = this.#parts.kindOf(this.#key) === Kind.COUNTER;
    return isCounter ? Math.max(this.#version, FIRST_COUNT) + 1 : this.#nextFirst();
  }

  #ttl(): number {
    const { ttlSecMax } = this.#parts.scenario;
    const expires = ttlSecMax > 0 && this.#parts.chance(0.5);
    return expires ? 1 + this.#parts.below(ttlSecMax) : NEVER;
  }

  /** Whether the key must be found where it is known to be. */
  #isSteady(): boolean {
    const { isSteady, ttlSecMax } = this.#parts.scenario;
    return isSteady && ttlSecMax === 0;
  }

  #assertPresence(
    isFound: boolean,
    known = this.#parts.ledger.get(this.#key, ROW.PRESENCE),
  ): void {
    if (!this.#isSteady()) return;
    if (known === Presence.UNKNOWN) return;
    this.#assert(isFound === (known === Presence.PRESENT), isFound ? "found" : "not found");
  }

  // --- requests and replies --------------------------------------------------------------------------

  get #name(): string {
    return String.fromCharCode(...this.#parts.keys[this.#key]!);
  }

  /** Sends a line and returns the first line of the reply. */
  #ask(line: string): string {
    this.#client.request.text(`${line}\r\n`);
    this.#client.exchange();
    return this.#client.reply.lineAt(0);
  }

  #addGet(): void {
    this.#client.request.text(`get ${this.#name}\r\n`);
  }

  /** @returns The version that was read, or -1. */
  #takeGet(): number {
    const isHit = this.#parser.value(this.#parts.keys[this.#key]!);
    const version = isHit ? this.#parts.versionOf(this.#key, this.#parser) : -1;
    this.#parser.expect("END\r\n");
    return version;
  }

  #addLine(command: string, words: string, version: number, id = ""): void {
    const length = this.#parts.lengths.of(this.#key, version);
    this.#client.request.text(`${command} ${this.#name} ${words} ${length}${id}\r\n`);
    this.#addPart(version, length);
  }

  #addMeta(version: number, flags: string): void {
    const length = this.#parts.lengths.of(this.#key, version);
    this.#client.request.text(`ms ${this.#name} ${length} ${flags}\r\n`);
    this.#addPart(version, length);
  }

  #addPart(version: number, length: number): void {
    const { request } = this.#client;
    request.reserve(length + 4);
    putPart(request, request.length, length, this.#key, version);
    request.length += length;
    request.text("\r\n");
  }

  /** Reads the reply to a store. */
  #takeStored(): boolean {
    if (this.#parser.skip("STORED\r\n") || this.#parser.skip("HD\r\n")) return true;
    const line = this.#parser.line();
    const isLack = /^(SERVER_ERROR out of memory|NOT_STORED|NS$|SERVER_ERROR object too large)/;
    this.#assert(!this.#isSteady() && isLack.test(line), `${line} to a store`);
    return false;
  }

  #ownId(): number {
    this.#client.request.text(`gets ${this.#name}\r\n`);
    this.#client.exchange();
    this.#parser.begin(this.#client.reply);
    const isHit = this.#parser.value(this.#parts.keys[this.#key]!);
    this.#assertPresence(isHit);
    return isHit ? this.#parser.id : -1;
  }

  #assert(condition: boolean, reason: string): void {
    if (!condition) throw new Error(reason);
  }
}
