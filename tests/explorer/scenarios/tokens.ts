import { atCache } from "../actors/cache_choice.ts";
import * as others from "../actors/others.ts";
import * as readers from "../actors/readers.ts";
import * as writers from "../actors/token_writers.ts";
import type { Row } from "../scenario.ts";
import { EXPIRY_AND_EVICTION, other, plainSetters, reader, tokenWriter } from "./roles.ts";

// Scenarios with update tokens in caches. Unless a row says otherwise, every cached value equals the committed one at
// every moment, also while a writer is at work and after it has crashed.

/** The rows A of table 12.4. */
// deno-fmt-ignore
const TABLE: readonly Row[] = [
  { name: "tokens: three readers, expiry, eviction",
    roles: [reader(3), tokenWriter(1)], environment: EXPIRY_AND_EVICTION },
  { name: "tokens: a value is there, three readers, expiry, eviction",
    roles: [reader(3), tokenWriter(1)], environment: EXPIRY_AND_EVICTION, filled: true },
  { name: "tokens: two writers", roles: [reader(2), tokenWriter(2)], environment: EXPIRY_AND_EVICTION },
  { name: "tokens: two writers, either may crash anywhere",
    roles: [reader(2), tokenWriter(2)], environment: { time: 1, crash: 2 }, filled: true },
  { name: "tokens: two caches",
    roles: [reader(1), other("reader of cache 2", atCache(1, readers.reader)), tokenWriter(1,
      writers.twoCachesWriter)],
    environment: EXPIRY_AND_EVICTION, caches: 2 },
  { name: "tokens: two caches, two writers, either may crash",
    roles: [reader(1), other("reader of cache 2", atCache(1, readers.reader)), tokenWriter(2,
      writers.twoCachesWriter)],
    environment: { crash: 1 }, caches: 2 },
  { name: "tokens: a writer misses one of two caches",
    roles: [reader(1), other("reader of cache 2", atCache(1, readers.reader)), tokenWriter(1)], caches: 2,
    wrongAfter: 5 },
  { name: "durable tokens: two restarts",
    roles: [reader(2), tokenWriter(1)], environment: { time: 1, restart: 2 }, isJournaled: true },
  { name: "tokens are lost in a restart",
    roles: [reader(1), tokenWriter(1)], environment: { restart: 1 }, wrongAfter: 6 },
  { name: "tokens are lost in a restart; the release of an unknown one invalidates",
    roles: [reader(2), tokenWriter(1)], environment: { time: 1, evict: 1, restart: 1 }, values: "at rest" },
  { name: "an operator drops the token",
    roles: [reader(1), tokenWriter(1), other("operator", others.dropper)], wrongAfter: 6 },
  { name: "an operator drops the token, and its writer releases it",
    roles: [reader(2), tokenWriter(1), other("operator", others.dropper)], environment: EXPIRY_AND_EVICTION,
    values: "at rest" },
  { name: "tokens: a plain setter beside it", roles: [reader(1), tokenWriter(1), plainSetters(1)], wrongAfter: 6 },
  { name: "tokens: a plain setter under --strict",
    roles: [reader(2), tokenWriter(1), plainSetters(1)], environment: EXPIRY_AND_EVICTION,
    options: ["--strict", "*"] },
  { name: "tokens: released before the commit",
    roles: [reader(1), tokenWriter(1, writers.earlyReleasingWriter)], wrongAfter: 6 },
  { name: "tokens: the reader reads first, then takes the lease",
    roles: [reader(1, readers.hastyReader), tokenWriter(1)], wrongAfter: 6,
    why: "one step more than with plain delete: the token is taken, and released, around the commit" },
];

/** Tokens beside locks, leases and the other commands. */
// deno-fmt-ignore
const MEETINGS: readonly Row[] = [
  { name: "tokens: text and binary mixed",
    roles: [reader(1), reader(1, readers.binaryReader), tokenWriter(1), tokenWriter(1, writers.binaryTokenWriter)],
    environment: { time: 1, loseReply: 1 }, mustEndWithoutTokens: true },
  { name: "tokens: lease-get, mg N and getss mixed",
    roles: [reader(1), reader(1, readers.mcrouterReader), reader(1, readers.metaReader), tokenWriter(1)],
    environment: EXPIRY_AND_EVICTION },
  { name: "tokens: getss of several keys, one of them under a token",
    roles: [reader(2, readers.multiGetReader), tokenWriter(1)], environment: { time: 1 } },
  { name: "tokens: values that arrive in pieces",
    roles: [reader(1), reader(1, readers.slowReader), tokenWriter(1)], environment: { time: 1 } },
  { name: "tokens: a lease is given back while a token is asked for",
    roles: [reader(1), reader(1, readers.abandoningReader), tokenWriter(1)], environment: EXPIRY_AND_EVICTION },
  { name: "tokens: a lock's holder may be lost before the token is given",
    roles: [reader(1), other("lock holder", others.lockingReader), tokenWriter(1)],
    environment: { time: 1, disconnect: 1 }, filled: true },
  { name: "tokens: two writers that lock first, a holder may be lost",
    roles: [reader(1), tokenWriter(2, writers.lockingTokenWriter)], environment: { time: 1, disconnect: 1 },
    filled: true },
  { name: "tokens: flush_all beside it",
    roles: [reader(2), tokenWriter(1), other("flusher", others.flusher)], environment: { time: 1 } },
  { name: "tokens: flush_all with a delay between getss and cas",
    roles: [reader(2), tokenWriter(1), other("flusher", others.lateFlusher)], environment: { time: 2 } },
  { name: "tokens: deletess and delete beside it",
    roles: [reader(2), tokenWriter(1), other("invalidator", others.invalidator)], environment: { time: 1 } },
  { name: "tokens: md I beside it",
    roles: [reader(1), reader(1, readers.metaReader), tokenWriter(1), other("client that marks the value stale",
      others.staler)],
    environment: { time: 1 }, filled: true },
  { name: "tokens: quarantine on and off",
    roles: [reader(2), tokenWriter(1), other("operator", others.quarantiner)], environment: { time: 1 },
    filled: true },
  { name: "tokens: a token on a dirty value",
    roles: [reader(1), plainSetters(2), other("toucher", others.toucher), other("writer that gives up",
      writers.abortingWriter)],
    environment: { time: 2 }, values: "at rest" },
  { name: "tokens: a dirty value is evicted",
    roles: [reader(1), plainSetters(2), other("writer that gives up", writers.abortingWriter)],
    environment: { time: 2, evict: 1 }, values: "at rest" },
  { name: "tokens: values expire, and others lock them",
    roles: [reader(1, readers.expiringReader), other("LaG", others.lockAndGetter), tokenWriter(1)],
    environment: { time: 1, pause: 1, disconnect: 1 } },
  { name: "tokens: the servers stop while a lease ends",
    roles: [reader(3), tokenWriter(1)], environment: { pause: 2 } },
];

/** Lost replies, lost processes, and what the journal has not written yet. */
// deno-fmt-ignore
const LOSSES: readonly Row[] = [
  { name: "tokens: replies to token get and release are lost; the writer asks again by its tag",
    roles: [reader(2), tokenWriter(1)], environment: { time: 1, loseReply: 2 }, mustEndWithoutTokens: true },
  { name: "tokens: two writers, a reply is lost",
    roles: [reader(1), tokenWriter(2)], environment: { loseReply: 2 }, mustEndWithoutTokens: true },
  { name: "tokens: without a tag, a lost reply leaves a token that nobody can release",
    roles: [reader(1), tokenWriter(1, writers.anonymousWriter)], environment: { loseReply: 1 },
    mustEndWithoutTokens: true, wrongAfter: 5, why: "nothing is stale; the key cannot be cached any more" },
  { name: "tokens: released twice",
    roles: [reader(2), tokenWriter(1, writers.twiceReleasingWriter), tokenWriter(1)], environment: { time: 1 },
    mustEndWithoutTokens: true },
  { name: "tokens: a second release takes a value that another client has locked",
    roles: [reader(1), tokenWriter(1, writers.twiceReleasingWriter), other("lock holder", others.lockingReader)],
    wrongAfter: 8, why: "the release of an unknown token invalidates always: S2 goes before S5" },
  { name: "tokens are lost in a restart; quarantine lasts until the writer has ended",
    roles: [reader(2), tokenWriter(1)], environment: { restart: 1 }, quarantineSec: 60 },
  { name: "tokens are lost in a restart; the writer outlasts quarantine",
    roles: [reader(1), tokenWriter(1)], environment: { restart: 1, time: 1 }, quarantineSec: 60, wrongAfter: 7,
    why: "the one bet on time: one step more than without quarantine, the end of it" },
  { name: "durable tokens: a reader between token get and the journal's write",
    roles: [reader(2), tokenWriter(1)], environment: EXPIRY_AND_EVICTION, isJournaled: true, filled: true },
  { name: "durable tokens: two writers, a restart",
    roles: [reader(1), tokenWriter(2)], environment: { restart: 1 }, isJournaled: true },
  { name: "durable tokens: a restart and a lost reply",
    roles: [reader(1), tokenWriter(1)], environment: { restart: 1, loseReply: 1 }, isJournaled: true },
  { name: "durable tokens: the disk refuses, and a restart",
    roles: [reader(1), tokenWriter(1)], environment: { restart: 1, journalFails: 2 }, isJournaled: true },
  { name: "durable tokens: a writer crashes, and the cache restarts",
    roles: [reader(2), tokenWriter(1)], environment: { restart: 1, crash: 1 }, isJournaled: true },
  { name: "durable tokens: the wall clock goes back an hour in each of two restarts",
    roles: [reader(2), tokenWriter(1)], environment: { restart: 2 }, isJournaled: true, wallClockStepSec: -3600 },
  { name: "durable tokens: the wall clock goes forward an hour in each of two restarts",
    roles: [reader(2), tokenWriter(1)], environment: { restart: 2 }, isJournaled: true, wallClockStepSec: 3600 },
];

/** All scenarios with update tokens. */
export const TOKENS: readonly Row[] = [...TABLE, ...MEETINGS, ...LOSSES].map((row) => ({
  values: "always",
  ...row,
}));
