import { Flows, type Right } from "../../../lib/rows/flows/flows.ts";
import { NodeFlows } from "../../../lib/rows/flows/node_flows.ts";
import type { RowFlow } from "../../../lib/rows/flows/steps.ts";
import type { Deletion } from "../../../lib/rows/flows/node_list.ts";
import { NodeService } from "../../../lib/rows/flows/node_service.ts";
import { DRIFT_SHARE } from "../../../lib/rows/flows/takeover.ts";
import type { OriginStore } from "../origins/origin_store.ts";
import { RecordingStates } from "../client_caches/recording_states.ts";
import { nameOf } from "../trace.ts";
import type { Actor, Core, Node, Origin, Question, Running } from "./node_parts.ts";
import { NodePut } from "./node_put.ts";
import type { NodeClient, NodeFault, NodeScenario } from "./node_scenario.ts";
import { RecordingNodes } from "./recording_nodes.ts";

export const MEMBER_MS = 200;
/** The most that a clock may lose in this time. */
export const DRIFT_MS = MEMBER_MS * DRIFT_SHARE;
/** The share of the drift without which there is no margin at all. */
const NO_MARGIN = -DRIFT_SHARE;

/** Returns an origin that does not serve. */
export function newOrigin(store: OriginStore, index: number, clock: () => number): Origin {
  store.start();
  const name = `origin ${index + 1}`;
  const origin: Origin = { name, store, lagMs: 0, isAlive: true, core: undefined };
  const { right } = store.cache.rows!;
  right.nowMs = () => clock() - origin.lagMs;
  right.renew(0);
  return origin;
}

/** Returns what an origin has that serves from now on. */
export function newCore(
  { cache }: OriginStore,
  epoch: number,
  { fault, isTimed }: NodeScenario,
): Core {
  const { right } = cache.rows!;
  const states = new RecordingStates(epoch);
  const share = fault === "leavesMarginOut" ? NO_MARGIN : DRIFT_SHARE;
  const nodes = new RecordingNodes(epoch, MEMBER_MS, share);
  const lasting = { isTimed: false, deadlineMs: 0, nowMs: () => right.nowMs() };
  const service = new NodeService(nodes, fault === "grantsTooMuch" ? lasting : right);
  const flows = new Flows(states, 0);
  if (isTimed) right.renew(right.nowMs() + MEMBER_MS);
  return { flows, states, nodes, service };
}

/** Returns a node that is no member. */
export function newNode(
  store: OriginStore,
  index: number,
  clock: () => number,
  fault: NodeFault | undefined,
): Node {
  store.start();
  const real = store.cache.rows!.right;
  const right: Right = {
    nowMs: () => clock() - node.lagMs,
    renew: (deadlineMs) => {
      const isLate = deadlineMs !== 0 && fault === "countsFromAnswer";
      real.renew(isLate ? right.nowMs() + MEMBER_MS : deadlineMs);
    },
    end: () => fault === "signsOffEarly" || real.end(),
  };
  real.nowMs = right.nowMs;
  const flows = new NodeFlows(right);
  const node: Node = {
    name: `node ${index + 1}`,
    store,
    lagMs: 0,
    flows,
    right,
    origin: undefined,
    work: undefined,
  };
  real.renew(0);
  return node;
}

/** A fault: a deletion does not wait for nodes whose question is not at the origin. */
export function forgetSilent({ missing }: Deletion, nodes: readonly Node[]): void {
  for (const node of missing.keys()) {
    const { work } = nodes.find(({ name }) => name === node.name)!;
    if (work?.question.state !== "served") missing.delete(node);
  }
}

export function newQuestion(): Question {
  return { state: "sent", service: undefined, wait: undefined, answer: "over" };
}

export function newActor(client: NodeClient, index: number): Actor {
  const name = nameOf(index);
  return {
    client,
    name,
    put: client.kind === "putter" ? new NodePut(name, client.fault) : undefined,
    state: "idle",
    mayServe: false,
    before: 0,
    slot: undefined,
    requests: [],
  };
}

/** Returns a flow of an origin that has not begun. */
export function newRunning<Result>(
  origin: number,
  name: string,
  flow: RowFlow<Result>,
  done: (result: Result) => void,
): Running {
  return {
    origin,
    name,
    flow,
    done: done as (result: unknown) => void,
    step: { kind: "sleep", ms: 0 },
    deletion: undefined,
    end: { result: undefined },
    readyMs: 0,
  };
}
