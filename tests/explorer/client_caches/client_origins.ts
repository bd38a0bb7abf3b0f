import type { FlowStep, RowFlow, StepKind, StepResults } from "../../../lib/rows/flows/steps.ts";
import { Flows } from "../../../lib/rows/flows/flows.ts";
import type { Answer, Call } from "../steps.ts";
import { RecordingStates } from "./recording_states.ts";
import type { RowDatabase } from "./row_database.ts";
import { LATE, ORIGIN_EVENTS, type OriginEvent, type OriginSetup } from "./setup.ts";

const PATIENCE_MS = 0;
/** The message of the database's errors. */
const REFUSED = "refused";

/** The surroundings of the origins. */
export interface OriginHost {
  /** A client's call has come to an end. */
  finished(client: number, answer: Answer): void;
  /** The origin that a client was calling is gone. */
  lost(client: number): void;
  note(text: string): void;
}

interface Core {
  readonly flows: Flows;
  readonly states: RecordingStates;
}

/** How a step of a flow ended. */
type StepEnd = { readonly result: StepResults[StepKind] } | { readonly error: Error };

/** A flow, and what it waits for. */
interface Running {
  readonly call: Call;
  /** Clients that wait for the result. */
  readonly waiting: number[];
  /** Undefined: the origin is gone, or has given up waiting; only the step may still take place. */
  readonly core: Core | undefined;
  readonly flow: RowFlow<Answer> | undefined;
  step: FlowStep;
  /** Set when the step has taken place. */
  end: StepEnd | undefined;
  readonly seen: Answer[];
  /** The version that was committed when the call began. */
  readonly before: number;
}

/** A move of a running flow: the flow's number times this, and what happens; events of ORIGIN_EVENTS come first. */
const ACTIONS = 16;
const RESUME = 15;
const DATABASE_FAILS = 13;
const LOSE_COMMIT = 12;
const DATABASE_STEPS: readonly StepKind[] = ["readRows", "writeRows", "askOutcome"];

/** Origins: the real states and flows, whose steps take place, and come back, one by one. */
export class ClientOrigins {
  readonly #setup: OriginSetup;
  readonly #database: RowDatabase;
  readonly #host: OriginHost;
  readonly #cores: Core[] = [];
  #running: Running[] = [];
  readonly #budget = new Map<OriginEvent, number>();
  #broken: string | undefined;

  constructor(setup: OriginSetup, database: RowDatabase, host: OriginHost) {
    this.#setup = setup;
    this.#database = database;
    this.#host = host;
  }

  start(): void {
    this.#database.start();
    this.#running = [];
    this.#cores.length = 0;
    this.#broken = undefined;
    for (const event of ORIGIN_EVENTS) this.#budget.set(event, this.#setup.events?.[event] ?? 0);
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
    return this.#begin(client, call, core);
  }

  #begin(client: number, call: Call, core: Core): Answer | undefined {
    const begun = call.call(core.flows);
    if (!isFlow(begun)) return begun;
    const seen: Answer[] = [];
    core.states.observe = (answer) => seen.push(answer);
    const yielded = pastHere(begun, begun.next());
    if (yielded.done) return this.#concluded(yielded.value);
    const running: Running = {
      call,
      waiting: [client],
      core,
      flow: begun,
      step: yielded.value,
      end: undefined,
      seen,
      before: this.#database.committed,
    };
    this.#running.push(running);
    // A flow that has not looked at anything shared yet could as well have begun now.
    if (seen.length === 0) this.#take(running);
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
    for (const [index, event] of ORIGIN_EVENTS.entries()) {
      if (this.#budget.get(event)! > 0 && this.#canHappen(event)) moves.push(index);
    }
    for (const [index, running] of this.#running.entries()) {
      for (const action of this.#actions(running)) moves.push((index + 1) * ACTIONS + action);
    }
    return moves;
  }

  #canHappen(event: OriginEvent): boolean {
    switch (event) {
      case "takeOver":
        return this.#cores.length === 1;
      default:
        return event === "restart";
    }
  }

  #actions({ step, end, core }: Running): number[] {
    const actions = [end === undefined ? 0 : RESUME];
    if (core === undefined) return actions;
    if (DATABASE_STEPS.includes(step.kind) && !end && this.#may("databaseFails")) {
      actions.push(DATABASE_FAILS);
    }
    if (step.kind === "writeRows" && this.#may("loseCommit")) actions.push(LOSE_COMMIT);
    return actions;
  }

  #may(event: OriginEvent): boolean {
    return this.#budget.get(event)! > 0;
  }

  move(move: number): void {
    if (move < ACTIONS) return this.#happen(ORIGIN_EVENTS[move]!);
    const running = this.#running[Math.floor(move / ACTIONS) - 1]!;
    const action = move % ACTIONS;
    switch (action) {
      case RESUME:
        return this.#resume(running);
      case DATABASE_FAILS:
        this.#spend("databaseFails");
        this.#host.note("the database refuses");
        return this.#refuse(running);
      case LOSE_COMMIT:
        this.#spend("loseCommit");
        this.#host.note("the connection to the database is lost");
        return this.#giveUp(running, {
          result: [{ kind: "unknown", reason: "connection lost" }],
        });
      default:
        return this.#take(running);
    }
  }

  #spend(event: OriginEvent): void {
    this.#budget.set(event, this.#budget.get(event)! - 1);
  }

  #happen(event: OriginEvent): void {
    this.#spend(event);
    switch (event) {
      case "restart":
        return this.#restart();
      case "takeOver":
        this.#host.note("a second origin takes over");
        this.#cores.push(this.#boot());
        return;
    }
  }

  #boot(): Core {
    const { makeStates, makeFlows } = this.#setup;
    const epoch = this.#database.takeOver();
    const states = makeStates?.(epoch) ?? new RecordingStates(epoch);
    const flows = makeFlows?.(states) ?? new Flows(states, PATIENCE_MS);
    return { flows, states };
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
    this.#cores[0] = this.#boot();
  }

  /** Nobody waits for the step any more, but it was sent: it may take place, or not. */
  #haunt(running: Running): void {
    const { step, end } = running;
    if (end !== undefined || step.kind !== "writeRows") return;
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

  #take(running: Running): void {
    const { step } = running;
    running.end = { result: this.#resultOf(step) };
    if (running.core === undefined) this.#remove(running);
    else if (!(this.#setup.late ?? LATE).includes(step.kind)) this.#resume(running);
  }

  #resultOf(step: FlowStep): StepResults[StepKind] {
    switch (step.kind) {
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

  /** Gives the flow the result of its step. */
  #resume(running: Running): void {
    const { core, flow, seen, call } = running;
    const end = running.end!;
    core!.states.observe = (answer) => seen.push(answer);
    seen.push("error" in end ? { word: "!", id: 0 } : seenOf(end.result));
    let yielded: IteratorResult<FlowStep, Answer>;
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
    for (const { flows, states } of this.#cores) {
      text += ` P${states.epoch}${flows.isDeposed ? "D" : ""}:`;
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
    const { core, call, step, end, seen, before } = running;
    let text = `{${core === undefined ? "-" : this.#cores.indexOf(core)}${call.note}`;
    if (call.isLinear) text += `>${before}`;
    text += ` ${step.kind}`;
    if ("tokenId" in step) text += `#${rank(step.tokenId)}`;
    if ("epoch" in step) text += `e${step.epoch}`;
    if (step.kind === "writeRows") text += `#${rank(step.writes[0]!.tokenId)}`;
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

/** Passes steps that take place in the origin itself, and take no time. */
function pastHere(
  flow: RowFlow<Answer>,
  yielded: IteratorResult<FlowStep, Answer>,
): IteratorResult<FlowStep, Answer> {
  let next = yielded;
  while (!next.done && next.value.kind === "delete") {
    next = flow.next(next.value.keys.map(() => true));
  }
  return next;
}

function isFlow(begun: RowFlow<Answer> | Answer): begun is RowFlow<Answer> {
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
