import type { Actor, Node, Origin, Running, Work } from "./node_parts.ts";
import type { NodeClient } from "./node_scenario.ts";

// The state as a text, for `ExploredWorld.stateText`: times as what is left of them, leases and tokens by their order.

/** Ages beyond this one are equal. */
const AGE_MS_MAX = 400;

/** A client, as a trace names it. */
export function roleText(client: NodeClient): string {
  return client.kind === "writer"
    ? `a writer at origin ${client.origin + 1}`
    : `a ${client.kind} at node ${client.node + 1}`;
}

export function originText({ core, isAlive, lagMs, store }: Origin): string {
  if (!isAlive) return "|dead";
  if (core === undefined) return `|${lagMs}`;
  const { right } = store.cache.rows!;
  const { flows, states, nodes } = core;
  const ids = states.liveIds();
  const left = Math.max(-1, right.deadlineMs - right.nowMs());
  const tokens = states.text(ids, (id) => ids.indexOf(id));
  return `|${lagMs}.${left}${flows.isDeposed}${tokens}${nodes.text(right.nowMs())}`;
}

export function nodeText({ store, lagMs, flows, right, origin }: Node): string {
  const left = Math.max(-1, store.cache.rows!.right.deadlineMs - right.nowMs());
  const lease = store.leaseId === 0 ? "" : "l";
  return `|${lagMs}.${left}.${store.cached}.${origin}.${flows.session}.${flows.sessionBefore}${lease}`;
}

/** @param actor For whom it reads, if it does. */
export function workText(
  { node, origin, step, askedMs, question }: Work,
  { right, store }: Node,
  actor: Actor | undefined,
): string {
  const { state, wait, answer } = question;
  const age = Math.min(right.nowMs() - askedMs, AGE_MS_MAX);
  let text = `{${node}${origin}${JSON.stringify(step)}${age}${state}`;
  text += `${wait?.kind}${JSON.stringify(answer)}`;
  if (step.kind === "read") {
    text += actor?.requests.map(({ leaseId }) => leaseId !== 0 && leaseId === store.leaseId);
  }
  return `${text}}`;
}

export function runningText(
  { origin, name, step, end, deletion, readyMs }: Running,
  nowMs: number,
): string {
  let text = `{${origin}${name} ${step.kind}${Math.max(0, readyMs - nowMs)}`;
  if (end !== undefined) text += JSON.stringify(end.result);
  for (const [node, seq] of deletion?.missing ?? []) {
    text += `${node.name}${seq}.${node.pending.length}${node.isLost}`;
  }
  return `${text}}`;
}
