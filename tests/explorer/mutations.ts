import { ByteRegion } from "../../store/base/bytes.ts";
import { CONTROL } from "../../store/memory/memory.ts";
import { Operation } from "../../store/operation.ts";
import { bytesOf } from "../support/sessions/side.ts";
import type { CacheNode } from "./cache_node.ts";
import { KEY } from "./key_record.ts";
import type { Mutation } from "./scenario.ts";
import { queuedRecords } from "../support/queued_records.ts";
import { held } from "../support/store.ts";

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

// --- update tokens and locks -----------------------------------------------------------------------

/** cas under an update token stores. */
export const casIgnoresTokens: Mutation = (request, ask, node) =>
  request.startsWith("cas ") && node.record().tokens.length > 0
    ? withoutTokens(node, () => ask(asSet(request)))
    : ask(request);

/** getss under an update token gives a lease, and cas fills under it. */
export const leasesIgnoreTokens: Mutation = (request, ask, node) =>
  /^(?:cas|getss) /.test(request) ? withoutTokens(node, () => ask(request)) : ask(request);

/** token get leaves the value. */
export const tokenGetKeepsTheValue: Mutation = (request, ask, node) => {
  const { value } = node.record();
  const reply = ask(request);
  if (value === "" || !request.startsWith("token get ")) return reply;
  withoutTokens(node, () => ask(`set ${KEY} 0 0 ${value.length}\r\n${value}\r\n`));
  return reply;
};

/** token get takes a locked value from its holder. */
export const tokenGetIgnoresLocks: Mutation = (request, ask, node) => {
  const { lockOwner } = node.record();
  if (lockOwner !== 0 && request.startsWith("token get ")) unlockAll(node, lockOwner);
  return ask(request);
};

/** token get knows no tags: asking again gives another token. */
export const tokensHaveNoOwner: Mutation = (request, ask) =>
  ask(request.replace(/^(token get \S+) .*\r\n/, "$1\r\n"));

/** token get is answered before the journal has the token. */
export const tokenGetDoesNotWait: Mutation = (request, ask, node) => {
  const reply = ask(request);
  if (reply !== "" || !request.startsWith("token get ")) return reply;
  const { cache } = node;
  cache.enter();
  const records = queuedRecords(cache.journal.queue);
  cache.journal.settle(records, 0, records.bytes.length, Infinity, true);
  cache.journal.settleWaiters(cache.journal.queue.head);
  cache.leave();
  return ask("");
};

/** The release of an unknown token leaves the key as it is. */
export const unknownReleaseIsIgnored: Mutation = (request, ask, node) => {
  const [, id] = /^token release \S+ (\d+)/.exec(request) ?? [];
  if (id === undefined) return ask(request);
  const isOut = node.record().tokens.some((token) => token.id === Number(id));
  return isOut ? ask(request) : "NOT_FOUND\r\n";
};

/** A release ends all tokens of the key. */
export const releaseEndsAllTokens: Mutation = (request, ask, node) => {
  const reply = ask(request);
  if (request.startsWith("token release ")) dropTokens(node);
  return reply;
};

/** flush_all takes update tokens, too. */
export const flushDropsTokens: Mutation = (request, ask, node) => {
  const reply = ask(request);
  if (request.startsWith("flush_all")) dropTokens(node);
  return reply;
};

/** LaG locks before it looks at the deadline, and a locked value stays readable. */
export const lockAndGetRevives: Mutation = (request, ask, node) => {
  const isLockAndGet = request.startsWith("\x80\x46");
  if (isLockAndGet) node.reviveItem();
  return ask(request);
};

/** Update tokens end with their connection, or with the process although they are durable. */
export function tokensAreForgotten(node: CacheNode): void {
  dropTokens(node);
}

/** A server loads the snapshot of an earlier stop. */
export function snapshotIsLoadedAgain(node: CacheNode): void {
  node.loadSnapshot();
}

/** A connection's lock stays when it ends. */
export function lockOutlivesItsConnection(node: CacheNode, owner: number): void {
  const operation = new Operation(new ByteRegion(bytesOf(KEY).buffer));
  Object.assign(operation, { keyOffset: 0, keyLength: KEY.length, owner });
  held(node.cache, () => node.cache.lock(operation));
}

function withoutTokens(node: CacheNode, act: () => string): string {
  const { control } = node.memory;
  const word = control[CONTROL.UNCACHEABLE]!;
  control[CONTROL.UNCACHEABLE] = 0;
  const reply = act();
  control[CONTROL.UNCACHEABLE] = word;
  return reply;
}

function dropTokens({ cache }: CacheNode): void {
  held(cache, () => cache.tokens.dropNewest(Infinity));
}

function unlockAll({ cache }: CacheNode, owner: number): void {
  held(cache, () => cache.unlockAll(owner));
}

function asSet(cas: string): string {
  return cas.replace(/^cas (\S+ \S+ \S+ \S+) \d+/, "set $1");
}
