import type { Mutation } from "./scenario.ts";

// Faults that a server could have, made from outside: commands are answered or sent otherwise than the actor asked.

/** delete leaves a lease as it is. */
export const deleteDoesNotRenew: Mutation = (request, ask, node) =>
  request.startsWith("delete ") && node.record().isHeld ? "NOT_FOUND\r\n" : ask(request);

/** incr on a lease fails, and leaves the lease as it is. */
export const incrKeepsTheLease: Mutation = (request, ask, node) =>
  request.startsWith("incr ") && node.record().isHeld ? "NOT_FOUND\r\n" : ask(request);

/** deletess on a lease gives the id that the lease has. */
export const deletessKeepsTheId: Mutation = (request, ask, node) => {
  const record = node.record();
  return request.startsWith("deletess ") && record.isHeld
    ? `DELETED ${record.leaseId}\r\n`
    : ask(request);
};

/** cas on a lease stores whatever its id. */
export const casIgnoresTheId: Mutation = (request, ask, node) =>
  request.startsWith("cas ") && node.record().isHeld ? ask(asSet(request)) : ask(request);

/** cas where there is nothing stores: the lease may have been over for long. */
export const casFillsNothing: Mutation = (request, ask, node) => {
  const record = node.record();
  const isFree = record.item === 0 && !record.isHeld;
  return request.startsWith("cas ") && isFree ? ask(asSet(request)) : ask(request);
};

/** getss of a held key makes another lease under the same id. */
export const everybodyGetsTheLease: Mutation = (request, ask) =>
  request.startsWith("getss ")
    ? ask(request).replace(/^(VALUE k 13107) \d+ (\d+)\r\n\d+/, "$1 1 $2\r\n0")
    : ask(request);

/** flush_all takes the values only. */
export const flushKeepsLeases: Mutation = (request, ask, node) => {
  if (!request.startsWith("flush_all")) return ask(request);
  if (node.record().item !== 0) ask("delete k\r\n");
  return "OK\r\n";
};

/** touch gives a value the time that it says, also a dirty one. */
export const touchLengthensDirtyValues: Mutation = (request, ask, node) => {
  const reply = ask(request);
  const { item } = node.record();
  if (request.startsWith("touch ") && item !== 0) node.cache.links.setDeadline(item, 0);
  return reply;
};

/** A second plain write is not cut to the deadline that the first was cut to. */
export const dirtyWindowEndsWithTheFirstWrite: Mutation = (request, ask, node) => {
  const wasHeld = node.record().isHeld;
  const reply = ask(request);
  const { item } = node.record();
  if (request.startsWith("set ") && !wasHeld && item !== 0) node.cache.links.setDeadline(item, 0);
  return reply;
};

/** A store in pieces is checked against the record at the time of its line. */
export function judgedAtTheLine(): Mutation {
  const admitted = new Map<string, string>();
  return (request, ask, node) => {
    const announced = /^cas k 0 0 (\d+) (\d+)\r\n(?=.*x$)/.exec(request);
    if (announced !== null) {
      const { isHeld, leaseId } = node.record();
      admitted.clear();
      if (!isHeld || String(leaseId) !== announced[2]) return ask(request);
      admitted.set("head", request);
      return "";
    }
    if (/^x+\r\n$/.test(request) && admitted.has("head")) {
      return ask(asSet(admitted.get("head")!) + request);
    }
    return ask(request);
  };
}

function asSet(cas: string): string {
  return cas.replace(/^cas (\S+ \S+ \S+ \S+) \d+/, "set $1");
}
