// Visits all states of every scenario: `deno task explore [words of a name]`. Prints the shortest
// way to each wrong state as a transcript, and ends with status 1 when anything came out otherwise
// than expected.
import { explore } from "./explore.ts";
import type { Row } from "./scenario.ts";
import { LARGE } from "./scenarios/large.ts";
import { ROWS } from "./scenarios/rows.ts";
import { World } from "./world.ts";

const wanted = Deno.args.join(" ");
let surprises = 0;
for (const row of [...ROWS, ...LARGE]) {
  if (row.name.includes(wanted)) report(row);
}
if (surprises > 0) Deno.exit(1);

function report(row: Row): void {
  const startMs = performance.now();
  const { states, wrong } = explore(new World(row));
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1);
  const result = wrong === undefined ? "ok" : `wrong after ${wrong.steps} steps`;
  const isExpected = wrong?.steps === row.wrongAfter;
  if (!isExpected) surprises++;
  const expected = isExpected ? "" : ", which was NOT EXPECTED";
  // deno-lint-ignore no-console
  console.log(`${row.name}: ${result}${expected} (${states} states, ${seconds} s)`);
  // deno-lint-ignore no-console
  if (wrong !== undefined) console.log(`\n${wrong.transcript}`);
}
