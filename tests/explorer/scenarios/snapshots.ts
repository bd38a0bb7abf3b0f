import * as readers from "../actors/readers.ts";
import * as writers from "../actors/token_writers.ts";
import * as mutations from "../mutations.ts";
import type { Row } from "../scenario.ts";
import { plainSetters, reader, tokenWriter, writer } from "./roles.ts";

// Caches that restart with a snapshot between any two steps. With update tokens every cached value equals the committed
// one at every moment; with leases, whenever no writer is at work.

// deno-fmt-ignore
const TOKENS: readonly Row[] = [
  { name: "snapshot: durable tokens, two restarts, expiry",
    roles: [reader(2), tokenWriter(1)], environment: { time: 1, cleanRestart: 2 }, isJournaled: true },
  { name: "snapshot: durable tokens, two writers, one may crash",
    roles: [reader(1), tokenWriter(2)], environment: { crash: 1, cleanRestart: 1 }, isJournaled: true, filled: true },
  { name: "snapshot: durable tokens, a clean restart and a crash of the cache",
    roles: [reader(1), tokenWriter(1)], environment: { restart: 1, cleanRestart: 1 }, isJournaled: true, filled: true },
  { name: "snapshot: durable tokens, a lost reply",
    roles: [reader(1), tokenWriter(1)], environment: { loseReply: 1, cleanRestart: 1 }, isJournaled: true,
    mustEndWithoutTokens: true },
  { name: "snapshot: tokens are lost, and the release of an unknown one invalidates",
    roles: [reader(2), tokenWriter(1)], environment: { time: 1, cleanRestart: 1 }, values: "at rest" },
  { name: "snapshot: tokens are lost; quarantine outlives the writer",
    roles: [reader(2), tokenWriter(1)], environment: { cleanRestart: 1 }, quarantineSec: 1000, filled: true,
    ignores: ["S4"] },
  { name: "snapshot: values in pieces, lease-get and mg N",
    roles: [reader(1, readers.slowReader), reader(1, readers.mcrouterReader), reader(1, readers.metaReader),
      tokenWriter(1)],
    environment: { cleanRestart: 1 }, isJournaled: true },
  { name: "snapshot: writers that lock first",
    roles: [reader(1), tokenWriter(2, writers.lockingTokenWriter)], environment: { cleanRestart: 1 }, isJournaled: true,
    filled: true },
];

// deno-fmt-ignore
const LEASES: readonly Row[] = [
  { name: "snapshot: two writers that invalidate",
    roles: [reader(2), writer(2)], environment: { time: 1, cleanRestart: 1 }, values: "at rest", filled: true },
  { name: "snapshot: plain setters under --strict",
    roles: [reader(2), writer(1), plainSetters(1)], environment: { time: 1, cleanRestart: 2 }, values: "at rest",
    options: ["--strict", "*"] },
];

// deno-fmt-ignore
const FAULTS: readonly Row[] = [
  { name: "fault: a snapshot is loaded again after a crash",
    roles: [reader(1), tokenWriter(1)], environment: { restart: 1, cleanRestart: 1 }, isJournaled: true, filled: true,
    onRestart: mutations.snapshotIsLoadedAgain, wrongAfter: 4 },
  { name: "fault: a snapshot is loaded again after a crash, under leases",
    roles: [reader(1), writer(1)], environment: { restart: 1, cleanRestart: 1 }, values: "at rest", filled: true,
    onRestart: mutations.snapshotIsLoadedAgain, wrongAfter: 4 },
  { name: "fault: ids begin anew after a snapshot",
    roles: [reader(2)], environment: { cleanRestart: 1 }, repeatsIds: true, wrongAfter: 3 },
];

/** Scenarios of `--snapshot`. */
export const SNAPSHOTS: readonly Row[] = [
  ...[...TOKENS, ...FAULTS].map((row): Row => ({ values: "always", ...row })),
  ...LEASES,
];
