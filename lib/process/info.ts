import type { HashSeed } from "../../store/base/hash.ts";
import manifest from "../../deno.json" with { type: "json" };

/** More threads hardly gain by themselves: whoever has more processors for them says so. */
const THREADS_DEFAULT_MOST = 4;

/** Facts of this process that no option sets. */
export interface ProcessInfo {
  readonly version: string;
  /** Name and version without blanks, like `deno-2.9.6`. */
  readonly runtime: string;
  readonly pid: number;
  /** The wall clock at the start. */
  readonly unixMs: number;
  /** A random number in 0..1. */
  readonly random: number;
  /** 64 secret bits. */
  readonly hashSeed: HashSeed;
  /** Whether the processor keeps the order of loads and the order of stores: see `StoreOptions.optimisticReads`. */
  readonly keepsMemoryOrder: boolean;
  /** Those that it may use, by its affinity and the quota of its control group. */
  readonly processors: number;
}

/** Returns the facts of this process, the wall clock and random numbers included. */
export function readProcessInfo(): ProcessInfo {
  const [first] = crypto.getRandomValues(new Uint32Array(1));
  return {
    version: manifest.version,
    runtime: `deno-${Deno.version.deno}`,
    pid: Deno.pid,
    unixMs: Date.now(),
    random: first! / 2 ** 32,
    hashSeed: crypto.getRandomValues(new Int32Array(2)),
    keepsMemoryOrder: Deno.build.arch === "x86_64",
    processors: navigator.hardwareConcurrency,
  };
}

/**
 * Returns the number of worker threads.
 *
 * @param given NaN: left out; then that of the processors, at most 4.
 */
export function threadsOf(given: number, { processors }: Pick<ProcessInfo, "processors">): number {
  return Number.isNaN(given) ? Math.min(processors, THREADS_DEFAULT_MOST) : given;
}
