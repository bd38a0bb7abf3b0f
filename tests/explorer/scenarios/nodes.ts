import type { NodeClient, NodeFault, NodeScenario } from "../nodes/node_scenario.ts";

// Scenarios with nodes: no read at a node is older than what was committed before its request was received.

const reader = (node: number): NodeClient => ({ kind: "reader", node });
const WRITER: NodeClient = { kind: "writer", origin: 0 };
const LATER: NodeClient = { kind: "writer", origin: 1 };
const PUTTER: NodeClient = { kind: "putter", node: 0 };
const TAKEN = { tick: 3, kill: 1, takeOver: 1 } as const;
/** Clocks go on by more than a membership at once. */
const FAR_MS = 210;

const fault = (
  name: string,
  broken: NodeFault,
  wrongAfter: number,
  more: Partial<NodeScenario> = {},
): NodeScenario => ({
  name: `node fault: ${name}`,
  clients: [WRITER],
  nodes: 1,
  events: { tick: 3, drift: 1 },
  fault: broken,
  wrongAfter,
  ...more,
});

// deno-fmt-ignore
export const NODES: readonly NodeScenario[] = [
  { name: "node: it is stopped past its membership", clients: [reader(0), WRITER], nodes: 1, events: { tick: 2 },
    tickMs: FAR_MS },
  { name: "node: it leaves and comes back while it reads", clients: [reader(0), WRITER], nodes: 1, isCold: true,
    events: { lose: 2, join: 1 } },
  { name: "node: two nodes, one is away", clients: [WRITER], nodes: 2, events: { tick: 1 }, tickMs: 250 },
  { name: "node: the origin is killed, and a stand-by takes over", clients: [reader(0), LATER], nodes: 1,
    events: { ...TAKEN, tick: 2 }, tickMs: FAR_MS },
  { name: "node: a stand-by takes over by force", clients: [LATER], nodes: 1, events: { tick: 3, takeOver: 1 },
    isTimed: true },
  { name: "node: its clock drifts", clients: [WRITER], nodes: 1, events: { tick: 3, drift: 1 } },
  { name: "node: putRow at a node, connections break", clients: [PUTTER], nodes: 1, events: { lose: 2 } },
  { name: "node: putRow at a node takes an unknown outcome for a failure",
    clients: [{ ...PUTTER, fault: "gives up" }], nodes: 1, events: { lose: 2 }, wrongAfter: 11 },
  { name: "node: putRow at a node reports a failure and keeps the token",
    clients: [{ ...PUTTER, fault: "keeps token" }], nodes: 1, events: { lose: 1 }, wrongAfter: 12 },
  { name: "node: it ends, and says so", clients: [reader(0), WRITER], nodes: 1, events: { end: 1, tick: 1 } },
  fault("a node says that it ends while it serves rows", "signsOffEarly", 4, { events: { end: 1 } }),
  fault("the clock is looked at before the bytes were received", "looksEarly", 9,
    { clients: [reader(0), WRITER], events: { tick: 3 } }),
  fault("the clock is not looked at", "looksNever", 8, { clients: [reader(0), WRITER], events: { tick: 3 } }),
  fault("a renewal is counted from the answer", "countsFromAnswer", 9),
  fault("the margin for drift is left out", "leavesMarginOut", 5),
  fault("a node comes back with its rows", "keepsRows", 9, { events: { lose: 2, join: 1 } }),
  fault("a write waits for members only whose question is there", "deletesInMembersOnly", 3),
  fault("a write waits until its deletion was sent", "confirmsEarly", 4),
  fault("an origin grants more time than it has", "grantsTooMuch", 15,
    { clients: [LATER], events: { tick: 3, takeOver: 1 }, isTimed: true }),
  fault("the database does not know the nodes", "notesNothing", 7, { clients: [LATER], events: TAKEN }),
  fault("a stand-by does not wait for nodes", "waitsNever", 7, { clients: [LATER], events: TAKEN }),
];

/** Those that take many seconds. */
// deno-fmt-ignore
export const LARGE_NODES: readonly NodeScenario[] = [
  { name: "node: it is stopped, and its clock drifts", clients: [reader(0), WRITER], nodes: 1,
    events: { tick: 2, drift: 1 }, tickMs: FAR_MS },
  { name: "node: putRow at a node, the origin is killed", clients: [PUTTER], nodes: 1,
    events: { ...TAKEN, tick: 1, join: 1 }, tickMs: FAR_MS },
  { name: "node: putRow at a node, and a reader", clients: [reader(0), PUTTER], nodes: 1, events: { lose: 2 } },
  { name: "node: it is stopped past its membership, and comes back", clients: [reader(0), WRITER], nodes: 1,
    events: { tick: 2, lose: 1, join: 1 }, tickMs: FAR_MS },
  { name: "node: it is away for part of its membership, and its clock drifts", clients: [WRITER], nodes: 1,
    events: { tick: 3, drift: 1, lose: 1, join: 1 } },
  { name: "node: it is stopped while it reads", clients: [reader(0), WRITER], nodes: 1, isCold: true,
    events: { tick: 2 }, tickMs: FAR_MS },
  { name: "node: two nodes, a clock drifts", clients: [WRITER], nodes: 2, events: { tick: 2, drift: 1 },
    tickMs: FAR_MS },
  { name: "node: two nodes, a reader of one", clients: [reader(0), WRITER], nodes: 2, events: { tick: 1 },
    tickMs: 250 },
  { name: "node: a takeover, and the node joins the new origin", clients: [WRITER, LATER], nodes: 1,
    events: { tick: 2, kill: 1, takeOver: 1, join: 1 }, tickMs: FAR_MS },
  { name: "node: a takeover by force, and a reader", clients: [reader(0), LATER], nodes: 1,
    events: { tick: 2, takeOver: 1 }, isTimed: true, tickMs: FAR_MS },
  { name: "node: a takeover by force, both origins write", clients: [WRITER, LATER], nodes: 1,
    events: { tick: 3, drift: 1, takeOver: 1 }, isTimed: true },
];
