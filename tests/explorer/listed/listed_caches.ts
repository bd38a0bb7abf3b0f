import {
  CacheError,
  type Flow,
  type FlowStep,
  type StepKind,
  type StepResults,
} from "../../../lib/rows/flows/steps.ts";
import { Flows } from "../../../lib/rows/flows/flows.ts";
import { KEY } from "../key_record.ts";
import type { Answer, Call } from "../steps.ts";
import { RecordingList, weighted } from "./recording_list.ts";
import { RecordingStates } from "./recording_states.ts";
import type { RowDatabase } from "./row_database.ts";
import { LATE, LISTED_EVENTS, type ListedEvent, type ListedSetup } from "./setup.ts";

const PATIENCE_MS = 0;
/** The message of the database's errors. */
const REFUSED = "refused";

/** The surroundings of the origins. */
export interface ListedHost {
  /** A command to a cache, on behalf of a client. @returns The reply. */
  ask(client: number, cache: number, request: string): string;
  /** A client's call has come to an end. */
  finished(client: number, answer: Answer): void;
  /** The origin that a client was calling is gone. */
  lost(client: number): void;
  note(text: string): void;
}

interface Core {
  readonly flows: Flows<number>;
  readonly states: RecordingStates;
  readonly list: RecordingList;
  /** The caches that its list is to have. */
  target: readonly number[];
}

/** How a step of a flow ended. */
type StepEnd = { readonly result: StepResults[StepKind] } | { readonly error: Error };

/** A flow, and what it waits for. */
interface Running {
  /** The client that called. */
  readonly client: number;
  readonly call: Call;
  /** Clients that wait for the result. */
  readonly waiting: number[];
  /** Undefined: the origin is gone, or has given up waiting; only the step may still take place. */
  readonly core: Core | undefined;
  readonly flow: Flow<number, Answer> | undefined;
  step: FlowStep<number>;
  /** In which caches the key is deleted, as bits. */
  deleted: number;
  /** Set when the step has taken place. */
  end: StepEnd | undefined;
  readonly seen: Answer[];
  /** The version that was committed when the call began. */
  readonly before: number;
}

/** A move of a running flow: the flow's number times this, and what happens; events of LISTED_EVENTS come first. */
const ACTIONS = 16;
const RESUME = 15;
const CACHE_FAILS = 14;
const DATABASE_FAILS = 13;
const LOSE_COMMIT = 12;
const CACHE_STEPS: readonly StepKind[] = [
  ...["invalidateListed", "quarantine"] as const,
];
const DATABASE_STEPS: readonly StepKind[] = ["readRows", "writeRows", "askOutcome", "noteCaches"];
/** Steps that may take place after nobody waits for them any more, and then matter. */
const HAUNTING_STEPS: readonly StepKind[] = ["writeRows", "quarantine", "noteCaches"];

/** ListedCaches: the real states and flows, whose steps take place, and come back, one by one. */
export class ListedCaches {
  readonly #setup: ListedSetup;
  readonly #database: RowDatabase;
  readonly #host: ListedHost;
  readonly #cores: Core[] = [];
  #running: Running[] = [];
  readonly #budget = new Map<ListedEvent, number>();
  #broken: string | undefined;
  /** The list that origins have, or begin to make. */
  #target: readonly number[] = [];

  constructor(setup: ListedSetup, database: RowDatabase, host: ListedHost) {
    this.#setup = setup;
    this.#database = database;
    this.#host = host;
  }

  start(): void {
    this.#database.start();
    this.#running = [];
    this.#cores.length = 0;
    this.#broken = undefined;
    for (const event of LISTED_EVENTS) this.#budget.set(event, this.#setup.events?.[event] ?? 0);
    this.#budget.set("adjustList", Infinity);
    this.#target = this.#setup.listed ?? [0];
    this.#database.notes = {
      epoch: 0,
      caches: new Map(this.#target.map((cache) => [`${cache}`, "listed"])),
    };
    for (let origin = 0; origin < (this.#setup.origins ?? 1); origin++) {
      this.#cores.push(this.#boot());
    }
  }

  /** Whether the origin that a step calls is there. */
  isThere({ origin }: Call): boolean {
    return origin < this.#cores.length;
  }

  /** Begins a client's call. @returns Its answer, or undefined when it comes later. */
  call(client: number, call: Call): Answer | undefined {
    const core = this.#cores[call.origin]!;
    if (this.#setup.joinsReads && call.isRead) {
      const running = this.#running.find((each) => each.call.isRead && each.core === core);
      if (running !== undefined) {
        running.waiting.push(client);
        return undefined;
      }
    }
    core.states.observe = ignore;
    return this.#begin(client, call, core, [client]);
  }

  #begin(client: number, call: Call, core: Core, waiting: number[]): Answer | undefined {
    const begun = call.call(core.flows);
    if (!isFlow(begun)) return begun;
    const seen: Answer[] = [];
    core.states.observe = (answer) => seen.push(answer);
    const yielded = pastHere(begun, begun.next());
    if (yielded.done) return this.#concluded(yielded.value);
    const running: Running = {
      client,
      call,
      waiting,
      core,
      flow: begun,
      step: yielded.value,
      deleted: 0,
      end: undefined,
      seen,
      before: this.#database.committed,
    };
    this.#running.push(running);
    // A flow that has not looked at anything shared yet could as well have begun now.
    if (seen.length === 0) this.#take(running, 0);
    return undefined;
  }

  /** A client does not wait any more. */
  abandon(client: number): void {
    for (const { waiting } of this.#running) {
      const at = waiting.indexOf(client);
      if (at >= 0) waiting.splice(at, 1);
    }
  }

  // --- moves ---------------------------------------------------------------------------------------

  moves(): number[] {
    const moves: number[] = [];
    for (const [index, event] of LISTED_EVENTS.entries()) {
      if (this.#budget.get(event)! > 0 && this.#canHappen(event)) moves.push(index);
    }
    for (const [index, running] of this.#running.entries()) {
      for (const action of this.#actions(running)) moves.push((index + 1) * ACTIONS + action);
    }
    return moves;
  }

  #canHappen(event: ListedEvent): boolean {
    switch (event) {
      case "takeOver":
        return this.#cores.length === 1;
      case "adjustList":
        return this.#needsAdjustment() !== undefined;
      default:
        return event === "restart" || event === "changeList";
    }
  }

  #needsAdjustment(): Core | undefined {
    return this.#cores.find((core) =>
      !core.flows.isDeposed && core.list.needsChange(weighted(core.target)) &&
      this.#running.every((running) => running.core !== core || !running.call.isAdjustment)
    );
  }

  #actions({ step, end, core, deleted }: Running): number[] {
    const actions: number[] = [];
    if (end !== undefined) actions.push(RESUME);
    else if (step.kind === "invalidateListed") {
      for (const [at, cache] of step.caches.entries()) {
        if ((deleted & (1 << cache)) === 0) actions.push(at);
      }
    } else actions.push(0);
    if (core === undefined) return actions;
    if (CACHE_STEPS.includes(step.kind) && this.#may("cacheFails")) actions.push(CACHE_FAILS);
    if (DATABASE_STEPS.includes(step.kind) && !end && this.#may("databaseFails")) {
      actions.push(DATABASE_FAILS);
    }
    const isWrite = step.kind === "writeRows" || step.kind === "noteCaches";
    if (isWrite && this.#may("loseCommit")) actions.push(LOSE_COMMIT);
    return actions;
  }

  #may(event: ListedEvent): boolean {
    return this.#budget.get(event)! > 0;
  }

  move(move: number): void {
    if (move < ACTIONS) return this.#happen(LISTED_EVENTS[move]!);
    const running = this.#running[Math.floor(move / ACTIONS) - 1]!;
    const action = move % ACTIONS;
    switch (action) {
      case RESUME:
        return this.#resume(running);
      case CACHE_FAILS:
        this.#spend("cacheFails");
        this.#host.note("a cache does not answer");
        return this.#giveUp(
          running,
          running.step.kind === "invalidateListed"
            ? { result: running.step.keys.map(() => "no reply") }
            : { error: new CacheError("no reply") },
        );
      case DATABASE_FAILS:
        this.#spend("databaseFails");
        this.#host.note("the database refuses");
        return this.#refuse(running);
      case LOSE_COMMIT:
        this.#spend("loseCommit");
        this.#host.note("the connection to the database is lost");
        return this.#giveUp(
          running,
          running.step.kind === "noteCaches"
            ? { error: new Error(REFUSED) }
            : { result: [{ kind: "unknown", reason: "connection lost" }] },
        );
      default:
        return this.#take(running, action);
    }
  }

  #spend(event: ListedEvent): void {
    this.#budget.set(event, this.#budget.get(event)! - 1);
  }

  #happen(event: ListedEvent): void {
    this.#spend(event);
    switch (event) {
      case "restart":
        return this.#restart();
      case "takeOver":
        this.#host.note("a second origin takes over");
        this.#target = this.#setup.successorListed ?? this.#target;
        this.#cores.push(this.#boot());
        return;
      case "changeList": {
        const { listed = [0], laterListed } = this.#setup;
        this.#target = this.#target === listed ? laterListed! : listed;
        this.#host.note(`the list is to be: ${this.#target}`);
        for (const core of this.#cores) core.target = this.#target;
        return;
      }
      case "adjustList": {
        const core = this.#needsAdjustment()!;
        this.#host.note(`an origin begins to make its list ${core.target}`);
        core.states.observe = ignore;
        this.#begin(0, adjusting(core), core, []);
      }
    }
  }

  #boot(): Core {
    const { makeStates, makeFlows, ignoresNotes } = this.#setup;
    const epoch = this.#database.takeOver();
    const states = makeStates?.(epoch) ?? new RecordingStates(epoch);
    const list = new RecordingList(states);
    const target = this.#target;
    const own = new Map(target.map((cache) => [`${cache}`, "listed" as const]));
    const notes = ignoresNotes ? { epoch: 0, caches: own } : this.#database.notes;
    list.adopt(notes, weighted(target));
    const flows = makeFlows?.(list, states) ?? new Flows(list, states, PATIENCE_MS);
    return { flows, states, list, target };
  }

  #restart(): void {
    this.#host.note("the origin restarts");
    const core = this.#cores[0]!;
    const lost = this.#running.filter((running) => running.core === core);
    this.#running = this.#running.filter((running) => running.core !== core);
    for (const running of lost) {
      this.#haunt(running);
      for (const client of running.waiting) this.#host.lost(client);
    }
    this.#target = this.#setup.successorListed ?? this.#target;
    this.#cores[0] = this.#boot();
  }

  /** Nobody waits for the step any more, but it was sent: it may take place, or not. */
  #haunt(running: Running): void {
    const { step, end } = running;
    if (end !== undefined || !HAUNTING_STEPS.includes(step.kind)) return;
    this.#running.push({ ...running, core: undefined, flow: undefined, waiting: [], seen: [] });
  }

  /** The origin waits no longer. */
  #giveUp(running: Running, end: StepEnd): void {
    this.#haunt(running);
    running.end = end;
    this.#resume(running);
  }

  #refuse(running: Running): void {
    const reason = REFUSED;
    switch (running.step.kind) {
      case "writeRows":
        running.end = { result: [{ kind: "failed", reason }] };
        break;
      case "askOutcome":
        running.end = { result: { kind: "unknown", reason } };
        break;
      default:
        running.end = { error: new Error(reason) };
    }
    this.#resume(running);
  }

  // --- steps ---------------------------------------------------------------------------------------

  #take(running: Running, at: number): void {
    const { step } = running;
    try {
      if (step.kind === "invalidateListed") {
        const cache = step.caches[at]!;
        if (!this.#setup.skips?.(step)) this.#invalidate(running.client, cache);
        running.deleted |= 1 << cache;
        if (!step.caches.every((each) => running.deleted & (1 << each))) return;
        running.end = { result: step.keys.map(() => null) };
      } else {
        running.end = { result: this.#resultOf(running.client, step) };
      }
    } catch (error) {
      if (!(error instanceof CacheError)) throw error;
      running.end = { error };
    }
    if (running.core === undefined) this.#remove(running);
    else if (!(this.#setup.late ?? LATE).includes(step.kind)) this.#resume(running);
  }

  #resultOf(client: number, step: FlowStep<number>): StepResults[StepKind] {
    if (this.#setup.skips?.(step)) {
      return step.kind === "noteCaches" ? { kind: "noted", epoch: 0 } : undefined;
    }
    switch (step.kind) {
      case "quarantine": {
        const reply = this.#host.ask(
          client,
          step.cache,
          `quarantine ${step.on ? "on" : "off"}\r\n`,
        );
        if (reply !== "OK\r\n") throw new CacheError(reply);
        return undefined;
      }
      case "noteCaches":
        this.#host.note(`the database notes ${[...step.caches].join(" ")}`);
        return this.#database.noteCaches(step.caches, step.epoch);
      case "readRows":
        this.#host.note(`the database reads version ${this.#database.committed}`);
        return [this.#database.read()];
      case "writeRows": {
        const result = this.#database.write(step.writes[0]!, step.epoch);
        this.#host.note(`the database: ${result.kind} ${this.#database.committed}`);
        return [result];
      }
      case "askOutcome":
        // The database answers when the connection of the write is surely gone.
        this.#running = this.#running.filter((each) =>
          each.core !== undefined || each.step.kind !== "writeRows" ||
          each.step.writes[0]!.tokenId !== step.tokenId
        );
        return this.#database.outcome(step.tokenId);
      default:
        return undefined;
    }
  }

  #invalidate(client: number, cache: number): void {
    const ask = (request: string): string => this.#host.ask(client, cache, request);
    if (ask(`set ${KEY} 0 -1 0\r\n\r\n`) === "STORED\r\n") return;
    const reply = ask(`delete ${KEY}\r\n`);
    if (!/^(?:DELETED|NOT_FOUND)/.test(reply)) throw new CacheError(reply);
  }

  /** Gives the flow the result of its step. */
  #resume(running: Running): void {
    const { core, flow, seen, call } = running;
    const end = running.end!;
    core!.states.observe = (answer) => seen.push(answer);
    seen.push("error" in end ? { word: "!", id: 0 } : seenOf(end.result));
    let yielded: IteratorResult<FlowStep<number>, Answer>;
    try {
      yielded = "error" in end ? flow!.throw(end.error) : flow!.next(end.result);
      yielded = pastHere(flow!, yielded);
    } catch (error) {
      if (!(error instanceof Error) || error.message !== REFUSED) throw error;
      yielded = { done: true, value: { word: "error", id: 0 } };
    }
    if (!yielded.done) {
      running.step = yielded.value;
      running.end = undefined;
      running.deleted = 0;
      return;
    }
    this.#remove(running);
    const answer = this.#concluded(yielded.value);
    if (call.isLinear && Number(answer.word) < running.before) {
      this.#broken ??= `a client reads version ${answer.word}, but ${running.before} was ` +
        "committed before it asked";
    }
    this.#host.note(`the origin answers ${answer.word}`);
    for (const client of running.waiting) this.#host.finished(client, answer);
  }

  #remove(running: Running): void {
    this.#running = this.#running.filter((each) => each !== running);
  }

  #concluded(answer: Answer): Answer {
    if (answer.word === "revoked" || answer.word === "none") this.#database.refuse(answer.id);
    return answer;
  }

  // --- what there is -------------------------------------------------------------------------------

  /** All ids that matter, beside those that clients and caches know. */
  ids(): number[] {
    const ids = this.#cores.flatMap(({ states }) => states.liveIds());
    for (const { seen, step } of this.#running) {
      for (const { id } of seen) if (id !== 0) ids.push(id);
      if (step.kind === "writeRows") ids.push(step.writes[0]!.tokenId);
      if ("tokenId" in step) ids.push(step.tokenId);
    }
    return ids;
  }

  /** @param ids All that matter, in their order. */
  text(ids: readonly number[], rank: (id: number) => number): string {
    let text = this.#database.text(ids, rank) + [...this.#budget.values()];
    for (const { flows, states, list, target } of this.#cores) {
      text += ` P${states.epoch}${flows.isDeposed ? "D" : ""}${target}=${list.text()}:`;
      text += states.text(ids, rank);
    }
    const unattended = this.#running.filter(({ waiting }) => waiting.length === 0);
    text += unattended.map((running) => this.#runningText(running, rank)).sort();
    return text;
  }

  /** The call that a client waits for. */
  callText(client: number, rank: (id: number) => number): string {
    const running = this.#running.find(({ waiting }) => waiting.includes(client));
    return running === undefined ? "" : this.#runningText(running, rank);
  }

  #runningText(running: Running, rank: (id: number) => number): string {
    const { core, call, step, end, deleted, seen, before } = running;
    let text = `{${core === undefined ? "-" : this.#cores.indexOf(core)}${call.note}`;
    if (call.isLinear) text += `>${before}`;
    text += ` ${step.kind}`;
    if (step.kind === "invalidateListed") text += `${step.caches}-${deleted}`;
    if (step.kind === "quarantine") text += `${step.cache}${step.on}`;
    if (step.kind === "noteCaches") text += [...step.caches];
    if ("tokenId" in step) text += `#${rank(step.tokenId)}`;
    if ("epoch" in step) text += `e${step.epoch}`;
    if (step.kind === "writeRows") text += `#${rank(step.writes[0]!.tokenId)}`;
    if (end !== undefined) text += "error" in end ? "!" : wordOf(seenOf(end.result), rank);
    return `${text} ${seen.map((answer) => wordOf(answer, rank))}}`;
  }

  /** Whether clients may read the cache. */
  mayBeRead(cache: number): boolean {
    if (!this.#setup.ignoresOutside) return true;
    return this.#cores.at(-1)!.list.named(`${cache}`)?.state === "listed";
  }

  wrong(): string | undefined {
    return this.#broken ?? this.#database.broken;
  }

  /** Why this is wrong when all clients have ended. */
  wrongAtEnd(): string | undefined {
    if (!this.#setup.mustEndWithoutTokens || this.#running.length > 0) return undefined;
    const isLive = this.#cores.some(({ states }) => states.liveIds().length > 0);
    return isLive ? "all clients have ended, and an update token is live" : undefined;
  }
}

function ignore(): void {}

/** Passes steps that take place in the origin itself, and take no time. */
function pastHere(
  flow: Flow<number, Answer>,
  yielded: IteratorResult<FlowStep<number>, Answer>,
): IteratorResult<FlowStep<number>, Answer> {
  let next = yielded;
  while (!next.done && next.value.kind === "invalidateHere") {
    next = flow.next(next.value.keys.map(() => true));
  }
  return next;
}

/** The change of an origin's list, as a call that no client makes. */
function adjusting({ target }: Core): Call {
  return {
    kind: "call",
    origin: 0,
    note: `adjusts its list to ${target}`,
    isAdjustment: true,
    *call(flows): Flow<number, Answer> {
      const change = yield* flows.changeCaches(weighted(target));
      return { word: change.kind, id: 0 };
    },
  };
}

function isFlow(begun: Flow<number, Answer> | Answer): begun is Flow<number, Answer> {
  return !("word" in begun);
}

/** The part of a result that a flow learns. */
function seenOf(result: StepResults[StepKind]): Answer {
  const [first = result] = Array.isArray(result) ? result : [result];
  if (typeof first !== "object" || first === null) return { word: `${first}`, id: 0 };
  if ("row" in first && "epoch" in first) {
    return { word: `v${first.version}e${first.epoch}`, id: 0 };
  }
  return { word: "version" in first ? `${first.kind}${first.version}` : first.kind, id: 0 };
}

function wordOf({ word, id }: Answer, rank: (id: number) => number): string {
  return id === 0 ? word : `${word}#${rank(id)}`;
}
