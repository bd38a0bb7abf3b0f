import { Flows } from "../../../lib/rows/flows/flows.ts";
import { type RowFlow, step } from "../../../lib/rows/flows/steps.ts";
import type { Read } from "../../../lib/rows/flows/flows.ts";
import type { RowWrite, WriteReply } from "../../../lib/rows/flows/row_write.ts";
import type { Client, Deed, OriginScenario } from "../origins/origin_scenario.ts";

// Scenarios with the server that serves rows. Its cache equals the database at every moment; every
// read sees what was committed before it; every writer is told its own version.

const READER: Client = { kind: "reader" };
const writer = (...deeds: Deed[]): Client => ({ kind: "writer", deeds });
const LATER = { origin: 1 } as const;

/** Checks whether the key is cacheable after the read. */
class ChecksAfterRead extends Flows {
  override *read(keys: readonly string[]): RowFlow<readonly Read[]> {
    const found = yield* step({ kind: "readRows", keys });
    return found.map((each, at) => ({
      ...each,
      cacheable: !this.isDeposed && this.states.isCacheable(keys[at]!),
    }));
  }
}

/** Writes a group in another order. */
class WritesBackwards extends Flows {
  override *write(writes: readonly RowWrite[]): RowFlow<readonly WriteReply[]> {
    return (yield* super.write(writes.toReversed())).toReversed();
  }
}

/** Takes what is unknown for not written. */
class ForgetsUnknown extends Flows {
  override *resolve(key: string, tokenId: number): RowFlow<WriteReply> {
    if (this.states.beginPut(key, tokenId).kind === "unknown") {
      this.states.endPut(key, tokenId, { kind: "failed" });
    }
    return yield* ended();
  }
}

// deno-lint-ignore require-yield
function* ended(): RowFlow<WriteReply> {
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
  { name: "origin: the commit of a group is unknown, and is asked for",
    clients: [READER, writer("set"), writer("delete")], isFilled: true, events: { loseCommit: 1, evict: 1 } },
  { name: "origin: a locked database postpones a write of a group, a reader",
    clients: [READER, writer("set"), writer("set")], isFilled: true, events: { lock: 1 } },
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
    clients: [writer("set", "set")], makeFlows: (states) => new WritesBackwards(states, 0),
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
    clients: [READER, READER, writer("set")], isFilled: true,
    makeFlows: (states) => new ChecksAfterRead(states, 0), wrongAfter: 8 },
  { name: "origin fault: what is unknown is taken for not written",
    clients: [READER, writer("set")], isFilled: true, events: { loseCommit: 1 },
    makeFlows: (states) => new ForgetsUnknown(states, 0), wrongAfter: 9 },
];

/** Those that take many seconds. */
// deno-fmt-ignore
export const LARGE_ORIGINS: readonly OriginScenario[] = [
  { name: "origin: another takes over between, readers and writers of both",
    clients: [READER, writer("set"), writer("set"), { ...READER, ...LATER }, { kind: "writer", deeds: ["set"],
      ...LATER }],
    isFilled: true, events: { takeOver: 1 } },
];
