import type { HashSeed } from "../store/base/hash.ts";
import manifest from "../deno.json" with { type: "json" };

/** What this run is like that no option says. */
export interface ProcessInfo {
  readonly version: string;
  /** In one word, like `deno-2.9.6`. */
  readonly runtime: string;
  readonly pid: number;
  /** The wall clock. */
  readonly unixMs: number;
  /** A random number in 0..1. */
  readonly random: number;
  /** 64 secret bits. */
  readonly hashSeed: HashSeed;
}

/** What this process is: the one place that asks for the wall clock and for chance at the start. */
export function readProcessInfo(): ProcessInfo {
  const [first] = crypto.getRandomValues(new Uint32Array(1));
  return {
    version: manifest.version,
    runtime: `deno-${Deno.version.deno}`,
    pid: Deno.pid,
    unixMs: Date.now(),
    random: first! / 2 ** 32,
    hashSeed: crypto.getRandomValues(new Int32Array(2)),
  };
}
