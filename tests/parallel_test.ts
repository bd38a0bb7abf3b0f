import { assertGreater } from "@std/assert";
import { runParallel } from "./support/parallel/run.ts";
import { SCENARIOS } from "./support/parallel/scenario.ts";
import { drawSeed, withSeed } from "./support/seed.ts";

// Threads over one store, whose values verify themselves. `deno task parallel` reads more of them.

const THREADS = 4;
/** Keys read in each scenario. */
const READS = 25_000;

for (const scenario of SCENARIOS) {
  Deno.test(`${THREADS} threads read nothing but what is there: ${scenario.name}`, () =>
    withSeed(drawSeed(), async (seed) => {
      const { hits } = await runParallel(scenario, { threads: THREADS, reads: READS, seed });
      assertGreater(hits, 0);
    }));
}
