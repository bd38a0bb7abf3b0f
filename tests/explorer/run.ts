// Visits all states of every scenario: `deno task explore [words of a name]`. Prints the shortest
// way to each wrong state as a transcript, and ends with status 1 when anything came out otherwise
// than expected. Last come random ways through scenarios that are larger still.
import process from "node:process";
import { randomFrom } from "../support/random.ts";
import { drawSeed, withSeed } from "../support/seed.ts";
import { explore, walk, type Wrong } from "./explore.ts";
import { BUCKETS } from "./scenarios/buckets.ts";
import { LARGE, WALKS } from "./scenarios/large.ts";
import { LARGE_ORIGINS, ORIGINS } from "./scenarios/origins.ts";
import { RIGHTS } from "./scenarios/rights.ts";
import { ROWS } from "./scenarios/rows.ts";
import { OriginWorld } from "./origins/origin_world.ts";
import { RightWorld } from "./origins/right_world.ts";
import { BucketWorld } from "./versions/bucket_world.ts";
import { World } from "./world.ts";

/** On all random ways through a scenario together. */
const WALK_STEPS = 300_000;

const wanted = Deno.args.join(" ");
let surprises = 0;
for (const row of [...ROWS, ...LARGE]) {
  if (!row.name.includes(wanted)) continue;
  report(row, () => {
    const { states, wrong } = explore(new World(row));
    return { size: `${states} states`, wrong };
  });
}
for (const scenario of BUCKETS) {
  if (!scenario.name.includes(wanted)) continue;
  report(scenario, () => {
    const { states, wrong } = explore(new BucketWorld(scenario));
    return { size: `${states} states`, wrong };
  });
}
for (const scenario of [...ORIGINS, ...LARGE_ORIGINS]) {
  if (!scenario.name.includes(wanted)) continue;
  report(scenario, () => {
    const { states, wrong } = explore(new OriginWorld(scenario));
    return { size: `${states} states`, wrong };
  });
}
for (const scenario of RIGHTS) {
  if (!scenario.name.includes(wanted)) continue;
  report(scenario, () => {
    const { states, wrong } = explore(new RightWorld(scenario));
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

interface Expected {
  readonly name: string;
  readonly wrongAfter?: number;
  readonly why?: string;
}

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
