import type { ProcessFacts } from "../cli/options.ts";
import { VERSION } from "../version.ts";

/** What this process is: the one place that asks for the wall clock and for chance at the start. */
export function processFacts(): ProcessFacts {
  const [first, second] = crypto.getRandomValues(new Uint32Array(2));
  return {
    version: VERSION,
    runtime: `deno-${Deno.version.deno}`,
    pid: Deno.pid,
    unixMs: Date.now(),
    random: [first! / 2 ** 32, second! / 2 ** 32],
  };
}
