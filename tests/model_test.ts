import { checkContest } from "./support/models/contest_property.ts";
import { CONTESTS } from "./support/models/contests.ts";
import { drawSeed, withSeed } from "./support/seed.ts";

const SIZE = { runs: 5, steps: 3000 };

for (const [name, contest] of Object.entries(CONTESTS)) {
  Deno.test(`random operations agree with the model: ${name}`, async () => {
    await withSeed(drawSeed(), (seed) => checkContest(contest, seed, SIZE));
  });
}
