// Visits all states of every scenario: `deno task explore [words of a name]`. Prints the shortest
// way to each wrong state as a transcript, and ends with status 1 when anything came out otherwise
// than expected. Last come random ways through scenarios that are larger still.
import process from "node:process";
import { randomFrom } from "../support/random.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { explore, walk, type Wrong } from "./explore.ts";
import { WALKS } from "./scenarios/large.ts";
import { EXPLORED, type Explored, LARGE_EXPLORED } from "./scenarios/rows.ts";
import { World } from "./world.ts";

/** On all random ways through a scenario together. */
const WALK_STEPS = 300_000;

const wanted = Deno.args.join(" ");
let surprises = 0;
for (const scenario of [...EXPLORED, ...LARGE_EXPLORED]) {
  if (!scenario.name.includes(wanted)) continue;
  report(scenario, () => {
    const { states, wrong } = explore(scenario.world());
    return { size: `${states} states`, wrong };
  });
}
for (const row of WALKS) {
  if (!row.name.includes(wanted)) continue;
  await withSeed(drawSeed(), (seed) => {
    report(row, () => {
      const wrong = walk(new World(row), WALK_STEPS, randomFrom(seed));
      return { size: `${WALK_STEPS} steps, seed ${seed}`, wrong };
    });
  });
}
if (surprises > 0) Deno.exit(1);

type Expected = Pick<Explored, "name" | "wrongAfter" | "why">;

function report(row: Expected, run: () => { size: string; wrong: Wrong | undefined }): void {
  const start = process.cpuUsage();
  const { size, wrong } = run();
  const { user, system } = process.cpuUsage(start);
  const seconds = ((user + system) / 1e6).toFixed(1);
  const result = wrong === undefined ? "ok" : `wrong after ${wrong.steps} steps`;
  const isExpected = wrong?.steps === row.wrongAfter;
  if (!isExpected) surprises++;
  const expected = isExpected ? "" : ", which was NOT EXPECTED";
  // deno-lint-ignore no-console
  console.log(`${row.name}: ${result}${expected} (${size}, ${seconds} s of CPU)`);
  // deno-lint-ignore no-console
  if (wrong !== undefined) console.log(`\n${row.why ?? ""}\n${wrong.transcript}`);
}
