import { MIB } from "../../store/limits.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import type { ChangedOptions } from "../support/store.ts";
import { type ChaosRanges, StoreChaos } from "../support/load/store_chaos.ts";

const SMALL: ChaosRanges = {
  keys: 2500,
  valueLengthMax: 600,
  longLengthMax: 30_000,
  operations: 4000,
  checkEvery: 1,
};
const MIXED: ChaosRanges = {
  keys: 5000,
  valueLengthMax: 3000,
  longLengthMax: 200_000,
  operations: 30_000,
  checkEvery: 200,
};
const LARGE: ChaosRanges = {
  keys: 200,
  valueLengthMax: 100_000,
  longLengthMax: 2 * MIB - 1000,
  operations: 4000,
  checkEvery: 100,
};

const RUNS: readonly (readonly [string, ChangedOptions, ChaosRanges])[] = [
  ["small values, little memory", { memoryLimitBytes: 1 * MIB }, SMALL],
  ["mixed sizes, little memory", { memoryLimitBytes: 4 * MIB }, MIXED],
  ["mixed sizes, little memory, no evictions", {
    memoryLimitBytes: 4 * MIB,
    evictions: false,
  }, MIXED],
  ["mixed sizes, the limit moves", { memoryLimitBytes: 8 * MIB }, { ...MIXED, memoryLimit: true }],
  ["layout memcached", {
    memoryLimitBytes: 48 * MIB,
    slabLayout: "memcached",
    growthFactor: 1.25,
  }, MIXED],
  ["long values", { memoryLimitBytes: 16 * MIB, itemSizeMaxBytes: 4 * MIB }, LARGE],
  ["long values, layout memcached", {
    memoryLimitBytes: 64 * MIB,
    itemSizeMaxBytes: 4 * MIB,
    slabLayout: "memcached",
    growthFactor: 1.25,
  }, LARGE],
];

for (const [name, options, ranges] of RUNS) {
  Deno.test(`random operations leave the store whole: ${name}`, async () => {
    await withSeed(drawSeed(), (seed) => {
      const run = new StoreChaos(seed, { leaseEntries: 100, ...options }, ranges);
      run.run();
    });
  });
}
