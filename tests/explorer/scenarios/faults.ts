import * as others from "../actors/others.ts";
import * as readers from "../actors/readers.ts";
import * as writers from "../actors/writers.ts";
import * as mutations from "../mutations.ts";
import type { Row } from "../scenario.ts";
import { other, plainSetters, reader, tokenWriter, writer } from "./roles.ts";

// deno-fmt-ignore
const LEASE_FAULTS: readonly Row[] = [
  { name: "fault: delete does not renew",
    roles: [reader(2), writer(1, writers.deletingWriter)], mutation: mutations.deleteDoesNotRenew, wrongAfter: 5 },
  { name: "fault: incr keeps the lease",
    roles: [reader(2), writer(1, writers.countingWriter)], mutation: mutations.incrKeepsTheLease, wrongAfter: 5 },
  { name: "fault: deletess keeps the lease's id",
    roles: [reader(2), writer(1)], mutation: mutations.deletessKeepsTheId, wrongAfter: 5 },
  { name: "fault: cas on a lease ignores the id",
    roles: [reader(2), writer(1)], mutation: mutations.casIgnoresTheId, wrongAfter: 5 },
  { name: "fault: cas fills where there is nothing",
    roles: [reader(2), writer(1, writers.deletingWriter)], environment: { time: 1 },
    mutation: mutations.casFillsNothing, wrongAfter: 6 },
  { name: "fault: everybody is told the lease is new; a writer deletes first",
    roles: [reader(1), writer(1, writers.deleteFirstWriter)], mutation: mutations.everybodyGetsTheLease,
    wrongAfter: 6 },
  { name: "fault: flush_all leaves leases",
    roles: [reader(2), writer(1, writers.flushingWriter)], mutation: mutations.flushKeepsLeases, ignores: ["S9"],
    wrongAfter: 5 },
  { name: "fault: touch lengthens a dirty value",
    roles: [reader(1), plainSetters(1), other("toucher", others.toucher)], environment: { time: 2 },
    mutation: mutations.touchLengthensDirtyValues, wrongAfter: 6 },
  { name: "fault: a second plain write is not cut",
    roles: [reader(1), plainSetters(2)], environment: { time: 2 },
    mutation: mutations.dirtyWindowEndsWithTheFirstWrite, wrongAfter: 8 },
  { name: "fault: set is judged at its command line",
    roles: [reader(2, readers.slowReader), writer(1)], mutation: mutations.judgedAtTheLine(), wrongAfter: 6 },
];

/** Faults that S4 meets at once ignore it, to show what comes of them. */
// deno-fmt-ignore
const TOKEN_FAULTS: readonly Row[] = [
  { name: "fault: cas under a token stores",
    roles: [reader(1), tokenWriter(1)], mutation: mutations.casIgnoresTokens, ignores: ["S4"], wrongAfter: 5 },
  { name: "fault: leases are given under a token",
    roles: [reader(1), tokenWriter(1)], mutation: mutations.leasesIgnoreTokens, ignores: ["S4"], wrongAfter: 5 },
  { name: "fault: a lease under a token is seen at once",
    roles: [reader(1), tokenWriter(1)], mutation: mutations.leasesIgnoreTokens, wrongAfter: 2 },
  { name: "fault: token get keeps the value",
    roles: [tokenWriter(1)], mutation: mutations.tokenGetKeepsTheValue, ignores: ["S4"], filled: true,
    wrongAfter: 2 },
  { name: "fault: token get keeps a value that a reader filled",
    roles: [reader(1), tokenWriter(1)], mutation: mutations.tokenGetKeepsTheValue, ignores: ["S4"], wrongAfter: 5 },
  { name: "fault: token get takes a locked value",
    roles: [other("lock holder", others.lockingReader), tokenWriter(1)], mutation: mutations.tokenGetIgnoresLocks,
    filled: true, wrongAfter: 2 },
  { name: "fault: token get knows no tags",
    roles: [tokenWriter(1)], environment: { loseReply: 1 }, mutation: mutations.tokensHaveNoOwner,
    mustEndWithoutTokens: true, wrongAfter: 4 },
  { name: "fault: token get is answered before the journal has it",
    roles: [reader(1), tokenWriter(1)], environment: { restart: 1 }, isJournaled: true,
    mutation: mutations.tokenGetDoesNotWait, ignores: ["S4"], wrongAfter: 6 },
  { name: "fault: the release of an unknown token is ignored",
    roles: [reader(1), tokenWriter(1)], environment: { restart: 1 }, values: "at rest",
    mutation: mutations.unknownReleaseIsIgnored, wrongAfter: 7 },
  { name: "fault: a release ends all tokens of the key",
    roles: [reader(1), tokenWriter(2)], mutation: mutations.releaseEndsAllTokens, ignores: ["S4"], wrongAfter: 8 },
  { name: "fault: flush_all drops tokens",
    roles: [reader(1), tokenWriter(1), other("flusher", others.flusher)], mutation: mutations.flushDropsTokens,
    ignores: ["S4"], wrongAfter: 6 },
  { name: "fault: tokens end with their connection",
    roles: [reader(1), tokenWriter(1)], environment: { loseReply: 1 }, onDisconnect: mutations.tokensAreForgotten,
    wrongAfter: 1 },
  { name: "fault: a restart does not restore the journal's tokens",
    roles: [reader(1), tokenWriter(1)], environment: { restart: 1 }, isJournaled: true,
    onRestart: mutations.tokensAreForgotten, ignores: ["S4"], wrongAfter: 7 },
  { name: "fault: a fill under a token is judged at its command line",
    roles: [reader(1, readers.slowReader), tokenWriter(1)], mutation: mutations.judgedAtTheLine(), wrongAfter: 7 },
];

// deno-fmt-ignore
const OTHER_FAULTS: readonly Row[] = [
  { name: "fault: ids begin anew", roles: [reader(2)], environment: { restart: 1 }, repeatsIds: true, wrongAfter: 3 },
  { name: "fault: flush_all leaves leases, seen at once",
    roles: [reader(1), writer(1, writers.flushingWriter)], mutation: mutations.flushKeepsLeases, wrongAfter: 3 },
  { name: "fault: LaG locks before it looks at the deadline",
    roles: [reader(1, readers.expiringReader), other("LaG", others.lockAndGetter)], environment: { pause: 1 },
    mutation: mutations.lockAndGetRevives, wrongAfter: 5 },
  { name: "fault: a lock outlives its connection",
    roles: [other("lock holder", others.lockingReader)], environment: { disconnect: 1 },
    onDisconnect: mutations.lockOutlivesItsConnection, filled: true, wrongAfter: 2 },
];

/** Faults that must be found. */
export const FAULTS: readonly Row[] = [
  ...LEASE_FAULTS,
  ...TOKEN_FAULTS.map((row): Row => ({ values: "always", ...row })),
  ...OTHER_FAULTS,
];
