import * as clients from "../actors/origin_clients.ts";
import * as faults from "../listed/faults.ts";
import { LATE, type ListedSetup } from "../listed/setup.ts";
import type { Role, Row } from "../scenario.ts";
import type { MakeActor } from "../steps.ts";
import { EXPIRY_AND_EVICTION, other, reader as readerRole, writer as writerRole } from "./roles.ts";

// Scenarios with an origin before the database. Unless a row says otherwise, every cached value equals the committed
// one at every moment, also while a writer is at work and after anybody has crashed.

const reader = (count: number, act: MakeActor = clients.reader()): Role => readerRole(count, act);
const writer = (count: number, ways: clients.WriterWays = {}): Role =>
  writerRole(count, clients.writer(ways));
const ONE_CACHE = [0];
const TWO_CACHES = [0, 1];
/** The result of a read also reaches its flow in a step of its own. */
const WITH_LATE_READS = [...LATE, "readRows"] as const;
const REVOKER = other("operator", clients.revoker);
/** A writer that knows its cache by heart, and deletes there itself, as all did in the table. */
const KNOWING: clients.WriterWays = { caches: ONE_CACHE };

/** It leaves the deletion to the origin, and asks again when a reply is lost. */
const TAGGED: clients.WriterWays = { tag: true };

/** The rows B of table 12.4. */
// deno-fmt-ignore
const TABLE: readonly Row[] = [
  { name: "listed: three readers, expiry, eviction",
    roles: [reader(3), writer(1, KNOWING)], environment: EXPIRY_AND_EVICTION, origin: { mustEndWithoutTokens: true } },
  { name: "listed: two writers",
    roles: [reader(1), writer(2, KNOWING)], environment: EXPIRY_AND_EVICTION, origin: { mustEndWithoutTokens: true } },
  { name: "listed: two caches",
    roles: [reader(1), reader(2, clients.reader(1)), writer(1, { caches: TWO_CACHES })], caches: 2,
    origin: { listed: TWO_CACHES } },
  { name: "listed: deletess in place of delete",
    roles: [reader(3), writer(1, { ...KNOWING, deletes: "deletess" })], environment: { time: 2 }, origin: {} },
  { name: "listed: an expired item in place of delete",
    roles: [reader(3), writer(1, { ...KNOWING, deletes: "set" })], environment: EXPIRY_AND_EVICTION,
    origin: { mustEndWithoutTokens: true } },
  { name: "listed: a token is revoked at any time",
    roles: [reader(2), writer(1, { ...KNOWING, startsAgain: true }), REVOKER], environment: EXPIRY_AND_EVICTION,
    origin: { mustEndWithoutTokens: true } },
  { name: "listed: a writer crashes, its token is revoked",
    roles: [reader(2), writer(1, KNOWING), REVOKER], environment: { crash: 1 }, origin: {} },
  { name: "listed: the writer deletes before it takes the token",
    roles: [reader(1), writer(1, { ...KNOWING, order: "dtp" })], origin: {}, wrongAfter: 8 },
  { name: "listed: the writer deletes after the commit",
    roles: [reader(1), writer(1, { ...KNOWING, order: "tpd" })], origin: {}, wrongAfter: 7 },
  { name: "listed: the writer deletes after the commit, values at rest",
    roles: [reader(2), writer(1, { ...KNOWING, order: "tpd" })], environment: EXPIRY_AND_EVICTION, values: "at rest",
    origin: {} },
  { name: "listed: a value is used again under a second lease",
    roles: [reader(1, clients.reusingReader), writer(1, KNOWING)], environment: { time: 1 }, origin: {},
    wrongAfter: 11 },
  { name: "listed: the cache restarts, and its ids repeat",
    roles: [reader(2), writer(1, KNOWING)], environment: { restart: 1 }, ignores: ["S3"], repeatsIds: true, origin: {},
    wrongAfter: 10 },
  { name: "listed: the cache restarts, ids never repeat",
    roles: [reader(2), writer(1, KNOWING)], environment: { restart: 1 }, origin: {} },
  { name: "listed: it restarts, unfenced",
    roles: [reader(1), writer(1, KNOWING)], origin: { events: { restart: 1 }, isUnfenced: true }, wrongAfter: 9 },
  { name: "listed: it restarts, fenced", roles: [reader(2), writer(1, KNOWING)], origin: { events: { restart: 1 } } },
  { name: "listed: a deposed one answers reads",
    roles: [reader(2), writer(1, { ...KNOWING, origin: 1 })], origin: { origins: 2 } },
  { name: "listed: an old writer, unfenced, both origins busy",
    roles: [reader(1, clients.reader(undefined, 1)), writer(1, KNOWING)],
    origin: { events: { takeOver: 1 }, isUnfenced: true }, wrongAfter: 9 },
  { name: "listed: an old writer, fenced, both origins busy",
    roles: [reader(1), reader(1, clients.reader(undefined, 1)), writer(1, KNOWING), writer(1, { ...KNOWING,
      origin: 1 })],
    origin: { events: { takeOver: 1 } } },
  { name: "listed: a reader bypasses it",
    roles: [reader(1, clients.bypassingReader), writer(1, KNOWING)], origin: {}, wrongAfter: 7 },
  { name: "listed: a writer misses one of two caches",
    roles: [reader(1), reader(1, clients.silentReader(1)), writer(1, KNOWING)], caches: 2, origin: {},
    wrongAfter: 8 },
];

/** Clients that only know the origin. */
// deno-fmt-ignore
const ONE_SHOT: readonly Row[] = [
  { name: "listed: a get and two sets through it",
    roles: [reader(1, clients.originReader()), writerRole(2, clients.originWriter())], environment: { time: 1 },
    filled: true, origin: { mustEndWithoutTokens: true } },
  { name: "listed: gets and sets through it, a cache does not answer",
    roles: [reader(1, clients.originReader()), writerRole(1, clients.originWriter())], environment: { time: 1 },
    filled: true, origin: { events: { cacheFails: 2 }, mustEndWithoutTokens: true } },
  { name: "listed: gets and sets through it, the database refuses",
    roles: [reader(1, clients.originReader()), writerRole(2, clients.originWriter())],
    origin: { events: { databaseFails: 2 }, mustEndWithoutTokens: true } },
  { name: "listed: gets and sets through it, two caches, the connection to the database is lost",
    roles: [reader(1, clients.originReader()), writerRole(1, clients.originWriter())], environment: EXPIRY_AND_EVICTION,
    caches: 2, origin: { listed: TWO_CACHES, events: { loseCommit: 1 } } },
  { name: "listed: gets and sets through it, it restarts and another takes over",
    roles: [reader(1, clients.originReader()), writerRole(1, clients.originWriter()), writerRole(1,
      clients.originWriter(1))],
    origin: { events: { restart: 1, takeOver: 1 } } },
];

/** Replies, commits and caches that get lost. */
// deno-fmt-ignore
const LOSSES: readonly Row[] = [
  { name: "listed: replies are lost, and the writer asks again",
    roles: [reader(1), writer(1, TAGGED)], environment: { loseReply: 2 }, origin: { mustEndWithoutTokens: true } },
  { name: "listed: replies are lost, two writers",
    roles: [reader(1), writer(2, TAGGED)], environment: { loseReply: 1 }, origin: { mustEndWithoutTokens: true } },
  { name: "listed: uput is retried after a lost reply, and after revoke",
    roles: [reader(1), writer(1, { ...TAGGED, startsAgain: true }), REVOKER], environment: { loseReply: 2 },
    origin: { mustEndWithoutTokens: true } },
  { name: "listed: uput is retried after a restart",
    roles: [reader(1), writer(2, TAGGED)], origin: { events: { restart: 1 }, mustEndWithoutTokens: true } },
  { name: "listed: the end of a commit is unknown, and is asked for",
    roles: [reader(2), writer(1, KNOWING), REVOKER],
    origin: { events: { loseCommit: 1 }, mustEndWithoutTokens: true } },
  { name: "listed: the end of a commit is unknown, and is asked for twice at the same time",
    roles: [reader(1), writer(1, TAGGED), REVOKER], environment: { loseReply: 2 },
    origin: { events: { loseCommit: 1 } } },
  { name: "listed: the end of a commit is unknown, and the database does not say it either",
    roles: [reader(1), writer(1, TAGGED)], environment: { loseReply: 1 },
    origin: { events: { loseCommit: 1, databaseFails: 1 } } },
  { name: "listed: the end of a commit is unknown, and the origin restarts",
    roles: [reader(2), writer(1, TAGGED)], origin: { events: { loseCommit: 1, restart: 1 } } },
  { name: "listed: what it found reaches it late",
    roles: [reader(1), reader(1, clients.originReader()), writer(1, KNOWING)],
    origin: { events: { restart: 1 }, late: WITH_LATE_READS } },
];

/** The second cache leaves the list, and comes back. */
const LEAVES_AND_RETURNS: ListedSetup = {
  listed: TWO_CACHES,
  laterListed: ONE_CACHE,
  events: { changeList: 2 },
};
const READER_OF_SECOND = reader(1, clients.reader(1));
/** It has a value in the second cache, which cannot be emptied when it leaves; nobody may read it then. */
const LEAVES_FULL = { filled: true, caches: 2 } as const;

/** Caches that join and leave the list while clients are at work. */
// deno-fmt-ignore
const LISTS: readonly Row[] = [
  { name: "list: a cache joins, a put runs",
    roles: [READER_OF_SECOND, writer(2)], caches: 2,
    origin: { listed: ONE_CACHE, laterListed: TWO_CACHES, events: { changeList: 1 } } },
  { name: "list: a cache joins, its reader does not name it",
    roles: [reader(1, clients.silentReader(1)), writer(1)], caches: 2, filled: true, origin: LEAVES_AND_RETURNS },
  { name: "list: a cache leaves",
    roles: [reader(1), READER_OF_SECOND, writer(1)], caches: 2, filled: true,
    origin: { listed: TWO_CACHES, laterListed: ONE_CACHE, events: { changeList: 1 } } },
  { name: "list: a cache leaves and comes back",
    roles: [READER_OF_SECOND, writer(1)], environment: { time: 1 }, caches: 2, filled: true,
    origin: LEAVES_AND_RETURNS },
  { name: "list: a cache leaves, does not answer, and comes back",
    roles: [READER_OF_SECOND, writer(1)], ...LEAVES_FULL,
    origin: { ...LEAVES_AND_RETURNS, ignoresOutside: true, events: { changeList: 2, cacheFails: 1 } } },
  { name: "list: a cache leaves and comes back, gets and sets through the origin",
    roles: [reader(1, clients.originReader()), writerRole(1, clients.originWriter())], caches: 2, filled: true,
    origin: { listed: [1, 0], laterListed: ONE_CACHE, events: { changeList: 2 } } },
  { name: "list: a cache leaves, does not answer, and the origin restarts with the old list",
    roles: [writer(1)], ...LEAVES_FULL,
    origin: { listed: TWO_CACHES, laterListed: ONE_CACHE, successorListed: TWO_CACHES, ignoresOutside: true,
      events: { changeList: 1, cacheFails: 1, restart: 1 } } },
  { name: "list: a cache leaves and comes back, the database refuses or loses a note",
    roles: [writer(1)], caches: 2, filled: true,
    origin: { ...LEAVES_AND_RETURNS, events: { changeList: 2, databaseFails: 1, loseCommit: 1 } } },
  { name: "list: a stand-by with a shorter list takes over",
    roles: [READER_OF_SECOND, writer(1, { origin: 1 })], caches: 2, filled: true,
    origin: { listed: TWO_CACHES, successorListed: ONE_CACHE, events: { takeOver: 1 } } },
  { name: "list: a stand-by with a longer list takes over",
    roles: [reader(1, clients.reader(1, 1)), writer(1, { origin: 1 })], caches: 2,
    origin: { listed: ONE_CACHE, successorListed: TWO_CACHES, events: { takeOver: 1 } } },
  { name: "list: a stand-by takes over while a cache leaves",
    roles: [writer(1, { origin: 1 })], ...LEAVES_FULL,
    origin: { ...LEAVES_AND_RETURNS, ignoresOutside: true, events: { changeList: 2, cacheFails: 1, takeOver: 1 } } },
  { name: "origin list fault: a listed cache is not asked to delete",
    roles: [READER_OF_SECOND, writer(1)], caches: 2,
    origin: { listed: TWO_CACHES, skips: ({ kind }) => kind === "invalidateListed" }, wrongAfter: 10 },
  { name: "origin list fault: a cache leaves, and is not emptied",
    roles: [READER_OF_SECOND, writer(1)], caches: 2, filled: true,
    origin: { ...LEAVES_AND_RETURNS, skips: ({ kind }) => kind === "quarantine" }, wrongAfter: 9 },
  { name: "origin list fault: a cache comes back, and is not emptied",
    roles: [READER_OF_SECOND, writer(1)], ...LEAVES_FULL,
    origin: { ...LEAVES_AND_RETURNS, ignoresOutside: true, skips: ({ kind }) => kind === "quarantine" },
    wrongAfter: 15 },
  { name: "origin list fault: a cache leaves, and that is not noted",
    roles: [READER_OF_SECOND, writer(1)], ...LEAVES_FULL,
    origin: { listed: TWO_CACHES, laterListed: ONE_CACHE, successorListed: TWO_CACHES, ignoresOutside: true,
      skips: ({ kind }) => kind === "noteCaches", events: { changeList: 1, cacheFails: 1, restart: 1 } },
    wrongAfter: 10 },
  { name: "origin list fault: a stand-by with a shorter list trusts it",
    roles: [READER_OF_SECOND, writer(1, { origin: 1 })], caches: 2, filled: true,
    origin: { listed: TWO_CACHES, successorListed: ONE_CACHE, ignoresNotes: true, events: { takeOver: 1 } },
    wrongAfter: 6 },
];

/** Faults that an origin could have, and must be found. */
// deno-fmt-ignore
const FAULTS: readonly Row[] = [
  { name: "origin fault: a busy token is revoked",
    roles: [reader(1), writer(1, KNOWING), REVOKER],
    origin: { makeStates: (epoch) => new faults.RevokesBusyTokens(epoch) }, wrongAfter: 9 },
  { name: "origin fault: the token is free before the commit",
    roles: [reader(1), writer(1, KNOWING)], origin: { makeStates: (epoch) => new faults.FreesBeforeCommit(epoch) },
    wrongAfter: 8, why: "one step less than with a token that is removed after the write has begun" },
  { name: "origin fault: it reads before it checks",
    roles: [reader(1), writer(1, KNOWING)],
    origin: { makeFlows: (caches, states) => new faults.ChecksAfterRead(caches, states, 100), late: WITH_LATE_READS },
    wrongAfter: 9 },
  { name: "origin fault: a deposed one does not look at the epoch of what it reads",
    roles: [reader(1), writer(1, { ...KNOWING, origin: 1 })],
    origin: { origins: 2, makeFlows: (caches, states) => new faults.IgnoresEpoch(caches, states, 100) },
    wrongAfter: 8 },
  { name: "origin fault: a read joins one that runs",
    roles: [reader(2), writer(1, KNOWING)], environment: { time: 1 },
    origin: { joinsReads: true, late: WITH_LATE_READS }, wrongAfter: 12 },
];

const always = (row: Row): Row => ({ values: "always", ...row });
/** The origin has no list: writers know the caches. */
const withoutList = (row: Row): Row => ({ ...row, origin: { listed: [], ...row.origin } });

/** All scenarios with an origin that the test has. */
export const LISTED: readonly Row[] = [
  ...TABLE.map(withoutList),
  ...ONE_SHOT,
  ...LOSSES,
  ...LISTS,
  ...FAULTS.map(withoutList),
].map(always);

/** A scenario of the list with more clients. */
function larger(name: string, ...roles: Role[]): Row {
  return {
    ...LISTS.find((row) => row.name === `origin list: ${name}`)!,
    name: `origin list: ${name}, readers`,
    roles,
  };
}

/** Larger ones, which only `deno task explore` runs. */
// deno-fmt-ignore
export const LARGE_LISTED: readonly Row[] = [
  larger("a cache leaves, does not answer, and the origin restarts with the old list", READER_OF_SECOND, writer(1)),
  larger("a cache leaves and comes back, the database refuses or loses a note", READER_OF_SECOND, writer(1)),
  larger("a stand-by with a shorter list takes over",
    reader(1), READER_OF_SECOND, writer(1), writer(1, { origin: 1 })),
  larger("a stand-by with a longer list takes over", reader(1, clients.reader(1, 1)), writer(1), writer(1, { origin: 1 })),
  larger("a stand-by takes over while a cache leaves", READER_OF_SECOND, writer(1, { origin: 1 })),
  { name: "list: a cache joins, two readers of it, two puts run",
    roles: [reader(2, clients.reader(1)), writer(2)], caches: 2,
    origin: { listed: ONE_CACHE, laterListed: TWO_CACHES, events: { changeList: 1 } } },
  { name: "list: a cache leaves, does not answer twice, and comes back",
    roles: [READER_OF_SECOND, writer(1)], ...LEAVES_FULL,
    origin: { ...LEAVES_AND_RETURNS, ignoresOutside: true, events: { changeList: 2, cacheFails: 2 } } },
  { name: "list: gets and sets through it, a cache leaves, does not answer, and comes back",
    roles: [reader(1, clients.originReader()), writerRole(1, clients.originWriter())], caches: 2, filled: true,
    origin: { listed: [1, 0], laterListed: ONE_CACHE, ignoresOutside: true, events: { changeList: 2,
      cacheFails: 1 } } },
  { name: "listed: two readers, two writers",
    roles: [reader(2), writer(2, KNOWING)], environment: EXPIRY_AND_EVICTION, origin: { mustEndWithoutTokens: true } },
  { name: "listed: two caches, three readers, expiry, eviction",
    roles: [reader(1), reader(2, clients.reader(1)), writer(1, { caches: TWO_CACHES })],
    environment: EXPIRY_AND_EVICTION, caches: 2, origin: { listed: TWO_CACHES } },
  { name: "listed: two writers, it restarts, fenced, a reply is lost",
    roles: [reader(1), writer(2, TAGGED)], environment: { loseReply: 1 },
    origin: { events: { restart: 1 }, mustEndWithoutTokens: true } },
  { name: "listed: two gets and a set through it",
    roles: [reader(2, clients.originReader()), writerRole(1, clients.originWriter())], environment: { time: 1 },
    origin: { mustEndWithoutTokens: true } },
  { name: "listed: gets and sets through it, it restarts, another takes over, expiry",
    roles: [reader(1, clients.originReader()), writerRole(1, clients.originWriter()), writerRole(1,
      clients.originWriter(1))],
    environment: { time: 1 }, origin: { events: { restart: 1, takeOver: 1 } } },
  { name: "listed: an unknown commit, two writers, a restart",
    roles: [reader(1), writer(2, TAGGED)], origin: { events: { loseCommit: 1, restart: 1 } } },
].map(always);
