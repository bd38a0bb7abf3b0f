import type { LeaseGet } from "../../../lib/proxy/flow_steps.ts";
import {
  CacheError,
  type Flow,
  type FlowStep,
  type StepKind,
  type StepResults,
} from "../../../lib/proxy/flow_steps.ts";
import { type CacheList, Flows } from "../../../lib/proxy/flows.ts";
import { latin1Bytes, latin1Text } from "../../../lib/proxy/bytes.ts";
import { KEY } from "../key_record.ts";
import type { Answer, Call } from "../steps.ts";
import { RecordingStates } from "./recording_states.ts";
import type { RowDatabase } from "./row_database.ts";
import { LATE, PROXY_EVENTS, type ProxyEvent, type ProxySetup } from "./setup.ts";

const VALUE_LENGTH_MAX = 100;

/** The surroundings of the proxies. */
export interface ProxyHost {
  /** A command to a cache, on behalf of a client. @returns The reply. */
  ask(client: number, cache: number, request: string): string;
  /** A client's call has come to an end. */
  finished(client: number, answer: Answer): void;
  /** The proxy that a client was calling is gone. */
  lost(client: number): void;
  note(text: string): void;
}

interface Core {
  readonly flows: Flows<number>;
  readonly states: RecordingStates;
  /** The caches that it knows. */
  listed: readonly number[];
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
  /** Undefined: the proxy is gone, or has given up waiting; only the step may still take place. */
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

/** A move of a running flow: the flow's number times this, and what happens; events of PROXY_EVENTS come first. */
const ACTIONS = 16;
const RESUME = 15;
const CACHE_FAILS = 14;
const DATABASE_FAILS = 13;
const LOSE_COMMIT = 12;
const CACHE_STEPS: readonly StepKind[] = ["leaseGet", "leaseSet", "leaseReturn", "invalidate"];
const DATABASE_STEPS: readonly StepKind[] = ["readRow", "writeRow", "askOutcome"];

/** Proxies: the real states and flows, whose steps take place, and come back, one by one. */
export class Proxies {
  readonly #setup: ProxySetup;
  readonly #database: RowDatabase;
  readonly #host: ProxyHost;
  readonly #cores: Core[] = [];
  #running: Running[] = [];
  readonly #budget = new Map<ProxyEvent, number>();
  #broken: string | undefined;

  constructor(setup: ProxySetup, database: RowDatabase, host: ProxyHost) {
    this.#setup = setup;
    this.#database = database;
    this.#host = host;
  }

  start(): void {
    this.#database.start();
    this.#running = [];
    this.#cores.length = 0;
    this.#broken = undefined;
    for (const event of PROXY_EVENTS) this.#budget.set(event, this.#setup.events?.[event] ?? 0);
    for (let proxy = 0; proxy < (this.#setup.proxies ?? 1); proxy++) this.#cores.push(this.#boot());
  }

  /** Whether the proxy that a step calls is there. */
  isThere({ proxy }: Call): boolean {
    return proxy < this.#cores.length;
  }

  /** Begins a client's call. @returns Its answer, or undefined when it comes later. */
  call(client: number, call: Call): Answer | undefined {
    const core = this.#cores[call.proxy]!;
    if (this.#setup.joinsReads && call.isRead) {
      const running = this.#running.find((each) => each.call.isRead && each.core === core);
      if (running !== undefined) {
        running.waiting.push(client);
        return undefined;
      }
    }
    core.states.observe = ignore;
    const begun = call.call(core.flows);
    if (!isFlow(begun)) return begun;
    const seen: Answer[] = [];
    core.states.observe = (answer) => seen.push(answer);
    const yielded = begun.next();
    if (yielded.done) return this.#concluded(yielded.value);
    const running: Running = {
      client,
      call,
      waiting: [client],
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
    for (const [index, event] of PROXY_EVENTS.entries()) {
      if (this.#budget.get(event)! > 0 && this.#canHappen(event)) moves.push(index);
    }
    for (const [index, running] of this.#running.entries()) {
      for (const action of this.#actions(running)) moves.push((index + 1) * ACTIONS + action);
    }
    return moves;
  }

  #canHappen(event: ProxyEvent): boolean {
    if (event === "takeOver") return this.#cores.length === 1;
    return event === "restart" || event === "changeList";
  }

  #actions({ step, end, core, deleted }: Running): number[] {
    const actions: number[] = [];
    if (end !== undefined) actions.push(RESUME);
    else if (step.kind === "invalidate") {
      for (const [at, cache] of step.caches.entries()) {
        if ((deleted & (1 << cache)) === 0) actions.push(at);
      }
    } else actions.push(0);
    if (core === undefined) return actions;
    if (CACHE_STEPS.includes(step.kind) && this.#may("cacheFails")) actions.push(CACHE_FAILS);
    if (DATABASE_STEPS.includes(step.kind) && !end && this.#may("databaseFails")) {
      actions.push(DATABASE_FAILS);
    }
    if (step.kind === "writeRow" && this.#may("loseCommit")) actions.push(LOSE_COMMIT);
    return actions;
  }

  #may(event: ProxyEvent): boolean {
    return this.#budget.get(event)! > 0;
  }

  move(move: number): void {
    if (move < ACTIONS) return this.#happen(PROXY_EVENTS[move]!);
    const running = this.#running[Math.floor(move / ACTIONS) - 1]!;
    const action = move % ACTIONS;
    switch (action) {
      case RESUME:
        return this.#resume(running);
      case CACHE_FAILS:
        this.#spend("cacheFails");
        this.#host.note("a cache does not answer");
        return this.#giveUp(running, { error: new CacheError("no reply") });
      case DATABASE_FAILS:
        this.#spend("databaseFails");
        this.#host.note("the database refuses");
        return this.#refuse(running);
      case LOSE_COMMIT:
        this.#spend("loseCommit");
        this.#host.note("the connection to the database is lost");
        return this.#giveUp(running, { result: { kind: "unknown", reason: "connection lost" } });
      default:
        return this.#take(running, action);
    }
  }

  #spend(event: ProxyEvent): void {
    this.#budget.set(event, this.#budget.get(event)! - 1);
  }

  #happen(event: ProxyEvent): void {
    this.#spend(event);
    switch (event) {
      case "restart":
        return this.#restart();
      case "takeOver":
        this.#host.note("a second proxy takes over");
        this.#cores.push(this.#boot());
        return;
      case "changeList":
        return this.#changeList(this.#setup.laterListed!);
    }
  }

  #changeList(listed: readonly number[]): void {
    for (const core of this.#cores) {
      for (const cache of core.listed) {
        if (!this.#setup.quarantines || listed.includes(cache)) continue;
        this.#host.ask(0, cache, "quarantine on\r\n");
      }
      setList(core, listed);
    }
    this.#host.note(`the caches are now: ${listed}`);
  }

  #boot(): Core {
    const { makeStates, makeFlows, listed = [0] } = this.#setup;
    const epoch = this.#database.takeOver();
    const states = makeStates?.(epoch) ?? new RecordingStates(epoch);
    const list = recordingList(listed, states);
    const flows = makeFlows?.(list, states) ?? new Flows(list, states, VALUE_LENGTH_MAX);
    return { flows, states, listed };
  }

  #restart(): void {
    this.#host.note("the proxy restarts");
    const core = this.#cores[0]!;
    const lost = this.#running.filter((running) => running.core === core);
    this.#running = this.#running.filter((running) => running.core !== core);
    for (const running of lost) {
      this.#haunt(running);
      for (const client of running.waiting) this.#host.lost(client);
    }
    this.#cores[0] = this.#boot();
    setList(this.#cores[0], core.listed);
  }

  /** Nobody waits for the step any more, but it was sent: it may take place, or not. */
  #haunt(running: Running): void {
    const { step, end } = running;
    if (end !== undefined || (step.kind !== "writeRow" && step.kind !== "leaseSet")) return;
    this.#running.push({ ...running, core: undefined, flow: undefined, waiting: [], seen: [] });
  }

  /** The proxy waits no longer. */
  #giveUp(running: Running, end: StepEnd): void {
    this.#haunt(running);
    running.end = end;
    this.#resume(running);
  }

  #refuse(running: Running): void {
    const reason = "refused";
    switch (running.step.kind) {
      case "writeRow":
        running.end = { result: { kind: "failed", reason } };
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
      if (step.kind === "invalidate") {
        const cache = step.caches[at]!;
        this.#invalidate(running.client, cache);
        running.deleted |= 1 << cache;
        if (!step.caches.every((each) => running.deleted & (1 << each))) return;
        running.end = { result: undefined };
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
    switch (step.kind) {
      case "leaseGet":
        return this.#leaseGet(client, step.cache);
      case "leaseSet": {
        const { data } = step.row;
        const head = `lease-set ${KEY} ${step.leaseId} 0 0 ${data.length}\r\n`;
        return this.#host.ask(client, step.cache, `${head}${latin1Text(data)}\r\n`) ===
          "STORED\r\n";
      }
      case "leaseReturn":
        this.#host.ask(client, step.cache, `lease-set ${KEY} ${step.leaseId} 0 -1 0\r\n\r\n`);
        return undefined;
      case "readRow":
        this.#host.note(`the database reads version ${this.#database.committed}`);
        return this.#database.read();
      case "writeRow": {
        const result = this.#database.write(step);
        this.#host.note(`the database: ${result.kind} ${this.#database.committed}`);
        return result;
      }
      case "askOutcome":
        // The database answers when the connection of the write is surely gone.
        this.#running = this.#running.filter((each) =>
          each.core !== undefined || each.step.kind !== "writeRow" ||
          each.step.tokenId !== step.tokenId
        );
        return this.#database.outcome(step.tokenId);
      default:
        return undefined;
    }
  }

  #leaseGet(client: number, cache: number): LeaseGet {
    const reply = this.#host.ask(client, cache, `lease-get ${KEY}\r\n`);
    const value = /^VALUE \S+ (\d+) \d+\r\n(.*)\r\n/.exec(reply);
    if (value !== null) {
      return { kind: "value", flags: Number(value[1]), data: latin1Bytes(value[2]!) };
    }
    const id = /^LVALUE \S+ (\d+) /.exec(reply)?.[1];
    if (id === undefined) throw new CacheError(reply);
    return id === "1" ? { kind: "held" } : { kind: "lease", id };
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
    } catch (error) {
      if (!(error instanceof Error) || error.message !== "refused") throw error;
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
    this.#host.note(`the proxy answers ${answer.word}`);
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
      if ("tokenId" in step) ids.push(step.tokenId);
      if ("leaseId" in step) ids.push(Number(step.leaseId));
    }
    return ids;
  }

  /** @param ids All that matter, in their order. */
  text(ids: readonly number[], rank: (id: number) => number): string {
    let text = this.#database.text(ids, rank) + [...this.#budget.values()];
    for (const { flows, states, listed } of this.#cores) {
      text += ` P${states.epoch}${flows.isDeposed ? "D" : ""}${listed}:`;
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
    if ("caches" in step) text += `${step.caches}-${deleted}`;
    if ("tokenId" in step) text += `#${rank(step.tokenId)}`;
    if ("epoch" in step) text += `e${step.epoch}`;
    if ("leaseId" in step) text += `#${rank(Number(step.leaseId))}`;
    if ("row" in step) text += `v${step.row.version}`;
    if (end !== undefined) text += "error" in end ? "!" : wordOf(seenOf(end.result), rank);
    return `${text} ${seen.map((answer) => wordOf(answer, rank))}}`;
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

function setList(core: Core, listed: readonly number[]): void {
  core.listed = listed;
  core.flows.caches = recordingList(listed, core.states);
}

/** A list that tells when a flow looks at it. The key is read through its first cache. */
function recordingList(listed: readonly number[], states: RecordingStates): CacheList<number> {
  const look = (): readonly number[] => {
    states.observe({ word: `L${listed}`, id: 0 });
    return listed;
  };
  return {
    get all(): readonly number[] {
      return look();
    },
    of: () => look()[0] ?? null,
  };
}

function isFlow(begun: Flow<number, Answer> | Answer): begun is Flow<number, Answer> {
  return !("word" in begun);
}

/** The part of a result that a flow learns. */
function seenOf(result: StepResults[StepKind]): Answer {
  if (typeof result !== "object") return { word: `${result}`, id: 0 };
  if (!("kind" in result)) return { word: `v${result.version}e${result.epoch}`, id: 0 };
  if (result.kind === "value") return { word: `=${latin1Text(result.data)}`, id: 0 };
  if (result.kind === "lease") return { word: "lease", id: Number(result.id) };
  return { word: "version" in result ? `${result.kind}${result.version}` : result.kind, id: 0 };
}

function wordOf({ word, id }: Answer, rank: (id: number) => number): string {
  return id === 0 ? word : `${word}#${rank(id)}`;
}
