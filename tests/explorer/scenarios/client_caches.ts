import * as clients from "../actors/origin_clients.ts";
import * as faults from "../client_caches/faults.ts";
import { LATE } from "../client_caches/setup.ts";
import type { Role, Row } from "../scenario.ts";
import type { MakeActor } from "../steps.ts";
import { EXPIRY_AND_EVICTION, other, reader as readerRole, writer as writerRole } from "./roles.ts";

// Scenarios with an origin before the database, and caches that clients fill and delete in themselves. Unless a row
// says otherwise, every cached value equals the committed one at every moment, also while a writer is at work and after
// anybody has crashed.

const reader = (count: number, act: MakeActor = clients.reader()): Role => readerRole(count, act);
const writer = (count: number, ways: clients.WriterWays = {}): Role =>
  writerRole(count, clients.writer(ways));
const TWO_CACHES = [0, 1];
/** The result of a read also reaches its flow in a step of its own. */
const WITH_LATE_READS = [...LATE, "readRows"] as const;
const REVOKER = other("operator", clients.revoker);
/** It asks again when a reply is lost. */
const TAGGED: clients.WriterWays = { tag: true };

/** The rows B of table 12.4. */
// deno-fmt-ignore
const TABLE: readonly Row[] = [
  { name: "client caches: three readers, expiry, eviction",
    roles: [reader(3), writer(1)], environment: EXPIRY_AND_EVICTION, origin: { mustEndWithoutTokens: true } },
  { name: "client caches: two writers",
    roles: [reader(1), writer(2)], environment: EXPIRY_AND_EVICTION, origin: { mustEndWithoutTokens: true } },
  { name: "client caches: two caches",
    roles: [reader(1), reader(2, clients.reader(1)), writer(1, { caches: TWO_CACHES })], caches: 2, origin: {} },
  { name: "client caches: deletess in place of delete",
    roles: [reader(3), writer(1, { deletes: "deletess" })], environment: { time: 2 }, origin: {} },
  { name: "client caches: an expired item in place of delete",
    roles: [reader(3), writer(1, { deletes: "set" })], environment: EXPIRY_AND_EVICTION,
    origin: { mustEndWithoutTokens: true } },
  { name: "client caches: a token is revoked at any time",
    roles: [reader(2), writer(1, { startsAgain: true }), REVOKER], environment: EXPIRY_AND_EVICTION,
    origin: { mustEndWithoutTokens: true } },
  { name: "client caches: a writer crashes, its token is revoked",
    roles: [reader(2), writer(1), REVOKER], environment: { crash: 1 }, origin: {} },
  { name: "client caches: the writer deletes before it takes the token",
    roles: [reader(1), writer(1, { order: "dtp" })], origin: {}, wrongAfter: 8 },
  { name: "client caches: the writer deletes after the commit",
    roles: [reader(1), writer(1, { order: "tpd" })], origin: {}, wrongAfter: 7 },
  { name: "client caches: the writer deletes after the commit, values at rest",
    roles: [reader(2), writer(1, { order: "tpd" })], environment: EXPIRY_AND_EVICTION, values: "at rest",
    origin: {} },
  { name: "client caches: a value is used again under a second lease",
    roles: [reader(1, clients.reusingReader), writer(1)], environment: { time: 1 }, origin: {},
    wrongAfter: 11 },
  { name: "client caches: the cache restarts, and its ids repeat",
    roles: [reader(2), writer(1)], environment: { restart: 1 }, ignores: ["S3"], repeatsIds: true, origin: {},
    wrongAfter: 10 },
  { name: "client caches: the cache restarts, ids never repeat",
    roles: [reader(2), writer(1)], environment: { restart: 1 }, origin: {} },
  { name: "client caches: it restarts, unfenced",
    roles: [reader(1), writer(1)], origin: { events: { restart: 1 }, isUnfenced: true }, wrongAfter: 9 },
  { name: "client caches: it restarts, fenced", roles: [reader(2), writer(1)], origin: { events: { restart: 1 } } },
  { name: "client caches: a deposed one answers reads",
    roles: [reader(2), writer(1, { origin: 1 })], origin: { origins: 2 } },
  { name: "client caches: an old writer, unfenced, both origins busy",
    roles: [reader(1, clients.reader(0, 1)), writer(1)],
    origin: { events: { takeOver: 1 }, isUnfenced: true }, wrongAfter: 9 },
  { name: "client caches: an old writer, fenced, both origins busy",
    roles: [reader(1), reader(1, clients.reader(0, 1)), writer(1), writer(1, { origin: 1 })],
    origin: { events: { takeOver: 1 } } },
  { name: "client caches: a reader bypasses it",
    roles: [reader(1, clients.bypassingReader), writer(1)], origin: {}, wrongAfter: 7 },
  { name: "client caches: a writer misses one of two caches",
    roles: [reader(1), reader(1, clients.reader(1)), writer(1)], caches: 2, origin: {},
    wrongAfter: 8 },
];

/** Writers that delete in no cache. */
// deno-fmt-ignore
const ONE_SHOT: readonly Row[] = [
  { name: "client caches: a plain set deletes in no cache of a client",
    roles: [reader(1), writerRole(1, clients.originWriter())], origin: {}, wrongAfter: 6 },
];

/** Replies and commits that get lost. */
// deno-fmt-ignore
const LOSSES: readonly Row[] = [
  { name: "client caches: replies are lost, and the writer asks again",
    roles: [reader(1), writer(1, TAGGED)], environment: { loseReply: 2 }, origin: { mustEndWithoutTokens: true } },
  { name: "client caches: replies are lost, two writers",
    roles: [reader(1), writer(2, TAGGED)], environment: { loseReply: 1 }, origin: { mustEndWithoutTokens: true } },
  { name: "client caches: uput is retried after a lost reply, and after revoke",
    roles: [reader(1), writer(1, { ...TAGGED, startsAgain: true }), REVOKER], environment: { loseReply: 2 },
    origin: { mustEndWithoutTokens: true } },
  { name: "client caches: uput is retried after a restart",
    roles: [reader(1), writer(2, TAGGED)], origin: { events: { restart: 1 }, mustEndWithoutTokens: true } },
  { name: "client caches: the end of a commit is unknown, and is asked for",
    roles: [reader(2), writer(1), REVOKER],
    origin: { events: { loseCommit: 1 }, mustEndWithoutTokens: true } },
  { name: "client caches: the end of a commit is unknown, and is asked for twice at the same time",
    roles: [reader(1), writer(1, TAGGED), REVOKER], environment: { loseReply: 2 },
    origin: { events: { loseCommit: 1 } } },
  { name: "client caches: the end of a commit is unknown, and the database does not say it either",
    roles: [reader(1), writer(1, TAGGED)], environment: { loseReply: 1 },
    origin: { events: { loseCommit: 1, databaseFails: 1 } } },
  { name: "client caches: the end of a commit is unknown, and the origin restarts",
    roles: [reader(2), writer(1, TAGGED)], origin: { events: { loseCommit: 1, restart: 1 } } },
  { name: "client caches: what it found reaches it late",
    roles: [reader(1), reader(1, clients.originReader()), writer(1)],
    origin: { events: { restart: 1 }, late: WITH_LATE_READS } },
];

/** Faults that an origin could have, and must be found. */
// deno-fmt-ignore
const FAULTS: readonly Row[] = [
  { name: "origin fault: a busy token is revoked",
    roles: [reader(1), writer(1), REVOKER],
    origin: { makeStates: (epoch) => new faults.RevokesBusyTokens(epoch) }, wrongAfter: 9 },
  { name: "origin fault: the token is free before the commit",
    roles: [reader(1), writer(1)], origin: { makeStates: (epoch) => new faults.FreesBeforeCommit(epoch) },
    wrongAfter: 8, why: "one step less than with a token that is removed after the write has begun" },
  { name: "origin fault: it reads before it checks",
    roles: [reader(1), writer(1)],
    origin: { makeFlows: (states) => new faults.ChecksAfterRead(states, 100), late: WITH_LATE_READS },
    wrongAfter: 10 },
  { name: "origin fault: a deposed one does not look at the epoch of what it reads",
    roles: [reader(1), writer(1, { origin: 1 })],
    origin: { origins: 2, makeFlows: (states) => new faults.IgnoresEpoch(states, 100) },
    wrongAfter: 8 },
  { name: "origin fault: a read joins one that runs",
    roles: [reader(2), writer(1)], environment: { time: 1 },
    origin: { joinsReads: true, late: WITH_LATE_READS }, wrongAfter: 12 },
];

const always = (row: Row): Row => ({ values: "always", ...row });

/** All scenarios with caches of clients that the test has. */
export const CLIENT_CACHES: readonly Row[] = [...TABLE, ...ONE_SHOT, ...LOSSES, ...FAULTS].map(
  always,
);

/** Larger ones, which only `deno task explore` runs. */
// deno-fmt-ignore
export const LARGE_CLIENT_CACHES: readonly Row[] = [
  { name: "client caches: two readers, two writers",
    roles: [reader(2), writer(2)], environment: EXPIRY_AND_EVICTION, origin: { mustEndWithoutTokens: true } },
  { name: "client caches: two caches, three readers, expiry, eviction",
    roles: [reader(1), reader(2, clients.reader(1)), writer(1, { caches: TWO_CACHES })],
    environment: EXPIRY_AND_EVICTION, caches: 2, origin: {} },
  { name: "client caches: two writers, it restarts, fenced, a reply is lost",
    roles: [reader(1), writer(2, TAGGED)], environment: { loseReply: 1 },
    origin: { events: { restart: 1 }, mustEndWithoutTokens: true } },
  { name: "client caches: an unknown commit, two writers, a restart",
    roles: [reader(1), writer(2, TAGGED)], origin: { events: { loseCommit: 1, restart: 1 } } },
].map(always);
