import { hasEveryRow, type KeySet } from "../../../lib/databases/views/key_set.ts";
import type { Read } from "../../../lib/rows/flows/flows.ts";
import {
  type Due,
  type NodeFlow,
  NodeFlows,
  type NodeStep,
} from "../../../lib/rows/flows/node_flows.ts";
import type { Deletion } from "../../../lib/rows/flows/node_list.ts";
import { NodeService, type ServiceFlow } from "../../../lib/rows/flows/node_service.ts";
import { KEY } from "../key_record.ts";
import { RecordingNodes } from "../nodes/recording_nodes.ts";
import type { FollowFault } from "./follow_scenario.ts";

/** Clocks stand still: a membership ends by the event `loseNode`. */
const NOW_MS = 0;
const MEMBER_MS = 1;
const ORIGIN_RIGHT = { isTimed: false, deadlineMs: 0, nowMs: () => NOW_MS };

/** A node: its real flows over a plain cache. */
interface Node {
  readonly name: string;
  readonly flows: NodeFlows;
  /** A version. */
  value: number | null;
  leaseId: number;
  /** Whether it may serve rows. */
  isMember: boolean;
  /** How often it has removed all rows. */
  drops: number;
  /** What keeps its membership; undefined: it is no member. */
  serve: NodeFlow<never> | undefined;
  /** The last deletion that it has executed. */
  confirmed: number;
  /** Its question at the origin, or the answer; undefined: the question is on its way. */
  poll: ServiceFlow<Due | null> | Due | undefined;
}

/** The nodes of an origin that follows the log: the real list of them, and their real flows over plain caches. */
export class FollowNodes {
  readonly #has: (fault: FollowFault) => boolean;
  readonly #note: (text: string) => void;
  readonly #count: number;
  all: readonly Node[] = [];
  list!: RecordingNodes;
  #service!: NodeService;

  constructor(count: number, has: (fault: FollowFault) => boolean, note: (text: string) => void) {
    this.#has = has;
    this.#note = note;
    this.#count = count;
  }

  start(): void {
    this.all = Array.from({ length: this.#count }, (_, index) => this.#newNode(index));
  }

  #newNode(index: number): Node {
    const renew = (deadlineMs: number): void => {
      node.isMember = deadlineMs !== 0;
    };
    const node: Node = {
      name: `node ${index + 1}`,
      flows: new NodeFlows({ nowMs: () => NOW_MS, renew, end: () => {} }),
      value: null,
      leaseId: 0,
      isMember: false,
      drops: 0,
      serve: undefined,
      confirmed: 0,
      poll: undefined,
    };
    return node;
  }

  /** Begins with an origin that knows no node. */
  boot(epoch: number): void {
    this.list = new RecordingNodes(epoch, MEMBER_MS, 0);
    this.#service = new NodeService(this.list, ORIGIN_RIGHT);
    for (const node of this.all) this.#leave(node);
  }

  /** All nodes join, and have a version. */
  fill(version: number | null): void {
    for (const node of this.all) {
      this.#join(node);
      node.value = version;
    }
  }

  acts(mayLose: boolean, lose: (text: string) => void): (() => void)[] {
    return this.all.flatMap((node) => {
      if (node.serve === undefined) return [() => this.#join(node)];
      const acts: (() => void)[] = [];
      if (node.poll === undefined) acts.push(() => this.#ask(node));
      else if ("keys" in node.poll || this.list.due(node.flows.session, 1).seq !== 0) {
        acts.push(() => this.#obey(node));
      }
      if (mayLose) {
        acts.push(() => {
          lose(`the time of ${node.name} is over`);
          this.list.leave(node.flows.session, NOW_MS);
          this.#leave(node);
        });
      }
      return acts;
    });
  }

  #leave(node: Node): void {
    node.flows.leave();
    node.serve = node.poll = undefined;
  }

  #join(node: Node): void {
    this.#note(`${node.name} joins the origin`);
    const flow = node.flows.join();
    this.#execute(node, flow.next().value as NodeStep);
    flow.next();
    const joining = this.#service.join(node.name, "");
    let joined = joining.next();
    if (!joined.done) joined = joining.next(true);
    if (!joined.done) throw new Error("a join has one step");
    flow.next(joined.value);
    node.confirmed = 0;
    node.serve = node.flows.serve();
    node.serve.next();
    this.#ask(node);
  }

  /** The question of a node reaches the origin, and says what the node has deleted. */
  #ask(node: Node): void {
    this.#note(`the origin hears ${node.name}`);
    const poll = this.#service.poll(node.flows.session, node.confirmed);
    const yielded = poll.next();
    node.poll = yielded.done ? yielded.value! : poll;
  }

  /** A node gets the keys to delete, and deletes them. */
  #obey(node: Node): void {
    const { poll } = node;
    const due = "keys" in poll! ? poll : poll!.next(true).value as Due;
    node.poll = undefined;
    node.confirmed = due.seq;
    let { value: step } = node.serve!.next(due);
    while (step.kind !== "poll") {
      this.#execute(node, step);
      step = node.serve!.next(undefined).value;
    }
  }

  #execute(node: Node, step: NodeStep): void {
    if (step.kind !== "delete") return;
    if (step.prefixes.length > 0) {
      const fault = hasEveryRow(step) ? "keepsRows" : "forgetsPrefixAtNode";
      if (this.#has(fault)) return;
      node.drops++;
    } else if (!step.keys.includes(KEY)) return;
    this.#note(`${node.name} deletes`);
    node.value = null;
    if (!this.#has("keepsLease")) node.leaseId = 0;
  }

  /** Begins to delete rows in all nodes. */
  delete(rows: KeySet): Deletion {
    const deletion = this.list.delete(rows, NOW_MS);
    const last = this.all.at(-1)!;
    if (this.#has("forgetsOneNode")) this.list.confirmAll(last.flows.session);
    return deletion;
  }

  isDone(deletion: Deletion): boolean {
    return this.list.isDone(deletion, NOW_MS);
  }

  /** Begins to read at the origin. @returns Whether the origin counts it as a member, and what takes the answer. */
  read(at: number): { isReadable: boolean; answered: (reads: readonly Read[]) => Read } {
    const { flows } = this.all[at]!;
    const flow = flows.read([KEY]);
    flow.next();
    return {
      isReadable: this.list.isReadable(flows.session),
      answered: (reads) => (flow.next(reads).value as readonly Read[])[0]!,
    };
  }

  text(): string {
    return this.all.map(({ flows, value, leaseId, isMember, drops, serve, poll, confirmed }) => {
      const { keys, prefixes, seq } = this.list.due(flows.session, Infinity);
      const asked = poll !== undefined && "keys" in poll ? `${poll.seq - seq}` : typeof poll;
      return `${flows.session}${value}${leaseId === 0}${isMember}${drops}${typeof serve}` +
        `${asked}${keys}*${prefixes}${seq === 0 ? 0 : seq - confirmed}`;
    }).join("/");
  }

  missingText({ missing }: Deletion): string {
    return [...missing].map(([{ name, lastSeq }, seq]) => `${name}${lastSeq - seq}`).join();
  }
}
