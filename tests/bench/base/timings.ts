import { quantile } from "./measure.ts";

/** A clock of Linux: CLOCK_THREAD_CPUTIME_ID. It mostly, but not always, excludes time that the host takes away. */
const THREAD_CPU = 3;
/** struct timespec in 32-bit words: seconds (2 words), nanoseconds (2 words). */
const NANOSECONDS = 2;

const { symbols: libc } = Deno.dlopen("libc.so.6", {
  clock_gettime: { parameters: ["i32", "buffer"], result: "i32" },
});
const words = new Int32Array(4);

function cpuUs(): number {
  libc.clock_gettime(THREAD_CPU, words);
  return words[0]! * 1e6 + words[NANOSECONDS]! / 1000;
}

/** Times pieces of work one after another, by the CPU time of this thread in microseconds. */
export class Timings {
  readonly #us: number[] = [];
  #startUs = 0;

  start(): void {
    this.#startUs = cpuUs();
  }

  stop(): void {
    this.#us.push(cpuUs() - this.#startUs);
  }

  get took(): Float32Array {
    return Float32Array.from(this.#us);
  }
}

/**
 * The least that each piece took in any round. Rounds of the same work in the same order take the
 * same time, but for what the machine, the host and the engine do meanwhile; that comes at another
 * piece in every round, so it is left out.
 *
 * @throws RangeError when the rounds are of unlike length: then they did other work.
 */
export function leastOf([first, ...others]: readonly Float32Array[]): Float32Array {
  for (const { length } of others) {
    if (length === first!.length) continue;
    throw new RangeError(`Cannot compare ${length} with ${first!.length} pieces`);
  }
  return first!.map((us, at) => Math.min(us, ...others.map((other) => other[at]!)));
}

const SHARES = { "p50": 0.5, "p99.9": 0.999, "p99.999": 0.99999, "longest": 1 };

/** Heads of the columns that `pieces` returns. */
export const PIECES_HEADS = ["pieces", ...Object.keys(SHARES)];

/** Cells of a table: quantiles of the CPU time of pieces, in microseconds. */
export function pieces(us: Float32Array): string[] {
  const sorted = us.toSorted();
  const figures = Object.values(SHARES).map((share) => quantile(sorted, share));
  return [us.length.toLocaleString("en"), ...figures.map((one) => one.toFixed(one < 10 ? 1 : 0))];
}
