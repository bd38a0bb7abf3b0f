import { RowWrite } from "../../../lib/rows/flows/row_write.ts";
import { hasEveryRow, type KeySet } from "../../../lib/databases/views/key_set.ts";
import { Flows, type Read } from "../../../lib/rows/flows/flows.ts";
import { followLog, type LogFlow, type LogStep } from "../../../lib/rows/flows/log_flow.ts";
import type { Deletion } from "../../../lib/rows/flows/node_list.ts";
import {
  type FlowStep,
  type RowFlow,
  step as stepOf,
  type StepKind,
  type StepResults,
} from "../../../lib/rows/flows/steps.ts";
import { RowKind, type RowRequest } from "../../../store/row_cache.ts";
import type { RequestSlot } from "../../../store/rows/row_requests.ts";
import { KEY } from "../key_record.ts";
import { OriginStore } from "../origins/origin_store.ts";
import { Table } from "../origins/table.ts";
import { RecordingStates } from "../client_caches/recording_states.ts";
import { type Act, ActingWorld } from "../scenario_world.ts";
import { nameOf, type TraceWriter } from "../trace.ts";
import { ChangeLog } from "./change_log.ts";
import { FollowNodes } from "./follow_nodes.ts";
import type { FollowClient, FollowScenario } from "./follow_scenario.ts";
import { stepOfReader } from "./lease_reader.ts";

interface Actor {
  readonly client: FollowClient;
  readonly name: string;
  state: "idle" | "leased" | "waiting" | "read" | "logged" | "ended";
  leaseId: number;
  read: Read | undefined;
  slot: RequestSlot | undefined;
  requests: readonly RowRequest[];
}

/** A flow of the origin, at a step that a cache or the database executes. */
interface Running {
  readonly name: string;
  readonly flow: RowFlow<unknown>;
  readonly done: (result: unknown) => void;
  step: FlowStep;
  /** In nodes. */
  deletion: Deletion | undefined;
  /** A result that has not reached the flow. */
  end: { readonly result: StepResults[StepKind] } | undefined;
}

/** The follower of the log: its real flow and those of rows, over the real store, with nodes and a database. */
export class FollowWorld extends ActingWorld<FollowScenario> {
  readonly #table = new Table(false);
  readonly #log: ChangeLog;
  readonly #store = new OriginStore();
  readonly #nodes: FollowNodes;
  #flows!: Flows;
  #states!: RecordingStates;
  #actors: Actor[] = [];
  #running: Running[] = [];
  #follower!: LogFlow<never>;
  #logStep!: LogStep | FlowStep;
  /** Whether the step of the follower is under way. */
  #isBusy = false;
  #lastLease = 0;

  constructor(scenario: FollowScenario) {
    super(scenario);
    this.#log = new ChangeLog(
      this.#table,
      !this.has("leavesOldKeyOut"),
      !this.has("appliesUnseen"),
    );
    const { nodes = 0 } = scenario;
    this.#nodes = new FollowNodes(nodes, (fault) => this.has(fault), (text) => this.note(text));
  }

  override start(trace?: TraceWriter): void {
    const { clients, isCold = false } = this.scenario;
    this.#table.start(true);
    this.#log.start();
    this.#lastLease = 0;
    this.refill();
    const value = isCold ? null : 0;
    this.#actors = clients.map((client, index) => ({
      client,
      name: nameOf(index),
      state: "idle",
      leaseId: 0,
      read: undefined,
      slot: undefined,
      requests: [],
    }));
    this.trace = undefined;
    this.#nodes.start();
    this.#boot();
    this.#nodes.fill(value);
    this.trace = trace;
    if (!isCold) {
      const slot = this.#store.submit(RowKind.READ, 99);
      this.#store.cache.rows!.answerRead(this.#store.take(), this.#table.read().row, true);
      this.#store.result(slot);
    }
    trace?.begin(clients.map(({ kind }) => kind));
  }

  /** Starts the origin, with an empty cache. */
  #boot(): void {
    this.#store.start();
    this.#running = [];
    const states = this.#states = new RecordingStates(++this.#table.epoch);
    this.#nodes.boot(this.#table.epoch);
    this.#flows = new Flows(states, 0);
    this.#open();
  }

  // --- moves -------------------------------------------------------------------------------------

  protected override acts(): Act[] {
    const acts: Act[] = [];
    for (const actor of this.#actors) {
      if (actor.state !== "ended" && actor.state !== "waiting") acts.push(() => this.#act(actor));
    }
    if (this.#canFollow()) acts.push(() => this.#follow());
    for (const running of this.#running) acts.push(...this.#runningActs(running));
    acts.push(...this.#nodes.acts(this.may("loseNode"), (text) => this.spend("loseNode", text)));
    if (this.may("restart")) acts.push(() => this.#restart());
    const canLose = this.#log.isSeen || this.has("beginsBehindUnseen");
    if (this.may("loseSlot") && canLose) acts.push(() => this.#loseSlot());
    return acts;
  }

  #restart(): void {
    this.spend("restart", "the origin restarts");
    for (const actor of this.#actors) if (actor.state === "waiting") actor.state = "ended";
    this.#boot();
  }

  #loseSlot(): void {
    this.spend("loseSlot", "the log is lost");
    this.#log.lose();
  }

  // --- clients -----------------------------------------------------------------------------------

  #act(actor: Actor): void {
    const { client, name } = actor;
    switch (client.kind) {
      case "reader":
        return this.#readAtOrigin(actor);
      case "nodeReader":
        return this.#readAtNode(actor, client.node);
      case "writer":
        return this.#write(actor);
      case "direct":
        if (actor.state === "idle") {
          this.note(`a commit of ${name}, ${client.deed}, is in the log`);
          this.#log.append(name, client.deed);
          actor.state = "logged";
        } else {
          this.note(`reads see the commit of ${name}`);
          this.#log.show(name);
          actor.state = "ended";
        }
    }
  }

  #readAtOrigin(actor: Actor): void {
    const store = this.#store;
    this.note(`${actor.name} asks for the row`);
    actor.state = "waiting";
    actor.slot = store.submit(RowKind.READ, 1 + this.#actors.indexOf(actor));
    actor.requests = store.take();
    this.#begin(`read ${actor.name}`, this.#flows.read([KEY]), (reads) => {
      const [{ row, cacheable }] = reads as [Read];
      store.cache.rows!.answerRead(actor.requests, row, cacheable);
      store.result(actor.slot!);
      this.note(`the origin's cache has ${store.cached}`);
      actor.state = "ended";
    });
  }

  #readAtNode(actor: Actor, at: number): void {
    const node = this.#nodes.all[at]!;
    stepOfReader(actor, node, {
      name: node.name,
      isOpen: node.isMember,
      newLease: () => ++this.#lastLease,
      note: (text) => this.note(text),
      read: (done) => {
        const { isReadable, answered } = this.#nodes.read(at);
        const read = this.#flows.read([KEY], isReadable);
        this.#begin(`read ${actor.name}`, read, (reads) => done(answered(reads)));
      },
    });
  }

  #write(actor: Actor): void {
    this.note(`${actor.name} writes through the origin`);
    actor.state = "waiting";
    const edit = { flags: 0, data: new Uint8Array() };
    const write = this.#flows.write([new RowWrite({ key: KEY, edit })]);
    this.#begin(`write ${actor.name}`, write, () => actor.state = "ended");
  }

  // --- the follower ------------------------------------------------------------------------------

  #open(): void {
    this.#log.open();
    this.#isBusy = false;
    if (this.has("beginsEarly")) this.#log.hasGap = false;
    this.#follower = followLog(!this.#log.hasGap || this.has("emptiesNothing"));
    this.#logStep = this.#follower.next().value;
  }

  #canFollow(): boolean {
    return !this.#isBusy &&
      (this.#logStep.kind !== "next" || this.#log.isBroken || this.#log.hasNext);
  }

  #follow(): void {
    const step = this.#logStep;
    switch (step.kind) {
      case "next":
        return this.#next();
      case "begin":
        if (this.#log.isBroken) return this.#reopen();
        this.#log.hasGap = false;
        return this.#proceed(undefined);
      case "confirm":
        this.note("the follower confirms");
        this.#log.confirm(step.position);
        return this.#proceed(undefined);
      default:
        this.#isBusy = true;
        return this.#begin("log", stepOf(step), (result) => this.#proceed(result));
    }
  }

  #next(): void {
    if (this.#log.isBroken) return this.#reopen();
    const changes = this.#log.take();
    this.note(`the follower takes the change of ${shown(changes)}`);
    if (this.has("confirmsEarly")) this.#log.confirm(changes.position);
    this.#proceed(changes);
  }

  #reopen(): void {
    this.note("the follower opens the log again");
    this.#open();
  }

  #proceed(result: unknown): void {
    this.#isBusy = false;
    this.#logStep = this.#follower.next(result).value;
  }

  // --- flows -------------------------------------------------------------------------------------

  #begin<Result>(
    name: string,
    flow: RowFlow<Result>,
    done: (result: Result) => void,
  ): void {
    const running: Running = {
      name,
      flow,
      done: done as (result: unknown) => void,
      step: { kind: "sleep", ms: 0 },
      deletion: undefined,
      end: undefined,
    };
    this.#running.push(running);
    this.#resume(running, undefined);
  }

  #runningActs(running: Running): Act[] {
    const { end, deletion } = running;
    if (end !== undefined) return [() => this.#resume(running, end.result)];
    if (deletion === undefined) return [() => this.#executeStep(running)];
    const isDone = this.has("leavesNodesBehind") || this.#nodes.isDone(deletion);
    return isDone ? [() => this.#resume(running, deletedIn(running.step))] : [];
  }

  #executeStep(running: Running): void {
    const { step } = running;
    switch (step.kind) {
      case "readRows":
        this.note(`the database reads version ${this.#table.committed}`);
        // What a read has found is late.
        running.end = { result: step.keys.map(() => this.#table.read()) };
        return;
      case "writeRows":
        this.note("the database writes");
        return this.#resume(
          running,
          this.#table.write(step.writes, step.epoch, () => running.name),
        );
      default:
        throw new Error(`no step of these flows: ${step.kind}`);
    }
  }

  #resume(running: Running, result: StepResults[StepKind]): void {
    running.end = undefined;
    running.deletion = undefined;
    const yielded = running.flow.next(result);
    if (yielded.done) {
      this.#running = this.#running.filter((each) => each !== running);
      return running.done(yielded.value);
    }
    const step = running.step = yielded.value;
    switch (step.kind) {
      case "delete":
        return this.#delete(running, step);
      case "sleep":
        return this.#resume(running, undefined);
    }
  }

  #delete(running: Running, { keys, prefixes, writers }: FlowStep & { kind: "delete" }): void {
    if (writers !== undefined) this.#store.delete();
    else this.#expel({ keys, prefixes });
    if (this.#nodes.list.size === 0) return this.#resume(running, deletedIn(running.step));
    this.note("the origin deletes in nodes");
    running.deletion = this.#nodes.delete({ keys, prefixes });
  }

  #expel(rows: KeySet): void {
    this.note(`the origin deletes ${shown(rows)}`);
    const isForgotten = !hasEveryRow(rows) && this.has("forgetsPrefixHere");
    if (rows.prefixes.length > 0 && !isForgotten) this.#expelPrefixes(rows.prefixes);
    if (rows.keys.includes(KEY)) this.#expelKey();
  }

  #expelPrefixes(prefixes: readonly string[]): void {
    if (this.has("keepsLease")) return this.#store.evict();
    for (const walk = this.#store.cache.rows!.removal.dropRows(prefixes); !walk.next().done;);
  }

  #expelKey(): void {
    if (this.has("keepsLease")) return this.#store.evict();
    const { cache } = this.#store;
    cache.enter();
    cache.rows!.removal.expel(KEY);
    cache.leave();
  }

  // --- what there is -----------------------------------------------------------------------------

  override stateText(): string {
    const { cached, leaseId } = this.#store;
    const ids = this.#states.liveIds();
    let text = `${this.#table.text()} ${this.#log.text()} ${this.budget}`;
    text += `|${cached}${leaseId === 0 ? "" : "l"}${this.#isBusy}`;
    text += JSON.stringify(
      this.#logStep,
      (_, value) => typeof value === "bigint" ? `${value}` : value,
    );
    text += this.#states.text(ids, (id) => ids.indexOf(id));
    for (const { name, state, requests, read, leaseId: own, client } of this.#actors) {
      text += ` ${name}${state}`;
      if (state === "ended") continue;
      text += requests.map((each) => each.leaseId !== 0 && each.leaseId === leaseId);
      if (client.kind === "nodeReader") text += this.#nodes.all[client.node]!.leaseId === own;
      if (read !== undefined) text += `${read.version}${read.cacheable}`;
    }
    text += this.#nodes.text();
    for (const { name, step, end, deletion } of this.#running) {
      text += `{${name} ${JSON.stringify(step.kind === "writeRows" ? step.kind : step)}`;
      text += JSON.stringify(end);
      text += `${deletion && this.#nodes.missingText(deletion)}}`;
    }
    return text;
  }

  override wrong(): string | undefined {
    if (this.#log.hasGap) return undefined;
    const values: [name: string, cached: number | "absent" | null][] = [
      ["the origin's cache", this.#store.cached],
    ];
    for (const { name, value, isMember } of this.#nodes.all) {
      if (isMember) values.push([name, value]);
    }
    const old = values.find(([, cached]) => cached !== null && !this.#mayHave(cached));
    return old && `${old[0]} has ${old[1]}, which is old, and no unread part of the log says so`;
  }

  /** Whether a value is the committed one, or the change after it is in the unread part of the log. */
  #mayHave(cached: number | "absent"): boolean {
    const { history, committed } = this.#table;
    const version = cached === "absent" ? history.findLastIndex(({ row }) => row === null) : cached;
    if (version < 0 || (cached !== "absent" && history[version]!.row === null)) return false;
    return version === committed || this.#log.isUnread(version + 1);
  }

  override wrongToClients(): string | undefined {
    return this.wrong();
  }

  override look(): void {
    this.note(`the database has version ${this.#table.committed}`);
  }
}

function deletedIn(step: FlowStep): boolean[] {
  return step.kind === "delete" ? step.keys.map(() => true) : [];
}

function shown({ keys, prefixes }: KeySet): string {
  return [...prefixes.map((prefix) => `${prefix}*`), ...keys].join();
}
