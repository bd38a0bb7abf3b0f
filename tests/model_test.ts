import { CONTESTS } from "./support/models/contests.ts";
import { drawSeed, withSeed } from "./support/seed.ts";

const OPERATIONS = 3000;
const RUNS = 5;

for (const [name, contest] of Object.entries(CONTESTS)) {
  Deno.test(`random operations agree with the model: ${name}`, async () => {
    for (let run = 0; run < RUNS; run++) {
      await withSeed(drawSeed(), (seed) => contest(seed, OPERATIONS));
    }
  });
}
