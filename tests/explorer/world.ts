import { assert } from "@std/assert";
import { CacheNode } from "./cache_node.ts";
import { idsOf, Invariants } from "./invariants.ts";
import { KEY, type KeyRecord } from "./key_record.ts";
import { NO_ITEM } from "../../store/memory/item.ts";
import { NO_LEASE } from "../../store/claims/leases.ts";
import { ENVIRONMENT, type EnvironmentStep, type Role, type Scenario } from "./scenario.ts";
import {
  type Actor,
  AGAIN,
  type Answer,
  type Ask,
  type Call,
  NOTHING,
  type Step,
} from "./steps.ts";
import { nameOf, type TraceWriter } from "./trace.ts";
import type { ExploredWorld, Move } from "./explore.ts";
import { ClientOrigins } from "./client_caches/client_origins.ts";
import { RowDatabase } from "./client_caches/row_database.ts";

interface Part {
  readonly role: Role;
  readonly name: string;
  actor: Actor;
  /** Its next step; undefined: it has finished. */
  step: Step | undefined;
  /** Its request waits in a cache, or at an origin, for the reply. */
  isWaiting: boolean;
  /** All that it knows. */
  known: Answer[];
  hasBegun: boolean;
  isUpdating: boolean;
}

/**
 * A move is a kind, 0 for an actor's step and 1 for the first of ENVIRONMENT, and whom or what it
 * concerns. Those of the origins come behind.
 */
const TARGETS_MAX = 64;
const KEEPING = 1;
const ORIGIN_MOVES = TARGETS_MAX * (ENVIRONMENT.length + 1);

/** Caches with one key in the real store, a database with one row, and the actors around them. */
export class World implements ExploredWorld {
  readonly #scenario: Scenario;
  readonly #database: RowDatabase;
  readonly #origins: ClientOrigins | undefined;
  readonly #parts: Part[] = [];
  readonly #nodes: CacheNode[] = [];
  readonly #invariants: Invariants[] = [];
  /** How often each event may still happen. */
  readonly #budget: number[] = [];
  #trace: TraceWriter | undefined;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    for (const role of scenario.roles) {
      for (let index = 0; index < role.count; index++) {
        const name = nameOf(this.#parts.length);
        this.#parts.push({ role, name, ...beginning(role, name) });
      }
    }
    const { origin } = scenario;
    this.#database = new RowDatabase(origin?.isUnfenced ?? false);
    this.#origins = origin && new ClientOrigins(origin, this.#database, {
      finished: (client, answer) => this.#finished(client, answer),
      lost: (client) => this.#lost(client),
      note: (text) => this.#trace?.note(text),
    });
    const { restart = 0, cleanRestart = 0 } = scenario.environment ?? {};
    const generations = 1 + restart + cleanRestart;
    for (let index = 0; index < (scenario.caches ?? 1); index++) {
      // One more connection, for events that neither an actor nor the server causes.
      const node = new CacheNode(index, scenario, generations, this.#parts.length + 1);
      this.#nodes.push(node);
      this.#invariants.push(new Invariants(node, scenario.ignores));
    }
  }

  get name(): string {
    return this.#scenario.name;
  }

  get canBePlayed(): boolean {
    const { mutation, onDisconnect, onRestart } = this.#scenario;
    return !mutation && !onDisconnect && !onRestart;
  }

  get servers(): number {
    return this.#nodes.length;
  }

  start(trace?: TraceWriter): void {
    this.#trace = undefined;
    this.#database.start();
    this.#origins?.start();
    for (const node of this.#nodes) node.start();
    for (const invariants of this.#invariants) invariants.start();
    for (const [index, kind] of ENVIRONMENT.entries()) {
      const isFree = kind === "journal" && this.#scenario.isJournaled;
      this.#budget[index] = isFree ? Infinity : this.#scenario.environment?.[kind] ?? 0;
    }
    for (const part of this.#parts) {
      Object.assign(part, beginning(part.role, part.name));
      part.step = part.actor.next(NOTHING).value ?? undefined;
    }
    this.#trace = trace;
    trace?.begin(this.#parts.map(({ role }) => role.name));
    if (!this.#scenario.filled) return;
    for (let cache = 0; cache < this.#nodes.length; cache++) {
      this.#askAs(this.#everybody, cache, `set ${KEY} 0 0 1\r\n0\r\n`);
    }
  }

  // --- moves ---------------------------------------------------------------------------------------

  moves(): Move[] {
    const moves: Move[] = [];
    for (const [index, part] of this.#parts.entries()) {
      if (part.step !== undefined && !part.isWaiting && this.#canTake(part.step)) moves.push(index);
    }
    const records = this.#nodes.map((node) => node.record());
    for (const [index, kind] of ENVIRONMENT.entries()) {
      if (this.#budget[index] === 0) continue;
      const base = TARGETS_MAX * (index + 1);
      for (const target of this.#targets(kind, records)) moves.push(base + target);
    }
    for (const move of this.#origins?.moves() ?? []) moves.push(ORIGIN_MOVES + move);
    return moves;
  }

  /** Whether whom the step concerns is there. */
  #canTake(step: Step): boolean {
    return step.kind !== "call" || this.#origins!.isThere(step);
  }

  /** Whom or what an event can concern now. */
  #targets(kind: EnvironmentStep, records: readonly KeyRecord[]): number[] {
    const nodes = [...this.#nodes.keys()];
    const parts = [...this.#parts.keys()];
    switch (kind) {
      case "time":
      case "pause":
        return this.#secondsToDeadline(records) === Infinity ? [] : [0];
      case "evict":
        return nodes.filter((cache) => this.#nodes[cache]!.canEvict(records[cache]!));
      case "restart":
        return nodes.flatMap((cache) => {
          const target = cache << 1;
          return this.#nodes[cache]!.disk?.isUnsynced ? [target, target | KEEPING] : [target];
        });
      case "cleanRestart":
        return nodes;
      case "crash":
        return parts.filter((index) => this.#parts[index]!.isUpdating);
      case "disconnect":
        return parts.filter((index) =>
          this.#parts[index]!.step !== undefined &&
          this.#nodes.some((node, cache) => node.holdsLock(index, records[cache]!))
        );
      case "loseReply":
        return parts.filter((index) => {
          const { step } = this.#parts[index]!;
          return isRepeatable(step) && this.#canTake(step!);
        });
      case "journal":
      case "journalFails":
        return nodes.filter((cache) => this.#nodes[cache]!.disk?.hasQueued);
    }
  }

  move(move: Move): void {
    if (move >= ORIGIN_MOVES) return this.#origins!.move(move - ORIGIN_MOVES);
    const target = move % TARGETS_MAX;
    const kind = Math.floor(move / TARGETS_MAX);
    if (kind === 0) {
      this.#act(target);
      return;
    }
    this.#budget[kind - 1]! -= 1;
    this.#happen(ENVIRONMENT[kind - 1]!, target);
  }

  #happen(kind: EnvironmentStep, target: number): void {
    switch (kind) {
      case "time":
      case "pause":
        return this.#passTime(kind === "pause");
      case "evict":
        return this.#evict(target);
      case "restart":
        return this.#restart(target >> 1, (target & KEEPING) !== 0);
      case "cleanRestart":
        return this.#restartCleanly(target);
      case "crash":
        this.#trace?.note(`${nameOf(target)} crashes`);
        this.#origins?.abandon(target);
        return end(this.#parts[target]!);
      case "disconnect":
        return this.#disconnect(target);
      case "loseReply":
        return this.#loseReply(target);
      case "journal":
      case "journalFails":
        return this.#writeJournal(target, kind === "journalFails");
    }
  }

  // --- what there is -------------------------------------------------------------------------------

  stateText(): string {
    const records = this.#nodes.map((node) => node.record());
    const ids: number[] = [];
    for (const [cache, record] of records.entries()) {
      ids.push(...idsOf(record), ...this.#nodes[cache]!.disk?.ids() ?? []);
    }
    for (const { known, step } of this.#parts) {
      if (step !== undefined) { for (const { id } of known) if (id !== 0) ids.push(id); }
    }
    ids.push(...this.#origins?.ids() ?? []);
    const ordered = [...new Set(ids)].sort((a, b) => a - b);
    const rank = (id: number): number => ordered.indexOf(id);
    let text = `${this.#database.committed} ${this.#budget}`;
    if (this.#origins !== undefined) text += this.#origins.text(ordered, rank);
    for (const [cache, record] of records.entries()) text += this.#cacheText(cache, record, rank);
    let at = 0;
    for (const role of this.#scenario.roles) {
      const texts: string[] = [];
      for (let index = 0; index < role.count; index++, at++) {
        texts.push(this.#partText(at, rank, records));
      }
      text += ` ${texts.sort().join(" ")};`;
    }
    return text;
  }

  #cacheText(cache: number, record: KeyRecord, rank: (id: number) => number): string {
    const node = this.#nodes[cache]!;
    const { nowSec } = node;
    const left = (sec: number): number => sec === 0 ? -1 : sec - nowSec;
    let text = `|${node.generation} `;
    if (record.hasDeadItem) text += "x";
    if (record.item !== NO_ITEM) {
      const marks = (record.isStub ? "b" : "") + (record.isStale ? "X" : "") +
        (record.isWon ? "Z" : "") + (record.isLocked ? "L" : "");
      text += `${record.value}${marks}#${rank(record.id)}<${left(record.deadlineSec)}`;
    }
    text += this.#invariants[cache]!.text(record);
    if (record.isHeld) text += ` l${rank(record.leaseId)}<${left(record.leaseUntilSec)}`;
    if (record.dirtyUntilSec > nowSec) text += ` d${left(record.dirtyUntilSec)}`;
    for (const { id, isPending } of record.tokens) text += ` t${rank(id)}${isPending ? "p" : ""}`;
    if (node.savedValue !== "") text += ` s${node.savedValue}`;
    if (record.isQuarantined) text += ` q${node.quarantineLeftSec}`;
    if (node.flushAtSec !== 0) text += ` f${left(node.flushAtSec)}`;
    if (node.disk !== undefined) text += ` j${node.disk.text((id) => `${rank(id)}`)}`;
    return text;
  }

  #partText(index: number, rank: (id: number) => number, records: readonly KeyRecord[]): string {
    const part = this.#parts[index]!;
    if (part.step === undefined) return ".";
    let text = (part.isUpdating ? "u" : "") + (part.isWaiting ? "w" : "");
    for (const [cache, record] of records.entries()) {
      if (this.#nodes[cache]!.holdsLock(index, record)) text += `L${cache}`;
      for (const { id, owner } of record.tokens) if (owner === part.name) text += `t${rank(id)}`;
    }
    if (part.step.kind === "call") text += this.#origins!.callText(index, rank);
    for (const { word, id } of part.known) text += id === 0 ? `${word},` : `${word}#${rank(id)},`;
    return text;
  }

  wrong(): string | undefined {
    for (const node of this.#nodes) {
      const reason = this.#wrongValue(node.record());
      if (reason !== undefined) return reason;
    }
    if (this.#scenario.mustEndWithoutTokens && this.#parts.every(({ step }) => !step)) {
      if (this.#nodes.some((node) => node.record().tokens.length > 0)) {
        return "all clients have ended, and an update token is out";
      }
    }
    const isOver = this.#parts.every(({ step }) => step === undefined);
    return this.#invariants.find(({ broken }) => broken !== undefined)?.broken ??
      this.#origins?.wrong() ?? (isOver ? this.#origins?.wrongAtEnd() : undefined);
  }

  wrongToClients(): string | undefined {
    for (const invariants of this.#invariants) invariants.checkReads(this.#everybody);
    return this.wrong();
  }

  #wrongValue({ item, isStub, isStale, value }: KeyRecord): string | undefined {
    if (item === NO_ITEM || isStub || isStale) return undefined;
    const mayDiffer = this.#scenario.values !== "always" &&
      this.#parts.some(({ isUpdating }) => isUpdating);
    const { committed } = this.#database;
    if (mayDiffer || value === String(committed)) return undefined;
    const ask = (cache: number, text: string): string =>
      this.#nodes[cache]!.ask(this.#everybody, text);
    if (this.#scenario.isServed?.(ask) === false) return undefined;
    return `the cache has version ${value}, the database ${committed}`;
  }

  look(): void {
    for (let cache = 0; cache < this.#nodes.length; cache++) {
      this.#askAs(this.#everybody, cache, `get ${KEY}\r\n`);
    }
  }

  // --- events --------------------------------------------------------------------------------------

  /** The connection of everybody who is no actor. */
  get #everybody(): number {
    return this.#parts.length;
  }

  #act(index: number): void {
    const part = this.#parts[index]!;
    const step = part.step!;
    begin(part);
    if (step.kind === "act") {
      const answer = step.act(this.#database);
      this.#trace?.note(`${part.name} ${step.note}${answer ? answer.word : ""}`);
      advance(part, step, answer);
      return;
    }
    if (step.kind === "call") {
      const answer = this.#call(index, step);
      if (answer === undefined) part.isWaiting = true;
      else advance(part, step, answer);
      return;
    }
    const reply = this.#command(index, step.cache, step.request);
    if (this.#nodes[step.cache]!.isWaiting(index)) part.isWaiting = true;
    else advance(part, step, step.read(reply));
  }

  /** @returns Undefined: the answer comes later. */
  #call(index: number, step: Call): Answer | undefined {
    this.#trace?.note(`${nameOf(index)} to origin ${step.origin + 1}: ${step.note}`);
    const answer = this.#origins!.call(index, step);
    if (answer !== undefined) this.#trace?.note(`the origin answers ${answer.word}`);
    return answer;
  }

  #finished(index: number, answer: Answer): void {
    const part = this.#parts[index]!;
    part.isWaiting = false;
    advance(part, part.step!, answer);
  }

  /** A client that does not ask again ends. */
  #lost(index: number): void {
    const part = this.#parts[index]!;
    part.isWaiting = false;
    const lost = part.step?.kind === "call" ? part.step.lost : undefined;
    if (lost !== undefined) advance(part, part.step!, lost);
    else if (!isRepeatable(part.step)) end(part);
  }

  #command(index: number, cache: number, request: string): string {
    const node = this.#nodes[cache]!;
    const before = node.record();
    const owner = node.owners[index]!;
    const reply = this.#askAs(index, cache, request);
    this.#invariants[cache]!.commanded(request, reply, owner, before);
    return reply;
  }

  /** Sends as the actor with this number does. */
  #askAs(index: number, cache: number, request: string): string {
    const node = this.#nodes[cache]!;
    const ask = (text: string): string => {
      const reply = node.ask(index, text);
      this.#trace?.exchange(cache, index, text, reply);
      return reply;
    };
    const { mutation } = this.#scenario;
    return mutation === undefined || index === this.#everybody
      ? ask(request)
      : mutation(request, ask, node);
  }

  #loseReply(index: number): void {
    const part = this.#parts[index]!;
    const step = part.step as Ask | Call;
    begin(part);
    if (step.kind === "call") {
      if (!part.isWaiting) this.#call(index, step);
      this.#trace?.note(`${nameOf(index)} loses its connection to the origin`);
      this.#origins!.abandon(index);
      part.isWaiting = false;
      if (step.lost !== undefined) advance(part, step, step.lost);
      return;
    }
    if (!part.isWaiting) this.#command(index, step.cache, step.request);
    part.isWaiting = false;
    this.#loseConnection(index, step.cache);
  }

  #loseConnection(index: number, cache: number): void {
    const node = this.#nodes[cache]!;
    const before = node.record();
    const owner = node.reconnect(index);
    this.#scenario.onDisconnect?.(node, owner);
    this.#trace?.disconnect(cache, index);
    this.#invariants[cache]!.happened(before);
  }

  #disconnect(index: number): void {
    for (const [cache, node] of this.#nodes.entries()) {
      if (node.holdsLock(index, node.record())) this.#loseConnection(index, cache);
    }
    end(this.#parts[index]!);
  }

  #secondsToDeadline(records: readonly KeyRecord[]): number {
    let seconds = Infinity;
    for (const [cache, node] of this.#nodes.entries()) {
      const doubtful = this.#invariants[cache]!.doubtfulUntilSec;
      const instant = Math.min(
        node.nextDeadlineSec(records[cache]!),
        doubtful > node.nowSec ? doubtful : Infinity,
      );
      seconds = Math.min(seconds, instant - node.nowSec);
    }
    return seconds;
  }

  #passTime(isPause: boolean): void {
    const records = this.#nodes.map((node) => node.record());
    const seconds = this.#secondsToDeadline(records);
    for (const [cache, node] of this.#nodes.entries()) {
      node.passTime(seconds, isPause);
      this.#invariants[cache]!.happened(records[cache]!);
    }
    if (isPause) this.#trace?.noteDeed("the servers stop for a while");
    this.#trace?.clock(seconds);
  }

  #evict(cache: number): void {
    const node = this.#nodes[cache]!;
    if (node.record().item !== NO_ITEM) {
      const before = node.record();
      node.evictItem();
      this.#trace?.noteDeed("the value is evicted");
      this.#invariants[cache]!.happened(before);
      return;
    }
    this.#invariants[cache]!.leaseEvicted();
    this.#askAs(this.#everybody, cache, node.leaseEviction());
    assert(node.record().lease === NO_LEASE, "other leases drop the key's");
  }

  #restart(cache: number, keepsAll: boolean): void {
    const node = this.#nodes[cache]!;
    const before = node.record();
    node.restart(keepsAll);
    this.#scenario.onRestart?.(node);
    this.#endWaits(cache);
    this.#trace?.noteDeed("the server restarts");
    this.#invariants[cache]!.restarted(before, this.#scenario.isJournaled ?? false);
  }

  #restartCleanly(cache: number): void {
    const node = this.#nodes[cache]!;
    const before = node.record();
    node.restartCleanly();
    this.#endWaits(cache);
    this.#trace?.noteDeed("the server stops, and starts with its snapshot");
    this.#invariants[cache]!.restartedCleanly(before, this.#scenario.isJournaled ?? false);
  }

  /** Requests that wait for a cache are sent again. */
  #endWaits(cache: number): void {
    for (const part of this.#parts) {
      if (part.step?.kind === "ask" && part.step.cache === cache) part.isWaiting = false;
    }
  }

  #writeJournal(cache: number, fails: boolean): void {
    const node = this.#nodes[cache]!;
    const before = node.record();
    node.disk!.write(fails);
    this.#trace?.noteDeed(`the journal ${fails ? "cannot write" : "writes"}`);
    for (const [index, part] of this.#parts.entries()) {
      if (!part.isWaiting || part.step?.kind !== "ask" || part.step.cache !== cache) continue;
      const reply = node.received(index);
      if (reply === "") continue;
      this.#trace?.reply(cache, index, reply);
      part.isWaiting = false;
      advance(part, part.step, part.step.read(reply));
    }
    this.#invariants[cache]!.journaled(before);
  }
}

// --- parts -----------------------------------------------------------------------------------------

function beginning(role: Role, name: string): Omit<Part, "role" | "name"> {
  return {
    actor: role.act(name),
    step: undefined,
    isWaiting: false,
    known: [],
    hasBegun: false,
    isUpdating: false,
  };
}

function begin(part: Part): void {
  if (part.hasBegun) return;
  part.hasBegun = true;
  part.isUpdating = part.role.isWriter ?? false;
}

/** Takes an actor to its next step. */
function advance(part: Part, step: Step, answer: Answer | undefined): void {
  if (step.endsUpdate) part.isUpdating = false;
  if (answer !== AGAIN) part.known.push(answer ?? NOTHING);
  const next = part.actor.next(answer ?? NOTHING);
  part.step = next.value ?? undefined;
  if (next.done) end(part);
}

function end(part: Part): void {
  part.step = undefined;
  part.isWaiting = false;
  part.isUpdating = false;
  part.known = [];
}

function isRepeatable(step: Step | undefined): boolean {
  return step !== undefined && step.kind !== "act" && step.isRepeatable === true;
}
