import type { Flows, Right } from "../../../lib/rows/flows/flows.ts";
import type {
  NodeFlow,
  NodeFlows,
  NodeResult,
  NodeStep,
} from "../../../lib/rows/flows/node_flows.ts";
import type { Deletion } from "../../../lib/rows/flows/node_list.ts";
import type {
  NodeService,
  ServiceFlow,
  ServiceStep,
} from "../../../lib/rows/flows/node_service.ts";
import type { FlowStep, RowFlow, StepKind, StepResults } from "../../../lib/rows/flows/steps.ts";
import type { RequestSlot } from "../../../store/rows/row_requests.ts";
import type { RowRequest } from "../../../store/row_cache.ts";
import type { OriginStore } from "../origins/origin_store.ts";
import type { RecordingStates } from "../client_caches/recording_states.ts";
import type { NodePut } from "./node_put.ts";
import type { NodeClient } from "./node_scenario.ts";
import type { RecordingNodes } from "./recording_nodes.ts";

/** A server with a store of its own and a clock. */
interface Server {
  readonly name: string;
  readonly store: OriginStore;
  /** How far its clock is behind. */
  lagMs: number;
}

export interface Origin extends Server {
  isAlive: boolean;
  /** Undefined: it has not taken over. */
  core: Core | undefined;
}

/** The parts of an origin that serves. */
export interface Core {
  readonly flows: Flows;
  readonly states: RecordingStates;
  readonly nodes: RecordingNodes;
  readonly service: NodeService;
}

export interface Node extends Server {
  readonly flows: NodeFlows;
  readonly right: Right;
  /** The origin whose member it is; undefined: it is none. */
  origin: number | undefined;
  /** The flow that keeps its membership, or begins it. */
  work: Work | undefined;
}

/** A flow of a node, at a step that the origin or the cache executes. */
export interface Work {
  readonly node: number;
  readonly origin: number;
  readonly flow: NodeFlow<unknown>;
  readonly done: (result: unknown) => void;
  readonly failed: () => void;
  step: NodeStep;
  /** On the clock of the node. */
  askedMs: number;
  question: Question;
}

/** A question of a node to its origin. */
export interface Question {
  state: "sent" | "served" | "answered";
  /** Undefined: it is read by other flows, or has not been served. */
  service: ServiceFlow<NodeResult> | undefined;
  wait: ServiceStep | undefined;
  /** "over": the session has ended, or the origin refuses. */
  answer: NodeResult | "over";
}

/** A flow of an origin. */
export interface Running {
  readonly origin: number;
  readonly name: string;
  readonly flow: RowFlow<unknown>;
  readonly done: (result: unknown) => void;
  step: FlowStep;
  deletion: Deletion | undefined;
  end: { readonly result: StepResults[StepKind] } | undefined;
  /** When a sleep ends. */
  readyMs: number;
}

export interface Actor {
  readonly client: NodeClient;
  readonly name: string;
  /** Of a writer by `putRow`. */
  readonly put: NodePut | undefined;
  state: "idle" | "looked" | "begun" | "waiting" | "ended";
  mayServe: boolean;
  /** The version that was committed when its request was received. */
  before: number;
  slot: RequestSlot | undefined;
  requests: readonly RowRequest[];
}
