// Long runs of tests/chaos/*_test.ts: deno task chaos. LEASED_TESTS_SEED chooses the run, and
// LEASED_TESTS_DISTURBANCES its length: 200 take about a minute.
import { drawSeed, withSeed } from "../support/seed.ts";
import { testDatabases } from "../support/servers/databases.ts";
import { runChaos } from "./chaos.ts";
import { runNodesChaos } from "./nodes.ts";
import { runViewsChaos } from "./views.ts";

const DISTURBANCES = Number(Deno.env.get("LEASED_TESTS_DISTURBANCES") ?? 200);

const RUNS = [
  ["two caches, an origin, a stand-by, 8 readers, 4 writers", runChaos],
  ["two nodes, an origin, a stand-by, 9 readers, 3 writers", runNodesChaos],
  ["views at two nodes and an origin, 6 readers, 3 writers at the database", runViewsChaos],
] as const;

for (const [name, run] of RUNS) {
  testDatabases(name, (database) =>
    withSeed(drawSeed(), async (seed) => {
      const ran = await run(database, seed, DISTURBANCES);
      // deno-lint-ignore no-console -- the result of the run
      console.log(JSON.stringify({ seed, ...ran }));
    }));
}
