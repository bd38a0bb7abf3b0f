import * as actors from "./actors.ts";
import * as mutations from "./mutations.ts";
import type { Role, Scenario } from "./world.ts";

/** A scenario and its expected result. */
export interface Row extends Scenario {
  /** Steps of the shortest way to a wrong state; left out: no state is wrong. */
  readonly wrongAfter?: number;
}

/** One deadline passes, and one value or lease is evicted, at any time. */
const EXPIRY_AND_EVICTION: NonNullable<Scenario["environment"]> = { time: 1, evict: 1 };

const reader = (count: number, act = actors.reader): Role => ({ name: "reader", count, act });
const writer = (count: number, act = actors.writer): Role => ({
  name: "writer",
  count,
  isWriter: true,
  act,
});
const other = (name: string, act: Role["act"], count = 1): Role => ({ name, count, act });

/** Scenarios that keep the rules and are safe, and scenarios that break a rule and are not. */
export const FLOWS: readonly Row[] = [
  {
    name: "commit, deletess; three readers, expiry, eviction",
    roles: [reader(3), writer(1)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "two writers that commit, then deletess",
    roles: [reader(3), writer(2)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "a value is there when two writers commit, then deletess",
    roles: [reader(2), writer(2)],
    environment: EXPIRY_AND_EVICTION,
    filled: true,
  },
  {
    name: "commit, plain delete",
    roles: [reader(3), writer(1, actors.deletingWriter)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "two restarts, ids never repeat",
    roles: [reader(2), writer(1)],
    environment: { time: 1, evict: 1, restart: 2 },
  },
  {
    name: "a reader uses a lease it did not make; writers invalidate after their commit",
    roles: [reader(1), reader(2, actors.borrowingReader), writer(1)],
  },
  {
    name: "the writer may crash between commit and deletess",
    roles: [reader(2), writer(1)],
    environment: { crash: 1 },
    wrongAfter: 5,
  },
  {
    name: "ids begin anew after a restart",
    roles: [reader(2), writer(1)],
    environment: { restart: 1 },
    repeatsIds: true,
    wrongAfter: 6,
  },
  {
    name: "a plain setter beside it",
    roles: [reader(1), other("plain setter", actors.plainSetter), writer(1)],
    wrongAfter: 5,
  },
  {
    name: "a plain setter under --strict",
    roles: [reader(2), other("plain setter", actors.plainSetter), writer(1)],
    environment: EXPIRY_AND_EVICTION,
    options: ["--strict", "*"],
  },
  {
    name: "deletess, commit, cas; nothing else happens",
    roles: [reader(2), writer(1, actors.deleteFirstWriter)],
  },
  {
    name: "deletess, commit, cas; the lease may end",
    roles: [reader(2), writer(1, actors.deleteFirstWriter)],
    environment: { time: 1 },
    wrongAfter: 7,
  },
  {
    name: "deletess, commit, cas; the lease may be dropped",
    roles: [reader(2), writer(1, actors.deleteFirstWriter)],
    environment: { evict: 1 },
    wrongAfter: 7,
  },
  {
    name: "deletess, commit, cas; a reader uses a lease it did not make",
    roles: [reader(1, actors.borrowingReader), writer(1, actors.deleteFirstWriter)],
    wrongAfter: 6,
  },
  {
    name: "deletess, commit, cas; two writers",
    roles: [reader(1), writer(2, actors.deleteFirstWriter)],
    wrongAfter: 6,
  },
  {
    name: "deletess, commit, cas; two writers that deletess again when their cas fails",
    roles: [reader(2), writer(2, actors.carefulDeleteFirstWriter)],
  },
  {
    name: "commit, deletess, cas of one's own value; two writers",
    roles: [reader(1), writer(2, actors.selfFillingWriter)],
    wrongAfter: 5,
  },
  {
    name: "commit, deletess, a fresh read, cas; two writers",
    roles: [reader(1), writer(2, actors.warmingWriter)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "the reader reads first, then takes the lease",
    roles: [reader(1, actors.hastyReader), writer(1, actors.deletingWriter)],
    wrongAfter: 5,
  },
  {
    name: "delete inside the transaction",
    roles: [reader(1), writer(1, actors.inTransactionWriter)],
    wrongAfter: 6,
  },
  {
    name: "incr on a lease renews it",
    roles: [reader(2), writer(1, actors.countingWriter)],
    environment: EXPIRY_AND_EVICTION,
  },
];

/** Scenarios that mix leases with other writes to the same key. */
export const MEETINGS: readonly Row[] = [
  {
    name: "lease-get and getss mixed",
    roles: [reader(1), reader(1, actors.mcrouterReader), writer(2)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "text and binary mixed",
    roles: [
      reader(1),
      reader(2, actors.binaryReader),
      writer(1),
      writer(1, actors.binaryWriter),
    ],
    environment: { time: 1 },
  },
  {
    name: "mg N and getss mixed",
    roles: [reader(1), reader(2, actors.metaReader), writer(1)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "mg N and getss mixed, plain delete",
    roles: [reader(1), reader(2, actors.metaReader), writer(2, actors.deletingWriter)],
    environment: { time: 1 },
  },
  {
    name: "md I between, a value is there",
    roles: [reader(1), reader(2, actors.metaReader), writer(1, actors.stalingWriter)],
    environment: EXPIRY_AND_EVICTION,
    filled: true,
  },
  {
    name: "md I between, nothing is there",
    roles: [reader(2), reader(1, actors.metaReader), writer(2, actors.stalingWriter)],
    environment: { time: 1 },
  },
  {
    name: "flush_all as the invalidation",
    roles: [reader(2), writer(2, actors.flushingWriter)],
    environment: { time: 1 },
  },
  {
    name: "flush_all with a delay between getss and cas",
    roles: [reader(2), writer(1), other("flusher", actors.lateFlusher)],
    environment: { time: 2 },
  },
  {
    name: "values that arrive in pieces",
    roles: [reader(1), reader(2, actors.slowReader), writer(1)],
    environment: { time: 1 },
  },
  {
    name: "a lease is given back while another asks",
    roles: [reader(1), reader(1, actors.abandoningReader), writer(1)],
    environment: EXPIRY_AND_EVICTION,
  },
];

const plainSetters = (count: number): Role => other("plain setter", actors.plainSetter, count);

/**
 * Plain writes on a lease: they must be gone when the lease's time is over. Until then they may be
 * stale, so no actor commits here.
 */
export const DIRTY_WINDOWS: readonly Row[] = [
  {
    name: "two plain setters and a touch in the dirty window",
    roles: [reader(1), plainSetters(2), other("toucher", actors.toucher)],
    environment: { time: 2 },
  },
  {
    name: "the dirty value is evicted",
    roles: [reader(1), plainSetters(2), other("toucher", actors.toucher)],
    environment: { time: 2, evict: 1 },
  },
  {
    name: "a lock's holder deletes, another takes the lease, the holder sets",
    roles: [reader(1), other("lock holder", actors.lockingSetter, 2)],
    environment: { time: 2, disconnect: 1 },
    filled: true,
  },
  {
    name: "a writer meets a lock whose holder may be lost",
    roles: [reader(2), other("lock holder", actors.lockingReader), writer(1)],
    environment: { time: 1, disconnect: 1 },
    filled: true,
  },
];

/** Faults that must be found. */
export const FAULTS: readonly Row[] = [
  {
    name: "fault: delete does not renew",
    roles: [reader(2), writer(1, actors.deletingWriter)],
    mutation: mutations.deleteDoesNotRenew,
    wrongAfter: 5,
  },
  {
    name: "fault: incr keeps the lease",
    roles: [reader(2), writer(1, actors.countingWriter)],
    mutation: mutations.incrKeepsTheLease,
    wrongAfter: 5,
  },
  {
    name: "fault: deletess keeps the lease's id",
    roles: [reader(2), writer(1)],
    mutation: mutations.deletessKeepsTheId,
    wrongAfter: 5,
  },
  {
    name: "fault: cas on a lease ignores the id",
    roles: [reader(2), writer(1)],
    mutation: mutations.casIgnoresTheId,
    wrongAfter: 5,
  },
  {
    name: "fault: cas fills where there is nothing",
    roles: [reader(2), writer(1, actors.deletingWriter)],
    environment: { time: 1 },
    mutation: mutations.casFillsNothing,
    wrongAfter: 6,
  },
  {
    name: "fault: everybody is told the lease is new; a writer deletes first",
    roles: [reader(1), writer(1, actors.deleteFirstWriter)],
    mutation: mutations.everybodyGetsTheLease,
    wrongAfter: 6,
  },
  {
    name: "fault: flush_all leaves leases",
    roles: [reader(2), writer(1, actors.flushingWriter)],
    mutation: mutations.flushKeepsLeases,
    wrongAfter: 5,
  },
  {
    name: "fault: touch lengthens a dirty value",
    roles: [reader(1), plainSetters(1), other("toucher", actors.toucher)],
    environment: { time: 2 },
    mutation: mutations.touchLengthensDirtyValues,
    wrongAfter: 6,
  },
  {
    name: "fault: a second plain write is not cut",
    roles: [reader(1), plainSetters(2)],
    environment: { time: 2 },
    mutation: mutations.dirtyWindowEndsWithTheFirstWrite,
    wrongAfter: 8,
  },
  {
    name: "fault: set is judged at its command line",
    roles: [reader(2, actors.slowReader), writer(1)],
    mutation: mutations.judgedAtTheLine(),
    wrongAfter: 6,
  },
];

const FILLERS: readonly (readonly [name: string, act: Role["act"], steps: number])[] = [
  ["reader", actors.reader, 5],
  ["reader whose value comes in pieces", actors.slowReader, 6],
  ["reader by lease-get", actors.mcrouterReader, 5],
  ["reader by mg N", actors.metaReader, 5],
  ["reader in the binary protocol", actors.binaryReader, 5],
  ["plain setter", actors.plainSetter, 5],
];

/** Proves that readers fill at all: a crashed writer leaves their values, which become stale. */
export const FILLS: readonly Row[] = FILLERS.map(([name, act, steps]) => ({
  name: `what a ${name} fills is seen when the writer crashes`,
  roles: [other(name, act), writer(1)],
  environment: { crash: 1 },
  wrongAfter: steps,
}));

/** Larger scenarios, which only `deno task explore` runs. */
export const LARGE: readonly Row[] = [
  {
    name: "three readers, two writers, two expiries and two evictions",
    roles: [reader(3), writer(2)],
    environment: { time: 2, evict: 2 },
  },
  {
    name: "three readers, two writers, a restart and a crash are not safe",
    roles: [reader(3), writer(2)],
    environment: { restart: 1, crash: 1 },
    wrongAfter: 5,
  },
  {
    name: "three readers, two restarts, ids never repeat",
    roles: [reader(3), writer(1)],
    environment: { time: 1, evict: 1, restart: 2 },
  },
  {
    name: "two readers, two writers that read afresh",
    roles: [reader(2), writer(2, actors.warmingWriter)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "two by getss, one by lease-get, two writers",
    roles: [reader(2), reader(1, actors.mcrouterReader), writer(2)],
    environment: EXPIRY_AND_EVICTION,
  },
  {
    name: "a reader of every kind",
    roles: [
      reader(1),
      reader(1, actors.slowReader),
      reader(1, actors.metaReader),
      reader(1, actors.mcrouterReader),
      writer(1),
    ],
    environment: { time: 1 },
  },
];
