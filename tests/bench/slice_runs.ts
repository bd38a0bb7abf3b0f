// deno-lint-ignore-file no-console -- a bench prints
import { randomFrom } from "../support/random.ts";
import type { ChangedOptions } from "../support/store.ts";
import { deadlineSec } from "../../store/clock.ts";
import { MIB } from "../../store/limits.ts";
import { StoreTarget } from "./replay/store_target.ts";
import { leastOf, longest, spread, Timings } from "./timings.ts";

/** A worst case for maintenance and for requests that move pages. Each repetition does the same work. */
interface SliceRun {
  readonly options: ChangedOptions;
  /** @param sets Times each request that may have to make room. */
  play(target: StoreTarget, sets: Timings, random: () => number): void;
}

const KEY_SIZE = 8;
const ROUNDS = 3;
const SLICE_US_MAX = 200;
const REQUESTS_PER_TICK = 256;

/** Sets `count` new keys from `first` on. */
function timedSets(
  target: StoreTarget,
  sets: Timings,
  first: number,
  count: number,
  valueSize: () => number,
  ttlSeconds: () => number = () => 0,
): void {
  for (let at = 0; at < count; at++) {
    const [size, ttl] = [valueSize(), ttlSeconds()];
    sets.start();
    target.set(first + at, KEY_SIZE, size, ttl);
    sets.stop();
    if (at % REQUESTS_PER_TICK === 0) target.tick(0);
  }
}

/** Fills the store until it evicts. Returns how many keys there are. */
function fill(target: StoreTarget, valueSize: number, ttlSeconds = 0): number {
  let keys = 0;
  while (target.evicted === 0) target.set(keys++, KEY_SIZE, valueSize, ttlSeconds);
  return keys;
}

/** Fills the store and reads every item as often as the queues count reads. */
function fillHot(target: StoreTarget, valueSize: number): number {
  const keys = fill(target, valueSize);
  for (let reads = 0; reads < 3; reads++) {
    for (let key = 0; key < keys; key++) target.get(key, KEY_SIZE, valueSize);
  }
  return keys;
}

/** Sweeps until every dead item is freed. */
function sweep(target: StoreTarget, seconds: number): void {
  for (let tick = 1; tick <= seconds * 10; tick++) target.tick(1e6 + tick * 100);
}

const NEW_KEYS = 1 << 28;

/** Runs of the store's bench that time every slice, by name. */
const RUNS: Record<string, SliceRun> = {
  // Sizes that change, expiry, evictions: everything at once.
  "slices-mixed": {
    options: { memoryLimitBytes: 1024 * MIB },
    play(target, sets, random): void {
      for (let part = 0; part < 4; part++) {
        const scale = 2 ** (part % 3);
        const size = (): number => Math.floor(20 + random() * 600 * scale);
        const ttl = (): number => random() < 0.5 ? 0 : 1 + Math.floor(random() * 10);
        timedSets(target, sets, part * 1_000_000, 1_000_000, size, ttl);
      }
    },
  },
  // Values of a new size arrive in a store whose items are all hot.
  "slices-hot": {
    options: { memoryLimitBytes: 64 * MIB },
    play(target, sets): void {
      fillHot(target, 4);
      timedSets(target, sets, NEW_KEYS, 20_000, () => 3000);
      timedSets(target, sets, 2 * NEW_KEYS, 20_000, () => 4);
    },
  },
  "slices-limit": {
    options: { memoryLimitBytes: 64 * MIB },
    play(target): void {
      fillHot(target, 100);
      target.cache.setMemoryLimit(32 * MIB);
      sweep(target, 10);
    },
  },
  "slices-small": {
    options: { memoryLimitBytes: 64 * MIB },
    play(target): void {
      fill(target, 4, 100_000);
      target.cache.flushAll(0);
      sweep(target, 20);
    },
  },
  "slices-large": {
    options: { memoryLimitBytes: 64 * MIB },
    play(target): void {
      fill(target, 1_000_000, 1000);
      sweep(target, 10);
    },
  },
  "slices-leases": {
    options: { memoryLimitBytes: 64 * MIB, leaseEntries: 100_000 },
    play(target): void {
      for (let key = 0; key < 100_000; key++) {
        target.name(key, KEY_SIZE);
        target.operation.deadlineSec = deadlineSec(target.memory, 5);
        target.cache.getOrLease(target.operation);
      }
      sweep(target, 10);
    },
  },
  "slices-waits": {
    options: { connectionsMax: 20_000, lockLimits: { waitersPerLockMax: 20_000 } },
    play(target): void {
      target.set(1, KEY_SIZE, 4, 0);
      for (let owner = 1; owner <= 20_000; owner++) {
        target.name(1, KEY_SIZE);
        Object.assign(target.operation, { owner, waitMs: 5000 + owner % 1000 });
        target.cache.lock(target.operation);
      }
      sweep(target, 10);
    },
  },
};

function play(
  { options, play }: SliceRun,
): { slices: Timings; sets: Timings; target: StoreTarget } {
  const target = new StoreTarget(options);
  const sets = new Timings();
  play(target, sets, randomFrom(1));
  return { slices: target.slices, sets, target };
}

function run(name: string, sliceRun: SliceRun): void {
  const rounds = Array.from({ length: ROUNDS }, () => play(sliceRun));
  const slices = leastOf(rounds.map((round) => round.slices.took));
  const sets = leastOf(rounds.map((round) => round.sets.took));
  const above = slices.cpuUs.filter((us) => us > SLICE_US_MAX).length;
  const { target } = rounds[0]!;
  console.log(
    [
      name.padEnd(13),
      `${slices.cpuUs.length} slices: ${spread(slices)}, above ${SLICE_US_MAX}: ${above}`,
      `requests: max ${longest(sets.cpuUs).toFixed(0)} us`,
      `moved ${target.stat("pages_moved")}, swept ${target.swept}, evicted ${target.evicted}`,
    ].join("  "),
  );
}

export const SLICE_RUNS: Record<string, () => void> = Object.fromEntries(
  Object.entries(RUNS).map(([name, sliceRun]) => [name, () => run(name, sliceRun)]),
);
