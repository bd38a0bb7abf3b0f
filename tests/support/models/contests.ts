import { assertEquals } from "@std/assert";
import { Contest } from "./contest.ts";
import type { PlayContest } from "./contest_property.ts";
import { leaseContest } from "./lease_contest.ts";
import { type OperationRanges, TIMELESS } from "./operations.ts";

const LARGE: OperationRanges = {
  valueLengthMax: 120_000,
  coldKeys: 60,
  exptimes: [...TIMELESS, 1, 2, 3, 10],
  flushDelaysSec: [-1, 0, 1, 2, 3, 4],
  numberBits: [1, 4, 8, 31, 32, 33, 53, 54, 63, 64],
};
const SMALL: OperationRanges = { ...LARGE, valueLengthMax: 5000, coldKeys: 100 };
const MANY: OperationRanges = { ...LARGE, coldKeys: 2000 };

const TOKEN_OPTIONS = ["-m", "64", "--tokens", "volatile"];

function contest(options: readonly string[], ranges: OperationRanges): PlayContest {
  return ({ seed, steps }) => {
    new Contest(seed, options, ranges).run(steps);
  };
}

/** Random operations against the model, in stores of several kinds. */
export const CONTESTS: Readonly<Record<string, PlayContest>> = {
  "memory enough": ({ seed, steps }) => {
    const plenty = new Contest(seed, ["-m", "64"], LARGE);
    plenty.run(steps);
    assertEquals(plenty.evicted, 0, "nothing is evicted");
  },
  "memcached's slab layout": contest(["-m", "128", "-o", "slab_layout=memcached"], LARGE),
  "memory short": contest(["-m", "2", "-I", "200k"], MANY),
  "locks": contest(["-m", "64", "--lock-limit-per-conn=20"], { ...LARGE, locks: true }),
  "locks, few, and memory short": contest(
    ["-m", "2", "-I", "100k", "--lock-limit=5", "--lock-limit-per-conn=3"],
    { ...MANY, locks: true },
  ),
  "locks and update tokens": contest(TOKEN_OPTIONS, { ...LARGE, locks: true, tokens: true }),
  "update tokens, and memory short": contest(
    [...TOKEN_OPTIONS, "-m", "2", "-I", "100k", "--token-entries", "2000"],
    { ...MANY, tokens: true },
  ),
  "small items only": contest(["-I", "4k"], SMALL),
  "leases and update tokens": leaseContest,
};
