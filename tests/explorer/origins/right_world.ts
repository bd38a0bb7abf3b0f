import { RowWrite } from "../../../lib/rows/flows/row_write.ts";
import type { Takeover } from "../../../lib/databases/base/backend.ts";
import { Flows, type Right } from "../../../lib/rows/flows/flows.ts";
import {
  type FlowStep,
  type RowFlow,
  type StepKind,
  type StepResults,
} from "../../../lib/rows/flows/steps.ts";
import { takeOver, waitFor } from "../../../lib/rows/flows/takeover.ts";
import { TokenStates } from "../../../lib/rows/flows/token_states.ts";
import { RowKind } from "../../../store/row_cache.ts";
import type { Move } from "../explore.ts";
import { KEY } from "../key_record.ts";
import { ScenarioWorld } from "../scenario_world.ts";
import type { TraceWriter } from "../trace.ts";
import { OriginStore } from "./origin_store.ts";
import type { RightEvent, RightScenario } from "./right_scenario.ts";
import { Table } from "./table.ts";

const TICK_MS = 100;
const RIGHT_MS = 200;
/** The most that a clock may lose in this time. */
const DRIFT_MS = 20;
const READER = 1;
/** Numbers of moves: events, the writer, the reader; then those of flows. */
const EVENTS = ["renew", "takeOver", "tick", "drift", "shutDown", "kill"] as const;
const WRITE = 10;
const READ = 20;
const FLOW = 100;

interface Running {
  readonly origin: number;
  readonly name: string;
  readonly flow: RowFlow<unknown>;
  readonly done: (result: unknown) => void;
  step: FlowStep;
  end: { readonly result: StepResults[StepKind] } | undefined;
  /** When a sleep ends. */
  readyMs: number;
}

interface Origin {
  readonly flows: Flows;
  readonly right: Right;
}

/** The right to serve rows: the real flows and the real store's, with clocks, a database and two origins. */
export class RightWorld extends ScenarioWorld<RightScenario> {
  readonly #table = new Table(false);
  readonly #stores: readonly OriginStore[];
  #origins: Origin[] = [];
  #running: Running[] = [];
  #nowMs = 0;
  #lagMs = 0;
  #servesMs = 0;
  #isAlive = true;
  #hasWritten = false;
  #reader = { state: "idle" as "idle" | "begun" | "ended", before: 0, mayServe: false };
  #wrong: string | undefined;

  constructor(scenario: RightScenario) {
    super(scenario);
    const rightFrom = scenario.hasLock ? undefined : "the database";
    this.#stores = [0, 1].map(() => new OriginStore(rightFrom));
  }

  override start(trace?: TraceWriter): void {
    this.trace = trace;
    this.#table.start(true);
    this.refill();
    this.#running = [];
    this.#nowMs = 1000;
    this.#lagMs = 0;
    this.#servesMs = RIGHT_MS;
    this.#isAlive = true;
    this.#hasWritten = false;
    this.#reader = { state: "idle", before: 0, mayServe: false };
    this.#wrong = undefined;
    this.#origins = [];
    this.#table.epoch = 1;
    for (const store of this.#stores) store.start();
    this.#boot(0, 1);
    const [store] = this.#stores;
    store!.submit(RowKind.READ, READER);
    store!.cache.rows!.answerRead(store!.take(), this.#table.read().row, true);
    this.#origins[0]!.right.renew(this.#nowMs + RIGHT_MS);
    trace?.begin(["a reader of the first origin's cache", "a writer at the second"]);
  }

  #boot(index: number, epoch: number): void {
    const { right } = this.#stores[index]!.cache.rows!;
    right.nowMs = () => this.#clockOf(index);
    right.renew(0);
    this.#origins.push({
      flows: new Flows(new TokenStates(epoch, 10, 10), 0),
      right: {
        nowMs: right.nowMs,
        renew: (deadlineMs) => right.renew(deadlineMs),
        end: () => right.end(),
      },
    });
  }

  #clockOf(origin: number): number {
    return this.#nowMs - (origin === 0 ? this.#lagMs : 0);
  }

  // --- moves -------------------------------------------------------------------------------------

  override moves(): Move[] {
    const moves: Move[] = [];
    for (const [index, event] of EVENTS.entries()) if (this.#canHappen(event)) moves.push(index);
    if (this.#origins.length === 2 && !this.#hasWritten) moves.push(WRITE);
    if (this.#reader.state !== "ended" && this.#isAlive) moves.push(READ);
    for (const [index, { origin, end, readyMs }] of this.#running.entries()) {
      if (this.#runs(origin) && (end === undefined || readyMs <= this.#nowMs)) {
        moves.push(FLOW + index);
      }
    }
    return moves;
  }

  #runs(origin: number): boolean {
    return origin === 1 || this.#isAlive;
  }

  #isRunning(name: string): boolean {
    return this.#running.some((each) => each.name === name);
  }

  #canHappen(event: RightEvent): boolean {
    if (!this.may(event)) return false;
    switch (event) {
      case "renew":
        return this.#isAlive && !this.#isRunning("renewal");
      case "shutDown":
      case "kill":
        return this.#isAlive;
      default:
        return true;
    }
  }

  override move(move: Move): void {
    if (move >= FLOW) return this.#advance(this.#running[move - FLOW]!);
    if (move >= READ) return this.#read();
    if (move === WRITE) return this.#write();
    const event = EVENTS[move]!;
    this.spend(event, event);
    switch (event) {
      case "renew":
        return this.#renew();
      case "takeOver":
        return this.#takeOver();
      case "tick":
        this.#nowMs += TICK_MS;
        return;
      case "drift":
        this.#lagMs += DRIFT_MS;
        return;
      case "shutDown":
        return this.#shutDown();
      case "kill":
        this.#isAlive = false;
    }
  }

  #renew(): void {
    const { flows, right } = this.#origins[0]!;
    const store = this.#stores[0]!.cache.rows!.right;
    let asked = right;
    if (this.has("countsFromAnswer")) {
      asked = { ...right, renew: () => right.renew(right.nowMs() + RIGHT_MS) };
    } else if (this.has("renewsWhenDeposed")) {
      const askedMs = right.nowMs();
      asked = { ...right, end: () => store.renew(askedMs + RIGHT_MS) };
    }
    this.#begin(0, "renewal", flows.renewRight(asked, RIGHT_MS), () => {});
  }

  #takeOver(): void {
    const rule = this.scenario.hasLock ? "standby" : "force";
    this.#begin(1, "takeover", takeOver(rule, RIGHT_MS, () => {}), (taken) => {
      this.note("the second origin serves");
      this.#boot(1, (taken as Pick<Takeover, "epoch">).epoch);
    });
  }

  #shutDown(): void {
    const { flows, right } = this.#origins[0]!;
    const late = { ...right, end: () => {} };
    const end = flows.endRight(this.has("notesEndEarly") ? late : right);
    this.#begin(0, "end", end, () => right.end());
  }

  #write(): void {
    this.#hasWritten = true;
    this.note("a write at the second origin");
    const edit = { flags: 0, data: new Uint8Array() };
    const { flows } = this.#origins[1]!;
    const write = flows.write([new RowWrite({ key: KEY, edit })]);
    this.#begin(1, "write", write, () => {});
  }

  /** First the request is received and the clock is looked at, then the cache. */
  #read(): void {
    const reader = this.#reader;
    const { committed } = this.#table;
    const [store] = this.#stores;
    if (reader.state === "idle") {
      this.note("a request is received");
      reader.state = "begun";
      reader.before = committed;
      reader.mayServe = this.has("looksNever") || store!.cache.rows!.right.isValid;
      return;
    }
    reader.state = "ended";
    const before = this.has("looksEarly") ? committed : reader.before;
    const version = store!.hit(reader.mayServe, READER);
    this.note(`it is answered with version ${version}`);
    if (version !== null && version < before) {
      this.#wrong = `version ${version} is read after version ${before} was committed`;
    }
  }

  // --- flows -------------------------------------------------------------------------------------

  #begin(
    origin: number,
    name: string,
    flow: RowFlow<unknown>,
    done: (result: unknown) => void,
  ): void {
    const step: FlowStep = { kind: "sleep", ms: 0 };
    const running: Running = {
      origin,
      name,
      flow,
      done,
      step,
      end: { result: undefined },
      readyMs: 0,
    };
    this.#running.push(running);
    this.#advance(running);
  }

  /** Executes a step, or gives its result to the flow. */
  #advance(running: Running): void {
    if (running.end === undefined) return this.#execute(running);
    const yielded = running.flow.next(running.end.result);
    if (yielded.done) {
      this.#running = this.#running.filter((each) => each !== running);
      return running.done(yielded.value);
    }
    running.step = yielded.value;
    running.end = undefined;
    running.readyMs = 0;
    if (running.step.kind === "sleep" || running.step.kind === "delete") {
      this.#execute(running);
    }
  }

  #execute(running: Running): void {
    const { step, origin } = running;
    this.note(`origin ${origin + 1}: ${step.kind}`);
    running.end = { result: this.#resultOf(step, running) };
  }

  #resultOf(step: FlowStep, running: Running): StepResults[StepKind] {
    switch (step.kind) {
      case "lockOrigin":
        return !this.#isAlive && this.scenario.hasLock === true;
      case "takeOver": {
        const servedMs = this.scenario.hasLock ? 0 : this.#servesMs;
        this.#servesMs = RIGHT_MS;
        return { epoch: ++this.#table.epoch, servedMs, mark: "" };
      }
      case "sleep":
        running.readyMs = this.#nowMs + this.#sleepMs(step.ms);
        return undefined;
      case "readEpoch":
        return this.#table.epoch;
      case "noteEnd":
        if (step.epoch === this.#table.epoch) this.#servesMs = 0;
        return undefined;
      case "delete": {
        this.#stores[running.origin]!.delete();
        return step.keys.map(() => true);
      }
      case "writeRows":
        return this.#table.write(step.writes, step.epoch, () => running.name);
      default:
        throw new Error(`no step of these flows: ${step.kind}`);
    }
  }

  #sleepMs(ms: number): number {
    if (ms !== waitFor(RIGHT_MS)) return ms;
    if (this.has("waitsNever")) return 0;
    return this.has("waitsWithoutMargin") ? RIGHT_MS : ms;
  }

  // --- what there is -----------------------------------------------------------------------------

  override stateText(): string {
    const { right } = this.#stores[0]!.cache.rows!;
    const deadlineMs = right.deadlineMs - this.#clockOf(0);
    const { state, before, mayServe } = this.#reader;
    let text = `${this.#table.text()} ${this.budget} ${Math.max(deadlineMs, -1)} `;
    text += `${this.#lagMs} ${this.#servesMs} ${this.#isAlive} ${state}${before}${mayServe}`;
    text += ` ${this.#stores.map(({ cached }) => cached)}`;
    text += `${this.#hasWritten}${this.#origins.map(({ flows }) => `|${flows.isDeposed}`)}`;
    for (const { name, step, end, readyMs } of this.#running) {
      const left = Math.max(0, readyMs - this.#nowMs);
      text += `{${name} ${step.kind} ${left} ${
        end === undefined ? "" : JSON.stringify(end.result)
      }}`;
    }
    return text;
  }

  override wrong(): string | undefined {
    return this.#wrong;
  }

  override wrongToClients(): string | undefined {
    return this.wrong();
  }

  override look(): void {
    this.note(`the database has version ${this.#table.committed}`);
  }
}
