import { RowWrite } from "../../../lib/rows/flows/row_write.ts";
import { EVERY_ROW, hasEveryRow, type KeySet } from "../../../lib/databases/views/key_set.ts";
import type { Read } from "../../../lib/rows/flows/flows.ts";
import type { NodeResult } from "../../../lib/rows/flows/node_flows.ts";
import type { Deletion } from "../../../lib/rows/flows/node_list.ts";
import type { RowFlow, StepKind, StepResults } from "../../../lib/rows/flows/steps.ts";
import { takeOver } from "../../../lib/rows/flows/takeover.ts";
import { Outcome } from "../../../store/outcome.ts";
import { RowKind } from "../../../store/row_cache.ts";
import { KEY } from "../key_record.ts";
import { OriginStore } from "../origins/origin_store.ts";
import { Table } from "../origins/table.ts";
import { type Act, ActingWorld } from "../scenario_world.ts";
import type { TraceWriter } from "../trace.ts";
import type { Actor, Core, Node, Origin, Running, Work } from "./node_parts.ts";
import type { NodeScenario } from "./node_scenario.ts";
import type { PutWorld } from "./node_put.ts";
import { nodeText, originText, roleText, runningText, workText } from "./node_text.ts";
import * as setup from "./node_setup.ts";

const TICK_MS = 100;
/** Nodes: the real flows of nodes and origins over real stores, with clocks, connections that break, and a database. */
export class NodeWorld extends ActingWorld<NodeScenario> {
  readonly #table = new Table(false);
  readonly #originStores: readonly OriginStore[];
  readonly #nodeStores: readonly OriginStore[];
  #origins: Origin[] = [];
  #nodes: Node[] = [];
  #actors: Actor[] = [];
  #running: Running[] = [];
  #reads: Work[] = [];
  #nowMs = 0;
  /** The times that the database knows: how long nodes, and the origin, may serve. */
  #nodesMs = 0;
  #servesMs = 0;
  #wrong: string | undefined;

  constructor(scenario: NodeScenario) {
    super(scenario);
    const rightFrom = scenario.isTimed ? "the database" : undefined;
    this.#originStores = [0, 1].map(() => new OriginStore(rightFrom));
    this.#nodeStores = Array.from({ length: scenario.nodes }, () => new OriginStore("an origin"));
  }

  override start(trace?: TraceWriter): void {
    const { clients, fault, isTimed = false } = this.scenario;
    this.trace = undefined;
    this.#table.start(true);
    this.#table.epoch = 1;
    this.#nowMs = 1000;
    this.#nodesMs = 0;
    this.#servesMs = isTimed ? setup.MEMBER_MS : 0;
    this.#running = [];
    this.#reads = [];
    this.#wrong = undefined;
    this.refill();
    const clock = (): number => this.#nowMs;
    this.#origins = this.#originStores.map((store, index) => setup.newOrigin(store, index, clock));
    this.#nodes = this.#nodeStores.map((store, index) => setup.newNode(store, index, clock, fault));
    this.#actors = clients.map(setup.newActor);
    this.#origins[0]!.core = setup.newCore(this.#originStores[0]!, 1, this.scenario);
    this.#fillMembers();
    this.trace = trace;
    trace?.begin(clients.map(roleText));
  }

  /** The first nodes join the first origin, and read the row unless they are cold. */
  #fillMembers(): void {
    for (let node = 0; node < (this.scenario.members ?? this.#nodes.length); node++) {
      this.#join(node, 0);
      while (this.#nodes[node]!.origin === undefined) {
        this.#workActs(this.#nodes[node]!.work!)[0]!();
      }
      if (this.scenario.isCold) continue;
      const { store } = this.#nodes[node]!;
      const slot = store.submit(RowKind.READ, 99);
      store.cache.rows!.answerRead(store.take(), this.#table.read().row, true);
      store.result(slot);
    }
  }

  // --- moves -------------------------------------------------------------------------------------

  protected override acts(): Act[] {
    const acts: Act[] = [];
    for (const actor of this.#actors) {
      if (this.#canAct(actor)) acts.push(() => this.#act(actor));
      if (actor.client.kind === "putter") {
        acts.push(...actor.put!.acts(this.#putWorld(actor.client.node)));
      }
    }
    for (const [index, { work }] of this.#nodes.entries()) {
      if (work?.step.kind === "poll" && this.may("end")) acts.push(() => this.#end(index));
      if (work !== undefined) acts.push(...this.#workActs(work));
      else if (this.may("join")) acts.push(...this.#joinActs(index));
    }
    for (const work of this.#reads) acts.push(...this.#workActs(work));
    for (const running of this.#running) {
      if (this.#canAdvance(running)) acts.push(() => this.#advance(running));
    }
    return [...acts, ...this.#eventActs()];
  }

  #eventActs(): Act[] {
    const acts: Act[] = [];
    const [first] = this.#origins;
    if (this.may("tick")) {
      acts.push(() => this.#tick());
      // The time of an origin that has a lock ends with its process.
      const timed = this.scenario.isTimed ? [this.#origins[0]!, ...this.#nodes] : this.#nodes;
      if (this.may("drift")) acts.push(...timed.map((server) => () => this.#drift(server)));
    }
    if (this.may("kill") && first!.isAlive) acts.push(() => this.#kill());
    if (this.may("takeOver")) acts.push(() => this.#takeOver());
    if (
      this.may("confirm") && first!.isAlive &&
      !this.#running.some(({ name }) => name === "confirmation")
    ) {
      acts.push(() => this.#confirm());
    }
    return acts;
  }

  // --- events ------------------------------------------------------------------------------------

  #tick(): void {
    this.spend("tick", "the clocks go on");
    this.#nowMs += this.scenario.tickMs ?? TICK_MS;
  }

  #drift(server: Origin | Node): void {
    this.spend("drift", `the clock of ${server.name} loses as much as it may`);
    server.lagMs += setup.DRIFT_MS;
    this.#tick();
  }

  #kill(): void {
    this.spend("kill", "origin 1 is killed");
    this.#origins[0]!.isAlive = false;
    this.#running = this.#running.filter(({ origin }) => origin !== 0);
  }

  #takeOver(): void {
    this.spend("takeOver", "the stand-by takes over");
    const rule = this.#origins[0]!.isAlive ? "force" : "standby";
    this.#begin(1, "takeover", takeOver(rule, setup.MEMBER_MS, () => {}), ({ epoch }) => {
      this.note("origin 2 serves");
      this.#nodesMs = 0;
      this.#origins[1]!.core = setup.newCore(this.#originStores[1]!, epoch, this.scenario);
    });
  }

  #confirm(): void {
    this.spend("confirm", "origin 1 has its right confirmed");
    const { core, store } = this.#origins[0]!;
    const { right } = store.cache.rows!;
    this.#begin(0, "confirmation", core!.flows.renewRight(right, setup.MEMBER_MS), () => {});
  }

  // --- clients -----------------------------------------------------------------------------------

  #canAct({ client, state }: Actor): boolean {
    if (state === "ended" || state === "waiting" || client.kind === "putter") return false;
    return client.kind === "reader" || this.#serving(client.origin) !== undefined;
  }

  #serving(origin: number): Core | undefined {
    const { isAlive, core } = this.#origins[origin]!;
    return isAlive ? core : undefined;
  }

  #act(actor: Actor): void {
    if (actor.client.kind === "writer") return this.#write(actor, actor.client.origin);
    const { store, name } = this.#nodes[actor.client.node]!;
    switch (actor.state) {
      case "idle":
        actor.mayServe = this.has("looksNever") || store.cache.rows!.right.isValid;
        actor.before = this.#table.committed;
        this.note(`${name} looks at the clock; the bytes of ${actor.name} are there`);
        // The bytes are received in a step of their own, after the clock was looked at.
        actor.state = this.has("looksEarly") ? "looked" : "begun";
        return;
      case "looked":
        this.note(`the bytes of ${actor.name} are received`);
        actor.before = this.#table.committed;
        actor.state = "begun";
        return;
      default:
        return this.#lookUp(actor, actor.client.node);
    }
  }

  /** Answers a reader from the cache of its node, or reads the row at the origin. */
  #lookUp(actor: Actor, index: number): void {
    const { store, flows, origin } = this.#nodes[index]!;
    const owner = 1 + this.#actors.indexOf(actor);
    actor.state = "ended";
    const version = store.hit(actor.mayServe, owner);
    if (version !== null) return this.#check(actor, version);
    if (origin === undefined) return this.note(`${actor.name} gets an error: no origin`);
    actor.state = "waiting";
    actor.slot = store.submit(RowKind.READ, owner);
    actor.requests = store.take();
    const rows = store.cache.rows!;
    this.#ask({
      node: index,
      origin,
      flow: flows.read([KEY]),
      done: (reads) => {
        const [{ row, cacheable }] = reads as [Read];
        rows.answerRead(actor.requests, row, cacheable);
        this.#deliver(actor, store);
      },
      failed: () => {
        rows.fail(actor.requests, "the connection broke");
        this.#deliver(actor, store);
      },
    });
  }

  #deliver(actor: Actor, store: OriginStore): void {
    const { outcome, version } = store.result(actor.slot!)!;
    actor.state = "ended";
    actor.slot = undefined;
    if (outcome === Outcome.ROW_ERROR) this.note(`${actor.name} gets an error`);
    else this.#check(actor, version);
  }

  #check({ name, before }: Actor, version: number): void {
    this.note(`${name} reads version ${version}`);
    if (version >= before) return;
    this.#wrong ??= `${name} reads version ${version}, but version ${before} was committed before` +
      " its request was received";
  }

  #write(actor: Actor, origin: number): void {
    actor.state = "ended";
    this.note(`${actor.name} writes`);
    const edit = { flags: 0, data: new Uint8Array() };
    const { flows } = this.#origins[origin]!.core!;
    const write = flows.write([new RowWrite({ key: KEY, edit })]);
    this.#begin(origin, actor.name, write, () => this.note(`the write of ${actor.name} ends`));
  }

  /** The part of the world that `putRow` at a node uses. */
  #putWorld(node: number): PutWorld {
    return {
      origin: this.#nodes[node]!.origin,
      cores: this.#origins.map((_, index) => this.#serving(index)),
      begin: (origin, name, write, answer) =>
        this.#begin(origin, name, write, ([reply]) => answer(reply!.kind)),
      mayLose: this.may("lose"),
      lose: (text) => this.spend("lose", text),
      note: (text) => this.note(text),
    };
  }

  // --- flows of nodes ----------------------------------------------------------------------------

  #joinActs(node: number): Act[] {
    return this.#origins.flatMap((_, origin) => {
      if (this.#serving(origin) === undefined) return [];
      return [() => {
        this.spend("join", `${this.#nodes[node]!.name} joins origin ${origin + 1}`);
        this.#join(node, origin);
      }];
    });
  }

  #join(index: number, origin: number): void {
    const node = this.#nodes[index]!;
    this.#ask({
      node: index,
      origin,
      flow: node.flows.join(),
      done: () => {
        node.origin = origin;
        node.work = undefined;
        this.#serve(index, origin);
      },
      failed: () => this.#leave(node),
    });
  }

  #serve(index: number, origin: number): void {
    const node = this.#nodes[index]!;
    const failed = (): void => this.#leave(node);
    this.#ask({ node: index, origin, flow: node.flows.serve(), done: failed, failed });
  }

  /** Ends a member. The answer to its question is not received any more. */
  #end(index: number): void {
    const node = this.#nodes[index]!;
    this.spend("end", `${node.name} ends`);
    const ended = (): void => this.#leave(node);
    const flow = node.flows.signOff();
    this.#ask({ node: index, origin: node.origin!, flow, done: ended, failed: ended });
  }

  #leave(node: Node): void {
    this.note(`${node.name} is no member any more`);
    node.flows.leave();
    node.origin = undefined;
    node.work = undefined;
  }

  /** Begins a flow of a node. */
  #ask(begun: Pick<Work, "node" | "origin" | "flow" | "done" | "failed">): void {
    const work: Work = {
      ...begun,
      step: { kind: "delete", ...EVERY_ROW },
      askedMs: 0,
      question: setup.newQuestion(),
    };
    this.#proceed(work, undefined);
    if (work.step.kind === "read") this.#reads.push(work);
    else this.#nodes[work.node]!.work = work;
  }

  /** Takes a flow to its next question. */
  #proceed(work: Work, result: NodeResult): void {
    const { right } = this.#nodes[work.node]!;
    const yielded = work.flow.next(result);
    if (yielded.done) return this.#finish(work, () => work.done(yielded.value));
    work.step = yielded.value;
    work.askedMs = right.nowMs();
    work.question = setup.newQuestion();
  }

  #deleteRows(work: Work): void {
    const { name, store } = this.#nodes[work.node]!;
    this.note(`${name} deletes the row`);
    store.delete();
    this.#proceed(work, undefined);
  }

  #finish(work: Work, end: Act): void {
    this.#reads = this.#reads.filter((each) => each !== work);
    end();
  }

  #workActs(work: Work): Act[] {
    const { step, question, origin } = work;
    if (step.kind === "delete") {
      return [() => hasEveryRow(step) ? this.#dropRows(work) : this.#deleteRows(work)];
    }
    const acts: Act[] = [];
    const core = this.#serving(origin);
    const isServed = question.state === "served" && question.wait !== undefined;
    if (core !== undefined) {
      if (question.state === "sent") acts.push(() => this.#receive(work, core));
      else if (isServed) acts.push(() => this.#serveOn(work, true));
    }
    if (question.state === "answered") acts.push(() => this.#answered(work));
    if (this.may("lose") || core === undefined) acts.push(() => this.#lose(work));
    return acts;
  }

  #dropRows(work: Work): void {
    const { store, name } = this.#nodes[work.node]!;
    this.note(`${name} drops its rows`);
    if (!this.has("keepsRows")) {
      for (const walk = store.cache.rows!.removal.dropRows([""]); !walk.next().done;);
    }
    this.#proceed(work, undefined);
  }

  /** The origin receives a question. */
  #receive(work: Work, core: Core): void {
    const { step, question, node } = work;
    const { name } = this.#nodes[node]!;
    this.note(`origin ${work.origin + 1} receives a ${step.kind} of ${name}`);
    question.state = "served";
    if (step.kind === "join") question.service = core.service.join(name, step.session);
    else if (step.kind === "poll") {
      question.service = core.service.poll(step.session, step.confirmed);
    } else if (step.kind === "leave") {
      core.nodes.leave(step.session, this.#origins[work.origin]!.store.cache.rows!.right.nowMs());
      question.state = "answered";
      question.answer = undefined;
      return;
    } else if (step.kind === "read") {
      const isReadable = core.nodes.isReadable(step.session);
      const read = core.flows.read(step.keys, isReadable);
      return this.#begin(work.origin, `read ${this.#reads.indexOf(work)}`, read, (reads) => {
        question.state = "answered";
        question.answer = reads as readonly Read[];
      });
    }
    this.#serveOn(work, undefined);
  }

  /** Goes on with the answer to a node. @param waited The result of what it has waited for. */
  #serveOn(work: Work, waited: boolean | undefined): void {
    const { question } = work;
    if (question.wait?.kind === "noteNodes") waited = this.#noteNodes(work.origin);
    question.wait = undefined;
    try {
      const yielded = question.service!.next(waited!);
      if (!yielded.done) {
        question.wait = yielded.value;
        return;
      }
      question.answer = yielded.value ?? "over";
      // A fault: what a node is to delete is taken for deleted.
      if (this.has("confirmsEarly") && work.step.kind === "poll") {
        this.#serving(work.origin)!.nodes.confirmAll(work.step.session);
      }
      this.note(`origin ${work.origin + 1} answers ${this.#nodes[work.node]!.name}`);
    } catch {
      question.answer = "over";
    }
    question.state = "answered";
  }

  #noteNodes(origin: number): boolean {
    if (this.#table.epoch !== origin + 1) return this.scenario.isTimed ?? false;
    if (!this.scenario.isTimed && !this.has("notesNothing")) this.#nodesMs = setup.MEMBER_MS;
    return true;
  }

  /** The node receives the answer. */
  #answered(work: Work): void {
    const { question: { answer }, node } = work;
    const { name } = this.#nodes[node]!;
    this.note(`${name} receives the answer`);
    if (answer === "over") return this.#finish(work, work.failed);
    this.#proceed(work, answer);
  }

  #lose(work: Work): void {
    const { name } = this.#nodes[work.node]!;
    const text = `a connection of ${name} breaks`;
    if (this.#serving(work.origin) === undefined) this.note(text);
    else this.spend("lose", text);
    const { step } = work;
    if (step.kind === "poll" && step.mayBreak) this.#proceed(work, null);
    else this.#finish(work, work.failed);
  }

  // --- flows of origins --------------------------------------------------------------------------

  #begin<Result>(
    origin: number,
    name: string,
    flow: RowFlow<Result>,
    done: (result: Result) => void,
  ): void {
    const running = setup.newRunning(origin, name, flow, done);
    this.#running.push(running);
    this.#resume(running);
  }

  #canAdvance({ origin, step, deletion, end, readyMs }: Running): boolean {
    if (step.kind === "sleep") return readyMs <= this.#nowMs;
    if (deletion === undefined || end !== undefined) return true;
    const { core, store } = this.#origins[origin]!;
    return core!.nodes.isDone(deletion, store.cache.rows!.right.nowMs());
  }

  #advance(running: Running): void {
    const { step, origin } = running;
    if (running.end === undefined) {
      this.note(`origin ${origin + 1}: ${step.kind}`);
      running.end = { result: this.#resultOf(running) };
      // The result of a read is late.
      if (step.kind === "readRows" || step.kind === "askOutcome") return;
    }
    this.#resume(running);
  }

  #resume(running: Running): void {
    const yielded = running.flow.next(running.end!.result);
    running.deletion = undefined;
    running.end = undefined;
    if (yielded.done) {
      this.#running = this.#running.filter((each) => each !== running);
      return running.done(yielded.value);
    }
    const step = running.step = yielded.value;
    if (step.kind === "sleep") {
      running.readyMs = this.#nowMs + (this.has("waitsNever") ? 0 : step.ms);
      running.end = { result: undefined };
    } else if (step.kind === "delete") {
      this.#originStores[running.origin]!.delete();
      const { nodes } = this.#origins[running.origin]!.core!;
      if (nodes.size === 0) {
        running.end = { result: step.keys.map(() => true) };
        return this.#resume(running);
      }
      this.note(`origin ${running.origin + 1} deletes the row in nodes`);
      running.deletion = this.#deleteInNodes(running.origin, step);
    }
  }

  #deleteInNodes(origin: number, rows: KeySet): Deletion {
    const { core, store } = this.#origins[origin]!;
    const deletion = core!.nodes.delete(rows, store.cache.rows!.right.nowMs());
    if (this.has("deletesInMembersOnly")) setup.forgetSilent(deletion, this.#nodes);
    return deletion;
  }

  #resultOf({ step, origin, name }: Running): StepResults[StepKind] {
    switch (step.kind) {
      case "delete":
        return step.keys.map(() => true);
      case "lockOrigin":
        return !this.#origins[0]!.isAlive;
      case "takeOver":
        return this.#raiseEpoch();
      case "readEpoch":
        return this.#table.epoch;
      case "readRows":
        return step.keys.map(() => this.#table.read());
      case "askOutcome":
        return this.#table.outcome(step.tokenId);
      case "writeRows":
        return this.#table.write(step.writes, step.epoch, () => name);
      default:
        throw new Error(`no step of origin ${origin}: ${step.kind}`);
    }
  }

  #raiseEpoch(): StepResults["takeOver"] {
    const lockedMs = this.#origins[0]!.isAlive ? Infinity : 0;
    const servedMs = this.scenario.isTimed ? this.#servesMs : lockedMs;
    return { epoch: ++this.#table.epoch, servedMs, nodesMs: this.#nodesMs, mark: "" };
  }

  // --- what there is -----------------------------------------------------------------------------

  override stateText(): string {
    let text = `${this.#table.text()} ${this.budget} ${this.#nodesMs}`;
    for (const origin of this.#origins) text += originText(origin);
    for (const node of this.#nodes) text += nodeText(node) + this.#workText(node.work);
    for (const { state, before, mayServe, put } of this.#actors) {
      text += put?.text(this.#table, this.#origins.map(({ core }) => core)) ?? "";
      text += state === "ended" ? " ." : ` ${state}${before}${mayServe}`;
    }
    for (const work of this.#reads) text += this.#workText(work);
    for (const running of this.#running) text += runningText(running, this.#nowMs);
    return text;
  }

  #workText(work: Work | undefined): string {
    if (work === undefined) return "";
    const actor = this.#actors.find(({ client, state }) =>
      state === "waiting" && client.kind === "reader" && client.node === work.node
    );
    return workText(work, this.#nodes[work.node]!, actor);
  }

  override wrong(): string | undefined {
    const { committed } = this.#table;
    for (const { put } of this.#actors) this.#wrong ??= put?.wrong(this.#table);
    for (const { name, store } of this.#nodes) {
      const { cached } = store;
      if (cached === null || cached === committed || !store.cache.rows!.right.isValid) continue;
      this.#wrong ??= `${name} may serve version ${cached}, the database has ${committed}`;
    }
    return this.#wrong;
  }

  wrongToClients = this.wrong;

  override look(): void {
    this.note(`the database has version ${this.#table.committed}`);
  }
}
