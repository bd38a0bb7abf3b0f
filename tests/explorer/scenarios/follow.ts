import type { FollowClient, FollowFault, FollowScenario } from "../follow/follow_scenario.ts";

// Scenarios with an origin that follows the log: an old value is cached only while its change is in the unread part.

const READER: FollowClient = { kind: "reader" };
const WRITER: FollowClient = { kind: "writer" };
const SET: FollowClient = { kind: "direct", deed: "set" };
const RENAME: FollowClient = { kind: "direct", deed: "rename" };
const SET_SOME: FollowClient = { kind: "direct", deed: "setSome" };
const nodeReader = (node: number): FollowClient => ({ kind: "nodeReader", node });

const NODES = { nodes: 2 } as const;

const fault = (
  name: string,
  broken: FollowFault,
  wrongAfter: number,
  more: Partial<FollowScenario> = {},
): FollowScenario => ({
  name: `follow fault: ${name}`,
  clients: [SET],
  fault: broken,
  wrongAfter,
  ...more,
});

// deno-fmt-ignore
export const FOLLOW: readonly FollowScenario[] = [
  { name: "follow: two direct writers, a reader", clients: [SET, RENAME, READER] },
  { name: "follow: the log is lost, the origin restarts", clients: [SET, READER, READER],
    events: { restart: 1, loseSlot: 1 } },
  { name: "follow: a writer at the origin, a direct writer", clients: [SET, WRITER, READER], events: { restart: 1 } },
  { name: "follow: changes of a prefix and of a key, the origin restarts", clients: [SET_SOME, SET, READER],
    events: { restart: 1 } },
  { name: "follow: two nodes, a direct writer, readers of both", ...NODES, clients: [SET, nodeReader(0), nodeReader(1)] },
  { name: "follow: two nodes, one is lost, the origin restarts", ...NODES, clients: [SET, nodeReader(1)],
    events: { restart: 1, loseNode: 1 } },
  { name: "follow: two nodes, one is lost, the log is lost", ...NODES, clients: [SET, nodeReader(1)],
    events: { loseSlot: 1, loseNode: 1 } },
  { name: "follow: two nodes, a change of a prefix, one is lost", ...NODES, clients: [SET_SOME, nodeReader(0)],
    events: { loseNode: 1 } },
  fault("the origin's cache keeps a prefix", "forgetsPrefixHere", 6, { clients: [SET_SOME] }),
  fault("a deletion of a prefix leaves the lease, a reader", "keepsLease", 9, { clients: [SET_SOME, READER], isCold: true }),
  fault("the log leaves the old key of an update out", "leavesOldKeyOut", 6, { clients: [RENAME] }),
  fault("a deletion leaves the lease, a reader", "keepsLease", 9, { clients: [SET, READER], isCold: true }),
  fault("two nodes, the log leaves the old key of an update out", "leavesOldKeyOut", 11, { ...NODES, clients: [RENAME] }),
  fault("two nodes, a position is confirmed before the answers", "confirmsEarly", 4, NODES),
  fault("a position is confirmed before the nodes have answered", "leavesNodesBehind", 7, NODES),
  fault("one of two nodes is forgotten", "forgetsOneNode", 9, NODES),
  fault("a node keeps a prefix", "forgetsPrefixAtNode", 11, { ...NODES, clients: [SET_SOME] }),
  fault("a deletion leaves the lease, a reader of a node", "keepsLease", 16,
    { ...NODES, clients: [SET, nodeReader(1)], isCold: true }),
  fault("a node that was lost joins with its rows", "keepsRows", 11, { ...NODES, events: { loseNode: 1 } }),
  fault("a change is applied before reads see it", "appliesUnseen", 9, { clients: [SET, READER], isCold: true }),
  fault("nothing is deleted after a loss of the log", "emptiesNothing", 5, { events: { loseSlot: 1 } }),
  fault("the log goes on while old rows are left", "beginsEarly", 4, { events: { loseSlot: 1 } }),
  fault("a new log begins behind a change that reads do not see", "beginsBehindUnseen", 9,
    { clients: [SET, READER], isCold: true, events: { loseSlot: 1 } }),
];

/** Those that take many seconds. */
// deno-fmt-ignore
export const LARGE_FOLLOW: readonly FollowScenario[] = [
  { name: "follow: all losses", clients: [SET, RENAME, READER, READER], events: { restart: 1, loseSlot: 1 } },
  { name: "follow: two nodes, changes of a prefix and of a key", ...NODES,
    clients: [SET_SOME, RENAME, nodeReader(0)], events: { loseNode: 1 } },
  { name: "follow: two nodes, all losses", ...NODES, clients: [SET, nodeReader(1)],
    events: { restart: 1, loseNode: 1, loseSlot: 1 } },
  { name: "follow: writers of both kinds, restarts", clients: [SET, WRITER, READER, READER],
    events: { restart: 2 } },
];
