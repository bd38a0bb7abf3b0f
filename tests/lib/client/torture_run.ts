// Long runs of tests/lib/client/torture_test.ts: deno task torture [requests]. LEASED_TESTS_SEED chooses the run.
import { drawSeed, withSeed } from "../../support/seed.ts";
import { tortureAll } from "./torture.ts";

await withSeed(drawSeed(), async (seed) => {
  const ran = await tortureAll(Number(Deno.args[0] ?? 10_000_000), seed);
  // deno-lint-ignore no-console -- the result of the run
  console.log(JSON.stringify({ seed, ...ran }));
});
