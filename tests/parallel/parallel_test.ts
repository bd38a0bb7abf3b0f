import { assertGreater } from "@std/assert";
import { ParallelThreads } from "./threads.ts";
import { SCENARIOS } from "./scenario.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { roundsOf } from "../support/rounds.ts";

// Threads over one store, whose values verify themselves. `deno task parallel` reads more of them.

const THREADS = 4;
/** Keys read in each scenario, unless it says otherwise. */
const READS = roundsOf(50_000);

/** One set of threads for all tests: most of the time would go into their start. */
let threads: ParallelThreads | undefined;
Deno.test.afterAll(() => threads?.[Symbol.dispose]());

for (const scenario of SCENARIOS) {
  Deno.test(`${THREADS} threads read nothing but what is there: ${scenario.name}`, {
    sanitizeOps: false,
    sanitizeResources: false,
  }, () =>
    withSeed(drawSeed(), async (seed) => {
      threads ??= await ParallelThreads.start(THREADS);
      const reads = scenario.testReads ?? READS;
      const { hits } = await threads.run(scenario, { reads, seed });
      assertGreater(hits, 0);
    }));
}
