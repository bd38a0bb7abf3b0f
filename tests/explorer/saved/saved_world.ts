import { RowWrite } from "../../../lib/rows/flows/row_write.ts";
import { Flows, type Read } from "../../../lib/rows/flows/flows.ts";
import { followLog, type LogFlow, type LogStep } from "../../../lib/rows/flows/log_flow.ts";
import { isLastMark, noteMark } from "../../../lib/rows/flows/marks.ts";
import type { FlowStep, RowFlow, StepKind, StepResults } from "../../../lib/rows/flows/steps.ts";
import { takeOver } from "../../../lib/rows/flows/takeover.ts";
import { TokenStates } from "../../../lib/rows/flows/token_states.ts";
import { RowKind, type RowRequest } from "../../../store/row_cache.ts";
import type { SavedStore } from "../../support/saved_store.ts";
import { ChangeLog } from "../follow/change_log.ts";
import { KEY } from "../key_record.ts";
import { OriginStore } from "../origins/origin_store.ts";
import { Table } from "../origins/table.ts";
import { type Act, ActingWorld } from "../scenario_world.ts";
import { nameOf, type TraceWriter } from "../trace.ts";
import type { SavedClient, SavedEvent, SavedScenario } from "./saved_scenario.ts";

const TOKENS_MAX = 100;
/** The clients that fill the cache before the first step. */
const NOBODY = 99;

interface Actor {
  readonly kind: SavedClient;
  readonly name: string;
  state: "idle" | "waiting" | "logged" | "ended";
}

/** A flow of the origin, at a step that the database executes. */
interface Running {
  /** For the text of the state. */
  readonly text: () => string;
  readonly flow: RowFlow<unknown>;
  readonly done: (result: unknown) => void;
  step: FlowStep;
  /** A result that has not reached the flow. */
  end: { readonly result: StepResults[StepKind] } | undefined;
}

/** A snapshot, and what it says of the rows in it. */
interface File {
  readonly saved: SavedStore;
  readonly mark: string;
  /** The version in it; for the text of the state. */
  readonly version: number | "absent" | null;
}

/** An origin that stops and starts with a snapshot: the real flows, store and snapshot, with a database around them. */
export class SavedWorld extends ActingWorld<SavedScenario> {
  readonly #table = new Table(false);
  readonly #log = new ChangeLog(this.#table, true, true);
  readonly #store = new OriginStore();
  #flows!: Flows;
  #actors: Actor[] = [];
  #running: Running[] = [];
  #follower: LogFlow<never> | undefined;
  #logStep: LogStep | FlowStep | undefined;
  #state: "serves" | "stops" | "down" | "catches up" = "serves";
  #file: File | null = null;
  #restoreCopy: (() => void) | undefined;
  /** The copy, for the text of the state. */
  #copyText = "";
  /** Changes before this position were in the log when the origin started. */
  #startPosition = 0n;
  #marks = 0;

  constructor(scenario: SavedScenario) {
    super(scenario);
  }

  override start(trace?: TraceWriter): void {
    this.trace = trace;
    this.#table.start(true);
    this.#log.start();
    this.#store.start();
    this.#running = [];
    this.#closeLog();
    this.#file = null;
    this.#restoreCopy = undefined;
    this.#copyText = "";
    this.#marks = 0;
    this.refill();
    this.#actors = this.scenario.clients.map((kind, index) => ({
      kind,
      name: nameOf(index),
      state: "idle",
    }));
    this.#boot();
    const slot = this.#store.submit(RowKind.READ, NOBODY);
    this.#store.cache.rows!.answerRead(this.#store.take(), this.#table.read().row, true);
    this.#store.result(slot);
    trace?.begin(this.#actors.map(({ kind }) => kind));
  }

  // --- moves -------------------------------------------------------------------------------------

  protected override acts(): Act[] {
    const acts: Act[] = [];
    for (const actor of this.#actors) if (this.#canAct(actor)) acts.push(() => this.#act(actor));
    if (this.#canFollow()) acts.push(() => this.#follow());
    for (const running of this.#running) acts.push(() => this.#advance(running));
    if (this.#state === "down") acts.push(() => this.#startAgain());
    const may = (event: SavedEvent, act: Act): void => {
      if (this.may(event)) acts.push(act);
    };
    if (this.#state === "serves" && this.#running.length === 0) may("stop", () => this.#stop());
    if (this.#state !== "down") may("kill", () => this.#kill());
    if (this.#state === "down" || this.#state === "stops") {
      may("other", () => this.#other("other"));
      may("otherKilled", () => this.#other("otherKilled"));
    }
    if (this.#running.length === 0) may("copy", () => this.#copy());
    if (this.#state === "down" && this.#restoreCopy !== undefined) {
      may("restore", () => this.#restore());
    }
    return acts;
  }

  #canAct({ kind, state }: Actor): boolean {
    if (state === "ended" || state === "waiting") return false;
    return kind === "direct" || this.#state === "serves";
  }

  #act(actor: Actor): void {
    const { kind, name } = actor;
    if (kind === "direct") return this.#writeDirectly(actor);
    actor.state = "waiting";
    if (kind === "writer") {
      this.note(`${name} writes through the origin`);
      const edit = { flags: 0, data: new Uint8Array() };
      const write = this.#flows.write([new RowWrite({ key: KEY, edit })]);
      return this.#begin(() => `write ${name}`, write, () => actor.state = "ended");
    }
    const store = this.#store;
    const slot = store.submit(RowKind.READ, 1 + this.#actors.indexOf(actor));
    const requests = store.take();
    const end = (): void => {
      store.result(slot);
      actor.state = "ended";
    };
    if (requests.length === 0) return end();
    this.note(`${name} misses, and asks for the row`);
    const [{ leaseId }] = requests as [RowRequest];
    const isCacheable = this.#flows.states.isCacheable(KEY);
    const text = (): string =>
      `read ${name} ${isCacheable} ${leaseId !== 0 && leaseId === store.leaseId}`;
    this.#begin(text, this.#flows.read([KEY]), (reads) => {
      const [{ row, cacheable }] = reads as [Read];
      store.cache.rows!.answerRead(requests, row, cacheable);
      this.note(`the cache has ${store.cached}`);
      end();
    });
  }

  #writeDirectly(actor: Actor): void {
    if (actor.state === "idle") {
      this.note(`a commit of ${actor.name} is in the log`);
      this.#log.append(actor.name, "set");
      actor.state = "logged";
    } else {
      this.note(`reads see the commit of ${actor.name}`);
      this.#log.show(actor.name);
      actor.state = "ended";
    }
  }

  // --- stops and starts ----------------------------------------------------------------------------

  #stop(): void {
    this.spend("stop", "the origin stops");
    this.#state = "stops";
    this.#closeLog();
    if (this.has("marksEarly")) return this.#save(this.#table.mark);
    this.#begin(
      () => "mark",
      noteMark(this.#flows.states.epoch, `${++this.#marks}`),
      (mark) => this.#save(mark as string),
    );
  }

  #save(mark: string): void {
    const isSaved = mark !== "";
    const version = isSaved ? this.#store.cached : null;
    this.note(`the snapshot has version ${version} under the mark "${mark}"`);
    this.#file = { saved: this.#store.save(isSaved ? [] : [""]), mark, version };
    this.#end();
  }

  #kill(): void {
    this.spend("kill", "the origin is killed");
    this.#closeLog();
    this.#end();
  }

  #end(): void {
    for (const actor of this.#actors) if (actor.state === "waiting") actor.state = "ended";
    this.#running = [];
    this.#store.start();
    this.#state = "down";
  }

  #startAgain(): void {
    const taken = this.#run(takeOver("refuse", 0, () => {}));
    this.note(`the origin starts, in epoch ${taken.epoch}, and finds the mark "${taken.mark}"`);
    const file = this.#file;
    if (!this.has("loadsAgain")) this.#file = null;
    this.#boot(taken.epoch);
    if (file === null) return;
    this.#store.load(file.saved);
    if (!this.#isCurrent(file.mark, taken)) return this.#store.dropRows();
    this.note(`version ${this.#store.cached} comes back`);
    this.#startPosition = this.#log.end;
    if (this.scenario.follows && !this.has("servesEarly")) this.#state = "catches up";
    this.#serveIfCaughtUp();
  }

  #isCurrent(mark: string, taken: { epoch: number; mark: string }): boolean {
    switch (this.scenario.fault) {
      case "keepsAlways":
        return true;
      case "comparesEpochs":
        return Number(mark.split(" ")[0]) === taken.epoch - 1;
      case "comparesNames":
      case "loadsAgain":
        return mark === taken.mark;
      default:
        return isLastMark(mark, taken);
    }
  }

  #serveIfCaughtUp(): void {
    if (this.#state === "catches up" && this.#log.confirmed >= this.#startPosition) {
      this.note("the log is applied, and the origin serves");
      this.#state = "serves";
    }
  }

  /** @param epoch Left out: that of the first origin. */
  #boot(epoch = ++this.#table.epoch): void {
    this.#flows = new Flows(new TokenStates(epoch, TOKENS_MAX, TOKENS_MAX), 0);
    this.#state = "serves";
    this.#startPosition = 0n;
    if (this.has("marksEarly")) this.#run(noteMark(epoch, `${++this.#marks}`));
    if (!this.scenario.follows) return;
    this.#log.open();
    this.#follower = followLog(true);
    this.#logStep = this.#follower.next().value;
  }

  #other(event: "other" | "otherKilled"): void {
    this.spend(event, "another origin takes over, and writes");
    const { epoch } = this.#run(takeOver("force", 0, () => {}));
    const version = this.#table.history.length;
    const row = { flags: 0, data: new Uint8Array(), version };
    this.#table.history.push({ author: "other", row });
    if (event === "other") this.#run(noteMark(epoch, `${++this.#marks}`));
  }

  #copy(): void {
    this.spend("copy", "the database is copied");
    this.#restoreCopy = this.#table.copy();
    this.#copyText = `${this.#table.text()} ${this.#table.mark}`;
  }

  #restore(): void {
    this.spend("restore", "the database is restored from its copy");
    this.#restoreCopy!();
  }

  // --- the follower ------------------------------------------------------------------------------

  #closeLog(): void {
    this.#follower = undefined;
    this.#logStep = undefined;
  }

  #canFollow(): boolean {
    const step = this.#logStep;
    return step !== undefined && (step.kind !== "next" || this.#log.hasNext);
  }

  #follow(): void {
    const step = this.#logStep!;
    switch (step.kind) {
      case "begin":
        return this.#proceed(undefined);
      case "next":
        this.note("the follower takes a change");
        return this.#proceed(this.#log.take());
      case "delete":
        this.note("the follower deletes");
        return this.#proceed(this.#resultOf(step));
      case "confirm":
        this.note("the follower confirms");
        this.#log.confirm(step.position);
        this.#proceed(undefined);
        return this.#serveIfCaughtUp();
      default:
        throw new Error(`no step of this log: ${step.kind}`);
    }
  }

  #proceed(result: unknown): void {
    this.#logStep = this.#follower!.next(result).value;
  }

  // --- flows -------------------------------------------------------------------------------------

  /** Runs a flow to its end, without an event between its steps. */
  #run<Result>(flow: RowFlow<Result>): Result {
    let yielded = flow.next();
    while (!yielded.done) yielded = flow.next(this.#resultOf(yielded.value));
    return yielded.value;
  }

  #begin(text: () => string, flow: RowFlow<unknown>, done: (result: unknown) => void): void {
    const step: FlowStep = { kind: "sleep", ms: 0 };
    const running: Running = { text, flow, done, step, end: undefined };
    this.#running.push(running);
    this.#resume(running, undefined);
  }

  /** Executes a step, or gives the result of a read to its flow. */
  #advance(running: Running): void {
    const { end, step } = running;
    if (end !== undefined) return this.#resume(running, end.result);
    this.note(`the database executes ${step.kind}`);
    const result = this.#resultOf(step);
    // The result of a read is late.
    if (step.kind === "readRows") running.end = { result };
    else this.#resume(running, result);
  }

  #resume(running: Running, result: StepResults[StepKind]): void {
    running.end = undefined;
    for (let yielded = running.flow.next(result);;) {
      if (yielded.done) {
        this.#running = this.#running.filter((each) => each !== running);
        return running.done(yielded.value);
      }
      running.step = yielded.value;
      if (!["delete", "sleep"].includes(running.step.kind)) return;
      yielded = running.flow.next(this.#resultOf(running.step));
    }
  }

  #resultOf(step: FlowStep): StepResults[StepKind] {
    switch (step.kind) {
      case "lockOrigin":
        return true;
      case "takeOver":
        return { epoch: ++this.#table.epoch, servedMs: 0, mark: this.#table.mark };
      case "noteMark":
        return this.#table.noteMark(step.mark, step.epoch);
      case "readRows":
        return step.keys.map(() => this.#table.read());
      case "writeRows":
        return this.#table.write(step.writes, step.epoch, () => "writer");
      case "delete":
        if (step.writers === undefined) this.#store.expel();
        else this.#store.delete();
        return step.keys.map(() => true);
      case "sleep":
        return undefined;
      default:
        throw new Error(`no step of these flows: ${step.kind}`);
    }
  }

  // --- what there is -----------------------------------------------------------------------------

  override stateText(): string {
    const { cached, leaseId } = this.#store;
    const file = this.#file;
    let text = `${this.#table.text()} ${this.#log.text()} ${this.budget}`;
    text += `|${this.#state} ${this.#startPosition} ${cached}${leaseId === 0 ? "" : "l"}`;
    text += `|${file === null ? "" : `${file.mark}:${file.version}`}|${this.#table.mark}`;
    text += `|${this.#copyText}|${this.#marks}`;
    text += JSON.stringify(
      this.#logStep ?? "",
      (_, value) => typeof value === "bigint" ? `${value}` : value,
    );
    for (const { name, state } of this.#actors) text += ` ${name}${state}`;
    for (const { text: textOf, step, end } of this.#running) {
      text += `{${textOf()} ${step.kind} ${JSON.stringify(end)}}`;
    }
    return text;
  }

  /** While the origin serves, the cached version is the committed one, or the next is in the unread part of the log. */
  override wrong(): string | undefined {
    const { cached } = this.#store;
    const { committed } = this.#table;
    if (this.#state !== "serves" || cached === null || cached === committed) return undefined;
    const unread = typeof cached === "number" ? this.#log.positionOf(cached + 1) : 0n;
    if (unread > this.#startPosition && unread > this.#log.confirmed) return undefined;
    return `the cache has version ${cached}, and the database has version ${committed}`;
  }

  override wrongToClients(): string | undefined {
    return this.wrong();
  }

  override look(): void {
    this.note(`the database has version ${this.#table.committed}`);
  }
}
