import * as others from "../actors/others.ts";
import { atCache } from "../actors/cache_choice.ts";
import * as readers from "../actors/readers.ts";
import * as tokenWriters from "../actors/token_writers.ts";
import * as writers from "../actors/writers.ts";
import type { Row } from "../scenario.ts";
import { LARGE_CLIENT_CACHES } from "./client_caches.ts";
import { EXPIRY_AND_EVICTION, other, reader, tokenWriter, writer } from "./roles.ts";

// deno-fmt-ignore
const LARGE_LEASES: readonly Row[] = [
  { name: "three readers, two writers, two expiries and two evictions",
    roles: [reader(3), writer(2)], environment: { time: 2, evict: 2 } },
  { name: "three readers, two writers, a restart and a crash are not safe",
    roles: [reader(3), writer(2)], environment: { restart: 1, crash: 1 }, wrongAfter: 5 },
  { name: "three readers, two restarts, ids never repeat",
    roles: [reader(3), writer(1)], environment: { time: 1, evict: 1, restart: 2 } },
  { name: "two readers, two writers that read afresh",
    roles: [reader(2), writer(2, writers.warmingWriter)], environment: EXPIRY_AND_EVICTION },
  { name: "two by getss, one by lease-get, two writers",
    roles: [reader(2), reader(1, readers.mcrouterReader), writer(2)], environment: EXPIRY_AND_EVICTION },
  { name: "a reader of every kind",
    roles: [reader(1), reader(1, readers.slowReader), reader(1, readers.metaReader), reader(1,
      readers.mcrouterReader), writer(1)],
    environment: { time: 1 } },
];

// deno-fmt-ignore
const LARGE_TOKENS: readonly Row[] = [
  { name: "tokens: four readers, two writers, two expiries, two evictions, a crash",
    roles: [reader(4), tokenWriter(2)], environment: { time: 2, evict: 2, crash: 1 } },
  { name: "tokens: three readers, three writers",
    roles: [reader(3), tokenWriter(3)], environment: EXPIRY_AND_EVICTION },
  { name: "tokens: two caches, two readers each, two writers, a crash",
    roles: [reader(2), reader(2, atCache(1, readers.reader)), tokenWriter(2, tokenWriters.twoCachesWriter)],
    environment: { crash: 1 }, caches: 2 },
  { name: "durable tokens: two caches, restarts, a lost reply",
    roles: [reader(1), reader(1, atCache(1, readers.reader)), tokenWriter(1, tokenWriters.twoCachesWriter)],
    environment: { restart: 2, loseReply: 1 }, caches: 2, isJournaled: true },
  { name: "durable tokens: two writers, two restarts, a disk that refuses, a crash",
    roles: [reader(2), tokenWriter(2)], environment: { restart: 2, journalFails: 1, crash: 1 }, isJournaled: true },
  { name: "durable tokens: text and binary, a restart and a lost reply",
    roles: [reader(1, readers.binaryReader), tokenWriter(1), tokenWriter(1, tokenWriters.binaryTokenWriter)],
    environment: { restart: 1, loseReply: 1 }, isJournaled: true },
  { name: "tokens: two writers are dropped or release, two readers",
    roles: [reader(2), tokenWriter(2), other("operator", others.dropper)], environment: { time: 1, restart: 1 },
    values: "at rest" },
];

/** Larger scenarios, which only `deno task explore` runs. */
export const LARGE: readonly Row[] = [
  ...LARGE_LEASES,
  ...LARGE_CLIENT_CACHES,
  ...LARGE_TOKENS.map((row): Row => ({ values: "always", ...row })),
];

/** Scenarios too large to visit all of their states. */
// deno-fmt-ignore
export const WALKS: readonly Row[] = [
  { name: "random ways: leases",
    roles: [reader(4), reader(2, readers.mcrouterReader), reader(2, readers.metaReader), reader(2,
      readers.slowReader), writer(6), writer(2, writers.warmingWriter)],
    environment: { time: 6, evict: 6 } },
  { name: "random ways: durable tokens at two caches",
    roles: [reader(4), reader(4, atCache(1, readers.reader)), reader(2, readers.metaReader), reader(2, atCache(1,
      readers.mcrouterReader)), tokenWriter(6, tokenWriters.twoCachesWriter)],
    environment: { time: 6, pause: 2, evict: 6, restart: 2, crash: 2, loseReply: 4, journalFails: 2 },
    values: "always", caches: 2, isJournaled: true },
];
