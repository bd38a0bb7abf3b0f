import type { Write, WriteResult } from "../../../lib/databases/base/backend.ts";
import { Flows, type Read } from "../../../lib/rows/flows/flows.ts";
import { RowWrite, type WriteReply } from "../../../lib/rows/flows/row_write.ts";
import type { FlowStep, RowFlow, StepKind } from "../../../lib/rows/flows/steps.ts";
import { RowEdit } from "../../../lib/rows/flows/row_edit.ts";
import { StoreMode } from "../../../store/operation.ts";
import { Outcome } from "../../../store/outcome.ts";
import { RowKind, type RowRequest } from "../../../store/row_cache.ts";
import type { Move } from "../explore.ts";
import { KEY } from "../key_record.ts";
import { RecordingStates } from "../client_caches/recording_states.ts";
import type { Answer } from "../steps.ts";
import { ScenarioWorld } from "../scenario_world.ts";
import { nameOf, type TraceWriter } from "../trace.ts";
import type { Client, Deed, OriginScenario } from "./origin_scenario.ts";
import type { Actor, Core, Running } from "./origin_parts.ts";
import { OriginStore, type Result } from "./origin_store.ts";
import { Table } from "./table.ts";

const PATIENCE_MS = 0;
const TAKE = 100;
const TAKE_OVER = 200;
const EVICT = 201;
const ASK_AGAIN = 210;
const RUNNING = 1000;
const ACTIONS = 8;
const RESUME = 4;
const LOSE = 5;
const LOCK = 7;
/** Steps whose result reaches the flow in a step of its own. */
const LATE: readonly StepKind[] = ["readRows", "writeRows", "askOutcome"];

/** Origins: the real flows over the real store, with a database and clients around them. */
export class OriginWorld extends ScenarioWorld<OriginScenario> {
  readonly #table: Table;
  readonly #stores = [new OriginStore(), new OriginStore()];
  #cores: Core[] = [];
  #actors: Actor[] = [];
  #running: Running[] = [];
  #wrong: string | undefined;

  constructor(scenario: OriginScenario) {
    super(scenario);
    this.#table = new Table(scenario.isUnfenced ?? false);
  }

  override start(trace?: TraceWriter): void {
    const { clients, isFilled = false } = this.scenario;
    this.trace = trace;
    this.#table.start(isFilled);
    for (const store of this.#stores) store.start();
    this.#running = [];
    this.#wrong = undefined;
    this.refill();
    this.#actors = clients.map((client, index) => ({
      client,
      name: nameOf(index),
      state: "idle",
      slots: [],
      before: 0,
      versions: [],
    }));
    this.#cores = [];
    this.#boot();
    trace?.begin(clients.map(({ kind }) => kind));
  }

  #boot(): void {
    const store = this.#stores[this.#cores.length]!;
    const states = new RecordingStates(++this.#table.epoch);
    const flows = this.scenario.makeFlows?.(states) ?? new Flows(states, PATIENCE_MS);
    this.#cores.push({ flows, states, store, queue: [], writes: [], isWriting: false });
  }

  // --- moves -------------------------------------------------------------------------------------

  override moves(): Move[] {
    const moves: Move[] = [];
    for (const [index, actor] of this.#actors.entries()) if (this.#canAct(actor)) moves.push(index);
    for (const [index, core] of this.#cores.entries()) {
      if (core.store.queued > 0) moves.push(TAKE + index);
      if (this.#mayAskAgain(core)) moves.push(ASK_AGAIN + index);
    }
    if (this.may("takeOver") && this.#cores.length === 1) moves.push(TAKE_OVER);
    if (this.may("evict") && this.#cores.at(-1)!.store.cached !== null) moves.push(EVICT);
    for (const [index, running] of this.#running.entries()) {
      for (const action of this.#actions(running)) moves.push(RUNNING + index * ACTIONS + action);
    }
    return moves;
  }

  #canAct({ client, state }: Actor): boolean {
    return state === "idle" && (client.origin ?? 0) < this.#cores.length;
  }

  #mayAskAgain(core: Core): boolean {
    return [...core.states.list()].some(({ state }) => state === "unknown") &&
      this.#running.every((each) => each.core !== core || each.flow === undefined);
  }

  #actions({ step, end, flow }: Running): number[] {
    if (end !== undefined) return [RESUME];
    const actions = [0];
    if (step.kind === "writeRows" && flow !== undefined) {
      if (this.may("loseCommit")) actions.push(LOSE);
      if (this.may("lock")) actions.push(LOCK);
    }
    return actions;
  }

  override move(move: Move): void {
    if (move >= RUNNING) {
      return this.#advance(
        this.#running[Math.floor((move - RUNNING) / ACTIONS)]!,
        (move - RUNNING) % ACTIONS,
      );
    }
    if (move >= ASK_AGAIN) {
      const core = this.#cores[move - ASK_AGAIN]!;
      this.note("the origin asks again for what is unknown");
      return this.#begin(core, () => "ask", core.flows.resolveUnknown(), () => {});
    }
    if (move === TAKE_OVER) {
      this.spend("takeOver", "a second origin takes over");
      return this.#boot();
    }
    if (move === EVICT) {
      this.spend("evict", "the row is evicted");
      return this.#cores.at(-1)!.store.evict();
    }
    if (move >= TAKE) return this.#take(this.#cores[move - TAKE]!);
    this.#act(this.#actors[move]!);
  }

  // --- clients -----------------------------------------------------------------------------------

  #act(actor: Actor): void {
    const { client, name } = actor;
    actor.before = this.#table.committed;
    const core = this.#cores[client.origin ?? 0]!;
    const kinds = client.kind === "reader" ? [RowKind.READ] : client.deeds.map(kindOf);
    this.note(`${name} asks for ${client.kind === "reader" ? "the row" : client.deeds}`);
    actor.state = "waiting";
    for (const kind of kinds) {
      actor.slots.push(core.store.submit(kind, 1 + this.#actors.indexOf(actor)));
      core.queue.push(`${name}${actor.slots.length}`);
    }
  }

  /** Gives clients the results that there are. */
  #deliver(): void {
    for (const actor of this.#actors) {
      const { client } = actor;
      for (const [index, slot] of actor.slots.entries()) {
        if (slot === undefined) continue;
        const result = this.#cores[client.origin ?? 0]!.store.result(slot);
        if (result === undefined) continue;
        actor.slots[index] = undefined;
        this.note(`${actor.name}${index + 1} gets ${result.outcome}, version ${result.version}`);
        if (client.kind === "reader") this.#checkRead(actor, result);
        else this.#checkWrite(actor, index, result);
      }
      if (actor.state === "waiting" && actor.slots.every((slot) => slot === undefined)) {
        actor.state = "ended";
      }
    }
  }

  #checkRead({ name, before }: Actor, { outcome, version }: Result): void {
    if (outcome === Outcome.ROW_ERROR) return;
    const since = this.#table.history.slice(before);
    const isRight = outcome === Outcome.NOT_FOUND
      ? since.some(({ row }) => row === null)
      : version >= before && this.#table.history[version]?.row !== null;
    if (!isRight) {
      this.#wrong ??= `${name} reads version ${version}, outcome ${outcome}, but version ` +
        `${before} was committed before it asked`;
    }
  }

  #checkWrite({ name, versions }: Actor, index: number, { outcome, version }: Result): void {
    if (outcome !== Outcome.STORED && outcome !== Outcome.DELETED) return;
    const { author } = this.#table.history[version] ?? { author: "nobody" };
    if (author !== `${name}${index + 1}`) {
      this.#wrong ??= `${name}${index + 1} is told version ${version}, which ${author} has written`;
    }
    if (version < Math.max(0, ...versions)) {
      this.#wrong ??= `the writes of ${name} took place in another order`;
    }
    versions.push(version);
  }

  // --- the database thread -----------------------------------------------------------------------

  #take(core: Core): void {
    this.note("the database thread takes what is queued");
    const taken = core.store.take();
    core.queue = [];
    const reads = taken.filter(({ kind }) => kind === RowKind.READ);
    if (reads.length > 0) this.#readTogether(core, reads);
    for (const request of taken) if (request.kind !== RowKind.READ) this.#queueWrite(core, request);
    this.#writeTogether(core);
    this.#deliver();
  }

  #readTogether(core: Core, requests: RowRequest[]): void {
    if (this.scenario.joinsReads) {
      const other = this.#joinable.get(core);
      if (other !== undefined && this.#running.some(({ seen }) => seen === other.seen)) {
        other.requests.push(...requests);
        return;
      }
    }
    const names = requests.map(({ owner }) => nameOf(owner - 1));
    const label = (): string =>
      `r${names}#${
        requests.map(({ leaseId }) => this.#rank(leaseOf(this.#cores.indexOf(core), leaseId)))
      }`;
    this.#begin(core, label, core.flows.read([KEY]), (reads) => {
      const [read] = reads as Read[];
      if (core.flows.isDeposed) return core.store.cache.rows!.fail(requests, "deposed");
      this.#answerRead(core, requests, read!);
    });
    const seen = this.#running.at(-1)?.seen;
    if (this.scenario.joinsReads && seen !== undefined) {
      this.#joinable.set(core, { seen, requests });
    }
  }

  readonly #joinable = new Map<Core, { seen: Answer[]; requests: RowRequest[] }>();

  #answerRead(core: Core, requests: readonly RowRequest[], { row, cacheable }: Read): void {
    let answered = requests;
    if (this.scenario.fillsWithoutLease && core.store.cached === null) {
      core.store.submit(RowKind.READ, 9);
      answered = [...requests, ...core.store.take()];
    }
    core.store.cache.rows!.answerRead(answered, row, cacheable);
  }

  #queueWrite(core: Core, request: RowRequest): void {
    const actor = this.#actors[request.owner - 1]!;
    const index = actor.slots.indexOf(request.slot);
    const deed = (actor.client as Client & { kind: "writer" }).deeds[index]!;
    const mode = deed === "add" ? StoreMode.ADD : StoreMode.SET;
    const work = new RowEdit({ ...request, mode }, new TextEncoder().encode(deed));
    const rows = core.store.cache.rows!;
    const { edit } = work;
    this.#authors.set(edit as object, `${actor.name}${index + 1}`);
    const answer = (reply: WriteReply): void => {
      if (reply.kind === "committed") rows.answer(request, work.outcome, reply);
      else if (reply.kind === "refused") rows.answer(request, work.outcome);
      else rows.fail([request], reply.kind);
    };
    core.writes.push(new RowWrite({ key: KEY, edit, connection: request.owner, answer }));
  }

  #writeTogether(core: Core): void {
    if (core.isWriting || core.writes.length === 0) return;
    core.isWriting = true;
    const group = core.writes.splice(0);
    const authors = group.map(({ edit }) => this.#authors.get(edit as object));
    this.#begin(core, () => `w${authors}`, core.flows.write(group), (result) => {
      const replies = result as WriteReply[];
      const postponed: RowWrite[] = [];
      for (const [index, write] of group.entries()) {
        const shift = this.scenario.answersNext ? 1 : 0;
        const reply = replies[(index + shift) % replies.length]!;
        if (reply.kind === "postponed") postponed.push(write);
        else write.answer(reply);
      }
      core.writes.unshift(...postponed);
      core.isWriting = false;
      this.#writeTogether(core);
    });
  }

  readonly #authors = new WeakMap<object, string>();

  // --- flows -------------------------------------------------------------------------------------

  #begin<Result>(
    core: Core,
    label: () => string,
    flow: RowFlow<Result>,
    done: (result: Result) => void,
  ): void {
    const seen: Answer[] = [];
    const running: Running = {
      core,
      label,
      seen,
      flow,
      done: done as (result: unknown) => void,
      step: { kind: "sleep", ms: 0 },
      end: { result: undefined },
    };
    this.#running.push(running);
    this.#resume(running);
  }

  #advance(running: Running, action: number): void {
    if (action === RESUME) return this.#resume(running);
    if (action === LOSE) {
      this.spend("loseCommit", "the connection to the database is lost");
      this.#haunt(running);
      const { writes } = running.step as FlowStep & { kind: "writeRows" };
      const unknown: WriteResult = { kind: "unknown", reason: "lost" };
      running.end = { result: writes.map(() => unknown) };
      return;
    }
    if (action === LOCK) {
      this.spend("lock", "the database is locked until the first write is late");
      const { writes } = running.step as FlowStep & { kind: "writeRows" };
      const late: WriteResult = { kind: "failed", reason: "locked" };
      running.end = {
        result: writes.map((_, at): WriteResult => at === 0 ? late : { kind: "postponed" }),
      };
      return;
    }
    this.#execute(running);
    if (running.flow === undefined) {
      this.#running = this.#running.filter((each) => each !== running);
    } else if (running.end !== undefined && !LATE.includes(running.step.kind)) {
      this.#resume(running);
    }
  }

  #haunt(running: Running): void {
    this.#running.push({ ...running, flow: undefined, end: undefined });
  }

  #execute(running: Running): void {
    const { step, core } = running;
    switch (step.kind) {
      case "delete":
        running.end = { result: this.#delete(core, step.keys.length) };
        return;
      case "readRows":
        this.note(`the database reads version ${this.#table.committed}`);
        running.end = { result: step.keys.map(() => this.#table.read()) };
        return;
      case "writeRows": {
        const result = this.#writeRows(step.writes, step.epoch);
        running.end = { result };
        this.note(`the database: ${result.map(({ kind }) => kind)}, ${this.#table.committed}`);
        return;
      }
      case "askOutcome":
        // The database answers when the connection of the group is surely gone.
        this.#running = this.#running.filter(({ flow, step: { kind, ...other } }) =>
          flow !== undefined || kind !== "writeRows" ||
          (other as { writes: readonly Write[] }).writes.every(({ tokenId }) =>
            tokenId !== step.tokenId
          )
        );
        running.end = { result: this.#table.outcome(step.tokenId) };
        return;
      default:
        running.end = { result: undefined };
    }
  }

  #writeRows(writes: readonly Write[], epoch: number): readonly WriteResult[] {
    return this.#table.write(
      writes,
      epoch,
      ({ edit }) => this.#authors.get(edit as object)!,
    );
  }

  #delete({ store }: Core, count: number): boolean[] {
    if (!(this.scenario.keepsAbsent && store.cached === "absent")) store.delete();
    return Array.from({ length: count }, () => true);
  }

  #resume(running: Running): void {
    const { core, flow, seen } = running;
    core.states.observe = (answer) => seen.push(answer);
    let { end } = running;
    for (;;) {
      seen.push({ word: JSON.stringify(end!.result) ?? "", id: 0 });
      const yielded = flow!.next(end!.result);
      if (yielded.done) {
        this.#running = this.#running.filter((each) => each !== running);
        core.states.observe = () => {};
        running.done(yielded.value);
        return this.#deliver();
      }
      running.step = yielded.value;
      running.end = end = undefined;
      // Executes the part that takes place here, in the same step.
      if (running.step.kind !== "delete" && running.step.kind !== "sleep") return;
      this.#execute(running);
      end = running.end;
    }
  }

  // --- what there is -----------------------------------------------------------------------------

  #ids: number[] = [];

  #rank(id: number): number {
    return this.#ids.indexOf(id);
  }

  override stateText(): string {
    const ids: number[] = [];
    for (const { states } of this.#cores) ids.push(...states.liveIds());
    for (const { seen, step } of this.#running) {
      for (const { id } of seen) ids.push(id);
      if (step.kind === "writeRows") { for (const { tokenId } of step.writes) ids.push(tokenId); }
      if (step.kind === "askOutcome") ids.push(step.tokenId);
    }
    for (const core of this.#cores) {
      ids.push(leaseOf(this.#cores.indexOf(core), core.store.leaseId));
    }
    this.#ids = [0, ...new Set(ids.filter((id) => id !== 0))].sort((a, b) => a - b);
    const rank = (id: number): number => this.#rank(id);
    let text = `${this.#table.text()} ${this.#table.appliedText(this.#ids, rank)}`;
    text += this.budget;
    for (const [index, core] of this.#cores.entries()) {
      const { states, store, queue, writes, isWriting, flows } = core;
      const lease = rank(leaseOf(index, store.leaseId));
      text += `|${store.cached}l${lease}${flows.isDeposed ? "D" : ""}`;
      text += `${isWriting ? "W" : ""}q${queue}w${
        writes.map(({ edit }) => this.#authors.get(edit as object))
      }`;
      text += states.text(this.#ids, rank);
    }
    for (const { name, state, slots, before, versions } of this.#actors) {
      text += ` ${name}${state}`;
      if (state === "ended") continue;
      text += `${slots.map((slot) => slot === undefined ? "." : "s")}>${before}:${versions}`;
    }
    return text + this.#running.map((each) => this.#runningText(each));
  }

  #runningText({ core, label, step, end, seen, flow }: Running): string {
    let text = `{${this.#cores.indexOf(core)}${
      flow === undefined ? "-" : ""
    }${label()} ${step.kind}`;
    text += `${end === undefined ? "" : JSON.stringify(end.result)}`;
    if (step.kind === "writeRows") {
      text += step.writes.map(({ tokenId }) => this.#rank(tokenId));
    }
    for (const { word, id } of seen) text += `,${word}${id === 0 ? "" : `#${this.#rank(id)}`}`;
    return `${text}}`;
  }

  override wrong(): string | undefined {
    const { committed } = this.#table;
    const isAbsent = this.#table.read().row === null;
    const isRight = (cached: number | "absent" | null): boolean =>
      cached === null || (cached === "absent" ? isAbsent : cached === committed && !isAbsent);
    const { cached } = this.#cores.at(-1)!.store;
    if (!isRight(cached)) {
      this.#wrong ??= `the origin's cache has ${cached}, the database ${committed}`;
    }
    const isOver = this.moves().length === 0;
    const [core] = this.#cores;
    if (isOver && core!.states.liveIds().length > 0) {
      this.#wrong ??= "all clients have ended, and an update token is live";
    }
    if (isOver && this.#actors.some(({ state }) => state === "waiting")) {
      this.#wrong ??= "a client waits for ever";
    }
    return this.#wrong;
  }

  override wrongToClients(): string | undefined {
    return this.wrong();
  }

  override look(): void {
    this.note(`the cache has ${this.#cores.at(-1)!.store.cached}`);
  }
}

function kindOf(deed: Deed): RowKind {
  return deed === "delete" ? RowKind.REMOVE : RowKind.STORE;
}

/** Returns a number for the lease of an origin's store, whose ids begin elsewhere in each. */
function leaseOf(origin: number, id: number): number {
  return id === 0 ? 0 : (1 + origin) * 2 ** 51 + id % 2 ** 50;
}
