import { quantile } from "./table.ts";

/** Clock ids of Linux: CLOCK_MONOTONIC and CLOCK_THREAD_CPUTIME_ID. */
const WALL = 1;
const CPU = 3;
/** struct timespec in 32-bit words: seconds (2 words), nanoseconds (2 words). */
const NANOSECONDS = 2;

const { symbols: libc } = Deno.dlopen("libc.so.6", {
  clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
});
const words = new Int32Array(4);

function nowUs(clock: number): number {
  libc.clock_gettime(clock, words);
  return words[0]! * 1e6 + words[NANOSECONDS]! / 1000;
}

/** Time of each piece of work, in microseconds. */
export interface Took {
  readonly wallUs: Float32Array;
  /** CPU time of this thread. It mostly, but not always, excludes time that the host takes away. */
  readonly cpuUs: Float32Array;
}

/** Times pieces of work one after another, by two clocks. */
export class Timings {
  readonly #wallUs: number[] = [];
  readonly #cpuUs: number[] = [];
  #startWallUs = 0;
  #startCpuUs = 0;

  start(): void {
    this.#startWallUs = nowUs(WALL);
    this.#startCpuUs = nowUs(CPU);
  }

  stop(): void {
    const [cpuUs, wallUs] = [nowUs(CPU), nowUs(WALL)];
    this.#cpuUs.push(cpuUs - this.#startCpuUs);
    this.#wallUs.push(wallUs - this.#startWallUs);
  }

  get took(): Took {
    return { wallUs: Float32Array.from(this.#wallUs), cpuUs: Float32Array.from(this.#cpuUs) };
  }
}

/**
 * The least that each piece took in any round. Rounds of the same work in the same order take the
 * same time, but for what the machine, the host and the engine do meanwhile; that comes at another
 * piece in every round, so it is left out.
 *
 * @throws RangeError when the rounds are of unlike length: then they did other work.
 */
export function leastOf(rounds: readonly Took[]): Took {
  const [first, ...others] = rounds;
  const least = { wallUs: first!.wallUs.slice(), cpuUs: first!.cpuUs.slice() };
  for (const { wallUs, cpuUs } of others) {
    if (wallUs.length !== least.wallUs.length) {
      throw new RangeError(`Cannot compare ${wallUs.length} with ${least.wallUs.length} pieces`);
    }
    for (let at = 0; at < wallUs.length; at++) {
      least.wallUs[at] = Math.min(least.wallUs[at]!, wallUs[at]!);
      least.cpuUs[at] = Math.min(least.cpuUs[at]!, cpuUs[at]!);
    }
  }
  return least;
}

/** The pieces for which `wanted` says so. */
export function only({ wallUs, cpuUs }: Took, wanted: (piece: number) => boolean): Took {
  const pick = (of: Float32Array): Float32Array => of.filter((_, piece) => wanted(piece));
  return { wallUs: pick(wallUs), cpuUs: pick(cpuUs) };
}

const SHARES = { "p50": 0.5, "p99.9": 0.999, "p99.999": 0.99999 };

/** Heads of the columns that `spread` returns. */
export const SPREAD_HEADS = ["pieces", ...Object.keys(SHARES), "longest", "by wall clock"];

/** Cells of a table: quantiles of the CPU time, and the longest piece by both clocks, in microseconds. */
export function spread({ wallUs, cpuUs }: Took): string[] {
  const sorted = cpuUs.toSorted();
  const longest = [sorted.at(-1) ?? 0, wallUs.reduce((most, one) => Math.max(most, one), 0)];
  const figures = [...Object.values(SHARES).map((share) => quantile(sorted, share)), ...longest];
  const short = (us: number): string => us.toFixed(us < 10 ? 1 : 0);
  return [cpuUs.length.toLocaleString("en"), ...figures.map(short)];
}
