import { Flows } from "../../../lib/rows/flows/flows.ts";
import { type Flow, step } from "../../../lib/rows/flows/steps.ts";
import type { GroupWrite, Read, WriteReply } from "../../../lib/rows/flows/flows.ts";
import type { Client, Deed, OriginScenario } from "../origins/origin_scenario.ts";

// Scenarios with the server that serves rows. Its cache, and listed ones, equal the database at every moment; every
// read sees what was committed before it; every writer is told its own version.

const READER: Client = { kind: "reader" };
const writer = (...deeds: Deed[]): Client => ({ kind: "writer", deeds });
const cacheReader = (cache: number): Client => ({ kind: "cacheReader", cache });
const LATER = { origin: 1 } as const;

/** Checks whether the key is cacheable after the read. */
class ChecksAfterRead extends Flows<number> {
  override *read(keys: readonly string[]): Flow<number, readonly Read[]> {
    const found = yield* step({ kind: "readRows", keys });
    return found.map((each, at) => ({
      ...each,
      cacheable: !this.isDeposed && this.states.isCacheable(keys[at]!),
    }));
  }
}

/** Writes a group in another order. */
class WritesBackwards extends Flows<number> {
  override *write(writes: readonly GroupWrite[]): Flow<number, readonly WriteReply[]> {
    return (yield* super.write(writes.toReversed())).toReversed();
  }
}

/** Takes what is unknown for not written. */
class ForgetsUnknown extends Flows<number> {
  override *resolve(key: string, tokenId: number): Flow<number, WriteReply> {
    if (this.states.beginPut(key, tokenId).kind === "unknown") {
      this.states.endPut(key, tokenId, { kind: "failed" });
    }
    return yield* ended();
  }
}

// deno-lint-ignore require-yield
function* ended(): Flow<number, WriteReply> {
  return { kind: "failed", reason: "taken for not written" };
}

// deno-fmt-ignore
export const ORIGINS: readonly OriginScenario[] = [
  { name: "origin: two readers miss, a write", clients: [READER, READER, writer("set")], events: { evict: 1 } },
  { name: "origin: a group of two writes, a reader",
    clients: [READER, writer("set"), writer("add")], events: { evict: 1 } },
  { name: "origin: writes of one client go in their order",
    clients: [READER, writer("set", "delete"), writer("set")] },
  { name: "origin: absent rows, a write, a deletion", clients: [READER, READER, writer("add"), writer("delete")] },
  { name: "origin: two listed caches, a reader of one",
    clients: [cacheReader(1), writer("set"), writer("set")], caches: 2, isFilled: true },
  { name: "origin: a listed cache and its reader, a miss",
    clients: [READER, cacheReader(0), writer("set")], caches: 1, isFilled: true },
  { name: "origin: a group of two writes, a listed cache does not answer",
    clients: [cacheReader(0), writer("set"), writer("set")], caches: 2, isFilled: true, events: { cacheFails: 1 } },
  { name: "origin: the commit of a group is unknown, and is asked for",
    clients: [READER, writer("set"), writer("delete")], isFilled: true, events: { loseCommit: 1, evict: 1 } },
  { name: "origin: the commit of a group is unknown, readers of a listed cache",
    clients: [cacheReader(0), writer("set"), writer("set")], caches: 1, isFilled: true, events: { loseCommit: 1 } },
  { name: "origin: a locked database postpones a write of a group, a reader of a listed cache",
    clients: [cacheReader(0), writer("set"), writer("set")], caches: 1, isFilled: true, events: { lock: 1 } },
  { name: "origin: a locked database postpones writes of one client, a reader",
    clients: [READER, writer("set", "set", "delete"), writer("set")], isFilled: true, events: { lock: 1 } },
  { name: "origin: another takes over while a write is postponed",
    clients: [writer("set"), writer("set"), { ...READER, ...LATER }], isFilled: true,
    events: { takeOver: 1, lock: 1 } },
  { name: "origin: another takes over between",
    clients: [writer("set"), writer("set"), { ...READER, ...LATER }], isFilled: true, events: { takeOver: 1 } },
  { name: "origin: another takes over, and both write",
    clients: [writer("set"), { kind: "writer", deeds: ["set"], ...LATER }, { ...READER, ...LATER }],
    events: { takeOver: 1, evict: 1 } },
  { name: "origin: another takes over, and a commit of the first is unknown",
    clients: [writer("set"), { ...READER, ...LATER }, { kind: "writer", deeds: ["set"], ...LATER }], isFilled: true,
    events: { takeOver: 1, loseCommit: 1 } },
  { name: "origin fault: a group is written in another order",
    clients: [writer("set", "set")], makeFlows: (caches, states) => new WritesBackwards(caches, states, 0),
    wrongAfter: 4 },
  { name: "origin fault: an answer goes to the wrong writer",
    clients: [writer("set"), writer("set")], answersNext: true, wrongAfter: 5 },
  { name: "origin fault: a group does not lock the epoch",
    clients: [writer("set"), { ...READER, ...LATER }], isFilled: true, events: { takeOver: 1 }, isUnfenced: true,
    wrongAfter: 8 },
  { name: "origin fault: a fill without its lease",
    clients: [READER, writer("set")], isFilled: true, fillsWithoutLease: true, wrongAfter: 6 },
  { name: "origin fault: an absent row is kept over a write",
    clients: [READER, writer("set")], keepsAbsent: true, wrongAfter: 7 },
  { name: "origin fault: a read joins one that is under way",
    clients: [READER, READER, writer("set")], isFilled: true, joinsReads: true, wrongAfter: 8 },
  { name: "origin fault: the check comes after the read",
    clients: [READER, cacheReader(0), writer("set")], caches: 1, isFilled: true,
    makeFlows: (caches, states) => new ChecksAfterRead(caches, states, 0), wrongAfter: 10 },
  { name: "origin fault: what is unknown is taken for not written",
    clients: [READER, writer("set")], isFilled: true, events: { loseCommit: 1 },
    makeFlows: (caches, states) => new ForgetsUnknown(caches, states, 0), wrongAfter: 9 },
];

/** Those that take many seconds. */
// deno-fmt-ignore
export const LARGE_ORIGINS: readonly OriginScenario[] = [
  { name: "origin: two listed caches, readers of each, a miss",
    clients: [READER, cacheReader(0), cacheReader(1), writer("set")], caches: 2, isFilled: true },
  { name: "origin: another takes over between, readers and writers of both",
    clients: [READER, writer("set"), writer("set"), { ...READER, ...LATER }, { kind: "writer", deeds: ["set"],
      ...LATER }],
    isFilled: true, events: { takeOver: 1 } },
];
