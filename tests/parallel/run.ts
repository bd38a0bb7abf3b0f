// Threads that read and write one store for as many reads as are wanted: deno task parallel [--help].
import { readOptions, someOf } from "../support/options.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { ParallelThreads } from "./threads.ts";
import { SCENARIOS } from "./scenario.ts";

const { reads, threads, only } = readOptions(Deno.args, {
  /** Keys, of each scenario. */
  reads: 10_000_000,
  threads: Math.min(4, navigator.hardwareConcurrency),
  only: someOf(SCENARIOS.map(({ name }) => name)),
});
using all = await ParallelThreads.start(threads);
for (const scenario of SCENARIOS.filter(({ name }) => only.includes(name))) {
  await withSeed(drawSeed(), async (seed) => {
    const startMs = performance.now();
    const result = await all.run(scenario, { reads, seed });
    const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
    const stats = [...result.stats].map(([name, value]) => `${name} ${value}`);
    print(
      `${scenario.name}: ${result.reads} reads, ${result.hits} hits, ${result.changes} changes, ${result.events} events, ${seconds} s, seed ${seed}`,
    );
    print(`  ${stats.join(", ")}`);
  });
}

function print(line: string): void {
  // deno-lint-ignore no-console
  console.log(line);
}
