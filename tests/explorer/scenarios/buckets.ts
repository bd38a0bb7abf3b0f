import { Key } from "../versions/bucket_memory.ts";
import type { BucketScenario } from "../versions/bucket_world.ts";
import type { Change, Writer } from "../versions/changes.ts";

// A reader without the mutex beside one writer (store/items/optimistic_read.ts). Readers store nothing that others
// load: more of them have no other ways.

const { A, B, C } = Key;

type Changes = (writer: Writer) => readonly Change[];

const overwriting: Changes = (w) => [w.overwrite(A, "12 12"), w.overwrite(A, "13 13")];
const appending: Changes = (w) => [w.append(A, 11), w.overwrite(A, "12 12 12")];
const replacing: Changes = (w) => [w.replace(B, "22 22 22", 2), w.insert(C, "31", 0)];
const removing: Changes = (w) => [w.remove(A), w.insert(C, "31 31 31", 1), w.insert(A, "12", 2)];
const moving: Changes = (w) => [w.move(B, 2), w.reuse(0), w.overwrite(B, "22 22")];
const splitting: Changes = (w) => [w.split(), w.overwrite(B, "22 22"), w.overwrite(A, "12 12")];
const doubling: Changes = (w) => [w.split(), w.split(), w.overwrite(B, "22 22")];
const flushing: Changes = (w) => [w.flush(), w.overwrite(A, "12 12")];
const inserting: Changes = (w) => [w.insert(C, "31 31", 2), w.overwrite(C, "32 32")];

/** All interleavings: no read is wrong. */
const RIGHT: readonly BucketScenario[] = [
  { name: "reads beside overwriting", changes: overwriting, reads: [A] },
  { name: "reads beside appending", changes: appending, reads: [A] },
  { name: "reads beside replacing", changes: replacing, reads: [B] },
  { name: "reads behind an item that is replaced", changes: replacing, reads: [A] },
  { name: "reads beside removing", changes: removing, reads: [A] },
  { name: "reads in front of an item that is removed", changes: removing, reads: [B] },
  { name: "reads beside a page move", changes: moving, reads: [B] },
  { name: "reads behind an item that is moved", changes: moving, reads: [A] },
  { name: "reads beside a split", changes: splitting, reads: [A] },
  { name: "reads beside a split, of an item that moves", changes: splitting, reads: [B] },
  { name: "reads beside splits that double the index", changes: doubling, reads: [B] },
  { name: "reads beside a flush", changes: flushing, reads: [A] },
  { name: "reads of a new item", changes: inserting, reads: [C] },
];

const forgotten = (
  name: string,
  changes: Changes,
  reads: readonly Key[],
  wrongAfter: number,
): BucketScenario => ({
  name: `fault: ${name} is not announced`,
  changes,
  reads,
  announcement: { forgets: name },
  wrongAfter,
});

// deno-fmt-ignore
const FAULTS: readonly BucketScenario[] = [
  forgotten("overwrite", overwriting, [A], 16),
  forgotten("append", appending, [A], 17),
  forgotten("replace", replacing, [A], 18),
  forgotten("remove", removing, [A], 23),
  forgotten("move", moving, [B], 19),
  forgotten("split", splitting, [A], 9),
  { name: "fault: changes are announced when they are done",
    changes: overwriting, reads: [A], announcement: { isLate: true }, wrongAfter: 16 },
  { name: "fault: a reader does not look at the version again",
    changes: overwriting, reads: [A], faults: { trusts: true }, wrongAfter: 15 },
  { name: "fault: a reader looks at the version before it copies",
    changes: overwriting, reads: [A], faults: { checksBeforeCopy: true }, wrongAfter: 16 },
  { name: "fault: a reader begins at an odd version",
    changes: overwriting, reads: [A], faults: { takesOdd: true }, wrongAfter: 17 },
  { name: "fault: a reader follows any reference",
    changes: moving, reads: [A], faults: { isUnbounded: true }, wrongAfter: 20 },
  { name: "fault: a reader takes the last flush before its request",
    changes: flushing, reads: [A], faults: { flushIsOld: true }, wrongAfter: 18 },
  { name: "fault: groups are those of buckets, which change at a split",
    changes: splitting, reads: [B], announcement: { byBucket: true }, faults: { byBucket: true }, wrongAfter: 24 },
];

/** Scenarios of the test. */
export const BUCKETS: readonly BucketScenario[] = [...RIGHT, ...FAULTS];
